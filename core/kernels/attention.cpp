#include "kernels/attention.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "fit/parallel.hpp"
#include "kernels/scratch.hpp"

namespace fit::kernels {
namespace {

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
void pack_all(const Attention<T>& a, const HeadView<const T>& x, std::int64_t D, T* out) {
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t each = blocks(a.Sk, key_block) * key_block * D;
  parallel_for(a.B * a.kv_heads, grain_of(8.0 * static_cast<double>(each)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      table.pack(a.Sk, D, x.at(i / a.kv_heads, i % a.kv_heads, 0), x.row, out + i * each);
  });
}

// Calls each(b, h, i0, rows, keys, scratch) for all blocks of queries; keys: those of the head, packed, or null.
template <class T, class Each>
void over_queries(const Attention<T>& a, const Each& each) {
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t heads = a.B * a.kv_heads, group = a.H / a.kv_heads;
  const std::int64_t size = query_step(a), per_head = blocks(a.Sq, size);
  const bool pack = !few_queries(a);
  const std::int64_t size_k = pack ? blocks(a.Sk, key_block) * key_block * a.D : 0;
  // Of few queries it is reading the keys and values that takes the time.
  const double flops = (pack ? 1 : 8) * flops_per_pair(a) * pairs(a);
  // Many heads: each is packed and attended to in one go, while its keys are in the cache. Blocks don't depend on each
  // other, so their results don't depend on which way is taken.
  if (heads >= 4 * num_threads()) {
    parallel_for(heads, grain_of(flops * static_cast<double>(group)), dynamic_schedule,
                 [&](std::int64_t begin, std::int64_t end) {
                   const Scratch<T> keys(size_k), scratch(attention_scratch(a));
                   for (std::int64_t head = begin; head < end; ++head) {
                     const std::int64_t b = head / a.kv_heads, kv = head % a.kv_heads;
                     if (pack) table.pack(a.Sk, a.D, a.k.at(b, kv, 0), a.k.row, keys.get());
                     for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
                       for (std::int64_t i0 = 0; i0 < a.Sq; i0 += size)
                         each(b, h, i0, std::min(size, a.Sq - i0), pack ? keys.get() : nullptr, scratch.get());
                   }
                 });
    return;
  }
  const Scratch<T> keys(heads * size_k);
  if (pack) pack_all(a, a.k, a.D, keys.get());
  // Causal blocks cost more the later they are: later ones are taken first.
  parallel_for(a.B * a.H * per_head, grain_of(flops / static_cast<double>(per_head)), dynamic_schedule,
               [&](std::int64_t begin, std::int64_t end) {
                 const Scratch<T> scratch(attention_scratch(a));
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t head = task / per_head, b = head / a.H, h = head % a.H;
                   const std::int64_t i0 = (per_head - 1 - task % per_head) * size;
                   each(b, h, i0, std::min(size, a.Sq - i0),
                        pack ? keys.get() + (b * a.kv_heads + h / group) * size_k : nullptr, scratch.get());
                 }
               });
}

// How the backward pass is cut into tasks: by shapes alone, so that results don't depend on the threads.
//
// A task is (owner, slot, part). "Head" is one head of k and v, of one element of the batch: B kv_heads in all.
//   owner  the heads that add to one gradient of the bias. Without such a gradient each head is an owner.
//   slot   of an owner's heads, `run` of them, taken one after the other. Each slot has a sum of the bias's gradient
//          for its own; add_up() joins them.
//   part   of each head's blocks of keys, every parts-th. Each part has a dq of its own; they are joined at the end.
// Owners alone are the cheapest cut. If they are too few, blocks of keys are shared out, and slots are used last, where
// there are few blocks of keys: there their sums are small beside the scores.
struct Cut {
  std::int64_t heads;    // B kv_heads
  std::int64_t sharing;  // heads of an owner
  std::int64_t slots;    // of an owner
  std::int64_t parts;    // of a head
  std::int64_t run;      // heads of a slot
  std::int64_t stride;   // from one head of an owner to the next

  std::int64_t tasks() const { return heads / sharing * slots * parts; }

  // Calls each(head, slot, part) for the heads of these tasks.
  template <class Each>
  void each_head(std::int64_t begin, std::int64_t end, const Each& each) const {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t part = task % parts, slot = task / parts % slots, owner = task / parts / slots;
      const std::int64_t first = owner % stride + owner / stride * stride * sharing;
      for (std::int64_t n = slot * run; n < std::min(sharing, (slot + 1) * run); ++n)
        each(first + n * stride, slot, part);
    }
  }
};

constexpr std::int64_t enough_tasks = 8;  // for the cores of a small machine

template <class T>
Cut cut_backward(const Attention<T>& a, std::int64_t key_blocks, const HeadView<T>& dbias) {
  Cut c{a.B * a.kv_heads, 1, 1, 1, 1, 1};
  if (dbias.data) c.sharing = (dbias.batch ? 1 : a.B) * (dbias.head ? 1 : a.kv_heads);
  if (dbias.data && dbias.head && !dbias.batch) c.stride = a.kv_heads;
  const std::int64_t owners = c.heads / c.sharing;
  if (owners < enough_tasks) c.parts = std::min(key_blocks, blocks(enough_tasks, owners));
  if (owners * c.parts < enough_tasks) c.slots = std::min(c.sharing, blocks(enough_tasks, owners * c.parts));
  c.run = blocks(c.sharing, c.slots);
  return c;
}

// The gradient of the bias in a sum for each slot: the first is the result itself.
template <class T>
class PartialSums {
 public:
  PartialSums(const Attention<T>& a, const HeadView<T>& result, std::int64_t slots)
      : result_(result),
        size_(result.data ? (result.batch ? a.B : 1) * (result.head ? a.H : 1) * (result.row ? a.Sq : 1) * a.Sk : 0),
        slots_(slots),
        others_((slots - 1) * size_) {
    std::fill_n(result_.data, size_, T(0));
    std::fill_n(others_.get(), (slots - 1) * size_, T(0));
  }
  HeadView<T> slot(std::int64_t i) const {
    HeadView<T> at = result_;
    if (i > 0) at.data = others_.get() + (i - 1) * size_;
    return at;
  }
  void add_up() const {
    for (std::int64_t s = 0; s + 1 < slots_; ++s)
      for (std::int64_t i = 0; i < size_; ++i) result_.data[i] += others_.get()[s * size_ + i];
  }

 private:
  HeadView<T> result_;
  std::int64_t size_, slots_;
  Scratch<T> others_;
};

// Gradients, as attention_backward(). False if something is hidden and one isn't finite, though nothing was checked.
template <class T>
bool backward_pass(const Attention<T>& a, const HeadView<const T>& out, const SoftmaxStats<const T>& stats,
                   const HeadView<const T>& dout, const AttentionGradients<T>& d, bool check) {
  const auto& table = FIT_KERNELS(attention_table, T);
  const std::int64_t group = a.H / a.kv_heads, heads = a.B * a.kv_heads, key_blocks = blocks(a.Sk, key_block);
  const std::int64_t size_k = key_blocks * key_block * a.D, size_v = key_blocks * key_block * a.Dv, size_q = a.Sq * a.D;
  const Scratch<T> delta(a.B * a.H * a.Sq);
  const auto dots = [&](std::int64_t b, std::int64_t h) {
    T* const to = delta.get() + (b * a.H + h) * a.Sq;
    table.row_dots(a.Sq, a.Dv, dout.at(b, h, 0), dout.row, out.at(b, h, 0), out.row, to);
    // It stands for the sum over the keys of P dP. Where dout isn't finite, no dP is, and dP - delta is NaN.
    const auto infinite = [](T x) { return !std::isfinite(x); };
    for (std::int64_t i = 0; i < a.Sq; ++i)
      if (infinite(to[i]) && std::any_of(dout.at(b, h, i), dout.at(b, h, i) + a.Dv, infinite))
        to[i] = std::numeric_limits<T>::quiet_NaN();
  };
  std::atomic<bool> ok{true};
  const auto note = [&](bool finite) {
    if (!finite && !check && hides(a)) ok = false;
  };
  // One block of keys of a head of k and v, for all query heads that share it; their dq lie dq_head apart.
  const auto block = [&](std::int64_t b, std::int64_t kv, std::int64_t kb, const T* keys, const T* values, T* dq_at,
                         std::int64_t dq_head, std::int64_t dq_row, const HeadView<T>& dbias, T* scratch) {
    T* const dk_block = scratch + attention_scratch(a);
    T* const dv_block = dk_block + key_block * a.D;
    std::fill_n(dk_block, key_block * (a.D + a.Dv), T(0));
    const std::int64_t j0 = kb * key_block;
    for (std::int64_t g = 0; g < group; ++g)
      table.backward(a, b, kv * group + g, j0, keys, values, stats, delta.get(), dout, check, dq_at + g * dq_head,
                     dq_row, dk_block, dv_block, dbias, scratch);
    const std::int64_t rows = std::min(key_block, a.Sk - j0);
    note(table.copy_finite(rows, a.D, dk_block, a.D, d.dk.at(b, kv, j0), d.dk.row));
    note(table.copy_finite(rows, a.Dv, dv_block, a.Dv, d.dv.at(b, kv, j0), d.dv.row));
  };
  const std::int64_t scratch_size = attention_scratch(a) + key_block * (a.D + a.Dv);
  const double flops = 2.5 * flops_per_pair(a) * pairs(a) * static_cast<double>(group);
  const Cut cut = cut_backward(a, key_blocks, d.dbias);
  const PartialSums<T> dbias(a, d.dbias, cut.slots);

  if (cut.parts == 1) {
    parallel_for(cut.tasks(), grain_of(flops * static_cast<double>(cut.run)), dynamic_schedule,
                 [&](std::int64_t begin, std::int64_t end) {
                   const Scratch<T> keys(size_k), values(size_v), scratch(scratch_size);
                   cut.each_head(begin, end, [&](std::int64_t head, std::int64_t slot, std::int64_t) {
                     const std::int64_t b = head / a.kv_heads, kv = head % a.kv_heads;
                     table.pack(a.Sk, a.D, a.k.at(b, kv, 0), a.k.row, keys.get());
                     table.pack(a.Sk, a.Dv, a.v.at(b, kv, 0), a.v.row, values.get());
                     for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
                       dots(b, h);
                       for (std::int64_t i = 0; i < a.Sq; ++i) std::fill_n(d.dq.at(b, h, i), a.D, T(0));
                     }
                     for (std::int64_t kb = 0; kb < key_blocks; ++kb)
                       block(b, kv, kb, keys.get(), values.get(), d.dq.at(b, kv * group, 0), d.dq.head, d.dq.row,
                             dbias.slot(slot), scratch.get());
                     for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
                       note(table.copy_finite(a.Sq, a.D, d.dq.at(b, h, 0), d.dq.row, d.dq.at(b, h, 0), d.dq.row));
                   });
                 });
    dbias.add_up();
    return ok;
  }
  const Scratch<T> keys(heads * size_k), values(heads * size_v), sums(cut.parts * a.B * a.H * size_q);
  pack_all(a, a.k, a.D, keys.get());
  pack_all(a, a.v, a.Dv, values.get());
  parallel_for(a.B * a.H, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) dots(i / a.H, i % a.H);
  });
  parallel_for(cut.tasks(), 1, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<T> scratch(scratch_size);
    cut.each_head(begin, end, [&](std::int64_t head, std::int64_t slot, std::int64_t part) {
      const std::int64_t b = head / a.kv_heads, kv = head % a.kv_heads;
      T* const dq_part = sums.get() + ((part * a.B + b) * a.H + kv * group) * size_q;
      std::fill_n(dq_part, group * size_q, T(0));
      // Blocks part, part + parts, …: under a causal mask the early ones cost more than the late ones.
      for (std::int64_t kb = part; kb < key_blocks; kb += cut.parts)
        block(b, kv, kb, keys.get() + head * size_k, values.get() + head * size_v, dq_part, size_q, a.D,
              dbias.slot(slot), scratch.get());
    });
  });
  parallel_for(a.B * a.H * a.Sq, grain_of(static_cast<double>(a.D * (cut.parts + 1))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   T* const to = d.dq.at(r / a.Sq / a.H, r / a.Sq % a.H, r % a.Sq);
                   for (std::int64_t c = 0; c < a.D; ++c) {
                     T sum = 0;
                     for (std::int64_t p = 0; p < cut.parts; ++p)
                       sum += sums.get()[p * a.B * a.H * size_q + r * a.D + c];
                     to[c] = sum;
                   }
                   note(table.copy_finite(1, a.D, to, 0, to, 0));
                 }
               });
  dbias.add_up();
  return ok;
}

}  // namespace

template <class T>
bool attention_forward(const Attention<T>& a, const HeadView<T>& out, const SoftmaxStats<T>& stats) {
  const auto& table = FIT_KERNELS(attention_table, T);
  std::atomic<bool> finite{true};
  over_queries(a, [&](std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const T* keys, T* scratch) {
    if (!table.forward(a, b, h, i0, rows, keys, out, stats, scratch)) finite = false;
  });
  return finite;
}

template <class T>
void attention_weights(const Attention<T>& a, const SoftmaxStats<const T>& stats, T* w) {
  const auto& table = FIT_KERNELS(attention_table, T);
  over_queries(a, [&](std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const T* keys, T* scratch) {
    table.weights(a, b, h, i0, rows, keys, stats, w, scratch);
  });
}

template <class T>
void attention_backward(const Attention<T>& a, const HeadView<const T>& out, const SoftmaxStats<const T>& stats,
                        const HeadView<const T>& dout, const AttentionGradients<T>& d, bool check) {
  if (!backward_pass(a, out, stats, dout, d, check)) backward_pass(a, out, stats, dout, d, true);
}

#define FIT_ATTENTION(T)                                                                                           \
  template bool attention_forward<T>(const Attention<T>&, const HeadView<T>&, const SoftmaxStats<T>&);             \
  template void attention_weights<T>(const Attention<T>&, const SoftmaxStats<const T>&, T*);                       \
  template void attention_backward<T>(const Attention<T>&, const HeadView<const T>&, const SoftmaxStats<const T>&, \
                                      const HeadView<const T>&, const AttentionGradients<T>&, bool);
FIT_ATTENTION(float)
FIT_ATTENTION(double)
#undef FIT_ATTENTION

}  // namespace fit::kernels
