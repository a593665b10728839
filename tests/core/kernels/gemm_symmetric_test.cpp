#include "fit/ops/ops.hpp"
#include "kernels/function_list.hpp"
#include "matmul/gemm_bf16.hpp"
#include "ops/elementwise/functions.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// a a' and a' a, of which half is computed: they have the bits of a product of a and a copy of it.
namespace fit::test::gemm_symmetric_test {
namespace {

// P: the type that is multiplied.
template <class P, class A, class C>
void check(std::int64_t n, std::int64_t k, bool ta, std::int64_t room = 0) {
  INFO(n << " x " << k << (ta ? ", a transposed" : "") << ", room " << room);
  kernels::GemmParams<P> p = kernels::contiguous<P>(n, n, k, ta, !ta);
  p.lda = p.ldb = p.lda + room;
  p.ldc += room;
  p.alpha = 0.7F;
  std::mt19937_64 random(3);
  const std::int64_t rows = ta ? k : n, cols = ta ? n : k;
  GuardedBuffer<A> a((rows - 1) * p.lda + cols), copy((rows - 1) * p.lda + cols);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) a[i * p.lda + j] = copy[i * p.lda + j] = A(between(-2, 2)(random));
  REQUIRE(kernels::is_symmetric(p, a.data(), a.data()));
  REQUIRE(!kernels::is_symmetric(p, a.data(), copy.data()));
  GuardedBuffer<C> half((n - 1) * p.ldc + n), whole((n - 1) * p.ldc + n);
  kernels::gemm_parallel(p, a.data(), a.data(), half.data());
  kernels::gemm_parallel(p, a.data(), copy.data(), whole.data());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) wrong += half[i * p.ldc + j] != whole[i * p.ldc + j];
    for (std::int64_t j = n; j < p.ldc && i + 1 < n; ++j) wrong += !half.untouched(i * p.ldc + j);
  }
  CHECK(wrong == 0);
  CHECK(half.guards_intact());
}

template <class P, class A, class C>
void check_shapes() {
  for (const bool ta : {false, true}) {
    for (const std::int64_t n : {129, 192, 384, 777}) check<P, A, C>(n, 97, ta);
    check<P, A, C>(200, 1100, ta, 3);
  }
}

}  // namespace

TEST_CASE("a a' and a' a have the bits of products of copies", "[gemm]") {
  each_isa([] {
    check_shapes<float, float, float>();
    check_shapes<double, double, double>();
    check<float, float, float>(130, 25000, false);  // packed in parts
  });
  std::mt19937_64 random(1);
  const Tensor a = random_tensor({300, 257}, domain::real, random, float32);
  check_threads([&] { return matmul(a, Transpose::no, a, Transpose::yes); });
}

TEST_CASE("a a' and a' a of bfloat16 have the bits of products of copies", "[gemm][bfloat16]") {
  each_bfloat16_isa([] {
    check_shapes<BFloat16, BFloat16, BFloat16>();
    check_shapes<BFloat16, BFloat16, float>();
  });
}

TEST_CASE("every tile of a symmetric product is mirrored once, and each is named when it is complete", "[gemm]") {
  for (const std::int64_t n : {150, 384, 1000, 4000})
    for (const std::int64_t threads : {1, 2, 16, 64}) {
      INFO(n << ", " << threads << " threads");
      const kernels::Tiling whole = kernels::tiling(n, n, 2.0 * static_cast<double>(n * n * n), threads),
                            t = kernels::symmetric_tiling(whole, n);
      CHECK(t.count() >= whole.count());
      std::int64_t computed = 0, mirrored = 0;
      for (std::int64_t i = 0; i < t.count(); ++i) {
        const kernels::Tile tile = t.tile(i, n, n), below = kernels::below_diagonal(tile);
        CHECK(tile.row >= std::min(tile.col, tile.row + tile.rows));
        computed += tile.rows * tile.cols;
        mirrored += below.rows * below.cols;
      }
      CHECK(computed + mirrored == n * n);
      if (n >= 384) CHECK(static_cast<double>(computed) <= 0.6 * static_cast<double>(n * n));
    }
}

TEST_CASE("a bias and a function of a symmetric product reach each of its elements", "[gemm]") {
  std::mt19937_64 random(1);
  const Tensor x = random_tensor({300, 97}, domain::real, random, float32), copy = x.clone();
  const Tensor bias = random_tensor({300}, domain::real, random, float32);
  for (const Tensor& b : {Tensor(), bias}) {
    CHECK(same_bits(linear(x, x, b), linear(x, copy, b)));
    const auto gelu_of = [&](const Tensor& w) { return detail::apply_to_linear(kernels::Function::gelu, x, w, b); };
    CHECK(same_bits(gelu_of(x), gelu_of(copy)));
  }
}

}  // namespace fit::test::gemm_symmetric_test
