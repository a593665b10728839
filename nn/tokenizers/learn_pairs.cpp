#include "tokenizers/learn_pairs.hpp"

#include <set>

namespace fit::text {
namespace {

// Merges each occurrence of a pair, from the left.
void join(Ids& ids, Pair pair, std::int64_t joined) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < ids.size(); ++to) {
    const bool here = from + 1 < ids.size() && ids[from] == pair.first && ids[from + 1] == pair.second;
    ids[to] = here ? joined : ids[from];
    from += here ? 2 : 1;
  }
  ids.resize(to);
}

struct Word {
  Ids ids;
  std::int64_t count;
};

// Counts each pair of tokens in the text and the words that contain it. Omits pairs too long for one token. settle()
// makes the changes since the last one count.
class PairCounts {
 public:
  /// `lengths`: the bytes of each token.
  explicit PairCounts(const std::vector<std::size_t>& lengths) : lengths_(lengths) {}
  void add(const std::vector<Word>& words, std::size_t w) {
    const Ids& ids = words[w].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) change({ids[i], ids[i + 1]}, words[w].count, w);
  }
  /// Joins a pair in word w. Only the pairs beside a join change.
  void join_in(std::vector<Word>& words, std::size_t w, Pair best, std::int64_t joined) {
    Word& word = words[w];
    const Ids before = word.ids;
    join(word.ids, best, joined);
    for (std::size_t i = 0, from = 0; i < word.ids.size(); ++i) {  // from: the place in `before`
      const bool is_joined = word.ids[i] == joined;
      if (is_joined) change(best, -word.count, w);
      from += is_joined ? 2 : 1;
      if (i + 1 == word.ids.size() || !(is_joined || word.ids[i + 1] == joined)) continue;
      change({before[from - 1], before[from]}, -word.count, w);
      change({word.ids[i], word.ids[i + 1]}, word.count, w);
    }
  }
  void settle() {
    for (const auto& [pair, by] : changes_) {
      std::int64_t& count = counts_[pair];
      if (count > 0) order_.erase({-count, pair});
      count += by;
      if (count > 0) order_.insert({-count, pair});
    }
    changes_.clear();
  }
  bool more() const { return !order_.empty() && order_.begin()->first <= -2; }
  Pair best() const { return order_.begin()->second; }
  std::size_t length(Pair p) const {
    return lengths_[static_cast<std::size_t>(p.first)] + lengths_[static_cast<std::size_t>(p.second)];
  }
  std::set<std::size_t> take_words(Pair pair) { return std::move(words_[pair]); }

 private:
  void change(Pair pair, std::int64_t by, std::size_t w) {
    if (length(pair) > longest_token) return;
    changes_[pair] += by;
    if (by > 0) words_[pair].insert(w);
  }

  const std::vector<std::size_t>& lengths_;
  std::map<Pair, std::int64_t> counts_, changes_;
  std::set<std::pair<std::int64_t, Pair>> order_;  // the most frequent first
  std::map<Pair, std::set<std::size_t>> words_;    // may include words that no longer contain the pair
};

}  // namespace

Ids bytes_of(const std::string& word) {
  Ids ids;
  for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::vector<Pair> learn_pairs(const std::map<std::string, std::int64_t>& counted, std::int64_t most) {
  std::vector<Word> words;
  words.reserve(counted.size());
  for (const auto& [word, count] : counted) words.push_back({bytes_of(word), count});
  std::vector<std::size_t> lengths(256, 1);
  PairCounts pairs(lengths);
  for (std::size_t w = 0; w < words.size(); ++w) pairs.add(words, w);
  pairs.settle();

  std::vector<Pair> merges;
  while (static_cast<std::int64_t>(merges.size()) < most && pairs.more()) {
    const Pair best = pairs.best();
    const std::int64_t joined = 256 + static_cast<std::int64_t>(merges.size());
    lengths.push_back(pairs.length(best));
    for (const std::size_t w : pairs.take_words(best)) pairs.join_in(words, w, best, joined);
    pairs.settle();
    merges.push_back(best);
  }
  return merges;
}

}  // namespace fit::text
