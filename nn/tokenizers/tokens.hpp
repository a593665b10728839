#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::text {

/// Throws Error if a vocabulary has no table any more.
template <class T>
void check_not_moved(const char* op, const std::shared_ptr<T>& table) {
  if (!table) check::fail(op, "this vocabulary was moved from: use the one that std::move() made of it");
}

/// The token with this id. Throws Error if there is none.
inline const std::string& checked_token(const char* op, const std::vector<std::string>& tokens, std::int64_t id) {
  if (id < 0 || id >= static_cast<std::int64_t>(tokens.size()))
    check::fail(op, "there is no token ", id, ": there are ", tokens.size());
  return tokens[static_cast<std::size_t>(id)];
}

using Ids = std::vector<std::int64_t>;
using Pair = std::pair<std::int64_t, std::int64_t>;

inline Tensor ids_tensor(const Ids& ids) { return tensor(ids, {static_cast<std::int64_t>(ids.size())}); }

/// Merges each occurrence of a pair, from the left.
inline void join(Ids& ids, Pair pair, std::int64_t joined) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < ids.size(); ++to) {
    const bool here = from + 1 < ids.size() && ids[from] == pair.first && ids[from + 1] == pair.second;
    ids[to] = here ? joined : ids[from];
    from += here ? 2 : 1;
  }
  ids.resize(to);
}

/// The merges of a vocabulary of byte pairs, in the order in which they were learned.
class PairRanks {
 public:
  /// Adds the next merge. Returns false, and adds nothing, if the pair is there already.
  bool add(std::int64_t first, std::int64_t second, std::int64_t joined) {
    return merges_.emplace(key_of(first, second), Pair(merges_.size(), joined)).second;
  }

  /// Merges pairs of neighbours, of all that are there the one that was learned first, until there is none.
  void merge(Ids& ids) const {
    for (;;) {
      const Pair* best = nullptr;
      std::size_t place = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i)
        if (const auto found = merges_.find(key_of(ids[i], ids[i + 1]));
            found != merges_.end() && (!best || found->second.first < best->first))
          best = &found->second, place = i;
      if (!best) return;
      join(ids, {ids[place], ids[place + 1]}, best->second);
    }
  }

 private:
  static std::uint64_t key_of(std::int64_t a, std::int64_t b) {
    return static_cast<std::uint64_t>(a) << 32 | static_cast<std::uint64_t>(b);
  }
  std::unordered_map<std::uint64_t, Pair> merges_;  // to the number of the merge and the token that it makes
};

}  // namespace fit::text
