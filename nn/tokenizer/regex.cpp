#include "tokenizer/regex.hpp"

#include <algorithm>
#include <optional>

#include "common/utf8.hpp"
#include "tensor/check.hpp"
#include "unicode/characters.hpp"

namespace fit::text {
namespace {

constexpr const char* regex_op = "Tokenizer";
constexpr std::size_t longest_program = 10'000;
constexpr int deepest_group = 50;
constexpr std::size_t most_places = std::size_t{1} << 27;

// \w inside of a class: Oniguruma leaves out the six numbers of Latin-1 that are no digits.
bool is_word_of_class(char32_t c) {
  return unicode::is_regex_word(c) && !(c > U'9' && c <= 0xFF && unicode::is_number(c));
}

}  // namespace

// One character of a pattern: a set of ranges and classes.
struct RegexSet {
  struct Class {
    unicode::CharacterSet holds;
    bool negated;
  };
  bool negated = false;
  std::vector<std::pair<char32_t, char32_t>> ranges;
  std::vector<Class> classes;

  bool holds(char32_t c) const {
    for (const auto& [low, high] : ranges)
      if (c >= low && c <= high) return !negated;
    for (const Class& one : classes)
      if (one.holds(c) != one.negated) return !negated;
    return negated;
  }
};

struct RegexStep {
  enum class Kind { set, split, jump, ahead, not_ahead, end };
  Kind kind;
  std::size_t first = 0, second = 0;  // a set, or the next steps; the first is tried first. ahead: behind its end
};

struct Regex::Program {
  std::vector<RegexStep> steps;
  std::vector<RegexSet> sets;
};

namespace {

// ---- parsing ------------------------------------------------------------------------------------------------------

class Parser {
 public:
  explicit Parser(const std::string& pattern) : pattern_(pattern), points_(unicode::points_of(regex_op, pattern)) {}

  Regex::Program parsed() {
    alternatives(0);
    if (at_ < points_.size()) fail("')' without '('");
    add({RegexStep::Kind::end});
    return std::move(program_);
  }

 private:
  using Kind = RegexStep::Kind;
  [[noreturn]] void fail(const std::string& what) const {
    check::fail(regex_op, "the pattern '", pattern_, "' has ", what, " at character ", at_,
                ": such a pattern can't be read here");
  }
  bool more() const { return at_ < points_.size(); }
  bool next_is(char32_t c, std::size_t ahead = 0) const {
    return at_ + ahead < points_.size() && points_[at_ + ahead] == c;
  }
  bool take(char32_t c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  char32_t taken() {
    if (!more()) fail("an end that is missing");
    return points_[at_++];
  }
  std::size_t add(const RegexStep& step) {
    if (program_.steps.size() >= longest_program) fail("too many steps");
    program_.steps.push_back(step);
    return program_.steps.size() - 1;
  }
  std::size_t size() const { return program_.steps.size(); }
  void insert(std::size_t at, const RegexStep& step) {  // steps are relative until here: moves them by one
    add({Kind::end});
    for (std::size_t i = size() - 1; i > at; --i) {
      program_.steps[i] = program_.steps[i - 1];
      RegexStep& moved = program_.steps[i];
      if (moved.kind == Kind::set || moved.kind == Kind::end) continue;
      moved.first += moved.first >= at;
      moved.second += moved.second >= at;
    }
    program_.steps[at] = step;
  }

  void alternatives(int depth) {
    if (depth > deepest_group) fail("too many groups in groups");
    const std::size_t begin = size();
    std::vector<std::size_t> ends;
    std::size_t from = begin;
    sequence(depth);
    while (take(U'|')) {
      insert(from, {Kind::split, from + 1, 0});
      for (std::size_t& end : ends) end += end >= from;
      ends.push_back(add({Kind::jump}));
      program_.steps[from].second = size();
      from = size();
      sequence(depth);
    }
    for (const std::size_t end : ends) program_.steps[end].first = size();
  }

  void sequence(int depth) {
    while (more() && !next_is(U'|') && !next_is(U')')) {
      const std::size_t begin = size();
      atom(depth);
      repetition(begin);
    }
  }

  void atom(int depth) {
    const char32_t c = taken();
    if (c == U'(') return group(depth);
    if (c == U'[') return one_of(bracket());
    if (c == U'\\') return one_of(escape(unicode::is_regex_word));
    if (c == U'*' || c == U'+' || c == U'?' || c == U'{' || c == U'^' || c == U'$')
      fail("an operator that is not known");
    RegexSet set;
    if (c == U'.')
      set.negated = true, set.ranges = {{U'\n', U'\n'}};
    else
      add_range(set, c, c);
    one_of(set);
  }

  void group(int depth) {
    const bool folded = folds_;
    Kind ahead = Kind::end;
    if (take(U'?')) {
      if (take(U'i')) folds_ = true;
      if (!folds_ || folds_ == folded) {
        if (take(U'='))
          ahead = Kind::ahead;
        else if (take(U'!'))
          ahead = Kind::not_ahead;
        else if (!take(U':'))
          fail("a group that is not known");
      } else if (!take(U':')) {
        fail("a group that is not known");
      }
    }
    const std::size_t begin = size();
    if (ahead != Kind::end) add({ahead, begin + 1, 0});
    alternatives(depth + 1);
    if (!take(U')')) fail("'(' without ')'");
    if (ahead != Kind::end) {
      add({Kind::end});
      program_.steps[begin].second = size();
    }
    folds_ = folded;
  }

  // How often the steps from `begin` on are repeated.
  void repetition(std::size_t begin) {
    std::size_t least = 1, most = 1;
    constexpr std::size_t unlimited = SIZE_MAX, largest = 1000;
    if (take(U'?')) {
      least = 0;
    } else if (take(U'*')) {
      least = 0, most = unlimited;
    } else if (take(U'+')) {
      most = unlimited;
    } else if (next_is(U'{')) {
      ++at_;
      least = number(largest);
      most = least;
      if (take(U',')) most = next_is(U'}') ? unlimited : number(largest);
      if (!take(U'}') || most < least) fail("a repetition that is not {n}, {n,} or {n,m}");
    } else {
      return;
    }
    if (next_is(U'?') || next_is(U'+') || next_is(U'*')) fail("a repetition that is not greedy");
    repeat(begin, least, most);
  }

  void repeat(std::size_t begin, std::size_t least, std::size_t most) {
    const std::vector<RegexStep> body(program_.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                                      program_.steps.end());
    program_.steps.resize(begin);
    const auto append = [&] {
      const std::size_t moved = size() - begin;
      for (RegexStep step : body) {
        if (step.kind != Kind::set && step.kind != Kind::end) step.first += moved, step.second += moved;
        add(step);
      }
    };
    for (std::size_t i = 0; i < least; ++i) append();
    if (most == SIZE_MAX) {
      const std::size_t loop = add({Kind::split, size() + 1, 0});
      append();
      add({Kind::jump, loop, 0});
      program_.steps[loop].second = size();
      return;
    }
    std::vector<std::size_t> splits;
    for (std::size_t i = least; i < most; ++i) {
      splits.push_back(add({Kind::split, size() + 1, 0}));
      append();
    }
    for (const std::size_t split : splits) program_.steps[split].second = size();
  }

  std::size_t number(std::size_t largest) {
    std::size_t n = 0, digits = 0;
    for (; more() && points_[at_] >= U'0' && points_[at_] <= U'9' && n <= largest; ++digits)
      n = n * 10 + (taken() - U'0');
    if (digits == 0 || n > largest) fail("a number that is missing or too large");
    return n;
  }

  void one_of(const RegexSet& set) {
    program_.sets.push_back(set);
    add({Kind::set, program_.sets.size() - 1, 0});
  }

  void add_range(RegexSet& set, char32_t low, char32_t high) const {
    set.ranges.emplace_back(low, high);
    if (!folds_) return;
    const auto fold = [&](char32_t from, char32_t to, std::int32_t shift) {
      const char32_t a = std::max(low, from), b = std::min(high, to);
      if (a <= b)
        set.ranges.emplace_back(static_cast<char32_t>(static_cast<std::int32_t>(a) + shift),
                                static_cast<char32_t>(static_cast<std::int32_t>(b) + shift));
    };
    fold(U'a', U'z', -32);
    fold(U'A', U'Z', 32);
    for (const auto& [letter, other] : {std::pair(U's', char32_t{0x17F}), {U'k', char32_t{0x212A}}})
      if ((low <= letter && letter <= high) || (low <= letter - 32 && letter - 32 <= high))
        set.ranges.emplace_back(other, other);
    if (high >= 0x80) fail("a letter beyond ASCII in a group (?i:…)");
  }

  // `word`: what \w is here.
  RegexSet escape(unicode::CharacterSet word) {
    RegexSet set;
    const char32_t c = taken();
    const auto of_class = [&](unicode::CharacterSet holds, bool negated) { set.classes.push_back({holds, negated}); };
    switch (c) {
      case U's':
      case U'S':
        of_class(unicode::is_space, c == U'S');
        return set;
      case U'd':
      case U'D':
        of_class(unicode::category("Nd"), c == U'D');
        return set;
      case U'w':
      case U'W':
        of_class(word, c == U'W');
        return set;
      case U'p':
      case U'P': {
        std::string name;
        if (!take(U'{')) fail("a class that is not \\p{…}");
        while (more() && !next_is(U'}') && name.size() < 3) unicode::append(name, taken());
        const unicode::CharacterSet holds = unicode::category(name);
        if (!take(U'}') || !holds) fail("a class that is not known, \\p{" + name + "}");
        of_class(holds, c == U'P');
        return set;
      }
      case U'n':
        set.ranges = {{U'\n', U'\n'}};
        return set;
      case U'r':
        set.ranges = {{U'\r', U'\r'}};
        return set;
      case U't':
        set.ranges = {{U'\t', U'\t'}};
        return set;
      default:
        if (c >= 0x80 || (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'))
          fail("an escape that is not known");
        set.ranges = {{c, c}};
        return set;
    }
  }

  RegexSet bracket() {
    RegexSet all;
    all.negated = take(U'^');
    for (bool first = true; first || !next_is(U']'); first = false) {
      const char32_t c = taken();
      if (c == U'[' || (c == U'&' && next_is(U'&'))) fail("a class in a class");
      RegexSet one;
      if (c == U'\\')
        one = escape(is_word_of_class);
      else
        one.ranges = {{c, c}};
      if (next_is(U'-') && !next_is(U']', 1) && one.ranges.size() == 1 && one.classes.empty()) {
        ++at_;
        char32_t high = taken();
        if (high == U'\\') {
          const RegexSet end = escape(is_word_of_class);
          if (end.ranges.size() != 1) fail("a range without an end");
          high = end.ranges[0].first;
        }
        if (high < one.ranges[0].first) fail("a range that falls");
        add_range(all, one.ranges[0].first, high);
        continue;
      }
      for (const auto& [low, high] : one.ranges) add_range(all, low, high);
      all.classes.insert(all.classes.end(), one.classes.begin(), one.classes.end());
    }
    ++at_;
    return all;
  }

  const std::string& pattern_;
  std::vector<char32_t> points_;
  std::size_t at_ = 0;
  bool folds_ = false;
  Regex::Program program_;
};

// ---- matching -----------------------------------------------------------------------------------------------------

// Finds one match. Where it was with a step and failed, it is not again.
class Matcher {
 public:
  Matcher(const Regex::Program& program, const std::vector<char32_t>& text) : program_(program), text_(text) {}

  std::optional<std::size_t> match(std::size_t begin) {
    begin_ = begin;
    ++round_;
    return run(0, begin);
  }

 private:
  struct Place {
    std::size_t step, at;
  };

  std::optional<std::size_t> run(std::size_t first, std::size_t from) {
    std::vector<Place> left{{first, from}};
    while (!left.empty()) {
      auto [step, at] = left.back();
      left.pop_back();
      for (bool fits = true; fits;) {
        const RegexStep& s = program_.steps[step];
        switch (s.kind) {
          case RegexStep::Kind::end:
            return at;
          case RegexStep::Kind::set:
            fits = at < text_.size() && program_.sets[s.first].holds(text_[at]);
            ++at, ++step;
            break;
          case RegexStep::Kind::jump:
            step = s.first;
            break;
          case RegexStep::Kind::split:
            fits = first_time(step, at);
            if (fits) left.push_back({s.second, at});
            step = s.first;
            break;
          case RegexStep::Kind::ahead:
          case RegexStep::Kind::not_ahead:
            fits = Matcher(program_, text_).looked(s.first, at) == (s.kind == RegexStep::Kind::ahead);
            step = s.second;
            break;
        }
      }
    }
    return std::nullopt;
  }

  bool looked(std::size_t step, std::size_t at) {
    begin_ = at;
    ++round_;
    return run(step, at).has_value();
  }

  bool first_time(std::size_t step, std::size_t at) {
    const std::size_t place = (at - begin_) * program_.steps.size() + step;
    if (place >= most_places)
      check::fail(regex_op, "a part of the text with more than ", at - begin_,
                  " characters is too long for the pattern");
    if (place >= seen_.size()) seen_.resize(std::max(place + 1, 2 * seen_.size()));
    if (seen_[place] == round_) return false;
    seen_[place] = round_;
    return true;
  }

  const Regex::Program& program_;
  const std::vector<char32_t>& text_;
  std::size_t begin_ = 0;
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> seen_;
};

}  // namespace

Regex::Regex(const std::string& pattern) : program_(std::make_shared<const Program>(Parser(pattern).parsed())) {}

std::vector<Piece> Regex::pieces(const std::string& text) const {
  const std::vector<char32_t> points = characters(text);
  std::vector<std::size_t> bytes;  // where each character begins
  for (std::size_t at = 0; at < text.size(); utf8::next(text, at)) bytes.push_back(at);
  bytes.push_back(text.size());
  Matcher matcher(*program_, points);
  std::vector<Piece> all;
  std::size_t rest = 0;
  const auto add_rest = [&](std::size_t end) {
    if (end > rest) all.push_back({bytes[rest], bytes[end], false});
  };
  for (std::size_t at = 0; at <= points.size();) {
    const std::optional<std::size_t> end = matcher.match(at);
    const bool empty = end && *end == at;
    if (!end || (empty && at == rest && !all.empty())) {
      ++at;
      continue;
    }
    add_rest(at);
    all.push_back({bytes[at], bytes[*end], true});
    rest = *end;
    at = *end + empty;
  }
  add_rest(points.size());
  return all;
}

Pattern pattern_of(const Regex& regex) {
  return [regex](const std::string& text) { return regex.pieces(text); };
}

}  // namespace fit::text
