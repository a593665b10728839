#include "tokenizer/word_cutter.hpp"

namespace fit::text {
namespace {

// Of a word that is kept in bytes, and of such words.
constexpr std::size_t longest_kept = 32, most_kept = 1 << 15;

}  // namespace

// One call has the words. Another one at the same time begins with none, and the last to end leaves its own.
void WordCutter::swap_kept(Known& known) const {
  const std::lock_guard<std::mutex> lock(kept_mutex_);
  known.swap(kept_);
}

void WordCutter::each_token(const Normalized& text, const Use& f) const {
  std::vector<Normalized> words(1, text);
  for (const PreTokenizer& step : first_) step(words);
  Known known;
  swap_kept(known);
  for (const Normalized& word : words) {
    if (word.is_first() || word.text().size() > longest_kept) {
      for (const Token& token : tokens_of(word)) f(token, token.span);
      continue;
    }
    if (known.size() >= most_kept) known.clear();
    const auto [at, fresh] = known.try_emplace(word.text());
    if (fresh) at->second = tokens_of(Normalized(word.text(), false));
    for (const Token& token : at->second) f(token, word.origin(token.span.first, token.span.second));
  }
  swap_kept(known);
}

std::vector<Token> WordCutter::tokens_of(const Normalized& word) const {
  std::vector<Normalized> parts(1, word);
  for (const PreTokenizer& step : then_) step(parts);
  std::vector<Token> all;
  for (const Normalized& part : parts) {
    if (part.empty()) continue;
    for (Token& token : model_.tokens_of(part.text())) {
      token.span = part.origin(token.span.first, token.span.second);
      all.push_back(std::move(token));
    }
  }
  return all;
}

}  // namespace fit::text
