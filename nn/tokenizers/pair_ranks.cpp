#include "tokenizers/pair_ranks.hpp"

#include <algorithm>

namespace fit::text {
namespace {

// The symbols that are left beside one.
struct Beside {
  std::size_t before, behind;
};

}  // namespace

// A merge of the symbol at `place` and the one behind it.
struct PairRanks::Candidate {
  const Merge* merge;
  std::size_t place;
  std::uint64_t pair;
  bool operator<(const Candidate& o) const {
    return merge->rank != o.merge->rank ? merge->rank > o.merge->rank : place > o.place;
  }
};

void PairRanks::merge(std::vector<Symbol>& word) const {
  const std::size_t none = word.size();
  std::vector<Beside> beside(word.size());
  std::vector<Candidate> candidates;
  candidates.reserve(2 * word.size());
  const auto pair_at = [&](std::size_t place) { return key_of(word[place].id, word[beside[place].behind].id); };
  const auto add = [&](std::size_t place) {
    if (place == none || beside[place].behind == none) return false;
    const std::uint64_t pair = pair_at(place);
    const auto found = merges_.find(pair);
    if (found != merges_.end()) candidates.push_back({&found->second, place, pair});
    return found != merges_.end();
  };
  for (std::size_t i = 0; i < word.size(); ++i) {
    beside[i] = {i > 0 ? i - 1 : none, i + 1};
    add(i);
  }
  std::make_heap(candidates.begin(), candidates.end());
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end());
    const Candidate best = candidates.back();
    candidates.pop_back();
    Symbol& a = word[best.place];
    const auto [before, behind] = beside[best.place];
    if (a.bytes == 0 || behind == none || pair_at(best.place) != best.pair) continue;  // it has changed since
    a.id = best.merge->joined;
    a.bytes += word[behind].bytes;
    word[behind].bytes = 0;  // it is gone
    beside[best.place].behind = beside[behind].behind;
    if (beside[behind].behind != none) beside[beside[behind].behind].before = best.place;
    for (const std::size_t place : {before, best.place})
      if (add(place)) std::push_heap(candidates.begin(), candidates.end());
  }
  word.erase(std::remove_if(word.begin(), word.end(), [](const Symbol& s) { return s.bytes == 0; }), word.end());
}

}  // namespace fit::text
