#include <cmath>
#include <tuple>

#include "support/oracles/xtensor_oracle.hpp"

// Products by cblas, and linear algebra. fit's linalg calls LAPACK by xtensor-blas, too (core/ops/linalg/lapack.cpp).
// So these oracles take another way to the same result where there is one.
namespace fit::test::oracles_linalg {
namespace {

using xt::linalg::dot;

Array transposed(const Array& x) { return xt::transpose(x); }

// The leading axes broadcast.
Array product(Array a, Array b) {
  const auto front = [](const Array& x) { return Sizes(x.shape().begin(), x.shape().end() - 2); };
  const auto broadcast = [&](Array& x, const Array& other) {
    Sizes shape(std::max(x.dimension(), other.dimension()) - 2, 1);
    for (const Sizes& s : {front(x), front(other)})
      for (std::size_t i = 0; i < s.size(); ++i)
        if (s[s.size() - 1 - i] != 1) shape[shape.size() - 1 - i] = s[s.size() - 1 - i];
    shape.insert(shape.end(), x.shape().end() - 2, x.shape().end());
    x = Array(xt::broadcast(Array(x), shape));
  };
  const Array first = a;
  broadcast(a, b), broadcast(b, first);
  return each_matrix({a, b}, [](const Arrays& m) { return dot(m[0], m[1]); })[0];
}
Array swapped(const Array& x) {
  return each_matrix({x}, [](const Arrays& m) { return xt::transpose(m[0]); })[0];
}

Oracle products(const std::string& form, bool ta, bool tb) {
  return Oracle("matmul, " + form,
                [=](const auto& in) { return product(ta ? swapped(in[0]) : in[0], tb ? swapped(in[1]) : in[1]); })
      .within(8)
      .not_empty();
}

std::vector<Oracle> of_matrices() {
  return {
      products("a, b", false, false),
      products("a, b transposed", false, true),
      products("a transposed, b", true, false),
      products("a transposed, b transposed", true, true),
      {"dot", [](const auto& in) { return xt::linalg::vdot(in[0], in[1]); }},
      {"bmm", [](const auto& in) { return product(in[0], in[1]); }},
      {"addmm", [](const auto& in) { return Array(0.5 * in[0] - 2. * dot(in[1], in[2])); }},
      Oracle("linear",
             [](const auto& in) {
               return Array(xt::linalg::tensordot(in[0], in[1], {in[0].dimension() - 1}, {1}) + in[2]);
             })
          .within(8)
          .not_empty(),
      Oracle("outer", [](const auto& in) { return xt::linalg::outer(in[0], in[1]); }).not_empty(),
      {"einsum, ij,kj->ki", [](const auto& in) { return dot(in[1], transposed(in[0])); }},
      {"einsum, ij,ij->", [](const auto& in) { return double(xt::sum(in[0] * in[1])()); }},
      {"einsum, ii", [](const auto& in) { return xt::linalg::trace(in[0]); }},
      {"einsum, i,j->ji", [](const auto& in) { return xt::linalg::outer(in[1], in[0]); }},
      {"einsum, ijk->ki", [](const auto& in) { return xt::transpose(Array(xt::sum(in[0], {1}))); }},
      {"einsum, ij,jk,kl->il", [](const auto& in) { return dot(Array(dot(in[0], in[1])), in[2]); }},
      {"cdist",
       [](const auto& in) {
         const auto places = [&](std::size_t i, std::size_t axis) {
           return xt::expand_dims(in[i], in[i].dimension() - axis);
         };
         const Array apart = places(0, 1) - places(1, 2);
         return Array(xt::sqrt(xt::sum(apart * apart, {apart.dimension() - 1})));
       }},
      {"cosine_similarity",
       [](const auto& in) {
         const auto along = [](const Array& x) { return Array(xt::sum(x, {x.dimension() - 1})); };
         return Array(along(in[0] * in[1]) / xt::sqrt(along(in[0] * in[0]) * along(in[1] * in[1])));
       }},
  };
}
const RegisterOracles matrix_oracles(of_matrices);

// The matrices that ops_linalg.cpp makes of its inputs.
Array eye(const Array& x) {
  Array y = xt::zeros<double>({x.shape()[0], x.shape()[1]});
  for (std::size_t i = 0; i < std::min(x.shape()[0], x.shape()[1]); ++i) y(i, i) = 1;
  return y;
}
Array regular(const Array& x) { return 0.2 * x + eye(x); }
Array spread(const Array& x) {
  return 0.1 * x + 0.1 * xt::transpose(x) + xt::diag(Array(xt::arange<double>(static_cast<double>(x.shape()[0]))));
}

// An oracle for each matrix.
template <class F>
Oracle by_matrix(const char* row, F f) {
  return Oracle(row, [f](const auto& in) { return each_matrix(in, f); }).within(64);
}

std::vector<Oracle> linear_algebra() {
  return {
      by_matrix("solve", [](const Arrays& m) { return dot(xt::linalg::inv(regular(m[0])), m[1]); }),
      by_matrix("solve_triangular",
                [](const Arrays& m) { return dot(xt::linalg::inv(Array(xt::tril(regular(m[0])))), m[1]); }),
      by_matrix("lstsq", [](const Arrays& m) { return dot(xt::linalg::pinv(regular(m[0])), m[1]); }),
      by_matrix("inv", [](const Arrays& m) { return xt::linalg::solve(regular(m[0]), eye(m[0])); }),
      by_matrix("det",
                [](const Arrays& m) {
                  const auto [sign, log_of] = xt::linalg::slogdet(regular(m[0]));
                  return static_cast<double>(sign) * std::exp(static_cast<double>(log_of));
                }),
      by_matrix("cholesky",
                [](const Arrays& m) {
                  const Array x = 0.5 * m[0], a = dot(x, transposed(x)) + eye(x);
                  return xt::linalg::cholesky(a);
                }),
      // The vectors of the symmetric matrix by the routine for any matrix, which does not sort.
      by_matrix("eigh",
                [](const Arrays& m) {
                  const auto [complex_values, complex_vectors] = xt::linalg::eig(spread(m[0]));
                  const Array values = xt::real(complex_values), vectors = xt::real(complex_vectors);
                  const auto order = xt::argsort(values);
                  Array sorted = xt::square(vectors);
                  for (std::size_t i = 0; i < order.size(); ++i)
                    xt::view(sorted, xt::all(), i) = xt::square(xt::view(vectors, xt::all(), order(i)));
                  return Arrays{xt::sort(values), sorted};
                }),
      // The singular values are the roots of the values of x'x, in falling order; v are its vectors.
      Oracle("svd",
             [](const auto& in) {
               const Array y = 0.1 * in[0] + xt::diag(Array{3., 2., 1.}), x = xt::view(y, xt::all(), xt::range(0, 2));
               const auto [values, vectors] = xt::linalg::eigh(Array(dot(transposed(x), x)));
               const Array s = xt::sqrt(xt::flip(values, 0)), v = xt::flip(vectors, 1), u = dot(x, v) / s;
               return Arrays{xt::square(u), s, xt::square(v)};
             })
          .within(64),
      by_matrix("qr",
                [](const Arrays& m) {
                  const auto [q, r] = xt::linalg::qr(regular(m[0]));
                  return Arrays{q, r};
                }),
  };
}
const RegisterOracles linear_algebra_oracles(linear_algebra);

// softmax(q k' / sqrt(d)) v, by cblas.
Arrays attention(const Arrays& in, bool causal) {
  return each_matrix(in, [causal](const Arrays& m) {
    Array weights = xt::exp(dot(m[0], transposed(m[1])) / std::sqrt(static_cast<double>(m[0].shape()[1])));
    const auto queries = static_cast<int>(weights.shape()[0]), keys = static_cast<int>(weights.shape()[1]);
    if (causal) weights = xt::tril(Array(weights), keys - queries);
    const Array all = sums(weights, 1);
    weights /= xt::where(xt::equal(all, 0.), 1., all);  // a query that sees nothing gives 0
    return Arrays{dot(weights, m[2]), weights};
  });
}

std::vector<Oracle> attentions() {
  return {
      Oracle("scaled_dot_product_attention",
             [](const auto& in) {
               Arrays grouped = in;
               if (in[0].dimension() == 4)
                 for (std::size_t i : {1, 2})
                   grouped[i] = Array(xt::repeat(in[i], in[0].shape()[1] / in[i].shape()[1], 1));
               return Arrays{attention(grouped, false)[0]};
             })
          .not_empty(),
      {"attend, causal, fewer queries than keys, and more", [](const auto& in) { return attention(in, true); }},
  };
}
const RegisterOracles attention_oracles(attentions);

}  // namespace
}  // namespace fit::test::oracles_linalg
