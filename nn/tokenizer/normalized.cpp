#include "tokenizer/normalized.hpp"

#include <algorithm>

#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::text {

std::vector<char32_t> characters(const std::string& text) {
  std::vector<char32_t> all;
  all.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) all.push_back(utf8::next(text, at));
  return all;
}

std::string utf8_of(const std::vector<char32_t>& points) {
  std::string text;
  for (const char32_t c : points) unicode::append(text, c);
  return text;
}

// ---- patterns -----------------------------------------------------------------------------------------------------

namespace {

// Fills what lies between matches.
class PieceList {
 public:
  void match(std::size_t begin, std::size_t end) {
    rest(begin);
    all_.push_back({begin, end, true});
    at_ = end;
  }
  std::vector<Piece> finished(std::size_t size) {
    rest(size);
    return std::move(all_);
  }

 private:
  void rest(std::size_t end) {
    if (end > at_) all_.push_back({at_, end, false});
  }
  std::vector<Piece> all_;
  std::size_t at_ = 0;
};

}  // namespace

Pattern pattern_of(const std::function<bool(char32_t)>& set) {
  return [set](const std::string& text) {
    PieceList pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      if (set(utf8::next(text, at))) pieces.match(begin, at);
    }
    return pieces.finished(text.size());
  };
}

Pattern pattern_of(const std::string& literal) {
  return [literal](const std::string& text) {
    PieceList pieces;
    if (!literal.empty())
      for (std::size_t at = text.find(literal); at != std::string::npos; at = text.find(literal, at + literal.size()))
        pieces.match(at, at + literal.size());
    return pieces.finished(text.size());
  };
}

Pattern inverted(const Pattern& pattern) {
  return [pattern](const std::string& text) {
    std::vector<Piece> pieces = pattern(text);
    for (Piece& piece : pieces) piece.matches = !piece.matches;
    return pieces;
  };
}

// ---- Normalized ---------------------------------------------------------------------------------------------------

Span Normalized::origin(std::size_t begin, std::size_t end) const {
  if (!is_in_place()) return {origins_[begin].first, origins_[end - 1].second};
  while (!utf8::starts_code_point(text_[begin])) --begin;
  while (end < text_.size() && !utf8::starts_code_point(text_[end])) ++end;
  return {begin_ + begin, begin_ + end};
}

void Normalized::list_origins() {
  if (!is_in_place()) return;
  origins_.reserve(text_.size());
  for (std::size_t at = 0; at < text_.size();) {
    const std::size_t begin = at;
    utf8::next(text_, at);
    origins_.insert(origins_.end(), at - begin, Span(begin_ + begin, begin_ + at));
  }
}

bool Normalized::stays_in_place(const unicode::Changes& changes) const {
  std::size_t at = 0;
  for (const unicode::Change& change : changes) {
    const std::size_t begin = at;
    if (change.added != 0 || at == text_.size()) return false;
    utf8::next(text_, at);
    if (at - begin != utf8::size(change.c)) return false;
  }
  return at == text_.size();
}

void Normalized::transform(const unicode::Changes& changes, std::size_t skipped) {
  if (skipped == 0 && stays_in_place(changes)) {
    text_.clear();
    for (const unicode::Change& change : changes) unicode::append(text_, change.c);
    return;
  }
  list_origins();
  std::size_t at = 0;  // in the old text
  const auto skip = [&](std::size_t n) {
    for (; n > 0 && at < text_.size(); --n) utf8::next(text_, at);
  };
  skip(skipped);
  std::string text;
  std::vector<Span> origins;
  for (const unicode::Change& change : changes) {
    const bool added = change.added > 0 || at >= text_.size();
    const Span origin = !added ? origins_[at] : at == 0 ? Span(begin_, begin_) : origins_[at - 1];
    if (!added) skip(1 + static_cast<std::size_t>(-change.added));
    origins.insert(origins.end(), utf8::size(change.c), origin);
    unicode::append(text, change.c);
  }
  text_ = std::move(text);
  origins_ = std::move(origins);
}

void Normalized::keep(const std::function<bool(char32_t)>& kept) {
  unicode::Changes changes;
  std::size_t first = 0;  // how many go before the first that is kept
  for (const char32_t c : characters(text_)) {
    if (kept(c))
      changes.push_back({c, 0});
    else if (changes.empty())
      ++first;
    else
      --changes.back().added;
  }
  transform(changes, first);
}

void Normalized::map(const std::function<char32_t(char32_t)>& to) {
  unicode::Changes changes;
  for (const char32_t c : characters(text_)) changes.push_back({to(c), 0});
  transform(changes);
}

void Normalized::prepend(const std::string& text) {
  if (text_.empty() || text.empty()) return;
  list_origins();
  origins_.insert(origins_.begin(), text.size(), origins_[0]);
  text_.insert(0, text);
}

void Normalized::replace(const Pattern& pattern, const std::string& content) {
  list_origins();
  std::string text;
  std::vector<Span> origins;
  for (const Piece& piece : pattern(text_)) {
    if (piece.matches) {
      text += content;
      origins.insert(origins.end(), content.size(), piece.end == 0 ? Span(begin_, begin_) : origins_[piece.end - 1]);
      continue;
    }
    text.append(text_, piece.begin, piece.end - piece.begin);
    origins.insert(origins.end(), origins_.begin() + static_cast<std::ptrdiff_t>(piece.begin),
                   origins_.begin() + static_cast<std::ptrdiff_t>(piece.end));
  }
  text_ = std::move(text);
  origins_ = std::move(origins);
}

void Normalized::strip(bool left, bool right) {
  const std::vector<char32_t> all = characters(text_);
  std::size_t begin = 0, end = all.size();
  while (left && begin < end && unicode::is_space(all[begin])) ++begin;
  while (right && end > begin && unicode::is_space(all[end - 1])) --end;
  unicode::Changes changes;
  for (std::size_t i = begin; i < end; ++i) changes.push_back({all[i], 0});
  transform(changes, begin);
}

Normalized Normalized::slice(std::size_t begin, std::size_t end) const {
  Normalized part(text_.substr(begin, end - begin));
  part.begin_ = begin < end ? origin(begin, begin + 1).first : begin_;
  part.is_first_ = is_first_ && part.begin_ == 0;
  if (!is_in_place())
    part.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                         origins_.begin() + static_cast<std::ptrdiff_t>(end));
  return part;
}

std::vector<Normalized> Normalized::split(const Pattern& pattern, Behavior behavior) const {
  std::vector<Piece> pieces = pattern(text_);
  const bool next = behavior == Behavior::merged_with_next;
  if (next) std::reverse(pieces.begin(), pieces.end());
  std::size_t n = 0;  // how many are left, at the front
  bool previous = false;
  for (const Piece piece : pieces) {
    bool joins = false;
    if (behavior == Behavior::contiguous) joins = piece.matches == previous;
    if (behavior == Behavior::merged_with_previous || next) joins = piece.matches && !previous;
    previous = piece.matches;
    if (joins && n > 0)
      (next ? pieces[n - 1].begin : pieces[n - 1].end) = next ? piece.begin : piece.end;
    else if (behavior != Behavior::removed || !piece.matches)
      pieces[n++] = piece;
  }
  pieces.resize(n);
  if (next) std::reverse(pieces.begin(), pieces.end());
  std::vector<Normalized> parts;
  parts.reserve(n);
  for (const Piece& piece : pieces)
    if (piece.end > piece.begin) parts.push_back(slice(piece.begin, piece.end));
  return parts;
}

}  // namespace fit::text
