#include "fit/nn/attention/attention_recording.hpp"

#include <cmath>

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

namespace fit::test::attention_recording_test {
using Catch::Matchers::Contains;

namespace {

AttentionRecording with(const Tensor& weights, const AttentionRecordOptions& o = {}) {
  AttentionRecording r;
  r.add("layer", weights, o);
  return r;
}

}  // namespace

TEST_CASE("a recording keeps one element of the batch, and counts the calls of a layer within a step") {
  AttentionRecording recording;
  auto o = AttentionRecordOptions().element(1);
  const Tensor w = softmax(randn({3, 2, 4, 4}));
  recording.add("a", w, o);
  recording.add("a", w, o);
  recording.add("b", w, o);
  o.step(7);
  recording.add("a", w, o);
  REQUIRE(recording.records().size() == 4);
  CHECK(equal(recording.records()[0].weights, w[1]));
  CHECK(recording.records()[0].weights.shape() == Shape{2, 4, 4});
  const std::vector<std::int64_t> calls{0, 1, 0, 0};
  for (std::size_t i = 0; i < 4; ++i) CHECK(recording.records()[i].call == calls[i]);
  CHECK(recording.records()[3].step == 7);
  CHECK(recording.bytes() == 4 * 2 * 16 * 4);
}

TEST_CASE("what is recorded does not follow later changes of the weights") {
  Tensor w = full({1, 2, 2}, 0.5);
  const AttentionRecording recording = with(w);
  w.fill_(0.25);
  CHECK(max(recording.records()[0].weights).item() == 0.5);
}

TEST_CASE("a mask of every shape becomes one of the kept element") {
  const Tensor w = full({2, 3, 4, 4}, 0.25);
  for (const Shape& s :
       {Shape{4, 4}, Shape{1, 4}, Shape{2, 1, 4}, Shape{1, 4, 4}, Shape{2, 3, 4, 4}, Shape{1, 1, 1, 4}}) {
    CAPTURE(s);
    const AttentionRecording recording = with(w, AttentionRecordOptions().element(1).mask(ones(s, boolean)));
    const Tensor& mask = recording.records()[0].mask;
    REQUIRE(mask.rank() == 3);
    CHECK(mask.dtype() == boolean);
    CHECK(mask.size(2) == 4);
  }
  const auto o = AttentionRecordOptions().element(1).mask(create_padding_mask(tensor({{1, 2, 3, 0}, {1, 0, 0, 0}})));
  CHECK(equal(with(w, o).records()[0].mask, tensor({{{true, false, false, false}}})));
}

TEST_CASE("names are given once in self-attention, and as two lists in cross-attention") {
  auto o = AttentionRecordOptions().queries({"a", "b", "c"});
  CHECK(with(full({1, 3, 3}, 0.3), o).records()[0].keys == o.queries());
  // with a cache, the queries are the last of the keys
  const AttentionRecording cached = with(full({1, 1, 3}, 0.3), o);
  CHECK(cached.records()[0].queries == std::vector<std::string>{"c"});
  CHECK(cached.records()[0].keys == o.queries());
  o.kind(AttentionKind::cross).keys({"x", "y"});
  CHECK(with(full({1, 3, 2}, 0.5), o).records()[0].keys == o.keys());
}

TEST_CASE("names can be given later, to a layer and those below it, all or none") {
  AttentionRecording recording;
  recording.add("encoder.0", full({1, 2, 2}, 0.5));
  recording.add("encoder.1", full({1, 2, 2}, 0.5));
  recording.add("encoders", full({1, 3, 3}, 0.3));
  recording.name_tokens("encoder", {"a", "b"});
  CHECK(recording.records()[1].queries == std::vector<std::string>{"a", "b"});
  CHECK(recording.records()[2].queries.empty());
  CHECK_THROWS_WITH(recording.name_tokens("", {"x", "y"}), Contains("'encoders'") && Contains("2 names"));
  CHECK(recording.records()[0].queries == std::vector<std::string>{"a", "b"});
  CHECK_THROWS_WITH(recording.name_tokens("decoder", {"a"}), Contains("no record of 'decoder'"));
}

TEST_CASE("recordings can be put together, and thinned out") {
  AttentionRecording a, b;
  AttentionRecordOptions o;
  for (const std::int64_t step : {0, 5, 10}) {
    o.step(step);
    a.add("x", full({1, 2, 2}, 0.5), o);
    b.add("x", full({1, 2, 2}, 0.25), o);
  }
  a.append(b);
  REQUIRE(a.records().size() == 6);
  CHECK(a.records()[5].call == 1);
  CHECK(max(a.records()[5].weights).item() == 0.25);
  CHECK(a.bytes() == 6 * 16);
  a.append(a);
  CHECK(a.records().size() == 12);
  a.keep_every(10);
  CHECK(a.records().size() == 8);
  CHECK(a.bytes() == 8 * 16);
  CHECK_THROWS_WITH(a.keep_every(0), Contains("every is 0"));
}

TEST_CASE("a recording refuses what cannot be attention") {
  AttentionRecording recording;
  CHECK_THROWS_WITH(recording.add("a", ones({3, 3})), Contains("[AttentionRecording]") && Contains("[3, 3]"));
  CHECK_THROWS_WITH(recording.add("a", ones({0, 2, 3, 3})), Contains("no axis of size 0"));
  CHECK_THROWS_WITH(recording.add("a", ones({1, 3, 3}, int64)), Contains("int64"));
  CHECK_THROWS_WITH(recording.add("a", full({1, 3, 3}, -0.5)), Contains("-0.5") && Contains("not negative"));
  CHECK_THROWS_WITH(recording.add("a", full({1, 3, 2}, 0.5)), Contains("self-attention"));
  const auto refuses = [&](const AttentionRecordOptions& o, const char* why) {
    CHECK_THROWS_WITH(recording.add("a", full({2, 1, 3, 3}, 0.3), o), Contains(why));
  };
  refuses(AttentionRecordOptions().element(2), "0 … 1");
  refuses(AttentionRecordOptions().element(-1), "0 … 1");
  for (const Shape& s : {Shape{2, 3}, Shape{3}, Shape{3, 4}, Shape{2, 2, 1, 3}, Shape{1, 1, 1, 1, 3}})
    refuses(AttentionRecordOptions().mask(ones(s, boolean)), ("mask is " + s.str()).c_str());
  refuses(AttentionRecordOptions().element(1).mask(ones({1, 3, 3, 3}, boolean)), "mask is [1, 3, 3, 3]");
  CHECK_THROWS_WITH(recording.add("a", ones({1, 1, 1, 3, 3})), Contains("weights is [1, 1, 1, 3, 3]"));
  refuses(AttentionRecordOptions().mask(full({1, 3}, 0.5)), "0.5");
  refuses(AttentionRecordOptions().window(-1), "window is -1");
  refuses(AttentionRecordOptions().queries({"a", "b"}), "2 names of queries");
  CHECK(recording.records().empty());
  CHECK(recording.bytes() == 0);
}

TEST_CASE("measures of heads whose answer is known") {
  constexpr std::int64_t n = 5;
  Tensor w = zeros({4, n, n});
  const auto at = w.edit<float>();
  for (std::int64_t q = 0; q < n; ++q) {
    at[q * n + q] = 1;                                                          // head 0: itself
    at[n * n + q * n + std::max<std::int64_t>(q - 1, 0)] = 1;                   // head 1: the one before
    for (std::int64_t k = 0; k < n; ++k) at[2 * n * n + q * n + k] = 1.0F / n;  // head 2: all alike
    at[3 * n * n + q * n] = 0.75F, at[3 * n * n + q * n + n - 1] += 0.25F;      // head 3: the first, and the last
  }
  AttentionRecording recording = with(w);
  const std::vector<HeadMeasures> m = head_measures(recording.records()[0]);
  REQUIRE(m.size() == 4);
  CHECK(m[0].entropy == Approx(0).margin(1e-12));
  CHECK(m[2].entropy == Approx(std::log(5)));
  CHECK(m[3].entropy == Approx(-0.75 * std::log(0.75) - 0.25 * std::log(0.25)));
  CHECK(m[0].distance == 0);
  CHECK(m[1].distance == Approx(0.8));  // the first has none before it
  CHECK(m[2].distance == Approx((0 + 1 + 2 + 3 + 4 + 1 + 0 + 1 + 2 + 3 + 2 + 1 + 0 + 1 + 2) * 2 / 25.0 - 6 / 25.0));
  CHECK(m[0].self == 1);
  CHECK(m[1].self == Approx(0.2));
  CHECK(m[1].previous == 1);
  CHECK(m[0].previous == 0);
  CHECK(m[3].first == Approx(0.75));
  // of head 0 and the mean of the others, in each row: 1 and what they give to the diagonal
  double others = 0;
  for (std::int64_t q = 0; q < n; ++q)
    others += ((q == 0 ? 1 : 0) + 0.2 + (q == 0 ? 0.75 : q == n - 1 ? 0.25 : 0)) / 3 / n;
  CHECK(m[0].agreement == Approx(others));
}

TEST_CASE("queries that see nothing or are not finite do not count in measures") {
  Tensor w = full({2, 3, 3}, 1.0 / 3);
  w[{0, 1}] = 0;
  w[{0, 2}] = NAN;
  AttentionRecording recording = with(w);
  const std::vector<HeadMeasures> m = head_measures(recording.records()[0]);
  CHECK(m[0].entropy == Approx(std::log(3)));
  CHECK(m[0].self == Approx(1.0 / 3));
  CHECK(m[0].agreement == Approx(1));
  CHECK(std::isnan(m[0].previous));  // only the first query counts, and it has none before it
  CHECK(m[1].agreement == Approx(1));
}

TEST_CASE("a head alone agrees with nobody, and in cross-attention there is no distance") {
  const auto o = AttentionRecordOptions().kind(AttentionKind::cross);
  const HeadMeasures m = head_measures(with(full({1, 3, 2}, 0.5), o).records()[0])[0];
  for (const double v : {m.agreement, m.distance, m.self, m.previous, m.duplicate, m.induction}) CHECK(std::isnan(v));
  CHECK(m.entropy == Approx(std::log(2)));
  CHECK(m.first == 0.5);
}

TEST_CASE("a record that was changed is looked at before it is measured") {
  const auto o = AttentionRecordOptions().kind(AttentionKind::cross);
  AttentionRecord changed = with(full({1, 3, 2}, 0.5), o).records()[0];
  changed.kind = AttentionKind::self;
  CHECK_THROWS_WITH(head_measures(changed), Contains("[head_measures] weights is [1, 3, 2] in self-attention"));
  changed.weights = zeros({1, 3, 0});
  CHECK_THROWS_WITH(head_measures(changed), Contains("with one key or more"));
  changed.weights = zeros({3, 3});
  CHECK_THROWS_WITH(head_measures(changed), Contains("weights is [3, 3] in self-attention"));
  changed.kind = AttentionKind::cross;
  CHECK_THROWS_WITH(head_measures(changed),
                    "[head_measures] weights is [3, 3]: it must be [H, Sq, Sk], with one key or more");
  changed.weights = Tensor();
  CHECK_THROWS_WITH(head_measures(changed), Contains("weights is undefined"));
  AttentionRecord named = with(full({1, 3, 3}, 0.5)).records()[0];
  named.keys = {"a", "b"};
  CHECK_THROWS_WITH(head_measures(named),
                    "[head_measures] keys has 2 names, weights is [1, 3, 3]: there must be 3 names, or none");
}

TEST_CASE("with a cache, a query stands behind the keys before it") {
  const Tensor w = tensor({{{0., 0., 1., 0.}, {0., 0., 0., 1.}}});  // queries 2 and 3 of four keys
  const HeadMeasures m = head_measures(with(w).records()[0])[0];
  CHECK(m.self == 1);
  CHECK(m.distance == 0);
  CHECK(m.previous == 0);
}

}  // namespace fit::test::attention_recording_test
