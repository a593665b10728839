#include "kernels/attention.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "base/scratch.hpp"
#include "fit/parallel.hpp"

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

// The keys and values of all heads.
template <class T>
void pack_all_keys(const Attention<T>& a, AttentionPass pass, SumOf<T>* out) {
  const auto& table = attention_table(a);
  const std::int64_t size = table.keys_size(a, pass);
  if (size == 0) return;
  parallel_for(a.B * a.kv_heads, grain_of(8.0 * static_cast<double>(size)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) table.pack_keys(a, i / a.kv_heads, i % a.kv_heads, pass, out + i * size);
  });
}

// A thread's work between begin() and end(), with its scratch.
template <class T>
class Session {
 public:
  explicit Session(const Attention<T>& a) : table_(attention_table(a)), scratch_(attention_scratch(a)) {
    table_.begin();
  }
  ~Session() { table_.end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  SumOf<T>* scratch() const { return scratch_.get(); }

 private:
  const AttentionTable<T>& table_;
  Scratch<SumOf<T>> scratch_;
};

// Calls each(b, h, i0, rows, keys, scratch) for all blocks of queries; keys: what is packed of their head.
template <class T, class Each>
void over_queries(const Attention<T>& a, const Each& each) {
  using W = SumOf<T>;
  constexpr AttentionPass pass = AttentionPass::forward;
  const auto& table = attention_table(a);
  const std::int64_t heads = a.B * a.kv_heads, group = a.H / a.kv_heads;
  const std::int64_t size = query_step(a), per_head = blocks(a.Sq, size), keys_size = table.keys_size(a, pass);
  // Of few queries it is reading the keys and values that takes the time.
  const double flops = (few_queries(a) ? 8 : 1) * flops_per_pair(a) * pairs(a);
  // Many heads: each is packed and attended to in one go, while its keys are in the cache. Blocks don't depend on each
  // other, so their results don't depend on which way is taken.
  if (heads >= std::int64_t{4} * num_threads()) {
    parallel_for(heads, grain_of(flops * static_cast<double>(group)), dynamic_schedule,
                 [&](std::int64_t begin, std::int64_t end) {
                   const Scratch<W> keys(keys_size);
                   const Session<T> session(a);
                   for (std::int64_t head = begin; head < end; ++head) {
                     const std::int64_t b = head / a.kv_heads, kv = head % a.kv_heads;
                     if (keys_size > 0) table.pack_keys(a, b, kv, pass, keys.get());
                     for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h)
                       for (std::int64_t i0 = 0; i0 < a.Sq; i0 += size)
                         each(b, h, i0, std::min(size, a.Sq - i0), keys.get(), session.scratch());
                   }
                 });
    return;
  }
  const Scratch<W> keys(heads * keys_size);
  pack_all_keys(a, pass, keys.get());
  // Causal blocks cost more the later they are: later ones are taken first.
  parallel_for(a.B * a.H * per_head, grain_of(flops / static_cast<double>(per_head)), dynamic_schedule,
               [&](std::int64_t begin, std::int64_t end) {
                 const Session<T> session(a);
                 for (std::int64_t task = begin; task < end; ++task) {
                   const std::int64_t head = task / per_head, b = head / a.H, h = head % a.H;
                   const std::int64_t i0 = (per_head - 1 - task % per_head) * size;
                   each(b, h, i0, std::min(size, a.Sq - i0), keys.get() + (b * a.kv_heads + h / group) * keys_size,
                        session.scratch());
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
Cut cut_backward(const Attention<T>& a, std::int64_t key_blocks, const HeadView<SumOf<T>>& dbias) {
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
template <class W>
class PartialSums {
 public:
  PartialSums(const AttentionParams& a, const HeadView<W>& result, std::int64_t slots)
      : result_(result),
        size_(result.data ? (result.batch ? a.B : 1) * (result.head ? a.H : 1) * (result.row ? a.Sq : 1) * a.Sk : 0),
        slots_(slots),
        others_((slots - 1) * size_) {
    std::fill_n(result_.data, size_, W(0));
    std::fill_n(others_.get(), (slots - 1) * size_, W(0));
  }
  HeadView<W> slot(std::int64_t i) const {
    HeadView<W> at = result_;
    if (i > 0) at.data = others_.get() + (i - 1) * size_;
    return at;
  }
  void add_up() const {
    for (std::int64_t s = 0; s + 1 < slots_; ++s)
      for (std::int64_t i = 0; i < size_; ++i) result_.data[i] += others_.get()[s * size_ + i];
  }

 private:
  HeadView<W> result_;
  std::int64_t size_, slots_;
  Scratch<W> others_;
};

// Gradients, as attention_backward(). False if something is hidden and one isn't finite, though nothing was checked.
template <class T>
bool backward_pass(const Attention<T>& a, const HeadView<const T>& out, const SoftmaxStats<const SumOf<T>>& stats,
                   const HeadView<const T>& dout, const AttentionGradients<T>& d, bool check) {
  using W = SumOf<T>;
  constexpr AttentionPass pass = AttentionPass::backward;
  const auto& table = attention_table(a);
  const std::int64_t group = a.H / a.kv_heads, heads = a.B * a.kv_heads, key_blocks = blocks(a.Sk, key_block);
  const std::int64_t keys_size = table.keys_size(a, pass), queries_size = table.queries_size(a);
  const std::int64_t dq_row = filled_to(table.step, a.D), dq_size = filled_to(table.step, a.Sq) * dq_row;
  const Scratch<W> delta(a.B * a.H * a.Sq);
  // What the blocks of keys read of queries 0 … of a head.
  const auto prepare = [&](std::int64_t b, std::int64_t h, W* queries) {
    W* const to = delta.get() + (b * a.H + h) * a.Sq;
    table.row_dots(a.Sq, a.Dv, dout.at(b, h, 0), dout.row, out.at(b, h, 0), out.row, to);
    // It stands for the sum over the keys of P dP. Where dout isn't finite, no dP is, and dP - delta is NaN.
    const auto infinite = [](T x) { return !std::isfinite(static_cast<W>(x)); };
    for (std::int64_t i = 0; i < a.Sq; ++i)
      if (!std::isfinite(to[i]) && std::any_of(dout.at(b, h, i), dout.at(b, h, i) + a.Dv, infinite))
        to[i] = std::numeric_limits<W>::quiet_NaN();
    if (queries_size > 0) table.pack_queries(a, dout, b, h, queries);
  };
  std::atomic<bool> ok{true};
  const auto note = [&](bool finite) {
    if (!finite && !check && hides(a)) ok = false;
  };
  const W scale = static_cast<W>(a.scale);
  const double flops = 2.5 * flops_per_pair(a) * pairs(a) * static_cast<double>(group);
  const Cut cut = cut_backward(a, key_blocks, d.dbias);
  const PartialSums<W> dbias(a, d.dbias, cut.slots);
  // dq lie one behind the other, those of the heads that share keys.
  const auto block = [&](std::int64_t b, std::int64_t kv, std::int64_t kb, std::int64_t slot, const W* keys,
                         const W* queries, W* dq, W* scratch) {
    AttentionGradients<T> to = d;
    to.dbias = dbias.slot(slot);
    note(table.backward(a, b, kv, kb * key_block, keys, queries, stats, delta.get(), dout, check, dq, to, scratch));
  };

  if (cut.parts == 1) {
    parallel_for(cut.tasks(), grain_of(flops * static_cast<double>(cut.run)), dynamic_schedule,
                 [&](std::int64_t begin, std::int64_t end) {
                   const Scratch<W> keys(keys_size), queries(group * queries_size), dq(group * dq_size);
                   const Session<T> session(a);
                   cut.each_head(begin, end, [&](std::int64_t head, std::int64_t slot, std::int64_t) {
                     const std::int64_t b = head / a.kv_heads, kv = head % a.kv_heads;
                     table.pack_keys(a, b, kv, pass, keys.get());
                     for (std::int64_t g = 0; g < group; ++g)
                       prepare(b, kv * group + g, queries.get() + g * queries_size);
                     std::fill_n(dq.get(), group * dq_size, W(0));
                     for (std::int64_t kb = 0; kb < key_blocks; ++kb)
                       block(b, kv, kb, slot, keys.get(), queries.get(), dq.get(), session.scratch());
                     for (std::int64_t g = 0; g < group; ++g)
                       note(table.copy_finite(a.Sq, a.D, scale, dq.get() + g * dq_size, dq_row,
                                              d.dq.at(b, kv * group + g, 0), d.dq.row));
                   });
                 });
    dbias.add_up();
    return ok;
  }
  const Scratch<W> keys(heads * keys_size), queries(a.B * a.H * queries_size), sums(cut.parts * a.B * a.H * dq_size);
  pack_all_keys(a, pass, keys.get());
  parallel_for(a.B * a.H, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) prepare(i / a.H, i % a.H, queries.get() + i * queries_size);
  });
  parallel_for(cut.tasks(), 1, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    const Session<T> session(a);
    cut.each_head(begin, end, [&](std::int64_t head, std::int64_t slot, std::int64_t part) {
      W* const dq = sums.get() + (part * a.B * a.H + head * group) * dq_size;
      std::fill_n(dq, group * dq_size, W(0));
      // Blocks part, part + parts, …: under a causal mask the early ones cost more than the late ones.
      for (std::int64_t kb = part; kb < key_blocks; kb += cut.parts)
        block(head / a.kv_heads, head % a.kv_heads, kb, slot, keys.get() + head * keys_size,
              queries.get() + head * group * queries_size, dq, session.scratch());
    });
  });
  parallel_for(a.B * a.H * a.Sq, grain_of(static_cast<double>(a.D * (cut.parts + 1))),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const std::int64_t head = r / a.Sq, i = r % a.Sq;
                   W* const sum = sums.get() + head * dq_size + i * dq_row;
                   for (std::int64_t p = 1; p < cut.parts; ++p)
                     for (std::int64_t c = 0; c < a.D; ++c) sum[c] += sum[p * a.B * a.H * dq_size + c];
                   note(table.copy_finite(1, a.D, scale, sum, 0, d.dq.at(head / a.H, head % a.H, i), 0));
                 }
               });
  dbias.add_up();
  return ok;
}

}  // namespace

template <class T>
bool attention_forward(const Attention<T>& a, const HeadView<T>& out, const SoftmaxStats<SumOf<T>>& stats) {
  using W = SumOf<T>;
  const auto& table = attention_table(a);
  std::atomic<bool> finite{true};
  over_queries(a, [&](std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const W* keys, W* scratch) {
    if (!table.forward(a, b, h, i0, rows, keys, out, stats, scratch)) finite = false;
  });
  return finite;
}

template <class T>
void attention_weights(const Attention<T>& a, const SoftmaxStats<const SumOf<T>>& stats, SumOf<T>* w) {
  using W = SumOf<T>;
  const auto& table = attention_table(a);
  over_queries(a, [&](std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t rows, const W* keys, W* scratch) {
    table.weights(a, b, h, i0, rows, keys, stats, w, scratch);
  });
}

template <class T>
void attention_backward(const Attention<T>& a, const HeadView<const T>& out, const SoftmaxStats<const SumOf<T>>& stats,
                        const HeadView<const T>& dout, const AttentionGradients<T>& d, bool check) {
  if (!backward_pass(a, out, stats, dout, d, check)) backward_pass(a, out, stats, dout, d, true);
}

#define FIT_ATTENTION(T)                                                                                      \
  template bool attention_forward<T>(const Attention<T>&, const HeadView<T>&, const SoftmaxStats<SumOf<T>>&); \
  template void attention_weights<T>(const Attention<T>&, const SoftmaxStats<const SumOf<T>>&, SumOf<T>*);    \
  template void attention_backward<T>(const Attention<T>&, const HeadView<const T>&,                          \
                                      const SoftmaxStats<const SumOf<T>>&, const HeadView<const T>&,          \
                                      const AttentionGradients<T>&, bool);
FIT_ATTENTION(BFloat16)
FIT_ATTENTION(float)
FIT_ATTENTION(double)
#undef FIT_ATTENTION

}  // namespace fit::kernels
