#include <map>
#include <sstream>
#include <tuple>
#include <vector>

#include "attention/kernel/tasks.hpp"
#include "support/catch.hpp"

// The tasks of attention's backward pass.
namespace fit::test::attention_tasks_test {
namespace {

using kernels::BackwardTask;
using kernels::BackwardTasks;
using kernels::HeadView;

kernels::Attention<> call(std::int64_t B, std::int64_t kv_heads, std::int64_t Sk) {
  kernels::Attention<> a;
  a.B = B, a.H = 2 * kv_heads, a.kv_heads = kv_heads, a.Sq = Sk, a.Sk = Sk, a.D = a.Dv = 4;
  return a;
}

// A gradient of a bias for each element of the batch, for each head.
HeadView<float> bias(bool batch, bool head) {
  static float number = 0;
  return {&number, batch ? 1 : 0, head ? 1 : 0, 1};
}

std::vector<BackwardTask> all_of(const BackwardTasks& tasks) {
  std::vector<BackwardTask> all;
  tasks.each(0, tasks.slots, [&](const BackwardTask& t) { all.push_back(t); });
  return all;
}

std::string listed(const BackwardTasks& tasks) {
  std::ostringstream out;
  for (const BackwardTask& t : all_of(tasks)) out << t << '\n';
  return out.str();
}

void check_tasks(const kernels::Attention<>& a, const HeadView<float>& dbias) {
  const BackwardTasks tasks(a, dbias);
  const std::vector<BackwardTask> all = all_of(tasks);
  INFO("B " << a.B << ", kv_heads " << a.kv_heads << ", Sk " << a.Sk << ", dbias " << (dbias.data != nullptr)
            << dbias.batch << dbias.head << ":\n"
            << listed(tasks));
  // Each block of keys of each head is in one task.
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, int> seen;
  std::int64_t slot = 0;
  for (const BackwardTask& t : all) {
    CHECK((t.slot == slot || t.slot == slot + 1));
    slot = t.slot;
    CHECK((t.first_key % kernels::key_block == 0 && t.first_key <= t.last_key));
    CHECK((t.last_key == a.Sk - 1 || (t.last_key + 1) % kernels::key_block == 0));
    for (std::int64_t j = t.first_key; j <= t.last_key; j += kernels::key_block) ++seen[{t.batch, t.head, j}];
  }
  CHECK(slot + 1 <= tasks.slots);
  CHECK(static_cast<std::int64_t>(seen.size()) == a.B * a.kv_heads * ((a.Sk + 63) / 64));
  for (const auto& [block, count] : seen) {
    const auto& [b, h, j] = block;
    CHECK((count == 1 && b < a.B && h < a.kv_heads && j < a.Sk));
  }
  // Slots run at the same time: where both add to an element of a sum, the sums are different ones.
  for (const BackwardTask& t : all)
    for (const BackwardTask& u : all) {
      if (t.slot == u.slot) continue;
      if (t.batch == u.batch && t.head == u.head) CHECK(tasks.dq_sum(t.slot) != tasks.dq_sum(u.slot));
      const bool same_bias = dbias.data && (!dbias.batch || t.batch == u.batch) && (!dbias.head || t.head == u.head);
      const bool same_keys = t.first_key <= u.last_key && u.first_key <= t.last_key;
      if (same_bias && same_keys) CHECK(tasks.dbias_sum(t.slot) != tasks.dbias_sum(u.slot));
    }
  for (const BackwardTask& t : all)
    CHECK((tasks.dq_sum(t.slot) < tasks.dq_sums && tasks.dbias_sum(t.slot) < tasks.dbias_sums));
  // each() takes the tasks of some slots, in order.
  std::ostringstream parts;
  for (std::int64_t s = 0; s < tasks.slots; s += 3)
    tasks.each(s, std::min(tasks.slots, s + 3), [&](const BackwardTask& t) { parts << t << '\n'; });
  CHECK(parts.str() == listed(tasks));
}

}  // namespace

TEST_CASE("the tasks of a backward pass cover each block of keys once, in slots with sums of their own",
          "[attention]") {
  for (const std::int64_t B : {1, 2, 3, 9})
    for (const std::int64_t kv_heads : {1, 2, 5})
      for (const std::int64_t Sk : {1, 64, 65, 200, 700}) {
        const kernels::Attention<> a = call(B, kv_heads, Sk);
        check_tasks(a, {});
        for (const bool batch : {false, true})
          for (const bool head : {false, true}) check_tasks(a, bias(batch, head));
      }
}

TEST_CASE("the tasks of a backward pass can be printed", "[attention]") {
  CHECK(listed(BackwardTasks(call(2, 4, 130), HeadView<float>{})) ==
        "{batch 0, head 0, keys 0 … 129, slot 0}\n{batch 0, head 1, keys 0 … 129, slot 1}\n"
        "{batch 0, head 2, keys 0 … 129, slot 2}\n{batch 0, head 3, keys 0 … 129, slot 3}\n"
        "{batch 1, head 0, keys 0 … 129, slot 4}\n{batch 1, head 1, keys 0 … 129, slot 5}\n"
        "{batch 1, head 2, keys 0 … 129, slot 6}\n{batch 1, head 3, keys 0 … 129, slot 7}\n");
  // One head: its blocks of keys are shared out.
  CHECK(listed(BackwardTasks(call(1, 1, 130), HeadView<float>{})) ==
        "{batch 0, head 0, keys 0 … 63, slot 0}\n{batch 0, head 0, keys 64 … 127, slot 1}\n"
        "{batch 0, head 0, keys 128 … 129, slot 2}\n");
  // One bias for all of the batch and few keys: the elements of the batch are shared out.
  CHECK(listed(BackwardTasks(call(3, 1, 9), bias(false, false))) ==
        "{batch 0, head 0, keys 0 … 8, slot 0}\n{batch 1, head 0, keys 0 … 8, slot 1}\n"
        "{batch 2, head 0, keys 0 … 8, slot 2}\n");
}

}  // namespace fit::test::attention_tasks_test
