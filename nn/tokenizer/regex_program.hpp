#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/regex.hpp"
#include "unicode/characters.hpp"

namespace fit::text {

inline constexpr const char* regex_op = "Tokenizer";  // in errors

/// One character of a pattern: ranges, classes and sets, joined; of these what all of `also` hold.
class RegexSet {
 public:
  struct Class {
    unicode::CharacterSet holds;
    bool negated;
  };
  bool negated = false;
  std::vector<std::pair<char32_t, char32_t>> ranges;
  std::vector<Class> classes;
  std::vector<RegexSet> inner, also;

  bool holds(char32_t c) const { return c < 128 && has_ascii_ ? ascii_[c] : found(c); }
  /// Looks the first 128 up once, for holds().
  void finish() {
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = found(c);
    has_ascii_ = true;
  }

 private:
  bool found(char32_t c) const { return (is_in(c) && is_in_also(c)) != negated; }
  bool is_in(char32_t c) const {
    for (const auto& [low, high] : ranges)
      if (c >= low && c <= high) return true;
    for (const Class& one : classes)
      if (one.holds(c) != one.negated) return true;
    for (const RegexSet& one : inner)
      if (one.holds(c)) return true;
    return false;
  }
  bool is_in_also(char32_t c) const {
    for (const RegexSet& one : also)
      if (!one.holds(c)) return false;
    return true;
  }
  std::array<bool, 128> ascii_{};
  bool has_ascii_ = false;
};

/// A place between two characters.
enum class RegexPlace { line_begin, line_end, text_begin, text_end, text_end_or_newline, word_edge, no_word_edge };

/// A step of a matcher. `first` and `second` are steps unless it says something else.
struct RegexStep {
  enum class Kind {
    set,        // a character of the set `first`
    run,        // as many characters of the set `first` as there are, at least `second`
    split,      // goes on at `first`, and if that fails at `second`
    loop,       // the same, but when it comes back without a character it goes on at `second`
    once,       // goes on at `first`, but not twice at one place
    jump,       // goes on at `first`
    ahead,      // goes on at `second` if `first` up to `end` matches here
    not_ahead,  // or if it does not
    atomic,     // goes on at `second` behind the first match of `first` up to `end`
    place,      // the RegexPlace `first`
    end
  };
  Kind kind;
  std::size_t first = 0, second = 0;
};

struct Regex::Program {
  std::vector<RegexStep> steps;
  std::vector<RegexSet> sets;
  std::vector<std::bitset<129>> begins;  // whether what is from a step on may match at a character of ASCII, at others
};

/// A part of a pattern.
struct RegexNode {
  enum class Kind { set, sequence, choice, repeat, ahead, not_ahead, atomic, place };
  Kind kind = Kind::sequence;
  std::size_t number = 0;  // of the set, or the RegexPlace
  std::size_t least = 1, most = 1;
  bool lazy = false;
  std::vector<RegexNode> parts = {};
};

struct RegexTree {
  RegexNode root;
  std::vector<RegexSet> sets;
};

/// Throws Error, with the pattern, if it can't be read here.
RegexTree regex_tree(const std::string& pattern);
[[noreturn]] void fail_pattern(const std::string& pattern, const std::string& what);

}  // namespace fit::text
