#include <algorithm>
#include <cctype>

#include "chat/jinja.hpp"
#include "common/utf8.hpp"
#include "unicode/characters.hpp"

namespace fit::jinja {
namespace {

using Kind = Token::Kind;

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(source) {
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();  // keep_trailing_newline is off
  }

  std::vector<Token> tokens() {
    while (at_ < source_.size()) text();
    tokens_.push_back({Kind::end, "", line_});
    return std::move(tokens_);
  }

 private:
  bool next_is(const char* what) const { return source_.compare(at_, std::char_traits<char>::length(what), what) == 0; }
  void move(std::size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
  }

  void text() {
    std::size_t end = at_;
    while (end < source_.size() && !(source_[end] == '{' && end + 1 < source_.size() &&
                                     std::string("{%#").find(source_[end + 1]) != std::string::npos))
      ++end;
    std::string part = source_.substr(at_, end - at_);
    move(end - at_);
    if (trims_) part = stripped(part, true, false);
    trims_ = false;
    if (at_ < source_.size()) {
      const char kind = source_[at_ + 1];
      const char control = at_ + 2 < source_.size() ? source_[at_ + 2] : ' ';
      if (control == '-') {
        part = stripped(part, false, true);
      } else if (kind != '{' && control != '+') {  // lstrip_blocks: the blanks of a line before a statement
        const std::size_t last = part.find_last_not_of(" \t");
        if (last == std::string::npos ? begins_line_ : part[last] == '\n')
          part.erase(last == std::string::npos ? 0 : last + 1);
      }
    }
    if (!part.empty()) tokens_.push_back({Kind::text, part, line_});
    if (at_ >= source_.size()) return;
    begins_line_ = false;
    const char kind = source_[at_ + 1];
    if (kind == '#') return comment();
    const bool statement = kind == '%';
    tokens_.push_back({statement ? Kind::begin_statement : Kind::begin_expression, "", line_});
    move(2);
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) move(1);
    inside(statement ? "%}" : "}}", statement);
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("line ", line_, ": a comment has no end");
    trims_ = source_[end - 1] == '-';
    move(end + 2 - at_);
    skip_newline();
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
      const bool trims = source_[at_] == '-' && source_.compare(at_ + 1, 2, end) == 0;
      if (depth == 0 && (trims || next_is(end))) {
        tokens_.push_back({statement ? Kind::end_statement : Kind::end_expression, "", line_});
        move(trims ? 3 : 2);
        trims_ = trims;
        if (statement) skip_newline();
        return;
      }
      const char c = source_[at_];
      if (std::string("([{").find(c) != std::string::npos) ++depth;
      if (std::string(")]}").find(c) != std::string::npos) depth = std::max(0, depth - 1);
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
    if (std::isdigit(static_cast<unsigned char>(c))) {
      while (end < source_.size() && (std::isdigit(static_cast<unsigned char>(source_[end])) ||
                                      (source_[end] == '.' && end + 1 < source_.size() &&
                                       std::isdigit(static_cast<unsigned char>(source_[end + 1])))))
        ++end;
      return add(Kind::number, end);
    }
    if (is_name(at_)) {
      while (is_name(end)) ++end;
      return add(Kind::name, end);
    }
    for (const char* sign : {"==", "!=", "<=", ">=", "//", "**"})
      if (next_is(sign)) return add(Kind::sign, at_ + 2);
    if (std::string("+-*/%~<>=()[]{}.,:|").find(c) == std::string::npos)
      fail("line ", line_, ": '", std::string(1, c), "' is not known here");
    add(Kind::sign, at_ + 1);
  }

  void add(Kind kind, std::size_t end) {
    tokens_.push_back({kind, source_.substr(at_, end - at_), line_});
    move(end - at_);
  }

  void string(char quote) {
    std::string value;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\' || i + 1 >= source_.size()) {
        value += source_[i];
        continue;
      }
      const char escaped = source_[++i];
      const std::string from = "nrt\\'\"", to = "\n\r\t\\'\"";
      const std::size_t at = from.find(escaped);
      if (at == std::string::npos)
        fail("line ", line_, ": the escape '\\", std::string(1, escaped), "' is not known here");
      value += to[at];
    }
    if (i >= source_.size()) fail("line ", line_, ": a string has no end");
    tokens_.push_back({Kind::string, value, line_});
    move(i + 1 - at_);
  }

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
