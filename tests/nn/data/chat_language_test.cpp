// Jinja's language as chat templates write it. The texts are those of transformers 5.24 with jinja2 3.1.6.
#include "fit/nn/chat/chat_template.hpp"
#include "support/catch.hpp"

namespace fit::test::chat_language_test {
namespace {

using Catch::Matchers::Contains;

std::string applied(const std::string& source) { return text::ChatTemplate(source).apply_json("[]"); }

struct Case {
  const char *source, *text;
};

void check(std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    INFO(one.source);
    CHECK(applied(one.source) == one.text);
  }
}

void refuses(const std::string& source, const std::string& why) {
  INFO(source);
  CHECK_THROWS_WITH(applied(source), Contains(why));
}

}  // namespace

TEST_CASE("chat templates: tools and documents are None unless they are given", "[chat]") {
  check({
      {"{% if tools is not none %}TOOLS{% endif %}x", "x"},
      {"{{ tools is defined }}{{ documents is none }}", "TrueTrue"},
  });
}

TEST_CASE("chat templates: tojson has the arguments of transformers' tojson", "[chat]") {
  check({
      {"{{ {'b': [1, '\303\251'], 'a': {}} | tojson(separators=(',', ':')) }}", "{\"b\":[1,\"\303\251\"],\"a\":{}}"},
      {"{{ {'b': 1, 'a': [2]} | tojson(sort_keys=true) }}", "{\"a\": [2], \"b\": 1}"},
      {"{{ '\303\251\\u2028' | tojson(ensure_ascii=True) }}", "\"\\u00e9\\u2028\""},
      {"{{ {'\303\251': 1} | tojson(2) }}", "{\"\\u00e9\": 1}"},
      {"{{ {'a': [1, {}], 'b': 2} | tojson(indent=2) }}", "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": 2\n}"},
      {"{{ [1, 2] | tojson(indent='-') }}", "[\n-1,\n-2\n]"},
      {"{{ [1, [2]] | tojson(indent=1, separators=('; ', '=')) }}", "[\n 1; \n [\n  2\n ]\n]"},
      {"{{ {1: 'a', none: (1, 2), true: 2.0} | tojson }}", "{\"1\": 2.0, \"null\": [1, 2]}"},
  });
}

TEST_CASE("chat templates: replace counts, find begins where it is told, map and selectattr follow paths", "[chat]") {
  check({
      {"{{ 'aaa'.replace('a', 'b', 1) }}{{ 'aaa' | replace('a', 'b', 2) }}{{ 'aaa'.replace('a', 'b', -1) }}",
       "baabbabbb"},
      {"{{ 'abcabc'.find('c', 3) }}{{ 'abcabc'.find('a', 1, 3) }}{{ '\303\251a\303\251'.rfind('\303\251') }}{{ "
       "'abc'.find('c', -1) }}",
       "5-122"},
      {"{{ [{'n': 1}, {}] | map(attribute='n', default='-') | join(',') }}", "1,-"},
      {"{{ [missing, 'a'] | map('default', 'x') | join(',') }}", "x,a"},
      {"{{ [{'function': {'name': 'f'}}] | map(attribute='function.name') | join }}", "f"},
      {"{{ [{'f': {'name': 'a', 'k': 1}}, {'f': {'name': 'b', 'k': 2}}] | selectattr('f.name', 'eq', 'b') | "
       "map(attribute='f.k') | list }}",
       "[2]"},
      {"{{ [[1, 2], [3, 4]] | map(attribute=1) | list }}{{ [[1, 2]] | map(attribute='0') | list }}", "[2, 4][1]"},
      {"{{ namespace({'a': 3}, b=4).a }}{{ dict({'a': 1}, b=2) }}{{ dict([('k', 'v')]) }}",
       "3{'a': 1, 'b': 2}{'k': 'v'}"},
  });
}

TEST_CASE("chat templates: an undefined value is iterable, a sequence and empty", "[chat]") {
  check({
      {"{{ missing is iterable }}{{ missing is sequence }}{{ none is iterable }}{{ missing is mapping }}",
       "TrueTrueFalseFalse"},
      {"{{ missing | length }}{{ missing | list }}{{ missing | join(',') }}{{ missing | trim }}|{{ missing | first "
       "}}{{ missing | items | list }}",
       "0[]|[]"},
      {"{% for x in missing %}{{ x }}{% else %}none{% endfor %}", "none"},
  });
}

TEST_CASE("chat templates: a macro sees its own variables and those of the template", "[chat]") {
  check({
      {"{% macro m() %}{{ z }}{% endmacro %}{% for z in [1, 2] %}{{ m() }}{% endfor %}|", "|"},
      {"{% macro m() %}{{ loop is defined }}{% endmacro %}{% for z in [1, 2] %}{{ m() }}{% endfor %}", "FalseFalse"},
      {"{% macro m(a, b='x', c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, missing) }}{{ m(b=2, a=3) "
       "}}{{ m() }}",
       "1x1;11;323;x;"},
      {"{% macro m() %}{{ z }}{% endmacro %}{% set z = 5 %}{{ m() }}", "5"},
      {"{% macro m(x) %}{% set z = x %}{{ n(x) }}{{ z }}{% endmacro %}{% macro n(y) %}{{ x is defined }}{{ y }}{% "
       "endmacro %}{{ m(1) }}{{ z is defined }}",
       "False11False"},
      {"{% for i in [1, 2] %}{% macro m() %}{{ i }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}", "1122"},
      {"{% macro m(ns) %}{% set ns.a = ns.a + 1 %}{% endmacro %}{% set s = namespace(a=1) %}{{ m(s) }}{{ m(s) }}{{ s.a "
       "}}",
       "3"},
      {"{% macro m(x) %}{{ varargs | join(',') }}{{ kwargs.k }}{{ x }}{% endmacro %}{{ m(1, 2, 3, k=4) }}", "2,341"},
      {"{% macro m(x) %}[{{ x }}{{ caller() }}]{% endmacro %}{% call m(3) %}in{% endcall %}", "[3in]"},
      {"{% macro m() %}{% for i in [1, 2] %}{{ caller(i) }}{% endfor %}{% endmacro %}{% set y = 7 %}{% call(x) m() "
       "%}<{{ x }}{{ y }}>{% endcall %}",
       "<17><27>"},
  });
}

TEST_CASE("chat templates: blocks have variables of their own", "[chat]") {
  check({
      {"{% set v %}{% set w = 1 %}{{ w }}{% endset %}{{ v }}{{ w is defined }}", "1False"},
      {"{% generation %}{% set w = 1 %}{{ w }}{% endgeneration %}{{ w is defined }}", "1False"},
      {"{% for x in [] %}{% else %}{% set w = 1 %}{% endfor %}{{ w is defined }}", "False"},
      {"{% with a = 3, b = a %}{{ a }}{{ b }}{% set c = 1 %}{% endwith %}{{ a is defined }}{{ c is defined }}",
       "3FalseFalse"},
      {"{% set x | trim | upper %}  a {{ 1 }} {% endset %}[{{ x }}]", "[A 1]"},
      {"{% filter upper | replace('B', 'c') %}ab{% set q = 1 %}{% endfilter %}{{ q is defined }}", "AcFalse"},
      {"{% for i in [1, 2] %}{% set v %}{% if i == 1 %}{% continue %}{% endif %}{% endset %}{{ i }}{% endfor %}", "2"},
  });
}

TEST_CASE("chat templates: lines end with a line feed, and blanks go as trim_blocks and lstrip_blocks say", "[chat]") {
  check({
      {"a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\r\n", "a\nb\nc"},
      {"a\rb{% if true %}\rc{% endif %}\r", "a\nbc"},
      {"{{ 'a\r\nb\rc' }}", "a\nb\nc"},
      {"{% if true +%}\na{% endif %}", "\na"},
      {"  {%+ if true %}a{% endif %}", "  a"},
      {"\302\240\t{% if true %}a{% endif %}", "a"},
      {"{# c +#}\n x\n {#- d -#} \n y", "\n xy"},
      {"{% raw %}{{ x }}\n{% if %}{% endraw %}\n z", "{{ x }}\n{% if %} z"},
      {"a {%- raw -%} {{ x }} {%- endraw -%} b", "a{{ x }}b"},
      {"  {% raw %}\n  {% endraw %}x", "\nx"},
      {"a{##}b{#-#}c", "abc"},
  });
}

TEST_CASE("chat templates: a value prints as Python's repr()", "[chat]") {
  check({
      {"{{ [1, 'a', none, true, 2.0, missing] }}", "[1, 'a', None, True, 2.0, Undefined]"},
      {"{{ {'a': 1, 'b': [\"it's\"], 2: {}} | string }}", "{'a': 1, 'b': [\"it's\"], 2: {}}"},
      {"{{ (1, 2) }}{{ (1,) }}{{ () }}{{ 1, 2 }}", "(1, 2)(1,)()(1, 2)"},
      {"{{ ['\\n\\t\\\\', '\303\251\\u2028\\x7f', '\\'\"', '\\U0001F308\\U000E0001'] }}",
       "['\\n\\t\\\\', '\303\251\\u2028\\x7f', '\\'\"', '\360\237\214\210\\U000e0001']"},
      {"{{ {'a': [('x', 1)]} ~ '' }}", "{'a': [('x', 1)]}"},
      {"{{ {'b': 1}.items() | list }}{{ {'b': 1} | items | list }}", "[('b', 1)][('b', 1)]"},
  });
}

TEST_CASE("chat templates: filters of lists and dictionaries", "[chat]") {
  check({
      {"{{ {'b': 1, 'a': 2, 'C': 0} | dictsort }}{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) }}",
       "[('a', 2), ('b', 1), ('C', 0)][('a', 2), ('b', 1)]"},
      {"{{ [0, 1, 2, 3] | select('odd') | list }}{{ [0, 1] | select | list }}{{ [0, 1, none] | reject('none') | list "
       "}}{{ [1, 2] | select('gt', 1) | list }}",
       "[1, 3][1][0, 1][2]"},
      {"{{ ['b', 'A', 'a', 'B'] | sort }}{{ [3, 1, 2] | sort(reverse=true) }}{{ ['b', 'A'] | sort(case_sensitive=true) "
       "}}{{ [{'k': 2}, {'k': 1}] | sort(attribute='k') }}",
       "['A', 'a', 'b', 'B'][3, 2, 1]['A', 'b'][{'k': 1}, {'k': 2}]"},
      {"{{ ['a', 'A', 'b', 'a'] | unique | list }}{{ [{'k': 1}, {'k': 1}] | unique(attribute='k') | list }}",
       "['a', 'b'][{'k': 1}]"},
      {"{{ [1, 2] | sum }}{{ [{'k': 1}] | sum(attribute='k', start=2) }}{{ ['b', 'A'] | min }}{{ [1, 3] | max }}{{ [] "
       "| max }}",
       "33A3"},
      {"{{ 'ab' | first }}{{ 'ab' | last }}{{ 'a\303\251' | reverse }}{{ 'a\303\251' | list }}{{ [1, 2] | reverse | "
       "list }}",
       "ab\303\251a['a', '\303\251'][2, 1]"},
      {"{{ [{'a': 1}, {'a': 2}] | join(',', attribute='a') }}{{ 'abc' | join('-') }}{{ [1, [2]] | join }}",
       "1,2a-b-c1[2]"},
      {"{{ ', '.join(['a', 'b']) }}{{ ['aXb'] | map('replace', 'X', '-') | join }}", "a, ba-b"},
  });
}

TEST_CASE("chat templates: a generator is true, and empty when it was gone through", "[chat]") {
  check({
      {"{% set g = [1, 0] | select %}{{ g | list }}{{ g | list }}{{ 'y' if g else 'n' }}", "[1][]y"},
      {"{% set g = [] | map('upper') %}{{ 'y' if g else 'n' }}", "y"},
      {"{% set g = [1, 2, 3] | select %}{{ g | first }}{% for x in g %}{{ x }}{% endfor %}", "123"},
      {"{% set g = 'abc' | map('upper') %}{{ 'B' in g }}{{ 'A' in g }}", "TrueFalse"},
  });
}

TEST_CASE("chat templates: numbers of strings, and strings of numbers", "[chat]") {
  check({
      {"{{ '7' | int + 1 }}{{ '7.9' | int }}{{ 'x' | int(4) }}{{ ' -3 ' | int }}{{ none | int }}{{ true | int }}{{ 2.9 "
       "| int }}{{ [] | int(5) }}",
       "874-30125"},
      {"{{ '1.5' | float }}{{ 7 | float }}{{ 'x' | float }}{{ '1e3' | float }}{{ '+2' | float }}",
       "1.57.00.01000.02.0"},
      {"{{ -3 | abs }}{{ 2.567 | round(1) }}{{ 2.5 | round }}{{ 7 | round }}", "32.62.07"},
      {"{{ 1e3 }}{{ 1.5E-2 }}{{ +3 }}{{ 2 ** 3 }}{{ true + 1 }}", "1000.00.015382"},
      {"{{ '%s-%d %5.1f|%-4s|%04d%%' % ('a', 3, 2.25, 'b', -7) }}{{ '%s' % [1] }}{{ '%s' % true }}{{ '%r' | "
       "format('x') }}",
       "a-3   2.2|b   |-007%[1]True'x'"},
      {"{{ -3 | string ~ 'x' }}{{ 'a' + 1 ~ 'b' }}{{ 2 * 3 ~ 'b' }}{{ 'a' ~ 1 + 2 if false else 'c' }}", "-3xa1b6bc"},
      {"{{ 'a' * 3 }}{{ [1] * 2 }}{{ 2 * 'b' }}[{{ 'a' * -1 }}]", "aaa[1, 1]bb[]"},
  });
}

TEST_CASE("chat templates: strings have the methods of Python", "[chat]") {
  check({
      {"{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a b  c '.split(none, 1) }}{{ 'a b c'.split(maxsplit=1) }}{{ 'a--b'.split('--') "
       "}}",
       "['a,b', 'c']['a', 'b  c ']['a', 'b c']['a', 'b']"},
      {"{{ 'hello'.count('l') }}{{ 'hello'.index('l') }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ "
       "'a-b'.partition('-') }}{{ 'a'.rpartition('-') }}",
       "22bcab('a', '-', 'b')('', '', 'a')"},
      {"{{ 'a\\nb\\r\\nc'.splitlines() }}{{ '12'.isdigit() }}{{ 'a1'.isalpha() }}{{ 'a1'.isalnum() }}{{ '-7'.zfill(4) "
       "}}{{ 'x'.ljust(3) }}{{ 'x'.rjust(3) }}",
       "['a', 'b', 'c']TrueFalseTrue-007x    x"},
      {"{{ 'a\\nb\\n\\nc' | indent(2) }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent('> ', blank=true) }}",
       "a\n  b\n\n  c|  a\n  b|a\n> \n> b"},
      {"{{ 'abc'.endswith(('x', 'c')) }}{{ 'x'.strip('') }}{{ 'xax' | trim('x') }}", "Truexa"},
      {"{{ 'caf\\u00e9\\x41\\101\\q' }}{{ 'a\\\nb' }}", "caf\303\251AA\\qab"},
  });
}

TEST_CASE("chat templates: tests have arguments, with and without parentheses", "[chat]") {
  check({
      {"{{ 3 is ne 4 }}{{ 3 is gt 2 }}{{ 3 is ge(3) }}{{ 3 is lt 2 }}{{ 3 is le 3 }}{{ 4 is divisibleby 2 }}{{ 1.5 is "
       "float }}",
       "TrueTrueTrueFalseTrueTrueTrue"},
      {"{{ [1, 2, 3] | select('==', 2) | list }}{{ [1, 2] | select('in', [2]) | list }}{{ 'a' is in ['a'] }}{{ 'a' is "
       "not in 'b' }}",
       "[2][2]TrueTrue"},
      {"{{ true is integer }}{{ 1 is sameas true }}{{ missing is callable }}{{ range is callable }}{{ strftime_now is "
       "defined }}",
       "FalseFalseTrueTrueTrue"},
  });
}

TEST_CASE("chat templates: keys are values, and methods are beside them", "[chat]") {
  check({
      {"{{ {1: 'i'}[1] }}{{ {true: 'b'}[1] }}{{ {1: 'a', true: 'b'} }}{{ {'a': 1, 'a': 2} }}", "ib{1: 'b'}{'a': 2}"},
      {"{% set d = {'items': [1], 'n': 2} %}{{ d['items'] }}{{ d.items is callable }}{{ d.items == [1] }}{{ 'y' if "
       "{}['items'] }}{{ d.n }}",
       "[1]TrueFalsey2"},
      {"{{ [1, 2].0 }}{{ 'ab'.1 }}{{ [1][true] is defined }}{{ (1, 2)[1:] }}{{ range(5)[1:3] | list }}",
       "1bFalse(2,)[1, 2]"},
      {"{{ [1, 2] == (1, 2) }}{{ [1] < [1, 2] }}{{ (1, 'a') == (1.0, 'a') }}", "FalseTrueTrue"},
  });
}

TEST_CASE("chat templates: a loop takes its elements when it needs them", "[chat]") {
  check({
      {"{% set ns = namespace(n=9) %}{% for i in range(5) if i < ns.n %}{% set ns.n = 2 %}{{ i }}{% endfor %}", "01"},
      {"{% for m in ['a', 'b', 'c'] %}{{ loop.cycle('x', 'y') }}{{ loop.changed(m == 'c') }}{{ loop.last }}{{ "
       "loop.revindex }} {% endfor %}",
       "xTrueFalse3 yFalseFalse2 xTrueTrue1 "},
      {"{% for (k, v), w in [((1, 2), 3)] %}{{ k }}{{ v }}{{ w }}{% endfor %}{% set (a, b) = 'xy' %}{{ a }}{{ b }}",
       "123xy"},
      {"{% for c in 'a\303\251' %}{{ c }}.{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}", "a.\303\251.12"},
      {"{% for a in [1, 2] %}{% set outer = loop %}{% for b in [3, 4] %}{{ outer.index }}{{ loop.index }} {% endfor "
       "%}{% endfor %}",
       "11 12 21 22 "},
  });
}

TEST_CASE("chat templates: an argument that is not known is an Error that names it", "[chat]") {
  refuses("{{ 'x' | tojson(allow_nan=true) }}", "the argument 'allow_nan' of the filter 'tojson' is not known here");
  refuses("{{ 'x' | upper(1) }}", "the argument 1 of the filter 'upper' is not known here");
  refuses("{{ [1] | map('upper', 2) | list }}", "the argument 1 of the filter 'upper' is not known here");
  refuses("{{ 'x'.startswith('x', 1) }}", "the argument 2 of the method 'startswith' is not known here");
  refuses("{{ 1 is odd(2) }}", "the argument 1 of the test 'odd' is not known here");
  refuses("{{ 'aé' | int }}", "a number with the character 'é' is not known here");
  refuses("{{ 1 + € }}", "line 1: '€' is not known here");
  refuses("{{ '%é' % 1 }}", "'%é' is not known here in a format");
  refuses("{{ range(1, 2, 3, 4) }}", "the argument 4 of range() is not known here");
  refuses("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "the argument 2 of m() is not known here");
  refuses("{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "the argument 'a' of m() is not known here");
  refuses("{{ 'x' | replace('y') }}", "the argument 'new' is missing");
}

TEST_CASE("chat templates: what would print another text is an Error", "[chat]") {
  refuses("{{ [1] | select }}", "a generator can't be printed here");
  refuses("{{ {}.items() }}", "a view can't be printed here");
  refuses("{{ {'items': 1}.items }}", "a function can't be printed here");
  refuses("{{ missing | tojson }}", "tojson of a value that is not defined");
  refuses("{{ {}.keys() | tojson }}", "tojson of a view");
  refuses("{{ [1] | select | length }}", "length of a generator");
  refuses("{{ 'a' in none }}", "'in' of a null");
  refuses("{% break %}", "'break' outside of a loop");
  refuses("{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "'break' outside of a loop");
  refuses(
      "{% set ns = namespace() %}{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}"
      "{% endfor %}{{ ns.m() }}",
      "the macro 'm' is called outside of its block");
  refuses("{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}", "the macro 'm' has no caller()");
  refuses("{{ 1e400 }}", "a number that is not finite");
  refuses("{{ 1 is odd is true }}", "a test of a test needs parentheses");
  refuses("{{ '\xCE\x9F\xCE\xA3' | lower }}", "lower of a sigma");
  refuses("{% set ns = namespace() %}{% set ns.self = ns %}{{ [ns] }}", "a namespace can't be printed here");
  refuses("{% set x = 'a' * 9999999 %}{{ x * 2 }}", "the result is too long");
}

TEST_CASE("chat templates: what a model thought is there under the names that templates use", "[chat]") {
  const text::ChatTemplate chat("{% for m in messages %}{{ m | tojson }}{% endfor %}");
  CHECK(chat.apply_json("[{\"role\": \"a\", \"reasoning\": \"r\"}]") ==
        "{\"thinking\": \"r\", \"role\": \"a\", \"reasoning\": \"r\", \"reasoning_content\": \"r\"}");
  CHECK(chat.apply_json("[{\"reasoning_content\": null, \"role\": \"a\", \"thinking\": \"t\"}]") ==
        "{\"thinking\": \"t\", \"reasoning_content\": \"t\", \"role\": \"a\"}");
  CHECK(chat.apply_json("[{\"role\": \"a\", \"reasoning\": null}]") == "{\"role\": \"a\", \"reasoning\": null}");
}

}  // namespace fit::test::chat_language_test
