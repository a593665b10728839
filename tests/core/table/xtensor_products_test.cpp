#include <array>
#include <limits>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/oracles/xtensor_oracle.hpp"
#include "support/variants.hpp"

// Products against cblas, which xt::linalg::dot calls, and xt::linalg::tensordot.
namespace fit::test::xtensor_products_test {
namespace {

using kernels::Isa;

template <class T>
xt::xarray<T> draw(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return as_xtensor<T>(random_tensor({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)},
                                     domain::real, random, dtype_of<T>()));
}

// Whether y is x within `units` of T's epsilon of the sums of |a b|.
template <class T>
bool near(const Tensor& y, const xt::xarray<T>& x, const xt::xarray<T>& magnitude, double units) {
  const auto found = as_xtensor<T>(y);
  const auto slack = magnitude * static_cast<T>(units * static_cast<double>(std::numeric_limits<T>::epsilon()));
  return found.shape() == std::vector<std::size_t>(x.shape().begin(), x.shape().end()) &&
         xt::all(xt::abs(found - x) <= slack);
}

// op(a) op(b) for every pair of transposes, with a, b in the layout in which they are given.
template <class T>
void check_products(std::size_t m, std::size_t n, std::size_t k) {
  INFO(m << " x " << k << " x " << n << ", " << sizeof(T) << " bytes");
  const xt::xarray<T> a = draw<T>(m, k, 1), b = draw<T>(k, n, 2), expected = xt::linalg::dot(a, b);
  const xt::xarray<T> magnitude = xt::linalg::dot(xt::xarray<T>(xt::abs(a)), xt::xarray<T>(xt::abs(b)));
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      INFO((ta ? "a transposed " : "") << (tb ? "b transposed" : ""));
      const Tensor x = ta ? from_xtensor(xt::transpose(a)) : from_xtensor(a),
                   y = tb ? from_xtensor(xt::transpose(b)) : from_xtensor(b);
      each_of({Isa::base, Isa::neon, Isa::avx2, Isa::avx512, Isa::amx},
              [&] { CHECK(near<T>(matmul(x, Transpose{ta}, y, Transpose{tb}), expected, magnitude, 4)); });
    }
}

}  // namespace

TEST_CASE("products of every size and transpose are those of cblas", "[xtensor][matmul]") {
  std::vector<std::array<std::size_t, 3>> sizes{{256, 300, 512}, {33, 512, 300}};
  for (const std::size_t m : {1, 5, 25, 130})
    for (const std::size_t n : {1, 33, 200})
      for (const std::size_t k : {1, 65, 257}) sizes.push_back({m, n, k});
  for (const auto& [m, n, k] : sizes) {
    check_products<float>(m, n, k);
    check_products<double>(m, n, k);
  }
}

TEST_CASE("products of stacks of matrices are those of cblas, one by one", "[xtensor][matmul]") {
  std::mt19937_64 random(3);
  const Tensor a = random_tensor({3, 2, 40, 33}, domain::real, random),
               b = random_tensor({2, 33, 50}, domain::real, random);
  const Tensor y = matmul(a, b);
  REQUIRE(y.shape() == Shape{3, 2, 40, 50});
  const Array x = as_xtensor<double>(a), w = as_xtensor<double>(b);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      const Array expected = xt::linalg::dot(Array(xt::view(x, i, j)), Array(xt::view(w, j)));
      CHECK(max_difference(y[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)], from_xtensor(expected)) <
            1e-14);
    }
}

TEST_CASE("contractions of several axes are those of xt::linalg::tensordot", "[xtensor][matmul]") {
  std::mt19937_64 random(4);
  const Tensor a = random_tensor({3, 4, 5, 2}, domain::real, random),
               b = random_tensor({4, 6, 2, 3}, domain::real, random);
  const Array x = as_xtensor<double>(a), w = as_xtensor<double>(b);
  const auto summed = [&](const std::vector<std::size_t>& of_a, const std::vector<std::size_t>& of_b) {
    return from_xtensor(Array(xt::linalg::tensordot(x, w, of_a, of_b)));
  };
  CHECK(max_difference(einsum("abcd,bedf->acef", {a, b}), summed({1, 3}, {0, 2})) < 1e-14);
  CHECK(max_difference(einsum("abcd,beda->ce", {a, b}), summed({0, 1, 3}, {3, 0, 2})) < 1e-14);
  CHECK(max_difference(einsum("abcd,efag->bcdefg", {a, transpose(b)}),
                       from_xtensor(Array(xt::linalg::tensordot(x, Array(xt::transpose(w, {0, 1, 3, 2})),
                                                                std::vector<std::size_t>{0},
                                                                std::vector<std::size_t>{2})))) < 1e-14);
}

TEST_CASE("a Kronecker product by einsum is xt::linalg::kron", "[xtensor][matmul]") {
  std::mt19937_64 random(5);
  const Tensor a = random_tensor({2, 3}, domain::real, random), b = random_tensor({4, 2}, domain::real, random);
  const Array kron = xt::linalg::kron(Array(as_xtensor<double>(a)), Array(as_xtensor<double>(b)));
  CHECK(same_bits(einsum("ij,kl->ikjl", {a, b}).reshape({8, 6}), from_xtensor(kron)));
}

}  // namespace fit::test::xtensor_products_test
