// In its own file because xtensor-blas takes long to compile.
#include "ops/linalg/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>
#include <xtensor-blas/xlinalg.hpp>

#include "fit/tensor/xtensor.hpp"

namespace fit::lapack {
namespace {

template <class T>
auto view(Matrix<T> m) {
  const std::array<std::size_t, 2> shape{static_cast<std::size_t>(m.rows), static_cast<std::size_t>(m.cols)};
  return xt::adapt(m.data, shape[0] * shape[1], xt::no_ownership(), shape);
}

template <class E>
void copy(const E& from, Out to) {
  view(to) = from;
}

// Whether f() succeeds; xtensor-blas throws if LAPACK finds no result.
template <class F>
bool found(const F& f) {
  try {
    f();
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

using Int = xt::blas_index_t;

// The columns of x, one behind another, in `rows` numbers each.
std::vector<double> columns(In x, std::int64_t rows) {
  std::vector<double> all(static_cast<std::size_t>(rows * x.cols));
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) all[static_cast<std::size_t>(j * rows + i)] = x.data[i * x.cols + j];
  return all;
}
void copy_columns(const std::vector<double>& all, std::int64_t rows, Out x) {
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) x.data[i * x.cols + j] = all[static_cast<std::size_t>(j * rows + i)];
}

// The factors P L U of the transpose of a: LAPACK takes rows for columns.
struct Factors {
  explicit Factors(In a)
      : n(static_cast<Int>(a.rows)), lu(a.data, a.data + a.rows * a.rows), pivots(static_cast<std::size_t>(a.rows)) {
    regular = cxxlapack::getrf<Int>(n, n, lu.data(), n, pivots.data()) == 0;
  }
  double diagonal(Int i) const { return lu[static_cast<std::size_t>(i) * pivots.size() + static_cast<std::size_t>(i)]; }
  // Of the permutation.
  double sign() const {
    double s = 1;
    for (Int i = 0; i < n; ++i)
      if (pivots[static_cast<std::size_t>(i)] != i + 1) s = -s;
    return s;
  }

  Int n;
  std::vector<double> lu;
  std::vector<Int> pivots;
  bool regular;  // no 0 on the diagonal of U
};

}  // namespace

bool solve(In a, In b, Out x) {
  const Factors f(a);
  if (!f.regular) return false;
  std::vector<double> right = columns(b, b.rows);
  cxxlapack::getrs<Int>('T', f.n, static_cast<Int>(b.cols), f.lu.data(), f.n, f.pivots.data(), right.data(), f.n);
  copy_columns(right, b.rows, x);
  return true;
}

bool solve_triangular(In a, bool upper, In b, Out x) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    if (a.data[i * a.cols + i] == 0) return false;
  std::copy_n(b.data, b.rows * b.cols, x.data);
  const auto part = upper ? cxxblas::Upper : cxxblas::Lower;
  const auto n = static_cast<Int>(x.rows), k = static_cast<Int>(x.cols);
  if (k == 1)  // a third of the time of trsm()
    cxxblas::trsv<Int>(cxxblas::RowMajor, part, cxxblas::NoTrans, cxxblas::NonUnit, n, a.data, n, x.data, 1);
  else
    cxxblas::trsm<Int>(cxxblas::RowMajor, cxxblas::Left, part, cxxblas::NoTrans, cxxblas::NonUnit, n, k, 1.0, a.data, n,
                       x.data, k);
  return true;
}

void lstsq(In a, In b, Out x) {
  const std::int64_t rows = std::max(a.rows, a.cols), least = std::min(a.rows, a.cols);
  std::vector<double> left = columns(a, a.rows), right = columns(b, rows);
  std::vector<Int> order(static_cast<std::size_t>(a.cols));
  // Room for blocks of 64 columns.
  std::vector<double> work(static_cast<std::size_t>(2 * least + 66 * (a.cols + 1) + 64 * b.cols));
  // Singular values below this part of the largest count as 0, as in PyTorch.
  const double none = std::numeric_limits<double>::epsilon() * static_cast<double>(rows);
  Int rank = 0;
  cxxlapack::gelsy<Int>(static_cast<Int>(a.rows), static_cast<Int>(a.cols), static_cast<Int>(b.cols), left.data(),
                        static_cast<Int>(a.rows), right.data(), static_cast<Int>(rows), order.data(), none, rank,
                        work.data(), static_cast<Int>(work.size()));
  copy_columns(right, rows, x);
}

bool inv(In a, Out y) {
  Factors f(a);
  if (!f.regular) return false;
  std::vector<double> work(64 * f.pivots.size());  // LAPACK's blocks have at most 64 columns
  cxxlapack::getri<Int>(f.n, f.lu.data(), f.n, f.pivots.data(), work.data(), static_cast<Int>(work.size()));
  std::copy(f.lu.begin(), f.lu.end(), y.data);
  return true;
}

double det(In a) {
  const Factors f(a);
  double product = f.sign();
  for (Int i = 0; i < f.n; ++i) product *= f.diagonal(i);
  return product;
}

std::pair<double, double> slogdet(In a) {
  const Factors f(a);
  if (!f.regular) return {0, -std::numeric_limits<double>::infinity()};
  double sign = f.sign(), log = 0;
  for (Int i = 0; i < f.n; ++i) {
    if (f.diagonal(i) < 0) sign = -sign;
    log += std::log(std::abs(f.diagonal(i)));
  }
  return {sign, log};
}

int cholesky(In a, Out l) {  // xt::linalg::cholesky() does not return the minor
  const std::int64_t n = a.rows;
  std::copy_n(a.data, n * n, l.data);
  // LAPACK's matrices are column-major: the lower triangle is the upper one there.
  const auto minor = cxxlapack::potrf<Int>('U', static_cast<Int>(n), l.data, static_cast<Int>(n));
  for (std::int64_t i = 0; i < n; ++i) std::fill_n(l.data + i * n + i + 1, n - i - 1, 0.0);
  return static_cast<int>(minor);
}

bool eigh(In a, double* values, Out vectors) {
  return found([&] {
    const auto [w, v] = xt::linalg::eigh(view(a), 'L');
    std::copy(w.begin(), w.end(), values);
    copy(v, vectors);
  });
}

bool svd(In a, Out u, double* s, Out vt) {
  return found([&] {
    const auto [left, values, right] = xt::linalg::svd(view(a), false, true);
    copy(left, u);
    std::copy(values.begin(), values.end(), s);
    copy(right, vt);
  });
}

void qr(In a, Out q, Out r) {
  // LAPACK takes rows for columns: of a^T = l q', r is l^T, and q is q'^T.
  const auto m = static_cast<Int>(a.rows), n = static_cast<Int>(a.cols), inner = static_cast<Int>(q.cols);
  std::vector<double> all(a.data, a.data + a.rows * a.cols), scales(static_cast<std::size_t>(inner));
  std::vector<double> work(static_cast<std::size_t>(64 * n));  // room for blocks of 64 rows
  const auto room = static_cast<Int>(work.size());
  cxxlapack::gelqf<Int>(n, m, all.data(), n, scales.data(), work.data(), room);
  for (Int i = 0; i < inner; ++i) {
    std::fill_n(r.data + i * r.cols, i, 0.0);
    std::copy_n(all.data() + i * r.cols + i, r.cols - i, r.data + i * r.cols + i);
  }
  cxxlapack::orglq<Int>(inner, m, inner, all.data(), n, scales.data(), work.data(), room);
  for (Int i = 0; i < m; ++i) std::copy_n(all.data() + i * a.cols, q.cols, q.data + i * q.cols);
}

}  // namespace fit::lapack
