#include <cmath>
#include <map>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Products against plain loops in double: every pair of ranks, odd sizes, and einsum's notation.
namespace fit::test::matmul_test {
namespace {

Tensor draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  std::mt19937_64 random(seed);
  return random_tensor(shape, domain::real, random, dtype);
}

// The sum over all letters that are not in `out`, by walking over every combination of indices.
Tensor plain_einsum(const std::vector<std::string>& letters, const std::vector<Tensor>& operands,
                    const std::string& out) {
  std::map<char, std::int64_t> size;
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (std::size_t a = 0; a < letters[i].size(); ++a) size[letters[i][a]] = operands[i].shape()[static_cast<int>(a)];
  std::vector<std::int64_t> sizes;
  for (const char c : out) sizes.push_back(size[c]);
  Tensor y = zeros(sizes, float64);
  std::vector<std::vector<double>> numbers;
  for (const Tensor& x : operands) numbers.push_back(values(x));
  // A step of a letter moves each operand, and the output, which is the last, by so many elements.
  struct Letter {
    std::int64_t size;
    std::vector<std::int64_t> steps;
  };
  std::vector<Letter> all;
  std::int64_t combinations = 1;
  for (const auto& [letter, n] : size) {
    all.push_back({n, {}});
    for (std::size_t i = 0; i <= operands.size(); ++i) {
      std::int64_t step = 0, below = 1;
      const std::string& axes = i < operands.size() ? letters[i] : out;
      for (auto axis = axes.rbegin(); axis != axes.rend(); below *= size[*axis++])
        if (*axis == letter) step += below;
      all.back().steps.push_back(step);
    }
    combinations *= n;
  }
  double* const sums = y.fresh<double>();
  const auto offset = [&](std::int64_t combination, std::size_t i) {
    std::int64_t o = 0;
    for (const Letter& letter : all) {
      o += combination % letter.size * letter.steps[i];
      combination /= letter.size;
    }
    return o;
  };
  for (std::int64_t k = 0; k < combinations; ++k) {
    double product = 1;
    for (std::size_t i = 0; i < operands.size(); ++i) product *= numbers[i].data()[offset(k, i)];
    sums[offset(k, operands.size())] += product;
  }
  return y;
}

void check_product(const Tensor& ours, const Tensor& plain) {
  CHECK(max_difference(ours, plain) <= (ours.dtype() == float64 ? 1e-12 : 2e-5));
}

}  // namespace

TEST_CASE("matmul of any sizes", "[matmul]") {
  for (const DType dtype : {float32, float64})
    for (const std::int64_t m : {1, 3, 7, 33, 257})
      for (const std::int64_t n : {1, 3, 17, 65})
        for (const std::int64_t k : {1, 2, 7, 33, 130}) {
          INFO(dtype << ": " << m << " x " << k << " x " << n);
          const Tensor a = draw({m, k}, 1, dtype), b = draw({k, n}, 2, dtype);
          const Tensor plain = plain_einsum({"ik", "kj"}, {a, b}, "ij");
          check_product(matmul(a, b), plain);
          check_product(matmul(transpose(a), Transpose::yes, b, Transpose::no), plain);
          check_product(matmul(a, Transpose::no, transpose(b), Transpose::yes), plain);
          check_product(matmul(transpose(a), Transpose::yes, transpose(b), Transpose::yes), plain);
          check_product(linear(a, transpose(b)), plain);
        }
}

TEST_CASE("matmul of any ranks", "[matmul]") {
  const auto of = [](const Shape& s) { return draw(s, static_cast<std::uint64_t>(s.numel()), float64); };
  const Tensor v = of({5}), w = of({5, 4}), m = of({3, 5}), stack = of({2, 3, 5}), other = of({2, 5, 4}),
               tall = of({6, 1, 3, 5});
  check_product(matmul(v, v), plain_einsum({"i", "i"}, {v, v}, ""));
  check_product(matmul(v, w), plain_einsum({"i", "ij"}, {v, w}, "j"));
  check_product(matmul(m, v), plain_einsum({"ij", "j"}, {m, v}, "i"));
  check_product(matmul(stack, v), plain_einsum({"bij", "j"}, {stack, v}, "bi"));
  check_product(matmul(v, other), plain_einsum({"i", "bij"}, {v, other}, "bj"));
  check_product(matmul(stack, w), plain_einsum({"bij", "jk"}, {stack, w}, "bik"));
  check_product(matmul(m, other), plain_einsum({"ij", "bjk"}, {m, other}, "bik"));
  check_product(matmul(stack, other), plain_einsum({"bij", "bjk"}, {stack, other}, "bik"));
  check_product(matmul(tall, other), plain_einsum({"cij", "bjk"}, {reshape(tall, {6, 3, 5}), other}, "cbik"));
}

TEST_CASE("matmul with nothing in it", "[matmul]") {
  CHECK(same_bits(matmul(zeros({2, 0}), zeros({0, 3})), zeros({2, 3})));
  CHECK(matmul(zeros({0, 2}), zeros({2, 3})).shape() == Shape{0, 3});
  CHECK(matmul(zeros({4, 2, 2}), zeros({4, 2, 0})).shape() == Shape{4, 2, 0});
  CHECK(matmul(zeros({0}), zeros({0})).item() == 0);
  CHECK(values(linear(zeros({2, 0}), zeros({3, 0}), tensor({1., 2., 3.}))) == std::vector<double>{1, 2, 3, 1, 2, 3});
}

TEST_CASE("matmul promotes among floating types, and from whole numbers", "[matmul]") {
  CHECK(matmul(ones({2, 2}), ones({2, 2}, float64)).dtype() == float64);
  CHECK(values(matmul(tensor({{1, 2}, {3, 4}}), tensor({{1., 0.}, {0., 2.}}))) == std::vector<double>{1, 4, 3, 8});
}

TEST_CASE("einsum's notation", "[matmul]") {
  const auto check = [](const std::string& formula, const std::vector<std::string>& letters, const std::string& out,
                        const std::vector<Shape>& shapes) {
    for (const DType dtype : {float32, float64}) {
      INFO(formula << ", " << dtype);
      std::vector<Tensor> in;
      for (const Shape& s : shapes) in.push_back(draw(s, in.size(), dtype));
      const Tensor y = einsum(formula, in);
      CHECK(y.dtype() == dtype);
      check_product(y, plain_einsum(letters, in, out));
    }
  };
  check("ij,jk->ik", {"ij", "jk"}, "ik", {{7, 3}, {3, 33}});
  check("ij, jk", {"ij", "jk"}, "ik", {{7, 3}, {3, 33}});
  check("ba", {"ba"}, "ab", {{2, 3}});
  check("bqhd,bkhd->bhqk", {"bqhd", "bkhd"}, "bhqk", {{2, 7, 3, 5}, {2, 4, 3, 5}});
  check("bhqk,bkhd->bqhd", {"bhqk", "bkhd"}, "bqhd", {{2, 3, 7, 4}, {2, 4, 3, 5}});
  check("abc,cb->a", {"abc", "cb"}, "a", {{2, 3, 4}, {4, 3}});
  check("abc,bd->dca", {"abc", "bd"}, "dca", {{2, 3, 4}, {3, 5}});
  check("ab,cd->dbca", {"ab", "cd"}, "dbca", {{2, 3}, {4, 5}});
  check("ijk->j", {"ijk"}, "j", {{2, 3, 4}});
  check("i,i,i->", {"i", "i", "i"}, "", {{9}, {9}, {9}});
  check("ij,j,jk->ki", {"ij", "j", "jk"}, "ki", {{2, 3}, {3}, {3, 4}});
  check("...i,ij->...j", {"abi", "ij"}, "abj", {{2, 3, 4}, {4, 5}});
  check("...,i->...i", {"ab", "i"}, "abi", {{2, 3}, {4}});
  check("b...,b...->...", {"bxy", "bxy"}, "xy", {{2, 3, 4}, {2, 3, 4}});

  const Tensor row = draw({1, 3, 4}, 1, float64), many = draw({5, 4, 2}, 2, float64);
  CHECK(max_difference(einsum("...ij,...jk->...ik", {row, many}), matmul(row, many)) <= 1e-12);
}

TEST_CASE("einsum: a letter of size 1 broadcasts, in values and gradients", "[matmul]") {
  const auto check = [](const std::string& formula, const std::vector<Shape>& shapes,
                        const std::vector<Shape>& broadcast) {
    INFO(formula);
    std::vector<Tensor> in, same;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      in.push_back(draw(shapes[i], i, float64).requires_grad_());
      same.push_back(in[i].detach().clone().requires_grad_());
    }
    std::vector<Tensor> full;
    for (std::size_t i = 0; i < shapes.size(); ++i) full.push_back(broadcast_to(same[i], broadcast[i]));
    const Tensor y = einsum(formula, in), plain = einsum(formula, full), dy = random_like(plain);
    check_product(y.detach(), plain.detach());
    const std::vector<Tensor> dx = grad({y}, in, {dy}), expected = grad({plain}, same, {dy});
    for (std::size_t i = 0; i < in.size(); ++i) check_product(dx[i], expected[i]);
  };
  check("ij,jk->ik", {{2, 1}, {4, 3}}, {{2, 4}, {4, 3}});
  check("ij,jk", {{2, 4}, {1, 3}}, {{2, 4}, {4, 3}});
  check("ij,ij->ij", {{1, 3}, {2, 1}}, {{2, 3}, {2, 3}});
  check("ij,ij->", {{1, 3}, {2, 1}}, {{2, 3}, {2, 3}});
  check("bqhd,bkhd->bhqk", {{2, 4, 3, 5}, {1, 7, 1, 5}}, {{2, 4, 3, 5}, {2, 7, 3, 5}});
  check("ij,jk,ki->i", {{2, 1}, {3, 1}, {4, 2}}, {{2, 3}, {3, 4}, {4, 2}});
  check("i...,...i->i...", {{1, 2, 1}, {3, 4}}, {{4, 2, 3}, {2, 3, 4}});
  // numpy.einsum("ij,jk->ik", [[1], [2]], [[1, 2], [3, 4], [5, 6]])
  const Tensor y = einsum("ij,jk->ik", {tensor({{1.}, {2.}}), tensor({{1., 2.}, {3., 4.}, {5., 6.}})});
  CHECK(values(y) == std::vector<double>{9, 12, 18, 24});
  CHECK_THROWS_WITH(einsum("ij,jk", {zeros({2, 2}), zeros({3, 4})}),
                    Catch::Contains("size 3 at 'j', another operand 2"));
  CHECK_THROWS_WITH(einsum("ij,jk,j", {zeros({2, 1}), zeros({3, 4}), zeros({2})}),
                    Catch::Contains("operand 2 of shape [2] has size 2 at 'j', another operand 3"));
}

TEST_CASE("einsum gives a tensor of its own", "[matmul]") {
  const Tensor x = ones({2, 2});
  Tensor y = einsum("ij->ij", {x});
  y.fill_(3);
  CHECK(values(x) == std::vector<double>(4, 1));
}

TEST_CASE("products of a few long rows keep their digits", "[matmul]") {
  const std::int64_t n = std::int64_t{1} << 20;  // a float32 sum of all has an error of 1e-2
  const Tensor a = full({2, n}, 0.1, float32), v = a[0];
  const double product = std::pow(static_cast<float>(0.1), 2) * static_cast<double>(n);
  each_isa([&] {
    for (const Tensor& y : {dot(v, v), matmul(a, v), matmul(a, reshape(a, {n, 2})), linear(a, a, zeros({2}))})
      CHECK(max_difference(y, full(y.shape(), product, float32)) < 1e-4);
    CHECK(max_difference(linear(a, a, ones({2})), full({2, 2}, product + 1, float32)) < 1e-4);
  });
}

}  // namespace fit::test::matmul_test
