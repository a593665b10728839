#include <algorithm>
#include <utility>

#include "base/from_chars.hpp"
#include "chat/jinja.hpp"

namespace fit::jinja {
namespace {

using E = Expression::Kind;
using S = Statement::Kind;
constexpr int deepest = 100;

class TemplateParser {
 public:
  explicit TemplateParser(const std::string& source) : tokens_(tokens_of(source)) {}

  Block program() {
    Block all = block({});
    if (now().kind != Token::Kind::end) wrong("an end without a begin");
    return all;
  }

 private:
  const Token& now() const { return tokens_[at_]; }
  [[noreturn]] void wrong(const std::string& what) const {
    fail("line ", now().line, ": ", what, now().text.empty() ? "" : ", at '" + now().text + "'");
  }
  bool is(Token::Kind kind, const char* text) const { return now().kind == kind && now().text == text; }
  bool take(const char* sign) {
    if (!is(Token::Kind::sign, sign)) return false;
    ++at_;
    return true;
  }
  bool take_word(const char* word) {
    if (!is(Token::Kind::name, word)) return false;
    ++at_;
    return true;
  }
  void expect(const char* sign) {
    if (!take(sign)) wrong(std::string("expected '") + sign + "'");
  }
  void expect_word(const char* word) {
    if (!take_word(word)) wrong(std::string("expected '") + word + "'");
  }
  void expect(Token::Kind kind) {
    if (now().kind != kind) wrong("expected the end of the statement");
    ++at_;
  }
  std::string name() {
    if (now().kind != Token::Kind::name) wrong("expected a name");
    return tokens_[at_++].text;
  }

  static Statement begun(S kind, int line) {
    Statement s;
    s.kind = kind;
    s.line = line;
    return s;
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  // Until a statement that begins with one of these words, which is not taken.
  Block block(const std::vector<std::string>& ends) {
    if (++depth_ > deepest) wrong("too many blocks in blocks");
    Block all;
    for (;;) {
      const Token& token = now();
      if (token.kind == Token::Kind::text) {
        Statement s = begun(S::text, token.line);
        s.text = token.text;
        all.push_back(std::move(s));
        ++at_;
      } else if (token.kind == Token::Kind::begin_expression) {
        Statement s = begun(S::print, token.line);
        ++at_;
        s.expression = tuple();
        expect(Token::Kind::end_expression);
        all.push_back(std::move(s));
      } else if (token.kind == Token::Kind::begin_statement) {
        const std::string& word = tokens_[at_ + 1].text;
        if (std::find(ends.begin(), ends.end(), word) != ends.end()) break;
        ++at_;
        all.push_back(statement());
      } else {
        if (!ends.empty()) wrong("'" + ends.back() + "' is missing");
        break;
      }
    }
    --depth_;
    return all;
  }

  void end_of(const char* word) {
    expect(Token::Kind::begin_statement);
    expect_word(word);
    expect(Token::Kind::end_statement);
  }

  Statement statement() {
    const int line = now().line;
    const std::string word = name();
    if (word == "if") return branch(line);
    if (word == "for") return loop(line);
    if (word == "set") return set(line);
    if (word == "macro") return macro(line);
    if (word == "call") return call(line);
    if (word == "with") return with(line);
    if (word == "filter") return filter(line);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) wrong("'" + word + "' outside of a loop");
      expect(Token::Kind::end_statement);
      return begun(word == "break" ? S::break_loop : S::continue_loop, line);
    }
    if (word == "generation") {  // marks what the model says: the same text
      Statement s = begun(S::group, line);
      s.body = function_body("endgeneration");
      return s;
    }
    wrong("the statement '" + word + "' is not known here");
  }

  // From the end of a statement up to the statement `end`.
  Block body(const char* end) {
    expect(Token::Kind::end_statement);
    Block all = block({end});
    end_of(end);
    return all;
  }
  // The same for what is a function in Jinja: it can't end a loop around it.
  Block function_body(const char* end) {
    const int loops = std::exchange(loops_, 0);
    Block all = body(end);
    loops_ = loops;
    return all;
  }

  Statement branch(int line) {
    Statement s = begun(S::branch, line);
    s.condition = tuple(&TemplateParser::alternative);
    expect(Token::Kind::end_statement);
    s.body = block({"elif", "else", "endif"});
    expect(Token::Kind::begin_statement);
    if (take_word("elif")) {
      if (++depth_ > deepest) wrong("too many blocks in blocks");
      s.otherwise.push_back(branch(line));
      --depth_;
      return s;
    }
    if (take_word("else")) {
      expect(Token::Kind::end_statement);
      s.otherwise = block({"endif"});
      expect(Token::Kind::begin_statement);
    }
    expect_word("endif");
    expect(Token::Kind::end_statement);
    return s;
  }

  Statement loop(int line) {
    Statement s = begun(S::loop, line);
    s.target = target();
    expect_word("in");
    s.expression = tuple(&TemplateParser::alternative);
    if (take_word("if")) s.condition = expression();
    expect(Token::Kind::end_statement);
    ++loops_;
    s.body = block({"else", "endfor"});
    --loops_;
    expect(Token::Kind::begin_statement);
    if (take_word("else")) {
      expect(Token::Kind::end_statement);
      s.otherwise = block({"endfor"});
      expect(Token::Kind::begin_statement);
    }
    expect_word("endfor");
    expect(Token::Kind::end_statement);
    return s;
  }

  // What is set: a name, an attribute of a namespace, or several targets.
  ExpressionPtr target() {
    const auto one = [&] {
      depth_ = checked(depth_ + 1);
      ExpressionPtr a;
      if (take("(")) {
        a = target();
        expect(")");
      } else {
        a = made(E::name, name());
        if (take(".")) a = made(E::attribute, name(), std::move(a));
      }
      --depth_;
      return a;
    };
    ExpressionPtr first = one();
    if (!is(Token::Kind::sign, ",")) return first;
    auto all = made(E::tuple, "", std::move(first));
    while (take(","))
      if (!is(Token::Kind::sign, ")")) all->children.push_back(below(*all, one()));
    return all;
  }

  Statement set(int line) {
    Statement s = begun(S::set, line);
    s.target = target();
    if (take("=")) {
      s.expression = tuple();
      expect(Token::Kind::end_statement);
      return s;
    }
    s.kind = S::set_block;
    s.expression = filters(made(E::name, block_text));
    s.body = body("endset");
    return s;
  }

  Statement filter(int line) {
    Statement s = begun(S::filter, line);
    s.expression = filters(filtered(made(E::name, block_text)));
    s.body = body("endfilter");
    return s;
  }

  Statement with(int line) {
    Statement s = begun(S::with, line);
    while (now().kind != Token::Kind::end_statement) {
      if (!s.names.empty()) expect(",");
      s.names.push_back(name());
      expect("=");
      s.values.push_back(expression());
    }
    s.body = body("endwith");
    return s;
  }

  void parameters(Statement& s) {
    while (!take(")")) {
      s.names.push_back(name());
      s.values.push_back(take("=") ? expression() : nullptr);
      if (!is(Token::Kind::sign, ")")) expect(",");
    }
  }

  Statement macro(int line) {
    Statement s = begun(S::macro, line);
    s.text = name();
    expect("(");
    parameters(s);
    const std::size_t begin = at_;
    s.body = function_body("endmacro");
    const auto uses = [&](const char* word) {
      return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                         tokens_.begin() + static_cast<std::ptrdiff_t>(at_),
                         [&](const Token& token) { return token.kind == Token::Kind::name && token.text == word; });
    };
    s.takes_more = uses("varargs");
    s.takes_named = uses("kwargs");
    s.takes_caller = uses("caller");
    return s;
  }

  Statement call(int line) {
    Statement s = begun(S::call, line);
    if (take("(")) parameters(s);
    s.text = "caller";
    s.expression = expression();
    if (s.expression->kind != E::call) wrong("expected a call");
    s.body = function_body("endcall");
    return s;
  }

  // ---- expressions --------------------------------------------------------------------------------------------------

  ExpressionPtr made(E kind, const std::string& text = {}) const {
    auto e = std::make_unique<Expression>();
    e->kind = kind;
    e->line = now().line;
    e->text = text;
    return e;
  }
  template <class... Children>
  ExpressionPtr made(E kind, const std::string& text, ExpressionPtr first, Children... rest) const {
    auto e = made(kind, text);
    e->children.push_back(below(*e, std::move(first)));
    (e->children.push_back(below(*e, std::move(rest))), ...);
    return e;
  }
  // The depth of the parser's calls and that of the tree, for whose nodes the program is called: a chain such as 1+1+1
  // makes a deep tree without deep calls here, parentheses the other way round.
  int checked(int depth) const {
    if (depth > deepest) wrong("an expression that nests too deeply");
    return depth;
  }
  ExpressionPtr below(Expression& parent, ExpressionPtr child) const {
    if (child) parent.depth = checked(std::max(parent.depth, child->depth + 1));
    return child;
  }

  // One expression, or a, b
  ExpressionPtr tuple(ExpressionPtr (TemplateParser::*one)() = &TemplateParser::expression) {
    ExpressionPtr first = (this->*one)();
    if (!is(Token::Kind::sign, ",")) return first;
    auto list = made(E::tuple, "", std::move(first));
    while (take(",")) {
      const bool ends = now().kind == Token::Kind::end_statement || now().kind == Token::Kind::end_expression ||
                        is(Token::Kind::sign, ")");
      if (!ends) list->children.push_back(below(*list, (this->*one)()));
    }
    return list;
  }

  ExpressionPtr expression() {
    depth_ = checked(depth_ + 1);
    ExpressionPtr value = alternative();
    while (take_word("if")) {
      ExpressionPtr condition = alternative();
      ExpressionPtr otherwise = take_word("else") ? expression() : nullptr;
      value = made(E::conditional, "", std::move(value), std::move(condition), std::move(otherwise));
    }
    --depth_;
    return value;
  }

  ExpressionPtr alternative() {
    ExpressionPtr a = conjunction();
    while (take_word("or")) a = made(E::binary, "or", std::move(a), conjunction());
    return a;
  }
  ExpressionPtr conjunction() {
    ExpressionPtr a = negation();
    while (take_word("and")) a = made(E::binary, "and", std::move(a), negation());
    return a;
  }
  ExpressionPtr negation() {
    int times = 0;
    while (take_word("not")) ++times;
    ExpressionPtr a = comparison();
    for (; times > 0; --times) a = made(E::unary, "not", std::move(a));
    return a;
  }
  // a < b < c is a < b and b < c, with b evaluated once.
  ExpressionPtr comparison() {
    ExpressionPtr first = sum(), all;
    for (std::string sign = comparing(); !sign.empty(); sign = comparing()) {
      if (!all) all = made(E::comparison, "", std::move(first));
      all->named.emplace_back(std::move(sign), below(*all, sum()));
    }
    return all ? std::move(all) : std::move(first);
  }
  // Takes the sign of a comparison; empty if there is none.
  std::string comparing() {
    for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"})
      if (take(sign)) return sign;
    if (take_word("in")) return "in";
    if (!is(Token::Kind::name, "not") || tokens_[at_ + 1].text != "in") return {};
    at_ += 2;
    return "not in";
  }
  ExpressionPtr sum() { return chain({"+", "-"}, &TemplateParser::joined); }
  ExpressionPtr joined() { return chain({"~"}, &TemplateParser::product); }
  ExpressionPtr product() { return chain({"*", "//", "/", "%"}, &TemplateParser::power); }
  ExpressionPtr power() { return chain({"**"}, &TemplateParser::filtered_sign); }
  ExpressionPtr filtered_sign() { return filters(sign()); }

  // operand sign operand sign …, from the left
  ExpressionPtr chain(const std::vector<const char*>& signs, ExpressionPtr (TemplateParser::*operand)()) {
    ExpressionPtr a = (this->*operand)();
    for (;;) {
      const auto found = std::find_if(signs.begin(), signs.end(), [&](const char* one) { return take(one); });
      if (found == signs.end()) return a;
      a = made(E::binary, *found, std::move(a), (this->*operand)());
    }
  }

  ExpressionPtr sign() {
    for (const char* const one : {"-", "+"})
      if (take(one)) {
        depth_ = checked(depth_ + 1);
        ExpressionPtr a = made(E::unary, one, sign());
        --depth_;
        return a;
      }
    return postfix(primary());
  }

  // What follows a value: .name, [item], (arguments)
  ExpressionPtr postfix(ExpressionPtr a) {
    for (;;) {
      if (take(".")) {
        if (now().kind == Token::Kind::number && now().text.find_first_of(".eE") == std::string::npos)
          a = made(E::item, "", std::move(a), primary());
        else
          a = made(E::attribute, name(), std::move(a));
      } else if (take("[")) {
        a = item(std::move(a));
      } else if (take("(")) {
        auto call = made(E::call, "", std::move(a));
        arguments(*call);
        a = std::move(call);
      } else {
        return a;
      }
    }
  }

  // What follows that: | filter, is test
  ExpressionPtr filters(ExpressionPtr a) {
    for (;;) {
      if (take("|"))
        a = filtered(std::move(a));
      else if (take_word("is"))
        a = tested(std::move(a));
      else
        return a;
    }
  }

  ExpressionPtr filtered(ExpressionPtr a) {
    auto filter = made(E::filter, name(), std::move(a));
    if (take("(")) arguments(*filter);
    return filter;
  }

  ExpressionPtr tested(ExpressionPtr a) {
    const bool negated = take_word("not");
    auto test = made(E::test, name(), std::move(a));
    if (take("(")) {
      arguments(*test);
    } else if (is_argument()) {
      if (is(Token::Kind::name, "is")) wrong("a test of a test needs parentheses");
      test->children.push_back(below(*test, postfix(primary())));
    }
    if (!negated) return test;
    return made(E::unary, "not", std::move(test));
  }
  // Whether the argument of a test begins here, which needs no parentheses.
  bool is_argument() const {
    if (now().kind == Token::Kind::name) return now().text != "else" && now().text != "or" && now().text != "and";
    return now().kind == Token::Kind::string || now().kind == Token::Kind::number || is(Token::Kind::sign, "[") ||
           is(Token::Kind::sign, "{");
  }

  ExpressionPtr item(ExpressionPtr a) {
    ExpressionPtr parts[3];
    int n = 0;
    bool slices = false;
    for (;;) {
      if (take("]")) break;
      if (take(":")) {
        slices = true;
        if (++n > 2) wrong("a slice with too many parts");
        continue;
      }
      if (parts[n]) wrong("expected ']'");
      parts[n] = expression();
    }
    if (!slices && !parts[0]) wrong("expected an index");
    if (!slices) return made(E::item, "", std::move(a), std::move(parts[0]));
    return made(E::slice, "", std::move(a), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  }

  void arguments(Expression& call) {
    while (!take(")")) {
      if (now().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::sign &&
          tokens_[at_ + 1].text == "=") {
        std::string key = name();
        ++at_;
        call.named.emplace_back(std::move(key), below(call, expression()));
      } else {
        call.children.push_back(below(call, expression()));
      }
      if (!is(Token::Kind::sign, ")")) expect(",");
    }
  }

  ExpressionPtr literal(Value value) const {
    auto e = made(E::literal);
    e->value = std::move(value);
    return e;
  }

  ExpressionPtr number(const std::string& text) const {
    if (text.size() > 18) wrong("a number that is too long");
    if (text.find_first_of(".eE") == std::string::npos) return literal(std::stoll(text));
    double value = 0;
    if (from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      wrong("a number that is not finite");  // in every locale
    return literal(value);
  }

  ExpressionPtr word(const std::string& text) const {
    if (text == "true" || text == "True") return literal(true);
    if (text == "false" || text == "False") return literal(false);
    if (text == "none" || text == "None") return literal(nullptr);
    return made(E::name, text);
  }

  ExpressionPtr list() {
    auto list = made(E::list);
    while (!take("]")) {
      list->children.push_back(below(*list, expression()));
      if (!is(Token::Kind::sign, "]")) expect(",");
    }
    return list;
  }

  ExpressionPtr dictionary() {
    auto dictionary = made(E::dictionary);
    while (!take("}")) {
      dictionary->children.push_back(below(*dictionary, expression()));
      expect(":");
      dictionary->children.push_back(below(*dictionary, expression()));
      if (!is(Token::Kind::sign, "}")) expect(",");
    }
    return dictionary;
  }

  ExpressionPtr primary() {
    const Token token = now();
    if (token.kind == Token::Kind::string) {
      ++at_;
      std::string all = token.text;
      while (now().kind == Token::Kind::string) all += tokens_[at_++].text;
      return literal(all);
    }
    if (token.kind == Token::Kind::number || token.kind == Token::Kind::name) {
      ++at_;
      return token.kind == Token::Kind::number ? number(token.text) : word(token.text);
    }
    if (take("(")) {
      if (take(")")) return made(E::tuple);
      ExpressionPtr a = tuple();
      expect(")");
      return a;
    }
    if (take("[")) return list();
    if (take("{")) return dictionary();
    wrong("expected a value");
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Block parsed(const std::string& source) { return TemplateParser(source).program(); }

}  // namespace fit::jinja
