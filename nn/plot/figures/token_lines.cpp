#include <algorithm>
#include <cmath>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/drawing.hpp"
#include "plot/figures/matrix.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr const char* token_lines_op = "plot::token_lines";
constexpr double row_height = 22, field_width = 280, gap = 8, most_width = 6;
constexpr std::int64_t most_tokens = 128;
constexpr std::size_t most_lines = 2000;

struct Link {
  std::int64_t head, query, key;
  double weight;
};

// As (H, Sq, Sk).
Tensor of_heads(const Tensor& weights) {
  check::floating(token_lines_op, "weights", weights);
  const int rank = weights.rank();
  if (rank < 2 || rank > 4 || weights.numel() == 0)
    check::fail(token_lines_op, "weights is ", weights.shape(),
                ": it must be (Sq, Sk), (H, Sq, Sk) or (B, H, Sq, Sk), no axis of size 0");
  if (std::max(weights.size(-2), weights.size(-1)) > most_tokens)
    check::fail(token_lines_op, "weights is ", weights.shape(), ": at most ", most_tokens,
                " tokens on a side can be drawn as lines; give a part of them, or draw a heatmap()");
  return (rank == 2 ? Tensor(weights[{newaxis}]) : rank == 4 ? Tensor(weights[0]) : weights).to(float64);
}

double column_width(const std::vector<std::string>& names) {
  double widest = 0;
  for (const std::string& s : names) widest = std::max(widest, text_width(s, label_size));
  return widest;
}

}  // namespace

Figure token_lines(const Tensor& weights, const TokenLinesOptions& options) {
  const NoGrad no_grad;
  const Tensor w = of_heads(weights);
  const std::int64_t H = w.size(0), Sq = w.size(1), Sk = w.size(2);
  const auto queries = labels_of(token_lines_op, "query", options.queries(), Sq),
             keys = labels_of(token_lines_op, "key", options.keys(), Sk);
  if (!(options.least() >= 0 && options.least() < 1))
    check::fail(token_lines_op, "least is ", options.least(), ": it must be in 0 … 1, without 1");

  std::vector<Link> links;
  std::vector<bool> broken(static_cast<std::size_t>(Sq), false);
  const std::vector<double> values = w.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Link link{at / (Sq * Sk), at / Sk % Sq, at % Sk, values[i]};
    if (link.weight < 0)
      check::fail(token_lines_op, "weights has the value ", link.weight, ": attention weights are not negative");
    if (std::isfinite(link.weight))
      largest = std::max(largest, link.weight);
    else
      broken[link.query] = true;
    if (link.weight > 0 && std::isfinite(link.weight)) links.push_back(link);
  }
  const auto weak = [&](const Link& l) { return l.weight < options.least() * largest; };
  links.erase(std::remove_if(links.begin(), links.end(), weak), links.end());
  std::vector<std::string> notes;
  std::stable_sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.weight < b.weight; });
  if (links.size() > most_lines) {
    notes.push_back("The " + std::to_string(most_lines) + " strongest of " + std::to_string(links.size()) + " lines.");
    links.erase(links.begin(), links.end() - static_cast<std::ptrdiff_t>(most_lines));
  }
  if (const auto n = std::count(broken.begin(), broken.end(), true); n > 0)
    notes.push_back(counted(n, "query has a weight that is", "queries have weights that are") + " not finite.");

  const Look& look = look_of(options.theme());
  const std::string title = shorten(printable(options.title()), longest_title);
  const std::string query_label = shorten(printable(options.query_label()), longest_label);
  const std::string key_label = shorten(printable(options.key_label()), longest_label);
  double widest = title_width(title, title_size);
  for (const std::string& s : notes) widest = std::max(widest, text_width(s, tick_size));
  const double left = std::max({padding + column_width(queries), padding + title_width(query_label, label_size),
                                padding + widest / 2 - field_width / 2 - gap}) +
                      gap;
  const double right = left + field_width;
  const double heads_height = H > 1 ? 20 : 0;
  const double head_top = padding + (title.empty() ? 0 : 28), top = head_top + heads_height + 22;
  const double rows = static_cast<double>(std::max(Sq, Sk));
  const double width =
      right + gap +
      std::max({column_width(keys), title_width(key_label, label_size), widest / 2 - field_width / 2 - gap}) + padding;
  const double height = top + rows * row_height + 16 * static_cast<double>(notes.size()) + padding;
  const auto y_of = [&](std::int64_t i, std::int64_t n) {  // the shorter column is centred
    return top + (static_cast<double>(i) + 0.5 + (rows - static_cast<double>(n)) / 2) * row_height;
  };

  Drawing drawing;
  const double middle = (left + right) / 2;
  if (!title.empty())
    drawing.text(middle, padding + title_size * 0.8, title, {title_size, Anchor::middle, look.ink, true});
  for (const Link& l : links) {
    const double from = y_of(l.query, Sq), to = y_of(l.key, Sk), strength = l.weight / largest;
    const double bend = field_width * 0.4;
    Path line{{{Step::Kind::move, left, from}, {Step::Kind::curve, right, to, left + bend, from, right - bend, to}},
              series_color(look, static_cast<std::size_t>(l.head)),
              0.6 + (most_width - 0.6) * strength,
              0.12 + 0.73 * strength,
              "link"};
    line.title = queries[l.query] + " → " + keys[l.key] + ": " + fixed(l.weight, 3) +
                 (H > 1 ? ", head " + std::to_string(l.head + 1) : "");
    drawing.add(std::move(line));
  }
  drawing.text(left - gap, top - 10, query_label, {label_size, Anchor::end, look.ink, true});
  drawing.text(right + gap, top - 10, key_label, {label_size, Anchor::start, look.ink, true});
  for (std::int64_t i = 0; i < Sq; ++i)
    drawing.text(left - gap, y_of(i, Sq) + label_size * 0.36, queries[i],
                 {label_size, Anchor::end, broken[i] ? look.stroke : look.ink});
  for (std::int64_t i = 0; i < Sk; ++i)
    drawing.text(right + gap, y_of(i, Sk) + label_size * 0.36, keys[i], {label_size, Anchor::start, look.ink});
  if (H > 1) {
    const std::int64_t named = std::min<std::int64_t>(H, 7);
    const double step = 62;
    double x = middle - static_cast<double>(named) * step / 2;
    for (std::int64_t h = 0; h < named; ++h, x += step) {
      drawing.add(Dot{x + 4, head_top + 4, 4, series_color(look, static_cast<std::size_t>(h))});
      drawing.text(x + 12, head_top + 8, "Head " + std::to_string(h + 1), {tick_size, Anchor::start, look.soft_ink});
    }
  }
  double note_y = top + rows * row_height;
  for (const std::string& s : notes) drawing.text(middle, note_y += 16, s, {tick_size, Anchor::middle, look.soft_ink});
  return {width, height, options.theme(), std::move(drawing)};
}

Figure token_lines(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title) {
  return token_lines(weights, TokenLinesOptions().title(title).queries(tokens).keys(tokens));
}

}  // namespace fit::plot
