#include "matmul/gemm.hpp"

#include <climits>
#include <limits>
#include <mutex>

#include "fit/graph/graph.hpp"
#include "fit/int8/int8.hpp"
#include "fit/ops/ops.hpp"
#include "matmul/openblas.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Products below the operations: strides, old memory, what isn't finite, instruction sets and threads.
namespace fit::test::gemm_test {
namespace {

// A way to compute products, for those that it can.
template <class T>
struct Way {
  const char* name;
  bool (*takes)(const kernels::GemmParams<T>& p);
  void (*run)(const kernels::GemmParams<T>& p, const T* a, const T* b, T* c);
};

template <class T>
const kernels::GemmKernels<T>& table() {
  return FIT_KERNELS(kernels::gemm_table, T);
}

// The instruction sets of products of floats.
template <class Body>
void each_gemm_isa(const Body& body) {
  using kernels::Isa;
  each_of({Isa::base, Isa::neon, Isa::avx2, Isa::avx512, Isa::amx}, body);
}

template <class T>
const Way<T> ways[] = {
    {"gemm", [](const kernels::GemmParams<T>&) { return true; }, kernels::gemm<T>},
    {"split", [](const kernels::GemmParams<T>&) { return true; },
     [](const kernels::GemmParams<T>& p, const T* a, const T* b, T* c) {
       std::mutex one;
       std::vector<int> done(static_cast<std::size_t>(p.m * p.n));
       kernels::gemm_parallel(p, a, b, c, static_cast<const T*>(nullptr), [&](const kernels::Tile& t) {
         const std::lock_guard<std::mutex> lock(one);
         for (std::int64_t i = t.row; i < t.row + t.rows; ++i)
           for (std::int64_t j = t.col; j < t.col + t.cols; ++j) ++done[static_cast<std::size_t>(i * p.n + j)];
       });
       CHECK(done == std::vector<int>(done.size(), 1));  // each tile is named once
     }},
    {"packed", [](const kernels::GemmParams<T>& p) { return p.k > 0; },
     [](const kernels::GemmParams<T>& p, const T* a, const T* b, T* c) {
       const std::int64_t panel = kernels::panel_width * p.k;
       GuardedBuffer<T> packed(kernels::panels(p.n) * panel), scratch(kernels::gemm_packed_scratch(p));
       for (std::int64_t i = 0; i < kernels::panels(p.n); ++i) table<T>().pack_b(p, b, i, packed.data() + i * panel);
       bool right = packed.guards_intact();
       for (std::int64_t l = 0; l < p.k; ++l)
         for (std::int64_t j = 0; j < kernels::panels(p.n) * kernels::panel_width; ++j) {
           const std::int64_t width = table<T>().slice_width, first = l / table<T>().kc * table<T>().kc;
           const std::int64_t rows = std::min(p.k - first, table<T>().kc), of_panel = j % kernels::panel_width;
           const std::int64_t at = j / kernels::panel_width * panel + first * kernels::panel_width +
                                   of_panel / width * rows * width + (l - first) * width + of_panel % width;
           right = right &&
                   (j < p.n ? packed[at] == b[p.transpose_b ? j * p.ldb + l : l * p.ldb + j] : packed.untouched(at));
         }
       CHECK(right);
       table<T>().gemm_packed(p, a, {packed.data()}, c, scratch.data());
       CHECK(scratch.guards_intact());
     }},
    {"unpacked", [](const kernels::GemmParams<T>& p) { return p.k > 0 && p.m * p.n * p.k <= 64 * 64 * 64; },
     [](const kernels::GemmParams<T>& p, const T* a, const T* b, T* c) {
       GuardedBuffer<T> scratch(kernels::gemm_unpacked_scratch(p));
       table<T>().gemm_unpacked(p, a, b, c, scratch.data());
       CHECK(scratch.guards_intact());
     }},
    {"gemv",
     [](const kernels::GemmParams<T>& p) {
       return p.m <= (p.transpose_b ? kernels::gemv_max_m_transposed : kernels::gemv_max_m) && !p.transpose_a &&
              p.k > 0;
     },
     [](const kernels::GemmParams<T>& p, const T* a, const T* b, T* c) { table<T>().gemv(p, a, b, c); }},
    {"gemv in parts",
     [](const kernels::GemmParams<T>& p) {
       return p.m <= kernels::gemv_max_m && !p.transpose_a && p.transpose_b && p.k > 0;
     },
     [](const kernels::GemmParams<T>& p, const T* a, const T* b, T* c) {
       std::vector<int> done(static_cast<std::size_t>(p.n));
       std::int64_t from = 0;
       for (const std::int64_t to : {std::int64_t{1000}, std::int64_t{1001}, kernels::Part::units}) {
         table<T>().gemv_part(p, a, b, c, {from, to}, [&](std::int64_t col, std::int64_t cols) {
           for (; cols > 0; --cols, ++col) ++done[static_cast<std::size_t>(col)];
         });
         from = to;
       }
       CHECK(std::all_of(done.begin(), done.end(), [](int times) { return times == 1; }));
     }},
    {"gemv in order",
     [](const kernels::GemmParams<T>& p) {
       return p.m <= kernels::gemv_in_order_max_m && !p.transpose_a && p.transpose_b && p.alpha == 1 && p.beta == 0 &&
              p.k > 0;
     },
     [](const kernels::GemmParams<T>& p, const T* a, const T* b, T* c) { table<T>().gemv_in_order(p, a, b, c); }},
};

// Products, in every way, of matrices that begin off any alignment and have `room` elements between their rows.
template <class T>
void check_gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, std::int64_t room, T alpha, T beta) {
  using R = Rounded<T>;
  INFO(m << " x " << k << " x " << n << (ta ? ", a transposed" : "") << (tb ? ", b transposed" : "") << ", room "
         << room << ", alpha " << alpha << ", beta " << beta << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(static_cast<std::uint64_t>(m * 10007 + n * 101 + k));
  kernels::GemmParams<T> p{};
  p.m = m, p.n = n, p.k = k, p.transpose_a = ta, p.transpose_b = tb;
  p.lda = (ta ? m : k) + room, p.ldb = (tb ? k : n) + room, p.ldc = n + room;
  p.alpha = alpha, p.beta = beta;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, std::int64_t ld) {  // between the rows is NaN
    GuardedBuffer<T> x(std::max<std::int64_t>(rows - 1, 0) * ld + columns);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) x[i * ld + j] = static_cast<T>(between(-2, 2)(random));
    return x;
  };
  GuardedBuffer<T> a = matrix(ta ? k : m, ta ? m : k, p.lda), b = matrix(tb ? n : k, tb ? k : n, p.ldb);
  GuardedBuffer<T> before = matrix(m, n, p.ldc);
  std::vector<R> expected;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) expected.push_back(beta == 0 ? R() : R(before[i * p.ldc + j]));
  kernels::reference::gemm<R>(
      m, n, k, R(alpha), [&](std::int64_t i, std::int64_t l) { return R(a[ta ? l * p.lda + i : i * p.lda + l]); },
      [&](std::int64_t l, std::int64_t j) { return R(b[tb ? j * p.ldb + l : l * p.ldb + j]); }, R(beta),
      [&](std::int64_t i, std::int64_t j) -> R& { return expected[static_cast<std::size_t>(i * n + j)]; });
  each_gemm_isa([&] {
    for (const Way<T>& way : ways<T>) {
      if (!way.takes(p)) continue;
      GuardedBuffer<T> c((m - 1) * p.ldc + n);
      for (std::int64_t i = 0; i < m && beta != 0; ++i)  // with beta = 0 it is not read: it is NaN
        for (std::int64_t j = 0; j < n; ++j) c[i * p.ldc + j] = before[i * p.ldc + j];
      way.run(p, a.data(), b.data(), c.data());
      Worst worst;
      bool room_kept = c.guards_intact();
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j)
          worst.add(i * n + j, c[i * p.ldc + j], expected[static_cast<std::size_t>(i * n + j)]);
        for (std::int64_t j = n; j < p.ldc && i + 1 < m; ++j) room_kept = room_kept && c.untouched(i * p.ldc + j);
      }
      INFO(way.name << ", " << worst);
      CHECK(room_kept);
      CHECK(worst.within_bounds());
    }
  });
}

template <class T>
void check_forms(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const auto& [room, alpha, beta] : {std::tuple(0, T(1), T(0)), {3, T(1), T(1)}, {3, T(-0.5), T(0.25)}})
        check_gemm<T>(m, n, k, ta, tb, room, alpha, beta);
}

// Small whole numbers: their sums are exact, in whatever order and however the product is cut.
template <class T>
void check_exactly(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, std::int64_t room, int alpha,
                   int beta) {
  INFO(m << " x " << k << " x " << n << (ta ? ", a transposed" : "") << (tb ? ", b transposed" : "") << ", room "
         << room << ", alpha " << alpha << ", beta " << beta << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(7);
  kernels::GemmParams<T> p = kernels::contiguous<T>(m, n, k, ta, tb);
  p.lda += room, p.ldb += room, p.ldc += room;
  p.alpha = T(alpha), p.beta = T(beta);
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, std::int64_t ld) {  // between the rows is NaN
    GuardedBuffer<T> x(std::max<std::int64_t>((rows - 1) * ld + columns, 0));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) x[i * ld + j] = static_cast<T>(random() % 5) - 2;
    return x;
  };
  GuardedBuffer<T> a = matrix(ta ? k : m, ta ? m : k, p.lda), b = matrix(tb ? n : k, tb ? k : n, p.ldb);
  GuardedBuffer<T> before = matrix(m, n, p.ldc);
  std::vector<T> expected;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      T sum = 0;
      const T *x = a.data() + (ta ? i : i * p.lda), *y = b.data() + (tb ? j * p.ldb : j);
      for (std::int64_t l = 0; l < k; ++l, x += ta ? p.lda : 1, y += tb ? 1 : p.ldb) sum += *x * *y;
      expected.push_back(static_cast<T>(alpha) * sum +
                         (beta == 0 ? T(0) : static_cast<T>(beta) * before[i * p.ldc + j]));
    }
  each_gemm_isa([&] {
    for (const Way<T>& way : ways<T>) {
      if (!way.takes(p)) continue;
      GuardedBuffer<T> c((m - 1) * p.ldc + n);
      for (std::int64_t i = 0; i < m && beta != 0; ++i) std::copy_n(&before[i * p.ldc], n, &c[i * p.ldc]);
      way.run(p, a.data(), b.data(), c.data());
      INFO(way.name);
      bool right = true, room_kept = c.guards_intact();
      for (std::int64_t i = 0; i < m; ++i) {
        right = right && std::equal(&c[i * p.ldc], &c[i * p.ldc] + n, &expected[static_cast<std::size_t>(i * n)]);
        for (std::int64_t j = n; j < p.ldc && i + 1 < m; ++j) room_kept = room_kept && c.untouched(i * p.ldc + j);
      }
      CHECK(right);
      CHECK(room_kept);
    }
  });
}

template <class T>
void check_add_row(std::int64_t rows, std::int64_t cols) {
  INFO("add_row, " << rows << " x " << cols << " of " << sizeof(T) << " bytes");
  std::mt19937_64 random(2);
  const std::int64_t ld = cols + 3;
  GuardedBuffer<T> row = drawn<T>(cols, 1, between(-2, 2), random), c = drawn<T>(rows * ld, 3, between(-2, 2), random);
  const std::vector<T> before = c.values();
  table<T>().add_row(rows, cols, row.data(), c.data(), ld);
  bool right = c.guards_intact();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t j = 0; j < ld; ++j)
      right = right && c[r * ld + j] == before[static_cast<std::size_t>(r * ld + j)] + (j < cols ? row[j] : T(0));
  CHECK(right);
}

template <class T>
void check_transpose(std::int64_t rows, std::int64_t cols) {
  INFO("transpose, " << rows << " x " << cols << " of " << sizeof(T) << " bytes");
  std::mt19937_64 random(1);
  const std::int64_t ld = cols + 3, out_ld = rows + 5;
  GuardedBuffer<T> x = drawn<T>(rows * ld, 1, between(-2, 2), random), out(cols * out_ld, 3);
  table<T>().transpose(rows, cols, x.data(), ld, out.data(), out_ld);
  bool right = out.guards_intact();
  for (std::int64_t c = 0; c < cols; ++c)
    for (std::int64_t r = 0; r < out_ld; ++r)
      right = right && (r < rows ? out[c * out_ld + r] == x[r * ld + c] : out.untouched(c * out_ld + r));
  CHECK(right);
}

// `count` products with each operand somewhere of its own; the reference is one product after the other.
template <class T>
void check_batch(std::int64_t count, std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  INFO(count << " of " << m << " x " << k << " x " << n << ' ' << ta << tb << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(1);
  kernels::GemmParams<T> p{};
  p.m = m, p.n = n, p.k = k, p.transpose_a = ta, p.transpose_b = tb;
  p.lda = ta ? m : k, p.ldb = tb ? k : n, p.ldc = n;
  GuardedBuffer<T> a = drawn<T>(count * m * k, 1, between(-2, 2), random),
                   b = drawn<T>(count * k * n, 3, between(-2, 2), random);
  GuardedBuffer<T> c(count * m * n, 5);
  kernels::gemm_batched<T, T, T>(p, count, [&](std::int64_t i, const T*& x, const T*& y, T*& z) {
    x = a.data() + i * m * k;
    y = b.data() + (count - 1 - i) * k * n;
    z = c.data() + i * m * n;
  });
  Worst worst;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t r = 0; r < m; ++r)
      for (std::int64_t s = 0; s < n; ++s) {
        Sum<T> sum;
        const std::int64_t x = i * m * k, y = (count - 1 - i) * k * n;
        for (std::int64_t l = 0; l < k; ++l)
          sum.add(Rounded<T>(a[x + (ta ? l * m + r : r * k + l)]) * Rounded<T>(b[y + (tb ? s * k + l : l * n + s)]));
        worst.add((i * m + r) * n + s, c[(i * m + r) * n + s], sum.in_chains());
      }
  INFO(worst);
  CHECK(worst.within_bounds());
  CHECK(c.guards_intact());
}

}  // namespace

TEST_CASE("batches of products, few and large or many and small", "[gemm]") {
  each_isa([] {
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        check_batch<float>(2, 150, 150, 150, ta, tb);
        check_batch<float>(33, 7, 9, 5, ta, tb);
        check_batch<double>(9, 33, 1, 257, ta, tb);
        check_batch<double>(0, 3, 3, 3, ta, tb);
      }
  });
}

TEST_CASE("products on every instruction set, of rows with room between them", "[gemm]") {
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 24, 33})
    for (const std::int64_t n : {1, 3, 7, 16, 33, 65})
      for (const std::int64_t k : {0, 1, 3, 7, 33}) {
        check_forms<float>(m, n, k);
        check_forms<double>(m, n, k);
      }
}

TEST_CASE("products of small whole numbers are exact, however they are cut", "[gemm]") {
  struct {
    std::int64_t m, n, k;
  } const sizes[] = {{5, 33, 0},     {3, 7, 5},      {7, 65, 33},    {24, 70, 101},  // many rows and few, no terms
                     {3, 300, 300},  {7, 300, 1000}, {30, 200, 200},                 // b larger than a
                     {200, 70, 300}, {70, 300, 200}, {7, 3, 131100}};                // in tiles, in parts of k
  struct {
    std::int64_t room;
    int alpha, beta;
  } const scales[] = {{0, 1, 0}, {3, 1, 1}, {0, -2, 2}};
  std::size_t turn = 0;
  for (const auto& s : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const auto& with : scales) {
          const bool large = s.m * s.n * s.k > 1'000'000;
          if (large && turn++ % 3 != 0 && !(tb && !ta)) continue;
          check_exactly<float>(s.m, s.n, s.k, ta, tb, with.room, with.alpha, with.beta);
          if (!large) check_exactly<double>(s.m, s.n, s.k, ta, tb, with.room, with.alpha, with.beta);
        }
}

TEST_CASE("each of a few rows has the bits that it has alone", "[gemm]") {
  each_isa([] {
    const std::int64_t n = 70, k = 101;
    std::mt19937_64 random(1);
    GuardedBuffer<float> a = drawn<float>(kernels::gemv_max_m_transposed * k, 1, between(-2, 2), random),
                         b = drawn<float>(n * k, 3, between(-2, 2), random);
    const auto product = [&](std::int64_t row, std::int64_t m) {
      GuardedBuffer<float> c(m * n);
      table<float>().gemv(kernels::contiguous<float>(m, n, k, false, true), a.data() + row * k, b.data(), c.data());
      return c.values();
    };
    const std::vector<float> all = product(0, kernels::gemv_max_m_transposed);
    for (std::int64_t m = 1; m <= kernels::gemv_max_m_transposed; ++m) {
      INFO(m << " rows");
      const std::vector<float> some = product(0, m), last = product(m - 1, 1);
      CHECK(std::equal(some.begin(), some.end(), all.begin()));
      CHECK(std::equal(last.begin(), last.end(), all.begin() + (m - 1) * n));
    }
  });
}

TEST_CASE("gemv in order has the bits of a packed product", "[gemm]") {
  const auto check = [](auto type) {
    using T = decltype(type);
    std::mt19937_64 random(2);
    for (const std::int64_t k : {1, 7, 16, 127, 128, 129, 300})
      for (const std::int64_t n : {1, 5, 17, 64, 100})
        for (const std::int64_t m : {1, 2, 3, 4, 5, 8}) {
          INFO(m << " x " << k << " x " << n << " of " << sizeof(T) << " bytes");
          GuardedBuffer<T> a = drawn<T>(m * k, 1, between(-2, 2), random),
                           b = drawn<T>(n * k, 3, between(-2, 2), random);
          const kernels::GemmParams<T> p = kernels::contiguous<T>(m, n, k, false, true);
          GuardedBuffer<T> panels(kernels::panels(n) * kernels::panel_width * k), packed(m * n), in_order(m * n);
          for (std::int64_t i = 0; i < kernels::panels(n); ++i)
            table<T>().pack_b(p, b.data(), i, panels.data() + i * kernels::panel_width * k);
          table<T>().gemm_packed(p, a.data(), {panels.data()}, packed.data(), nullptr);
          table<T>().gemv_in_order(p, a.data(), b.data(), in_order.data());
          CHECK(in_order.values() == packed.values());
        }
  };
  each_isa([&] {
    check(0.0F);
    check(0.0);
  });
}

TEST_CASE("products of few rows have the same bits in any number of streams", "[gemm]") {
  struct Restore {
    int before = kernels::memory_streams;
    ~Restore() { kernels::memory_streams = before; }
  } restore;
  const NoGrad no_grad;
  const Tensor x = randn({4, 197}), w = randn({75, 197});  // no multiple of 8 columns
  const Int8Matrix rows = quantize(w), groups = quantize(w, 32);
  each_bfloat16_isa([&] {
    for (std::int64_t m = 1; m <= 4; ++m) {
      INFO(m << " rows");
      const Tensor few = slice(x, 0, 0, m);
      const auto products = [&](int streams) {
        kernels::memory_streams = streams;
        return std::vector<Tensor>{linear(few, w), linear(few.to(bfloat16), w.to(bfloat16)), linear(few, rows),
                                   linear(few, groups)};
      };
      const std::vector<Tensor> four = products(4), eight = products(8);
      for (std::size_t i = 0; i < four.size(); ++i) CHECK(same_bits(four[i], eight[i]));
      CHECK(allclose(eight[0].to(float64), linear(few.to(float64), w.to(float64)), 1e-5, 1e-4));
      CHECK(allclose(eight[2].to(float64), linear(few.to(float64), dequantize(rows).to(float64)), 1e-5, 1e-4));
    }
  });
}

TEST_CASE("products about as large as those that are left to BLAS", "[gemm]") {
  const std::int64_t sizes[][3] = {{65, 64, 64},   {64, 65, 65},   {4, 257, 260}, {5, 257, 403},
                                   {257, 1, 1033}, {1, 257, 1025}, {13, 130, 370}};
  for (const auto& s : sizes) {
    check_forms<float>(s[0], s[1], s[2]);
    check_forms<double>(s[0], s[1], s[2]);
  }
}

TEST_CASE("matrices of every shape are transposed, and nothing beside", "[gemm]") {
  each_isa([] {
    for (const std::int64_t rows : {1, 3, 4, 7, 16, 33, 65})
      for (const std::int64_t cols : {1, 3, 4, 7, 16, 33, 65}) {
        check_transpose<float>(rows, cols);
        check_transpose<double>(rows, cols);
      }
  });
}

TEST_CASE("a row is added to rows of every width, and nothing beside", "[gemm]") {
  each_isa([] {
    for (const std::int64_t rows : {1, 2, 7})
      for (const std::int64_t cols : {1, 3, 4, 7, 16, 33, 65}) {
        check_add_row<float>(rows, cols);
        check_add_row<double>(rows, cols);
      }
  });
}

TEST_CASE("rows that are listed give the bits of the same rows side by side", "[gemm]") {
  const auto check = [](auto type) {
    using T = decltype(type);
    std::mt19937_64 random(5);
    for (const std::int64_t k : {1, 20, 390})
      for (const std::int64_t m : {1, 5, 6, 13}) {
        const std::int64_t n = 2 * kernels::panel_width;
        INFO(m << " x " << k << " x " << n << " of " << sizeof(T) << " bytes");
        GuardedBuffer<T> a = drawn<T>(m * k, 1, between(-2, 2), random), c = drawn<T>(m * n, 3, between(-2, 2), random),
                         room = drawn<T>(1000 + n, 2, between(-2, 2), random), b(k * n, 1), listed(m * n, 1);
        std::vector<std::int64_t> rows;
        for (std::int64_t i = 0; i < k; ++i) {
          rows.push_back(static_cast<std::int64_t>(random() % 1001));
          std::copy_n(room.data() + rows.back(), n, b.data() + i * n);
        }
        kernels::GemmParams<T> p = kernels::contiguous<T>(m, n, k, false, false);
        p.beta = 1;
        std::copy_n(c.data(), m * n, listed.data());
        table<T>().gemm_unpacked(p, a.data(), b.data(), c.data(), nullptr);
        table<T>().gemm_rows(p, a.data(), room.data(), rows.data(), listed.data());
        CHECK(listed.values() == c.values());
        CHECK(listed.guards_intact());
      }
  };
  each_isa([&] {
    check(0.0F);
    check(0.0);
  });
}

TEST_CASE("a product with a bias has the bits of a product to which it is added afterwards", "[gemm]") {
  const auto check = [](auto type) {
    using T = decltype(type);
    std::mt19937_64 random(3);
    for (const std::int64_t k : {1, 20, 384, 390, 800})
      for (const std::int64_t n : {1, 4, 5, 8, 16, 17, 63, 64, 65, 130})
        for (const std::int64_t m : {1, 6, 13, 100}) {
          INFO(m << " x " << k << " x " << n << " of " << sizeof(T) << " bytes");
          GuardedBuffer<T> a = drawn<T>(m * k, 1, between(-2, 2), random),
                           b = drawn<T>(n * k, 3, between(-2, 2), random),
                           bias = drawn<T>(n, 2, between(-2, 2), random);
          const kernels::GemmParams<T> p = kernels::contiguous<T>(m, n, k, false, true);
          GuardedBuffer<T> panels(kernels::panels(n) * kernels::panel_width * k), after(m * n), with(m * n);
          for (std::int64_t i = 0; i < kernels::panels(n); ++i)
            table<T>().pack_b(p, b.data(), i, panels.data() + i * kernels::panel_width * k);
          table<T>().gemm_packed(p, a.data(), {panels.data()}, after.data(), nullptr);
          table<T>().add_row(m, n, bias.data(), after.data(), n);
          table<T>().gemm_packed(p, a.data(), {panels.data(), true, bias.data()}, with.data(), nullptr);
          CHECK(with.values() == after.values());
          CHECK(with.guards_intact());

          GuardedBuffer<T> split(m * n), split_with(m * n);
          kernels::gemm_parallel(p, a.data(), b.data(), split.data());
          table<T>().add_row(m, n, bias.data(), split.data(), n);
          kernels::gemm_parallel(p, a.data(), b.data(), split_with.data(), bias.data());
          CHECK(split_with.values() == split.values());
        }
  };
  each_isa([&] {
    check(0.0F);
    check(0.0);
  });
}

TEST_CASE("products larger than the parts they are cut into, of rows more than a page apart", "[gemm]") {
  const std::int64_t m = kernels::mc + 7, n = kernels::panel_width + 3, k = kernels::kc + 5, page = 1024;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      check_gemm<float>(m, n, k, ta, tb, page, 1, 0);
      check_gemm<float>(m, n, k, ta, tb, page, -0.5F, 0.25F);
      check_gemm<double>(m, n, k, ta, tb, page, -0.5, 0.25);
    }
}

TEST_CASE("a size that BLAS cannot take is refused, and none that it can", "[gemm]") {
  constexpr std::int64_t large = std::int64_t{INT_MAX} + 1;
  // Where FIT_OPENBLAS=use chooses BLAS; our own kernels take any size.
  const auto refused = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t room) {
    kernels::GemmParams<float> p{};
    p.m = m, p.n = n, p.k = k, p.lda = k + room, p.ldb = p.ldc = n;
    const float* const nothing = nullptr;  // is refused before anything is read
    CHECK_THROWS_WITH(kernels::openblas_gemm(p, nothing, nothing, static_cast<float*>(nullptr)),
                      Catch::Contains("2147483648 is more than BLAS can take (2147483647)"));
  };
  refused(large, 5, 5, 0);
  refused(5, large, 5, 0);
  refused(5, 5, large, 0);
  refused(100, 100, 100, large - 100);
  kernels::GemmParams<float> p = kernels::contiguous<float>(600, 600, 1, false, false);
  p.ldb = INT_MAX;  // of one row: the next would begin there
  const std::vector<float> twos(600, 2);
  std::vector<float> c(600 * 600);
  kernels::openblas_gemm(p, twos.data(), twos.data(), c.data());
  CHECK(c == std::vector<float>(c.size(), 4));
}

TEST_CASE("products do not depend on the number of threads", "[gemm]") {
  std::mt19937_64 random(1);
  const auto of = [&](const Shape& s) { return random_tensor(s, domain::real, random, float32); };
  const std::int64_t sizes[][3] = {{1, 1, 1},      {3, 7, 33},    {257, 129, 65}, {33, 900, 257},
                                   {900, 33, 257}, {2, 900, 900}, {900, 1, 901},  {300, 200, 700}};
  for (const auto& s : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        INFO(s[0] << " x " << s[2] << " x " << s[1] << ' ' << ta << tb);
        const Tensor a = of(ta ? Shape{s[2], s[0]} : Shape{s[0], s[2]}),
                     b = of(tb ? Shape{s[1], s[2]} : Shape{s[2], s[1]});
        check_threads([&] { return matmul(a, Transpose{ta}, b, Transpose{tb}); });
      }
  const Tensor few = of({3, 300, 257}), many = of({40, 65, 33});
  check_threads([&] { return matmul(few, Transpose::no, few, Transpose::yes); });
  check_threads([&] { return matmul(many, Transpose::yes, many, Transpose::no); });
  const Tensor heads = reshape(many, {2, 65, 20, 33});
  check_threads([&] { return einsum("bqhd,bkhd->bhqk", {heads, heads}); });
}

TEST_CASE("a large matrix that is packed in parts gives the bits of one that is packed at once", "[gemm]") {
  std::mt19937_64 random(5);
  const auto check = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb, float beta) {
    INFO(m << " x " << n << " x " << k << ' ' << ta << tb);
    auto p = kernels::contiguous<float>(m, n, k, ta, tb);
    p.alpha = 0.5F, p.beta = beta;
    if (kernels::route(p) == kernels::Route::openblas) return;
    REQUIRE(kernels::route(p) == kernels::Route::packed);
    REQUIRE(kernels::packed_depth(p) < k);
    const Tensor a = random_tensor({m, k}, domain::real, random, float32);
    const Tensor b = random_tensor({k, n}, domain::real, random, float32);
    const Tensor bias = random_tensor({n}, domain::real, random, float32);
    Tensor parts = ones({m, n}), at_once = ones({m, n});
    const float *const pa = a.data<float>().data(), *const pb = b.data<float>().data(),
                       *const row = bias.data<float>().data();
    kernels::gemm_parallel(p, pa, pb, parts.fresh<float>(), row);
    kernels::gemm(p, pa, pb, at_once.fresh<float>());
    table<float>().add_row(m, n, row, at_once.fresh<float>(), n);
    CHECK(same_bits(parts, at_once));
  };
  each_isa([&] {
    check(30, 130, 33000, false, false, 0);
    check(150, 130, 33000, false, true, 1);
    check(30, 130, 33000, true, false, 2);
  });
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
    const Tensor by_hand = matmul(dy, Transpose::yes, x, Transpose::no) +
                           matmul(reshape(du, {2 * n, 4}), Transpose::yes, reshape(z, {2 * n, 5}), Transpose::no);
    CHECK(max_difference(w.grad(), by_hand) < 1e-12);
    CHECK(max_difference(bias.grad(), sum(dy, {0}) + sum(du, {0, 1})) < 1e-12);
    Tensor square = of({n, n}).requires_grad_();
    const Tensor g = of({n, n}), s = square.detach();
    matmul(square, square).backward(g);
    CHECK(max_difference(square.grad(), matmul(g, Transpose::no, s, Transpose::yes) +
                                            matmul(s, Transpose::yes, g, Transpose::no)) < 1e-12);
  }
}

}  // namespace fit::test::gemm_test
