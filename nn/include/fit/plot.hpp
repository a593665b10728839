#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Pictures of attention and of training: SVG and PNG files that any browser opens, and heat maps in the terminal.
///
///     plot::heatmap(weights[0], {"Self-attention", words, words, "Key", "Query"}).save("out/attention.svg");
///     plot::histogram(model.named_parameters()).save("out/parameters.png");
///     plot::print_heatmap(std::cout, weights[0], {"Self-attention", words, words});
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
  Options() {}
  /// The words; the rest is set by name.
  Options(std::string title, std::vector<std::string> x = {}, std::vector<std::string> y = {}, std::string xlabel = "",
          std::string ylabel = "")
      : title(std::move(title)),
        x(std::move(x)),
        y(std::move(y)),
        xlabel(std::move(xlabel)),
        ylabel(std::move(ylabel)) {}
  std::string title = "";
  std::vector<std::string> x = {}, y = {};  ///< names of the columns and of the rows; 0, 1, … if empty
  std::string xlabel = "", ylabel = "";     ///< names of the axes
  /// Values of the first and last colour; else the data's range, or for a diverging map the same on both sides of 0.
  std::optional<double> vmin = {}, vmax = {};
  std::optional<Colormap> colormap = {};  ///< viridis if not given; rdbu in a difference
  std::optional<bool> annotate = {};      ///< the value in each cell; if not given: up to 12 rows and columns
  bool colorbar = true;
  std::string bar_label = "";  ///< name of the colour bar
  Theme theme = Theme::light;
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
  TokenLinesOptions() {}
  std::string title = "";
  std::vector<std::string> queries = {}, keys = {};  ///< names of the tokens; 0, 1, … if empty
  std::string query_label = "Query", key_label = "Key";
  double least = 0.01;  ///< weights below this share of the largest are not drawn
  Theme theme = Theme::light;
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
  LineOptions() {}
  /// The words; the rest is set by name.
  LineOptions(std::string title, std::string xlabel, std::string ylabel)
      : title(std::move(title)), xlabel(std::move(xlabel)), ylabel(std::move(ylabel)) {}
  std::string title = "", xlabel = "", ylabel = "";
  bool smooth = false;  ///< curves of 200 points and more turn pale, and their running mean is drawn over them
  bool log_x = false, log_y = false;  ///< logarithmic axes; what is not positive is not drawn there
  Theme theme = Theme::light;
};

/// Curves with axes, and with a legend if there are labels: a training's loss, for instance. Throws Error if there is
/// nothing to draw or if x and y of a curve differ in length.
Figure lines(const std::vector<Curve>& curves, const LineOptions& options = {});

/// How histogram() is drawn.
struct HistogramOptions {
  HistogramOptions() {}
  /// The words; the rest is set by name.
  HistogramOptions(std::string title, std::string xlabel = "", std::string ylabel = "Count")
      : title(std::move(title)), xlabel(std::move(xlabel)), ylabel(std::move(ylabel)) {}
  std::string title = "", xlabel = "", ylabel = "Count";
  std::optional<std::int64_t> bins = {};      ///< as the data have it if not given, at most 100
  std::optional<double> low = {}, high = {};  ///< what is outside is not counted, and a note says so
  bool log_y = false;                         ///< a logarithmic axis of counts
  Theme theme = Theme::light;
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
  EmbeddingMapOptions() {}
  std::string title = "";
  std::vector<std::string> tokens = {};   ///< a name for each row; none are drawn if empty
  std::vector<std::int64_t> groups = {};  ///< of each row, from 0: rows of a group share a colour
  Theme theme = Theme::light;
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
