#include "kernels/rows/key_counts.hpp"

#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

template <class Key>
void count_less(Key* count, const Key* keys, std::int64_t n) {
  typedef Key V __attribute__((vector_size(vector_bytes)));
  constexpr int lanes = vector_bytes / sizeof(Key), together = 4;
  static_assert(key_group % (together * lanes) == 0);
  for (std::int64_t i = 0; i < n; i += together * lanes) {
    V own[together], sum[together];
    FIT_UNROLL for (int r = 0; r < together; ++r) {
      __builtin_memcpy(&own[r], keys + i + r * lanes, sizeof(V));
      sum[r] = V{};
    }
    for (std::int64_t j = 0; j < n; ++j) FIT_UNROLL for (int r = 0; r < together; ++r) {
        if constexpr (vector_bytes == 64)  // by a mask; elsewhere a comparison gives -1
          sum[r] = keys[j] < own[r] ? sum[r] + 1 : sum[r];
        else
          sum[r] -= reinterpret_cast<V>(keys[j] < own[r]);
      }
    FIT_UNROLL for (int r = 0; r < together; ++r) __builtin_memcpy(count + i + r * lanes, &sum[r], sizeof(V));
  }
}

}  // namespace

template <class IsaTag, class Key>
const KeyCounts<Key>& key_counts_table() {
  static constexpr KeyCounts<Key> table{count_less<Key>};
  return table;
}

template const KeyCounts<std::uint32_t>& key_counts_table<FIT_ISA, std::uint32_t>();
template const KeyCounts<std::uint64_t>& key_counts_table<FIT_ISA, std::uint64_t>();

}  // namespace fit::kernels
