#pragma once
#include <algorithm>
#include <array>

#include "unicode/characters.hpp"

namespace fit::unicode {

/// Ranges of characters, with a bitmap of the first 128.
class RangeSet {
 public:
  /// Pairs: from the end of the range before to the beginning, and how many.
  explicit RangeSet(const tables::Table& table) {
    char32_t end = 0;
    for (std::size_t i = 0; i + 1 < table.size; i += 2) {
      const char32_t begin = end + static_cast<char32_t>(table.numbers[i]);
      end = begin + static_cast<char32_t>(table.numbers[i + 1]);
      add(begin, end);
    }
    finish();
  }
  RangeSet() = default;

  /// Adds [begin, end), which must lie behind the ranges that were added. finish() must follow the last.
  void add(char32_t begin, char32_t end) {
    if (!ends_.empty() && ends_.back() == begin) {
      ends_.back() = end;
      return;
    }
    begins_.push_back(begin);
    ends_.push_back(end);
  }
  void finish() {
    for (char32_t c = 0; c < 128; ++c) ascii_[c] = found(c);
  }
  bool holds(char32_t c) const { return c < 128 ? ascii_[c] : found(c); }

 private:
  bool found(char32_t c) const {
    const auto at = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), c) - ends_.begin());
    return at < ends_.size() && c >= begins_[at];
  }
  Points begins_, ends_;
  std::array<bool, 128> ascii_{};
};

}  // namespace fit::unicode
