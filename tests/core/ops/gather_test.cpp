#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// index_select, gather, scatter_add, embedding, flip, tril, triu: values, and gradients that the table of operations
// can't check.
namespace fit::test::gather_test {
namespace {

using Catch::Matchers::Contains;
using I = std::vector<std::int64_t>;
using V = std::vector<double>;

I ints(const Tensor& x) { return x.to_vector<std::int64_t>(); }

}  // namespace

TEST_CASE("index_select picks along an axis", "[gather]") {
  const Tensor x = arange(6).reshape({2, 3});
  CHECK(ints(index_select(x, 1, tensor({2, 0, -1, 2}))) == I{2, 0, 2, 2, 5, 3, 5, 5});
  CHECK(ints(index_select(x, 0, tensor({1, -2}))) == I{3, 4, 5, 0, 1, 2});
  CHECK(index_select(x, 0, arange(0)).shape() == Shape{0, 3});
  CHECK(index_select(zeros({3, 0}), 0, tensor({1})).shape() == Shape{1, 0});
  CHECK(index_select(tensor({true, false}), 0, tensor({1, 1, 0})).to_vector<bool>() ==
        std::vector<bool>{false, false, true});
  CHECK_THROWS_WITH(index_select(x, 0, tensor({0, 0, 2})), Contains("the id at [2] is 2"));
  CHECK_THROWS_WITH(index_select(x, 0, tensor({-3})), Contains("the id at [0] is -3"));
}

TEST_CASE("scatter_reduce joins whole numbers, rounds once, and lets NaN win", "[gather]") {
  const Tensor x = tensor({5, 5, 5}), ids = tensor({0, 0, 2}), src = tensor({7, 1, -3});
  const auto of = [&](Reduce r, IncludeSelf s) { return ints(scatter_reduce(x, 0, ids, src, r, s)); };
  CHECK(of(Reduce::sum, IncludeSelf::yes) == I{13, 5, 2});
  CHECK(of(Reduce::sum, IncludeSelf::no) == I{8, 5, -3});
  CHECK(of(Reduce::amax, IncludeSelf::yes) == I{7, 5, 5});
  CHECK(of(Reduce::amax, IncludeSelf::no) == I{7, 5, -3});
  CHECK(of(Reduce::amin, IncludeSelf::yes) == I{1, 5, -3});
  CHECK(of(Reduce::amin, IncludeSelf::no) == I{1, 5, -3});
  const Tensor third = scatter_reduce(zeros({1}, bfloat16), 0, tensor({0, 0}), full({2}, 0.5, bfloat16), Reduce::mean);
  CHECK(third.dtype() == bfloat16);
  CHECK(third.item() == full({}, 1. / 3, bfloat16).item());
  for (const Reduce r : {Reduce::amax, Reduce::amin}) {
    const Tensor y = scatter_reduce(zeros({2}), 0, tensor({0, 0, 0}), tensor({1., NAN, 2.}), r);
    CHECK(std::isnan(y[0].item()));
    CHECK(y[1].item() == 0);
  }
  CHECK_THROWS_WITH(scatter_reduce(tensor({true}), 0, tensor({0}), tensor({true}), Reduce::sum),
                    Contains("x is boolean"));
}

TEST_CASE("index_reduce joins slices as PyTorch", "[gather]") {
  const Tensor x = full({3, 2}, 10.), ids = tensor({0, 0, 2}), src = tensor({{1., 20.}, {3., 4.}, {-7., 8.}});
  const auto of = [&](Reduce r, IncludeSelf s) { return index_reduce(x, 0, ids, src, r, s); };
  CHECK(equal(of(Reduce::sum, IncludeSelf::yes), index_add(x, 0, ids, src)));
  CHECK(equal(of(Reduce::sum, IncludeSelf::no), tensor({{4., 24.}, {10., 10.}, {-7., 8.}})));
  CHECK(allclose(of(Reduce::mean, IncludeSelf::yes), tensor({{14. / 3, 34. / 3}, {10., 10.}, {1.5, 9.}})));
  CHECK(equal(of(Reduce::mean, IncludeSelf::no), tensor({{2., 12.}, {10., 10.}, {-7., 8.}})));
  CHECK(equal(of(Reduce::amax, IncludeSelf::yes), tensor({{10., 20.}, {10., 10.}, {10., 10.}})));
  CHECK(equal(of(Reduce::amax, IncludeSelf::no), tensor({{3., 20.}, {10., 10.}, {-7., 8.}})));
  CHECK(equal(of(Reduce::amin, IncludeSelf::no), tensor({{1., 4.}, {10., 10.}, {-7., 8.}})));
  const Tensor third = index_reduce(zeros({1}, bfloat16), 0, tensor({0, 0}), full({2}, 0.5, bfloat16), Reduce::mean);
  CHECK(third.item() == full({}, 1. / 3, bfloat16).item());
  CHECK(ints(index_reduce(tensor({5, 5}), 0, tensor({1, 1}), tensor({7, 1}), Reduce::amin)) == I{5, 1});
  CHECK(index_reduce(x, 0, zeros({0}, int64), zeros({0, 2}), Reduce::mean).equal(x));
}

TEST_CASE("gather and scatter_add", "[gather]") {
  const Tensor x = arange(12).reshape({3, 4});
  CHECK(ints(gather(x, 1, tensor({{3, 0}, {1, 1}}))) == I{3, 0, 5, 5});
  CHECK(ints(gather(x, 0, tensor({{2, 0, 1}}))) == I{8, 1, 6});
  CHECK(gather(x, 1, zeros({3, 0}, int64)).shape() == Shape{3, 0});
  const Tensor cube = arange(24).reshape({2, 3, 4});
  CHECK(ints(gather(cube, 1, tensor({{{2, 1}}, {{0, 2}}}))) == I{8, 5, 12, 21});

  const Tensor y = scatter_add(zeros({3, 4}, int64), 1, tensor({{3, 0, 3}, {1, 1, 1}}), tensor({{1, 2, 3}, {4, 5, 6}}));
  CHECK(ints(y) == I{2, 0, 0, 4, 0, 15, 0, 0, 0, 0, 0, 0});
  CHECK(ints(scatter_add(x, 0, tensor({{2, 2}}), tensor({{100, 200}}))) == I{0, 1, 2, 3, 4, 5, 6, 7, 108, 209, 10, 11});
  CHECK(ints(scatter_add(cube, 1, tensor({{{2, 1}}, {{0, 2}}}), tensor({{{100, 200}}, {{300, 400}}}))) ==
        I{0, 1, 2, 3, 4, 205, 6, 7, 108, 9, 10, 11, 312, 13, 14, 15, 16, 17, 18, 19, 20, 421, 22, 23});
  CHECK_THROWS_WITH(scatter_add(tensor({true}), 0, tensor({0}), tensor({true})), Contains("x is boolean"));
  CHECK_THROWS_WITH(gather(x, 0, tensor({{0, 1}, {0, 3}})), Contains("the id at [1, 1] is 3"));
}

TEST_CASE("embedding looks rows up, and a padding row learns nothing", "[gather]") {
  const Tensor table = tensor({{0., 1.}, {10., 11.}, {20., 21.}}, float64).requires_grad_();
  const Tensor ids = tensor({{2, 1}, {2, 0}});
  const Tensor y = embedding(table, ids, 1);
  CHECK(y.shape() == Shape{2, 2, 2});
  CHECK(values(y) == V{20, 21, 10, 11, 20, 21, 0, 1});
  const Tensor w = tensor({{{1., 2.}, {3., 4.}}, {{5., 6.}, {7., 8.}}}, float64);
  sum(y * w).backward();
  CHECK(values(table.grad()) == V{7, 8, 0, 0, 6, 8});
  CHECK(embedding(table, tensor(1)).shape() == Shape{2});

  // Twice differentiated, the padding row stays out of it: d/dw of |d/dtable|^2 = 2 d/dtable, picked by the ids.
  const Tensor v = w.clone().requires_grad_();
  const Tensor g = grad({sum(embedding(table, ids, 1) * v)}, {table}, create_graph)[0];
  const Tensor gg = grad({sum(g * g)}, {v})[0];
  CHECK(values(gg) == V{12, 16, 0, 0, 12, 16, 14, 16});
}

TEST_CASE("gradients of two look-ups in one table add up", "[gather]") {
  const Tensor table = zeros({4, 3}).requires_grad_();
  sum(embedding(table, tensor({0, 2, 2}))).backward();
  sum(embedding(table, tensor({2, 3})) * 2 + table[{{0, 1}}]).backward();
  CHECK(values(table.grad()) == V{2, 2, 2, 1, 1, 1, 4, 4, 4, 2, 2, 2});
}

TEST_CASE("a large table's gradient doesn't depend on the number of threads", "[gather]") {
  std::mt19937_64 random(1);
  const Tensor seed = random_tensor({5000, 300}, domain::real, random, float32);
  const Tensor ids = tensor(
      [] {
        I v(5000);
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int64_t>(i * i % 37);
        return v;
      }(),
      {5000});
  const int before = num_threads();
  std::vector<Tensor> results;
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    Tensor table = zeros({40, 300});
    table.requires_grad_();
    embedding(table, ids).backward(seed);
    results.push_back(table.grad());
  }
  set_num_threads(before);
  CHECK(same_bits(results[0], results[1]));
  // Against a plain loop.
  std::vector<double> plain(40 * 300);
  for (std::size_t i = 0; i < 5000; ++i)
    for (std::size_t c = 0; c < 300; ++c) plain[i * i % 37 * 300 + c] += seed.data<float>()[i * 300 + c];
  CHECK(max_difference(results[0], tensor(plain, {40, 300})) < 1e-4);
}

TEST_CASE("flip, tril, triu", "[gather]") {
  const Tensor x = arange(12).reshape({3, 4}) + 1;
  CHECK(ints(flip(x, {0})) == I{9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4});
  CHECK(ints(flip(x, -1)) == I{4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9});
  CHECK(ints(flip(x, {})) == I{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(flip(tensor(3), {}).item() == 3);
  CHECK(ints(tril(x)) == I{1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0});
  CHECK(ints(tril(x, 1)) == I{1, 2, 0, 0, 5, 6, 7, 0, 9, 10, 11, 12});
  CHECK(ints(tril(x, -1)) == I{0, 0, 0, 0, 5, 0, 0, 0, 9, 10, 0, 0});
  CHECK(ints(triu(x)) == I{1, 2, 3, 4, 0, 6, 7, 8, 0, 0, 11, 12});
  CHECK(ints(triu(x, 2)) == I{0, 0, 3, 4, 0, 0, 0, 8, 0, 0, 0, 0});
  CHECK(ints(tril(x, INT64_MAX)) == ints(x));
  CHECK(ints(triu(x, INT64_MAX)) == I(12, 0));
  CHECK(ints(tril(x, INT64_MIN)) == I(12, 0));
  CHECK(tril(zeros({0, 3})).shape() == Shape{0, 3});
  const Tensor batch = broadcast_to(x, {2, 3, 4});
  CHECK(same_bits(tril(batch)[1], tril(x)));
}

TEST_CASE("the places where a large mask is true are those of a plain loop", "[gather]") {
  Generator g(5);
  for (const double share : {0., 0.001, 0.5, 1.})
    for (const Shape& shape : {Shape{80000}, Shape{300, 251}, Shape{40, 3, 700}}) {
      INFO(share << " of " << shape.numel());
      const Tensor mask = rand(shape, g) < share, x = randn(shape, g);
      I places;
      V chosen;
      for (std::int64_t i = 0; i < mask.numel(); ++i) {
        if (!mask.data<bool>()[i]) continue;
        chosen.push_back(x.data<float>()[i]);
        std::int64_t inner = mask.numel(), rest = i;
        for (const std::int64_t n : shape) {
          inner /= n;
          places.push_back(rest / inner);
          rest %= inner;
        }
      }
      CHECK(ints(nonzero(mask)) == places);
      CHECK(values(masked_select(x, mask)) == chosen);
      check_threads([&] { return nonzero(mask); });
      check_threads([&] { return masked_select(x, mask); });
    }
}

}  // namespace fit::test::gather_test
