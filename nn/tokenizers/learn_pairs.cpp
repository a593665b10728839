#include "tokenizers/learn_pairs.hpp"

#include <set>

namespace fit::text {
namespace {

struct Word {
  Ids ids;
  std::int64_t count;
};

// Counts each pair of tokens in the text and the words that contain it. Omits pairs too long for one token.
class PairCounts {
 public:
  /// `lengths`: the bytes of each token.
  explicit PairCounts(const std::vector<std::size_t>& lengths) : lengths_(lengths) {}
  void add(const std::vector<Word>& words, std::size_t w, std::int64_t sign) {
    const Word& word = words[w];
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      const Pair pair{word.ids[i], word.ids[i + 1]};
      if (length(pair) > longest_token) continue;
      std::int64_t& count = counts_[pair];
      if (count > 0) order_.erase({-count, pair});
      count += sign * word.count;
      if (count > 0) order_.insert({-count, pair});
      if (sign > 0) words_[pair].insert(w);
    }
  }
  bool more() const { return !order_.empty() && order_.begin()->first <= -2; }
  Pair best() const { return order_.begin()->second; }
  std::size_t length(Pair p) const {
    return lengths_[static_cast<std::size_t>(p.first)] + lengths_[static_cast<std::size_t>(p.second)];
  }
  std::set<std::size_t> take_words(Pair pair) { return std::move(words_[pair]); }

 private:
  const std::vector<std::size_t>& lengths_;
  std::map<Pair, std::int64_t> counts_;
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
  for (std::size_t w = 0; w < words.size(); ++w) pairs.add(words, w, 1);

  std::vector<Pair> merges;
  while (static_cast<std::int64_t>(merges.size()) < most && pairs.more()) {
    const Pair best = pairs.best();
    const std::int64_t joined = 256 + static_cast<std::int64_t>(merges.size());
    lengths.push_back(pairs.length(best));
    for (const std::size_t w : pairs.take_words(best)) {
      pairs.add(words, w, -1);
      join(words[w].ids, best, joined);
      pairs.add(words, w, 1);
    }
    merges.push_back(best);
  }
  return merges;
}

}  // namespace fit::text
