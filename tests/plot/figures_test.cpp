// What figures look like, whatever the names are.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "fit/ops/ops.hpp"
#include "fit/plot.hpp"
#include "fit/tensor/random.hpp"
#include "fit/workbench.hpp"
#include "plot/figures/text.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/text.hpp"

namespace fit::test::figures_test {
using Catch::Matchers::Contains;
using fit::test::count;

namespace {

const std::vector<std::string> hostile_names{"<script>alert(1)</script>",
                                             "&",
                                             "]]>",
                                             "\"'`${alert(3)}",
                                             "שלום עולם",
                                             "\xe2\x80\xae"
                                             "evil",
                                             "🐈‍⬛",
                                             std::string("\x00\x01\x1b[31m\x7f", 9),
                                             "\n",
                                             "",
                                             std::string(10000, 'x'),
                                             "\xff\xfe",
                                             "\xef\xbf\xbf\xef\xbf\xbe",  // not allowed in XML
                                             "\xc2\x85\xe2\x80\xa8"};

std::vector<plot::Figure> all_figures(const std::vector<std::string>& names, plot::Theme theme) {
  manual_seed(1);
  const auto n = static_cast<std::int64_t>(names.size());
  const std::string title = names.back() + names.front();
  const Tensor w = softmax(randn({2, n, n}), -1);
  const auto o = plot::Options().title(title).x(names).y(names).xlabel(title).ylabel(title).theme(theme);
  const auto l = plot::TokenLinesOptions().title(title).queries(names).keys(names).theme(theme);
  const auto h = plot::HistogramOptions().title(title).xlabel(title).theme(theme);
  const auto e = plot::EmbeddingMapOptions().title(title).tokens(names).theme(theme);
  const auto line = plot::LineOptions().title(title).xlabel(title).ylabel(title).theme(theme);
  std::vector<plot::Curve> curves;
  StateDict values;
  for (std::size_t i = 0; i < 7; ++i) {
    curves.push_back({names[i % names.size()], {1, 2, static_cast<double>(i)}});
    values.emplace_back(names[i % names.size()], randn({20}));
  }
  std::vector<plot::Figure> all{plot::heatmap(w[0], o),
                                plot::heads(w, o),
                                plot::difference(w[0], w[1], o),
                                plot::token_lines(w, l),
                                plot::lines(curves, line),
                                plot::histogram(values, h),
                                plot::embedding_map(randn({n, 5}), e),
                                plot::positional(16, 8, theme)};
  all.push_back(plot::side_by_side({all[0], all[4]}, title));
  return all;
}

}  // namespace

TEST_CASE("the width of a text is the sum of its letters, and those that are not known are as wide as most") {
  CHECK(plot::text_width("", 10) == 0);
  CHECK(plot::text_width("m ~", 1024) == Approx(998 + 326 + 858));  // DejaVu Sans
  CHECK(plot::text_width("mm", 10) == Approx(2 * plot::text_width("m", 10)));
  CHECK(plot::text_width("m", 10) > 2 * plot::text_width("i", 10));
  CHECK(plot::text_width("ß", 10) == Approx(7));
  CHECK(plot::text_width("猫", 10) == 10);
  CHECK(plot::text_width("\xff", 10) == 10);  // one that stands for what is not UTF-8
}

TEST_CASE("what is drawn pale has an opacity") {
  const plot::Figure f = plot::histogram(tensor({0., 0., 0., 1.}), plot::HistogramOptions().title("H"));
  CHECK(count(f.svg(), "fill=\"#0072b2\" fill-opacity=\"0.65\"") == count(f.svg(), "class=\"bar\""));
}

TEST_CASE("files are SVG, the same bytes each time; the Error for a PNG has the command that makes it") {
  const Directory d;
  const plot::Figure f = plot::heatmap(eye(3), plot::Options().title("Title"));
  for (const char* name : {"new/c.svg", "new/d.SVG"}) {
    f.save(d.file(name));
    CHECK(get(d.file(name)) == f.svg());
  }
  CHECK(f.svg() == plot::heatmap(eye(3), plot::Options().title("Title")).svg());
  for (const char* name : {"d.jpg", "svg", "e", "d.svg.gz"})
    CHECK_THROWS_WITH(f.save(d.file(name)),
                      "[plot::save] " + d.file(name) + " can't be written: the name must end in .svg");
  CHECK_THROWS_AS(f.save(d.file("d.jpg")), FileError);
  for (const char* name : {"x.png", "x.PNG"})
    CHECK_THROWS_WITH(f.save(d.file(name)),
                      "[plot::save] " + d.file(name) + " can't be written: figures are SVG. Save " + d.file("x.svg") +
                          ", and convert it by: rsvg-convert " + d.file("x.svg") + " -o " + d.file(name));
}

TEST_CASE("a dark figure has a dark ground and light letters, and so for every kind") {
  const std::vector<std::string> names{"a", "b", "c"};
  const auto light = all_figures(names, plot::Theme::light), dark = all_figures(names, plot::Theme::dark);
  for (std::size_t i = 0; i < light.size(); ++i) {
    CAPTURE(i);
    CHECK(dark[i].theme() == plot::Theme::dark);
    CHECK(count(light[i].svg(), "height=\"100%\" fill=\"#ffffff\"") == 1);
    CHECK(count(dark[i].svg(), "height=\"100%\" fill=\"#0d1117\"") == 1);
    // Dark letters stand on light cells alone.
    CHECK(count(dark[i].svg(), "#1f2328") == count(dark[i].svg(), "fill=\"#1f2328\" text-anchor=\"middle\">"));
    CHECK(count(dark[i].svg(), "#e6edf3") > 0);
    CHECK(light[i].width() == dark[i].width());
  }
}

TEST_CASE("maps that are light in their middle turn dark on a dark ground") {
  auto o = plot::Options().theme(plot::Theme::dark).colormap(plot::Colormap::rdbu);
  CHECK(count(plot::heatmap(tensor({{-1., 0., 1.}}), o).svg(), "fill=\"#171c24\"") == 1);
  o.theme(plot::Theme::light);
  CHECK(count(plot::heatmap(tensor({{-1., 0., 1.}}), o).svg(), "fill=\"#f7f7f7\"") == 1);
}

TEST_CASE("figures side by side keep their grounds") {
  plot::Options dark;
  dark.theme(plot::Theme::dark);
  const plot::Figure a = plot::heatmap(eye(2)), b = plot::heatmap(eye(2), dark);
  CHECK(count(plot::side_by_side({a, a}).svg(), "#0d1117") == 0);
  CHECK(count(plot::side_by_side({a, b}).svg(), "fill=\"#0d1117\"") == 1);
}

TEST_CASE("hostile names are text in every figure, of both themes") {
  for (const plot::Theme theme : {plot::Theme::light, plot::Theme::dark})
    for (const plot::Figure& f : all_figures(hostile_names, theme)) {
      const std::string svg = f.svg();
      CHECK(count(svg, "<script") == 0);
      CHECK(count(svg, "]]>") == 0);
      CHECK(count(svg, std::string(200, 'x')) == 0);
      for (const char* bad : {"\xff", "\xef\xbf\xbf", "\xef\xbf\xbe", "\xe2\x80\xae", "\x1b", "\x7f", "\xc2\x85"})
        CHECK(count(svg, bad) == 0);
      CHECK(f.width() < 5000);
    }
}

TEST_CASE("ragged names are an Error in every figure") {
  const Tensor w = ones({2, 3, 3});
  const std::vector<std::string> two{"a", "b"};
  const auto o = plot::Options().y(two);
  CHECK_THROWS_WITH(plot::heads(w, o), Contains("2 row labels were given for 3"));
  CHECK_THROWS_WITH(plot::difference(w, w, o), Contains("2 row labels were given for 3"));
  CHECK_THROWS_WITH(plot::token_lines(w, plot::TokenLinesOptions().keys(two)),
                    Contains("[plot::token_lines] 2 key labels were given for 3"));
  CHECK_THROWS_WITH(plot::embedding_map(ones({3, 4}), two), Contains("2 tokens were given for 3 rows"));
  auto e = plot::EmbeddingMapOptions().groups({0, 1});
  CHECK_THROWS_WITH(plot::embedding_map(ones({3, 4}), e), Contains("2 groups were given for 3 rows"));
  e.groups({0, 1, -1});
  CHECK_THROWS_WITH(plot::embedding_map(ones({3, 4}), e), Contains("groups has -1"));
}

TEST_CASE("nothing to draw is an Error in every figure") {
  CHECK_THROWS_WITH(plot::heads(ones({0, 2, 3, 3})), Contains("[0, 2, 3, 3]"));
  CHECK_THROWS_WITH(plot::difference(ones({0, 3}), ones({0, 3})), Contains("[0, 3]"));
  CHECK_THROWS_WITH(plot::difference(ones({2, 3}), ones({3, 2})), Contains("a is [2, 3], b is [3, 2]"));
  CHECK_THROWS_AS(plot::difference(ones({3}), ones({3})), Error);
  CHECK_THROWS_WITH(plot::token_lines(ones({0, 2, 3, 3})), Contains("[0, 2, 3, 3]"));
  CHECK_THROWS_WITH(plot::token_lines(ones({3})), Contains("[3]"));
  CHECK_THROWS_WITH(plot::token_lines(ones({2, 200})), Contains("at most 128 tokens") && Contains("heatmap"));
  CHECK_THROWS_WITH(plot::token_lines(tensor({{-0.5}})), Contains("-0.5"));
  CHECK_THROWS_WITH(plot::histogram(ones({0})), Contains("no finite value"));
  CHECK_THROWS_WITH(plot::histogram(full({3}, NAN)), Contains("no finite value among 3"));
  CHECK_THROWS_WITH(plot::histogram(StateDict{}), Contains("[plot::histogram]"));
  CHECK_THROWS_WITH(plot::embedding_map(ones({1, 4})), Contains("1 finite rows"));
  CHECK_THROWS_WITH(plot::embedding_map(ones({4, 1})), Contains("[4, 1]"));
  CHECK_THROWS_AS(plot::embedding_map(full({5, 4}, NAN)), Error);
  auto h = plot::HistogramOptions().bins(0);
  CHECK_THROWS_WITH(plot::histogram(ones({3}), h), Contains("bins is 0"));
  h.bins(1001);
  CHECK_THROWS_WITH(plot::histogram(ones({3}), h), Contains("bins is 1001: it must be in 1 … 1000"));
  h.bins(2).low(-1.5e308).high(1.5e308);
  CHECK_THROWS_WITH(plot::histogram(ones({3}), h), Contains("low must be less than high, and both finite"));
  CHECK_THROWS_WITH(plot::embedding_map(ones({4})), Contains("[4]"));
  CHECK_THROWS_WITH(plot::heads(ones({1, 1, 1, 3, 3})), Contains("[1, 1, 1, 3, 3]"));
  CHECK_THROWS_WITH(plot::heads(ones({3, 3})), Contains("[3, 3]"));
  CHECK_THROWS_WITH(plot::token_lines(ones({1, 1, 1, 3, 3})), Contains("[1, 1, 1, 3, 3]"));
  CHECK_THROWS_WITH(plot::difference(ones({1, 1, 1, 3, 3}), ones({1, 1, 1, 3, 3})), Contains("[1, 1, 1, 3, 3]"));
  CHECK_THROWS_WITH(plot::positional(0, 8), Contains("d_model is 0, T is 8"));
  CHECK_THROWS_WITH(plot::positional(8, 0), Contains("d_model is 8, T is 0"));
  CHECK_THROWS_WITH(plot::heatmap(ones({2, 2}), plot::Options().vmin(2).vmax(1)),
                    Contains("vmin must be less than vmax"));
  CHECK_THROWS_WITH(plot::heatmap(ones({2, 2}), plot::Options().vmin(-1.5e308).vmax(1.5e308)), Contains("both finite"));
  h.bins(10).low(2).high(1);
  CHECK_THROWS_WITH(plot::histogram(ones({3}), h), Contains("low must be less than high"));
}

TEST_CASE("a histogram chooses its bins by the values, and its axis by its options") {
  const auto labels = [](const std::string& svg, const std::string& label) { return count(svg, '>' + label + '<'); };
  const auto logarithmic = plot::HistogramOptions().log_y(true);
  const std::string log = plot::histogram(tensor({1., 1., 1., 2.}), logarithmic).svg();
  CHECK(count(log, "class=\"bar\"") == 2);
  CHECK(labels(log, "1") >= 1);
  CHECK(labels(log, "0") == 0);  // a logarithm begins above 0
  CHECK(count(plot::histogram(tensor({0., 0., 5.}), plot::HistogramOptions().low(-0.5).high(0.5)).svg(),
              "1 value is outside, and left out.") == 1);
  // Whole numbers that are too large to have a bin each, and constants.
  for (const double sign : {1., -1.})
    CHECK(count(plot::histogram(tensor({sign * 2e9, sign * 3e9})).svg(), "class=\"bar\"") == 2);
  CHECK(count(plot::histogram(tensor({0.5, 0.5})).svg(), "class=\"bar\"") == 1);
  CHECK(count(plot::histogram(zeros({3}), plot::HistogramOptions().bins(3)).svg(), "class=\"bar\"") == 1);
  CHECK(count(plot::histogram(full({3}, 2.5), plot::HistogramOptions().high(5)).svg(), "class=\"bar\"") == 1);
  CHECK(count(plot::histogram(full({3}, 2.5), plot::HistogramOptions().low(0)).svg(), "class=\"bar\"") == 1);
}

TEST_CASE("grids of heads are nearly square, and values and names are drawn on request") {
  for (const std::int64_t heads : {1, 3, 4, 5, 6, 7, 8, 12, 13}) {
    const plot::Figure f = plot::heads(softmax(rand({heads, 4, 4})));
    CHECK(count(f.svg(), ">Head ") == heads);
    if (heads > 3) CHECK(f.width() < 2.5 * f.height());
  }
  const Tensor w = full({2, 3, 3}, 0.25);
  CHECK(count(plot::heads(w).svg(), ">0.250<") == 0);
  CHECK(count(plot::heads(w, plot::Options().annotate(true)).svg(), ">0.250<") == 18);
  // An image has no values in it.
  CHECK(count(plot::heatmap(ones({70, 90}), plot::Options().annotate(true)).svg(), ">1<") == 0);
  CHECK(count(plot::heatmap(full({2, 2}, 1234567.)).svg(), "<title>0 → 0: 1.23e6</title>") == 1);
  CHECK(count(plot::heatmap(tensor({{100.5, -1.5}})).svg(), "<title>0 → 0: 100.5</title>") == 1);
  CHECK(count(plot::heatmap(tensor({{static_cast<double>(INFINITY), 1.}})).svg(), "<title>0 → 0: ∞</title>") == 1);
  // No cell is wide enough to be crossed by a line of the hatch: nothing is hatched.
  const Tensor tall = ones({1, 2});
  CHECK(count(plot::heatmap(tall, plot::Options().mask(tensor({{false, true}}))).svg(), "class=\"hatch\"") == 1);
  const std::vector<std::string> words(300, "word");
  CHECK(count(plot::heatmap(ones({300, 2}), plot::Options().y(words)).svg(), ">word<") <= 64);
  CHECK(
      count(plot::heatmap(ones({2, 2}), plot::Options().theme(plot::Theme::dark).colormap(plot::Colormap::blues)).svg(),
            "<svg") == 1);
}

TEST_CASE("axes have readable numbers, whatever their range is") {
  const auto svg = [](const std::vector<double>& y, const plot::LineOptions& o = {}) {
    return plot::lines({{"", y}}, o).svg();
  };
  CHECK(count(svg({0, 4e6}), ">2e6<") + count(svg({0, 4e6}), ">2000000<") == 1);
  CHECK(count(svg({0, 1e-9}), "e-10<") > 0);
  const auto log = plot::LineOptions().log_y(true);
  CHECK(count(svg({5, 5.0001}, log), "class=\"curve\"") == 1);  // between two powers of ten: round numbers
  CHECK(count(svg({1, 1e20}, log), ">1e+20<") + count(svg({1, 1e20}, log), ">1e20<") <= 1);
  CHECK(count(svg({0, 0}), "class=\"curve\"") == 1);
  CHECK_THROWS_WITH(svg({-1, 0}, log), Contains("no point can be drawn"));
  CHECK_THROWS_WITH(svg({NAN}), Contains("there must be one with a finite x and a finite y at least"));
  std::vector<plot::Curve> gap{{"", {1, 2, 3}}};
  gap[0].x = {1, -1, 10};
  CHECK(count(plot::lines(gap, plot::LineOptions().log_x(true)).svg(), "class=\"curve\"") == 1);
}

TEST_CASE("points of an embedding map shrink when there are many, and names keep inside the field") {
  const auto radius = [](std::int64_t n) {
    manual_seed(3);
    const std::string svg = plot::embedding_map(randn({n, 3})).svg();
    double r = 0;
    REQUIRE(std::sscanf(svg.c_str() + svg.find(" r=\""), " r=\"%lf\"", &r) == 1);
    return r;
  };
  CHECK(radius(10) > radius(501));
  CHECK(radius(501) > radius(3001));
  // Names at the corners turn inwards.
  const std::string corners =
      plot::embedding_map(tensor({{-1., -1.}, {-1., 1.}, {1., -1.}, {1., 1.}}),
                          {std::string(15, 'a'), std::string(15, 'b'), std::string(15, 'c'), std::string(15, 'd')})
          .svg();
  for (const char letter : {'a', 'b', 'c', 'd'})
    CHECK(count(corners, '>' + std::string(15, letter) + '<') == 2);  // the name, and what a pointer shows
  CHECK(count(plot::embedding_map(tensor({{1., 0.}, {0., 1.}})).svg(), "Component 2 (0.0 % of the variance)") == 1);
}

TEST_CASE("letters without a width, and text of any bytes") {
  for (const char* c : {"\u0301", "\u200b", "\u202b", "\u2061", "\ufe0f", "\ufeff", "\u00ad"})
    CHECK(plot::text_width(c, 1) == 0);
  for (const char* c : {"a", "\u02ff", "\u0370", "\u200a", "\u2010", "\u2029", "\u202f", "\u205f", "\u2070", "\ufdff",
                        "\ufe10", "\u00ac", "\u00ae"})
    CHECK(plot::text_width(c, 1) > 0);
  CHECK(plot::printable("a\u2028b\u2029c") == "a b c");
  CHECK(plot::printable("\u2066\u202a") == "\ufffd\ufffd");
  CHECK(plot::printable("\u2065\u206a") == "\u2065\u206a");
  CHECK(plot::shorten("é→x", 2) == "é…");
  CHECK(plot::coordinate(2) == "2");
  const auto figure = plot::heatmap(ones({2, 2}));
  const auto before = std::filesystem::current_path();
  const auto folder = std::filesystem::temp_directory_path() / "fit-figure-here";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  figure.save("here.svg");  // without a folder
  CHECK(std::filesystem::exists("here.svg"));
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

TEST_CASE("what is not finite is left out with a note") {
  Tensor w = full({2, 3, 3}, 1.0 / 3);
  w[{1, 2}] = NAN;
  CHECK(count(plot::token_lines(w).svg(), "1 query has a weight that is not finite.") == 1);
  CHECK(count(plot::token_lines(w).svg(), "class=\"link\"") == 15);
  CHECK(count(plot::token_lines(full({3, 3}, NAN)).svg(), "3 queries have weights that are not finite.") == 1);
  CHECK(count(plot::token_lines(full({3, 3}, NAN)).svg(), "class=\"link\"") == 0);
  CHECK(count(plot::histogram(tensor({1., NAN, 2., INFINITY})).svg(), "2 values are not finite, and left out.") == 1);
  Tensor e = randn({4, 3});
  e[{1, 0}] = NAN;
  CHECK(count(plot::embedding_map(e).svg(), "1 of 4 rows are not finite, and left out.") == 1);
  CHECK(count(plot::embedding_map(e).svg(), "<circle") == 3);
}

TEST_CASE("ten thousand tokens are drawn in blocks with a note") {
  Tensor w = zeros({4, 10000});
  w[{0, range(9000, 10000)}] = 1;
  const std::vector<std::string> names(10000, "token");
  const plot::Figure f = plot::heatmap(w, plot::Options().x(names));
  CHECK(count(f.svg(), "Each point is the mean of 1 x 10 values.") == 1);
  CHECK(count(f.svg(), ">token</text>") <= 64);
  CHECK(f.width() < 1500);
  CHECK(f.svg().size() < 500000);
  CHECK(count(plot::heatmap(ones({4, 1024})).svg(), "Each point") == 0);
  CHECK(count(plot::heads(ones({2, 3, 3000})).svg(), "Each point is the mean of 1 x 3 values.") == 1);
  // The page, too.
  AttentionRecording recording;
  const std::vector<std::string> keys(10000, "<b>");
  recording.add("attention", w.unsqueeze(0), AttentionRecordOptions().kind(AttentionKind::cross).keys(keys));
  const std::string page = plot::workbench(recording);
  CHECK(count(page, "4 queries and 10000 keys are shown in blocks of 1 x 20") == 1);
  CHECK(page.size() < 500000);
}

TEST_CASE("a difference is signed, with the same scale on both sides") {
  const Tensor a = tensor({{0.5, 0.25}, {0., 0.}}), b = tensor({{0., 0.5}, {0., 0.}});
  const std::string svg = plot::difference(a, b).svg();
  CHECK(count(svg, "colours from -0.5 to 0.5") == 1);
  CHECK(count(svg, "<title>0 → 1: -0.250</title>") == 1);
  CHECK(count(svg, "fill=\"#053061\"") == 1);  // a is larger: blue
  CHECK(count(svg, "fill=\"#f7f7f7\"") == 2);
  const std::string heads = plot::difference(unsqueeze(a, 0), unsqueeze(b, 0)).svg();
  CHECK(count(heads, ">Head 1<") == 1);
  CHECK(count(heads, "colours from -0.5 to 0.5") == 1);
  CHECK(count(plot::difference(a, a).svg(), "colours from -1 to 1") == 1);
  CHECK(count(plot::difference(a, b, plot::Options().vmax(2)).svg(), "colours from -2 to 2") == 1);
  // Whole numbers of other types, and no overflow on the way.
  CHECK(count(plot::difference(tensor({{3}}), tensor({{5}})).svg(), "<title>0 → 0: -2</title>") == 1);
}

TEST_CASE("lines between tokens are as strong as the weights") {
  const Tensor w = tensor({{0.75, 0.25, 0.}, {0.001, 0.5, 0.499}});
  auto o = plot::TokenLinesOptions().queries({"q1", "q2"}).keys({"k1", "k2", "k3"});
  const std::string svg = plot::token_lines(w, o).svg();
  CHECK(count(svg, "class=\"link\"") == 4);  // neither 0 nor 0.001, which is less than a hundredth of the largest
  CHECK(count(svg, "<title>q1 → k1: 0.750</title>") == 1);
  CHECK(svg.find("q1 → k2") < svg.find("q1 → k1"));  // the strongest in front
  CHECK(count(svg, "stroke-width=\"6\"") == 1);
  o.least(0);
  CHECK(count(plot::token_lines(w, o).svg(), "class=\"link\"") == 5);
  o.least(1);
  CHECK_THROWS_WITH(plot::token_lines(w, o), Contains("least is 1"));
  const std::string many = plot::token_lines(full({128, 128}, 1.0 / 128)).svg();
  CHECK(count(many, "The 2000 strongest of 16384 lines.") == 1);
  CHECK(count(many, "class=\"link\"") == 2000);
  CHECK(count(plot::token_lines(full({1, 3, 2, 2}, 0.5)).svg(), ">Head 3<") == 1);
}

TEST_CASE("a histogram counts each value once") {
  const auto bars = [](const std::string& svg) {
    std::vector<std::string> all;
    for (std::size_t at = svg.find("<rect class=\"bar\""); at != std::string::npos;
         at = svg.find("<rect class=\"bar\"", at + 1)) {
      const std::size_t begin = svg.find("<title>", at) + 7;
      all.push_back(svg.substr(begin, svg.find('<', begin) - begin));
    }
    return all;
  };
  auto o = plot::HistogramOptions().bins(2);
  CHECK(bars(plot::histogram(tensor({0., 1., 2., 3., 4.}), o).svg()) ==
        std::vector<std::string>{"0 … 2: 2", "2 … 4: 3"});
  CHECK(bars(plot::histogram(tensor({1, 1, 3})).svg()) == std::vector<std::string>{"0.5 … 1.5: 2", "2.5 … 3.5: 1"});
  CHECK(bars(plot::histogram(full({5}, 0.3)).svg()).size() == 1);
  o.low(1).high(3);
  const std::string cut = plot::histogram(tensor({0., 1., 2., 3., 4.}), o).svg();
  CHECK(bars(cut) == std::vector<std::string>{"1 … 2: 1", "2 … 3: 2"});
  CHECK(count(cut, "2 values are outside, and left out.") == 1);
  const std::string two = plot::histogram({{"before", tensor({0., 1.})}, {"after", tensor({1., 2.})}}).svg();
  CHECK(count(two, ">before<") == 1);
  CHECK(count(two, ">after<") == 1);
  CHECK(count(two, "class=\"histogram\"") == 2);
  const StateDict many(9, {"p", tensor({0., 1.})});
  CHECK(count(plot::histogram(many).svg(), "All values of 9 tensors.") == 1);
  CHECK(count(plot::histogram(many).svg(), "class=\"histogram\"") == 1);
  // NumPy: len(np.histogram_bin_edges(np.arange(1000) ** 2 / 1000, "auto")) - 1 = 11; Freedman and Diaconis' rule, 10.0
  Tensor squares = arange(1000).to(float64);
  squares = squares * squares / 1000.;
  CHECK(bars(plot::histogram(squares).svg()).size() == 11);
}

TEST_CASE("an embedding map shows the two directions of the largest variance") {
  // Points of an ellipse in a plane of five dimensions; the tall and the wide case.
  for (const std::int64_t n : {4, 12}) {
    Tensor x = zeros({n, 5}, float64);
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = 2 * std::acos(-1.0) * static_cast<double>(i) / static_cast<double>(n);
      x[{i, 1}] = 3 * std::cos(angle) + 10;
      x[{i, 3}] = std::sin(angle);
    }
    const std::string svg = plot::embedding_map(x).svg();
    CHECK(count(svg, "Component 1 (90 % of the variance)") == 1);
    CHECK(count(svg, "Component 2 (10 % of the variance)") == 1);
    CHECK(count(svg, "<circle") == n);
    double cx[12], cy[12];
    std::size_t at = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      at = svg.find("<circle", at + 1);
      REQUIRE(std::sscanf(svg.c_str() + at, "<circle cx=\"%lf\" cy=\"%lf\"", &cx[i], &cy[i]) == 2);
    }
    CHECK(cx[0] == Approx(*std::max_element(cx, cx + n)).margin(0.02));  // cos 0 = 1, to the right
    CHECK(cy[n / 4] == Approx(*std::min_element(cy, cy + n)).margin(0.02));
    CHECK(cy[0] == Approx((cy[n / 4] + cy[3 * n / 4]) / 2).margin(0.02));
  }
  const Tensor x = randn({40, 6});
  std::vector<std::string> words;
  std::vector<std::int64_t> groups;
  for (int i = 0; i < 40; ++i) words.push_back("word" + std::to_string(i)), groups.push_back(i % 2);
  const std::string svg = plot::embedding_map(x, plot::EmbeddingMapOptions().tokens(words).groups(groups)).svg();
  CHECK(count(svg, "fill=\"#0072b2\"") == 20);
  CHECK(count(svg, "fill=\"#d55e00\"") == 20);
  const std::string crowded =
      plot::embedding_map(cat({ones({30, 2}), zeros({1, 2})}), std::vector<std::string>(31, "w")).svg();
  CHECK(count(crowded, "of 31 names have no room.") == 1);
  CHECK(count(plot::embedding_map(ones({3, 2})).svg(), "Component 1 (0.0 % of the variance)") == 1);
}

TEST_CASE("a curve may have a band, dashes, or both") {
  const auto curve = plot::Curve("forecast", {0, 1, 2}, {1, 2, 3}).low({0, 1, 2}).high(tensor({2., 3., 10.}));
  const std::string svg = plot::lines({curve, plot::Curve("truth", {1, 2, 2.5}).dashed()}).svg();
  CHECK(count(svg, "class=\"band\"") == 1);
  CHECK(count(svg, ">10<") == 1);              // the axis holds the band
  CHECK(count(svg, "stroke-dasharray") == 2);  // of the curve, and in the legend
  // Up along the high edge, back along the low one.
  const std::size_t at = svg.find(" d=\"", svg.find("class=\"band\"")) + 4;
  double x[6], y[6];
  REQUIRE(std::sscanf(svg.c_str() + at, "M%lf %lfL%lf %lfL%lf %lfL%lf %lfL%lf %lfL%lf %lfZ", &x[0], &y[0], &x[1], &y[1],
                      &x[2], &y[2], &x[3], &y[3], &x[4], &y[4], &x[5], &y[5]) == 12);
  CHECK((x[0] == x[5] && x[1] == x[4] && x[2] == x[3] && x[0] < x[1]));
  for (int i = 0; i < 3; ++i) CHECK(y[i] < y[5 - i]);
  const auto gap = plot::Curve("", {1, 2, 3, 4, 5}).low({0, 1, NAN, 3, 4}).high({2, 3, 4, 5, 6});
  CHECK(count(plot::lines({gap}).svg(), "class=\"band\"") == 2);
  CHECK_THROWS_WITH(plot::lines({plot::Curve("a", {1, 2}).low({0, 0})}),
                    Contains("curve 'a' has 2 y, and an edge of its band 0"));
  // Colours come again with dashes.
  CHECK(count(plot::lines(std::vector<plot::Curve>(9, plot::Curve("", {1, 2}))).svg(), "stroke-dasharray") == 2);
}

TEST_CASE("a legend that is too long says how much is left out") {
  std::vector<plot::Curve> curves;
  for (int i = 0; i < 40; ++i) curves.push_back({"c" + std::to_string(i), {0, 1.0 * i}});
  const std::string svg = plot::lines(curves).svg();
  CHECK(count(svg, ">… and 27 more<") == 1);
  CHECK(count(svg, ">c12<") == 1);
  CHECK(count(svg, ">c13<") == 0);
}

}  // namespace fit::test::figures_test
