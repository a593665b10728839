#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace fit::text {

/// A token of a word, and the bytes that it stands for, at least one.
struct Symbol {
  std::int64_t id;
  std::size_t bytes;
};

/// The merges of a vocabulary of byte pairs, in the order in which they were learned.
class PairRanks {
 public:
  /// Adds the next merge. Of two of one pair, the later counts, as in the reference. Returns whether the pair is new.
  bool add(std::int64_t first, std::int64_t second, std::int64_t joined) {
    return merges_.insert_or_assign(key_of(first, second), Merge{added_++, joined}).second;
  }

  /// Merges neighbours, of all that can be the pair that was learned first, from the left, until there is none. For n
  /// symbols it takes O(n log n).
  void merge(std::vector<Symbol>& word) const;

 private:
  struct Merge {
    std::size_t rank;
    std::int64_t joined;
  };
  struct Candidate;
  static std::uint64_t key_of(std::int64_t a, std::int64_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b);
  }
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::size_t added_ = 0;
};

}  // namespace fit::text
