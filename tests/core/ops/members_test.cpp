#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Each member of Tensor is the function with its name.
namespace fit::test::members_test {
namespace {

bool same(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && same_bits(a, b); }
bool same(const std::pair<Tensor, Tensor>& a, const std::pair<Tensor, Tensor>& b) {
  return same(a.first, b.first) && same(a.second, b.second);
}
bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return same(x, y); });
}

}  // namespace

#define MEMBER(x, name, ...) CHECK(same((x).name(__VA_ARGS__), fit::name(x, __VA_ARGS__)))
#define MEMBER_ALONE(x, name) CHECK(same((x).name(), fit::name(x)))

TEST_CASE("a tensor's members without arguments are the functions with their names") {
  Generator g(1);
  const Tensor x = rand({3, 4}, float32, g) * 0.8 + 0.1, square_matrix = randn({3, 3}, float64, g);
  const Tensor gaps = tensor({1., nan, inf, -inf});
#define EACH(name) MEMBER_ALONE(x, name)
  EACH(neg);
  EACH(square);
  EACH(reciprocal);
  EACH(exp);
  EACH(log);
  EACH(log1p);
  EACH(log2);
  EACH(expm1);
  EACH(sqrt);
  EACH(rsqrt);
  EACH(abs);
  EACH(sin);
  EACH(cos);
  EACH(tan);
  EACH(asin);
  EACH(acos);
  EACH(atan);
  EACH(tanh);
  EACH(erf);
  EACH(sigmoid);
  EACH(relu);
  EACH(floor);
  EACH(ceil);
  EACH(round);
  EACH(trunc);
  EACH(sign);
  EACH(median);
  EACH(argmax);
  EACH(argmin);
#undef EACH
  for (const Tensor& t : {x, gaps}) {
    MEMBER_ALONE(t, isnan);
    MEMBER_ALONE(t, isfinite);
    MEMBER_ALONE(t, isinf);
  }
  MEMBER_ALONE(gaps, nan_to_num);
  MEMBER_ALONE(x > 0.5, logical_not);
  MEMBER_ALONE(x > 0.5, nonzero);
  MEMBER_ALONE(x.unsqueeze(1), squeeze);
  MEMBER_ALONE(square_matrix, inv);
  MEMBER_ALONE(square_matrix, det);
}

TEST_CASE("a tensor's members with arguments are the functions with their names") {
  Generator g(2);
  const Tensor x = randn({3, 4}, float32, g), y = randn({3, 4}, float32, g), cube = randn({2, 3, 4}, float32, g);
  const Tensor positive = rand({3, 4}, float32, g) + 0.5, v = randn({4}, float32, g), mask = x > 0;
  const Tensor ids = tensor({2, 0}), counts = tensor({1, 3, 3, 0}), gaps = tensor({1., nan, inf, -inf});
  const Tensor places = tensor({{1, 0, 2, 0}});
  using Sizes = std::vector<std::int64_t>;
  // Arithmetic.
  MEMBER(x, add, y);
  MEMBER(x, sub, y);
  MEMBER(x, mul, y);
  MEMBER(x, div, y);
  MEMBER(x, add, 2);
  MEMBER(x, sub, 2);
  MEMBER(x, mul, 2);
  MEMBER(x, div, 3);
  MEMBER(positive, pow, 1.5);
  MEMBER(positive, pow, y);
  MEMBER(x, remainder, positive);
  MEMBER(x, clamp, -0.5, 0.5);
  MEMBER(x, clamp_min, 0.1);
  MEMBER(x, clamp_max, 0.1);
  MEMBER(gaps, nan_to_num, 7);
  MEMBER(gaps, nan_to_num, 7, 8, 9);
  MEMBER(x, masked_fill, mask, 5);
  // Sums, extremes, orders.
  MEMBER(cube, sum, {0, 2}, keepdims);
  MEMBER(cube, mean, {0, 2}, keepdims);
  MEMBER(cube, std, {1}, Correction{1}, keepdims);
  MEMBER(cube, var, {1}, Correction{1}, keepdims);
  MEMBER(cube, prod, {1}, keepdims);
  MEMBER(cube, max, {1}, keepdims);
  MEMBER(cube, min, {1}, keepdims);
  MEMBER(cube, amax, {1}, keepdims);
  MEMBER(cube, amin, {1}, keepdims);
  MEMBER(cube, max_with_indices, 1, keepdims);
  MEMBER(cube, min_with_indices, 1, keepdims);
  MEMBER(cube, quantile, 0.3, 1, keepdims);
  MEMBER(cube, quantile, 0.3);
  MEMBER(cube, norm, 3, {1}, keepdims);
  MEMBER(cube, logsumexp, {1}, keepdims);
  MEMBER(cube, argmax, 1, keepdims);
  MEMBER(cube, argmin, 1, keepdims);
  MEMBER(mask, any, {0}, keepdims);
  MEMBER(mask, all, {0}, keepdims);
  MEMBER(cube, cumsum, 1);
  MEMBER(cube, cumprod, 1);
  MEMBER(counts, bincount, positive[0], 6);
  MEMBER(x, histogram, 3);
  MEMBER(x, histogram, 3, -1, 1);
  MEMBER(x, sort, 1, SortOrder::descending);
  MEMBER(x, argsort, 1, SortOrder::descending);
  MEMBER(x, topk, 2, 1, Extremes::smallest);
  MEMBER(cube, softmax, 1);
  MEMBER(cube, log_softmax, 1);
  // Shapes.
  MEMBER(x, sum_to, Shape{1, 4});
  MEMBER(x, reshape, Sizes{4, 3});
  MEMBER(cube, permute, {2, 0, 1});
  MEMBER(v, broadcast_to, Shape{3, 4});
  MEMBER(cube, movedim, 0, 2);
  MEMBER(x, repeat, Sizes{2, 1});
  MEMBER(x, tile, Sizes{2});
  MEMBER(x, repeat_interleave, 2, 1);
  MEMBER(tensor({1, 2, 3}), repeat_interleave, tensor({2, 0, 1}), 0);
  MEMBER(x, roll, 1, 1);
  MEMBER(cube, unbind, 1);
  MEMBER(cube, diagonal, 1, 1, 2);
  MEMBER(v, diag, 1);
  MEMBER(x, unfold, 1, 2, 1);
  MEMBER(x, split, 3, 1);
  MEMBER(x, split, Sizes{1, 3}, 1);
  MEMBER(x, chunk, 2, 1);
  MEMBER(x, flip, {1});
  MEMBER(x, tril, 1);
  MEMBER(x, triu, 1);
  // Lists of ids.
  MEMBER(x, index_select, 0, ids);
  MEMBER(x, scatter_add, 0, places, y[{range(0, 1)}]);
  MEMBER(x, scatter, 0, places, y[{range(0, 1)}]);
  MEMBER(x, index_add, 0, ids, y[{range(0, 2)}]);
  MEMBER(x, index_reduce, 0, ids, y[{range(0, 2)}], Reduce::amax, IncludeSelf::no);
  MEMBER(x, take_along, 0, places);
  MEMBER(x, take, tensor({{0, 2}, {1, 1}}));
  // Products.
  MEMBER(x, matmul, transpose(y));
  MEMBER(v, dot, v);
  MEMBER(cube, bmm, transpose(cube, 1, 2));
}

#undef MEMBER
#undef MEMBER_ALONE

}  // namespace fit::test::members_test
