#include "attention/kernel/kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "attention/kernel/short_heads.hpp"
#include "attention/kernel/tasks.hpp"
#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/rows_softmax.hpp"

namespace fit::kernels {
namespace {

// About how many operations the forward pass takes for one head.
double flops_of_head(const Attention<>& a) {
  const Interval keys = a.keys_of({0, a.Sq});
  const double all = static_cast<double>(a.Sq) * static_cast<double>(keys.end - keys.first);
  return 2.0 * static_cast<double>(a.D + a.Dv) * all * (a.causal && a.Sq == a.Sk ? 0.5 : 1.0);
}

// How many heads, or parts of heads, are worth a thread.
std::int64_t grain_of(double flops) { return static_cast<std::int64_t>(2e5 / (flops + 1)) + 1; }

// Packs the keys and values of all heads of some elements.
template <class T>
void pack_all_keys(const Attention<T>& a, const Interval& elements, AttentionPass pass, AccT<T>* out) {
  const auto& table = attention_table(a);
  const std::int64_t size = table.keys_size(a, pass), heads = (elements.end - elements.first) * a.kv_heads;
  if (size == 0) return;
  parallel_for(heads, grain_of(8.0 * static_cast<double>(size)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      table.pack_keys(a, elements.first + i / a.kv_heads, i % a.kv_heads, pass, out + i * size);
  });
}

// A thread between begin() and end(), with its workspace.
template <class T>
struct Session {
  const AttentionTable<T>& table;
  const Scratch<AccT<T>> workspace;
  explicit Session(const Attention<T>& a) : table(attention_table(a)), workspace(attention_workspace(a)) {
    table.begin();
  }
  ~Session() { table.end(); }
};

// Calls each(block, keys, workspace) for all blocks of queries of some elements. keys: packed, of their head. Blocks do
// not depend on each other, so neither way of packing changes a bit.
template <class T, class Each>
void over_queries(const Attention<T>& a, const Interval& elements, const Each& each) {
  using W = AccT<T>;
  constexpr AttentionPass pass = AttentionPass::forward;
  const auto& table = attention_table(a);
  const std::int64_t heads = (elements.end - elements.first) * a.kv_heads, size = query_step(a);
  const std::int64_t per_query_head = (a.Sq + size - 1) / size, per_head = per_query_head * a.group();
  const std::int64_t keys_size = table.keys_size(a, pass);
  // With few queries, reading the keys and values takes most of the time.
  const double flops = (few_queries(a) ? 8 : 1) * flops_of_head(a);
  // With many heads, a thread packs one head at a time, and uses its keys while they are in the cache.
  const bool one_at_a_time = heads >= std::int64_t{4} * num_threads();
  const Scratch<W> all(one_at_a_time ? 0 : heads * keys_size);
  if (!one_at_a_time) pack_all_keys(a, elements, pass, all.get());
  const std::int64_t grain = one_at_a_time ? grain_of(flops * static_cast<double>(a.group())) * per_head
                                           : grain_of(flops / static_cast<double>(per_query_head));
  parallel_for(heads * per_head, grain, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
    const Scratch<W> own(one_at_a_time ? keys_size : 0);
    const Session<T> session(a);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / per_head, b = elements.first + head / a.kv_heads, h = i / per_query_head % a.H;
      if (one_at_a_time && keys_size > 0 && i % per_head == 0)
        table.pack_keys(a, b, head % a.kv_heads, pass, own.get());
      // Late blocks come first: in causal attention they cost more than early ones.
      const std::int64_t first = (per_query_head - 1 - i % per_query_head) * size;
      each({b, h, first, std::min(size, a.Sq - first)}, one_at_a_time ? own.get() : all.get() + head * keys_size,
           session.workspace.get());
    }
  });
}

// `count` arrays of `size` sums, for tasks that add concurrently. `out` is the first array. total() adds the others
// to it.
template <class W>
class PartialSums {
 public:
  PartialSums(std::int64_t count, std::int64_t size, W* out)
      : count_(count), size_(size), out_(out), others_((count - 1) * size) {
    for (std::int64_t s = 0; s < count; ++s) std::fill_n(at(s), size, W(0));
  }
  W* at(std::int64_t s) const { return s == 0 ? out_ : others_.get() + (s - 1) * size_; }
  void total() const {
    for (std::int64_t s = 1; s < count_; ++s)
      for (std::int64_t i = 0; i < size_; ++i) out_[i] += at(s)[i];
  }

 private:
  const std::int64_t count_, size_;
  W* const out_;
  const Scratch<W> others_;
};

// attention_backward(), once.
template <class T>
struct BackwardPass {
  using W = AccT<T>;
  static constexpr AttentionPass pass = AttentionPass::backward;
  const AttentionBackward<T>& call;

  const Attention<T>& a = call.a;
  const AttentionGradients<T>& d = call.d;
  const AttentionTable<T>& table = attention_table(a);
  const std::int64_t group = a.group(), heads = a.B * a.kv_heads, query_heads = a.B * a.H;
  const std::int64_t keys_size = table.keys_size(a, pass), queries_size = table.queries_size(a);
  const std::int64_t dq_row = filled_to(table.step, a.D), dq_size = filled_to(table.step, a.Sq) * dq_row;
  const BackwardTasks tasks{a, d.dbias};
  // Groups of slots share gradients of tables: their number depends on shapes alone, and stays small.
  const std::int64_t tables_size = a.score ? a.score->gradients : 0;
  const std::int64_t slots_of_group = tables_size > 0 ? (tasks.slots + 31) / 32 : 1;
  const std::int64_t groups = (tasks.slots + slots_of_group - 1) / slots_of_group;
  const std::int64_t bias_size =
      d.dbias.data ? (d.dbias.batch ? a.B : 1) * (d.dbias.head ? a.H : 1) * (d.dbias.row ? a.Sq : 1) * a.Sk : 0;
  const Scratch<W> delta{query_heads * a.Sq}, sink_sums{query_heads};
  const PartialSums<W> bias_sums{tasks.dbias_sums, bias_size, d.dbias.data},
      tables_sums{groups, tables_size, d.dtables};
  std::atomic<bool> ok{true};

  // Returns false if a gradient is not finite, some pair may not attend, and `check` is off.
  bool run() {
    if (tasks.dq_sums == 1)
      by_heads();
    else
      by_blocks();
    for (std::int64_t h = 0; d.dsink && h < a.H; ++h) {
      d.dsink[h] = 0;
      for (std::int64_t b = 0; b < a.B; ++b) d.dsink[h] += sink_sums.get()[b * a.H + h];
    }
    bias_sums.total();
    tables_sums.total();
    return ok;
  }

 private:
  // Each task is a head of keys.
  void by_heads() {
    const double flops = 2.5 * flops_of_head(a) * static_cast<double>(group * tasks.heads_of_slot * slots_of_group);
    parallel_for(groups, grain_of(flops), dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
      const Scratch<W> keys(keys_size), queries(group * queries_size), dq(group * dq_size);
      const Session<T> session(a);
      each_task(begin, end, [&](const BackwardTask& t) {
        const std::int64_t h0 = t.head * group;
        table.pack_keys(a, t.batch, t.head, pass, keys.get());
        for (std::int64_t g = 0; g < group; ++g) prepare(t.batch, h0 + g, queries.get() + g * queries_size);
        std::fill_n(dq.get(), group * dq_size, W(0));
        compute(t, keys.get(), queries.get(), dq.get(), session.workspace.get());
        for (std::int64_t g = 0; g < group; ++g)
          note(table.copy_finite(a.Sq, a.D, static_cast<W>(a.scale), dq.get() + g * dq_size, dq_row,
                                 d.dq.at(t.batch, h0 + g, 0), d.dq.row));
      });
    });
  }

  // Each task is a block of keys of a head. The sums of dq are added up at the end.
  void by_blocks() {
    const std::int64_t all_dq = query_heads * dq_size;
    const Scratch<W> keys(heads * keys_size), queries(query_heads * queries_size), sums(tasks.dq_sums * all_dq);
    pack_all_keys(a, {0, a.B}, pass, keys.get());
    parallel_for(query_heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        prepare(i / a.H, i % a.H, queries.get() + i * queries_size);
        for (std::int64_t s = 0; s < tasks.dq_sums; ++s)
          std::fill_n(sums.get() + s * all_dq + i * dq_size, dq_size, W(0));
      }
    });
    parallel_for(groups, 1, dynamic_schedule, [&](std::int64_t begin, std::int64_t end) {
      const Session<T> session(a);
      each_task(begin, end, [&](const BackwardTask& t) {
        const std::int64_t head = t.batch * a.kv_heads + t.head;
        compute(t, keys.get() + head * keys_size, queries.get() + head * group * queries_size,
                sums.get() + tasks.dq_sum(t.slot) * all_dq + head * group * dq_size, session.workspace.get());
      });
    });
    const std::int64_t grain = grain_of(static_cast<double>(a.D * (tasks.dq_sums + 1)));
    parallel_for(query_heads * a.Sq, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t head = r / a.Sq, i = r % a.Sq;
        W* const sum = sums.get() + head * dq_size + i * dq_row;
        for (std::int64_t s = 1; s < tasks.dq_sums; ++s)
          for (std::int64_t c = 0; c < a.D; ++c) sum[c] += sum[s * all_dq + c];
        note(table.copy_finite(1, a.D, static_cast<W>(a.scale), sum, 0, d.dq.at(head / a.H, head % a.H, i), 0));
      }
    });
  }

  template <class Each>
  void each_task(std::int64_t begin, std::int64_t end, const Each& each) const {
    tasks.each(begin * slots_of_group, std::min(end * slots_of_group, tasks.slots), each);
  }

  // delta, dsink and packed queries of a head.
  void prepare(std::int64_t b, std::int64_t h, W* queries) const {
    const std::int64_t head = b * a.H + h, first = head * a.Sq;
    W* const to = delta.get() + first;
    table.row_dots(a.Sq, a.Dv, call.dout.at(b, h, 0), call.dout.row, call.out.at(b, h, 0), call.out.row, to);
    // delta is the sum over the keys of P dP. If dout is not finite, no dP is finite, and dP - delta is NaN.
    const auto infinite = [](T x) { return !std::isfinite(static_cast<W>(x)); };
    for (std::int64_t i = 0; i < a.Sq; ++i) {
      if (std::isfinite(to[i]) || std::none_of(call.dout.at(b, h, i), call.dout.at(b, h, i) + a.Dv, infinite)) continue;
      const bool fully_masked = d.dsink && a.state(b, h, {i, i + 1}, {0, a.Sk}) == TileState::empty;
      to[i] = fully_masked ? W(0) : std::numeric_limits<W>::quiet_NaN();
    }
    for (std::int64_t i = 0; call.dlse && i < a.Sq; ++i) to[i] -= call.dlse[first + i];
    W sum = 0;
    for (std::int64_t i = 0; d.dsink && i < a.Sq; ++i)
      sum -= softmax_rows<W>().exp(a.sink[h] - call.stats.m[first + i]) * call.stats.inv_l[first + i] * to[i];
    sink_sums.get()[head] = sum;
    if (queries_size > 0) table.pack_queries(a, call.dout, b, h, queries);
  }

  // queries, dq: of the heads that share the keys of the task, one after another.
  void compute(const BackwardTask& t, const W* keys, const W* queries, W* dq, W* workspace) {
    AttentionBackward<T> part = call;
    part.d.dbias.data = bias_sums.at(tasks.dbias_sum(t.slot));
    part.d.dtables = tables_sums.at(t.slot / slots_of_group);
    note(table.backward(part, t, keys, queries, delta.get(), dq, workspace));
  }

  void note(bool finite) {
    if (!finite && !call.check && a.restricts()) ok = false;
  }
};

// Computes a call by ShortHeads, if it has short heads: heads_of(table, begin, end, workspace) some of its `count`
// heads, of which each takes `flops` operations. Returns whether the results count.
template <class T, class HeadsOf>
bool by_short_heads(const Attention<T>& a, std::int64_t count, double flops, const HeadsOf& heads_of) {
  if constexpr (std::is_same_v<T, float>) {
    if (!has_short_heads(a)) return false;
    const ShortHeads& table = FIT_KERNELS(short_heads_table, T);
    std::atomic<bool> finite{true};
    // Fewer heads are not worth a thread: their numbers would move from cache to cache, there and back.
    parallel_for(count, grain_of(flops / 4), [&](std::int64_t begin, std::int64_t end) {
      const Scratch<T> workspace(attention_workspace(a));
      if (!heads_of(table, begin, end, workspace.get())) finite = false;
    });
    return finite;
  } else {
    return false;
  }
}

}  // namespace

template <class T>
bool attention_forward(const Attention<T>& a, const HeadView<T>& out, const SoftmaxStats<AccT<T>>& stats) {
  using W = AccT<T>;
  const auto short_heads = [&](const auto& kernel, std::int64_t begin, std::int64_t end, W* workspace) {
    return kernel.forward(a, begin, end, out, stats, workspace);
  };
  if (by_short_heads(a, a.B * a.H, flops_of_head(a), short_heads)) return true;
  const auto& table = attention_table(a);
  std::atomic<bool> finite{true};
  over_queries(a, {0, a.B}, [&](const QueryBlock& q, const W* keys, W* workspace) {
    if (!table.forward(a, q, keys, out, stats, workspace)) finite = false;
  });
  return finite;
}

template <class T>
void attention_weights(const Attention<T>& a, const SoftmaxStats<const AccT<T>>& stats, const Interval& elements,
                       AccT<T>* w) {
  using W = AccT<T>;
  const auto& table = attention_table(a);
  over_queries(a, elements, [&](const QueryBlock& q, const W* keys, W* workspace) {
    const std::int64_t row = ((q.b - elements.first) * a.H + q.h) * a.Sq + q.i0;
    table.weights(a, q, keys, stats, w + row * a.Sk, workspace);
  });
}

template <class T>
void attention_backward(const AttentionBackward<T>& call) {
  const Attention<T>& a = call.a;
  const auto short_heads = [&](const auto& kernel, std::int64_t begin, std::int64_t end, AccT<T>* workspace) {
    return kernel.backward(call, begin, end, workspace);
  };
  const double flops = 2.5 * flops_of_head(a) * static_cast<double>(a.group());
  if (!call.check && !call.dlse && by_short_heads(a, a.B * a.kv_heads, flops, short_heads)) return;
  if (BackwardPass<T>{call}.run()) return;
  AttentionBackward<T> checked = call;
  checked.check = true;
  BackwardPass<T>{checked}.run();
}

#define FIT_ATTENTION(T)                                                                                       \
  template bool attention_forward<T>(const Attention<T>&, const HeadView<T>&, const SoftmaxStats<AccT<T>>&);   \
  template void attention_weights<T>(const Attention<T>&, const SoftmaxStats<const AccT<T>>&, const Interval&, \
                                     AccT<T>*);                                                                \
  template void attention_backward<T>(const AttentionBackward<T>&);
FIT_ATTENTION(BFloat16)
FIT_ATTENTION(float)
FIT_ATTENTION(double)
#undef FIT_ATTENTION

}  // namespace fit::kernels
