#include "matmul/gemm_bf16.hpp"

#include <cstring>
#include <limits>

#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Products of BFloat16, on every instruction set that tells them apart: odd sizes, off any alignment, with room between
// rows; operands and results of float and of BFloat16.
namespace fit::test::gemm_bf16_test {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

struct ProductForm {
  bool ta, tb;
  std::int64_t room;  // elements between rows
  float alpha, beta;
};
const ProductForm forms[] = {{false, false, 0, 1, 0}, {false, true, 0, 1, 0},   {true, false, 0, 1, 1},
                             {true, true, 3, 1, 0},   {false, true, 2, 1, 1},   {false, false, 3, -0.5F, 0.25F},
                             {false, true, 1, 2, 0},  {true, false, 2, 1, 0.5F}};

kernels::GemmParams<BFloat16> product_of(std::int64_t m, std::int64_t n, std::int64_t k, const ProductForm& f) {
  kernels::GemmParams<BFloat16> p;
  p.m = m, p.n = n, p.k = k, p.transpose_a = f.ta, p.transpose_b = f.tb;
  p.lda = (f.ta ? m : k) + f.room, p.ldb = (f.tb ? k : n) + f.room, p.ldc = n + f.room;
  p.alpha = f.alpha, p.beta = f.beta;
  return p;
}

// [rows, cols], rows ld apart; between them is NaN.
template <class T>
GuardedBuffer<T> matrix(std::int64_t rows, std::int64_t cols, std::int64_t ld, const Draw& draw,
                        std::mt19937_64& random) {
  GuardedBuffer<T> x(std::max<std::int64_t>((rows - 1) * ld + cols, 0));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) x[i * ld + j] = T(static_cast<float>(draw(random)));
  return x;
}

// What is multiplied.
template <class T>
float operand(T x) {
  return BFloat16(static_cast<float>(x));
}

template <class C>
Rounded<float> as_result(Rounded<float> sum) {
  if (std::is_same_v<C, BFloat16>) sum.error += 0x1p-8L * (std::abs(sum.value) + sum.error);
  return sum;
}

template <class A, class B, class C>
void check(std::int64_t m, std::int64_t n, std::int64_t k, const ProductForm& f) {
  using R = Rounded<float>;
  INFO(m << " x " << k << " x " << n << (f.ta ? ", a transposed" : "") << (f.tb ? ", b transposed" : "") << ", room "
         << f.room << ", alpha " << f.alpha << ", beta " << f.beta << ", bytes " << sizeof(A) << sizeof(B)
         << sizeof(C));
  std::mt19937_64 random(static_cast<std::uint64_t>(m * 10007 + n * 101 + k));
  const Draw draw = between(-2, 2);
  const auto p = product_of(m, n, k, f);
  GuardedBuffer<A> a = matrix<A>(f.ta ? k : m, f.ta ? m : k, p.lda, draw, random);
  GuardedBuffer<B> b = matrix<B>(f.tb ? n : k, f.tb ? k : n, p.ldb, draw, random);
  GuardedBuffer<C> before = matrix<C>(m, n, p.ldc, draw, random);
  std::vector<R> expected;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      expected.push_back(f.beta == 0 ? R() : R(static_cast<float>(before[i * p.ldc + j])));
  kernels::reference::gemm<R>(
      m, n, k, R(f.alpha),
      [&](std::int64_t i, std::int64_t l) { return R(operand(a[f.ta ? l * p.lda + i : i * p.lda + l])); },
      [&](std::int64_t l, std::int64_t j) { return R(operand(b[f.tb ? j * p.ldb + l : l * p.ldb + j])); }, R(f.beta),
      [&](std::int64_t i, std::int64_t j) -> R& { return expected[static_cast<std::size_t>(i * n + j)]; });
  each_bfloat16_isa([&] {
    for (const bool split : {false, true}) {
      GuardedBuffer<C> c((m - 1) * p.ldc + n);
      for (std::int64_t i = 0; i < m && f.beta != 0; ++i)  // with beta = 0 it is not read: it is NaN
        for (std::int64_t j = 0; j < n; ++j) c[i * p.ldc + j] = before[i * p.ldc + j];
      split ? kernels::gemm_parallel(p, a.data(), b.data(), c.data()) : kernels::gemm(p, a.data(), b.data(), c.data());
      Worst worst;
      bool kept = c.guards_intact();
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j)
          worst.add(i * n + j, static_cast<float>(c[i * p.ldc + j]),
                    as_result<C>(expected[static_cast<std::size_t>(i * n + j)]));
        for (std::int64_t j = n; j < p.ldc && i + 1 < m; ++j) kept = kept && c.untouched(i * p.ldc + j);
      }
      INFO((split ? "split, " : "on this thread, ") << worst);
      CHECK(kept);
      CHECK(worst.within_bounds());
    }
  });
}

void check_types(std::int64_t m, std::int64_t n, std::int64_t k, const ProductForm& f) {
  check<BFloat16, BFloat16, float>(m, n, k, f);
  check<BFloat16, BFloat16, BFloat16>(m, n, k, f);
  check<float, BFloat16, BFloat16>(m, n, k, f);
  check<BFloat16, float, float>(m, n, k, f);
  check<float, BFloat16, float>(m, n, k, f);
}

// Small whole numbers: their sums are exact, in whatever order and however the product is cut.
template <class A, class B, class C>
void check_exactly(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, std::int64_t room, int alpha,
                   int beta) {
  INFO(m << " x " << k << " x " << n << (ta ? ", a transposed" : "") << (tb ? ", b transposed" : "") << ", room "
         << room << ", alpha " << alpha << ", beta " << beta << ", bytes " << sizeof(A) << sizeof(B) << sizeof(C));
  std::mt19937_64 random(7);
  const Draw whole = [](std::mt19937_64& r) { return static_cast<double>(r() % 5) - 2; };
  const auto p = product_of(m, n, k, {ta, tb, room, static_cast<float>(alpha), static_cast<float>(beta)});
  GuardedBuffer<A> a = matrix<A>(ta ? k : m, ta ? m : k, p.lda, whole, random);
  GuardedBuffer<B> b = matrix<B>(tb ? n : k, tb ? k : n, p.ldb, whole, random);
  GuardedBuffer<C> before = matrix<C>(m, n, p.ldc, whole, random);
  std::vector<float> expected;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      const A* x = a.data() + (ta ? i : i * p.lda);
      const B* y = b.data() + (tb ? j * p.ldb : j);
      for (std::int64_t l = 0; l < k; ++l, x += ta ? p.lda : 1, y += tb ? 1 : p.ldb)
        sum += static_cast<float>(*x) * static_cast<float>(*y);
      const float all = p.alpha * sum + (beta == 0 ? 0 : p.beta * static_cast<float>(before[i * p.ldc + j]));
      expected.push_back(all);
    }
  std::vector<float> bias;
  for (std::int64_t j = 0; j < n; ++j) bias.push_back(static_cast<float>(j % 7));
  each_bfloat16_isa([&] {
    for (const int way : {0, 1, 2}) {
      INFO((way == 0 ? "on this thread" : way == 1 ? "split" : "split, with a bias"));
      GuardedBuffer<C> c((m - 1) * p.ldc + n, way == 0 ? 1 : 0);  // aligned to lines, or not
      for (std::int64_t i = 0; i < m && beta != 0; ++i) std::copy_n(&before[i * p.ldc], n, &c[i * p.ldc]);
      if (way == 0)
        kernels::gemm(p, a.data(), b.data(), c.data());
      else
        kernels::gemm_parallel(p, a.data(), b.data(), c.data(), way == 1 ? nullptr : bias.data());
      bool right = true, kept = c.guards_intact();
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < (i + 1 < m ? p.ldc : n); ++j) {
          const std::int64_t at = i * p.ldc + j;
          if (j < n)
            right = right && static_cast<float>(c[at]) ==
                                 static_cast<float>(C(expected[static_cast<std::size_t>(i * n + j)] +
                                                      (way == 2 ? bias[static_cast<std::size_t>(j)] : 0)));
          else
            kept = kept && c.untouched(at);
        }
      CHECK(right);
      CHECK(kept);
    }
  });
}

template <class T>
std::vector<T> multiplied(const kernels::GemmParams<BFloat16>& p, GuardedBuffer<BFloat16>& a,
                          GuardedBuffer<BFloat16>& b) {
  GuardedBuffer<T> c(p.m * p.ldc);
  kernels::gemm_parallel(p, a.data(), b.data(), c.data());
  return c.values();
}

}  // namespace

TEST_CASE("products of bfloat16 of odd sizes, on every instruction set", "[gemm][bfloat16]") {
  std::size_t turn = 0;  // every size takes one of the forms
  for (const std::int64_t m : {1, 3, 5, 16, 17, 31, 33})
    for (const std::int64_t n : {1, 7, 16, 33, 65})
      for (const std::int64_t k : {0, 1, 2, 31, 32, 67}) check_types(m, n, k, forms[turn++ % std::size(forms)]);
}

TEST_CASE("products of bfloat16 of small whole numbers are exact, however they are cut", "[gemm][bfloat16]") {
  struct {
    std::int64_t m, n, k;
  } const sizes[] = {{5, 33, 0},    {2, 37, 64},    {16, 24, 67},    {30, 17, 31},   {63, 33, 64},
                     {7, 70, 1059}, {33, 66, 1059}, {70, 7, 1059},   {16, 70, 2048}, {7, 70, 2048},
                     {3, 300, 300}, {70, 300, 300}, {200, 200, 110}, {90, 66, 131}};
  const ProductForm scales[] = {{false, false, 0, 1, 0}, {false, false, 5, 1, 1}, {false, false, 0, -2, 2}};
  std::size_t turn = 0;
  for (const auto& s : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const ProductForm& f = scales[turn++ % std::size(scales)];
        const auto with = [&](auto check) { check(s.m, s.n, s.k, ta, tb, f.room, int(f.alpha), int(f.beta)); };
        with(check_exactly<BFloat16, BFloat16, float>);
        with(check_exactly<float, BFloat16, BFloat16>);
        with(check_exactly<BFloat16, float, float>);
      }
  check_exactly<BFloat16, BFloat16, float>(264, 260, 1000, false, false, 0, 1, 1);  // more panels than meet a block
  check_exactly<BFloat16, BFloat16, float>(1472, 1440, 40, true, false, 0, 1, 0);   // written past the caches
  check_exactly<BFloat16, BFloat16, float>(1472, 1440, 40, true, false, 0, 1, 1);   // as large, and added to
}

TEST_CASE("products of bfloat16 larger than the parts they are cut into", "[gemm][bfloat16]") {
  const std::int64_t long_k = kernels::bf16_kc + 35;
  const std::int64_t sizes[][3] = {
      {65, 130, 96}, {300, 70, 131}, {70, 300, 131}, {40, 33, long_k}, {33, 70, long_k + 5}};
  std::size_t turn = 0;
  for (const auto& s : sizes)
    for (int i = 0; i < 3; ++i) check<float, BFloat16, BFloat16>(s[0], s[1], s[2], forms[turn++ % std::size(forms)]);
  check_types(70, 40, long_k, forms[1]);
  check_types(70, 40, long_k, forms[5]);
  check<BFloat16, BFloat16, BFloat16>(40, 70, 2 * kernels::bf16_kc, {false, true, 1024, 1, 0});
  check<BFloat16, BFloat16, float>(70, 40, 2048, {true, false, 1024, 1, 1});
}

TEST_CASE("products of bfloat16 do not depend on threads, nor on how they are cut", "[gemm][bfloat16]") {
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  each_bfloat16_isa([&] {
    const bool native = kernels::isa() >= kernels::Isa::avx512_bf16;
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const std::int64_t k : {99, 1100}) {
          std::mt19937_64 random(1);
          const auto p = product_of(270, 200, k, {ta, tb, 0, 1, 0});
          GuardedBuffer<BFloat16> a = matrix<BFloat16>(ta ? k : 270, ta ? 270 : k, p.lda, between(-2, 2), random);
          GuardedBuffer<BFloat16> b = matrix<BFloat16>(tb ? 200 : k, tb ? k : 200, p.ldb, between(-2, 2), random);
          set_num_threads(1);
          const std::vector<float> one = multiplied<float>(p, a, b);
          for (const int threads : {2, 3}) {
            set_num_threads(threads);
            CHECK(multiplied<float>(p, a, b) == one);
          }
          for (const std::int64_t m : {5, 100}) {  // the same elements of a smaller product
            kernels::GemmParams<BFloat16> part = p;
            part.m = m;
            part.n = 90;
            const std::vector<float> few = multiplied<float>(part, a, b);
            bool same = true;
            for (std::int64_t i = 0; i < m; ++i)
              for (std::int64_t j = 0; j < 90; ++j) {
                const auto at = static_cast<std::size_t>(i * p.ldc + j);
                same = same && few[at] == one[at];
              }
            if (native) CHECK(same);
          }
        }
  });
}

TEST_CASE("a NaN in a row of a product of bfloat16 stays in its row", "[gemm][bfloat16]") {
  each_bfloat16_isa([] {
    for (const std::int64_t m : {2, 5, 40})
      for (const std::int64_t k : {45, 64}) {
        INFO(m << " rows of " << k);
        std::mt19937_64 random(1);
        const auto p = product_of(m, 37, k, {false, true, 0, 1, 0});
        GuardedBuffer<BFloat16> a = matrix<BFloat16>(m, k, k, between(1, 2), random);
        GuardedBuffer<BFloat16> b = matrix<BFloat16>(37, k, k, between(1, 2), random);
        a[k] = BFloat16(static_cast<float>(nan));
        const std::vector<float> c = multiplied<float>(p, a, b);
        for (std::int64_t i = 0; i < m; ++i) CHECK(std::isnan(c[static_cast<std::size_t>(i * 37 + 36)]) == (i == 1));
      }
  });
}

TEST_CASE("what is not finite goes through products of bfloat16, and what is denormal counts at most as itself",
          "[gemm][bfloat16]") {
  each_bfloat16_isa([] {
    for (const std::int64_t m : {2, 40})
      for (const bool transposed : {false, true}) {
        INFO(m << " rows" << (transposed ? ", transposed" : ""));
        const std::int64_t n = 37, k = 45;
        std::mt19937_64 random(1);
        const auto p = product_of(m, n, k, {false, transposed, 0, 1, 0});
        GuardedBuffer<BFloat16> a = matrix<BFloat16>(m, k, k, between(1, 2), random);
        GuardedBuffer<BFloat16> b = matrix<BFloat16>(transposed ? n : k, p.ldb, p.ldb, between(1, 2), random);
        a[0 * k + 44] = BFloat16(static_cast<float>(nan));
        a[1 * k + 3] = BFloat16(inf);
        b[transposed ? 36 * k + 7 : 7 * n + 36] = BFloat16(-inf);
        const std::vector<float> c = multiplied<float>(p, a, b);
        const std::vector<BFloat16> narrow = multiplied<BFloat16>(p, a, b);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            const float got = c[static_cast<std::size_t>(i * n + j)];
            const float rounded = narrow[static_cast<std::size_t>(i * n + j)];
            const bool is_nan = i == 0 || (i == 1 && j == 36);
            if (is_nan) {
              CHECK((std::isnan(got) && std::isnan(rounded)));
            } else {
              const float want = i == 1 ? inf : j == 36 ? -inf : 0;
              CHECK((want == 0 ? std::isfinite(got) : got == want));
              CHECK(rounded == static_cast<float>(BFloat16(got)));
            }
          }
        // Of floats: what rounds to inf does, and NaN of any bits stays.
        GuardedBuffer<float> wide(m * k);
        for (std::int64_t i = 0; i < m * k; ++i) wide[i] = 0;
        wide[0] = std::numeric_limits<float>::max();
        const std::uint32_t quiet = 0x7f800001u;
        std::memcpy(&wide[k], &quiet, sizeof quiet);
        GuardedBuffer<BFloat16> ones(n * k);
        for (std::int64_t i = 0; i < n * k; ++i) ones[i] = BFloat16(1);
        GuardedBuffer<float> d(m * n);
        kernels::gemm(p, wide.data(), ones.data(), d.data());
        CHECK(d[0] == inf);
        CHECK(std::isnan(d[n]));
        // 2^-130 times 2^20, k times, or 0.
        for (std::int64_t i = 0; i < m * k; ++i) wide[i] = 0x1p-130F;
        for (std::int64_t i = 0; i < n * k; ++i) ones[i] = BFloat16(0x1p20F);
        kernels::gemm(p, wide.data(), ones.data(), d.data());
        for (std::int64_t i = 0; i < m * n; ++i) CHECK((d[i] == 0 || d[i] == 45 * 0x1p-110F));
      }
  });
}

}  // namespace fit::test::gemm_bf16_test
