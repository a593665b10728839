#include <algorithm>
#include <cmath>

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "support/oracles/attention_problem.hpp"
#include "support/variants.hpp"

// Sinks, lse, and attention merged from parts of the keys.
namespace fit::test::attention_parts_test {
namespace {

Tensor drawn(const Shape& shape, std::uint64_t seed, DType dtype = float64) {
  std::mt19937_64 random(seed);
  return random_tensor(shape, domain::real, random, dtype);
}

struct Parts {
  std::int64_t B = 2, H = 4, Sq = 70, Sk = 90, D = 16;
  Tensor q, k, v, sink;
  explicit Parts(DType dtype = float64)
      : q(drawn({B, H, Sq, D}, 1, dtype)),
        k(drawn({B, H, Sk, D}, 2, dtype)),
        v(drawn({B, H, Sk, D}, 3, dtype)),
        sink(drawn({H}, 4, dtype)) {}
  AttentionResult operator()(const AttentionOptions& o) const {
    return attend(heads_first(q), heads_first(k), heads_first(v), o);
  }
};

// Some options of scores (2, 4, 70, 90), with rows that attend to nothing.
std::vector<AttentionOptions> variants() {
  Tensor mask = drawn({2, 1, 70, 90}, 9) > 0;
  for (std::int64_t i = 0; i < 90; ++i) mask.reshape({-1})[5 * 90 + i] = false;
  return {AttentionOptions(), AttentionOptions().causal(), AttentionOptions().causal().window(20),
          AttentionOptions().mask(mask), AttentionOptions().mask(mask).causal().bias(drawn({70, 90}, 7))};
}

}  // namespace

TEST_CASE("attention: a sink is a key without a value", "[attention]") {
  const Parts p;
  for (const AttentionOptions& given : variants()) {
    each_isa([&] {
      const AttentionResult r = p(AttentionOptions(given).sink(p.sink).lse().weights());
      // One more key at the front, whose score is the sink and whose value is 0.
      const auto in_front = [&](const Tensor& x) { return cat({zeros({2, 4, 1, 16}, float64), x}, 2); };
      const Tensor key_bias = broadcast_to(reshape(p.sink, {1, 4, 1, 1}), {2, 4, 70, 1});
      const Tensor bias = given.bias().defined() ? broadcast_to(reshape(given.bias(), {1, 1, 70, 90}), {2, 4, 70, 90})
                                                 : zeros({2, 4, 70, 90}, float64);
      Tensor mask = ones({2, 1, 70, 90}, boolean);
      if (given.mask().defined()) mask = given.mask();
      const Tensor i = unsqueeze(arange(70) + 20, -1), j = arange(90);
      if (given.causal()) mask = logical_and(mask, le(j, i));
      if (given.window() > 0) mask = logical_and(mask, gt(j, i - given.window()));
      const auto o =
          AttentionOptions().bias(cat({key_bias, bias}, -1)).mask(cat({ones({2, 1, 70, 1}, boolean), mask}, -1)).lse();
      const AttentionResult expected =
          attend(heads_first(p.q), heads_first(in_front(p.k)), heads_first(in_front(p.v)), o);
      CHECK(max_difference(r.output, expected.output) <= 1e-12);
      CHECK(max_difference(r.lse, expected.lse) <= 1e-12);
      CHECK(max_difference(sum(r.weights, {-1}) + exp(reshape(p.sink, {1, 4, 1}) - r.lse), ones({2, 4, 70}, float64)) <=
            1e-12);
    });
  }
}

TEST_CASE("attention: a sink agrees with plain loops under every option", "[attention]") {
  for (const DType dtype : {float32, float64})
    for (const AttentionSizes& n : {AttentionSizes{2, 2, 3, 4, 5, 5}, {1, 4, 70, 130, 8, 3}, {2, 4, 65, 65, 16, 16}}) {
      Problem p(n, dtype, 7, 2);
      p.options.sink(p.draw({n.H}));
      const double tolerance = dtype == float32 ? 2e-3 : 1e-11;
      const auto check = [&](const char* what) {
        INFO(what << ' ' << n << ' ' << dtype);
        check_problem_on_each_isa(p, tolerance);
      };
      check("plain");
      p.options.causal(true);
      check("causal");
      p.options.window(3);
      check("window");
      p.options.causal(false).window(0).mask(p.draw_mask({n.B, 1, n.Sq, n.Sk}));
      check("mask");
      p.options.dropout(0.3).bias(p.draw({n.Sq, n.Sk})).alibi(abs(p.draw({n.H})));
      check("mask, dropout, bias, alibi");
    }
}

TEST_CASE("attention: sinks of zero give the softmax off by one", "[attention]") {
  const Parts p;
  const Tensor e = exp(matmul(p.q, transpose(p.k)) / 4.0);
  const Tensor expected = matmul(e / (1 + sum(e, {-1}, KeepDims::yes)), p.v);
  CHECK(max_difference(p(AttentionOptions().sink(zeros({4}, float64))).output, expected) <= 1e-12);
  const Tensor far = full({4}, -1e30, float64);  // no sink
  CHECK(max_difference(p(AttentionOptions().sink(far)).output, p({}).output) <= 1e-12);
}

TEST_CASE("attention: a sink reaches a cache, and bfloat16", "[attention][bfloat16]") {
  const Tensor q = drawn({2, 5, 64}, 1, float32), k = drawn({2, 5, 64}, 2, float32), v = drawn({2, 5, 64}, 3, float32);
  const Tensor sink = drawn({4}, 4, float32);
  const auto o = AttentionOptions().causal().sink(sink);
  const Tensor all = multi_head_attention(q, k, v, 4, o);
  Tensor keys = zeros({2, 4, 8, 16}), values = zeros({2, 4, 8, 16});
  for (std::int64_t t = 0; t < 5; ++t) {
    const auto at = [t](const Tensor& x) { return slice(x, 1, t, t + 1); };
    CHECK(max_difference(cached_attention(at(q), at(k), at(v), keys, values, t, 4, o), at(all)) <= 1e-5);
  }
  each_bfloat16_isa([&] {
    const auto narrow = [](const Tensor& x) { return x.to(bfloat16); };
    const auto wide = [&](const Tensor& x) { return narrow(x).to(float32); };
    const Tensor y = multi_head_attention(narrow(q), narrow(k), narrow(v), 4, o);
    CHECK(max_difference(y, multi_head_attention(wide(q), wide(k), wide(v), 4, o)) <= 0.02);
  });
}

TEST_CASE("attention: lse is that of the scores, and -inf for a fully masked query", "[attention]") {
  const Parts p;
  for (const AttentionOptions& o : variants()) {
    const AttentionResult r = p(AttentionOptions(o).lse().weights());
    CHECK(same_bits(r.output, p(o).output));
    for (const Tensor& x : {r.lse}) CHECK(x.shape() == Shape{2, 4, 70});
    const Tensor some = gt(sum(r.weights, {-1}), 0.5);
    CHECK(equal(logical_not(some), eq(r.lse, -INFINITY)));
  }
  const Tensor scores = matmul(p.q, transpose(p.k)) / 4.0;
  CHECK(max_difference(p(AttentionOptions().lse()).lse, logsumexp(scores, {-1})) <= 1e-12);
}

TEST_CASE("merge_attention: parts of the keys, in any order, give attention to all", "[attention]") {
  Parts p;
  for (Tensor* const x : {&p.q, &p.k, &p.v, &p.sink}) x->requires_grad_();
  const std::vector<Tensor> leaves{p.q, p.k, p.v, p.sink};
  const Tensor seed = drawn({2, 4, 70, 16}, 11), seed_lse = drawn({2, 4, 70}, 12);
  for (const AttentionOptions& o : variants()) {
    const Tensor i = unsqueeze(arange(70) + 20, -1), j = arange(90);
    Tensor mask = o.mask().defined() ? o.mask() : ones({2, 1, 70, 90}, boolean);
    if (o.causal()) mask = logical_and(mask, le(j, i));
    if (o.window() > 0) mask = logical_and(mask, gt(j, i - o.window()));
    const AttentionResult all = p(AttentionOptions().mask(mask).bias(o.bias()).sink(p.sink).lse());
    const std::vector<Tensor> d_all = grad({all.output, all.lse}, leaves, {seed, seed_lse});
    for (std::int64_t parts = 1; parts <= 7; ++parts)
      for (const bool reversed : {false, true}) {
        INFO(parts << " parts, reversed " << reversed);
        std::vector<AttentionResult> results;
        for (std::int64_t n = 0; n < parts; ++n) {
          const std::int64_t from = 90 * n / parts, to = 90 * (n + 1) / parts;
          const auto part = [&](const Tensor& x) { return slice(x, 2, from, to); };
          auto options = AttentionOptions().mask(slice(mask, -1, from, to)).lse();
          if (o.bias().defined()) options.bias(slice(o.bias(), -1, from, to));
          if (n == 0) options.sink(p.sink);
          results.push_back(attend(heads_first(p.q), heads_first(part(p.k)), heads_first(part(p.v)), options));
        }
        if (reversed) std::reverse(results.begin(), results.end());
        const AttentionResult merged = merge_attention(results);
        CHECK(max_difference(merged.output, all.output) <= 1e-12);
        CHECK(max_difference(merged.lse, all.lse) <= 1e-12);
        const std::vector<Tensor> d = grad({merged.output, merged.lse}, leaves, {seed, seed_lse});
        for (std::size_t n = 0; n < d.size(); ++n) CHECK(max_difference(d[n], d_all[n]) <= 1e-12);
      }
  }
}

TEST_CASE("merge_attention: parts without any key give zeros", "[attention]") {
  const Parts p;
  const auto none = AttentionOptions().mask(zeros({70, 90}, boolean)).lse();
  const AttentionResult empty = merge_attention({p(none), p(none)}),
                        half = merge_attention({p(none), p(AttentionOptions().lse())});
  CHECK(same_bits(empty.output, zeros({2, 4, 70, 16}, float64)));
  CHECK(equal(empty.lse, full({2, 4, 70}, -INFINITY, float64)));
  CHECK(max_difference(half.output, p({}).output) <= 1e-14);
}

TEST_CASE("attention: the gradients of a sink and of lse do not depend on threads", "[attention]") {
  Parts p(float32);
  for (Tensor* const x : {&p.q, &p.k, &p.v, &p.sink}) x->requires_grad_();
  check_threads([&] {
    const AttentionResult r = p(AttentionOptions().causal().sink(p.sink).lse());
    const std::vector<Tensor> d = grad({sum(r.output * r.output) + sum(r.lse)}, {p.q, p.k, p.v, p.sink}, {});
    return cat({reshape(r.lse.detach(), {-1}), reshape(d[0], {-1}), reshape(d[1], {-1}), reshape(d[2], {-1}), d[3]});
  });
}

}  // namespace fit::test::attention_parts_test
