// In its own file because xtensor-blas takes long to compile.
#include "ops/linalg/lapack.hpp"

#include <algorithm>
#include <stdexcept>
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

}  // namespace

bool solve(In a, In b, Out x) {
  return found([&] { copy(xt::linalg::solve(view(a), view(b)), x); });
}

bool solve_triangular(In a, bool upper, In b, Out x) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    if (a.data[i * a.cols + i] == 0) return false;
  std::copy_n(b.data, b.rows * b.cols, x.data);
  const auto part = upper ? cxxblas::Upper : cxxblas::Lower;
  const auto n = static_cast<xt::blas_index_t>(x.rows), k = static_cast<xt::blas_index_t>(x.cols);
  if (k == 1)  // a third of the time of trsm()
    cxxblas::trsv<xt::blas_index_t>(cxxblas::RowMajor, part, cxxblas::NoTrans, cxxblas::NonUnit, n, a.data, n, x.data,
                                    1);
  else
    cxxblas::trsm<xt::blas_index_t>(cxxblas::RowMajor, cxxblas::Left, part, cxxblas::NoTrans, cxxblas::NonUnit, n, k,
                                    1.0, a.data, n, x.data, k);
  return true;
}

bool lstsq(In a, In b, Out x) {
  return found([&] {
    const auto result = xt::linalg::lstsq(view(a), view(b));
    copy(std::get<0>(result), x);
  });
}

bool inv(In a, Out y) {
  return found([&] { copy(xt::linalg::inv(view(a)), y); });
}

double det(In a) { return xt::linalg::det(view(a)); }

std::pair<double, double> slogdet(In a) {
  const auto [sign, log] = xt::linalg::slogdet(view(a));
  return {sign, log};
}

int cholesky(In a, Out l) {  // xt::linalg::cholesky() does not return the minor
  const std::int64_t n = a.rows;
  std::copy_n(a.data, n * n, l.data);
  // LAPACK's matrices are column-major: the lower triangle is the upper one there.
  const auto minor = cxxlapack::potrf<xt::blas_index_t>('U', static_cast<xt::blas_index_t>(n), l.data,
                                                        static_cast<xt::blas_index_t>(n));
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
  const auto [orthogonal, upper] = xt::linalg::qr(view(a), xt::linalg::qrmode::reduced);
  copy(orthogonal, q);
  copy(upper, r);
}

}  // namespace fit::lapack
