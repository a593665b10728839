#include "support/tables/op_table.hpp"

namespace fit::test {
namespace {

// A matrix that has an inverse wherever x lies in -2 … 2, and one that is symmetric and positive definite.
Tensor regular(const Tensor& x) {
  const Tensor y = x * 0.2;
  return y + eye(y.size(-1), -1, y.dtype());
}
Tensor definite(const Tensor& x) {
  const Tensor y = x * 0.5;
  return matmul(y, transpose(y)) + eye(y.size(-2), -1, y.dtype());
}
// With values apart from each other.
Tensor spread(const Tensor& x) {
  const Tensor y = x * 0.1, steps = arange(0, static_cast<double>(y.size(-1)), 1, y.dtype());
  return y + transpose(y) + diag(steps);
}

std::vector<OpRow> linear_algebra() {
  const char* const huge = "numbers of every size don't make a matrix that can be inverted";
  std::vector<OpRow> rows = {
      OpRow("solve", [](const auto& in) { return solve(regular(in[0]), in[1]); })
          .on({{3, 3}, {3, 2}})
          .on({{2, 2, 2}, {2, 2, 1}})
          .bad("a has shape [2, 3]: it must be [..., N, N]",
               [] {
                 solve(zeros({2, 3}), zeros({2, 1}));
               })
          .bad("a has shape [2, 2], b [3, 1]: they must be [..., N, N] and [..., N, K]",
               [] {
                 solve(ones({2, 2}), zeros({3, 1}));
               })
          .bad("a has shape [2, 2], b [2]: they must be [..., N, N] and [..., N, K]; unsqueeze(b, -1)",
               [] { solve(eye(2), zeros({2})); })
          .bad("shapes [2] and [3] do not broadcast",
               [] {
                 solve(ones({2, 2, 2}), zeros({3, 2, 1}));
               })
          .bad("a [2, 2] has a singular matrix (number 0)",
               [] {
                 solve(zeros({2, 2}), zeros({2, 1}));
               }),
      OpRow("solve", "leading axes that broadcast", [](const auto& in) { return solve(regular(in[0]), in[1]); })
          .on({{2, 2}, {3, 2, 1}})
          .on({{2, 1, 2, 2}, {3, 2, 2}}),
      OpRow("solve_triangular", [](const auto& in) { return solve_triangular(regular(in[0]), in[1], Triangle::lower); })
          .on({{3, 3}, {3, 2}})
          .on({{2, 2, 2}, {2, 2, 1}})
          .bad("a has shape [2, 2], b [2]: they must be [..., N, N] and [..., N, K]",
               [] { solve_triangular(eye(2), zeros({2}), Triangle::lower); })
          .bad("a [2, 2] has a singular matrix (number 0)",
               [] {
                 solve_triangular(zeros({2, 2}), zeros({2, 1}), Triangle::lower);
               }),
      OpRow("solve_triangular", "upper, leading axes that broadcast",
            [](const auto& in) { return solve_triangular(regular(in[0]), in[1], Triangle::upper); })
          .on({{2, 2}, {3, 2, 1}})
          .on({{2, 1, 2, 2}, {3, 2, 2}}),
      OpRow("lstsq",
            [](const auto& in) {
              const Tensor a = in[0] * 0.2;
              return lstsq(a + eye(a.size(-2), a.size(-1), a.dtype()), in[1]);
            })
          .on({{4, 2}, {4, 2}})
          .on({{2, 3}, {2, 1}})
          .on({{2, 2, 2}, {2, 2, 1}})
          .within(1e-4)
          .bad("a has shape [3, 2], b [2, 1]: they must be [..., M, N] and [..., M, K] with equal leading axes",
               [] {
                 lstsq(ones({3, 2}), zeros({2, 1}));
               })
          .bad("b [2, 1] holds NaN or infinity",
               [] {
                 lstsq(eye(2), full({2, 1}, NAN));
               }),
      OpRow("inv", [](const auto& in) { return inv(regular(in[0])); })
          .on({{3, 3}})
          .on({{2, 2, 2}})
          .bad("x [2, 2] has a singular matrix",
               [] {
                 inv(ones({2, 2}));
               })
          .bad("holds NaN or infinity",
               [] {
                 inv(full({2, 2}, 1.) / 0);
               }),
      OpRow("det", [](const auto& in) { return det(regular(in[0])); })
          .on({{3, 3}})
          .on({{2, 2, 2}})
          .bad("a determinant of x [2, 2] is 0",
               [] {
                 Tensor x = ones({2, 2}).requires_grad_();
                 det(x).backward();
               }),
      OpRow("slogdet",
            [](const auto& in) {
              const auto [sign, log] = slogdet(regular(in[0]));
              return std::vector<Tensor>{sign, log};
            })
          .on({{3, 3}})
          .on({{2, 2, 2}})
          .bad("a matrix of x [2, 2] is singular: its gradient needs the inverse",
               [] {
                 Tensor x = ones({2, 2}).requires_grad_();
                 slogdet(x).second.backward();
               }),
      OpRow("cholesky", [](const auto& in) { return cholesky(definite(in[0])); })
          .on({{3, 3}})
          .on({{2, 2, 2}})
          .within(1e-4)
          .bad("that is not positive definite: its minor 2 is not",
               [] {
                 cholesky(ones({2, 2}));
               }),
      OpRow("eigh",
            [](const auto& in) {
              const auto [values, vectors] = eigh(spread(in[0]));
              return std::vector<Tensor>{values, square(vectors)};  // the signs of vectors are arbitrary
            })
          .on({{3, 3}})
          .on({{2, 2, 2}})
          .within(1e-4)
          .bad("two values are equal",
               [] {
                 Tensor x = eye(2).requires_grad_();
                 sum(eigh(x).second).backward();
               }),
      OpRow("svd",
            [](const auto& in) {
              const Tensor y = in[0] * 0.1, x = y + diag(tensor({3., 2., 1.}).to(y.dtype()));
              const auto [u, s, v] = svd(x[{ellipsis, range(0, 2)}]);
              return std::vector<Tensor>{square(u), s, square(v)};
            })
          .on({{3, 3}})
          .within(1e-4)
          .bad("a singular value of x [3, 2] is 0",
               [] {
                 Tensor x = eye(3, 2).requires_grad_();
                 {
                   const NoGrad no_grad;
                   x[{1, 1}] = 0.;
                 }
                 sum(svd(x).u).backward();
               }),
      OpRow("svd", "wide",
            [](const auto& in) {
              const Tensor y = in[0] * 0.1, x = y + diag(tensor({2., 1.}).to(y.dtype()), 1)[{range(0, 2)}];
              const auto [u, s, v] = svd(x);
              return matmul(u * unsqueeze(s * s, -2), transpose(v));
            })
          .on({{2, 3}})
          .within(1e-4),
      OpRow("qr",
            [](const auto& in) {
              const Tensor x = in[0] * 0.2;
              const auto [q, r] = qr(x + eye(x.size(-2), x.size(-1), x.dtype()));
              return std::vector<Tensor>{q, r};
            })
          .on({{3, 3}})
          .on({{2, 4, 2}})
          .on({{2, 4}})
          .on({{1, 1}})
          .within(1e-4)
          .bad("x has shape [3]: it must be [..., M, N]", [] { qr(zeros({3})); })
          .bad("has dependent columns",
               [] {
                 Tensor x = zeros({3, 2}).requires_grad_();
                 sum(qr(x).second).backward();
               }),
  };
  for (OpRow& r : rows) {
    r = std::move(r).except("huge numbers", huge).except("NaN", "it is refused");
    r = std::move(r).except("bfloat16", "its matrix is made of others: tests/core/tensor/bfloat16_test.cpp");
    if (r.op == "eigh" || r.op == "svd")
      for (const char* numbers : {"zeros", "equal numbers", "equal rows", "a zero"})
        r = std::move(r).except(numbers, "signs of vectors turn there");
    if (r.op == "qr") r = std::move(r).except("zeros", "the matrix is triangular: signs of vectors turn there");
  }
  return rows;
}
const RegisterOps linear_algebra_rows(linear_algebra);

}  // namespace
}  // namespace fit::test
