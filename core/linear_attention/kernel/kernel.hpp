#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// Linear attention in chunks of steps (Yang et al. 2024, arXiv 2406.06484 and 2412.06464), float and double. The
// recurrence is in fit/attention/linear_attention.hpp, and in loops in reference.hpp.
//
// In a chunk of n steps with the state S0 before it, products of factors are P_t = a_1 … a_t, E_t = a_(t+1) … a_n and
// W_ts = a_(s+1) … a_t: numbers, or one for each feature. They are made by multiplication, not from sums of logarithms:
// a factor of 0 spoils no other product. With rows q_t, k_t, v_t, u_t of Q, K, V, U:
//
//   A_ts = scale q_t (W_ts k_s) for s <= t;  M_ts = k_t (W_ts k_s) for s < t;  0 for others
//   R = V - (P K) S0 - M U;  U = beta R      (solved row by row; without beta: U = V)
//   O = A U + scale (P Q) S0;  S1 = P_n S0 + (E K)' U
//
// Errors: rounded by operation of these formulas. They are stable: every product of factors is at most 1 if each factor
// is.
namespace fit::kernels {

constexpr std::int64_t linear_chunk = 64;

/// A call. `heads` counts the batch, too.
template <class T>
struct LinearAttention {
  std::int64_t heads = 0, steps = 0, D = 0, Dv = 0;
  T scale = 1;
  const T *q = nullptr, *k = nullptr, *v = nullptr;  // [heads, steps, D], the same, [heads, steps, Dv]
  const T* decay = nullptr;                          // [heads, steps] or [heads, steps, D]; null: none
  bool by_feature = false;                           // which of the two
  const T* beta = nullptr;                           // [heads, steps]; null: no delta rule
  const T* initial = nullptr;                        // [heads, D, Dv]; null: zeros

  std::int64_t chunks() const { return (steps + linear_chunk - 1) / linear_chunk; }
  std::int64_t state_size() const { return D * Dv; }
};

/// Values for the backward pass; null: not kept.
template <class T>
struct LinearKept {
  T* states = nullptr;  // [heads, chunks, D, Dv]: before each chunk
  T* errors = nullptr;  // [heads, steps, Dv]: R; with beta only
};

/// out [heads, steps, Dv] and the last state [heads, D, Dv].
template <class T>
void linear_attention_forward(const LinearAttention<T>& a, T* out, T* state, const LinearKept<T>& kept);

/// Gradients, all overwritten. ddecay has the shape of decay, dbeta that of beta; null if there is none.
template <class T>
struct LinearGradients {
  T *dq = nullptr, *dk = nullptr, *dv = nullptr, *ddecay = nullptr, *dbeta = nullptr, *dinitial = nullptr;
};

/// dout [heads, steps, Dv]; dstate [heads, D, Dv], null: zeros.
template <class T>
void linear_attention_backward(const LinearAttention<T>& a, const LinearKept<const T>& kept, const T* dout,
                               const T* dstate, const LinearGradients<T>& d);

// ---- compiled for each instruction set ---------------------------------------------------------------------------

/// Some steps of one head, at most linear_chunk: first … first + n - 1, counted through all heads.
struct LinearChunk {
  std::int64_t first, n;
};

template <class T>
struct LinearTable {
  /// Elements of the workspaces.
  std::int64_t (*forward_workspace)(const LinearAttention<T>& a);
  std::int64_t (*backward_workspace)(const LinearAttention<T>& a);
  /// Steps of a chunk: from the state S0 to S1, which may be S0. errors [n, Dv] may be null. Returns whether all is
  /// finite. A NaN then may have reached earlier steps of the chunk: the caller computes it again in chunks of one
  /// step. [1]: the decay is by feature.
  bool (*forward[2])(const LinearAttention<T>& a, const LinearChunk& c, const T* S0, T* S1, T* out, T* errors,
                     T* workspace);
  /// The adjoint: from the gradient of S1 to that of S0, which may be the same. Returns the same.
  bool (*backward[2])(const LinearAttention<T>& a, const LinearChunk& c, const T* S0, const T* errors, const T* dout,
                      const T* dS1, T* dS0, const LinearGradients<T>& d, T* workspace);
};
template <class IsaTag, class T>
const LinearTable<T>& linear_table();

}  // namespace fit::kernels
