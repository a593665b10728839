#pragma once
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::metrics {
class ConfusionMatrix;
}

/// Figures of attention and of training: SVG files for any browser, and heat maps in the terminal.
///
///     const auto look = plot::Options().title("Self-attention").x(words).y(words).xlabel("Key").ylabel("Query");
///     plot::heatmap(weights[0], look).save("out/attention.svg");
///     plot::histogram(model.named_parameters()).save("out/parameters.svg");
///     plot::print_heatmap(std::cout, weights[0], look);
///
/// The origin is top left. Queries go down, keys go right. The same input gives the same bytes. A file is
/// self-contained: it needs no script, font or network. Labels are UTF-8. Very long labels and
/// titles are cut off with "…".
namespace fit::plot {

/// viridis and blues run from low to high. rdbu (red, white, blue) diverges from 0 in its middle. On a dark background,
/// night and dusk replace blues and rdbu.
enum class Colormap { viridis, blues, night, rdbu, dusk };

/// The background of a figure: white, or nearly black.
enum class Theme { light, dark };

/// The options of a heat map. The defaults depend on the data.
struct Options {
  FIT_OPTION(std::string, title);           ///< The title above the map.
  FIT_OPTION(std::vector<std::string>, x);  ///< The names of the columns; 0, 1, … if empty.
  FIT_OPTION(std::vector<std::string>, y);  ///< The names of the rows; 0, 1, … if empty.
  FIT_OPTION(std::string, xlabel);          ///< The name of the horizontal axis.
  FIT_OPTION(std::string, ylabel);          ///< The name of the vertical axis.
  /// The value of the first colour; by default 0, or the min of the data if that is negative. A diverging map is
  /// symmetric about 0, and a constant matrix is in the middle of its scale.
  FIT_OPTION(std::optional<double>, vmin);
  /// The value of the last colour; by default the max of the data. The colour bar marks an end beyond which values lie
  /// by "≥" or "≤".
  FIT_OPTION(std::optional<double>, vmax);
  FIT_OPTION(std::optional<Colormap>, colormap);  ///< blues if not given; rdbu in a difference.
  /// Which cells count, as a mask of attention: boolean, broadcast to the matrix or to the heads; true = attends.
  /// Masked cells are hatched grey, and are not part of the scale. Scores of -inf are drawn in the same way.
  FIT_OPTION(Tensor, mask);
  /// Writes values into cells; by default up to 12 rows and columns. Cells of a given size that are too small for their
  /// values have none.
  FIT_OPTION(std::optional<bool>, annotate);
  FIT_OPTION(bool, colorbar) = true;        ///< Whether there is a colour bar.
  FIT_OPTION(std::string, bar_label);       ///< The name of the colour bar.
  FIT_OPTION(double, cell_size) = 0;        ///< The width and height of a cell in pixels. 0: as the matrix needs.
  FIT_OPTION(std::int64_t, columns) = 0;    ///< In heads(): the maps in a row. 0: the grid is nearly square.
  FIT_OPTION(Theme, theme) = Theme::light;  ///< The background.
};

class Drawing;

/// A figure.
class Figure {
 public:
  Figure(double width, double height, Theme theme, Drawing drawing);
  double width() const { return width_; }
  double height() const { return height_; }
  Theme theme() const { return theme_; }
  const Drawing& drawing() const { return *drawing_; }
  /// The same figure on a dark background, in the colours of Theme::dark. A dark figure stays as it is.
  Figure dark() const;
  /// The SVG document.
  std::string svg() const;
  /// Writes a .svg file, and creates missing folders. Throws FileError, which names the path, also for another ending:
  /// for .png it has the command that converts the SVG.
  void save(const std::string& path) const;

 private:
  double width_, height_;
  Theme theme_;
  std::shared_ptr<const Drawing> drawing_;
};

/// A matrix [rows, columns] as coloured cells. NaN and inf are grey with a diagonal stroke. An axis with more than 64
/// labels shows every k-th. More than 1024 rows or columns are drawn as means of blocks, with a note. Throws Error for
/// another rank, for an axis of size 0, for a wrong number of labels, and for a mask that does not fit.
Figure heatmap(const Tensor& matrix, const Options& options = {});

/// A grid of heat maps with one scale and one colour bar, one map for each head of weights (H, Sq, Sk), or of the first
/// batch element of (B, H, Sq, Sk). The axes are "Key" and "Query" unless options name them.
Figure heads(const Tensor& weights, const Options& options = {});
/// The same with the same tokens along both axes.
Figure heads(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title = "");

/// A heat map of the counts as fractions of their row. `names` are those of the classes; their numbers if empty.
Figure confusion(const metrics::ConfusionMatrix& matrix, const std::vector<std::string>& names = {},
                 const std::string& title = "Confusion");

/// a - b for two matrices, or weights of heads, of the same shape. Colours diverge from 0: blue where a is larger, red
/// where b is larger. The default scale is symmetric. Throws Error if the shapes differ.
Figure difference(const Tensor& a, const Tensor& b, const Options& options = {});

/// The options of token_lines().
struct TokenLinesOptions {
  FIT_OPTION(std::string, title);                  ///< The title above the lines.
  FIT_OPTION(std::vector<std::string>, queries);   ///< The names of the queries; 0, 1, … if empty.
  FIT_OPTION(std::vector<std::string>, keys);      ///< The names of the keys; 0, 1, … if empty.
  FIT_OPTION(std::string, query_label) = "Query";  ///< The heading of the queries.
  FIT_OPTION(std::string, key_label) = "Key";      ///< The heading of the keys.
  FIT_OPTION(double, least) = 0.01;                ///< Weights below this fraction of the largest are not drawn.
  FIT_OPTION(Theme, theme) = Theme::light;         ///< The background.
};

/// Attention as lines from the queries on the left to the keys on the right. A larger weight gives a stronger line.
/// weights are (Sq, Sk), (H, Sq, Sk), or (B, H, Sq, Sk), which draws the first batch element. Seven colours alternate
/// over heads. Of more than 2000 lines the strongest are drawn, with a note. Another note counts rows that are not
/// finite. Throws Error for another rank, an axis of size 0, a wrong number of names, a weight below 0, and more than
/// 128 tokens on a side.
Figure token_lines(const Tensor& weights, const TokenLinesOptions& options = {});
/// The same with the same tokens on both sides.
Figure token_lines(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title = "");

/// Several figures with one title, in the theme of the first figure. They stand in rows of at most 1000 pixels; on the
/// page of a lesson, in rows as wide as the page.
Figure side_by_side(const std::vector<Figure>& figures, const std::string& title = "");

/// The coordinates of a curve: a vector of numbers, numbers in braces, or a tensor with one axis.
class Coordinates {
 public:
  Coordinates() = default;
  Coordinates(std::initializer_list<double> values) : values_(values) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Coordinates(const std::vector<T>& values) : values_(values.begin(), values.end()) {}
  Coordinates(const Tensor& values);
  /// The numbers.
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

/// A curve through (x[i], y[i]): Curve{"loss", x, y}, or Curve{"loss", y} with x = 0, 1, …. A value that is not finite
/// interrupts it. With a band: Curve("forecast", x, median).low(quantile_10).high(quantile_90).
struct Curve {
  Curve(std::string name = "", const Coordinates& values = {}) : label(std::move(name)), y(values.values()) {}
  Curve(std::string name, const Coordinates& across, const Coordinates& up)
      : label(std::move(name)), x(across.values()), y(up.values()) {}
  std::string label;
  std::vector<double> x, y;
  FIT_OPTION(Coordinates, low);      ///< The lower edge of a pale band, for each point; none if empty.
  FIT_OPTION(Coordinates, high);     ///< Its upper edge.
  FIT_OPTION(bool, dashed) = false;  ///< Draws dashes. The 8th to 14th curve have the first colours, and dashes.
};

/// The options of lines().
struct LineOptions {
  FIT_OPTION(std::string, title);    ///< The title above the lines.
  FIT_OPTION(std::string, xlabel);   ///< The name of the horizontal axis.
  FIT_OPTION(std::string, ylabel);   ///< The name of the vertical axis.
  FIT_OPTION(bool, smooth) = false;  ///< Draws curves of 200 or more points pale, with their running mean above.
  FIT_OPTION(bool, log_x) = false;   ///< A logarithmic horizontal axis; numbers that are not positive are not drawn.
  FIT_OPTION(bool, log_y) = false;   ///< A logarithmic vertical axis; numbers that are not positive are not drawn.
  FIT_OPTION(Theme, theme) = Theme::light;  ///< The background.
};

/// Curves with axes, and a legend if there are labels, such as the loss of a training. Throws Error if there is nothing
/// to draw, or if x and y of a curve, or the edges of its band, differ in length.
Figure lines(const std::vector<Curve>& curves, const LineOptions& options = {});

/// The options of histogram().
struct HistogramOptions {
  FIT_OPTION(std::string, title);                 ///< The title above the bars.
  FIT_OPTION(std::string, xlabel) = "Value";      ///< The name of the axis of values.
  FIT_OPTION(std::string, ylabel) = "Count";      ///< The name of the axis of counts.
  FIT_OPTION(std::optional<std::int64_t>, bins);  ///< Chosen by the data if not given, at most 100.
  FIT_OPTION(std::optional<double>, low);         ///< Smaller values are not counted, and a note says so.
  FIT_OPTION(std::optional<double>, high);        ///< Larger values are not counted, and a note says so.
  FIT_OPTION(bool, log_y) = false;                ///< A logarithmic axis of counts.
  FIT_OPTION(Theme, theme) = Theme::light;        ///< The background.
};

/// The counts of values in bins of equal width. The number of bins is that of NumPy's "auto": the larger of Sturges'
/// and Freedman and Diaconis' numbers. Integers of a small range get one bin each. Values that are not finite are left
/// out, with a note. Throws Error if no value is left, for bins outside 1 … 1000, and unless low < high.
Figure histogram(const Tensor& values, const HistogramOptions& options = {});
/// Several histograms in one figure, with the same bins and a legend: model.named_parameters(), or
/// {{"before", a}, {"after", b}}. More than 7 are merged into one, because they would be hard to distinguish.
Figure histogram(const StateDict& values, const HistogramOptions& options = {});

/// The options of embedding_map().
struct EmbeddingMapOptions {
  FIT_OPTION(std::string, title);                 ///< The title above the points.
  FIT_OPTION(std::vector<std::string>, tokens);   ///< A name for each row; no names are drawn if empty.
  FIT_OPTION(std::vector<std::int64_t>, groups);  ///< The group of each row, from 0: rows of a group share a colour.
  FIT_OPTION(Theme, theme) = Theme::light;        ///< The background.
};

/// Embeddings (N, D) as points in their first two principal components. The axes show their fraction of the variance.
/// The largest component of each direction is positive. Overlapping names are left out, and a note says how many. Rows
/// that are not finite are left out. Throws Error for another rank, fewer than two finite rows or two columns, or a
/// wrong number of tokens or groups.
Figure embedding_map(const Tensor& embeddings, const EmbeddingMapOptions& options = {});
/// The same with names.
Figure embedding_map(const Tensor& embeddings, const std::vector<std::string>& tokens, const std::string& title = "");

/// The sinusoidal positions (fit/nn/layers/position.hpp): a heat map of T positions by d_model dimensions, and the
/// curves of some dimensions.
Figure positional(std::int64_t d_model, std::int64_t T, Theme theme = Theme::light);

/// Whether a heat map in the terminal has colours. automatic: if the stream is std::cout or std::cerr on a terminal,
/// the environment's NO_COLOR is empty and TERM is not "dumb".
enum class Colors { automatic, never, always };

/// Prints a matrix in the terminal, in 24-bit colours or in the shades " .:-=+*#%@"; masked cells are "/". More than 32
/// rows or columns are averaged to 32, or to fewer if the terminal is narrow. Labels are those of heatmap(); a line
/// below names the axes.
void print_heatmap(std::ostream& out, const Tensor& matrix, const Options& options = {},
                   Colors colors = Colors::automatic);

}  // namespace fit::plot
