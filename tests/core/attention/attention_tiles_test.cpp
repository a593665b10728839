#include "attention/kernel/kernel.hpp"
#include "fit/base/memory.hpp"
#include "support/oracles/attention_problem.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Attention in tiles: sizes around the tiles' own, instruction sets, threads, memory, and what overflows.
namespace fit::test::attention_tiles_test {
namespace {

// e^x as the tiles compute it: weights of one query 1 and keys x.
template <class T>
std::vector<T> exponentials(const std::vector<T>& x) {
  const T one = 1, m = 0, inv_l = 1;
  std::vector<T> w(x.size());
  kernels::Attention<T> a;
  a.B = a.H = a.kv_heads = a.Sq = a.D = a.Dv = 1;
  a.Sk = static_cast<std::int64_t>(x.size());
  a.q = {&one, 1, 1, 1};
  a.k = {x.data(), a.Sk, a.Sk, 1};
  kernels::attention_weights<T>(a, {&m, &inv_l}, {0, 1}, w.data());
  return w;
}

template <class T>
void check_powers(double least, double tolerance) {
  std::vector<T> x{0, static_cast<T>(-inf), static_cast<T>(nan), -1e30f};
  for (double e = -0.001; e > -1100; e *= 1.0003) x.push_back(static_cast<T>(e));
  for (int n = 0; n <= 1100; ++n) x.push_back(static_cast<T>(-n) / 2);
  const std::vector<T> y = exponentials(x);
  CHECK(y[0] == 1);
  CHECK(y[1] == 0);
  CHECK(std::isnan(y[2]));
  CHECK(y[3] == 0);
  double worst = 0;
  bool small = true;
  for (std::size_t i = 4; i < x.size(); ++i) {
    // 2^p of the product with log2(e), which is rounded.
    const volatile T p = x[i] * static_cast<T>(1.4426950408889634);
    const double exact = std::exp2(static_cast<double>(p)), got = static_cast<double>(y[i]);
    if (p >= least)
      worst = std::max(worst, std::abs(got - exact) / exact);
    else
      small = small && got >= 0 && got <= exact * (1 + 1e-6) + std::numeric_limits<T>::denorm_min();
  }
  CHECK(worst <= tolerance);
  CHECK(small);  // below `least`: the number itself, or 0
}

std::vector<Shape> bias_shapes(const AttentionSizes& n) {
  return {{n.Sq, n.Sk},           {1, n.Sk},        {n.B, 1, 1, n.Sk}, {n.B, 1, n.Sq, n.Sk}, {1, n.H, n.Sq, n.Sk},
          {n.B, n.H, n.Sq, n.Sk}, {1, n.H, 1, n.Sk}};
}

struct Grouped {
  AttentionSizes n;
  std::int64_t kv_heads;
};

// What forward and backward have taken from the system on one thread: at least the most that was in use.
std::int64_t footprint(std::int64_t T, bool with_bias) {
  set_num_threads(1);
  Problem p({1, 2, T, T, 16, 16}, float32);
  Tensor q = p.q.clone().requires_grad_(), k = p.k.clone().requires_grad_(), v = p.v.clone().requires_grad_();
  auto o = AttentionOptions().causal();
  if (with_bias) o.bias(p.draw({1, 2, 1, T}).requires_grad_());
  p.d_weights = {};
  empty_cache();
  const MemoryStats before = memory_stats();
  sum(scaled_dot_product_attention(q, k, v, o)).backward();
  const MemoryStats after = memory_stats();
  return after.live_bytes + after.cached_bytes - before.live_bytes - before.cached_bytes;
}

}  // namespace

TEST_CASE("exponentials for the softmax: within two units in the last place", "[attention]") {
  each_isa([] {
    check_powers<float>(-99, 2 * 0x1p-23);
    check_powers<double>(-1022, 2 * 0x1p-52);
  });
}

TEST_CASE("attention of sizes around those of the tiles, on every instruction set", "[attention]") {
  const Grouped problems[] = {{{1, 2, 65, 65, 5, 5}, 2}, {{1, 2, 33, 130, 4, 9}, 2}, {{2, 2, 3, 70, 8, 8}, 1},
                              {{1, 4, 67, 64, 7, 3}, 2}, {{1, 2, 64, 64, 4, 4}, 1},  {{1, 1, 129, 63, 33, 1}, 1}};
  unsigned seed = 0;
  for (const auto& [n, kv_heads] : problems)
    for (const bool is_causal : {false, true})
      for (const bool all : {false, true})
        for (const DType dtype : {float32, float64}) {
          INFO(n << " kv_heads " << kv_heads << " causal " << is_causal << " all " << all << ' ' << dtype);
          Problem p(n, dtype, ++seed, kv_heads);
          p.options.causal(is_causal);
          if (all) {
            p.options.mask(p.draw_mask({n.B, n.Sq, n.Sk})).bias(p.draw({1, n.H, n.Sq, n.Sk})).dropout(0.3);
          }
          check_problem_on_each_isa(p, dtype == float64 ? 1e-12 : 3e-5);
        }
}

TEST_CASE("the gradient of a bias, however it broadcasts", "[attention]") {
  // Many heads, or few, which are cut into parts and sums in several ways.
  const Grouped problems[] = {{{9, 1, 5, 6, 3, 3}, 1},   {{3, 2, 20, 130, 4, 4}, 2}, {{2, 4, 7, 7, 2, 2}, 2},
                              {{1, 1, 9, 700, 2, 2}, 1}, {{1, 4, 3, 5, 2, 2}, 4},    {{5, 2, 9, 65, 3, 3}, 1}};
  unsigned seed = 0;
  for (const auto& [n, kv_heads] : problems)
    for (const Shape& bias : bias_shapes(n))
      for (const bool is_causal : {false, true}) {
        INFO(n << " kv_heads " << kv_heads << " bias " << bias << " causal " << is_causal);
        Problem p(n, float64, ++seed, kv_heads);
        p.options.bias(p.draw(bias)).causal(is_causal);
        if (seed % 3 == 0) p.options.mask(p.draw_mask({n.Sq, n.Sk}));
        if (seed % 4 == 0) p.options.dropout(0.4);
        check_problem(p, 1e-12);
        check_threads([&] { return run(p, Form::heads_last, false).dbias; });
        check_threads([&] { return run(p, Form::heads_last, false).dq; });
      }
}

TEST_CASE("a sliding window, clipped to the tiles or within one", "[attention]") {
  const AttentionSizes sizes[] = {
      {1, 2, 150, 150, 3, 3}, {1, 1, 70, 200, 4, 2}, {1, 1, 140, 66, 2, 2}, {2, 1, 3, 130, 2, 2}, {2, 2, 5, 5, 2, 2}};
  unsigned seed = 0;
  for (const AttentionSizes& n : sizes)
    for (const std::int64_t window : {1, 2, 63, 64, 65, 129, 1000})
      for (const bool is_causal : {false, true}) {
        INFO(n << " window " << window << " causal " << is_causal);
        ++seed;
        Problem p(n, seed % 2 ? float64 : float32, seed);
        p.options.window(window).causal(is_causal);
        if (seed % 3 == 0) p.options.mask(p.draw_mask({n.Sq, n.Sk}));
        if (seed % 5 == 0) p.options.bias(p.draw({1, n.H, n.Sq, n.Sk}));
        check_problem(p, p.dtype == float64 ? 1e-12 : 3e-5);
      }
  // A NaN shows in the rows whose window reaches it alone.
  for (const std::int64_t at : {20, 62, 126}) {
    INFO("NaN at " << at);
    Problem p({1, 1, 140, 140, 3, 3}, float64);
    p.options.window(4).causal(at > 20);
    p.k[{0, 0, at}] = nan;
    check_problem(p, 1e-12);
  }
}

TEST_CASE("tiles that a mask empties or fills, on every instruction set and any number of threads", "[attention]") {
  const AttentionSizes sizes[] = {{2, 2, 200, 200, 5, 5}, {1, 2, 70, 330, 3, 4}, {1, 1, 300, 130, 4, 2}};
  unsigned seed = 0;
  for (const AttentionSizes& n : sizes)
    for (const std::int64_t document : {64, 90, 128})
      for (const bool is_causal : {false, true}) {
        INFO(n << " documents of " << document << " causal " << is_causal);
        ++seed;
        Problem p(n, seed % 2 ? float64 : float32, seed);
        const auto places = [&](std::int64_t count) { return floor(arange(count).to(float64) / double(document)); };
        Tensor mask = reshape(places(n.Sq), {n.Sq, 1}) == reshape(places(n.Sk), {1, n.Sk});
        if (seed % 3 == 0) mask = logical_and(mask, p.draw_mask({n.Sq, n.Sk}));
        p.options.mask(mask).causal(is_causal);
        if (seed % 4 == 0) p.options.window(100);
        if (seed % 5 == 0) p.options.dropout(0.3);
        const double tolerance = p.dtype == float64 ? 1e-12 : 3e-5;
        check_problem_on_each_isa(p, tolerance);
        check_threads([&] { return run(p, Form::heads_last, false).dk; });
        // A NaN shows in the queries of its document alone.
        p.k[{0, 0, n.Sk - 1}] = nan;
        p.v[{0, 0, 0}] = nan;
        check_problem(p, tolerance);
      }
}

TEST_CASE("attention takes memory that grows with the length, not with its square", "[attention]") {
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  for (const bool with_bias : {false, true}) {
    INFO("bias " << with_bias);
    const std::int64_t shorter = footprint(1024, with_bias), longer = footprint(2048, with_bias);
    CHECK(shorter > 1024 * 2 * 16 * 4);
    CHECK(longer < shorter * 5 / 2);
    CHECK(longer < 2048 * 2048 * 4);  // one head's scores
  }
}

TEST_CASE("scores that overflow give what the decomposition gives", "[attention]") {
  for (const double sign : {-1.0, 1.0})
    for (const int hidden : {0, 1, 2, 3})
      for (const std::int64_t queries : {5, 40}) {
        INFO("sign " << sign << " hidden " << hidden << " queries " << queries);
        Problem p({1, 2, queries, 40, 3, 3}, float32);
        p.options.causal((hidden & 1) != 0);
        if (hidden & 2) p.options.mask(p.draw_mask({queries, 40}));
        // All scores of a row of one head, and a column of the other head's.
        p.k[{0, 1}] = abs(p.k[{0, 1}]) + 0.1;
        p.k = p.k * 1e10;
        p.q = p.q * 1e-10;
        p.q[{0, 1, 2}] = sign * 1e35;
        p.k[{0, 0, 7}] = 3e38;
        p.q[{0, 0}] = sign * (abs(p.q[{0, 0}]) * 10 + 2.0);
        const Results tiles = run(p, Form::heads_first, true), plain = run(p, Form::decomposed, true);
        CHECK(max_difference(tiles.output, plain.output) < 2e-5);
        CHECK(max_difference(tiles.weights, plain.weights) < 2e-5);
        CHECK(max_difference(tiles.dv, plain.dv) < 2e-5);
        CHECK(equal(isnan(tiles.dq), isnan(plain.dq)));
        CHECK(equal(isnan(tiles.dk), isnan(plain.dk)));
        CHECK(all(isnan(tiles.output[{0, 1, 2}])).item<bool>());
        CHECK_FALSE(all(isnan(tiles.output)).item<bool>());
      }
}

TEST_CASE("weights add up to 1 however few queries there are and however large their scores", "[attention]") {
  for (const std::int64_t queries : {1, 7, 8, 33}) {
    manual_seed(2);
    const Tensor q = randn({2, queries, 64}) * 100, k = randn({2, 70, 64}) * 100, v = randn({2, 70, 5});
    const auto [y, w] = attend(q, k, v, AttentionOptions().weights());
    CHECK(allclose(sum(w, -1), ones({2, queries}), 0, 1e-5));
    CHECK(allclose(matmul(w, v), y, 0, 1e-5));
  }
}

}  // namespace fit::test::attention_tiles_test
