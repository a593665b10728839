// What pages call a head, measured above what even weights would show.
#include "plot/head_roles.hpp"

#include <cmath>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

namespace fit::test::head_roles_test {
using namespace fit::plot;

namespace {

// The roles of causal heads [H, T, T] over these letters.
std::vector<HeadRoles> roles_of(const Tensor& weights, const std::string& letters) {
  AttentionRecording recording;
  std::vector<std::string> names;
  for (const char c : letters) names.emplace_back(1, c);
  recording.add("layer", weights, AttentionRecordOptions().causal().queries(names));
  const AttentionRecord& r = recording.records()[0];
  return head_roles({{r, masked_pairs(r.mask, r.causal, r.window, r.weights.size(1), r.weights.size(2))}});
}

Tensor even(std::int64_t T) {
  const Tensor seen = tril(ones({T, T}));
  return (seen / sum(seen, -1, keepdims)).unsqueeze(0);
}

// A causal head that gives `share` to key target(q), and the rest evenly to all that query q sees.
template <class F>
Tensor mostly(std::int64_t T, double share, F target) {
  Tensor w = even(T) * (1 - share);
  for (std::int64_t q = 0; q < T; ++q) w[{0, q, target(q)}] = w[{0, q, target(q)}] + share;
  return w;
}

}  // namespace

TEST_CASE("even weights have no role, whatever the text is") {
  for (const char* const text : {"abcdefgh", "aaaaaaaa", "abcabcabc"}) {
    const HeadRoles r = roles_of(even(static_cast<std::int64_t>(std::string(text).size())), text)[0];
    for (const double v : {r.self.value, r.previous.value, r.first.value, r.duplicate.value, r.induction.value})
      CHECK((std::isnan(v) || std::abs(v) < 1e-6));
  }
}

TEST_CASE("a role is the part of the weight above even weights") {
  const auto before = [](std::int64_t q) { return std::max<std::int64_t>(0, q - 1); };
  CHECK(roles_of(mostly(8, 1, before), "abcdefgh")[0].previous.value == Approx(1));
  CHECK(roles_of(mostly(8, 0.6, before), "abcdefgh")[0].previous.value == Approx(0.6));
  CHECK(roles_of(mostly(8, 1, [](std::int64_t) { return 0; }), "abcdefgh")[0].first.value == Approx(1));
  CHECK(roles_of(mostly(8, 1, [](std::int64_t q) { return q; }), "abcdefgh")[0].self.value == Approx(1));
  CHECK(roles_of(mostly(8, 1, [](std::int64_t q) { return q; }), "abcdefgh")[0].first.value <
        0);  // less than by chance
  const auto copy = [](std::int64_t q) { return q >= 5 ? q - 5 : q; };
  CHECK(roles_of(mostly(10, 1, copy), "abcdeabcde")[0].duplicate.value == Approx(1));
  const auto behind_copy = [](std::int64_t q) { return q >= 5 ? q - 4 : q; };
  CHECK(roles_of(mostly(10, 1, behind_copy), "abcdeabcde")[0].induction.value == Approx(1));
}

TEST_CASE("a few queries, and queries without a choice, say nothing") {
  // Of four tokens two queries see three keys or more.
  const HeadRoles short_text = roles_of(mostly(4, 1, [](std::int64_t) { return 0; }), ".ada")[0];
  for (const double v :
       {short_text.self.value, short_text.previous.value, short_text.first.value, short_text.induction.value})
    CHECK(std::isnan(v));
  // Two queries of "katharina" have an earlier copy of their letter.
  CHECK(std::isnan(roles_of(mostly(10, 1, [](std::int64_t q) { return q; }), ".katharina")[0].induction.value));
  // Six tokens: four queries have a choice.
  CHECK(roles_of(mostly(6, 1, [](std::int64_t) { return 0; }), "abcdef")[0].first.value == Approx(1));
  CHECK(std::isnan(roles_of(mostly(5, 1, [](std::int64_t) { return 0; }), "abcde")[0].first.value));
}

TEST_CASE("a role is measured over several texts, and says what even weights give") {
  const auto copy = [](std::int64_t q) { return q >= 3 ? q - 3 : q; };
  AttentionRecording recording;
  for (const char* const letters : {"abcabc", "defdef"}) {
    std::vector<std::string> names;
    for (const char* c = letters; *c; ++c) names.emplace_back(1, *c);
    recording.add("layer", mostly(6, 0.5, copy), AttentionRecordOptions().causal().queries(names));
  }
  std::vector<MaskedRecord> records;
  for (const AttentionRecord& r : recording.records())
    records.push_back({r, masked_pairs(r.mask, r.causal, r.window, 6, 6)});
  CHECK(std::isnan(head_roles({records[0]})[0].duplicate.value));  // three queries of a text are too few
  const HeadRole both = head_roles(records)[0].duplicate;
  const double even = (1. / 4 + 1. / 5 + 1. / 6) / 3;
  CHECK(both.even == Approx(even));
  CHECK(both.weight == Approx(0.5 + 0.5 * even));
  CHECK(both.value == Approx(0.5));
}

TEST_CASE("rows that are not finite do not count; cross-attention has the first key alone") {
  Tensor w = mostly(8, 1, [](std::int64_t) { return 0; });
  w[{0, 7}] = NAN;
  CHECK(roles_of(w, "abcdefgh")[0].first.value == Approx(1));
  AttentionRecording recording;
  recording.add("cross", cat({ones({1, 5, 1}), zeros({1, 5, 3})}, -1),
                AttentionRecordOptions().kind(AttentionKind::cross));
  const AttentionRecord& r = recording.records()[0];
  const HeadRoles roles = head_roles({{r, masked_pairs({}, false, 0, 5, 4)}})[0];
  CHECK(std::isnan(roles.self.value));
  CHECK(std::isnan(roles.previous.value));
  CHECK(roles.first.value == Approx(1));
}

}  // namespace fit::test::head_roles_test
