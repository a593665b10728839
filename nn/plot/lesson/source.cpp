#include "plot/lesson/source.hpp"

#include <algorithm>
#include <regex>
#include <sstream>

#include "base/affixes.hpp"
#include "plot/figures/text.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr char not_shown[] = "// not shown", shown_again[] = "// shown";

std::string after_spaces(const std::string& line) {
  return line.substr(std::min(line.size(), line.find_first_not_of(" \t")));
}

bool is_prose(const std::string& line) {
  const std::string s = after_spaces(line);
  return starts_with(s, "///") && (s.size() == 3 || s[3] == ' ');
}

// Whether the line is only "lesson.cell();", for any name of the lesson.
bool is_mark(const std::string& line) {
  const std::string s = after_spaces(line), end = ".cell();";
  return s.size() > end.size() && ends_with(s, end) &&
         s.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
             s.size() - end.size();
}

std::size_t indentation(const std::string& line) { return line.size() - after_spaces(line).size(); }

// Removes surrounding empty lines, the closing brace of the enclosing function, and the common indentation.
std::string tidy(std::vector<std::string> lines) {
  const auto is_empty = [](const std::string& line) { return after_spaces(line).empty(); };
  while (!lines.empty() && is_empty(lines.front())) lines.erase(lines.begin());
  while (!lines.empty() && (is_empty(lines.back()) || indentation(lines.back()) < indentation(lines.front())))
    lines.pop_back();
  std::size_t indent = std::string::npos;
  for (const std::string& line : lines)
    if (!is_empty(line)) indent = std::min(indent, indentation(line));
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i)  // of several empty lines, one stays, and none before a brace
    if (!is_empty(lines[i]) || !(is_empty(lines[i + 1]) || after_spaces(lines[i + 1])[0] == '}'))
      text += (is_empty(lines[i]) ? "" : lines[i].substr(indent)) + '\n';
  return text;
}

// The brackets that a line opens, minus those that it closes. Brackets in texts and comments do not count.
int open_brackets(const std::string& line) {
  int open = 0;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote && line[i] == '\\')
      ++i;
    else if (quote)
      quote = line[i] == quote ? 0 : quote;
    else if (line[i] == '"' || line[i] == '\'')
      quote = line[i];
    else if (line.compare(i, 2, "//") == 0)
      break;
    else if (line[i] == '(' || line[i] == '{' || line[i] == '[')
      ++open;
    else if (line[i] == ')' || line[i] == '}' || line[i] == ']')
      --open;
  }
  return open;
}

// Whether a statement that begins like this calls one of these functions of the lesson.
bool begins_call(const std::string& line, const std::string& functions) {
  return std::regex_match(after_spaces(line), std::regex(R"(\w+\.()" + functions + R"()\(.*)"));
}

struct Statement {
  std::string text;
  std::size_t end;  // the line behind its last one
};

// The statement that begins in line `first`: up to a line that ends with ';' outside of brackets, or opens a block.
// That of a lambda with a name is a part of its statement.
Statement statement_at(const std::vector<std::string>& code, std::size_t first) {
  Statement s{"", first};
  for (int open = 0; s.end < code.size();) {
    const std::string& line = code[s.end++];
    s.text += after_spaces(line) + ' ';
    open += open_brackets(line);
    const std::size_t last = line.find_last_not_of(" \t");
    if (last == std::string::npos || (open <= 0 && line[last] == ';')) break;
    if (s.text.find(" = [") == std::string::npos && (line[last] == '{' || line[last] == '}')) break;
  }
  return s;
}

// Whether a statement checks or draws: it calls a function of the lesson, or names plot::. What prints in the terminal
// is shown.
bool checks_or_draws(const std::string& statement) {
  if (begins_call(statement, "claim|at_least|at_most|figure|picture|heads|page|ask|product|text|vary|progress") ||
      (starts_with(statement, "return ") && checks_or_draws(statement.substr(7))))
    return true;
  const bool opens_block = statement[statement.find_last_not_of(' ')] == '{';
  return !opens_block && !starts_with(statement, "plot::print_") && statement.find("plot::") != std::string::npos;
}

// Moves the statements that check or draw from `code` to the result. Questions are left out: they hold the answers.
std::vector<std::string> take_checks(std::vector<std::string>& code) {
  std::vector<std::string> rest, checks, questions;
  for (std::size_t i = 0; i < code.size();) {
    const Statement statement = statement_at(code, i);
    if (!checks_or_draws(statement.text)) {
      for (; i < statement.end; ++i) rest.push_back(code[i]);
      continue;
    }
    auto& to = begins_call(code[i], "ask") ? questions : checks;
    for (int open = 0; i < code.size();) {
      const std::string& line = code[i++];
      to.push_back(line);
      open += open_brackets(line);
      const std::size_t end = line.find_last_not_of(" \t");
      if (open <= 0 && end != std::string::npos && line[end] == ';') break;
    }
  }
  code = std::move(rest);
  return checks;
}

// Whether a line only makes the source a program.
bool is_preamble(const std::string& line) { return starts_with(line, "#include") || starts_with(line, "using "); }

// Divides the lines of a source into cells: each begins with prose, or with a mark after code.
class CellReader {
 public:
  explicit CellReader(const std::string& name) : name_(name), cells_(1) { cells_.back().first = 1; }

  void read(const std::string& line) {
    ++number_;
    if (is_prose(line)) {
      add_prose(line);
    } else if (is_mark(line)) {
      if (has_code()) begin_cell();
      cells_.back().marked = true;
      inner_prose_ = 0;
    } else if (!after_spaces(line).empty()) {
      add_code(line);
    } else if (!code_.empty()) {
      code_.emplace_back();
    }
  }

  std::vector<SourceCell> finish() {
    demand_mark();
    ++number_;
    begin_cell();
    cells_.pop_back();
    return std::move(cells_);
  }

 private:
  bool has_code() const { return cells_.back().marked || !code_.empty(); }

  void add_prose(const std::string& line) {
    if (has_code()) demand_mark(), begin_cell();
    if (cells_.back().prose.empty()) cells_.back().first = number_;
    const std::string s = after_spaces(line);
    cells_.back().prose += (s.size() > 4 ? s.substr(4) : "") + '\n';
    if (s.size() < line.size()) inner_prose_ = number_;
  }

  void add_code(const std::string& line) {
    demand_mark();
    const std::string s = after_spaces(line);
    shown_ = (shown_ && s != not_shown && !starts_with(line, "int main(")) || s == shown_again;
    code_.push_back(shown_ && s != shown_again && !is_preamble(line) ? line : "");
  }

  void begin_cell() {
    cells_.back().last = number_ - 1;
    if (cells_.back().marked) cells_.back().checks = tidy(take_checks(code_));
    cells_.back().code = tidy(std::exchange(code_, {}));
    cells_.emplace_back();
    cells_.back().first = number_;
    shown_ = true;
  }

  void demand_mark() const {
    if (inner_prose_ > 0)
      check::fail("Lesson", name_, ':', inner_prose_,
                  ": prose in a function needs a line such as lesson.cell(); behind it, so that what is printed from "
                  "there on stands under it");
  }

  const std::string& name_;
  std::vector<SourceCell> cells_;
  std::vector<std::string> code_;  // of the last cell
  bool shown_ = true;
  int number_ = 0, inner_prose_ = 0;  // line of a prose block in a function that has no cell() yet
};

}  // namespace

std::vector<SourceCell> source_cells(const std::string& name, const std::string& text) {
  CellReader reader(name);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) reader.read(line);
  return reader.finish();
}

std::string names_at(const std::string& text, int line) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each);) lines.push_back(each);
  const auto count = static_cast<int>(lines.size());
  if (line < 1 || line > count) return "";
  const auto at = [&](int number) { return after_spaces(lines[number - 1]); };
  const auto ends = [&](int number) {
    const std::string s = at(number);
    return s.empty() || s.back() == ';' || s.back() == '{' || s.back() == '}' || starts_with(s, "//");
  };
  int first = line, last = line;
  while (first > 1 && !ends(first - 1)) --first;
  while (last < count && !ends(last)) ++last;
  std::string names = " ";
  for (int number = first; number <= last; ++number) {
    const std::string s = std::regex_replace(at(number), std::regex(R"("(\\.|[^"\\])*")"), " ");
    const std::regex word("[A-Za-z_][A-Za-z_0-9]*");
    for (std::sregex_iterator i(s.begin(), s.end(), word), end; i != end; ++i)
      if (names.find(' ' + i->str() + ' ') == std::string::npos) names += i->str() + ' ';
  }
  return names;
}

}  // namespace fit::plot
