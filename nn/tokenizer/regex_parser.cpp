#include <algorithm>
#include <optional>
#include <tuple>

#include "tensor/check.hpp"
#include "tokenizer/regex_program.hpp"

namespace fit::text {
namespace {

constexpr int deepest_group = 50;
constexpr std::size_t unlimited = SIZE_MAX, largest_count = 1000;

// \w inside of a class: Oniguruma leaves out the six numbers of Latin-1 that are no digits.
bool is_word_of_class(char32_t c) {
  return unicode::is_regex_word(c) && !(c > U'9' && c <= 0xFF && unicode::is_number(c));
}

class Parser {
 public:
  explicit Parser(const std::string& pattern) : pattern_(pattern), points_(unicode::points_of(regex_op, pattern)) {}

  RegexTree parsed() {
    RegexNode root = alternatives(0);
    if (more()) fail("')' without '('");
    return {std::move(root), std::move(sets_)};
  }

 private:
  using Kind = RegexNode::Kind;
  [[noreturn]] void fail(const std::string& what) const {
    fail_pattern(pattern_, what + " at character " + std::to_string(at_));
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
  bool take(const std::u32string& all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!next_is(all[i], i)) return false;
    at_ += all.size();
    return true;
  }
  char32_t taken() {
    if (!more()) fail("an end that is missing");
    return points_[at_++];
  }

  // ---- groups and repetitions

  RegexNode alternatives(int depth) {
    if (depth > deepest_group) fail("too many groups in groups");
    RegexNode choice{Kind::choice};
    do choice.parts.push_back(sequence(depth));
    while (take(U'|'));
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : choice;
  }

  RegexNode sequence(int depth) {
    RegexNode all{Kind::sequence};
    while (more() && !next_is(U'|') && !next_is(U')')) {
      const bool folded = folds_;
      if (take(U"(?i)") || take(U"(?-i)")) {  // holds for all that follows in the group, alternatives too
        folds_ = points_[at_ - 2] == U'i' && points_[at_ - 3] == U'?';
        all.parts.push_back(alternatives(depth + 1));
        folds_ = folded;
        break;
      }
      check_folded_pair();
      RegexNode one = atom(depth);
      repeat(one, depth);
      all.parts.push_back(std::move(one));
    }
    return all;
  }

  // Without case, some pairs of letters are also one character: ß, ﬁ.
  void check_folded_pair() const {
    if (!folds_ || !more() || at_ + 1 >= points_.size()) return;
    const auto small = [](char32_t c) { return c >= U'A' && c <= U'Z' ? c + 32 : c; };
    const char32_t a = small(points_[at_]), b = small(points_[at_ + 1]);
    if ((a == U's' && (b == U's' || b == U't')) || (a == U'f' && (b == U'f' || b == U'i' || b == U'l')))
      fail("letters that may be one character in a group (?i:…)");
  }

  RegexNode atom(int depth) {
    const char32_t c = taken();
    if (c == U'(') return group(depth);
    if (c == U'[') return one_of(bracket(depth));
    if (c == U'^') return place(RegexPlace::line_begin);
    if (c == U'$') return place(RegexPlace::line_end);
    --at_;
    if (c == U'*' || c == U'+' || c == U'?' || interval(false)) fail("a repetition of nothing");
    ++at_;
    RegexSet set;
    if (c == U'.') {
      set.negated = true, set.ranges = {{U'\n', U'\n'}};
      return one_of(set);
    }
    set.ranges = {{c, c}};
    if (c == U'\\') {
      if (const auto found = escaped_place()) return place(*found);
      set = escape(unicode::is_regex_word);
    }
    if (!is_single(set)) return one_of(set);
    RegexSet folded;
    add_range(folded, set.ranges[0].first, set.ranges[0].first);
    return one_of(folded);
  }

  RegexNode group(int depth) {
    const bool folded = folds_;
    Kind kind = Kind::sequence;
    if (take(U'?')) {
      if (take(U'='))
        kind = Kind::ahead;
      else if (take(U'!'))
        kind = Kind::not_ahead;
      else if (take(U'>'))
        kind = Kind::atomic;
      else if (take(U"i:"))
        folds_ = true;
      else if (take(U"-i:"))
        folds_ = false;
      else if (!take(U':'))
        fail("a group that is not known");
    }
    RegexNode inside = alternatives(depth + 1);
    if (!take(U')')) fail("'(' without ')'");
    folds_ = folded;
    if (kind == Kind::sequence) return inside;
    return around(kind, std::move(inside));
  }

  static RegexNode around(Kind kind, RegexNode inside) {
    RegexNode node{kind};
    node.parts.push_back(std::move(inside));
    return node;
  }

  // How often a part is repeated: {n,m} behind which + repeats again, as in Oniguruma, or one sign, behind which ? is
  // lazy and + possessive.
  void repeat(RegexNode& node, int depth) {
    for (bool again = true; again; ++depth) {
      if (depth > deepest_group) fail("too many repetitions of repetitions");
      again = false;
      RegexNode whole{Kind::repeat};
      if (const auto counts = interval(true)) {
        std::tie(whole.least, whole.most) = *counts;
        whole.lazy = whole.least != whole.most && take(U'?');
        again = !whole.lazy;
      } else if (next_is(U'?') || next_is(U'*') || next_is(U'+')) {
        const char32_t sign = taken();
        whole.least = sign == U'+';
        whole.most = sign == U'?' ? 1 : unlimited;
        whole.lazy = take(U'?');
        if (!whole.lazy && take(U'+')) {
          check_repeats(node);
          whole.parts.push_back(std::move(node));
          node = around(Kind::atomic, std::move(whole));
          break;
        }
        again = !whole.lazy;
      } else {
        return;
      }
      check_repeats(node);
      whole.parts.push_back(std::move(node));
      node = std::move(whole);
    }
    if (next_is(U'?') || next_is(U'*') || next_is(U'+') || interval(false))
      fail("a repetition of a lazy or possessive repetition");
  }

  void check_repeats(const RegexNode& node) const {
    if (node.kind == Kind::place || node.kind == Kind::ahead || node.kind == Kind::not_ahead)
      fail("a repetition of what has no characters");
  }

  // {n}, {n,}, {,m} or {n,m}. Anything else behind '{' is plain text.
  std::optional<std::pair<std::size_t, std::size_t>> interval(bool takes) {
    const std::size_t begin = at_;
    if (!take(U'{')) return std::nullopt;
    const auto least = number();
    const auto most = take(U',') ? number() : least;
    const bool valid = take(U'}') && (least || most);
    if (!valid || !takes) at_ = begin;
    if (!valid) return std::nullopt;
    const std::pair<std::size_t, std::size_t> counts(least.value_or(0), most.value_or(unlimited));
    if (counts.second < counts.first) fail("a repetition {n,m} with m below n");
    return counts;
  }

  std::optional<std::size_t> number() {
    std::optional<std::size_t> n;
    for (; more() && points_[at_] >= U'0' && points_[at_] <= U'9'; ++at_) {
      n = n.value_or(0) * 10 + (points_[at_] - U'0');
      if (*n > largest_count) fail("a repetition of more than " + std::to_string(largest_count) + " times");
    }
    return n;
  }

  std::optional<RegexPlace> escaped_place() {
    static const std::pair<char32_t, RegexPlace> all[] = {{U'A', RegexPlace::text_begin},
                                                          {U'z', RegexPlace::text_end},
                                                          {U'Z', RegexPlace::text_end_or_newline},
                                                          {U'b', RegexPlace::word_edge},
                                                          {U'B', RegexPlace::no_word_edge}};
    for (const auto& [letter, found] : all)
      if (take(letter)) return found;
    return std::nullopt;
  }

  static RegexNode place(RegexPlace at) {
    RegexNode node{Kind::place};
    node.number = static_cast<std::size_t>(at);
    return node;
  }

  RegexNode one_of(RegexSet set) {
    set.finish();
    sets_.push_back(std::move(set));
    RegexNode node{Kind::set};
    node.number = sets_.size() - 1;
    return node;
  }

  // ---- sets

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
  RegexSet escape(bool (*word)(char32_t)) {
    RegexSet set;
    const char32_t c = taken();
    static const std::pair<char32_t, char32_t> controls[] = {{U'n', U'\n'}, {U'r', U'\r'}, {U't', U'\t'}, {U'f', U'\f'},
                                                             {U'v', U'\v'}, {U'a', U'\a'}, {U'e', 0x1B}};
    for (const auto& [letter, control] : controls)
      if (c == letter) set.ranges = {{control, control}};
    if (!set.ranges.empty()) return set;
    if (c == U's' || c == U'S') {
      set.classes = {{unicode::is_space, c == U'S'}};
    } else if (c == U'd' || c == U'D') {
      set.classes = {{unicode::category("Nd"), c == U'D'}};
    } else if (c == U'w' || c == U'W') {
      set.classes = {{word, c == U'W'}};
    } else if (c == U'h' || c == U'H') {
      set.ranges = {{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}};
      set.negated = c == U'H';
    } else if (c == U'p' || c == U'P') {
      property(set, c == U'P');
    } else if (c == U'x' || c == U'u') {
      const char32_t point = code_point(c == U'u');
      set.ranges = {{point, point}};
    } else if (c >= 0x80 || (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z')) {
      fail("an escape that is not known");
    } else {
      set.ranges = {{c, c}};
    }
    return set;
  }

  void property(RegexSet& set, bool negated) {
    std::string name;
    if (!take(U'{')) fail("a class that is not \\p{…}");
    if (take(U'^')) negated = !negated;
    while (more() && !next_is(U'}') && name.size() < 20) unicode::append(name, taken());
    const unicode::CharacterSet holds = unicode::category(name);
    if (!take(U'}') || !holds)
      fail("a class that is not known, \\p{" + name + "} (known are the categories, such as Lu, and the scripts " +
           unicode::script_names() + ")");
    set.classes = {{holds, negated}};
  }

  // \xH, \xHH, \x{H…}, \uHHHH.
  char32_t code_point(bool four) {
    const bool braces = !four && take(U'{');
    const std::size_t most = braces ? 8 : four ? 4 : 2;
    char32_t point = 0;
    std::size_t digits = 0;
    for (; more() && digits < most; ++digits, ++at_) {
      const char32_t c = points_[at_], small = c | 0x20;
      const bool is_digit = c >= U'0' && c <= U'9';
      if (!is_digit && (small < U'a' || small > U'f')) break;
      point = point * 16 + (is_digit ? c - U'0' : small - U'a' + 10);
    }
    if (digits == 0 || (four && digits < 4) || (braces && !take(U'}')) || point > 0x10FFFF ||
        (point >= 0xD800 && point < 0xE000) || (!braces && !four && point >= 0x80))
      fail("a number of a character that is none: expected \\x00 … \\x7f, \\uHHHH or \\x{H…}");
    return point;
  }

  // What one character of a class matches. It folds cases where that is known.
  RegexSet member(int depth) {
    const char32_t c = taken();
    if (c == U'[') {
      if (next_is(U':')) fail("a class [:…:]");
      return bracket(depth + 1);
    }
    RegexSet one;
    if (c == U'\\' && take(U'b'))
      one.ranges = {{U'\b', U'\b'}};
    else if (c == U'\\')
      one = escape(is_word_of_class);
    else
      one.ranges = {{c, c}};
    return one;
  }

  static bool is_single(const RegexSet& set) {
    return !set.negated && set.ranges.size() == 1 && set.ranges[0].first == set.ranges[0].second && set.inner.empty();
  }

  RegexSet bracket(int depth) {
    if (depth > deepest_group) fail("too many classes in classes");
    RegexSet all;
    all.negated = take(U'^');
    bool first = true;
    const auto joined = [&] {
      RegexSet some;
      for (; (first || !next_is(U']')) && !(next_is(U'&') && next_is(U'&', 1)); first = false)
        add_member(some, all.negated, depth);
      return some;
    };
    RegexSet begin = joined();
    while (take(U"&&")) {
      first = false;
      all.also.push_back(joined());
    }
    if (!take(U']')) fail("'[' without ']'");
    all.ranges = std::move(begin.ranges);
    all.classes = std::move(begin.classes);
    all.inner = std::move(begin.inner);
    return all;
  }

  void add_member(RegexSet& all, bool negated, int depth) {
    const bool literal = !next_is(U'[');
    RegexSet one = member(depth);
    const bool range = literal && next_is(U'-') && !next_is(U']', 1);
    if (range && !is_single(one)) fail("a range that begins with a class");
    if (range) {
      ++at_;
      const RegexSet end = member(depth);
      if (!is_single(end)) fail("a range without an end");
      if (end.ranges[0].first < one.ranges[0].first) fail("a range that falls");
      return add_range(all, one.ranges[0].first, end.ranges[0].first);
    }
    if (is_single(one)) return add_range(all, one.ranges[0].first, one.ranges[0].first);
    if (folds_ && literal) check_folds(one, negated);
    all.inner.push_back(std::move(one));
  }

  // Without case, a class in brackets has the other cases of its letters, and ss if it has ß.
  void check_folds(const RegexSet& one, bool negated) const {
    bool folds = !negated && one.holds(U'\u00DF');
    for (const RegexSet::Class& c : one.classes)
      for (const char32_t letter : {U'a', U'A', U'\u0345', U'\u01C5', U'\u03B1', U'\u0430', U'\u0561', U'\u10D0'})
        folds = folds || c.holds(letter);
    if (folds) fail("a class of letters in brackets in a group (?i:…)");
  }

  const std::string& pattern_;
  std::vector<char32_t> points_;
  std::size_t at_ = 0;
  bool folds_ = false;
  std::vector<RegexSet> sets_;
};

}  // namespace

void fail_pattern(const std::string& pattern, const std::string& what) {
  check::fail(regex_op, "the pattern '", pattern, "' has ", what, ": such a pattern can't be read here");
}

RegexTree regex_tree(const std::string& pattern) { return Parser(pattern).parsed(); }

}  // namespace fit::text
