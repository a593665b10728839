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

// What is drawn.
struct Links {
  std::int64_t heads = 0;
  std::vector<std::string> queries, keys;
  std::vector<Link> list;    // the strongest last
  std::vector<bool> broken;  // queries with a weight that is not finite
  double largest = 0;
  std::vector<std::string> notes;
};

// Adds the positive weights of w [H, Sq, Sk].
void add_weights(Links& links, const Tensor& w) {
  const std::int64_t Sq = w.size(1), Sk = w.size(2);
  const std::vector<double> values = w.to_vector<double>();
  links.broken.resize(static_cast<std::size_t>(Sq));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Link link{at / (Sq * Sk), at / Sk % Sq, at % Sk, values[i]};
    if (link.weight < 0)
      check::fail(token_lines_op, "weights has the value ", link.weight, ": attention weights are not negative");
    if (std::isfinite(link.weight))
      links.largest = std::max(links.largest, link.weight);
    else
      links.broken[link.query] = true;
    if (link.weight > 0 && std::isfinite(link.weight)) links.list.push_back(link);
  }
}

// Removes weak links, and notes what the figure does not show.
void keep_strongest(Links& links, double least) {
  auto& list = links.list;
  const auto weak = [&](const Link& l) { return l.weight < least * links.largest; };
  list.erase(std::remove_if(list.begin(), list.end(), weak), list.end());
  std::stable_sort(list.begin(), list.end(), [](const Link& a, const Link& b) { return a.weight < b.weight; });
  if (list.size() > most_lines) {
    links.notes.push_back("The " + std::to_string(most_lines) + " strongest of " + std::to_string(list.size()) +
                          " lines.");
    list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(most_lines));
  }
  if (const auto n = std::count(links.broken.begin(), links.broken.end(), true); n > 0)
    links.notes.push_back(counted(n, "query has a weight that is", "queries have weights that are") + " not finite.");
}

// Queries in a left column, keys in a right one, links between them, a title and heads above, notes below.
class TokenLines {
 public:
  TokenLines(const TokenLinesOptions& options, const Links& links) : options_(options), links_(links) {}

  Figure figure() {
    if (!title_.empty())
      drawing_.text(middle(), padding + title_size * 0.8, title_, {title_size, Anchor::middle, look_.ink, true});
    for (const Link& l : links_.list) draw(l);
    draw_columns();
    if (links_.heads > 1) draw_heads();
    double note_y = top_ + rows_ * row_height;
    for (const std::string& s : links_.notes)
      drawing_.text(middle(), note_y += 16, s, {tick_size, Anchor::middle, look_.soft_ink});
    const double width = right_ + gap + side(links_.keys, key_label_) + padding;
    const double height = top_ + rows_ * row_height + 16 * static_cast<double>(links_.notes.size()) + padding;
    return {width, height, options_.theme(), std::move(drawing_)};
  }

 private:
  double middle() const { return (left_ + right_) / 2; }
  // The width beside the field: a column, its heading, and half of what is wider than the field.
  double side(const std::vector<std::string>& column, const std::string& label) const {
    double widest = title_width(title_, title_size);
    for (const std::string& s : links_.notes) widest = std::max(widest, text_width(s, tick_size));
    return std::max({column_width(column), title_width(label, label_size), widest / 2 - field_width / 2 - gap});
  }
  // The shorter column is centred.
  double y_of(std::int64_t i, const std::vector<std::string>& column) const {
    return top_ + (static_cast<double>(i) + 0.5 + (rows_ - static_cast<double>(column.size())) / 2) * row_height;
  }

  void draw(const Link& l) {
    const double from = y_of(l.query, links_.queries), to = y_of(l.key, links_.keys);
    const double strength = l.weight / links_.largest, bend = field_width * 0.4;
    Path line{{{Step::Kind::move, left_, from}, {Step::Kind::curve, right_, to, left_ + bend, from, right_ - bend, to}},
              series_color(look_, static_cast<std::size_t>(l.head)),
              0.6 + (most_width - 0.6) * strength,
              0.12 + 0.73 * strength,
              "link"};
    line.title = links_.queries[l.query] + " → " + links_.keys[l.key] + ": " + fixed(l.weight, 3) +
                 (links_.heads > 1 ? ", head " + std::to_string(l.head + 1) : "");
    drawing_.add(std::move(line));
  }

  void draw_columns() {
    const double before = left_ - gap, behind = right_ + gap;
    drawing_.text(before, top_ - 10, query_label_, {label_size, Anchor::end, look_.ink, true, 0, "axis"});
    drawing_.text(behind, top_ - 10, key_label_, {label_size, Anchor::start, look_.ink, true, 0, "axis"});
    for (std::size_t i = 0; i < links_.queries.size(); ++i)
      drawing_.text(before, y_of(static_cast<std::int64_t>(i), links_.queries) + label_size * 0.36, links_.queries[i],
                    {label_size, Anchor::end, links_.broken[i] ? look_.stroke : look_.ink});
    for (std::size_t i = 0; i < links_.keys.size(); ++i)
      drawing_.text(behind, y_of(static_cast<std::int64_t>(i), links_.keys) + label_size * 0.36, links_.keys[i],
                    {label_size, Anchor::start, look_.ink});
  }

  void draw_heads() {
    const std::int64_t named = std::min<std::int64_t>(links_.heads, 7);
    const double step = 62;
    double x = middle() - static_cast<double>(named) * step / 2;
    for (std::int64_t h = 0; h < named; ++h, x += step) {
      drawing_.add(Dot{x + 4, head_top_ + 4, 4, series_color(look_, static_cast<std::size_t>(h))});
      drawing_.text(x + 12, head_top_ + 8, "Head " + std::to_string(h + 1), {tick_size, Anchor::start, look_.soft_ink});
    }
  }

  const TokenLinesOptions& options_;
  const Links& links_;
  const Look& look_ = look_of(options_.theme());
  const std::string title_ = shorten(printable(options_.title()), longest_title);
  const std::string query_label_ = shorten(printable(options_.query_label()), longest_label);
  const std::string key_label_ = shorten(printable(options_.key_label()), longest_label);
  const double left_ = padding + side(links_.queries, query_label_) + gap, right_ = left_ + field_width;
  const double head_top_ = padding + (title_.empty() ? 0 : 28), top_ = head_top_ + (links_.heads > 1 ? 20 : 0) + 22;
  const double rows_ = static_cast<double>(std::max(links_.queries.size(), links_.keys.size()));
  Drawing drawing_;
};

}  // namespace

Figure token_lines(const Tensor& weights, const TokenLinesOptions& options) {
  const NoGrad no_grad;
  const Tensor w = of_heads(weights);
  Links links;
  links.heads = w.size(0);
  links.queries = labels_of(token_lines_op, "query", options.queries(), w.size(1));
  links.keys = labels_of(token_lines_op, "key", options.keys(), w.size(2));
  if (!(options.least() >= 0 && options.least() < 1))
    check::fail(token_lines_op, "least is ", options.least(), ": it must be in 0 … 1, without 1");
  add_weights(links, w);
  keep_strongest(links, options.least());
  return TokenLines(options, links).figure();
}

Figure token_lines(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title) {
  return token_lines(weights, TokenLinesOptions().title(title).queries(tokens).keys(tokens));
}

}  // namespace fit::plot
