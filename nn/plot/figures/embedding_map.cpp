#include <algorithm>
#include <cmath>
#include <map>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/frame.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr const char* embedding_map_op = "plot::embedding_map";

struct Position {
  double x, y;
};

void check_count(const char* name, std::size_t given, std::int64_t rows) {
  if (given != 0 && static_cast<std::int64_t>(given) != rows)
    check::fail(embedding_map_op, given, ' ', name, " were given for ", rows,
                " rows: there must be one for each, or none");
}

// The right singular vectors of x [N, D] that belong to its two largest singular values, as columns [D, 2], and the
// squares of all its singular values, the largest first.
struct PrincipalAxes {
  Tensor axes, squares;
};

PrincipalAxes principal_axes(const Tensor& x) {
  // The right singular vectors of a tall matrix are those of x' x, which is small; its singular values are the squares.
  const bool tall = x.size(0) > x.size(1);
  const auto [u, s, v] = svd(tall ? matmul(transpose(x), x) : x);
  const Tensor axes = v[{range(), range(0, 2)}];
  const Tensor largest = take_along(axes, 0, argmax(abs(axes), 0, keepdims));
  return {axes * sign(largest), tall ? s : s * s};
}

struct Area {
  double left, top, right, bottom;
  bool meets(const Area& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

// Writes names beside points where they overlap nothing.
class Names {
 public:
  Names(const Frame& frame, const std::vector<Position>& points, double radius) : frame_(frame), radius_(radius) {
    for (const Position p : points) take({p.x - radius, p.y - radius, p.x + radius, p.y + radius});
  }

  // Returns false if every position overlaps something.
  bool write(Drawing& drawing, Position p, const std::string& name) {
    const double w = text_width(name, tick_size), up = 0.75 * tick_size, gap = radius_ + 2;
    const auto at = [&](double left, double line) { return Area{left, line - up, left + w, line + 0.22 * tick_size}; };
    const double middle = p.y + 0.36 * tick_size;
    for (const Area& a :
         {at(p.x + gap, middle), at(p.x - gap - w, middle), at(p.x - w / 2, p.y - gap), at(p.x - w / 2, p.y + gap + up),
          at(p.x + 0.7 * gap, p.y - 0.7 * gap), at(p.x - 0.7 * gap - w, p.y - 0.7 * gap),
          at(p.x + 0.7 * gap, p.y + 0.7 * gap + up), at(p.x - 0.7 * gap - w, p.y + 0.7 * gap + up)}) {
      const bool inside =
          a.left > frame_.left() && a.right < frame_.right() + 14 && a.top > frame_.top() && a.bottom < frame_.bottom();
      if (!inside || is_taken(a)) continue;
      drawing.text(a.left, a.top + up, name, {tick_size, Anchor::start, frame_.look().ink});
      take(a);
      return true;
    }
    return false;
  }

 private:
  // Occupied areas are indexed by the grid squares that they touch.
  template <class F>
  static bool any_square(const Area& a, const F& f) {
    constexpr double side = 24;
    for (int x = static_cast<int>(std::floor(a.left / side)); x <= static_cast<int>(std::floor(a.right / side)); ++x)
      for (int y = static_cast<int>(std::floor(a.top / side)); y <= static_cast<int>(std::floor(a.bottom / side)); ++y)
        if (f(std::pair(x, y))) return true;
    return false;
  }
  void take(const Area& a) {
    any_square(a, [&](const std::pair<int, int>& square) {
      taken_[square].push_back(a);
      return false;
    });
  }
  bool is_taken(const Area& a) {
    return any_square(a, [&](const std::pair<int, int>& square) {
      const auto& there = taken_[square];
      return std::any_of(there.begin(), there.end(), [&](const Area& t) { return t.meets(a); });
    });
  }

  const Frame& frame_;
  double radius_;
  std::map<std::pair<int, int>, std::vector<Area>> taken_;
};

void check_options(const Tensor& embeddings, const EmbeddingMapOptions& options) {
  check::defined(embedding_map_op, "embeddings", embeddings);
  if (embeddings.rank() != 2 || embeddings.size(1) < 2)
    check::fail(embedding_map_op, "embeddings is ", embeddings.shape(),
                ": it must be (N, D), a row for each token, D at least 2");
  const std::int64_t rows = embeddings.size(0);
  check_count("tokens", options.tokens().size(), rows);
  check_count("groups", options.groups().size(), rows);
  for (const std::int64_t g : options.groups())
    if (g < 0) check::fail(embedding_map_op, "groups has ", g, ": groups are numbered from 0");
}

// The finite rows, along their two principal axes.
struct Projection {
  std::vector<std::size_t> rows;
  std::vector<Position> scores;  // of each of these rows
  double shares[2];              // of the variance, along each axis
};

Projection project(const Tensor& embeddings) {
  const Tensor values = embeddings.to(float64);
  const Tensor finite = flatten(nonzero(all(isfinite(values), 1)));
  if (finite.numel() < 2)
    check::fail(embedding_map_op, "embeddings is ", embeddings.shape(), " with ", finite.numel(),
                " finite rows: it needs two at least");
  const Tensor x = index_select(values, 0, finite);
  const Tensor centered = x - mean(x, 0, keepdims);
  const PrincipalAxes principal = principal_axes(centered);
  const double variance = sum(principal.squares).item();
  const std::vector<double> coordinates = matmul(centered, principal.axes).to_vector<double>();
  Projection p;
  for (const std::int64_t row : finite.data<std::int64_t>()) p.rows.push_back(static_cast<std::size_t>(row));
  for (std::size_t i = 0; i < coordinates.size(); i += 2) p.scores.push_back({coordinates[i], coordinates[i + 1]});
  for (const int k : {0, 1}) p.shares[k] = variance > 0 ? principal.squares[k].item() / variance : 0;
  return p;
}

std::string percent(double share) { return fixed(100 * share, share < 0.0995 ? 1 : 0) + " %"; }

// Draws a dot for each row, and names. Returns the number of names without room.
std::int64_t draw_rows(Frame& f, const Projection& p, const EmbeddingMapOptions& options) {
  const std::size_t n = p.rows.size();
  const double radius = n > 3000 ? 1.4 : n > 500 ? 2.2 : 3.2, opacity = n > 3000 ? 0.4 : n > 500 ? 0.6 : 0.85;
  f.begin();
  std::vector<Position> points;
  points.reserve(n);
  for (const Position at : p.scores) points.push_back({f.at_x(at.x), f.at_y(at.y)});
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t row = p.rows[i];
    const std::size_t group = options.groups().empty() ? 0 : static_cast<std::size_t>(options.groups()[row]);
    const std::string name = options.tokens().empty() ? std::to_string(row) : options.tokens()[row];
    f.drawing.add(Dot{points[i].x, points[i].y, radius, series_color(f.look(), group), opacity,
                      shorten(printable(name), longest_label)});
  }
  Names names(f, points, radius);
  std::int64_t unnamed = 0;
  for (std::size_t i = 0; i < n && !options.tokens().empty(); ++i)
    unnamed += !names.write(f.drawing, points[i], shorten(printable(options.tokens()[p.rows[i]]), 20));
  return unnamed;
}

}  // namespace

Figure embedding_map(const Tensor& embeddings, const EmbeddingMapOptions& options) {
  check_options(embeddings, options);
  const NoGrad no_grad;
  const Projection p = project(embeddings);
  Frame frame;
  frame.title = options.title(), frame.theme = options.theme();
  frame.field_width = 500, frame.field_height = 400;
  frame.xlabel = "Component 1 (" + percent(p.shares[0]) + " of the variance)";
  frame.ylabel = "Component 2 (" + percent(p.shares[1]) + " of the variance)";
  for (const Position at : p.scores) frame.x.include(at.x), frame.y.include(at.y);
  frame.x.finish(embedding_map_op, "x", 0.08, 7);
  frame.y.finish(embedding_map_op, "y", 0.08, 6);
  const std::int64_t rows = embeddings.size(0), n = static_cast<std::int64_t>(p.rows.size());
  if (n < rows)
    frame.notes.push_back(std::to_string(rows - n) + " of " + std::to_string(rows) +
                          " rows are not finite, and left out.");
  // The notes need the number of names that fit, and are placed before the field is. So the names are counted first.
  Frame trial = frame;
  if (const std::int64_t unnamed = draw_rows(trial, p, options); unnamed > 0)
    frame.notes.push_back(std::to_string(unnamed) + " of " + std::to_string(n) + " names have no room.");
  draw_rows(frame, p, options);
  return frame.end();
}

Figure embedding_map(const Tensor& embeddings, const std::vector<std::string>& tokens, const std::string& title) {
  return embedding_map(embeddings, EmbeddingMapOptions().title(title).tokens(tokens));
}

}  // namespace fit::plot
