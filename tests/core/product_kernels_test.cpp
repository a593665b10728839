#include <climits>
#include <limits>

#include "fit/ops.hpp"
#include "kernels/gemm.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Products below the operations: strides, old memory, what isn't finite, instruction sets and threads.
namespace fit::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
std::vector<T> draw(std::int64_t n, std::mt19937_64& random) {
  const Tensor x = random_tensor({n}, domain::real, random);
  return {x.data<double>().begin(), x.data<double>().end()};
}

// gemm on matrices that begin off any alignment and have `room` elements between their rows, against plain loops.
template <class T>
void check_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, std::int64_t room, T alpha, T beta) {
  INFO(m << " x " << k << " x " << n << (ta ? ", a transposed" : "") << (tb ? ", b transposed" : "") << ", room "
         << room << ", alpha " << alpha << ", beta " << beta << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(static_cast<std::uint64_t>(m * 10007 + n * 101 + k));
  const std::int64_t lda = (ta ? m : k) + room, ldb = (tb ? k : n) + room, ldc = n + room;
  const auto a = draw<T>(1 + (ta ? k : m) * lda, random), b = draw<T>(1 + (tb ? n : k) * ldb, random);
  auto c = draw<T>(1 + m * ldc, random);
  if (beta == 0)  // is not read
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) c[static_cast<std::size_t>(1 + i * ldc + j)] = static_cast<T>(nan);
  const auto before = c;
  kernels::Product<T> p{};
  p.m = m, p.n = n, p.k = k, p.transpose_a = ta, p.transpose_b = tb, p.lda = lda, p.ldb = ldb, p.ldc = ldc;
  p.alpha = alpha, p.beta = beta;
  kernels::gemm(p, a.data() + 1, b.data() + 1, c.data() + 1);
  double worst = 0;
  bool room_kept = c[0] == before[0];
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < ldc; ++j) {
      const auto at = static_cast<std::size_t>(1 + i * ldc + j);
      if (j >= n) {
        room_kept = room_kept && c[at] == before[at];
        continue;
      }
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += static_cast<double>(a[static_cast<std::size_t>(1 + (ta ? l * lda + i : i * lda + l))]) *
               static_cast<double>(b[static_cast<std::size_t>(1 + (tb ? j * ldb + l : l * ldb + j))]);
      const double expected = alpha * sum + (beta == 0 ? 0 : beta * static_cast<double>(before[at]));
      const double off = std::abs(static_cast<double>(c[at]) - expected) / (1 + std::abs(expected));
      worst = off <= worst ? worst : off;  // NaN counts as worse
    }
  CHECK(room_kept);
  CHECK(worst <= (sizeof(T) == 8 ? 1e-12 : 1e-4));
}

template <class T>
void check_forms(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const std::int64_t room : {0, 3}) {
        check_gemm<T>(m, n, k, ta, tb, room, 1, 0);
        check_gemm<T>(m, n, k, ta, tb, room, 1, 1);
        check_gemm<T>(m, n, k, ta, tb, room, T(-0.5), T(0.25));
      }
}

}  // namespace

TEST_CASE("products on every instruction set, of rows with room between them", "[gemm]") {
  each_isa([] {
    for (const std::int64_t m : {1, 2, 3, 4, 5, 7, 11, 33})
      for (const std::int64_t n : {1, 3, 7, 16, 33, 65})
        for (const std::int64_t k : {0, 1, 3, 7, 33}) {
          check_forms<float>(m, n, k);
          check_forms<double>(m, n, k);
        }
  });
}

TEST_CASE("products about as large as those that are left to BLAS", "[gemm]") {
  each_isa([] {
    const std::int64_t sizes[][3] = {{64, 64, 64},  {64, 64, 65},  {65, 64, 64},   {64, 65, 64},  {4, 257, 260},
                                     {3, 257, 403}, {5, 257, 260}, {257, 1, 1033}, {1, 257, 1025}};
    for (const auto& s : sizes) {
      check_forms<float>(s[0], s[1], s[2]);
      check_forms<double>(s[0], s[1], s[2]);
    }
  });
}

TEST_CASE("products larger than the parts they are cut into, of rows more than a page apart", "[gemm]") {
  each_isa([] {
    const std::int64_t m = kernels::m_part + 7, n = kernels::panel_width + 3, k = kernels::k_part + 5, page = 1024;
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        check_gemm<float>(m, n, k, ta, tb, page, 1, 0);
        check_gemm<float>(m, n, k, ta, tb, page, -0.5F, 0.25F);
        check_gemm<double>(m, n, k, ta, tb, page, -0.5, 0.25);
      }
  });
}

TEST_CASE("a size that BLAS cannot take is refused", "[gemm]") {
  constexpr std::int64_t large = std::int64_t{INT_MAX} + 1;
  const kernels::Isa chosen = kernels::isa();
  kernels::set_isa(kernels::Isa::base);  // where products of many rows go to BLAS; our own kernels take any size
  const auto refused = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t room) {
    kernels::Product<float> p{};
    p.m = m, p.n = n, p.k = k, p.lda = k + room, p.ldb = p.ldc = n;
    const float* const nothing = nullptr;  // is refused before anything is read
    CHECK_THROWS_WITH(kernels::gemm(p, nothing, nothing, static_cast<float*>(nullptr)),
                      Catch::Contains("2147483648 is more than BLAS can take (2147483647)"));
  };
  refused(large, 5, 5, 0);
  refused(5, large, 5, 0);
  refused(5, 5, large, 0);
  refused(100, 100, 100, large - 100);
  kernels::set_isa(chosen);
}

TEST_CASE("products do not depend on the number of threads", "[gemm]") {
  std::mt19937_64 random(1);
  const auto of = [&](const Shape& s) { return random_tensor(s, domain::real, random, float32); };
  const std::int64_t sizes[][3] = {{1, 1, 1},      {3, 7, 33},    {257, 129, 65}, {33, 900, 257},
                                   {900, 33, 257}, {2, 900, 900}, {900, 1, 901}};
  for (const auto& s : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        INFO(s[0] << " x " << s[2] << " x " << s[1] << ' ' << ta << tb);
        const Tensor a = of(ta ? Shape{s[2], s[0]} : Shape{s[0], s[2]}),
                     b = of(tb ? Shape{s[1], s[2]} : Shape{s[2], s[1]});
        check_threads([&] { return matmul(a, ta, b, tb); });
      }
  const Tensor few = of({3, 300, 257}), many = of({40, 65, 33});
  check_threads([&] { return matmul(few, false, few, true); });
  check_threads([&] { return matmul(many, true, many, false); });
  const Tensor heads = reshape(many, {2, 65, 20, 33});
  check_threads([&] { return einsum("bqhd,bkhd->bhqk", {heads, heads}); });
}

TEST_CASE("old memory does not leak into a product, and NaN goes through", "[gemm]") {
  for (const std::int64_t n : {1, 3, 7, 33, 257}) {
    INFO(n);
    std::mt19937_64 random(2);
    const Tensor a = random_tensor({n, n}, domain::real, random, float32), zero = zeros({n, n});
    const std::vector<Tensor> held{full({n, n}, 1), full({n, n}, 2)};
    const Tensor expected = matmul(a, a);
    { const Tensor used = full({n, n}, nan); }  // its memory is what the next product gets
    CHECK(same_bits(matmul(a, a), expected));
    { const Tensor used = full({n, n}, nan); }
    CHECK(same_bits(matmul(a, a), expected));

    Tensor bad = a.clone();
    bad[{n / 2, n - 1}] = nan;
    CHECK(sum(isnan(matmul(bad, zero))).item<std::int64_t>() == n);  // 0 times NaN is NaN: row n / 2
    CHECK(all(isnan(matmul(bad, zero)[{n / 2}])).item<bool>());
    CHECK(sum(isnan(matmul(zero, bad))).item<std::int64_t>() == n);  // column n - 1
    CHECK(all(isnan(linear(zero, bad)[{range(), n / 2}])).item<bool>());
  }
}

TEST_CASE("a weight used twice gets the sum of both gradients", "[gemm]") {
  for (const std::int64_t n : {1, 3, 7, 33, 130}) {
    INFO(n);
    std::mt19937_64 random(3);
    const auto of = [&](const Shape& s) { return random_tensor(s, domain::real, random); };
    const Tensor x = of({n, 5}), z = of({2, n, 5}), dy = of({n, 4}), du = of({2, n, 4});
    Tensor w = of({4, 5}).requires_grad_(), bias = of({4}).requires_grad_();
    const Tensor y = linear(x, w, bias), u = linear(z, w, bias);
    y.backward(dy);
    u.backward(du);  // added to what is there
    const Tensor by_hand =
        matmul(dy, true, x, false) + matmul(reshape(du, {2 * n, 4}), true, reshape(z, {2 * n, 5}), false);
    CHECK(max_difference(w.grad(), by_hand) < 1e-12);
    CHECK(max_difference(bias.grad(), sum(dy, {0}) + sum(du, {0, 1})) < 1e-12);
    Tensor square = of({n, n}).requires_grad_();
    const Tensor g = of({n, n}), s = square.detach();
    matmul(square, square).backward(g);
    CHECK(max_difference(square.grad(), matmul(g, false, s, true) + matmul(s, true, g, false)) < 1e-12);
  }
}

}  // namespace fit::test
