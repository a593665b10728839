// Chat templates beside transformers' Jinja (tests/golden/chat.py).
#include "fit/nn/chat/chat_template.hpp"

#include "fit/io/npz.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace fit::test::chat_template_test {
namespace {

using Catch::Matchers::Contains;

const StateDict& arrays() {
  static const StateDict all = load_npz(FIT_GOLDEN_DIR "/chat.npz");
  return all;
}

std::string text_at(const std::string& name) {
  const auto bytes = at(arrays(), name).to_vector<std::int64_t>();
  return std::string(bytes.begin(), bytes.end());
}

std::string applied(const std::string& source, const std::string& messages = "[]",
                    const std::string& variables = "{}") {
  return text::ChatTemplate(source).apply_json(messages, text::ChatOptions().variables(variables));
}

}  // namespace

TEST_CASE("chat templates give transformers' texts", "[golden][chat]") {
  int texts = 0, refused = 0;
  for (const auto& [key, bytes] : arrays()) {
    const std::size_t first = key.find('/'), last = key.rfind('/');
    if (first == last) continue;
    INFO(key);
    const std::string conversation = key.substr(first + 1, last - first - 1), expected = text_at(key);
    const text::ChatTemplate chat(text_at(key.substr(0, first) + "/template"), text_at(conversation + "/variables"));
    const auto options = text::ChatOptions().add_generation_prompt(key.back() == '1');
    if (expected.rfind("Error: ", 0) == 0) {
      const std::string reason = expected.substr(7);
      if (reason.rfind("can only", 0) == 0)
        CHECK_THROWS_AS(chat.apply_json(text_at(conversation + "/messages"), options), Error);
      else
        CHECK_THROWS_WITH(chat.apply_json(text_at(conversation + "/messages"), options), Contains(reason));
      ++refused;
    } else {
      CHECK(chat.apply_json(text_at(conversation + "/messages"), options) == expected);
      ++texts;
    }
  }
  CHECK(texts > 80);
  CHECK(refused > 5);
}

void refuses(const std::string& source, const std::string& why) {
  INFO(source);
  CHECK_THROWS_WITH(applied(source), Contains(why));
}

TEST_CASE("a chat template: the filter title begins words at separators, the method at all but letters", "[chat]") {
  CHECK(applied("{{ \"it's get_weather 3d (a b)\" | title }}") == "It's Get_weather 3d (A B)");
  CHECK(applied("{{ \"it's get_weather 3d\".title() }}") == "It'S Get_Weather 3D");
  CHECK(applied("{% for x in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}") == "10");
}

TEST_CASE("a chat template refuses what it does not know, and names it", "[chat]") {
  refuses("{% include 'x' %}", "line 1: the statement 'include' is not known here");
  refuses("a\n{{ 'x' | rot13 }}", "the filter 'rot13' of a string is not known here");
  refuses("{{ x is prime }}", "the test 'prime' is not known here");
  refuses("{{ 'x'.encode() }}", "the method 'encode' of a string is not known here");
  refuses("{{ lipsum() }}", "the function 'lipsum' is not known here");
  refuses("{{ missing.name }}", "of a value that is not defined");
  refuses("{% if x %}", "'endif' is missing");
  refuses("{{ 'x }}", "a string has no end");
  refuses("{{ 1 + 'x' }}", "'+' of a number and a string");
  refuses("{% for i in range(1000000) %}{% endfor %}", "range() is too long");
  refuses("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too many macros in macros");
  refuses("{{ " + std::string(5000, '(') + '1' + std::string(5000, ')') + " }}", "nests too deeply");
  refuses("{{ (((", "'}}' is missing");
  refuses("{{ '\xC3\xA9' | title }}", "upper of letters beyond ASCII is not known here");
  refuses("{{ '\xC3\xA9' | upper }}", "upper of letters beyond ASCII is not known here");
  refuses("{{ 'a b'.rsplit(None, 1) | join }}", "rsplit: a number of splits needs a separator");
  refuses("{% for i in range(9000000000000000) %}{% endfor %}", "range()");
  CHECK_THROWS_WITH(applied("x", "{}"), Contains("messages is a object: expected a list"));
  CHECK_THROWS_WITH(applied("x", "[", "{}"), Contains("messages is not JSON"));
  CHECK_THROWS_WITH(applied("x", "[]", "[]"), Contains("variables is a array: expected a JSON object"));
}

TEST_CASE("a chat template that runs for too long ends", "[chat][heavy]") {
  refuses("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", "runs for too long");
  refuses("{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
          "runs for too long");
}

TEST_CASE("a dictionary is the list of its keys, as in Python", "[chat]") {
  CHECK(applied("{% set d = {'b': 1, 'a': [2]} %}{{ d | list | join(',') }} {{ d | first }} {{ d | last }} "
                "{% for k in d %}{{ k }}{% endfor %} {{ d.keys() | join }} {{ d | tojson }} {{ d | length }}") ==
        "b,a b a ba ba {\"b\": 1, \"a\": [2]} 2");
}

TEST_CASE("methods of strings work on characters", "[chat]") {
  CHECK(applied("{{ '\xC2\xA0 \xC3\x89t\xC3\xA9\xE3\x80\x80' | trim | lower }}") == "\xC3\xA9t\xC3\xA9");
  CHECK(applied("{{ '\xC3\xA9\xC3\xA8x'.strip('\xC3\xA9') }}") == "\xC3\xA8x");
  CHECK(applied("{{ '\xC3\xA9x'.find('x') }}") == "1");
  CHECK(applied("{{ ' a  \xC2\xA0 b '.split() | join('|') }}") == "a|b");
  CHECK(applied("{{ 'abc'[::n] }}", "[]", "{\"n\": 9000000000000000000}") == "a");
}

TEST_CASE("comparisons are chains, and booleans the integers 0 and 1, as in Python", "[chat]") {
  const auto check = [](const std::string& expression, const std::string& expected) {
    INFO(expression);
    CHECK(applied("{{ " + expression + " }}", "[{\"role\": \"a\"}, {\"role\": \"a\"}]") == expected);
  };
  check("2 == 2 == 2", "True");
  check("0 < 1 < 2", "True");
  check("0 < 2 < 1", "False");
  check("3 < 2 < missing.x", "False");
  check("messages[0].role == messages[1].role == 'a'", "True");
  check("'a' not in 'b' != 'a'", "True");
  check("1 in [1] == [true]", "True");
  check("(1 < 2) == true", "True");
  check("not 1 == 2", "True");
  check("1 == true", "True");
  check("{'a': [0]} == {'a': [false]}", "True");
  check("'1' == 1", "False");
  check("1 is sameas(true)", "False");
}

TEST_CASE("numbers are Python's, or an Error", "[chat]") {
  const auto of = [](const std::string& expression, const std::string& x) {
    return applied("{{ " + expression + " }}", "[" + x + "]");
  };
  const auto check = [&](const std::string& expression, const std::string& x, const std::string& expected) {
    INFO(expression << " of " << x);
    std::string all = expression;
    CHECK(of(all.replace(all.find('x'), 1, "messages[0]"), x) == expected);
  };
  check("x + 1", "9007199254740993", "9007199254740994");
  check("-x", "9007199254740993", "-9007199254740993");
  check("x * 3037000499", "3037000499", "9223372030926249001");
  check("x // 3", "-9007199254740993", "-3002399751580331");
  check("x // -2", "7", "-4");
  check("x % -3", "7", "-2");
  check("x % 3", "-7", "2");
  check("x / 2", "7", "3.5");
  check("x % 7", "1e17", "5.0");
  check("x % -1", "1.0", "-0.0");
  check("x // -2", "7.5", "-4.0");
  check("x % -3", "7.5", "-1.5");
  check("x // 3", "1e16", "3333333333333333.0");
  check("x", "18446744073709551615", "18446744073709551615");
  check("x | tojson", "1000000000000000.0", "1000000000000000.0");
  check("x", "1253810333796456.8", "1253810333796456.8");
  for (const char* const digits : {"1e+16", "0.0001", "1e-05", "-1.5e-07", "1.0", "-0.0", "5.684341886080802e-14",
                                   "5e-324", "1.7976931348623157e+308", "123456789.123"})
    check("x", digits, digits);
  CHECK_THROWS_WITH(of("1", "18446744073709551617"), Contains("integers within 64 bits"));
  for (const char* const beyond : {"{{ 900000000000000000 * 900000000000000000 }}", "{{ 900000000000000000 / 7 }}",
                                   "{% set x = 900000000000000000 * 10 %}{{ x + x }}"})
    CHECK_THROWS_WITH(applied(beyond), Contains("as large as this are not known here"));
  CHECK_THROWS_WITH(of("messages[0] == 9007199254740992.0", "9007199254740993"), Contains("with a float"));
  CHECK_THROWS_WITH(of("messages[0] * 10", "1e308"), Contains("not finite"));
}

TEST_CASE("a chat template that nests too deeply is refused, as chains, too", "[chat]") {
  const auto chain = [](const std::string& first, const std::string& link, const std::string& last = {}) {
    std::string all = "{{ " + first;
    for (int i = 0; i < 100'000; ++i) all += link;
    refuses(all + last + " }}", "an expression that nests too deeply");
  };
  for (const char* const link : {"+1", "*1", " or 1", " and 1", "|trim", ".a", "[0]", "()", "|d(1)"}) chain("1", link);
  chain("", "not ", "1");
  chain("", "-", "1");
  // Only depth counts: not the links of one comparison, nor what stands side by side.
  std::string list = "{{ [1", same = "{{ 1";
  for (int i = 0; i < 1000; ++i) list += ", 1 + 1", same += " == 1";
  CHECK(applied(list + "] | length }}" + same + " }}") == "1001True");
}

TEST_CASE("messages are a role and a content", "[chat]") {
  const text::ChatTemplate chat(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if "
      "add_generation_prompt %}<{{ who }}>{% endif %}",
      "{\"who\": \"model\"}");
  CHECK(chat.apply({{"user", "Hi \xC3\xA9"}, {"model", "Ho"}}) == "<user>Hi \xC3\xA9<model>Ho<model>");
  CHECK(chat.apply({{"user", "Hi"}}, text::ChatOptions().add_generation_prompt(false)) == "<user>Hi");
  CHECK_THROWS_WITH(chat.apply({{"user", "\xFF"}}), Contains("not UTF-8"));
  CHECK_THROWS_WITH(text::ChatTemplate("\xFF"), Contains("not UTF-8"));
}

}  // namespace fit::test::chat_template_test
