// Linear algebra by LAPACK: solve, inv, det, cholesky, eigh, svd. A matrix that lies row by row is its transpose to
// LAPACK, whose matrices lie column by column.
#include <algorithm>
#include <cmath>
#include <vector>

#include "fit/ops.hpp"
#include "ops/precision.hpp"
#include "tensor/check.hpp"

extern "C" {
void dgesv_(const int* n, const int* columns, double* a, const int* lda, int* pivots, double* b, const int* ldb,
            int* info);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dpotrf_(const char* triangle, const int* n, double* a, const int* lda, int* info);
void dsyevd_(const char* job, const char* triangle, const int* n, double* a, const int* lda, double* values,
             double* work, const int* work_size, int* whole_work, const int* whole_size, int* info);
void dgesdd_(const char* job, const int* m, const int* n, double* a, const int* lda, double* s, double* u,
             const int* ldu, double* vt, const int* ldvt, double* work, const int* work_size, int* whole_work,
             int* info);
}

namespace fit {
namespace {

constexpr std::int64_t largest = 1 << 14;  // rows or columns: LAPACK's int holds several squares of it

// How many matrices there are.
std::int64_t stack_of(const char* op, const char* name, const Tensor& x) {
  check::floating(op, name, x);
  if (x.rank() < 2) check::fail(op, name, " has shape ", x.shape(), ": it must be [..., M, N]");
  if (x.shape()[-1] > largest || x.shape()[-2] > largest)
    check::fail(op, name, " has shape ", x.shape(), ": a matrix may have at most ", largest, " rows and columns");
  std::int64_t count = 1;
  for (int a = 0; a + 2 < x.rank(); ++a) count *= x.shape()[a];
  return count;
}

std::int64_t square_stack(const char* op, const char* name, const Tensor& x) {
  const std::int64_t count = stack_of(op, name, x);
  if (x.shape()[-1] != x.shape()[-2]) check::fail(op, name, " has shape ", x.shape(), ": it must be [..., N, N]");
  return count;
}

// A copy in float64, outside the graph.
Tensor wide(const Tensor& x) { return x.detach().to(float64).clone(); }
Tensor wide_transposed(const Tensor& x) { return transpose(x.detach().to(float64)); }

[[noreturn]] void singular(const char* op, const char* name, const Tensor& x, std::int64_t k) {
  check::fail(op, name, " ", x.shape(), " has a singular matrix (number ", k, "): it has no inverse");
}

// NaN and infinity, over which LAPACK may run on for ever, spoil a result as a whole.
void expect_finite(const char* op, const char* name, const Tensor& x) {
  if (!all(isfinite(x)).item<bool>())
    check::fail(op, name, " ", x.shape(), " holds NaN or infinity: a matrix must be finite");
}

Tensor solved(const char* op, const char* name, const Tensor& a, const Tensor& b) {
  const std::int64_t count = square_stack(op, name, a);
  expect_finite(op, name, a);
  const int n = static_cast<int>(a.shape()[-1]), columns = static_cast<int>(b.shape()[-1]);
  Tensor left = wide_transposed(a), right = wide_transposed(b);
  std::vector<int> pivots(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < count && n > 0 && columns > 0; ++k) {
    int info = 0;
    dgesv_(&n, &columns, left.fresh<double>() + k * n * n, &n, pivots.data(), right.fresh<double>() + k * n * columns,
           &n, &info);
    if (info != 0) singular(op, name, a, k);
  }
  return transpose(right).to(promote(a.dtype(), b.dtype()));
}

// (The functions below work, and are differentiated, outside of Autocast.)
Tensor identity_like(const Tensor& x) { return eye(x.shape()[-1], -1, x.dtype()); }

Tensor times_diagonal(const Tensor& x, const Tensor& d) { return x * unsqueeze(d, -2); }

// The same diagonal with 1 where `from` is on the diagonal: differences of which a quotient is taken.
Tensor off_diagonal_quotient(const char* op, const Tensor& a, const Tensor& difference) {
  const Tensor on = eye(difference.shape()[-1], -1, boolean);
  const Tensor safe = masked_fill(difference, on, 1);
  if (any(safe.detach() == 0).item<bool>())
    check::fail(op, "two values are equal: the gradient of their vectors is not defined");
  return masked_fill(a / safe, on, 0);
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  square_stack("solve", "a", a);
  check::floating("solve", "b", b);
  bool fits = b.rank() == a.rank();
  for (int i = 0; i + 1 < a.rank() && fits; ++i) fits = a.shape()[i] == b.shape()[i];
  if (!fits)
    check::fail("solve", "a has shape ", a.shape(), ", b ", b.shape(),
                ": they must be [..., N, N] and [..., N, K] with equal leading axes");
  stack_of("solve", "b", b);
  return with_precision(Precision::float32, {a, b}, [&](const Tensor& a, const Tensor& b) {
    const Autocast exact(float32);
    Tensor x;
    {
      const NoGrad no_grad;
      x = solved("solve", "a", a, b);
    }
    return record("solve", {a, b}, std::move(x), keep::input(0) | keep::output, [](Backward& g) {
      // db = a^-T dx;  da = -db x^T
      const Tensor a = g.x(0).to(g.dy().dtype()), db = solve(transpose(a), g.dy());
      if (g.wants(0)) g.give(0, -matmul(db, Transpose::no, g.y(), Transpose::yes));
      g.give(1, db);
    });
  });
}

Tensor inv(const Tensor& x) {
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Autocast exact(float32);
    square_stack("inv", "x", x);
    Tensor y;
    {
      const NoGrad no_grad;
      y = solved("inv", "x", x, broadcast_to(identity_like(x), x.shape()));
    }
    return record("inv", {x}, std::move(y), keep::output, [](Backward& g) {
      const Tensor t = transpose(g.y());
      g.give(0, -matmul(t, matmul(g.dy(), t)));
    });
  });
}

Tensor det(const Tensor& x) {
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Autocast exact(float32);
    const std::int64_t count = square_stack("det", "x", x);
    const int n = static_cast<int>(x.shape()[-1]);
    expect_finite("det", "x", x);
    Tensor a = wide(x), y = Tensor::empty(x.shape().erased(x.rank() - 1).erased(x.rank() - 2), float64);
    std::vector<int> pivots(static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < count; ++k) {
      double* const matrix = a.fresh<double>() + k * n * n;
      int info = 0;
      if (n > 0) dgetrf_(&n, &n, matrix, &n, pivots.data(), &info);
      double product = 1;  // of the diagonal; each exchange of rows turns the sign
      for (int i = 0; i < n; ++i)
        product *= pivots[static_cast<std::size_t>(i)] == i + 1 ? matrix[i * n + i] : -matrix[i * n + i];
      y.fresh<double>()[k] = product;
    }
    y = y.to(x.dtype());
    return record("det", {x}, std::move(y), keep::inputs | keep::output, [](Backward& g) {
      const Tensor x = g.x(0);
      if (any(g.y().detach() == 0).item<bool>())
        check::fail("det", "a determinant of x ", x.shape(), " is 0: its gradient needs the inverse");
      g.give(0, unsqueeze(unsqueeze(g.dy() * g.y(), -1), -1) * transpose(inv(x)));
    });
  });
}

Tensor cholesky(const Tensor& x) {
  return with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Autocast exact(float32);
    const std::int64_t count = square_stack("cholesky", "x", x);
    const int n = static_cast<int>(x.shape()[-1]);
    expect_finite("cholesky", "x", x);
    Tensor y = wide(x);
    for (std::int64_t k = 0; k < count && n > 0; ++k) {
      int info = 0;
      dpotrf_("U", &n, y.fresh<double>() + k * n * n, &n, &info);  // upper by columns: lower by rows
      if (info != 0)
        check::fail("cholesky", "x ", x.shape(), " has a matrix (number ", k,
                    ") that is not positive definite: its minor ", info, " is not");
    }
    {
      const NoGrad no_grad;
      y = tril(y).to(x.dtype());
    }
    return record("cholesky", {x}, std::move(y), keep::output, [](Backward& g) {
      // With P the lower triangle of L^T dL, its diagonal halved: S = L^-T P L^-1, and dx = (S + S^T) / 2
      const Tensor l = g.y(), up = transpose(l), p = tril(matmul(up, g.dy()));
      const Tensor half = p - p * (identity_like(p) * 0.5);
      const Tensor s = solve(up, transpose(solve(up, transpose(half))));
      g.give(0, (s + transpose(s)) * 0.5);
    });
  });
}

std::pair<Tensor, Tensor> eigh(const Tensor& x) {
  const std::vector<Tensor> y = with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Autocast exact(float32);
    const std::int64_t count = square_stack("eigh", "x", x);
    const int n = static_cast<int>(x.shape()[-1]);
    expect_finite("eigh", "x", x);
    Tensor vectors = wide(x), values = Tensor::empty(x.shape().erased(x.rank() - 1), float64);
    const int work_size = 1 + 6 * n + 2 * n * n, whole_size = 3 + 5 * n;
    std::vector<double> work(static_cast<std::size_t>(work_size));
    std::vector<int> whole(static_cast<std::size_t>(whole_size));
    for (std::int64_t k = 0; k < count && n > 0; ++k) {
      int info = 0;
      dsyevd_("V", "U", &n, vectors.fresh<double>() + k * n * n, &n, values.fresh<double>() + k * n, work.data(),
              &work_size, whole.data(), &whole_size, &info);
      if (info != 0) check::fail("eigh", "the values of matrix ", k, " of x ", x.shape(), " were not found");
    }
    {
      const NoGrad no_grad;
      vectors = transpose(vectors).to(x.dtype());
      values = values.to(x.dtype());
    }
    std::vector<Tensor> y{values, vectors};
    record("eigh", {x}, y, keep::output, [](Backward& g) {
      // dx = V (diag(dw) + (V^T dV) / (w_j - w_i)) V^T, made symmetric
      const Tensor w = g.y(0), v = g.y(1);
      Tensor inner = identity_like(v) * unsqueeze(g.dy(0), -2);
      if (g.has_dy(1))
        inner =
            inner + off_diagonal_quotient("eigh", matmul(transpose(v), g.dy(1)), unsqueeze(w, -2) - unsqueeze(w, -1));
      const Tensor dx = matmul(v, matmul(inner, transpose(v)));
      g.give(0, (dx + transpose(dx)) * 0.5);
    });
    return y;
  });
  return {y[0], y[1]};
}

Svd svd(const Tensor& x) {
  const std::vector<Tensor> y = with_precision(Precision::float32, {x}, [&](const Tensor& x) {
    const Autocast exact(float32);
    const std::int64_t count = stack_of("svd", "x", x);
    expect_finite("svd", "x", x);
    // By columns x is x^T = v s u^T: LAPACK's u is v, and its v^T is u^T by columns, u by rows.
    const int m = static_cast<int>(x.shape()[-1]), n = static_cast<int>(x.shape()[-2]), k = std::min(m, n);
    const int rank = x.rank();
    Tensor a = wide(x), s = Tensor::empty(x.shape().erased(rank - 1).with(rank - 2, k), float64);
    Tensor vt = Tensor::empty(x.shape().with(rank - 2, k), float64),
           u = Tensor::empty(x.shape().with(rank - 1, k), float64);
    const int work_size = std::max(1, 4 * k * k + 7 * k + std::max(m, n));
    std::vector<double> work(static_cast<std::size_t>(work_size));
    std::vector<int> whole(static_cast<std::size_t>(8 * k));
    for (std::int64_t i = 0; i < count && k > 0; ++i) {
      int info = 0;
      dgesdd_("S", &m, &n, a.fresh<double>() + i * m * n, &m, s.fresh<double>() + i * k, vt.fresh<double>() + i * m * k,
              &m, u.fresh<double>() + i * n * k, &k, work.data(), &work_size, whole.data(), &info);
      if (info != 0) check::fail("svd", "the values of matrix ", i, " of x ", x.shape(), " were not found");
    }
    std::vector<Tensor> y;
    {
      const NoGrad no_grad;
      y = {u.to(x.dtype()), s.to(x.dtype()), transpose(vt).to(x.dtype())};
    }
    record("svd", {x}, y, keep::output, [](Backward& g) {
      // Townsend (2016), "Differentiating the singular value decomposition": with E = s_j^2 - s_i^2,
      // dx = u (skew(u^T du) / E s + s skew(v^T dv) / E + diag(ds)) v^T + (1 - u u^T) du / s v^T + u / s dv^T (1 - v
      // v^T)
      const Tensor u = g.y(0), s = g.y(1), v = g.y(2), ut = transpose(u), vt = transpose(v);
      Tensor inner = eye(s.shape()[-1], -1, s.dtype()) * unsqueeze(g.dy(1), -2), outside;
      const bool vectors = g.has_dy(0) || g.has_dy(2);
      if (vectors) {
        if (any(s.detach() == 0).item<bool>())
          check::fail("svd", "a singular value is 0: the gradient of its vectors is not defined");
        const Tensor square = s * s, e = unsqueeze(square, -2) - unsqueeze(square, -1);
        const auto quotient = [&](const Tensor& a) { return off_diagonal_quotient("svd", a - transpose(a), e); };
        const Tensor du = g.dy(0), dv = g.dy(2), left = matmul(ut, du), right = matmul(vt, dv);
        inner = inner + times_diagonal(quotient(left), s) + unsqueeze(s, -1) * quotient(right);
        const Tensor one = div(1, s);
        outside = matmul(times_diagonal(du - matmul(u, left), one), vt) +
                  matmul(times_diagonal(u, one), transpose(dv - matmul(v, right)));
      }
      const Tensor dx = matmul(u, matmul(inner, vt));
      g.give(0, vectors ? dx + outside : dx);
    });
    return y;
  });
  return {y[0], y[1], y[2]};
}

}  // namespace fit
