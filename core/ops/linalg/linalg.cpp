// Linear algebra: the checks and adjoints of its operations. lapack.cpp computes.
#include <algorithm>
#include <tuple>
#include <vector>

#include "fit/ops/ops.hpp"
#include "matmul/openblas.hpp"
#include "ops/common/precision.hpp"
#include "ops/linalg/lapack.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

constexpr std::int64_t max_matrix = 1 << 28;  // elements: LAPACK's int can hold several times as many

// Throws Error unless x is floating and has at least two axes.
void expect_matrices(const char* op, const char* name, const Tensor& x) {
  check::floating(op, name, x);
  if (x.rank() < 2) check::fail(op, name, " has shape ", x.shape(), ": it must be [..., M, N]");
  if (x.shape()[-1] > 0 && x.shape()[-2] > max_matrix / x.shape()[-1])
    check::fail(
        op, name, " has shape ", x.shape(), ": a matrix may have at most 2^28 elements",
        x.shape()[-2] > x.shape()[-1] ? "; of so many rows, solve the normal equations in parts of the rows" : "");
}

void expect_square(const char* op, const char* name, const Tensor& x) {
  expect_matrices(op, name, x);
  if (x.shape()[-1] != x.shape()[-2]) check::fail(op, name, " has shape ", x.shape(), ": it must be [..., N, N]");
}

// x with these leading axes: broadcast.
Tensor with_leading(const Tensor& x, Shape leading) {
  const int rank = leading.rank();
  const Shape shape = leading.inserted(rank, x.shape()[-2]).inserted(rank + 1, x.shape()[-1]);
  return shape == x.shape() ? x : broadcast_to(x, shape);
}

// The rule of a system a x = b: [..., M, N] and [..., M, K] with equal leading axes.
void expect_system(const char* op, const char* shapes, const Tensor& a, const Tensor& b) {
  check::floating(op, "b", b);
  bool fits = b.rank() == a.rank();
  for (int i = 0; i + 1 < a.rank() && fits; ++i) fits = a.shape()[i] == b.shape()[i];
  if (!fits)
    check::fail(op, "a has shape ", a.shape(), ", b ", b.shape(), ": they must be ", shapes,
                " with equal leading axes");
  expect_matrices(op, "b", b);
}

// The operands of a system a x = b with a square: {a, b} with leading axes that are broadcast.
std::pair<Tensor, Tensor> system_of(const char* op, const Tensor& a, const Tensor& b) {
  expect_square(op, "a", a);
  check::floating(op, "b", b);
  if (b.rank() < 2 || a.shape()[-1] != b.shape()[-2])
    check::fail(op, "a has shape ", a.shape(), ", b ", b.shape(),
                ": they must be [..., N, N] and [..., N, K]; unsqueeze(b, -1) makes a vector a column");
  expect_matrices(op, "b", b);
  const auto leading = [](const Tensor& x) { return x.shape().erased(x.rank() - 1).erased(x.rank() - 2); };
  const Shape both = check::broadcast(op, leading(a), leading(b));
  return {with_leading(a, both), with_leading(b, both)};
}

[[noreturn]] void fail_singular(const char* op, const char* name, const Tensor& x, std::int64_t k) {
  check::fail(op, name, " ", x.shape(), " has a singular matrix (number ", k, "): it has no inverse");
}

// LCOV_EXCL_START: no finite matrix is known for which LAPACK's iteration does not end.
[[noreturn]] void fail_values(const char* op, const Tensor& x, std::int64_t k) {
  check::fail(op, "the values of matrix ", k, " of x ", x.shape(), " were not found");
}
// LCOV_EXCL_STOP

// The matrices of a stack, in float64: copied from an operand, or zeros for a result.
class Stack {
 public:
  explicit Stack(const Tensor& x) : all_(x.detach().to(float64)) {}
  // Refuses NaN and infinity in the operand `name`: LAPACK may loop forever on them.
  Stack(const char* op, const char* name, const Tensor& x) : Stack(x) {
    if (!all(isfinite(x)).item<bool>())
      check::fail(op, name, " ", x.shape(), " holds NaN or infinity: a matrix must be finite");
  }
  explicit Stack(const Shape& shape) : all_(zeros(shape, float64)) {}
  // The number of matrices; 0 if a matrix has no elements.
  std::int64_t count() const { return all_.numel() == 0 ? 0 : all_.numel() / (rows() * cols()); }
  lapack::In operator[](std::int64_t k) const {
    return {all_.data<double>().data() + k * rows() * cols(), rows(), cols()};
  }
  lapack::Out operator[](std::int64_t k) { return {all_.fresh<double>() + k * rows() * cols(), rows(), cols()}; }
  Tensor as(DType t) const { return all_.to(t); }

 private:
  std::int64_t rows() const { return all_.shape()[-2]; }
  std::int64_t cols() const { return all_.shape()[-1]; }
  Tensor all_;
};

// x's shape with matrices of another size.
Shape with_matrices(const Tensor& x, std::int64_t rows, std::int64_t cols) {
  return x.shape().with(x.rank() - 2, rows).with(x.rank() - 1, cols);
}
// x's shape with `n` numbers instead of each matrix.
Shape with_values(const Tensor& x, std::int64_t n) { return x.shape().erased(x.rank() - 1).with(x.rank() - 2, n); }

Tensor identity_like(const Tensor& x) { return eye(x.shape()[-1], -1, x.dtype()); }

Tensor times_diagonal(const Tensor& x, const Tensor& d) { return x * unsqueeze(d, -2); }

// The lower triangle, with half of the diagonal.
Tensor lower_half(const Tensor& x) {
  const Tensor lower = tril(x);
  return lower - lower * (identity_like(x) * 0.5);
}

// a / difference, with 0 on the diagonal, where the difference is 0.
Tensor off_diagonal_quotient(const char* op, const Tensor& a, const Tensor& difference) {
  const Tensor on = eye(difference.shape()[-1], -1, boolean);
  const Tensor safe = masked_fill(difference, on, 1);
  if (any(safe.detach() == 0).item<bool>())
    check::fail(op, "two values are equal: the gradient of their vectors is not defined");
  return masked_fill(a / safe, on, 0);
}

// Calls body(x...) with operands in float32 or float64. Autocast is off, also for the products of its adjoints.
template <std::size_t N, class Body>
auto exactly(const detail::Inputs::Ref (&operands)[N], const Body& body) {
  return with_precision(Precision::float32, operands, [&](const auto&... x) {
    const Autocast off(float32);
    kernels::pin_openblas();  // OpenBLAS contains LAPACK, too
    return body(x...);
  });
}

}  // namespace

Tensor solve(const Tensor& given_a, const Tensor& given_b) {
  const auto [a, b] = system_of("solve", given_a, given_b);
  return exactly({a, b}, [](const Tensor& a, const Tensor& b) {
    const Stack left("solve", "a", a), right(b);
    Stack x(b.shape());
    for (std::int64_t k = 0; k < x.count(); ++k)
      if (!lapack::solve(left[k], right[k], x[k])) fail_singular("solve", "a", a, k);
    return record("solve", {a, b}, x.as(promote(a.dtype(), b.dtype())), keep::input(0) | keep::output, [](Backward& g) {
      // db = a^-T dx;  da = -db x^T
      const Tensor a = g.x(0).to(g.dy().dtype()), db = solve(transpose(a), g.dy());
      if (g.wants(0)) g.give(0, -matmul(db, Transpose::no, g.y(), Transpose::yes));
      g.give(1, db);
    });
  });
}

Tensor solve_triangular(const Tensor& given_a, const Tensor& given_b, Triangle triangle) {
  const auto [a, b] = system_of("solve_triangular", given_a, given_b);
  return exactly({a, b}, [triangle](const Tensor& a, const Tensor& b) {
    const bool upper = triangle == Triangle::upper;
    const Stack left(a), right(b);
    Stack x(b.shape());
    for (std::int64_t k = 0; k < x.count(); ++k)
      if (!lapack::solve_triangular(left[k], upper, right[k], x[k])) fail_singular("solve_triangular", "a", a, k);
    return record("solve_triangular", {a, b}, x.as(promote(a.dtype(), b.dtype())), keep::input(0) | keep::output,
                  [upper](Backward& g) {
                    // As solve(), in the triangle; a^T has the other one.
                    const Tensor a = g.x(0).to(g.dy().dtype());
                    const Tensor db = solve_triangular(transpose(a), g.dy(), upper ? Triangle::lower : Triangle::upper);
                    if (g.wants(0)) {
                      const Tensor da = -matmul(db, Transpose::no, g.y(), Transpose::yes);
                      g.give(0, upper ? triu(da) : tril(da));
                    }
                    g.give(1, db);
                  });
  });
}

Tensor lstsq(const Tensor& a, const Tensor& b) {
  expect_matrices("lstsq", "a", a);
  expect_system("lstsq", "[..., M, N] and [..., M, K]", a, b);
  return exactly({a, b}, [](const Tensor& a, const Tensor& b) {
    const Stack left("lstsq", "a", a), right("lstsq", "b", b);
    Stack x(with_matrices(b, a.shape()[-1], b.shape()[-1]));
    for (std::int64_t k = 0; k < std::min(left.count(), x.count()); ++k) lapack::lstsq(left[k], right[k], x[k]);
    return record("lstsq", {a, b}, x.as(promote(a.dtype(), b.dtype())), keep::inputs | keep::output, [](Backward& g) {
      // Golub and Pereyra (1973), "The differentiation of pseudo-inverses": with x = p b for the pseudo-inverse p, and
      // p v = lstsq(a, v): db = p^T dx; da = -db x^T + (b - a x) (p db)^T + p^T x (dx - a^T db)^T
      const DType t = g.dy().dtype();
      const Tensor a = g.x(0).to(t), up = transpose(a), dx = g.dy(), db = lstsq(up, dx);
      if (g.wants(0)) {
        const Tensor x = g.y(), rest = g.x(1).to(t) - matmul(a, x), further = dx - matmul(up, db);
        g.give(0, matmul(rest, Transpose::no, lstsq(a, db), Transpose::yes) +
                      matmul(lstsq(up, x), Transpose::no, further, Transpose::yes) -
                      matmul(db, Transpose::no, x, Transpose::yes));
      }
      g.give(1, db);
    });
  });
}

Tensor inv(const Tensor& x) {
  expect_square("inv", "x", x);
  return exactly({x}, [](const Tensor& x) {
    const Stack in("inv", "x", x);
    Stack y(x.shape());
    for (std::int64_t k = 0; k < y.count(); ++k)
      if (!lapack::inv(in[k], y[k])) fail_singular("inv", "x", x, k);
    return record("inv", {x}, y.as(x.dtype()), keep::output, [](Backward& g) {
      const Tensor t = transpose(g.y());
      g.give(0, -matmul(t, matmul(g.dy(), t)));
    });
  });
}

Tensor det(const Tensor& x) {
  expect_square("det", "x", x);
  return exactly({x}, [](const Tensor& x) {
    const Stack in("det", "x", x);
    Tensor y = ones(x.shape().erased(x.rank() - 1).erased(x.rank() - 2), float64);  // 1 for an empty matrix
    for (std::int64_t k = 0; k < in.count(); ++k) y.fresh<double>()[k] = lapack::det(in[k]);
    return record("det", {x}, y.to(x.dtype()), keep::inputs | keep::output, [](Backward& g) {
      const Tensor x = g.x(0);
      if (any(g.y().detach() == 0).item<bool>())
        check::fail("det", "a determinant of x ", x.shape(), " is 0: its gradient needs the inverse");
      g.give(0, unsqueeze(unsqueeze(g.dy() * g.y(), -1), -1) * transpose(inv(x)));
    });
  });
}

std::pair<Tensor, Tensor> slogdet(const Tensor& x) {
  expect_square("slogdet", "x", x);
  const std::vector<Tensor> all = exactly({x}, [](const Tensor& x) {
    const Stack in("slogdet", "x", x);
    const Shape leading = x.shape().erased(x.rank() - 1).erased(x.rank() - 2);
    Tensor sign = ones(leading, float64), log = zeros(leading, float64);  // of an empty matrix
    for (std::int64_t k = 0; k < in.count(); ++k)
      std::tie(sign.fresh<double>()[k], log.fresh<double>()[k]) = lapack::slogdet(in[k]);
    std::vector<Tensor> y{sign.to(x.dtype()), log.to(x.dtype())};
    record("slogdet", {x}, y, keep::inputs | keep::output, [](Backward& g) {
      if (!g.has_dy(1)) return g.give(0, Tensor());  // the sign is constant
      const Tensor x = g.x(0);
      if (any(g.y(0).detach() == 0).item<bool>())
        check::fail("slogdet", "a matrix of x ", x.shape(), " is singular: its gradient needs the inverse");
      g.give(0, unsqueeze(unsqueeze(g.dy(1), -1), -1) * transpose(inv(x)));
    });
    return y;
  });
  return {all[0], all[1]};
}

Tensor cholesky(const Tensor& x) {
  expect_square("cholesky", "x", x);
  return exactly({x}, [](const Tensor& x) {
    const Stack in("cholesky", "x", x);
    Stack y(x.shape());
    for (std::int64_t k = 0; k < y.count(); ++k)
      if (const int minor = lapack::cholesky(in[k], y[k]); minor != 0)
        check::fail("cholesky", "x ", x.shape(), " has a matrix (number ", k,
                    ") that is not positive definite: its minor ", minor,
                    " is not; if it should be, but for rounding, add a small number to its diagonal");
    return record("cholesky", {x}, y.as(x.dtype()), keep::output, [](Backward& g) {
      // With P = lower_half(L^T dL): S = L^-T P L^-1, and dx = (S + S^T) / 2
      const Tensor l = g.y(), up = transpose(l), p = lower_half(matmul(up, g.dy()));
      const auto divided = [&](const Tensor& x) { return solve_triangular(up, transpose(x), Triangle::upper); };
      const Tensor s = divided(divided(p));
      g.give(0, (s + transpose(s)) * 0.5);
    });
  });
}

std::pair<Tensor, Tensor> eigh(const Tensor& x) {
  expect_square("eigh", "x", x);
  const std::vector<Tensor> all = exactly({x}, [](const Tensor& x) {
    const Stack in("eigh", "x", x);
    Stack vectors(x.shape());
    Tensor values = zeros(with_values(x, x.shape()[-1]), float64);
    for (std::int64_t k = 0; k < in.count(); ++k)
      if (!lapack::eigh(in[k], values.fresh<double>() + k * x.shape()[-1], vectors[k])) fail_values("eigh", x, k);
    std::vector<Tensor> y{values.to(x.dtype()), vectors.as(x.dtype())};
    record("eigh", {x}, y, keep::output, [](Backward& g) {
      // dx = V (diag(dw) + (V^T dV) / (w_j - w_i)) V^T, symmetrised
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
  return {all[0], all[1]};
}

Svd svd(const Tensor& x) {
  expect_matrices("svd", "x", x);
  const std::vector<Tensor> all = exactly({x}, [](const Tensor& x) {
    const std::int64_t m = x.shape()[-2], n = x.shape()[-1], values = std::min(m, n);
    const Stack in("svd", "x", x);
    Stack u(with_matrices(x, m, values)), vt(with_matrices(x, values, n));
    Tensor s = zeros(with_values(x, values), float64);
    for (std::int64_t k = 0; k < in.count(); ++k)
      if (!lapack::svd(in[k], u[k], s.fresh<double>() + k * values, vt[k])) fail_values("svd", x, k);
    std::vector<Tensor> y{u.as(x.dtype()), s.to(x.dtype()), transpose(vt.as(x.dtype()))};
    record("svd", {x}, y, keep::output, [](Backward& g) {
      // Townsend (2016), "Differentiating the singular value decomposition": with E = s_j^2 - s_i^2, dx =
      // u (skew(u^T du) / E s + s skew(v^T dv) / E + diag(ds)) v^T + (1 - u u^T) du / s v^T + u / s dv^T (1 - v v^T)
      // 1 - u u^T is 0 unless x is tall, and 1 - v v^T unless it is wide. Computed, they would be rounding errors / s.
      const Tensor u = g.y(0), s = g.y(1), v = g.y(2), ut = transpose(u), vt = transpose(v);
      Tensor inner = eye(s.shape()[-1], -1, s.dtype()) * unsqueeze(g.dy(1), -2), outside;
      if (g.has_dy(0) || g.has_dy(2)) {
        // E is (s_j - s_i) (s_j + s_i), and s is divided by the sum: squares of values far from 1 are inf or 0.
        const Tensor j = unsqueeze(s, -2), i = unsqueeze(s, -1), difference = j - i;
        const Tensor sum = masked_fill(j + i, eye(s.shape()[-1], -1, boolean), 1);
        const auto quotient = [&](const Tensor& a) {
          return off_diagonal_quotient("svd", a - transpose(a), difference);
        };
        const Tensor du = g.dy(0), dv = g.dy(2), left = matmul(ut, du), right = matmul(vt, dv);
        inner = inner + quotient(left) * (j / sum) + quotient(right) * (i / sum);
        const std::int64_t m = u.shape()[-2], n = v.shape()[-2];
        if (m != n && any(s.detach() == 0).item<bool>())
          check::fail("svd", "a singular value of x ", g.shape(0), " is 0: the gradient of its vectors is not defined");
        if (m > n) outside = matmul(times_diagonal(du - matmul(u, left), div(1, s)), vt);
        if (m < n) outside = matmul(times_diagonal(u, div(1, s)), transpose(dv - matmul(v, right)));
      }
      const Tensor dx = matmul(u, matmul(inner, vt));
      g.give(0, outside.defined() ? dx + outside : dx);
    });
    return y;
  });
  return {all[0], all[1], all[2]};
}

std::pair<Tensor, Tensor> qr(const Tensor& x) {
  expect_matrices("qr", "x", x);
  const std::vector<Tensor> all = exactly({x}, [](const Tensor& x) {
    const std::int64_t m = x.shape()[-2], n = x.shape()[-1], inner = std::min(m, n);
    const Stack in("qr", "x", x);
    Stack q(with_matrices(x, m, inner)), r(with_matrices(x, inner, n));
    for (std::int64_t k = 0; k < in.count(); ++k) lapack::qr(in[k], q[k], r[k]);
    std::vector<Tensor> y{q.as(x.dtype()), r.as(x.dtype())};
    record("qr", {x}, y, keep::output, [inner, n](Backward& g) {
      // Walter and Lehmann (2010), "Algorithmic differentiation of linear algebra functions with application in optimum
      // experimental design": with M = r dr^T - dq^T q, lower triangle copied to the upper one, dx = (dq + q M) r^-T.
      // This holds for a square r; further columns of x are q times those of r.
      const Tensor q = g.y(0), r = slice(g.y(1), -1, 0, inner), dr = slice(g.dy(1), -1, 0, inner);
      const Tensor further = slice(g.y(1), -1, inner, n), dfurther = slice(g.dy(1), -1, inner, n);
      if (any(diagonal(r.detach(), 0, -2, -1) == 0).item<bool>())
        check::fail("qr", "a matrix of x ", g.shape(0), " has dependent columns: its gradient is not defined");
      const Tensor dq = g.dy(0) + matmul(matmul(q, further), transpose(dfurther));
      const Tensor half = lower_half(matmul(r, transpose(dr)) - matmul(transpose(dq), q));
      const Tensor dx =
          transpose(solve_triangular(r, transpose(dq + matmul(q, half + transpose(half))), Triangle::upper));
      g.give(0, cat({dx, matmul(q, dfurther)}, -1));
    });
    return y;
  });
  return {all[0], all[1]};
}

}  // namespace fit
