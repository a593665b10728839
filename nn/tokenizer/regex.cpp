#include "tokenizer/regex.hpp"

#include <algorithm>
#include <optional>

#include "common/utf8.hpp"
#include "tensor/check.hpp"
#include "tokenizer/regex_program.hpp"

namespace fit::text {
namespace {

constexpr std::size_t longest_program = 10'000;
constexpr std::size_t most_places = std::size_t{1} << 27;

// ---- steps --------------------------------------------------------------------------------------------------------

class Compiler {
 public:
  explicit Compiler(const std::string& pattern) : pattern_(pattern) {}

  Regex::Program compiled() {
    RegexTree tree = regex_tree(pattern_);
    emit(tree.root, true);
    add({Step::end});
    program_.sets = std::move(tree.sets);
    find_begins();
    return std::move(program_);
  }

 private:
  using Step = RegexStep::Kind;
  using Kind = RegexNode::Kind;

  std::size_t size() const { return program_.steps.size(); }
  std::size_t add(const RegexStep& step) {
    if (size() >= longest_program) fail_pattern(pattern_, "more than " + std::to_string(longest_program) + " steps");
    program_.steps.push_back(step);
    return size() - 1;
  }

  // `last`: whether the pattern ends behind the node. There a repetition is never given back.
  void emit(const RegexNode& node, bool last = false) {
    switch (node.kind) {
      case Kind::set:
        add({Step::set, node.number});
        return;
      case Kind::place:
        add({Step::place, node.number});
        return;
      case Kind::sequence:
        for (const RegexNode& part : node.parts) emit(part, last && &part == &node.parts.back());
        return;
      case Kind::choice:
        return emit_choice(node, last);
      case Kind::repeat:
        return last && is_run(node) ? emit_run(node) : emit_repeat(node);
      case Kind::ahead:
        return emit_inner(Step::ahead, node);
      case Kind::not_ahead:
        return emit_inner(Step::not_ahead, node);
      case Kind::atomic:
        return is_run(node.parts[0]) ? emit_run(node.parts[0]) : emit_inner(Step::atomic, node);
    }
  }

  // \p{L}++
  static bool is_run(const RegexNode& node) {
    return node.kind == Kind::repeat && node.most == SIZE_MAX && !node.lazy && node.parts[0].kind == Kind::set;
  }

  void emit_run(const RegexNode& node) { add({Step::run, node.parts[0].number, node.least}); }

  void emit_inner(Step kind, const RegexNode& node) {
    const std::size_t begin = add({kind, size() + 1, 0});
    emit(node.parts[0]);
    add({Step::end});
    program_.steps[begin].second = size();
  }

  void emit_choice(const RegexNode& node, bool last) {
    std::vector<std::size_t> jumps;
    for (std::size_t i = 0; i + 1 < node.parts.size(); ++i) {
      const std::size_t split = add({Step::split, size() + 1, 0});
      emit(node.parts[i], last);
      jumps.push_back(add({Step::jump}));
      program_.steps[split].second = size();
    }
    emit(node.parts.back(), last);
    for (const std::size_t jump : jumps) program_.steps[jump].first = size();
  }

  void emit_repeat(const RegexNode& node) {
    for (std::size_t i = 0; i < node.least; ++i) {
      const std::size_t before = size();
      emit(node.parts[0]);
      if (size() == before) return;  // nothing is repeated
    }
    if (node.most == SIZE_MAX) return emit_loop(node);
    std::vector<std::size_t> splits;
    for (std::size_t i = node.least; i < node.most; ++i) {
      splits.push_back(add({Step::split}));
      emit(node.parts[0]);
    }
    for (const std::size_t split : splits) leave(split, split + 1, size(), node.lazy);
  }

  void emit_loop(const RegexNode& node) {
    const std::size_t loop = add({node.lazy ? Step::split : Step::loop});
    const std::size_t once = node.lazy ? 0 : add({Step::once});
    const std::size_t body = size();
    emit(node.parts[0]);
    add({Step::jump, loop});
    if (!node.lazy) program_.steps[once].first = size();
    leave(loop, body, node.lazy ? size() : once, node.lazy);
  }

  // The two ways of a split: into what is repeated, and behind it.
  void leave(std::size_t split, std::size_t body, std::size_t behind, bool lazy) {
    program_.steps[split].first = lazy ? behind : body;
    program_.steps[split].second = lazy ? body : behind;
  }

  // Goes on until nothing changes, because loops go back.
  void find_begins() {
    program_.begins.assign(size(), {});
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = size(); i-- > 0;) {
        const auto begins = begins_of(program_.steps[i]);
        changed = changed || begins != program_.begins[i];
        program_.begins[i] = begins;
      }
    }
  }

  std::bitset<129> begins_of(const RegexStep& s) const {
    std::bitset<129> all;
    if (s.kind == Step::jump) return program_.begins[s.first];
    if (s.kind == Step::split || s.kind == Step::loop) return program_.begins[s.first] | program_.begins[s.second];
    if (s.kind != Step::set && (s.kind != Step::run || s.second == 0)) return all.set();
    for (char32_t c = 0; c < 128; ++c) all[c] = program_.sets[s.first].holds(c);
    return all.set(128);
  }

  const std::string& pattern_;
  Regex::Program program_;
};

// ---- matching -----------------------------------------------------------------------------------------------------

// Finds one match. Where it was with a step and failed, it is not again.
class Matcher {
 public:
  Matcher(const Regex::Program& program, const std::vector<char32_t>& text) : program_(program), text_(text) {}

  std::optional<std::size_t> match(std::size_t begin) {
    begin_ = begin;
    return inner(0, begin);
  }

 private:
  using Kind = RegexStep::Kind;
  struct Way {
    std::size_t step, at;
  };

  // The steps from `first` up to an end, tried anew: they are of no other match.
  std::optional<std::size_t> inner(std::size_t first, std::size_t from) {
    const std::uint32_t outer = round_;
    round_ = ++rounds_;
    const auto end = run(first, from);
    round_ = outer;
    return end;
  }

  std::optional<std::size_t> run(std::size_t first, std::size_t from) {
    const std::size_t outer = left_.size();
    for (Way way{first, from};;) {
      bool fits = true;
      while (fits && program_.steps[way.step].kind != Kind::end) fits = go(way);
      if (fits || left_.size() == outer) {
        left_.resize(outer);
        return fits ? std::optional(way.at) : std::nullopt;
      }
      way = left_.back();
      left_.pop_back();
    }
  }

  // Goes one step on, if it fits.
  bool go(Way& way) {
    const RegexStep& s = program_.steps[way.step];
    switch (s.kind) {
      case Kind::set:
        ++way.step;
        return way.at < text_.size() && program_.sets[s.first].holds(text_[way.at++]);
      case Kind::run: {
        const std::size_t begin = way.at;
        while (way.at < text_.size() && program_.sets[s.first].holds(text_[way.at])) ++way.at;
        ++way.step;
        return way.at - begin >= s.second;
      }
      case Kind::jump:
        way.step = s.first;
        return true;
      case Kind::split:
        if (s.first < s.second) {  // both go forward: where one way only may match, there is nothing to remember
          const bool first = may_begin(s.first, way.at), second = may_begin(s.second, way.at);
          if (!first || !second) return way.step = first ? s.first : s.second, first || second;
        }
        [[fallthrough]];
      case Kind::loop: {
        const bool first = first_time(way.step, way.at);
        if (first) left_.push_back({s.second, way.at});
        if (!first && s.kind == Kind::split) return false;
        way.step = first ? s.first : s.second;
        return true;
      }
      case Kind::once: {
        const std::size_t step = way.step;
        way.step = s.first;
        return first_time(step, way.at);
      }
      case Kind::place:
        ++way.step;
        return is_at(static_cast<RegexPlace>(s.first), way.at);
      default:
        return go_behind(s, way);
    }
  }

  bool may_begin(std::size_t step, std::size_t at) const {
    return program_.begins[step][at < text_.size() && text_[at] < 128 ? text_[at] : 128];
  }

  bool go_behind(const RegexStep& s, Way& way) {
    const auto end = inner(s.first, way.at);
    if (s.kind == Kind::atomic && end) way.at = *end;
    way.step = s.second;
    return end.has_value() != (s.kind == Kind::not_ahead);
  }

  bool is_at(RegexPlace place, std::size_t at) const {
    const std::size_t size = text_.size();
    const auto word = [&](std::size_t i) { return i < size && unicode::is_regex_word(text_[i]); };
    switch (place) {
      case RegexPlace::line_begin:  // no line begins at the end
        return at == 0 || (at < size && text_[at - 1] == U'\n');
      case RegexPlace::line_end:
        return at == size || text_[at] == U'\n';
      case RegexPlace::text_begin:
        return at == 0;
      case RegexPlace::text_end:
        return at == size;
      case RegexPlace::text_end_or_newline:
        return at == size || (at + 1 == size && text_[at] == U'\n');
      default:
        return (word(at) != (at > 0 && word(at - 1))) == (place == RegexPlace::word_edge);
    }
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
  std::uint32_t round_ = 0, rounds_ = 0;
  std::vector<std::uint32_t> seen_;
  std::vector<Way> left_;  // to be tried yet
};

}  // namespace

Regex::Regex(const std::string& pattern) : program_(std::make_shared<const Program>(Compiler(pattern).compiled())) {}

std::vector<Piece> Regex::pieces(const std::string& text) const {
  const std::vector<char32_t> points = characters(text);
  Matcher matcher(*program_, points);
  std::vector<Piece> all;
  all.reserve(text.size() / 4);
  std::size_t rest = 0, byte = 0;  // the character and the byte behind the pieces
  const auto add = [&](std::size_t end, bool matches) {
    const std::size_t begin = byte;
    for (; rest < end; ++rest) byte += utf8::size(points[rest]);
    all.push_back({begin, byte, matches});
  };
  const auto add_rest = [&](std::size_t end) {
    if (end > rest) add(end, false);
  };
  for (std::size_t at = 0; at <= points.size();) {
    const std::optional<std::size_t> end = matcher.match(at);
    const bool empty = end && *end == at;
    if (!end || (empty && at == rest && !all.empty())) {
      ++at;
      continue;
    }
    add_rest(at);
    add(*end, true);
    at = *end + empty;
  }
  add_rest(points.size());
  return all;
}

Pattern pattern_of(const Regex& regex) {
  return [regex](const std::string& text) { return regex.pieces(text); };
}

}  // namespace fit::text
