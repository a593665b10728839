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

/// A text on its way to tokens, and for each of its bytes where in the given text it comes from: from a whole
/// character.
class Normalized {
 public:
  /// `is_first`: whether nothing stands before the text.
  explicit Normalized(std::string given, bool is_first = true) : text_(std::move(given)), is_first_(is_first) {}

  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  /// Whether nothing stands before its part of the given text.
  bool is_first() const { return is_first_; }
  /// Where bytes of this text come from. There must be at least one.
  Span origin(std::size_t begin, std::size_t end) const;

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
  bool is_in_place() const { return origins_.empty(); }
  /// Whether each character becomes one of as many bytes.
  bool stays_in_place(const unicode::Changes& changes) const;
  void list_origins();

  std::string text_;
  std::vector<Span> origins_;  // of each byte; none as long as each character is where it was given
  std::size_t begin_ = 0;      // of its part of the given text
  bool is_first_;
};

/// The characters of a text, which is UTF-8.
std::vector<char32_t> characters(const std::string& text);
std::string utf8_of(const std::vector<char32_t>& points);

}  // namespace fit::text
