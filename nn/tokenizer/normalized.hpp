#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "unicode/normal_forms.hpp"

namespace fit::text {

/// Two bytes of the text that is encoded.
using Span = std::pair<std::size_t, std::size_t>;

/// How a split treats what a pattern matches.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// A part of a text and whether it matches.
struct Piece {
  std::size_t begin, end;
  bool matches;
};
/// Cuts a text into parts that match and parts that don't.
using Pattern = std::function<std::vector<Piece>(const std::string&)>;
/// The characters of a set, each a match.
Pattern pattern_of(const std::function<bool(char32_t)>& set);
/// The other way round.
Pattern inverted(const Pattern& pattern);
/// A text.
Pattern pattern_of(const std::string& literal);

/// A text on its way to tokens, and for each of its bytes where in the given text it comes from.
class Normalized {
 public:
  explicit Normalized(const std::string& given);

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  /// Where its part of the given text begins.
  std::size_t begin() const { return begin_; }
  /// Where bytes of this text come from. There must be at least one.
  Span origin(std::size_t begin, std::size_t end) const { return {origins_[begin].first, origins_[end - 1].second}; }

  /// Replaces the text behind the first `skipped` characters, which go.
  void transform(const unicode::Changes& changes, std::size_t skipped = 0);
  void keep(const std::function<bool(char32_t)>& kept);
  void map(const std::function<char32_t(char32_t)>& to);
  void prepend(const std::string& text);
  void replace(const Pattern& pattern, const std::string& content);
  void strip(bool left, bool right);
  Normalized slice(std::size_t begin, std::size_t end) const;
  std::vector<Normalized> split(const Pattern& pattern, Behavior behavior) const;

 private:
  Normalized() = default;
  std::string text_;
  std::vector<Span> origins_;
  std::size_t begin_ = 0;
};

/// The characters of a text, which is UTF-8.
std::vector<char32_t> characters(const std::string& text);
std::string utf8_of(const std::vector<char32_t>& points);

}  // namespace fit::text
