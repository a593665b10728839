#include <cctype>
#include <cstring>
#include <map>

#include "common/utf8.hpp"
#include "plot/figures/text.hpp"
#include "plot/lesson/prose.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

const std::map<std::string, std::string> letters{
    {"alpha", "α"}, {"beta", "β"},  {"gamma", "γ"},  {"delta", "δ"},   {"epsilon", "ε"}, {"zeta", "ζ"}, {"eta", "η"},
    {"theta", "θ"}, {"kappa", "κ"}, {"lambda", "λ"}, {"mu", "μ"},      {"nu", "ν"},      {"xi", "ξ"},   {"pi", "π"},
    {"rho", "ρ"},   {"sigma", "σ"}, {"tau", "τ"},    {"phi", "φ"},     {"chi", "χ"},     {"psi", "ψ"},  {"omega", "ω"},
    {"Gamma", "Γ"}, {"Delta", "Δ"}, {"Theta", "Θ"},  {"Lambda", "Λ"},  {"Sigma", "Σ"},   {"Phi", "Φ"},  {"Psi", "Ψ"},
    {"Omega", "Ω"}, {"infty", "∞"}, {"ell", "ℓ"},    {"partial", "∂"}, {"nabla", "∇"},   {"top", "⊤"},  {"dots", "…"},
    {"ldots", "…"}, {"cdots", "⋯"}, {"vdots", "⋮"},  {"ddots", "⋱"}};
const std::map<std::string, std::string> signs{
    {"cdot", "⋅"}, {"times", "×"}, {"odot", "⊙"}, {"pm", "±"},     {"le", "≤"},    {"ge", "≥"},
    {"leq", "≤"},  {"geq", "≥"},   {"ne", "≠"},   {"neq", "≠"},    {"in", "∈"},    {"to", "→"},
    {"ll", "≪"},   {"gg", "≫"},    {"sim", "∼"},  {"approx", "≈"}, {"mid", "∣"},   {"rightarrow", "→"},
    {"{", "{"},    {"}", "}"},     {"|", "‖"},    {"langle", "⟨"}, {"rangle", "⟩"}};
// Operators that take their limits above and below in display style.
const std::map<std::string, std::string> large{{"sum", "∑"}, {"prod", "∏"}, {"max", ""}, {"min", ""}, {"lim", ""}};
const std::map<std::string, std::string> spaces{{",", "0.17em"}, {":", "0.22em"}, {";", "0.28em"},
                                                {" ", "0.3em"},  {"quad", "1em"}, {"qquad", "2em"}};
constexpr char functions[] = " exp log ln sin cos tan tanh det dim arg ";

// A recursive descent parser. Each part of the formula becomes one element.
class Formula {
 public:
  Formula(const std::string& text, bool display) : text_(text), display_(display) {}

  std::string whole() {
    std::string row = list("");
    if (at_ < text_.size()) fail(std::string("a ") + text_[at_] + " too many");
    return row;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { check::fail("formula", "$", text_, "$: ", why); }

  static std::string element(const char* name, const std::string& inside, const std::string& attributes = "") {
    return std::string("<") + name + attributes + '>' + inside + "</" + name + '>';
  }
  static std::string identifier(const std::string& s) { return element("mi", escape_xml(s)); }
  static std::string sign(const std::string& s, const std::string& attributes = "") {
    return element("mo", escape_xml(s), attributes);
  }

  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool next_is(const std::string& s) {
    skip_spaces();
    return text_.compare(at_, s.size(), s) == 0;
  }
  bool take(const std::string& s) {
    if (!next_is(s)) return false;
    at_ += s.size();
    return true;
  }

  // Parses up to `end`, which is not consumed. "" means the end of the text, group, cell or brackets.
  std::string list(const std::string& end) {
    std::string inside;
    for (skip_spaces(); at_ < text_.size(); skip_spaces()) {
      if (text_[at_] == '}' || text_[at_] == '&' || next_is("\\\\") || next_is("\\right") || next_is("\\end")) break;
      inside += scripted();
    }
    if (!end.empty() && !next_is(end)) fail("a " + end + " is missing");
    return element("mrow", inside);
  }

  std::string scripted() {
    const std::size_t begin = at_;
    std::string base = atom();
    std::string below, above;
    for (;;) {
      if (below.empty() && take("_"))
        below = argument();
      else if (above.empty() && take("^"))
        above = argument();
      else
        break;
    }
    std::size_t letter = begin + 1;
    while (letter < text_.size() && std::isalpha(static_cast<unsigned char>(text_[letter]))) ++letter;
    const bool limits = display_ && text_[begin] == '\\' && large.count(text_.substr(begin + 1, letter - begin - 1));
    if (!below.empty() && !above.empty()) return element(limits ? "munderover" : "msubsup", base + below + above);
    if (!below.empty()) return element(limits ? "munder" : "msub", base + below);
    if (!above.empty()) return element(limits ? "mover" : "msup", base + above);
    return base;
  }

  // Parses a group or one part.
  std::string argument() {
    skip_spaces();
    if (at_ >= text_.size()) fail("something is missing at its end");
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) return element("mn", std::string(1, text_[at_++]));
    return atom();
  }

  // MathML trims spaces at the ends.
  static std::string kept_spaces(std::string s) {
    if (!s.empty() && s.back() == ' ') s.replace(s.size() - 1, 1, "\u00a0");
    if (!s.empty() && s.front() == ' ') s.replace(0, 1, "\u00a0");
    return s;
  }

  std::string braced_text() {
    if (!take("{")) fail("a { is missing");
    const std::size_t end = text_.find('}', at_);
    if (end == std::string::npos) fail("a } is missing");
    std::string s = text_.substr(at_, end - at_);
    at_ = end + 1;
    return s;
  }

  std::string atom() {
    const char c = text_[at_];
    if (c == '{') {
      ++at_;
      std::string group = list("}");
      ++at_;
      return group;
    }
    if (c == '\\') return command();
    if (c == '^' || c == '_') fail(std::string("nothing stands before ") + c);
    if (std::isdigit(static_cast<unsigned char>(c))) {
      std::size_t end = at_;
      while (end < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[end])) ||
                                    (text_[end] == '.' && end + 1 < text_.size() &&
                                     std::isdigit(static_cast<unsigned char>(text_[end + 1])))))
        ++end;
      const std::string number = text_.substr(at_, end - at_);
      at_ = end;
      return element("mn", number);
    }
    if (std::isalpha(static_cast<unsigned char>(c))) return ++at_, identifier(std::string(1, c));
    if (std::strchr("()[]|", c)) return ++at_, sign(std::string(1, c), " stretchy=\"false\"");
    if (static_cast<unsigned char>(c) < 0x80)
      return ++at_, c == '-' ? sign("−") : c == '\'' ? sign("′") : sign(std::string(1, c));
    const std::size_t begin = at_;
    utf8::next(text_, at_);
    return identifier(text_.substr(begin, at_ - begin));
  }

  std::string command() {
    std::size_t end = ++at_;
    while (end < text_.size() && std::isalpha(static_cast<unsigned char>(text_[end]))) ++end;
    if (end == at_) end = std::min(text_.size(), end + 1);
    const std::string name = text_.substr(at_, end - at_);
    at_ = end;
    if (const auto found = letters.find(name); found != letters.end()) return identifier(found->second);
    if (const auto found = signs.find(name); found != signs.end()) return sign(found->second);
    if (const auto found = spaces.find(name); found != spaces.end()) return "<mspace width=\"" + found->second + "\"/>";
    if (const auto found = large.find(name); found != large.end())
      return found->second.empty() ? element("mi", name) : sign(found->second);
    if (std::strstr(functions, (' ' + name + ' ').c_str())) return element("mi", name) + sign("\u2061");
    if (name == "frac") {
      const std::string over = argument();
      return element("mfrac", over + argument());
    }
    if (name == "sqrt") return element("msqrt", argument());
    if (name == "text") return element("mtext", kept_spaces(escape_xml(braced_text())));
    if (name == "operatorname" || name == "mathrm")
      return element("mi", escape_xml(braced_text()), " mathvariant=\"normal\"");
    if (name == "mathbf") return element("mi", escape_xml(braced_text()), " class=\"bold\"");
    if (name == "name") {
      const std::string variable = escape_xml(braced_text());
      return element("mrow", argument(), " data-name=\"" + variable + "\" tabindex=\"0\"");
    }
    if (name == "mathbb" && braced_text() == "R") return identifier("ℝ");
    if (name == "left") return brackets();
    if (name == "begin") return table(braced_text());
    fail('\\' + name + " is not known");
  }

  std::string bracket() {
    skip_spaces();
    if (take("\\{")) return "{";
    if (take("\\}")) return "}";
    if (at_ >= text_.size()) fail("a bracket is missing at its end");
    const char c = text_[at_++];
    return c == '.' ? "" : std::string(1, c);
  }
  std::string brackets() {
    const std::string before = bracket(), inside = list("\\right");
    at_ += std::strlen("\\right");
    const std::string after = bracket();
    return element("mrow", (before.empty() ? "" : sign(before, " fence=\"true\"")) + inside +
                               (after.empty() ? "" : sign(after, " fence=\"true\"")));
  }

  std::string table(const std::string& kind) {
    if (kind != "pmatrix" && kind != "bmatrix" && kind != "cases") fail("\\begin{" + kind + "} is not known");
    std::string rows;
    do {
      std::string cells;
      do cells += element("mtd", list(""));
      while (take("&"));
      rows += element("mtr", cells);
    } while (take("\\\\"));
    if (!take("\\end{" + kind + '}')) fail("\\end{" + kind + "} is missing");
    const std::string before = kind == "pmatrix" ? "(" : kind == "bmatrix" ? "[" : "{";
    const std::string after = kind == "pmatrix" ? ")" : kind == "bmatrix" ? "]" : "";
    return element("mrow", sign(before, " fence=\"true\"") +
                               element("mtable", rows, kind == "cases" ? " class=\"cases\"" : "") +
                               (after.empty() ? "" : sign(after, " fence=\"true\"")));
  }

  const std::string& text_;
  bool display_;
  std::size_t at_ = 0;
};

}  // namespace

std::string mathml(const std::string& latex, MathStyle style) {
  const bool display = style == MathStyle::display;
  return std::string("<math") + (display ? " display=\"block\"" : "") + '>' + Formula(latex, display).whole() +
         "</math>";
}

}  // namespace fit::plot
