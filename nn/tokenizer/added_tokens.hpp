#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tokenizer/parts.hpp"

namespace fit::text {

/// A token that is found in a text before the model cuts it.
struct AddedToken {
  std::int64_t id = 0;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

/// A part of a text: one of the added tokens, or nothing if `token` is null.
struct Found {
  std::size_t begin, end;
  const AddedToken* token;
};

/// Finds tokens in texts: from the left, of those that begin at one place the longest.
class TokenFinder {
 public:
  /// The tokens must live as long as this.
  void add(const std::string& content, const AddedToken* token);
  bool empty() const { return nodes_.size() == 1; }
  std::vector<Found> parts(const std::string& text) const;

 private:
  const AddedToken* longest(const std::string& text, std::size_t at, std::size_t& end) const;

  struct Node {
    std::unordered_map<unsigned char, std::size_t> next;
    const AddedToken* token = nullptr;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> begins_{};  // the bytes with which tokens begin
};

}  // namespace fit::text
