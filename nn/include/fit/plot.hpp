#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/option.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Pictures of attention and of training: SVG and PNG files that any browser opens, and heat maps in the terminal.
///
///     const auto look = plot::Options().title("Self-attention").x(words).y(words).xlabel("Key").ylabel("Query");
///     plot::heatmap(weights[0], look).save("out/attention.svg");
///     plot::histogram(model.named_parameters()).save("out/parameters.png");
///     plot::print_heatmap(std::cout, weights[0], look);
///
/// The origin is top left, queries go down, keys go right. The same input gives the same bytes. A file holds
/// everything it needs: no script, no font, nothing from a network. Labels are UTF-8; what has no form in a PNG's
/// letters (which are Latin, Greek and Cyrillic) is a box there. Labels and titles that are very long are cut off with
/// "…".
namespace fit::plot {

/// viridis and blues run from low to high; rdbu (red, white, blue) diverges from 0 in its middle. night and dusk are
/// blues and rdbu for a dark ground, and take their place there.
enum class Colormap { viridis, blues, night, rdbu, dusk };

/// What a figure is drawn on: white, or nearly black.
enum class Theme { light, dark };

/// How a heat map looks. What is left out is chosen by the data.
struct Options {
  FIT_OPTION(std::string, title);           ///< The title above the map.
  FIT_OPTION(std::vector<std::string>, x);  ///< The names of the columns; 0, 1, … if empty.
  FIT_OPTION(std::vector<std::string>, y);  ///< The names of the rows; 0, 1, … if empty.
  FIT_OPTION(std::string, xlabel);          ///< The name of the horizontal axis.
  FIT_OPTION(std::string, ylabel);          ///< The name of the vertical axis.
  /// The value of the first colour; else the data's smallest. A diverging map is the same on both sides of 0.
  FIT_OPTION(std::optional<double>, vmin);
  FIT_OPTION(std::optional<double>, vmax);        ///< The value of the last colour; else the data's largest.
  FIT_OPTION(std::optional<Colormap>, colormap);  ///< viridis if not given; rdbu in a difference.
  FIT_OPTION(std::optional<bool>, annotate);      ///< The value in each cell; if not given: up to 12 rows and columns.
  FIT_OPTION(bool, colorbar) = true;              ///< Whether there is a colour bar.
  FIT_OPTION(std::string, bar_label);             ///< The name of the colour bar.
  FIT_OPTION(Theme, theme) = Theme::light;        ///< What the figure is drawn on.
};

class Drawing;

/// A picture.
class Figure {
 public:
  Figure(double width, double height, Theme theme, Drawing drawing);
  double width() const { return width_; }
  double height() const { return height_; }
  Theme theme() const { return theme_; }
  const Drawing& drawing() const { return *drawing_; }
  /// The whole SVG document.
  std::string svg() const;
  /// The bytes of a PNG with `scale` pixels for each that the figure is wide and high: 2 is sharp on fine screens and
  /// in print. Throws Error for a scale that is not positive, and for more than 64 million pixels.
  std::string png(double scale = 2) const;
  /// Writes it to a file whose name ends in .svg or .png, and whose folders are made where they are missing. Throws
  /// FileError, which names the path.
  void save(const std::string& path) const;

 private:
  double width_, height_;
  Theme theme_;
  std::shared_ptr<const Drawing> drawing_;
};

/// A matrix [rows, columns] as coloured cells. Cells that are not finite are grey with a stroke through them. At most
/// 64 labels are drawn along an axis, then every k-th. More than 1024 rows or columns are drawn as the means of blocks,
/// which a note says. Throws Error for another rank, for an axis of size 0 and for labels that are not as many as rows
/// or columns.
Figure heatmap(const Tensor& matrix, const Options& options = {});

/// A grid with one heat map for each head, on one scale and with one colour bar, of weights (H, Sq, Sk) or
/// (B, H, Sq, Sk), of which the first of the batch is drawn. The scale begins at 0 unless options say otherwise.
Figure heads(const Tensor& weights, const Options& options = {});
/// The same with the same tokens along both axes.
Figure heads(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title = "");

/// a - b, two matrices or the weights of heads of one shape, in colours that diverge from 0: blue where a is larger,
/// red where b is. The scale is the same on both sides unless options say otherwise. Throws Error if the shapes differ.
Figure difference(const Tensor& a, const Tensor& b, const Options& options = {});

/// What token_lines() draws.
struct TokenLinesOptions {
  FIT_OPTION(std::string, title);                  ///< The title above the lines.
  FIT_OPTION(std::vector<std::string>, queries);   ///< The names of the queries; 0, 1, … if empty.
  FIT_OPTION(std::vector<std::string>, keys);      ///< The names of the keys; 0, 1, … if empty.
  FIT_OPTION(std::string, query_label) = "Query";  ///< The heading of the queries.
  FIT_OPTION(std::string, key_label) = "Key";      ///< The heading of the keys.
  FIT_OPTION(double, least) = 0.01;                ///< Weights below this fraction of the largest are not drawn.
  FIT_OPTION(Theme, theme) = Theme::light;         ///< What the figure is drawn on.
};

/// Attention as lines from the queries, on the left, to the keys, on the right: the larger the weight, the stronger the
/// line. weights (Sq, Sk); or of heads, in seven colours by turns: (H, Sq, Sk) or (B, H, Sq, Sk), of which the first
/// of the batch is drawn. Of more than 2000 lines the strongest are drawn, and a note says so; another tells of rows
/// that are not finite. Throws Error for another rank, an axis of size 0, names that are not as many as tokens, a
/// weight below 0, and more than 128 tokens on a side.
Figure token_lines(const Tensor& weights, const TokenLinesOptions& options = {});
/// The same with the same tokens on both sides.
Figure token_lines(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title = "");

/// Several figures in a row, under one title, in the theme of the first.
Figure side_by_side(const std::vector<Figure>& figures, const std::string& title = "");

/// A curve through (x[i], y[i]); x is 0, 1, … if empty. A value that is not finite interrupts it.
struct Curve {
  std::string label = "";
  std::vector<double> y = {}, x = {};
};

/// How lines() are drawn.
struct LineOptions {
  FIT_OPTION(std::string, title);    ///< The title above the lines.
  FIT_OPTION(std::string, xlabel);   ///< The name of the horizontal axis.
  FIT_OPTION(std::string, ylabel);   ///< The name of the vertical axis.
  FIT_OPTION(bool, smooth) = false;  ///< Curves of 200 points and more are pale, with their running mean over them.
  FIT_OPTION(bool, log_x) = false;   ///< A logarithmic horizontal axis; numbers that are not positive are not drawn.
  FIT_OPTION(bool, log_y) = false;   ///< A logarithmic vertical axis; numbers that are not positive are not drawn.
  FIT_OPTION(Theme, theme) = Theme::light;  ///< What the figure is drawn on.
};

/// Curves with axes, and with a legend if there are labels: a training's loss, for instance. Throws Error if there is
/// nothing to draw or if x and y of a curve differ in length.
Figure lines(const std::vector<Curve>& curves, const LineOptions& options = {});

/// How histogram() is drawn.
struct HistogramOptions {
  FIT_OPTION(std::string, title);                 ///< The title above the bars.
  FIT_OPTION(std::string, xlabel);                ///< The name of the axis of values.
  FIT_OPTION(std::string, ylabel) = "Count";      ///< The name of the axis of counts.
  FIT_OPTION(std::optional<std::int64_t>, bins);  ///< Chosen by the data if not given, at most 100.
  FIT_OPTION(std::optional<double>, low);         ///< Smaller values are not counted, and a note says so.
  FIT_OPTION(std::optional<double>, high);        ///< Larger values are not counted, and a note says so.
  FIT_OPTION(bool, log_y) = false;                ///< A logarithmic axis of counts.
  FIT_OPTION(Theme, theme) = Theme::light;        ///< What the figure is drawn on.
};

/// How often values occur, in bins of one width. As many bins as NumPy's "auto" gives: the more of Sturges' and of
/// Freedman and Diaconis' number; whole numbers of a small range get a bin each. Values that are not finite are left
/// out, and a note says so. Throws Error if none is left, for bins that are not in 1 … 1000, and unless low < high.
Figure histogram(const Tensor& values, const HistogramOptions& options = {});
/// Several in one picture, in the same bins, with a legend: model.named_parameters(), or {{"before", a}, {"after", b}}.
/// More than 7 are stacked into one, for they could not be told apart.
Figure histogram(const StateDict& values, const HistogramOptions& options = {});

/// How embedding_map() is drawn.
struct EmbeddingMapOptions {
  FIT_OPTION(std::string, title);                 ///< The title above the points.
  FIT_OPTION(std::vector<std::string>, tokens);   ///< A name for each row; no names are drawn if empty.
  FIT_OPTION(std::vector<std::int64_t>, groups);  ///< The group of each row, from 0: rows of a group share a colour.
  FIT_OPTION(Theme, theme) = Theme::light;        ///< What the figure is drawn on.
};

/// Embeddings (N, D) as points: their first two principal components, which are the two orthogonal directions of the
/// largest variance. Axes say what share of the variance they show. A direction is turned so that its largest component
/// is positive. Names that would cover others are left out, and a note says how many. Rows that are not finite are left
/// out. Throws Error for another rank, fewer than two finite rows or two columns, or tokens or groups that are not as
/// many as rows.
Figure embedding_map(const Tensor& embeddings, const EmbeddingMapOptions& options = {});
/// The same with names.
Figure embedding_map(const Tensor& embeddings, const std::vector<std::string>& tokens, const std::string& title = "");

/// The sinusoidal positions (fit/nn/position.hpp): T positions by d_model dimensions as a map, and the curves of some
/// dimensions beside it.
Figure positional(std::int64_t d_model, std::int64_t T, Theme theme = Theme::light);

/// Whether a heat map in the terminal has colours. automatic: if the stream is std::cout or std::cerr on a terminal,
/// the environment's NO_COLOR is empty and TERM is not "dumb".
enum class Colors { automatic, never, always };

/// A matrix in the terminal: in 24-bit colours, or else in the shades " .:-=+*#%@". A matrix of more than 32 rows or
/// columns is averaged down to that. Labels as in heatmap().
void print_heatmap(std::ostream& out, const Tensor& matrix, const Options& options = {},
                   Colors colors = Colors::automatic);

}  // namespace fit::plot
