#pragma once
#include <algorithm>
#include <ostream>

#include "attention/kernel/kernel.hpp"

// The backward pass as a list of tasks, which depends on shapes alone: results do not depend on the threads.
namespace fit::kernels {

inline std::ostream& operator<<(std::ostream& out, const BackwardTask& t) {
  return out << "{batch " << t.batch << ", head " << t.head << ", keys " << t.first_key << " … " << t.last_key
             << ", slot " << t.slot << '}';
}

/// The tasks of a call, by slots. Each slot has a sum of dq and a sum of dbias for its tasks alone.
///
/// Heads of k and v that add to one part of dbias are a family; without dbias each head is one. The cheapest list has
/// one slot for each family, and one task for each head. If that makes too few slots, `dq_sums` slots share out the
/// blocks of keys of a family, and then `dbias_sums` times as many share out its heads: there are few blocks of keys
/// then, so dbias is small beside the scores.
class BackwardTasks {
  static constexpr std::int64_t enough = 8;  // slots, for the cores of a small machine
  const std::int64_t kv_heads_, Sk_, blocks_, family_, families_;
  const std::int64_t stride_;  // of the heads of a family

 public:
  const std::int64_t dq_sums;        // for each head
  const std::int64_t heads_of_slot;  // at most
  const std::int64_t dbias_sums;     // for each family
  const std::int64_t slots;          // in all

  template <class W>
  BackwardTasks(const Attention<>& a, const HeadView<W>& dbias)
      : kv_heads_(a.kv_heads),
        Sk_(a.Sk),
        blocks_(ceil_div(a.Sk, key_block)),
        family_(dbias.data ? (dbias.batch ? 1 : a.B) * (dbias.head ? 1 : a.kv_heads) : 1),
        families_(a.B * a.kv_heads / family_),
        stride_(dbias.data && dbias.head && !dbias.batch ? a.kv_heads : 1),
        dq_sums(families_ < enough ? std::min(blocks_, ceil_div(enough, families_)) : 1),
        heads_of_slot(ceil_div(family_, std::min(family_, ceil_div(enough, families_ * dq_sums)))),
        dbias_sums(ceil_div(family_, heads_of_slot)),
        slots(families_ * dbias_sums * dq_sums) {}

  /// Which of the sums a slot adds to.
  std::int64_t dq_sum(std::int64_t slot) const { return slot % dq_sums; }
  std::int64_t dbias_sum(std::int64_t slot) const { return slot / dq_sums % dbias_sums; }

  /// Calls each(task) for the tasks of the slots begin … end - 1, in order.
  template <class Each>
  void each(std::int64_t begin, std::int64_t end, const Each& each) const {
    // One task if a head has one sum of dq. Otherwise every dq_sums-th block: under a causal mask the first blocks cost
    // more than the last.
    const std::int64_t keys = dq_sums == 1 ? Sk_ : key_block;
    for (std::int64_t slot = begin; slot < end; ++slot) {
      const std::int64_t family = slot / dq_sums / dbias_sums, part = dbias_sum(slot) * heads_of_slot;
      const std::int64_t first = family % stride_ + family / stride_ * stride_ * family_;
      for (std::int64_t n = part; n < std::min(family_, part + heads_of_slot); ++n)
        for (std::int64_t head = first + n * stride_, j = dq_sum(slot) * keys; j < Sk_; j += dq_sums * keys)
          each(BackwardTask{head / kv_heads_, head % kv_heads_, j, std::min(j + keys, Sk_) - 1, slot});
    }
  }

 private:
  static std::int64_t ceil_div(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }
};

}  // namespace fit::kernels
