#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/parts.hpp"

namespace fit::text {

/// Cuts texts into words, and these into tokens. Words come again and again: the tokens of those that came lately are
/// kept, in bounded memory.
class WordCutter {
 public:
  /// The steps `first` split a text; a word is seen by the steps `then` and the model, which must live as long as this.
  WordCutter(PreTokenizers first, PreTokenizers then, const Model& model)
      : first_(std::move(first)), then_(std::move(then)), model_(model) {}

  /// Calls f with each token, and the bytes of the given text that it stands for. Threads may call it at once.
  using Use = std::function<void(const Token&, Span)>;
  void each_token(const Normalized& text, const Use& f) const;

 private:
  using Known = std::unordered_map<std::string, std::vector<Token>>;
  std::vector<Token> tokens_of(const Normalized& word) const;
  void swap_kept(Known& known) const;

  PreTokenizers first_, then_;
  const Model& model_;
  mutable std::mutex kept_mutex_;
  mutable Known kept_;  // by no call at the moment
};

}  // namespace fit::text
