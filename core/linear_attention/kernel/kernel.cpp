#include "linear_attention/kernel/kernel.hpp"

#include <algorithm>

#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"

namespace fit::kernels {
namespace {

// How many heads are worth a thread.
template <class T>
std::int64_t heads_for_thread(const LinearAttention<T>& a) {
  const double flops = 10.0 * static_cast<double>(a.steps) * static_cast<double>(a.D) * static_cast<double>(a.Dv);
  return static_cast<std::int64_t>(4e5 / (flops + 1)) + 1;
}

// The chunk number i of a head.
template <class T>
LinearChunk chunk_at(const LinearAttention<T>& a, std::int64_t head, std::int64_t i) {
  const std::int64_t first = i * linear_chunk;
  return {head * a.steps + first, std::min(linear_chunk, a.steps - first)};
}

}  // namespace

template <class T>
void linear_attention_forward(const LinearAttention<T>& a, T* out, T* state, const LinearKept<T>& kept) {
  const auto& table = FIT_KERNELS(linear_table, T);
  const std::int64_t size = a.state_size();
  parallel_for(a.heads, heads_for_thread(a), dynamic_schedule, [&](std::int64_t head, std::int64_t end) {
    const Scratch<T> workspace(table.forward_workspace(a)), own(2 * size);
    for (; head < end; ++head) {
      // The state before chunk i, or the last one. If states are not kept, two buffers take turns.
      const auto before = [&](std::int64_t i) {
        if (i == a.chunks()) return state + head * size;
        return kept.states ? kept.states + (head * a.chunks() + i) * size : own.get() + i % 2 * size;
      };
      if (a.initial)
        std::copy_n(a.initial + head * size, size, before(0));
      else
        std::fill_n(before(0), size, T(0));
      for (std::int64_t i = 0; i < a.chunks(); ++i) {
        const auto compute = [&](const LinearChunk& c, const T* S0) {
          return table.forward[a.by_feature](a, c, S0, before(i + 1), out + c.first * a.Dv,
                                             kept.errors ? kept.errors + c.first * a.Dv : nullptr, workspace.get());
        };
        const LinearChunk c = chunk_at(a, head, i);
        if (compute(c, before(i)) || c.n == 1) continue;
        for (std::int64_t t = 0; t < c.n; ++t) compute({c.first + t, 1}, before(t == 0 ? i : i + 1));
      }
    }
  });
}

template <class T>
void linear_attention_backward(const LinearAttention<T>& a, const LinearKept<const T>& kept, const T* dout,
                               const T* dstate, const LinearGradients<T>& d) {
  const auto& table = FIT_KERNELS(linear_table, T);
  const std::int64_t size = a.state_size();
  parallel_for(a.heads, heads_for_thread(a), dynamic_schedule, [&](std::int64_t head, std::int64_t end) {
    const Scratch<T> workspace(table.backward_workspace(a)), next(size);
    for (; head < end; ++head) {
      T* const dS = d.dinitial + head * size;  // of the state after the chunk
      if (dstate)
        std::copy_n(dstate + head * size, size, dS);
      else
        std::fill_n(dS, size, T(0));
      for (std::int64_t i = a.chunks() - 1; i >= 0; --i) {
        const T* const S0 = kept.states + (head * a.chunks() + i) * size;
        const LinearChunk c = chunk_at(a, head, i);
        const auto errors = [&](std::int64_t t) { return kept.errors ? kept.errors + t * a.Dv : nullptr; };
        const bool finite = table.backward[a.by_feature](a, c, S0, errors(c.first), dout + c.first * a.Dv, dS,
                                                         next.get(), d, workspace.get());
        if (finite || c.n == 1) {
          std::copy_n(next.get(), size, dS);
          continue;
        }
        // In chunks of one step, with the state before each.
        const Scratch<T> states(c.n * size), outputs(a.Dv);
        std::copy_n(S0, size, states.get());
        const auto state = [&](std::int64_t t) { return states.get() + t * size; };
        for (std::int64_t t = 0; t + 1 < c.n; ++t)
          table.forward[a.by_feature](a, {c.first + t, 1}, state(t), state(t + 1), outputs.get(), nullptr,
                                      workspace.get());
        for (std::int64_t t = c.n - 1; t >= 0; --t)
          table.backward[a.by_feature](a, {c.first + t, 1}, state(t), errors(c.first + t), dout + (c.first + t) * a.Dv,
                                       dS, dS, d, workspace.get());
      }
    }
  });
}

#define FIT_LINEAR_ATTENTION(T)                                                                               \
  template void linear_attention_forward<T>(const LinearAttention<T>&, T*, T*, const LinearKept<T>&);         \
  template void linear_attention_backward<T>(const LinearAttention<T>&, const LinearKept<const T>&, const T*, \
                                             const T*, const LinearGradients<T>&);
FIT_LINEAR_ATTENTION(float)
FIT_LINEAR_ATTENTION(double)
#undef FIT_LINEAR_ATTENTION

}  // namespace fit::kernels
