#include "linear_attention/kernel/kernel.hpp"

#include "linear_attention/kernel/pairs.hpp"

// The formulas, and the meaning of the letters, are in kernel.hpp.
namespace fit::kernels {
namespace {

template <class T>
std::int64_t forward_workspace(const LinearAttention<T>& a) {
  return 3 * C * C + 8 * C * a.D + 2 * C * a.Dv;
}
template <class T>
std::int64_t backward_workspace(const LinearAttention<T>& a) {
  return 5 * C * C + 11 * C * a.D + 4 * C * a.Dv + a.D * a.Dv;
}

template <class T>
bool all_finite(std::int64_t n, const T* x) {
  using V = Vec<T>;
  V sum(T(0));
  for_each_vector<V>(n, [&](std::int64_t i, auto access) {
    sum += access.template load<V>(x + i, T(0)) * V(T(0));  // 0 or NaN
  });
  return no_nan(sum);
}

// U = beta R and R = V - (P K) S0 - M U, row by row.
template <class T>
void solve(std::int64_t n, std::int64_t Dv, const T* M, const T* beta, T* R, T* U) {
  each_block(n, [&](std::int64_t first, std::int64_t rows) {
    macro_kernel({rows, Dv, first}, T(-1), {M + first * C, C}, {U, Dv}, {R + first * Dv, Dv}, Write::add);
    for (std::int64_t i = first; i < first + rows; ++i) {
      macro_kernel({1, Dv, i - first}, T(-1), {M + i * C + first, C}, {U + first * Dv, Dv}, {R + i * Dv, Dv},
                   Write::add);
      copy_scaled(R + i * Dv, beta[i], Dv, U + i * Dv);
    }
  });
}

// The adjoint of solve(): dR = beta dU and dU = dU - M' dR, from the last row to the first.
template <class T>
void solve_transposed(std::int64_t n, std::int64_t Dv, const T* M, const T* beta, T* dU, T* dR) {
  for (std::int64_t first = (n - 1) / linear_block * linear_block; first >= 0; first -= linear_block) {
    const std::int64_t rows = n - first < linear_block ? n - first : linear_block, end = first + rows;
    macro_kernel({rows, Dv, n - end}, T(-1), transpose_of(M + end * C + first, C), {dR + end * Dv, Dv},
                 {dU + first * Dv, Dv}, Write::add);
    for (std::int64_t i = end - 1; i >= first; --i) {
      macro_kernel({1, Dv, end - i - 1}, T(-1), transpose_of(M + (i + 1) * C + i, C), {dR + (i + 1) * Dv, Dv},
                   {dU + i * Dv, Dv}, Write::add);
      copy_scaled(dU + i * Dv, beta[i], Dv, dR + i * Dv);
    }
  }
}

// The rows of a chunk in the operands.
template <class T>
struct Operands {
  const T *q, *k, *v, *beta;
  Operands(const LinearAttention<T>& a, const LinearChunk& c)
      : q(a.q + c.first * a.D),
        k(a.k + c.first * a.D),
        v(a.v + c.first * a.Dv),
        beta(a.beta ? a.beta + c.first : nullptr) {}
};

template <class T, bool ByFeature>
bool forward(const LinearAttention<T>& a, const LinearChunk& c, const T* S0, T* S1, T* out, T* errors, T* workspace) {
  const std::int64_t n = c.n, D = a.D, Dv = a.Dv;
  const Operands<T> x(a, c);
  Arena<T> arena(workspace);
  const Factors<T, ByFeature> f(a, c, arena);
  const Pairs<T, ByFeature> pairs(f, x.k, arena);
  T* const P = arena.take(n * C);     // pairs
  T* const rows = arena.take(n * D);  // scaled by factors
  const T* U = x.v;
  if (x.beta) {
    T* const solved = arena.take(n * Dv);
    T* const R = errors ? errors : arena.take(n * Dv);
    copy_scaled(x.v, T(1), n * Dv, R);
    f.scale_rows(n, T(1), f.P, x.k, rows);
    macro_kernel({n, Dv, D}, T(-1), {rows, D}, {S0, Dv}, {R, Dv}, Write::add);
    pairs.products(T(1), x.k, true, P);
    solve(n, Dv, P, x.beta, R, solved);
    U = solved;
  }
  f.scale_rows(n, a.scale, f.P, x.q, rows);
  macro_kernel({n, Dv, D}, T(1), {rows, D}, {S0, Dv}, {out, Dv}, Write::set);
  pairs.products(a.scale, x.q, false, P);
  multiply_pairs(n, Dv, T(1), P, U, out, true);
  f.fade(Dv, S0, S1);
  f.scale_rows(n, T(1), f.E, x.k, rows);
  macro_kernel({D, Dv, n}, T(1), transpose_of(rows, D), {U, Dv}, {S1, Dv}, Write::add);
  return all_finite(n * Dv, out) && all_finite(D * Dv, S1);
}

// The gradient of decay. Factor t multiplies the pairs (s, r) with s < t <= r, where s may be S0: all that the first
// factor multiplies is S0 dS0, and each step t adds pairs as their s and takes away pairs as their r.
template <class T, bool ByFeature>
void decay_gradient(const Factors<T, ByFeature>& f, std::int64_t Dv, const Operands<T>& x, const T* S0, const T* dS0,
                    const T* dq, const T* dk_of_r, const T* dk_of_s, T* sum, T* ddecay) {
  using V = Vec<T>;
  const std::int64_t D = f.D;
  row_dots(D, Dv, S0, Dv, dS0, Dv, sum);
  for (std::int64_t t = 0; t < f.n; ++t) {
    Accumulators<T, 1> all(T(0));
    accumulate<T, 1>(D, [&](std::int64_t d, auto access, int j) {
      const auto get = [&](const T* p) { return access.template load<V>(p + d, T(0)); };
      const V now = get(sum);
      if constexpr (ByFeature) access.store(now, ddecay + t * D + d);
      all[j] += now;
      const V k = get(x.k + t * D), change = k * (get(dk_of_s + t * D) - get(dk_of_r + t * D));
      access.store(V(now + (change - get(x.q + t * D) * get(dq + t * D))), sum + d);
    });
    if constexpr (!ByFeature) ddecay[t] = all.sum();
  }
}

// The gradients of a chunk, in three parts. Each part adds to what the parts before it have computed.
template <class T, bool ByFeature>
struct ChunkGradients {
  const LinearAttention<T>& a;
  const LinearChunk& c;
  const T *S0, *errors, *dout, *dS1;
  T* dS0;
  const LinearGradients<T>& d;
  Arena<T> arena;

  std::int64_t n = c.n, D = a.D, Dv = a.Dv;
  Operands<T> x{a, c};
  T *dq = d.dq + c.first * D, *dk = d.dk + c.first * D, *dv = d.dv + c.first * Dv;
  Factors<T, ByFeature> f{a, c, arena};
  Pairs<T, ByFeature> pairs{f, x.k, arena};
  T *P = arena.take(n * C), *dP = arena.take(n * C), *rows = arena.take(n * D);
  T* dk_of_s = arena.take(n * D);  // the gradient of k as the earlier step of pairs; dk is that as the later one
  T *U_transposed = arena.take(Dv * C), *S_transposed = arena.take(D * Dv);
  T* dU = x.beta ? arena.take(n * Dv) : dv;
  const T* U = x.beta ? solved() : x.v;

  const T* solved() {
    T* const y = arena.take(n * Dv);
    for (std::int64_t t = 0; t < n; ++t) copy_scaled(errors + t * Dv, x.beta[t], Dv, y + t * Dv);
    return y;
  }

  // S1 = P_n S0 + (E K)' U
  void of_state() {
    transpose(n, Dv, U, Dv, U_transposed, C);
    f.scale_rows(n, T(1), f.E, x.k, rows);
    macro_kernel({n, Dv, D}, T(1), {rows, D}, {dS1, Dv}, {dU, Dv}, Write::set);
    transpose(D, Dv, dS1, Dv, S_transposed, D);
    macro_kernel({n, D, Dv}, T(1), {U, Dv}, {S_transposed, D}, {rows, D}, Write::set);
    f.scale_rows(n, T(1), f.E, rows, dk_of_s);
    f.fade(Dv, dS1, dS0);
  }

  // O = A U + scale (P Q) S0
  void of_output() {
    pairs.products(a.scale, x.q, false, P);
    multiply_pairs_transposed(n, Dv, T(1), P, dout, dU, true);
    f.scale_rows(n, a.scale, f.P, x.q, rows);
    macro_kernel({D, Dv, n}, T(1), transpose_of(rows, D), {dout, Dv}, {dS0, Dv}, Write::add);
    transpose(D, Dv, S0, Dv, S_transposed, D);
    macro_kernel({n, D, Dv}, a.scale, {dout, Dv}, {S_transposed, D}, {rows, D}, Write::set);
    f.scale_rows(n, T(1), f.P, rows, dq);
    products_of_pairs(n, Dv, T(1), dout, U_transposed, dP);
    pairs.gradients(a.scale, x.q, dP, dq, dk_of_s);
  }

  // U = beta R, R = V - (P K) S0 - M U
  void of_delta_rule() {
    pairs.products(T(1), x.k, true, P);
    solve_transposed(n, Dv, P, x.beta, dU, dv);
    row_dots(n, Dv, dU, Dv, errors, Dv, d.dbeta + c.first);
    f.scale_rows(n, T(1), f.P, x.k, rows);
    macro_kernel({D, Dv, n}, T(-1), transpose_of(rows, D), {dv, Dv}, {dS0, Dv}, Write::add);
    macro_kernel({n, D, Dv}, T(-1), {dv, Dv}, {S_transposed, D}, {rows, D}, Write::set);
    f.scale_rows(n, T(1), f.P, rows, dk);
    products_of_pairs(n, Dv, T(-1), dv, U_transposed, dP);
    for (std::int64_t t = 0; t < n; ++t) dP[t * C + t] = 0;
    pairs.gradients(T(1), x.k, dP, dk, dk_of_s);
  }

  bool run() {
    of_state();
    of_output();
    if (x.beta)
      of_delta_rule();
    else
      fill(n * D, T(0), dk);
    if (d.ddecay) decay_gradient(f, Dv, x, S0, dS0, dq, dk, dk_of_s, arena.take(D), d.ddecay + c.first * f.width());
    transform(
        dk, n * D, [](const Vec<T>& u, const Vec<T>& v) { return u + v; }, dk, dk_of_s);
    return all_finite(n * D, dq) && all_finite(n * D, dk) && all_finite(n * Dv, dv) && all_finite(D * Dv, dS0);
  }
};

template <class T, bool ByFeature>
bool backward(const LinearAttention<T>& a, const LinearChunk& c, const T* S0, const T* errors, const T* dout,
              const T* dS1, T* dS0, const LinearGradients<T>& d, T* workspace) {
  return ChunkGradients<T, ByFeature>{a, c, S0, errors, dout, dS1, dS0, d, Arena<T>(workspace)}.run();
}

}  // namespace

template <class IsaTag, class T>
const LinearTable<T>& linear_table() {
  static constexpr LinearTable<T> table{forward_workspace<T>,
                                        backward_workspace<T>,
                                        {forward<T, false>, forward<T, true>},
                                        {backward<T, false>, backward<T, true>}};
  return table;
}

template const LinearTable<float>& linear_table<FIT_ISA, float>();
template const LinearTable<double>& linear_table<FIT_ISA, double>();

}  // namespace fit::kernels
