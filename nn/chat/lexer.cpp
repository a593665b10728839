#include <algorithm>
#include <cctype>

#include "chat/jinja.hpp"
#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::jinja {
namespace {

using T = Token::Kind;

// Lines end with \n alone.
std::string normalized(const std::string& source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i)
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 >= source.size() || source[i + 1] != '\n')
      text += '\n';
  return text;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(normalized(source)) {
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();  // keep_trailing_newline is off
  }

  std::vector<Token> tokens() {
    while (at_ < source_.size()) text();
    tokens_.push_back({T::end, "", line_});
    return std::move(tokens_);
  }

 private:
  bool next_is(const char* what) const { return source_.compare(at_, std::char_traits<char>::length(what), what) == 0; }
  bool has(std::size_t at, const char* signs) const {
    return at < source_.size() && std::string(signs).find(source_[at]) != std::string::npos;
  }
  void move(std::size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
  }

  // The source up to `end`, a text before what begins there with {% {# or {{ and perhaps a sign.
  void add_text(std::size_t end) {
    std::string part = source_.substr(at_, end - at_);
    move(end - at_);
    if (trims_) part = stripped(part, true, false);
    trims_ = false;
    if (has(at_ + 2, "-")) {
      part = stripped(part, false, true);
    } else if (has(at_ + 1, "%#") && !has(at_ + 2, "+")) {  // lstrip_blocks: the blanks of a line before a statement
      const std::size_t line = part.rfind('\n') + 1;        // 0 without one
      if ((line > 0 || begins_line_) && stripped(part.substr(line), true, false).empty()) part.erase(line);
    }
    if (!part.empty()) tokens_.push_back({T::text, part, line_});
    begins_line_ = false;
  }

  void text() {
    std::size_t end = at_;
    while (end < source_.size() && !(source_[end] == '{' && has(end + 1, "{%#"))) ++end;
    add_text(end);
    if (at_ >= source_.size()) return;
    if (has(at_ + 1, "#")) return comment();
    if (raw()) return;
    const bool statement = has(at_ + 1, "%");
    tokens_.push_back({statement ? T::begin_statement : T::begin_expression, "", line_});
    move(has(at_ + 2, "-+") ? 3 : 2);
    inside(statement ? "%}" : "}}", statement);
  }

  void comment() {
    const std::size_t begin = at_ + (has(at_ + 2, "-+") ? 3 : 2), end = source_.find("#}", begin);
    if (end == std::string::npos) fail("line ", line_, ": a comment has no end");
    const char sign = end > begin ? source_[end - 1] : ' ';
    trims_ = sign == '-';
    move(end + 2 - at_);
    if (sign != '+') skip_newline();
  }

  // The byte behind the statement {% name %} at `at`, 0 if there is another. `sign`: + or - before its end.
  std::size_t behind(std::size_t at, const std::string& name, char& sign) const {
    const auto skip_blanks = [&] {
      while (at < source_.size() && std::isspace(static_cast<unsigned char>(source_[at]))) ++at;
    };
    at += has(at + 2, "-+") ? 3 : 2;
    skip_blanks();
    if (source_.compare(at, name.size(), name) != 0) return 0;
    at += name.size();
    skip_blanks();
    sign = has(at, "-+") ? source_[at++] : ' ';
    return source_.compare(at, 2, "%}") == 0 ? at + 2 : 0;
  }

  // {% raw %} … {% endraw %}
  bool raw() {
    char sign = ' ';
    const std::size_t begin = has(at_ + 1, "%") ? behind(at_, "raw", sign) : 0;
    if (begin == 0 || sign == '+') return false;
    move(begin - at_);
    trims_ = sign == '-';
    for (std::size_t end = source_.find("{%", at_); end != std::string::npos; end = source_.find("{%", end + 2)) {
      const std::size_t next = behind(end, "endraw", sign);
      if (next == 0) continue;
      add_text(end);
      move(next - at_);
      trims_ = sign == '-';
      if (sign != '+') skip_newline();
      return true;
    }
    fail("line ", line_, ": 'endraw' is missing");
  }

  void skip_newline() {  // trim_blocks
    if (trims_ || at_ >= source_.size() || source_[at_] != '\n') return;
    move(1);
    begins_line_ = true;
  }

  void inside(const char* end, bool statement) {
    int depth = 0;
    for (;;) {
      while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_]))) move(1);
      if (at_ >= source_.size()) fail("line ", line_, ": '", end, "' is missing");
      const bool has_sign = has(at_, statement ? "-+" : "-") && source_.compare(at_ + 1, 2, end) == 0;
      if (depth == 0 && (has_sign || next_is(end))) {
        tokens_.push_back({statement ? T::end_statement : T::end_expression, "", line_});
        trims_ = source_[at_] == '-';
        const bool keeps = source_[at_] == '+';
        move(has_sign ? 3 : 2);
        if (statement && !keeps) skip_newline();
        return;
      }
      if (has(at_, "([{")) ++depth;
      if (has(at_, ")]}")) depth = std::max(0, depth - 1);
      token();
    }
  }

  void token() {
    const char c = source_[at_];
    const auto is_name = [&](std::size_t i) {
      return i < source_.size() && (std::isalnum(static_cast<unsigned char>(source_[i])) || source_[i] == '_');
    };
    if (c == '"' || c == '\'') return string(c);
    std::size_t end = at_;
    if (has(at_, digits)) return add(T::number, end_of_number());
    if (is_name(at_)) {
      while (is_name(end)) ++end;
      return add(T::name, end);
    }
    for (const char* sign : {"==", "!=", "<=", ">=", "//", "**"})
      if (next_is(sign)) return add(T::sign, at_ + 2);
    if (!has(at_, "+-*/%~<>=()[]{}.,:|"))
      fail("line ", line_, ": '", utf8::character(source_, at_), "' is not known here");
    add(T::sign, at_ + 1);
  }

  // 12, 1.5, 1e3: not 1. and not 1.e3
  std::size_t end_of_number() const {
    const auto behind_digits = [&](std::size_t at) {
      while (has(at, digits)) ++at;
      return at;
    };
    std::size_t end = behind_digits(at_);
    if (has(end, ".") && has(end + 1, digits)) end = behind_digits(end + 1);
    const std::size_t power = end + (has(end + 1, "+-") ? 2 : 1);
    return has(end, "eE") && has(power, digits) ? behind_digits(power) : end;
  }

  void add(T kind, std::size_t end) {
    tokens_.push_back({kind, source_.substr(at_, end - at_), line_});
    move(end - at_);
  }

  void string(char quote) {
    std::string value;
    std::size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] == '\\' && i + 1 < source_.size())
        value += escape(++i);
      else
        value += source_[i++];
    }
    if (i >= source_.size()) fail("line ", line_, ": a string has no end");
    tokens_.push_back({T::string, value, line_});
    move(i + 1 - at_);
  }

  // The text of the escape behind a backslash, as Python reads it. Moves `i` behind it.
  std::string escape(std::size_t& i) {
    const char escaped = source_[i++];
    const std::string from = "nrtabfv\\'\"", to = "\n\r\t\a\b\f\v\\'\"";
    if (const std::size_t at = from.find(escaped); at != std::string::npos) return {to[at]};
    if (escaped == '\n') return {};
    const bool is_octal = escaped >= '0' && escaped <= '7';
    if (is_octal) return point(--i, 3, "01234567");
    for (const auto& [kind, size] : {std::pair{'x', 2}, std::pair{'u', 4}, std::pair{'U', 8}})
      if (escaped == kind) {
        const std::size_t begin = i;
        std::string text = point(i, size, "0123456789abcdefABCDEF");
        if (i != begin + static_cast<std::size_t>(size))
          fail("line ", line_, ": an escape '\\", std::string(1, kind), "' needs ", size, " digits");
        return text;
      }
    if (escaped == 'N' || static_cast<unsigned char>(escaped) >= 0x80)
      fail("line ", line_, ": the escape '\\", escaped == 'N' ? "N" : "of a character beyond ASCII",
           "' is not known here");
    return {'\\', escaped};
  }

  // The character with the number that up to `size` of these digits are.
  std::string point(std::size_t& i, int size, const char* known) {
    const std::size_t begin = i;
    while (i < begin + static_cast<std::size_t>(size) && has(i, known)) ++i;
    unsigned long number = 0;
    if (i > begin)
      number = std::stoul(source_.substr(begin, i - begin), nullptr, std::string(known).size() == 8 ? 8 : 16);
    if (number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)) fail("line ", line_, ": an escape is no character");
    std::string text;
    unicode::append(text, static_cast<char32_t>(number));
    return text;
  }

  static constexpr const char* digits = "0123456789";
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool trims_ = false, begins_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

bool is_blank(char32_t c) { return unicode::is_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string stripped(const std::string& text, bool left, bool right, const std::string& which) {
  const std::vector<char32_t> set = unicode::points_of("ChatTemplate", which);
  const auto goes = [&](char32_t c) {
    return which.empty() ? is_blank(c) : std::find(set.begin(), set.end(), c) != set.end();
  };
  std::size_t begin = 0, end = text.size();
  for (std::size_t next = 0; left && begin < end && goes(utf8::next(text, next));) begin = next;
  while (right && end > begin) {
    std::size_t at = end - 1;
    while (at > begin && !utf8::starts_code_point(text[at])) --at;
    if (std::size_t next = at; !goes(utf8::next(text, next))) break;
    end = at;
  }
  return text.substr(begin, end - begin);
}

std::vector<Token> tokens_of(const std::string& source) { return Lexer(source).tokens(); }

}  // namespace fit::jinja
