// What is on the page. How it looks and behaves is tested in a browser: tests/checks/browser.
#include "fit/lesson.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <thread>
#include <utility>

#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "plot/lesson/page.hpp"
#include "plot/lesson/prose.hpp"
#include "plot/lesson/source.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/pseudo_terminal.hpp"

namespace fit::test::lesson_test {
using namespace fit::plot;
using Catch::Matchers::Contains;

namespace {

std::string set(const std::string& latex) { return mathml(latex, MathStyle::inside); }
std::string html_of(const std::string& markdown) {
  std::vector<Heading> headings;
  return prose_html(markdown, headings);
}

const char* const three_cells = R"(/// # A lesson
/// About *nothing*.
#include <iostream>

int main() {
  Lesson lesson("page.html");
  /// ## First
  lesson.cell();
  std::cout << 1;
  /// ## Second
  lesson.cell();
  std::cout << "<b>";
}
)";
constexpr int first_line = 8, second_line = 11;

LessonOptions given(const std::string& source) { return LessonOptions().source(source); }

// What the page says, and what stands where.
std::size_t place(const std::string& html, const std::string& what) {
  INFO(what);
  const std::size_t at = html.find(what);
  CHECK(at != std::string::npos);
  return at;
}

// std::cout writes here as long as this lives.
struct Terminal {
  std::ostringstream out;
  std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
  ~Terminal() { std::cout.rdbuf(before); }
};

}  // namespace

TEST_CASE("formulas become MathML") {
  CHECK(set("x") == "<math><mrow><mi>x</mi></mrow></math>");
  CHECK(set("d_k") == "<math><mrow><msub><mi>d</mi><mi>k</mi></msub></mrow></math>");
  CHECK(set("x^{2i}") == "<math><mrow><msup><mi>x</mi><mrow><mn>2</mn><mi>i</mi></mrow></msup></mrow></math>");
  CHECK(set("W_i^Q") == "<math><mrow><msubsup><mi>W</mi><mi>i</mi><mi>Q</mi></msubsup></mrow></math>");
  CHECK(set("\\frac{a}{\\sqrt b}") ==
        "<math><mrow><mfrac><mrow><mi>a</mi></mrow><mrow><msqrt><mi>b</mi></msqrt></mrow></mfrac></mrow></math>");
  CHECK(set("3.5 - 1") == "<math><mrow><mn>3.5</mn><mo>−</mo><mn>1</mn></mrow></math>");
  CHECK(set("\\text{a < b}") == "<math><mrow><mtext>a &lt; b</mtext></mrow></math>");
  CHECK(set("\\alpha \\cdot \\infty") == "<math><mrow><mi>α</mi><mo>⋅</mo><mi>∞</mi></mrow></math>");
  CHECK_THAT(set("\\left(\\frac12\\right)"), Contains("<mo fence=\"true\">(</mo><mrow><mfrac>"));
  CHECK_THAT(set("\\begin{bmatrix} 1 & 0 \\\\ 0 & 1 \\end{bmatrix}"),
             Contains("<mtr><mtd><mrow><mn>1</mn></mrow></mtd><mtd><mrow><mn>0</mn></mrow></mtd></mtr><mtr>"));
  CHECK_THAT(mathml("\\sum_{j=1}^n x_j", MathStyle::display), Contains("<munderover><mo>∑</mo>"));
  CHECK_THAT(set("\\sum_j x_j"), Contains("<msub><mo>∑</mo>"));
  CHECK_THAT(mathml("x", MathStyle::display), Contains("<math display=\"block\">"));
  for (const auto& [latex, part] :
       {std::pair("\\mathrm{d}x", "<mi mathvariant=\"normal\">d</mi><mi>x</mi>"),
        std::pair("\\operatorname{softmax}", "<mi mathvariant=\"normal\">softmax</mi>"),
        std::pair("\\mathbf{x}", "<mi class=\"bold\">x</mi>"),
        std::pair("\\mathbb{R}^n", "<msup><mi>ℝ</mi><mi>n</mi></msup>"),
        std::pair("\\name{w}{W_1}", "<mrow data-name=\"w\" tabindex=\"0\"><mrow><msub><mi>W</mi>"),
        std::pair("a\\quad b", "<mi>a</mi><mspace width=\"1em\"/><mi>b</mi>"),
        std::pair("\\ln 26", "<mi>ln</mi><mo>\u2061</mo><mspace width=\"0.17em\"/><mn>26</mn>"),
        std::pair("\\exp(x)", "<mi>exp</mi><mo>\u2061</mo><mo stretchy=\"false\">(</mo>"),
        std::pair("\\max_j x_j", "<msub><mi>max</mi><mi>j</mi></msub>"),
        std::pair("f'(x)", "<mi>f</mi><mo>′</mo><mo stretchy=\"false\">(</mo>"),
        std::pair("|x|", "<mo stretchy=\"false\">|</mo>"),
        std::pair("3.", "<mn>3</mn><mo>.</mo>"),
        std::pair("3.x", "<mn>3</mn><mo>.</mo><mi>x</mi>"),
        std::pair("é", "<mi>é</mi>"),
        std::pair("\\text{ and }", "<mtext>\u00a0and\u00a0</mtext>"),
        std::pair("\\text{}", "<mtext></mtext>"),
        std::pair("x\\ ", "<mspace width=\"0.3em\"/>"),
        std::pair("\\left\\{ x \\right\\}",
                  "<mo fence=\"true\">{</mo><mrow><mi>x</mi></mrow><mo fence=\"true\">}</mo>"),
        std::pair("\\left. x \\right|", "<mrow><mrow><mi>x</mi></mrow><mo fence=\"true\">|</mo></mrow>"),
        std::pair("\\left( x \\right.", "<mo fence=\"true\">(</mo><mrow><mi>x</mi></mrow></mrow>"),
        std::pair("\\begin{pmatrix} 1 \\end{pmatrix}", "<mo fence=\"true\">(</mo><mtable>"),
        std::pair("\\begin{cases} 1 \\\\ 0 \\end{cases}", "<mo fence=\"true\">{</mo><mtable class=\"cases\">")}) {
    INFO(latex);
    CHECK_THAT(set(latex), Contains(part));
  }
  CHECK_THAT(mathml("\\sum_j", MathStyle::display), Contains("<munder><mo>∑</mo><mi>j</mi></munder>"));
  CHECK_THAT(mathml("\\sum^n", MathStyle::display), Contains("<mover><mo>∑</mo><mi>n</mi></mover>"));
  CHECK_THAT(mathml("\\alpha_j^2", MathStyle::display), Contains("<msubsup><mi>α</mi>"));
}

TEST_CASE("a formula that is not known is an error that names it") {
  for (const auto& [formula, why] :
       {std::pair("\\foo", "\\foo is not known"), std::pair("{a", "a } is missing"), std::pair("a}", "a } too many"),
        std::pair("x_", "something is missing"), std::pair("^2", "nothing stands before ^"),
        std::pair("\\frac{1}", "something"), std::pair("\\left( x", "a \\right is missing"),
        std::pair("\\", "is not known"), std::pair("\\text", "a { is missing"),
        std::pair("\\begin{bmatrix} 1", "\\end{bmatrix} is missing"), std::pair("_2", "nothing stands before _"),
        std::pair("\\text{a", "a } is missing"), std::pair("\\left", "a bracket is missing at its end"),
        std::pair("\\left( x \\right", "a bracket is missing at its end"),
        std::pair("\\begin{align} 1 \\end{align}", "\\begin{align} is not known"),
        std::pair("\\mathbb{Q}", "\\mathbb is not known")})
    CHECK_THROWS_WITH(set(formula), Contains(why));
}

TEST_CASE("prose becomes HTML, and HTML in it stays text") {
  CHECK(html_of("a\nb\n\nc") == "<p>a b</p>\n<p>c</p>\n");
  CHECK(html_of("**a** *b* `c < d` 2 * 3 * 4") ==
        "<p><strong>a</strong> <em>b</em> <code>c &lt; d</code> 2 * 3 * 4</p>\n");
  CHECK(html_of("- a\n  goes on\n- b\n1. c") ==
        "<ul>\n<li>a goes on</li>\n<li>b</li>\n</ul>\n<ol>\n<li>c</li>\n</ol>\n");
  CHECK(html_of("| a | b |\n|---|---|\n| 1 | 2 |") ==
        "<table class=\"scrolls\">\n<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td>2</td></tr>\n</table>\n");
  CHECK(html_of("so $x$.") == "<p>so <span class=\"nobreak\"><math><mrow><mi>x</mi></mrow></math>.</span></p>\n");
  CHECK(html_of("$x$ and") == "<p><math><mrow><mi>x</mi></mrow></math> and</p>\n");
  CHECK(html_of("<script>alert(1)</script> & ]]>") == "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp; ]]&gt;</p>\n");
  CHECK(html_of("[a](docs/b.html)") == "<p><a href=\"docs/b.html\">a</a></p>\n");
  CHECK_THAT(html_of("[a](javascript:alert)"), !Contains("href"));
  for (const char* const address : {"https://a.b/c", "http://a.b/c", "#part-1"})
    CHECK_THAT(html_of(std::string("[a](") + address + ")"),
               Contains(std::string("<a href=\"") + address + "\">a</a>"));
  for (const char* const text : {"[a", "[a](b", "*a", "a * b", "``", "$a", "####### a", "#a", "1.a", "12", "###"})
    CHECK(html_of(text) == "<p>" + std::string(text) + "</p>\n");  // no mark-up: stays as it is
  CHECK_THAT(html_of("$$x$$"), Contains("<span class=\"formula scrolls\" tabindex=\"0\"><math display=\"block\">"));
  for (const auto& [text, next] :
       {std::pair("a\n# b", "<h1"), std::pair("a\n- b", "<ul>"), std::pair("a\n| b |", "<table")})
    CHECK_THAT(html_of(text), Contains("<p>a</p>\n" + std::string(next)));  // ends the paragraph
  CHECK(html_of("- a\nb") == "<ul>\n<li>a</li>\n</ul>\n<p>b</p>\n");
  CHECK(html_of("| a |\nb") == "<table class=\"scrolls\">\n<tr><th>a</th></tr>\n</table>\n<p>b</p>\n");
  std::vector<Heading> headings;
  prose_html("# A\n## B `c`", headings);
  REQUIRE(headings.size() == 2);
  CHECK(headings[1].level == 2);
  CHECK(headings[1].html == "B <code>c</code>");
}

TEST_CASE("a source is cut into prose and code") {
  const auto cells = source_cells("a.cpp", three_cells);
  REQUIRE(cells.size() == 3);
  CHECK(cells[0].prose == "# A lesson\nAbout *nothing*.\n");
  CHECK(cells[0].code.empty());  // what only makes it a program
  CHECK_FALSE(cells[0].marked);
  CHECK(cells[1].prose == "## First\n");
  CHECK(cells[1].code == "std::cout << 1;\n");
  CHECK(cells[1].marked);
  CHECK(cells[2].code == "std::cout << \"<b>\";\n");  // without the end of main()
  CHECK(cells[1].first == 7);
  CHECK(cells[1].last == 9);
  CHECK(source_cells("a.cpp", "/// a\nint x;\n// not shown\nint y;\n/// b\nint z;\n")[0].code == "int x;\n");
  CHECK(source_cells("a.cpp", "/// a\nint x;\n// not shown\nint y;\n/// b\nint z;\n")[1].code == "int z;\n");
  CHECK(source_cells("a.cpp", "/// a\nif (x) {\n  f();\n  // not shown\n  g();\n  // shown\n}\n\n\nh();\n")[0].code ==
        "if (x) {\n  f();\n}\n\nh();\n");
  const auto twice = source_cells("a.cpp", "/// a\n  l.cell();\n  f();\n  l.cell();\n  g();\n");
  REQUIRE(twice.size() == 2);
  CHECK(twice[1].code == "g();\n");
  const auto edges = source_cells("a.cpp", "///\n///a\nint x;\n/// b\n\n\n  l.cell();\n\n  f();\n  // a.cell();\n");
  REQUIRE(edges.size() == 2);
  CHECK(edges[0].prose == "\n");
  CHECK(edges[0].code == "///a\nint x;\n");        // no prose: the space is missing
  CHECK(edges[1].code == "f();\n// a.cell();\n");  // no mark: it is not alone
  CHECK_THROWS_WITH(source_cells("a.cpp", "void f() {\n  /// prose\n  g();\n}\n"),
                    Contains("a.cpp:2: prose in a function"));
  CHECK_THROWS_AS(source_cells("a.cpp", "void f() {\n  /// prose\n"), Error);
}

TEST_CASE("what is printed stands under the code of its cell, and is still printed") {
  const test::Directory folder;
  Terminal terminal;
  std::string html;
  {
    Lesson lesson(folder.file("page.html"), given(three_cells));
    CHECK_THAT(test::get(folder.file("page.html")), Contains("This part did not run."));
    lesson.cell(first_line);
    std::cout << "from cout ";
    std::printf("from printf\n");
    lesson.cell(second_line);
    std::cout << "<b>&" << '\n';
    CHECK(lesson.claim("it <holds>", true));
    lesson.figure(heatmap(tensor({{0.25, 1.0}})), "A caption");
    std::cout << "after\n";
    CHECK_FALSE(lesson.claim("it fails", false));
    CHECK(lesson.claims() == 2);
    CHECK(lesson.failed() == 1);
  }
  html = test::get(folder.file("page.html"));
  CHECK_THAT(terminal.out.str(), Contains("from cout ") && Contains("<b>&\nafter\n"));
  std::size_t before = 0;
  for (const char* const what :
       {"<title>A lesson</title>", "1 of 2 claims hold", "<h1 id=\"part-1\">A lesson</h1>", "<em>nothing</em>",
        "<h2 id=\"part-2\">First</h2>", "std::cout &lt;&lt; 1;", "from cout from printf",
        "<h2 id=\"part-3\">Second</h2>", "<pre class=\"printed scrolls\">&lt;b&gt;&amp;\n", "<figure class=\"scrolls\"",
        "A caption", "<pre class=\"printed scrolls\">after\n", "<p class=\"claim failed\" role=\"alert\">it fails</p>",
        "How this is checked: 1 claim holds", "<p class=\"claim\">it &lt;holds&gt;</p>"}) {
    const std::size_t at = html.find(what, before);
    INFO(what);
    REQUIRE(at != std::string::npos);
    before = at;
  }
  CHECK_THAT(html, !Contains("This part did not run."));
  CHECK_THAT(html, !Contains("lesson.cell()"));
}

TEST_CASE("what a terminal would show of a text") {
  CHECK(terminal_html("a<b\n") == "a&lt;b\n");
  CHECK(terminal_html("10 %\r20 %\r30 %\n") == "30 %\n");
  CHECK(terminal_html("a\r\nb") == "a\nb\n");
  CHECK(terminal_html("\x1b[48;2;1;2;255mx\x1b[0my\x1b[Kz") == "<span style=\"background:#0102ff;\">x</span>yz\n");
  CHECK(terminal_html("\x1b[48;2;1;2;255m\x1b[38;2;0;0;0mx") ==
        "<span style=\"background:#0102ff;color:#000000;\">x</span>\n");
  CHECK(terminal_html("\x1b[38;5;1;2;3mx") == "x\n");  // colours of a table
  CHECK(terminal_html("\x1b[58;2;1;2;3mx") == "x\n");  // the colour of underlines
  CHECK(terminal_html("\x1b[") == "\n");
  CHECK(terminal_html("\x1b[31") == "\n");
  CHECK(terminal_html(std::string("\0\x07", 2)) == "  \n");
}

TEST_CASE("an exception that leaves a lesson is told on the page so far") {
  const test::Directory folder;
  try {
    Lesson lesson(folder.file("page.html"), given(three_cells));
    lesson.cell(first_line);
    std::cout << "so far\n";
    throw Error("[matmul] sizes <b>");
  } catch (const Error&) {
  }
  std::string html = test::get(folder.file("page.html"));
  CHECK(place(html, "so far") < place(html, "An exception left the lesson here"));
  place(html, "This part did not run.");
  place(html, "it ended with an error");
  {
    Lesson lesson(folder.file("page.html"), given(three_cells));
    lesson.cell(first_line);
    lesson.error("[matmul] sizes <b>");
  }
  place(test::get(folder.file("page.html")), "<pre class=\"error\" role=\"alert\">[matmul] sizes &lt;b&gt;\n</pre>");
}

TEST_CASE("an exception that nobody catches is told on the page so far, and ends the program") {
  const test::Directory folder;
  struct Other {};
  for (const auto& [end, said] :
       {std::pair<Callable<void()>, const char*>([] { throw Error("[matmul] sizes"); }, "[matmul] sizes"),
        {[] { throw Other(); }, "An exception that is no std::exception ended the program."},
        {[] { std::terminate(); }, "The program was ended."}}) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      if (!std::freopen("/dev/null", "w", stderr) || !std::freopen("/dev/null", "w", stdout)) _exit(2);
      const auto run = [&, f = end] {
        Lesson lesson(folder.file("page.html"), given(three_cells));
        lesson.cell(first_line);
        f();
      };
      std::thread(run).join();  // where nobody catches it
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    place(test::get(folder.file("page.html")), said);
  }
}

TEST_CASE("a claim has a colour on a terminal; a page shows heads and questions") {
  const test::Directory folder;
  std::FILE* const file = std::tmpfile();
  {
    const PseudoTerminal colored;  // no check inside: its message would be lost
    const Environment known("TERM", "xterm"), allowed("NO_COLOR", nullptr);
    std::FILE* const before = std::exchange(stdout, file);
    {
      Lesson lesson(folder.file("page.html"), given(three_cells));
      lesson.cell(first_line);
      lesson.claim("it holds", true), lesson.claim("it fails", false);
      AttentionRecording recording;
      recording.title = "Heads of <one>";
      recording.add("layer", softmax(ones({2, 3, 3}), -1), {});
      lesson.heads(recording);
      lesson.ask(Question("Why **so**?").right("$x$", "Because.").wrong("<b>", "Not so."));
      lesson.vary("k", {0.5}, [](double) {});
    }
    stdout = before;
  }
  std::rewind(file);
  std::string said(1000, ' ');
  said.resize(std::fread(&said[0], 1, said.size(), file));
  std::fclose(file);
  CHECK_THAT(said, Contains("\x1b[32m  [ok]     \x1b[0mit holds") && Contains("\x1b[31m  [FAILED] \x1b[0mit fails"));
  CHECK_THAT(said, Contains("-- k: 0.5\n"));  // of which case the claims speak
  const std::string html = test::get(folder.file("page.html"));
  place(html, "<section class=\"recording\"><h3>Heads of &lt;one&gt;</h3>");
  place(html, "<div class=\"question\"><div class=\"prose\"><p>Why <strong>so</strong>?</p>");
}

TEST_CASE("a lesson that can't be is an error") {
  const test::Directory folder;
  CHECK_THROWS_AS(Lesson(folder.file("a/../../../dev/null/page.html"), given(three_cells)), FileError);
  CHECK_THROWS_WITH(Lesson(folder.file("page.html"), {}, "/no/such/file.cpp"),
                    Contains("cannot read the source '/no/such/file.cpp'"));
  test::put(folder.file("new.cpp"), three_cells);
  CHECK_THROWS_WITH(Lesson(folder.file("page.html"), {}, (folder.file("new.cpp")).c_str()),
                    Contains("is newer than the program"));
  CHECK_THROWS_WITH(Lesson(folder.file("page.html"), given("int main() {}\n")), Contains("has no prose"));
  CHECK_THROWS_WITH(Lesson(folder.file("page.html"), given("\n/// a\n/// $\\foo$\nint x;\n")),
                    Contains("from line 2 on") && Contains("\\foo is not known"));
  Lesson lesson(folder.file("page.html"), given(three_cells));
  CHECK_THROWS_WITH(Lesson(folder.file("other.html"), given(three_cells)), Contains("another one lives"));
  CHECK_THROWS_WITH(lesson.cell(3), Contains("line 3"));
}

TEST_CASE("questions and calls of the lesson are not in the shown code") {
  const auto cells = source_cells("a.cpp", R"(/// a
  e.cell();
  const Tensor w = f();
  e.ask("How much?",
        "Two.");
  e.vary("k", {1, 2}, [&](double k) {
    std::cout << k;
    e.claim("it holds",
            k > 0);
    e.figure(heatmap(w * k));
  });
  e.figure(heatmap(w));
)");
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].code == "const Tensor w = f();\n");
  CHECK(cells[0].checks ==
        "e.vary(\"k\", {1, 2}, [&](double k) {\n  std::cout << k;\n  e.claim(\"it holds\",\n          k > 0);\n  "
        "e.figure(heatmap(w * k));\n});\ne.figure(heatmap(w));\n");
}

TEST_CASE("code is hidden between two lines, and one empty line stays") {
  const auto cells = source_cells("a.cpp", R"(/// a
  e.cell();
  f();
  // not shown
  g();

  h();
  // shown
  i();
)");
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].code == "f();\n\ni();\n");
}

TEST_CASE("a question has one right answer, and a text a row for each token") {
  const auto choice = Question("How *much*?").wrong("<1>", "No.").right("$2$", "Yes.").html();
  place(choice, "<p>How <em>much</em>?</p>");
  CHECK(place(choice, "<button type=\"button\" class=\"choice\">&lt;1&gt;</button>") < place(choice, "<math>"));
  place(choice, "data-answer=\"$2$\" data-right><p>Yes.</p>");
  place(choice, "data-otherwise><p>Not yet.</p>");
  const auto numbers = Question("Which?").numbers(tensor({{1., -0.5}}), 0.01, "These.").html();
  place(numbers, "aria-label=\"row 1, column 2\" data-value=\"-0.500000\"");
  place(numbers, "data-within=\"0.010000\"");
  place(Question("Where?").cell(heatmap(ones({1, 1}))).right("0 → 0", "There.").html(),
        "<figure class=\"scrolls\"><svg");
  CHECK_THROWS_WITH(Question("a").wrong("b", "c").html(), Contains("\"a\" has 0 right answers and 1 wrong ones"));
  CHECK_THROWS_WITH(Question("a").right("b", "c").html(), Contains("to choose from a wrong one"));
  CHECK_THROWS_WITH(Question("a").right("b", "").right("c", "").html(), Contains("2 right answers"));
  CHECK_THROWS_WITH(Question("a").numbers(ones({1, 1, 1}), 0, ""), Contains("a number, a row or a matrix"));

  const test::Directory folder;
  Terminal terminal;
  Lesson lesson(folder.file("page.html"), given(three_cells));
  lesson.cell(first_line);
  lesson.text({"<a>", "b"}, {TextHead().name("A").weights(eye(2))});
  lesson.write();
  place(test::get(folder.file("page.html")), "<span class=\"token\">&lt;a&gt;</span>");
  place(test::get(folder.file("page.html")), R"([{"name":"A","weights":[[1.0,0.0],[0.0,1.0]],"fromKey":false}])");
  CHECK_THROWS_WITH(lesson.text({"a"}, {}), Contains("1 tokens and 0 heads"));
  CHECK_THROWS_WITH(lesson.text({"a"}, {TextHead().weights(eye(2))}), Contains("weights is [2, 2]: it must be [1, 1]"));
}

TEST_CASE("what draws, and what makes the source a program, is not in the shown code") {
  const auto cells = source_cells("a.cpp", R"(/// a
#include <x>
using namespace fit;
int f() { return 1; }
int main(int argc, char** argv) {
  hidden();
  /// b
  e.cell();
  plot::Curve curve{"loss"};
  auto look = o(
      plot::Options());
  const auto draw = [&](int x) {
    return plot::heatmap(x);
  };
  const auto one = [] {
    return 1;
  };
  for (const auto& p : plot::all()) {
    use(p);
  }
  plot::print_heatmap(std::cout, w,
                      plot::Options().title("a"));
)");
  REQUIRE(cells.size() == 2);
  CHECK(cells[0].code == "int f() { return 1; }\n");
  CHECK(cells[1].code ==
        "const auto one = [] {\n  return 1;\n};\nfor (const auto& p : plot::all()) {\n  "
        "use(p);\n}\nplot::print_heatmap(std::cout, w,\n                    "
        "plot::Options().title(\"a\"));\n");
  CHECK(cells[1].checks ==
        "plot::Curve curve{\"loss\"};\nauto look = o(\n    plot::Options());\nconst auto draw = [&](int x) {\n  return "
        "plot::heatmap(x);\n};\n");
}

TEST_CASE("a statement that checks ends behind its last bracket, whatever is quoted in it") {
  const auto cells = source_cells("a.cpp", R"(/// a
  l.cell();
  const auto o =
      plot::Options().title("(");
  l.claim("a \" (", f(')') == x[1]);  // (
  return l.figure(heatmap(w, {
      1, 2}));
  y = 3;
  const auto p =
      f();
)");
  REQUIRE(cells.size() == 1);
  CHECK(cells[0].code == "y = 3;\nconst auto p =\n    f();\n");
  CHECK(cells[0].checks ==
        "const auto o =\n    plot::Options().title(\"(\");\nl.claim(\"a \\\" (\", f(')') == x[1]);  // (\nreturn "
        "l.figure(heatmap(w, {\n    1, 2}));\n");
}

TEST_CASE("a page names itself, its parts, its drawings and its errors") {
  const test::Directory folder;
  Terminal terminal;
  const auto page = [&](const LessonOptions& options, FunctionRef<void(Lesson&)> run) {
    {
      Lesson lesson(folder.file("page.html"), options);
      run(lesson);
    }
    return test::get(folder.file("page.html"));
  };
  const std::string code = "  lesson.cell();\n  lesson.figure(f);\n";
  CHECK_THAT(page(given("/// only prose\n" + code).title("A <title>"), [](Lesson&) {}),
             Contains("<title>A &lt;title&gt;</title>"));
  CHECK_THAT(page(given("/// only prose\n" + code), [](Lesson&) {}), Contains("<title>Lesson</title>"));
  const std::string parts = page(given("/// # A\n/// ## B\n/// ### C\n/// #### D\n" + code), [](Lesson& lesson) {
    lesson.cell(5);
    lesson.figure(plot::heatmap(ones({2, 2})));
  });
  CHECK_THAT(parts, Contains("<li class=\"level-2\"><a href=\"#part-2\">B</a>") &&
                        Contains("<li class=\"level-3\"><a href=\"#part-3\">C</a>") && !Contains("level-4"));
  CHECK_THAT(parts, Contains("How this is drawn") && !Contains("<figcaption>"));
  CHECK_THAT(page(given("/// a\n" + code), [](Lesson& lesson) { lesson.cell(2), lesson.claim("no", false); }),
             Contains("How this is checked</summary>") && Contains("0 of 1 claims hold"));
  CHECK_THAT(page(given("/// a\n" + code),
                  [](Lesson& lesson) {
                    lesson.cell(2), lesson.claim("a", true), lesson.claim("b", true), lesson.error("why");
                  }),
             Contains("How this is checked: 2 claims hold") && Contains("2 of 2 claims hold; it ended with an error"));
}

TEST_CASE("a figure is drawn from the names in its statement") {
  const std::string text = "a = 1;\n  e.figure(\n      heatmap(w, o.title(\"not x\")));\nb = w;\n";
  for (const int line : {2, 3}) CHECK(names_at(text, line) == " e figure heatmap w o title ");
  CHECK(names_at(text, 4) == " b w ");
  CHECK(names_at(text, 0) == "");
  CHECK(names_at(text, 9) == "");
}

TEST_CASE("cases keep their own output, and their claims count") {
  const test::Directory folder;
  Terminal terminal;
  Lesson lesson(folder.file("page.html"), given(three_cells));
  lesson.cell(first_line);
  std::vector<double> seen;
  lesson.vary("d_k", {1, 0.5}, [&](double d_k) {
    lesson.claim("it is whole", d_k == 1);
    seen.push_back(d_k);
    std::cout << "d_k is " << d_k << '\n';
    lesson.claim("it is positive", d_k > 0);
  });
  lesson.vary("order", {"sorted", "shuffled"}, [](std::size_t i) { std::cout << "case " << i << '\n'; });
  std::cout << "behind\n";
  lesson.write();
  CHECK(seen == std::vector<double>{1, 0.5});
  CHECK(lesson.claims() == 2);  // one each, although there are two cases
  CHECK(lesson.failed() == 1);
  const std::string html = test::get(folder.file("page.html"));
  std::size_t before = 0;
  for (const char* const what :
       {"1 of 2 claims hold", "max=\"1\"", "data-value=\"1\"", "d_k is 1\n", "it is positive", "data-value=\"0.5\"",
        "d_k is 0.5\n", "data-value=\"sorted\"", "case 0", "data-value=\"shuffled\"", "case 1", "behind"}) {
    const std::size_t at = html.find(what, before);
    INFO(what);
    REQUIRE(at != std::string::npos);
    before = at;
  }
  CHECK_THROWS_WITH(lesson.vary("k", {}, [](double) {}), Contains("no cases of k"));
  CHECK_THROWS_WITH(lesson.vary("k", {1}, [&](double) { lesson.vary("j", {1}, [](double) {}); }),
                    Contains("inside vary()"));
  CHECK_THROWS_WITH(lesson.vary("k", {1}, [&](double) { lesson.cell(second_line); }), Contains("inside vary()"));
  lesson.vary("k", {3}, [](double k) { std::cout << "after errors " << k << '\n'; });
  lesson.write();
  place(test::get(folder.file("page.html")), "after errors 3");
}

TEST_CASE("a product gives its result, and refuses what can't be shown") {
  const test::Directory folder;
  Terminal terminal;
  Lesson lesson(folder.file("page.html"), given(three_cells));
  lesson.cell(first_line);
  CHECK(equal(lesson.product(tensor({{1., 2.}}), tensor({{3.}, {4.}})), tensor({{11.}})));
  CHECK_THROWS_WITH(lesson.product(ones({2, 3}), ones({2, 3})), Contains("a is [2, 3], b is [2, 3]"));
  CHECK_THROWS_WITH(lesson.product(ones({13, 2}), ones({2, 2})), Contains("at most 12"));
  CHECK_THROWS_WITH(lesson.product(ones({2}), ones({2})), Contains("(m, k) and (k, n)"));
}

TEST_CASE("an error on its way through a page that can't be written any more is told, not thrown") {
  const test::Directory folder;
  std::ostringstream said;
  std::streambuf* const before = std::cerr.rdbuf(said.rdbuf());
  {
    Lesson lesson(folder.file("sub/page.html"), given(three_cells));
    std::filesystem::remove_all(folder.file("sub"));
    test::put(folder.file("sub"), "in the way");
    CHECK_THROWS_AS(lesson.write(), FileError);
  }
  std::cerr.rdbuf(before);
  CHECK_THAT(said.str(), Contains("[Lesson] " + folder.file("sub/page.html") + " can't be written"));
}

}  // namespace fit::test::lesson_test
