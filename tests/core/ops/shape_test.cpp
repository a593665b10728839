#include <cmath>
#include <cstring>

#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// reshape and its kin, transpose, permute, broadcast_to, cat, stack, split, chunk: values. Errors and gradients stand
// in the table of operations.
namespace fit::test::shape_test {
namespace {

using I = std::vector<std::int64_t>;

I ints(const Tensor& x) { return x.to_vector<std::int64_t>(); }

// permute by its definition, element by element.
template <class T>
Tensor permuted_plainly(const Tensor& x, const std::vector<int>& axes) {
  const int rank = x.rank();
  std::vector<std::int64_t> strides(axes.size(), 1), sizes;
  for (int a = rank - 2; a >= 0; --a) strides[a] = strides[a + 1] * x.shape()[a + 1];
  for (const int a : axes) sizes.push_back(x.shape()[a]);
  Tensor y = Tensor::empty(sizes, x.dtype());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    std::int64_t rest = i, from = 0;
    for (int a = rank - 1; a >= 0; --a) {
      from += rest % y.shape()[a] * strides[axes[a]];
      rest /= y.shape()[a];
    }
    y.fresh<T>()[i] = x.data<T>()[from];
  }
  return y;
}

}  // namespace

TEST_CASE("reshape shares the buffer", "[shape]") {
  Tensor x = arange(6);
  Tensor y = x.reshape({2, -1});
  CHECK(y.shape() == Shape{2, 3});
  CHECK(y.raw() == x.raw());
  y.edit<std::int64_t>()[4] = 40;
  CHECK(x.data<std::int64_t>()[4] == 40);
  CHECK(reshape(x, Shape{3, 2}).shape() == Shape{3, 2});
  CHECK(zeros({0, 4}).reshape({-1, 2}).shape() == Shape{0, 2});
  CHECK(zeros({2, 0}).reshape({0, 7}).shape() == Shape{0, 7});
  CHECK(flatten(zeros({2, 3, 4, 5}), 1, 2).shape() == Shape{2, 12, 5});
  CHECK(flatten(zeros({2, 3, 4}), -2).shape() == Shape{2, 12});
  CHECK(squeeze(zeros({1, 2, 1})).shape() == Shape{2});
  CHECK(squeeze(zeros({1, 2, 1}), -1).shape() == Shape{1, 2});
  CHECK(unsqueeze(zeros({2, 3}), 0).shape() == Shape{1, 2, 3});
  CHECK(unsqueeze(zeros({2, 3}), -1).shape() == Shape{2, 3, 1});
  for (const Tensor& t : {flatten(x), unsqueeze(x, 0), squeeze(x)}) CHECK(t.raw() == x.raw());
}

TEST_CASE("permute and transpose move every element to its place", "[shape]") {
  const std::vector<std::pair<Shape, std::vector<int>>> cases = {
      {{2, 64, 4, 32}, {0, 2, 1, 3}},  // heads: the last axis stays
      {{2, 3}, {1, 0}},
      {{257, 300}, {1, 0}},
      {{3, 5, 7, 2}, {3, 1, 0, 2}},
      {{3, 100001}, {1, 0}},
      {{100001, 3}, {1, 0}},
      {{1, 33, 1, 7}, {3, 2, 1, 0}},
      {{33, 7, 129}, {2, 1, 0}},
      {{33, 7, 129}, {2, 0, 1}},
      {{33, 7, 129}, {1, 2, 0}},
      {{0, 7, 3}, {1, 2, 0}},
      {{}, {}},
      {{2, 2, 2, 2, 2, 2, 2, 3}, {7, 0, 6, 1, 5, 2, 4, 3}},
  };
  const int before = num_threads();
  for (const int threads : {1, 3})
    for (const auto& [shape, axes] : cases) {
      INFO(shape << ", " << threads << " threads");
      set_num_threads(threads);
      const Tensor x = reshape(arange(shape.numel()), shape), f = x.to(float32);
      std::vector<bool> bits(static_cast<std::size_t>(shape.numel()));
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i % 3 == 0;
      const Tensor b = tensor(bits, shape);
      CHECK(same_bits(permute(x, axes), permuted_plainly<std::int64_t>(x, axes)));
      CHECK(same_bits(permute(f, axes), permuted_plainly<float>(f, axes)));
      CHECK(same_bits(permute(b, axes), permuted_plainly<bool>(b, axes)));
    }
  set_num_threads(before);
  CHECK(ints(transpose(arange(6).reshape({2, 3}))) == I{0, 3, 1, 4, 2, 5});
  CHECK(transpose(zeros({2, 3, 4, 5}), 0, -1).shape() == Shape{5, 3, 4, 2});
  CHECK(ints(transpose(arange(3), 0, 0)) == I{0, 1, 2});
}

TEST_CASE("moves keep every bit", "[shape]") {
  const Tensor x = tensor({{-0., NAN}, {INFINITY, 1e-45}});
  Tensor odd = x.clone();  // a NaN with a payload of its own
  const std::uint32_t bits = 0xFFC12345u;
  std::memcpy(odd.fresh<float>() + 1, &bits, 4);
  CHECK(same_bits(transpose(transpose(odd)), odd));
  CHECK(same_bits(flip(flip(odd, {0}), {0}), odd));
  CHECK(same_bits(cat(split(odd, 1, 1), 1), odd));
  CHECK(same_bits(odd[{range()}], odd));
}

TEST_CASE("broadcast_to repeats", "[shape]") {
  CHECK(ints(broadcast_to(tensor({1, 2}), {3, 2})) == I{1, 2, 1, 2, 1, 2});
  CHECK(ints(broadcast_to(tensor({{1}, {2}}), {2, 3})) == I{1, 1, 1, 2, 2, 2});
  CHECK(ints(broadcast_to(tensor(7), {2, 1, 2})) == I{7, 7, 7, 7});
  CHECK(ints(broadcast_to(tensor({{{1}}, {{2}}}), {2, 2, 2})) == I{1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(broadcast_to(zeros({1, 3}), {0, 3}).numel() == 0);
  CHECK(broadcast_to(tensor(1), {}).shape() == Shape{});
  const Tensor large = broadcast_to(arange(300), {1000, 300});
  CHECK(large.data<std::int64_t>()[300 * 999 + 17] == 17);
}

TEST_CASE("cat and stack", "[shape]") {
  const Tensor a = tensor({{1, 2}, {3, 4}}), b = tensor({{5, 6}});
  CHECK(ints(cat({a, b})) == I{1, 2, 3, 4, 5, 6});
  CHECK(ints(cat({a, transpose(b)}, 1)) == I{1, 2, 5, 3, 4, 6});
  CHECK(cat({a, zeros({0, 2}, int64)}).shape() == Shape{2, 2});
  CHECK(cat({zeros({2, 0}), zeros({2, 0})}, 1).shape() == Shape{2, 0});
  const Tensor mixed = cat({tensor({true}), tensor({2}), tensor({0.5}), tensor({0.25}, float64)});
  CHECK(mixed.dtype() == float64);
  CHECK(mixed.to_vector<double>() == std::vector<double>{1, 2, 0.5, 0.25});
  CHECK(ints(stack({a, a + 10}, 0)) == I{1, 2, 3, 4, 11, 12, 13, 14});
  CHECK(ints(stack({a, a + 10}, -1)) == I{1, 11, 2, 12, 3, 13, 4, 14});
  CHECK(ints(stack({tensor(1), tensor(2)})) == I{1, 2});
}

TEST_CASE("cat of more parts than fit a mask of bits", "[shape]") {
  std::vector<Tensor> parts;
  for (int i = 0; i < 100; ++i) parts.push_back(full({1 + i % 3}, i, float64).requires_grad_());
  const Tensor y = cat(parts);
  CHECK(y.numel() == 199);
  sum(y * arange(199).to(float64)).backward();
  CHECK(values(parts[0].grad()) == std::vector<double>{0});
  CHECK(values(parts[1].grad()) == std::vector<double>{1, 2});
  CHECK(values(parts[98].grad()) == std::vector<double>{195, 196, 197});
}

TEST_CASE("gradients of parts of several types come back in their own", "[shape]") {
  const Tensor a = tensor({1., 2.}).requires_grad_(), b = tensor({3.}, float64).requires_grad_();
  sum(cat({a, b}) * tensor({2., 3., 4.}, float64)).backward();
  CHECK(a.grad().dtype() == float32);
  CHECK(values(a.grad()) == std::vector<double>{2, 3});
  CHECK(values(b.grad()) == std::vector<double>{4});
}

TEST_CASE("split and chunk", "[shape]") {
  const auto sizes = [](const std::vector<Tensor>& pieces, int axis) {
    I s;
    for (const Tensor& p : pieces) s.push_back(p.size(axis));
    return s;
  };
  const Tensor x = arange(10).reshape({2, 5});
  CHECK(sizes(split(x, 2, 1), 1) == I{2, 2, 1});
  CHECK(ints(split(x, 2, 1)[1]) == I{2, 3, 7, 8});
  CHECK(sizes(split(x, {0, 5}, -1), 1) == I{0, 5});
  CHECK(sizes(split(zeros({0}), 3), 0) == I{0});
  CHECK(sizes(split(x, 100), 0) == I{2});
  CHECK(sizes(chunk(zeros({7}), 3), 0) == I{3, 2, 2});
  CHECK(sizes(chunk(zeros({2}), 3), 0) == I{1, 1, 0});
  CHECK(same_bits(cat(chunk(x, 2, 1), 1), x));
}

TEST_CASE("pieces of a known number are bound by name, with gradients", "[shape]") {
  Tensor x = arange(12).reshape({2, 6}).to(float64).requires_grad_();
  const auto [mu, log_var] = chunk<2>(x, -1);
  CHECK(same_bits(log_var, x.detach()[{range(), range(3)}]));
  sum(log_var * 2 + mu).backward();
  CHECK(ints(x.grad().to(int64)) == std::vector<std::int64_t>{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  const auto [a, b] = split<2>(x, {2, 4}, 1);
  const auto [c, d] = x.split<2>({2, 4}, 1);
  CHECK((a.shape() == Shape{2, 2} && same_bits(b, d) && same_bits(a, c)));
  const auto [q, k, v] = split<3>(x, 2, 1);
  CHECK(same_bits(v, x.split<3>(2, 1)[2]));
  const auto [first, second] = unbind<2>(x);
  CHECK(same_bits(second, x.detach()[1]));
  CHECK(same_bits(x.unbind<2>()[0], first));
  CHECK(same_bits(x.chunk<3>(1)[1], k));
  CHECK(q.shape() == Shape{2, 2});
  CHECK_THROWS_WITH((split<2>(x, 2, 1)), "[split] there are 3 pieces of shape [2, 6]: split<2> must give 2");
  CHECK_THROWS_WITH(unbind<3>(x), Catch::Contains("there are 2 pieces of shape [2, 6]: unbind<3> must give 3"));
}

TEST_CASE("the gradient of split is right when only some pieces are used", "[shape]") {
  const Tensor x = ones({5}, float64).requires_grad_();
  const auto pieces = split(x, 2);
  sum(pieces[1] * 3).backward();
  CHECK(values(x.grad()) == std::vector<double>{0, 0, 3, 3, 0});
}

TEST_CASE("parts and slices add their gradients to those of the same tensor", "[shape]") {
  for (const DType dtype : {float32, float64, bfloat16}) {
    INFO(dtype);
    const Tensor w = (arange(3 * 120).reshape({3, 120}) % 7).to(dtype);
    Tensor x = ones({3, 40}, dtype).requires_grad_();
    (cat({x, x * 2, x}, 1) * w).sum().backward();
    const Tensor part[] = {slice(w, 1, 0, 40), slice(w, 1, 40, 80), slice(w, 1, 80, 120)};
    CHECK(equal(x.grad(), part[0] + part[1] * 2 + part[2]));
    x.zero_grad();
    (slice(x, 1, 0, 30) * slice(w, 1, 0, 30)).sum().backward();
    ((slice(x, 1, 1, 40, 3) * slice(w, 1, 0, 13)).sum() + (x[{range(), range(39, 9, -1)}] * slice(w, 1, 40, 70)).sum() +
     (x[{1}] * w[{2, range(0, 40)}]).sum())
        .backward();
    Tensor expected = zeros({3, 40}, float64);
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t c = 0; c < 40; ++c) {
        const auto at = [&](std::int64_t row, std::int64_t column) { return w[{row, column}].to(float64).item(); };
        expected[{i, c}] = (c < 30 ? at(i, c) : 0) + (c % 3 == 1 ? at(i, c / 3) : 0) + (c > 9 ? at(i, 79 - c) : 0) +
                           (i == 1 ? at(2, c) : 0);
      }
    CHECK(equal(x.grad(), expected.to(dtype)));
  }
}

}  // namespace fit::test::shape_test
