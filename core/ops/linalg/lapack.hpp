#pragma once
#include <cstdint>
#include <utility>

// LAPACK and BLAS through xtensor-blas, one matrix for each call. Matrices are row-major, float64 and not empty.
namespace fit::lapack {

/// A row-major matrix [rows, cols].
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows, cols;
};
using In = Matrix<const double>;
using Out = Matrix<double>;

/// x with a x = b; false if a is singular.
bool solve(In a, In b, Out x);
/// The same for a triangular a, of which this triangle is read; false for a 0 on its diagonal.
bool solve_triangular(In a, bool upper, In b, Out x);
/// The least x that minimises |a x - b|.
void lstsq(In a, In b, Out x);
/// The inverse; false if a is singular.
bool inv(In a, Out y);
double det(In a);
/// {sign, ln |determinant|}; {0, -inf} if a is singular.
std::pair<double, double> slogdet(In a);
/// Cholesky decomposition of a: the lower triangle, with zeros above it. Reads the lower triangle of a. Returns 0, or
/// the order of the first leading minor that is not positive.
int cholesky(In a, Out l);
/// Eigenvalues in ascending order, and eigenvectors as columns. Reads the lower triangle of a. false if LAPACK fails.
bool eigh(In a, double* values, Out vectors);
/// a = u diag(s) vt; false if LAPACK fails.
bool svd(In a, Out u, double* s, Out vt);
/// a = q r.
void qr(In a, Out q, Out r);

}  // namespace fit::lapack
