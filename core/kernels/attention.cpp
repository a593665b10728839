#include "kernels/attention.hpp"

#include <algorithm>
#include <atomic>

#include "fit/memory.hpp"
#include "fit/parallel.hpp"

namespace fit::kernels {
namespace {

// Memory for the length of a scope, from the cache of buffers.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : data_(static_cast<T*>(detail::acquire(static_cast<std::size_t>(n) * sizeof(T), capacity_))) {}
  ~Scratch() { detail::release(data_, capacity_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  std::size_t capacity_ = 0;
  T* data_;
};

std::int64_t blocks(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

template <class T>
double flops_per_pair(const Attention<T>& a) {
  return 2.0 * static_cast<double>(a.D + a.Dv);
}

// How many heads, or parts of heads, make a piece of work that is worth a thread.
std::int64_t grain_of(double flops) { return static_cast<std::int64_t>(2e5 / (flops + 1)) + 1; }

template <class T>
double pairs(const Attention<T>& a) {
  return static_cast<double>(a.Sq) * static_cast<double>(a.Sk) * (a.causal && a.Sq == a.Sk ? 0.5 : 1.0);
}

// All keys, or values, of all heads in transposed blocks.
template <class T>
void pack_all(const Attention<T>& a, const Heads<const T>& x, std::int64_t D, T* out) {
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t each = blocks(a.Sk, key_block) * key_block * D;
  parallel_for(a.B * a.kv_heads, grain_of(8.0 * static_cast<double>(each)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      table.pack(a.Sk, D, x.at(i / a.kv_heads, i % a.kv_heads, 0), x.row, out + i * each);
  });
}

template <class T>
bool all_finite(std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D, const Heads<const T>& x) {
  const auto& table = FIT_KERNELS(attention_table, T);
  std::atomic<bool> ok{true};
  parallel_for(B * H, grain_of(4.0 * static_cast<double>(S * D)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      if (!table.finite(S, D, x.at(i / H, i % H, 0), x.row)) ok = false;
  });
  return ok;
}

// Calls each(b, h, i0, rows, scratch) for all blocks of queries.
template <class T, class Each>
void over_queries(const Attention<T>& a, const Each& each) {
  // Causal blocks cost more the later they are: small blocks waste less above the diagonal, and later ones are taken
  // first.
  const std::int64_t size = a.causal && a.Sq <= 4 * query_block ? 32 : query_block, per_head = blocks(a.Sq, size);
  const double flops = flops_per_pair(a) * pairs(a) / static_cast<double>(std::max<std::int64_t>(per_head, 1));
  parallel_tasks(a.B * a.H * per_head, grain_of(flops), [&](std::int64_t begin, std::int64_t end) {
    const Scratch<T> scratch(attention_scratch(a.Dv));
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t head = task / per_head, i0 = (per_head - 1 - task % per_head) * size;
      each(head / a.H, head % a.H, i0, std::min(size, a.Sq - i0), scratch.get());
    }
  });
}

}  // namespace

template <class T>
bool attention_forward(const Attention<T>& a, const Heads<T>& out, T* lse) {
  if ((a.causal || a.mask.data || a.bias.data) &&
      !(all_finite(a.B, a.H, a.Sq, a.D, a.q) && all_finite(a.B, a.kv_heads, a.Sk, a.D, a.k) &&
        all_finite(a.B, a.kv_heads, a.Sk, a.Dv, a.v)))
    return false;
  // A bias of -inf may leave a row without a softmax, which must show.
  if (a.bias.data && !all_finite(a.bias.batch ? a.B : 1, a.bias.head ? a.H : 1, a.bias.row ? a.Sq : 1, a.Sk, a.bias))
    return false;
  const std::int64_t each = blocks(a.Sk, key_block) * key_block * a.D;
  const Scratch<T> keys(a.B * a.kv_heads * each);
  pack_all(a, a.k, a.D, keys.get());
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t group = a.H / a.kv_heads;
  over_queries(a, [&](std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, T* scratch) {
    table.forward(a, b, h, i0, rows, keys.get() + (b * a.kv_heads + h / group) * each, out, lse, scratch);
  });
  return true;
}

template <class T>
void attention_weights(const Attention<T>& a, const T* lse, T* w) {
  const std::int64_t each = blocks(a.Sk, key_block) * key_block * a.D;
  const Scratch<T> keys(a.B * a.kv_heads * each);
  pack_all(a, a.k, a.D, keys.get());
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t group = a.H / a.kv_heads;
  over_queries(a, [&](std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, T* scratch) {
    table.weights(a, b, h, i0, rows, keys.get() + (b * a.kv_heads + h / group) * each, lse, w, scratch);
  });
}

template <class T>
void attention_backward(const Attention<T>& a, const Heads<const T>& out, const T* lse, const Heads<const T>& dout,
                        const Heads<T>& dq, const Heads<T>& dk, const Heads<T>& dv) {
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t group = a.H / a.kv_heads, key_blocks = blocks(a.Sk, key_block), heads = a.B * a.kv_heads;
  const std::int64_t each_k = key_blocks * key_block * a.D, each_v = key_blocks * key_block * a.Dv;
  const Scratch<T> keys(heads * each_k), values(heads * each_v), delta(a.B * a.H * a.Sq);
  pack_all(a, a.k, a.D, keys.get());
  pack_all(a, a.v, a.Dv, values.get());
  parallel_for(a.B * a.H, grain_of(8.0 * static_cast<double>(a.Sq * a.Dv)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      table.row_dots(a.Sq, a.Dv, dout.at(i / a.H, i % a.H, 0), dout.row, out.at(i / a.H, i % a.H, 0), out.row,
                     delta.get() + i * a.Sq);
  });

  // A task is a part of one head's keys. With few heads each is cut into parts that make dq sums of their own, added up
  // in order afterwards: how many is fixed by the shape, so results don't depend on the threads.
  const std::int64_t parts =
      heads >= 8 ? 1 : std::min<std::int64_t>(key_blocks, blocks(8, std::max<std::int64_t>(heads, 1)));
  const double flops = 2.5 * flops_per_pair(a) * pairs(a) * static_cast<double>(group) /
                       static_cast<double>(std::max<std::int64_t>(parts, 1));
  const std::int64_t dq_size = a.Sq * a.D;
  const Scratch<T> sums(parts * a.B * a.H * dq_size);
  parallel_tasks(heads * parts, grain_of(flops), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t block = key_block;
    const Scratch<T> scratch(attention_scratch(a.Dv) + block * (a.D + a.Dv));
    T* const dk_block = scratch.get() + attention_scratch(a.Dv);
    T* const dv_block = dk_block + block * a.D;
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t head = task / parts, part = task % parts, b = head / a.kv_heads, kv = head % a.kv_heads;
      T* const dq_sums = sums.get() + part * a.B * a.H * dq_size;
      std::fill_n(dq_sums + (b * a.H + kv * group) * dq_size, group * dq_size, T(0));
      // Blocks part, part + parts, …: under a causal mask the early ones cost more than the late ones.
      for (std::int64_t kb = part; kb < key_blocks; kb += parts) {
        std::fill_n(dk_block, block * (a.D + a.Dv), T(0));
        const std::int64_t j0 = kb * block;
        for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
          table.backward(a, b, h, j0, keys.get() + head * each_k, values.get() + head * each_v, lse, delta.get(), dout,
                         dq_sums + (b * a.H + h) * dq_size, a.D, dk_block, dv_block, scratch.get());
        for (std::int64_t j = 0, rows = std::min(block, a.Sk - j0); j < rows; ++j) {
          std::copy_n(dk_block + j * a.D, a.D, dk.at(b, kv, j0 + j));
          std::copy_n(dv_block + j * a.Dv, a.Dv, dv.at(b, kv, j0 + j));
        }
      }
    }
  });
  parallel_for(a.B * a.H * a.Sq, grain_of(static_cast<double>(a.D * (parts + 1))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   T* const to = dq.at(r / a.Sq / a.H, r / a.Sq % a.H, r % a.Sq);
                   const T* const from = sums.get() + r * a.D;
                   for (std::int64_t c = 0; c < a.D; ++c) {
                     T sum = from[c];
                     for (std::int64_t p = 1; p < parts; ++p) sum += from[p * a.B * a.H * dq_size + c];
                     to[c] = sum;
                   }
                 }
               });
}

template bool attention_forward(const Attention<float>&, const Heads<float>&, float*);
template bool attention_forward(const Attention<double>&, const Heads<double>&, double*);
template void attention_weights(const Attention<float>&, const float*, float*);
template void attention_weights(const Attention<double>&, const double*, double*);
template void attention_backward(const Attention<float>&, const Heads<const float>&, const float*,
                                 const Heads<const float>&, const Heads<float>&, const Heads<float>&,
                                 const Heads<float>&);
template void attention_backward(const Attention<double>&, const Heads<const double>&, const double*,
                                 const Heads<const double>&, const Heads<double>&, const Heads<double>&,
                                 const Heads<double>&);

}  // namespace fit::kernels
