#include "fit/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "fit/nn/layers/position.hpp"
#include "fit/nn/metrics/metrics.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/colormap.hpp"
#include "plot/figures/drawing.hpp"
#include "support/catch.hpp"
#include "support/pseudo_terminal.hpp"
#include "support/text.hpp"

namespace fit::test::plot_test {
using Catch::Matchers::Contains;
using fit::test::count;

namespace {

// Elements open and close in pairs, and the document is one element.
bool well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = svg.substr(at + 1, end - at - 1);
    if (tag.back() == '/') continue;
    if (tag[0] != '/')
      open.push_back(tag.substr(0, tag.find(' ')));
    else if (open.empty() || open.back() != tag.substr(1))
      return false;
    else
      open.pop_back();
    if (open.empty()) return svg.substr(end + 1) == "\n";
  }
  return false;
}

// The colour of the cell whose tooltip begins so.
std::string cell_color(const std::string& svg, const std::string& title) {
  const std::size_t at = svg.find("<title>" + title + ":");
  REQUIRE(at != std::string::npos);
  return svg.substr(svg.rfind("fill=\"", at) + 6, 7);
}

std::string terminal(const Tensor& m, const plot::Options& options, plot::Colors colors) {
  std::ostringstream out;
  plot::print_heatmap(out, m, options, colors);
  return out.str();
}

const std::vector<std::string> words{"The", "cat", "sat"};
Tensor weights() { return tensor({{0.5, 0.25, 0.25}, {0., 1., 0.}, {0.125, 0.375, 0.5}}); }

}  // namespace

TEST_CASE("a heat map has a cell for each element, with its value and the names of its row and column") {
  const std::string svg =
      plot::heatmap(weights(), plot::Options().title("Title").x(words).y(words).xlabel("Key").ylabel("Query")).svg();
  CHECK(well_formed(svg));
  CHECK(count(svg, "class=\"cell\"") == 9);
  CHECK(count(svg, "<title>sat → cat: 0.375</title>") == 1);
  CHECK(count(svg, ">0.375</text>") == 1);
  CHECK(count(svg, ">cat</text>") == 2);  // once for the row, once for the column
  for (const char* name : {">Title<", ">Key<", ">Query<"}) CHECK(count(svg, name) == 1);
}

TEST_CASE("the first and the last colour stand for vmin and vmax, and what is beyond is cut off") {
  plot::Options options;
  const std::string by_data = plot::heatmap(weights(), options).svg();
  CHECK(cell_color(by_data, "1 → 0") == "#f7fbff");
  CHECK(cell_color(by_data, "1 → 1") == "#08306b");
  options.vmin(0.25).vmax(0.5).colormap(plot::Colormap::blues);
  const std::string given = plot::heatmap(weights(), options).svg();
  CHECK(cell_color(given, "0 → 1") == "#f7fbff");
  CHECK(cell_color(given, "1 → 0") == "#f7fbff");
  CHECK(cell_color(given, "0 → 0") == "#08306b");
  CHECK(cell_color(given, "1 → 1") == "#08306b");
}

TEST_CASE("the diverging colours are white at 0 and as far to both sides") {
  const auto options = plot::Options().colormap(plot::Colormap::rdbu);
  const std::string svg = plot::heatmap(tensor({{-1., 0., 2.}}), options).svg();
  CHECK(cell_color(svg, "0 → 1") == "#f7f7f7");
  CHECK(cell_color(svg, "0 → 2") == "#053061");
  CHECK(cell_color(svg, "0 → 0") != "#67001f");  // -1 is half-way to -2
}

TEST_CASE("the text in a cell is dark on light colours and light on dark ones") {
  const std::string svg = plot::heatmap(weights(), {}).svg();
  CHECK(count(svg, "fill=\"#ffffff\" text-anchor=\"middle\">1.000<") == 1);  // on dark blue
  CHECK(count(svg, "fill=\"#000000\" text-anchor=\"middle\">0.000<") == 2);  // on white
}

TEST_CASE("a number can be read on every colour of every map: its ink has a contrast of 4.5 or more") {
  const auto luminance = [](plot::Rgb c) {  // WCAG 2.1
    const auto linear = [](double v) { return v <= 0.03928 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
    return 0.2126 * linear(c.r / 255.) + 0.7152 * linear(c.g / 255.) + 0.0722 * linear(c.b / 255.);
  };
  for (const plot::Colormap map : {plot::Colormap::viridis, plot::Colormap::blues, plot::Colormap::night,
                                   plot::Colormap::rdbu, plot::Colormap::dusk})
    for (const plot::Rgb cell : plot::palette(map)) {
      const double a = luminance(cell), b = luminance(plot::ink_on(cell));
      CHECK((std::max(a, b) + 0.05) / (std::min(a, b) + 0.05) >= 4.5);
    }
}

TEST_CASE("the first colour is that of 0, unless a value is negative") {
  const Tensor w = tensor({{0.5, 0.25}, {0.3, 0.7}});
  CHECK(count(plot::heatmap(w).svg(), "colours from 0 to 0.7") == 1);
  CHECK(count(plot::heatmap(w - 0.3).svg(), "colours from -0.05 to 0.4") == 1);
  CHECK(count(plot::heatmap(w, plot::Options().vmin(0.2)).svg(), "colours from 0.2 to 0.7") == 1);
  CHECK(count(plot::heatmap(full({2, 2}, 0.1), plot::Options().vmax(1)).svg(), "colours from 0 to 1") == 1);
  CHECK(count(plot::heads(stack({w, w - 0.3})).svg(), "colours from -0.05 to 0.7") == 1);
}

TEST_CASE("a light figure turned dark is the figure that is drawn dark") {
  // Without colour bars: neighbours in a map of 255 colours may be equal in light, and differ in dark.
  const auto options = plot::Options().title("Title").x(words).xlabel("Key").ylabel("Query").colorbar(false);
  const auto dark = [](plot::Options o) { return o.theme(plot::Theme::dark); };
  const auto masked = plot::Options(options).mask(tril(ones({3, 3}, boolean)));
  const auto signed_map = plot::Options(options).colormap(plot::Colormap::rdbu);
  for (const plot::Options& o : {options, masked, signed_map}) {
    CHECK(plot::heatmap(weights(), o).dark().svg() == plot::heatmap(weights(), dark(o)).svg());
    CHECK(plot::heatmap(weights(), o).dark().svg() != plot::heatmap(weights(), o).svg());
  }
  const auto both = [&](plot::Theme theme) {
    const std::vector<plot::Curve> curves{{"a", {1, 2}}, {"b", {2, 1}}};
    return plot::side_by_side({plot::lines(curves, plot::LineOptions().theme(theme)),
                               plot::heatmap(weights(), plot::Options(options).theme(theme))},
                              "Both");
  };
  CHECK(both(plot::Theme::light).dark().svg() == both(plot::Theme::dark).svg());
  CHECK(both(plot::Theme::dark).dark().svg() == both(plot::Theme::dark).svg());
  const plot::Figure image = plot::heatmap(broadcast_to(linspace(0, 1, 80), {80, 80}));
  CHECK(count(image.dark().svg(), "<image") == 2);
  CHECK(image.dark().svg() != image.svg());
}

TEST_CASE("both axes of heads have names, and of every figure that is given some") {
  CHECK(count(plot::heads(stack({weights(), weights()})).svg(), "class=\"axis\"") == 2);
  CHECK_THAT(plot::heads(stack({weights(), weights()})).svg(), Contains(">Key<") && Contains(">Query<"));
  CHECK_THAT(plot::heads(stack({weights(), weights()}), plot::Options().xlabel("Encoder")).svg(),
             Contains(">Encoder<") && Contains(">Query<") && !Contains(">Key<"));
  CHECK(count(plot::lines({{"", {1, 2}}}, plot::LineOptions().xlabel("Step").ylabel("Loss")).svg(), "class=\"axis\"") ==
        2);
  CHECK(count(plot::histogram(weights()).svg(), "class=\"axis\"") == 2);
  CHECK(count(plot::token_lines(weights(), words).svg(), "class=\"axis\"") == 2);
  const auto named = plot::Options().colorbar(false).xlabel("Key").ylabel("Query");
  CHECK_THAT(terminal(weights(), named, plot::Colors::never), Contains("\n  down: Query, right: Key\n"));
  CHECK_THAT(terminal(weights(), plot::Options(named).ylabel(""), plot::Colors::never), Contains("\n  right: Key\n"));
}

TEST_CASE("heads stand in as many columns as asked for") {
  const Tensor four = stack({weights(), weights(), weights(), weights()});
  const plot::Figure square = plot::heads(four), row = plot::heads(four, plot::Options().columns(4));
  CHECK(row.width() > square.width());
  CHECK(row.height() < 0.7 * square.height());
  CHECK(count(row.svg(), "class=\"cell\"") == 36);
  CHECK(plot::heads(four, plot::Options().columns(9)).svg() == row.svg());
  CHECK_THROWS_WITH(plot::heads(four, plot::Options().columns(-1)), Contains("columns is -1"));
}

TEST_CASE("values are shown in small heat maps, or as asked") {
  plot::Options options;
  CHECK(count(plot::heatmap(full({13, 2}, 0.5), options).svg(), ">0.500</text>") == 0);
  options.annotate(true);
  CHECK(count(plot::heatmap(full({13, 2}, 0.5), options).svg(), ">0.500</text>") == 26);
  options.annotate(false);
  CHECK(count(plot::heatmap(weights(), options).svg(), ">0.375</text>") == 0);
  CHECK(count(plot::heatmap(tensor({{1, 0}, {1, 1}}), {}).svg(), ">1</text>") == 5);  // whole: 3 cells, 2 labels
}

TEST_CASE("cells of a given size have values if these fit, even if they are asked for") {
  const auto values = [](double size) {
    return count(plot::heatmap(full({12, 12}, 0.25), plot::Options().cell_size(size).annotate(true)).svg(), ">0.250<");
  };
  CHECK(values(20) == 0);
  CHECK(values(26) == 0);
  CHECK(values(40) == 144);
  // The word "masked" stands in no cell, so it needs no space.
  const auto causal = plot::Options().cell_size(40).mask(tril(ones({4, 4}, boolean)));
  CHECK(count(plot::heatmap(full({4, 4}, 0.25), causal).svg(), ">0.250</text>") == 10);
}

TEST_CASE("the values of a matrix have one number of digits, by the largest") {
  const auto svg = [](double a, double b) { return plot::heatmap(tensor({{a, b}})).svg(); };
  CHECK_THAT(svg(58.756, 550.5), Contains(">58.8</text>") && Contains(">550.5</text>"));
  CHECK_THAT(svg(0.0123, 0.5), Contains(">0.012</text>") && Contains(">0.500</text>"));
  CHECK_THAT(svg(0.00123, 0.002), Contains(">0.0012</text>") && Contains(">0.0020</text>"));
  CHECK_THAT(svg(-1e-6, 2.5e-6), Contains(">-1.00e-6</text>") && Contains(">2.50e-6</text>") && Contains(">0</text>"));
  CHECK_THAT(svg(-1e-6, 2.5e-6), !Contains(">-0<") && !Contains("0.000<"));
  // Heads share the digits, too.
  const Tensor heads = tensor({{{1., 2.}}, {{100.5, 2000.5}}});
  CHECK_THAT(plot::heads(heads, plot::Options().annotate(true)).svg(), Contains(">1</text>") && !Contains(">1.0"));
}

TEST_CASE("the ends of a colour bar say that values lie beyond them") {
  const Tensor m = tensor({{-1., 0.25}, {0.5, 1.}});
  const auto clipped = plot::Options().vmin(-0.5).vmax(0.45);
  CHECK_THAT(plot::heatmap(m, clipped).svg(), Contains(">≥ 0.45</text>") && Contains(">≤ -0.5</text>"));
  CHECK_THAT(terminal(m, clipped, plot::Colors::never), Contains("≤ -0.500 [") && Contains("] ≥ 0.450\n"));
  CHECK_THAT(plot::heatmap(m, plot::Options().vmin(-2).vmax(1)).svg(), !Contains("≥") && !Contains("≤"));
}

TEST_CASE("labels are escaped and may be UTF-8") {
  const std::vector<std::string> names{"<a & \"b\">", "Größe", "猫"};
  const std::string svg = plot::heatmap(weights(), plot::Options().title("x < y").x(names).y(names)).svg();
  CHECK(well_formed(svg));
  CHECK(count(svg, ">&lt;a &amp; &quot;b&quot;&gt;</text>") == 2);
  CHECK(count(svg, ">Größe</text>") == 2);
  CHECK(count(svg, ">猫</text>") == 2);
  CHECK(count(svg, ">x &lt; y</text>") == 1);
}

TEST_CASE("labels of any bytes stay readable and harmless: a line's end, controls, parts of letters") {
  CHECK(plot::printable("a\nb\x1b[0m\tc") == "a↵b [0m c");
  CHECK(plot::printable("Größe 猫 🐈 \xed\x9f\xbf \xf4\x8f\xbf\xbf") == "Größe 猫 🐈 \xed\x9f\xbf \xf4\x8f\xbf\xbf");
  CHECK(plot::printable("\xc3") == "�");                 // the first half of a letter
  CHECK(plot::printable("x\xa9y") == "x�y");             // the second half
  CHECK(plot::printable("\xc0\xaf") == "��");            // an overlong slash
  CHECK(plot::printable("\xed\xa0\x80") == "���");       // a surrogate
  CHECK(plot::printable("\xf4\x90\x80\x80") == "����");  // beyond Unicode
  CHECK(plot::printable("\xe2\x82") == "��");
  const std::vector<std::string> names{"\n", "\xe7\x8c", "c"};
  CHECK(count(plot::heatmap(weights(), plot::Options().x(names)).svg(), ">↵</text>") == 1);
  CHECK(count(terminal(weights(), plot::Options().x(names), plot::Colors::never), "\n") == 5);
}

TEST_CASE("what is not finite is hatched, and the colours come from the rest") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string svg = plot::heatmap(tensor({{0., NAN}, {1., -inf}}), {}).svg();
  CHECK(cell_color(svg, "0 → 1") == "#d0d4d9");
  CHECK(cell_color(svg, "1 → 1") == "#eceff2");  // a score of -inf is masked
  CHECK(cell_color(svg, "0 → 0") == "#f7fbff");
  CHECK(cell_color(svg, "1 → 0") == "#08306b");
  CHECK(count(svg, "<line") - count(plot::heatmap(tensor({{0., 0.}, {1., 1.}}), {}).svg(), "<line") == 1);
  CHECK(count(svg, "class=\"hatch\"") == 1);
  CHECK(well_formed(plot::heatmap(full({2, 2}, NAN), {}).svg()));
}

TEST_CASE("masked cells are hatched grey, and are not part of the scale") {
  const Tensor w = tensor({{0.5, 7., 7.}, {0.25, 0.75, 7.}, {0.25, 0.25, 0.5}});
  const auto options = plot::Options().mask(tril(ones({3, 3}, boolean)));
  const std::string svg = plot::heatmap(w, options).svg();
  for (const char* cell : {"0 → 1", "0 → 2", "1 → 2"}) CHECK(cell_color(svg, cell) == "#eceff2");
  CHECK(cell_color(svg, "1 → 1") == "#08306b");
  CHECK(cell_color(plot::heatmap(w, plot::Options(options).vmin(0.25)).svg(), "1 → 0") == "#f7fbff");
  CHECK(count(svg, "<title>0 → 1: masked</title>") == 1);
  CHECK(count(svg, "class=\"hatch\"") == 1);
  CHECK(count(svg, ">7.000</text>") == 0);
  // heads: one mask for all of them, or one for each
  const Tensor two = stack({w, w});
  for (const Tensor& mask :
       {tril(ones({3, 3}, boolean)), tril(ones({1, 3, 3}, boolean)), tril(ones({2, 3, 3}, boolean))})
    CHECK(count(plot::heads(two, plot::Options().mask(mask)).svg(), "#eceff2") == 6);
  // a large map is an image; its hatching is the same
  CHECK(count(plot::heatmap(ones({100, 100}), plot::Options().mask(tril(ones({100, 100}, boolean)))).svg(),
              "class=\"hatch\"") == 1);
  CHECK(terminal(w, plot::Options(options).colorbar(false).annotate(false), plot::Colors::never).find("////") !=
        std::string::npos);
  CHECK_THROWS_WITH(plot::heatmap(w, plot::Options().mask(ones({2, 3}, boolean))), Contains("must broadcast"));
  CHECK_THROWS_WITH(plot::heatmap(w, plot::Options().mask(ones({3, 3}))), Contains("mask"));
}

TEST_CASE("names of a letter or two never turn") {
  const std::vector<std::string> letters(40, "m"), long_names(40, "monday");
  CHECK(count(plot::heatmap(ones({40, 40}), plot::Options().x(letters)).svg(), "rotate(") == 0);
  CHECK(count(plot::heatmap(ones({40, 40}), plot::Options().x(long_names)).svg(), "rotate(") > 0);
}

TEST_CASE("a heat map in the terminal fits its width") {
  const Environment width("COLUMNS", "30");
  std::istringstream lines(terminal(rand({32, 32}), plot::Options().colorbar(false), plot::Colors::never));
  std::size_t rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) CHECK(line.size() <= 30);
  CHECK(rows > 8);
}

TEST_CASE("streams to a terminal have colours, unless the environment forbids them") {
  const Environment term("TERM", "xterm"), no_color("NO_COLOR", nullptr), columns("COLUMNS", nullptr);
  bool out = false, error = false, log = false, other = false, dumb = true, forbidden = true, empty = false;
  {
    const PseudoTerminal terminal;  // no check inside: its message would be lost
    std::ostringstream text;
    out = plot::has_colors(std::cout), error = plot::has_colors(std::cerr), log = plot::has_colors(std::clog);
    other = plot::has_colors(text);
    {
      const Environment set("TERM", "dumb");
      dumb = plot::has_colors(std::cout);
    }
    {
      const Environment set("NO_COLOR", "1");
      forbidden = plot::has_colors(std::cout);
    }
    {
      const Environment set("NO_COLOR", "");
      const Environment unknown("TERM", nullptr);
      empty = plot::has_colors(std::cout);
    }
  }
  CHECK((out && error && log && empty));
  CHECK_FALSE((other || dumb || forbidden));
  const Environment set("NO_COLOR", "1");
  std::ostringstream text;
  CHECK(plot::has_colors(text, plot::Colors::always));
  CHECK_FALSE(plot::has_colors(text, plot::Colors::never));
}

TEST_CASE("a heat map is as narrow as the terminal that it is printed to") {
  const Environment columns("COLUMNS", nullptr);
  const auto widest = [](std::ostream& out) {
    std::ostringstream said;
    std::streambuf* const before = out.rdbuf(said.rdbuf());
    plot::print_heatmap(out, ones({2, 32}), plot::Options().colorbar(false), plot::Colors::never);
    out.rdbuf(before);
    std::istringstream lines(said.str());
    std::size_t width = 0;
    for (std::string line; std::getline(lines, line);) width = std::max(width, line.size());
    return width;
  };
  std::size_t width[3];
  {
    const PseudoTerminal terminal;  // of 40 columns; no check inside: its message would be lost
    width[0] = widest(std::cout), width[1] = widest(std::cerr), width[2] = widest(std::clog);
  }
  for (const std::size_t w : width) CHECK((w > 20 && w <= 40));
  std::ostringstream other;
  CHECK(widest(other) > 60);
}

TEST_CASE("a coloured heat map shows masked cells, its values and its colour bar, and drops values that don't fit") {
  const Tensor m = tensor({{0.25, 0.5}, {1., std::nan("")}}), mask = tensor({{true, true}, {false, true}});
  const auto options = plot::Options().mask(mask);
  const std::string text = terminal(m, options, plot::Colors::always);
  CHECK_THAT(text, Contains("0.25") && Contains("0.5") && !Contains("1.0"));
  CHECK(count(text, "\x1b[0m") == 3);  // two rows and the bar
  CHECK(count(text, "\x1b[48;2;") > 4 + 16);
  CHECK_THAT(terminal(m, options, plot::Colors::never), Contains("??") && Contains("//"));
  const Environment narrow("COLUMNS", "8");
  CHECK_THAT(terminal(m, options, plot::Colors::never), !Contains("0.25 "));
  CHECK_THAT(terminal(m, plot::Options(options).annotate(true).colorbar(false), plot::Colors::never),
             !Contains("0.25"));
  const Environment tiny("COLUMNS", "1");  // one cell is the least
  CHECK(count(terminal(ones({4, 4}), plot::Options().colorbar(false), plot::Colors::never), "\n") == 2);
}

TEST_CASE("a constant matrix has one colour, in the middle of its scale") {
  const std::string svg = plot::heatmap(full({2, 2}, 0.1), {}).svg();
  CHECK(cell_color(svg, "0 → 0") == cell_color(svg, "1 → 1"));
  CHECK(count(svg, "colours from 0 to 0.2") == 1);
  CHECK(well_formed(plot::heatmap(zeros({1, 1}), {}).svg()));
}

TEST_CASE("a large matrix is one image, and at most 64 labels are drawn along an axis") {
  const std::string svg = plot::heatmap(ones({70, 90}), {}).svg();
  CHECK(well_formed(svg));
  CHECK(count(svg, "class=\"cell\"") == 0);
  CHECK(count(svg, "image-rendering:pixelated") == 1);
  CHECK(count(svg, "<text") < 64 + 64 + 8);
  const std::vector<std::string> many(64, "word");
  CHECK(count(plot::heatmap(ones({64, 64}), plot::Options().x(many).y(many)).svg(), ">word</text>") == 128);
}

TEST_CASE("heads share a scale and one colour bar") {
  const Tensor w = tensor(
      {{{0.5, 0.25, 0.25}, {0., 1., 0.}, {0.125, 0.375, 0.5}}, {{0.5, 0.5, 0.}, {0.5, 0.25, 0.25}, {0., 0., 0.}}});
  const std::string svg = plot::heads(w, words, "Two heads").svg();
  CHECK(well_formed(svg));
  CHECK(count(svg, "class=\"cell\"") == 18);
  CHECK(count(svg, ">Head 1<") == 1);
  CHECK(count(svg, ">Head 2<") == 1);
  CHECK(count(svg, "<image") == 1);
  CHECK(count(svg, ">Attention weight<") == 1);
  CHECK(count(svg, "fill=\"#08306b\"") == 1);  // 1 is there in the first head only
  Tensor batch = full({2, 2, 3, 3}, 7);        // the first is drawn, whatever the others are
  std::copy(w.data<float>().begin(), w.data<float>().end(), batch.edit<float>().begin());
  CHECK(plot::heads(batch, words, "Two heads").svg() == svg);
}

TEST_CASE("figures side by side keep what they show, under one title") {
  const plot::Figure a = plot::heatmap(weights(), plot::Options().title("A")),
                     b = plot::heatmap(weights(), plot::Options().title("B"));
  const plot::Figure both = plot::side_by_side({a, b}, "Both");
  CHECK(well_formed(both.svg()));
  CHECK(both.width() >= a.width() + b.width());
  CHECK(both.height() > a.height());
  for (const char* name : {">A<", ">B<", ">Both<"}) CHECK(count(both.svg(), name) == 1);
  CHECK(count(both.svg(), "class=\"panel\"") == 2);
  // Three of them are wider than a page: the third stands below.
  const auto wide = plot::Options().x({"a long name", "b", "c"}).y({"a very long name of a row", "b", "c"});
  const plot::Figure one = plot::heatmap(weights(), wide);
  const std::size_t many = static_cast<std::size_t>(1000 / one.width()) + 1;
  const plot::Figure rows = plot::side_by_side(std::vector<plot::Figure>(many, one));
  CHECK(rows.width() <= 1000);
  CHECK(rows.height() == Approx(2 * one.height()));
  CHECK(count(rows.svg(), "class=\"panel\"") == static_cast<std::int64_t>(many));
  CHECK_THROWS_WITH(plot::side_by_side({}), Contains("[plot::side_by_side]"));
}

TEST_CASE("curves go through their points, from corner to corner") {
  const std::string svg = plot::lines({{"loss", {10, 15, 20}, {4, 2, 0}}},
                                      plot::LineOptions().title("Training").xlabel("Step").ylabel("Loss"))
                              .svg();
  CHECK(well_formed(svg));
  CHECK(count(svg, "class=\"curve\"") == 1);
  for (const char* name : {">loss<", ">Training<", ">Step<", ">Loss<", ">10<", ">20<"}) CHECK(count(svg, name) == 1);
  const std::size_t at = svg.find(" d=\"") + 4;
  double x[3], y[3];
  REQUIRE(std::sscanf(svg.c_str() + at, "M%lf %lfL%lf %lfL%lf %lf", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]) == 6);
  CHECK(x[1] - x[0] == Approx(x[2] - x[1]).margin(0.02));
  CHECK(y[1] - y[0] == Approx(y[2] - y[1]).margin(0.02));
  CHECK(y[2] > y[0]);  // down the page
}

TEST_CASE("a curve is interrupted where it is not finite, and where a logarithm has no value") {
  const auto pieces = [](const std::vector<double>& y, bool log) {
    auto options = plot::LineOptions().log_y(log);
    const std::string svg = plot::lines({{"", y}}, options).svg();
    const std::size_t at = svg.find(" d=\"") + 4;
    return count(svg.substr(at, svg.find('"', at) - at), "M");
  };
  CHECK(pieces({1, 2, 3, 4}, false) == 1);
  CHECK(pieces({1, 2, NAN, 4, 5}, false) == 2);
  CHECK(pieces({1, 2, 0, 4, 5}, false) == 1);
  CHECK(pieces({1, 2, 0, 4, -5, 3}, true) == 3);
}

TEST_CASE("a logarithmic axis has powers of ten at equal distances") {
  const auto options = plot::LineOptions().log_y();
  const std::string svg = plot::lines({{"", {0.01, 1, 100}}}, options).svg();
  for (const char* tick : {">0.01<", ">0.1<", ">1<", ">10<", ">100<"}) CHECK(count(svg, tick) >= 1);
}

TEST_CASE("a noisy curve turns pale behind its running mean") {
  auto options = plot::LineOptions().smooth();
  std::vector<double> y;
  for (int i = 0; i < 400; ++i) y.push_back(i % 2 == 0 ? 10 : 20);
  y[100] = NAN;
  const std::string svg = plot::lines({{"loss", y}}, options).svg();
  CHECK(well_formed(svg));
  REQUIRE(count(svg, "class=\"curve\"") == 2);
  CHECK(count(svg, ">loss<") == 1);
  CHECK(count(svg, "stroke-opacity=\"0.25\"") == 1);
  const auto heights = [&](std::size_t from) {  // of the points of the path behind it, the lowest and the highest
    const std::size_t begin = svg.find(" d=\"", from) + 4, end = svg.find('"', begin);
    CHECK(count(svg.substr(begin, end - begin), "M") == 2);
    double low = INFINITY, high = -INFINITY, a = 0, b = 0;
    for (std::size_t at = begin; at < end; ++at)
      if ((svg[at] == 'M' || svg[at] == 'L') && std::sscanf(svg.c_str() + at + 1, "%lf %lf", &a, &b) == 2)
        low = std::min(low, b), high = std::max(high, b);
    return std::pair(low, high);
  };
  const auto [top, bottom] = heights(svg.find("class=\"curve\""));
  const auto [highest, lowest] = heights(svg.rfind("class=\"curve\""));
  CHECK(lowest - highest < (bottom - top) * 0.25);  // 9 neighbours, of which at the most one more is 10 than 20
  CHECK((highest + lowest) / 2 == Approx((top + bottom) / 2).epsilon(0.05));
  y.resize(199);
  CHECK(count(plot::lines({{"loss", y}}, options).svg(), "class=\"curve\"") == 1);
}

TEST_CASE("a long curve keeps its peaks") {
  std::vector<double> y(100000, 1.0);
  y[54321] = 7;
  const std::string svg = plot::lines({{"", y}}).svg();
  CHECK(svg.size() < 100000);
  CHECK(count(svg, ">6<") == 1);  // a tick near the peak
  std::vector<double> flat(100000, 1.0);
  CHECK(svg != plot::lines({{"", flat}}).svg());
}

TEST_CASE("the same input gives the same bytes") {
  const auto picture = [] { return plot::heads(full({2, 3, 3}, 0.5), words).svg(); };
  CHECK(picture() == picture());
  CHECK(plot::positional(128, 100).svg() == plot::positional(128, 100).svg());
}

TEST_CASE("positional draws the map and the curves of the dimensions that there are") {
  const std::string svg = plot::positional(20, 10).svg();
  CHECK(well_formed(svg));
  CHECK(count(svg, "class=\"curve\"") == 3);  // 4, 5 and 16; 32 is beyond
  CHECK(count(svg, "class=\"cell\"") == 200);
  CHECK(cell_color(svg, "1 → 0") == "#053061");  // cos 0 = 1
  CHECK(count(plot::positional(3, 2).svg(), "class=\"curve\"") == 0);
}

TEST_CASE("sinusoidal positions follow their formula") {
  const Tensor p = nn::sinusoidal_positions(100, 128);
  REQUIRE(p.shape() == Shape{100, 128});
  for (const std::int64_t t : {0, 1, 57, 99})
    for (const std::int64_t c : {0, 1, 4, 5, 63, 126, 127}) {
      const double angle = static_cast<double>(t) / std::pow(10000, static_cast<double>(c / 2 * 2) / 128);
      CHECK(p.data<float>()[t * 128 + c] == Approx(c % 2 ? std::cos(angle) : std::sin(angle)).margin(1e-6));
    }
  CHECK(nn::sinusoidal_positions(2, 3)[{1, 2}].item() == Approx(std::sin(std::pow(10000, -2.0 / 3))));
  CHECK(nn::sinusoidal_positions(0, 8).shape() == Shape{0, 8});
  CHECK_THROWS_WITH(nn::sinusoidal_positions(-1, 8), Contains("[sinusoidal_positions] T is -1"));
}

TEST_CASE("pictures refuse what cannot be drawn") {
  CHECK_THROWS_WITH(plot::heatmap(ones({3}), {}),
                    Contains("[plot::heatmap]") && Contains("[3]") && Contains("two axes"));
  CHECK_THROWS_WITH(plot::heatmap(ones({0, 3}), {}), Contains("[0, 3]"));
  CHECK_THROWS_WITH(plot::heatmap(weights(), plot::Options().x({"a", "b"})),
                    Contains("2 column labels were given for 3"));
  CHECK_THROWS_WITH(plot::heads(ones({3, 3}), words), Contains("[plot::heads]") && Contains("[3, 3]"));
  CHECK_THROWS_WITH(plot::heads(ones({2, 0, 3}), words), Contains("[2, 0, 3]"));
  CHECK_THROWS_AS(plot::lines({}), Error);
  CHECK_THROWS_WITH(plot::lines({{"a", {1}, {1, 2}}}), Contains("curve 'a' has 1 x and 2 y"));
  CHECK_THROWS_WITH(plot::lines({{"a", {NAN}}}),
                    Contains("no point can be drawn: there must be one with a finite x and a finite y at least"));
  CHECK_THROWS_AS(plot::positional(0, 5), Error);
  auto options = plot::Options().vmin(1).vmax(0);
  CHECK_THROWS_WITH(plot::heatmap(weights(), options), Contains("vmin must be less than vmax"));
  options.vmax(NAN);
  CHECK_THROWS_AS(plot::heatmap(weights(), options), Error);
}

TEST_CASE("save makes the folders, and names the path where it cannot write") {
  const auto folder = std::filesystem::temp_directory_path() / "fit_plot_test";
  std::filesystem::remove_all(folder);
  const std::string path = (folder / "a" / "b.svg").string();
  const plot::Figure figure = plot::heatmap(weights(), {});
  figure.save(path);
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == figure.svg());
  CHECK_THROWS_AS(figure.save(path + "/c.svg"), FileError);  // a file where a folder should be
  CHECK_THROWS_WITH(figure.save((folder / "a").string()), Contains((folder / "a").string()));
  std::filesystem::remove_all(folder);
}

TEST_CASE("the terminal's heat map is shaded without colours") {
  const std::string text = terminal(weights(), plot::Options().title("Title").x(words).y(words), plot::Colors::never);
  CHECK(text ==
        "    Title\n"
        "The == 0.500 :: 0.250 :: 0.250 \n"
        "cat    0.000 @@ 1.000    0.000 \n"
        "sat .. 0.125 -- 0.375 == 0.500 \n"
        "       The      cat      sat\n"
        "    0.000 [ .:-=+*#%@] 1.000\n");
  CHECK(terminal(weights(), plot::Options().title("Title").x(words).y(words), plot::Colors::automatic) ==
        text);  // not a terminal
}

TEST_CASE("the terminal's heat map has a coloured background for each cell") {
  const std::string text =
      terminal(weights(), plot::Options().title("").x(words).y(words).colorbar(false), plot::Colors::always);
  CHECK(count(text, "\x1b[48;2;") == 9);
  CHECK(count(text, "\x1b[48;2;8;48;107m\x1b[38;2;255;255;255m 1.000 ") == 1);
  CHECK(count(text, "\x1b[48;2;247;251;255m\x1b[38;2;0;0;0m 0.000 ") == 2);
  CHECK(count(text, "\x1b[0m\n") == 3);
}

TEST_CASE("the terminal's heat map averages a large matrix and writes long labels downwards") {
  Tensor m = zeros({64, 64});
  m.edit<float>()[1] = 4;  // in the block of rows 0, 1 and columns 0, 1
  const std::string text = terminal(m, plot::Options().colorbar(false), plot::Colors::never);
  CHECK(text.substr(0, 7) == " 0 @@  ");
  CHECK(count(text, "@") == 2);
  CHECK(count(text, "\n") == 32 + 1);
  CHECK(count(text, "   0   4   8   12") == 1);  // every other one of 0, 2, …
  CHECK_THROWS_WITH(terminal(ones({2}), {}, plot::Colors::never), Contains("[plot::print_heatmap]"));
  const std::vector<std::string> names(13, "né");
  const std::string down = terminal(zeros({13, 13}), plot::Options().x(names).y(names), plot::Colors::never);
  CHECK(count(down, "é") == 13 + 13);
}

TEST_CASE("a confusion matrix is drawn as shares of its rows") {
  metrics::ConfusionMatrix m(3);
  m.add(tensor({0, 0, 1, 1}), tensor({0, 0, 0, 1}));
  const std::string svg = plot::confusion(m, {"cat", "dog", "eel"}, "Pets").svg();
  CHECK_THAT(svg, Contains("Pets") && Contains("cat") && Contains("eel") && Contains("Predicted") && Contains("Right"));
  CHECK(test::count(svg, ">0.66") == 1);  // two of three cats
  CHECK(test::count(svg, ">0.33") == 1);
  CHECK_THAT(plot::confusion(m).svg(), Contains("Confusion"));
  CHECK_THROWS_AS(plot::confusion(m, {"cat", "dog"}), Error);
}

}  // namespace fit::test::plot_test
