#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fit/tensor.hpp"

/// Pictures of attention and of training: SVG files that any browser opens, and heat maps in the terminal.
///
///     plot::heatmap(weights[0], {"Self-attention", words, words, "Key", "Query"}).save("out/attention.svg");
///     plot::print_heatmap(std::cout, weights[0], {"Self-attention", words, words});
///
/// The origin is top left, queries go down, keys go right. The same input gives the same bytes. A file holds
/// everything it needs: no script, no font, nothing from a network. Labels are UTF-8.
namespace fit::plot {

/// viridis, blues and night (blues on a dark ground) run from low to high; rdbu (red, white, blue) diverges from 0 in
/// its middle.
enum class Colormap { viridis, blues, night, rdbu };

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
  std::vector<std::string> x = {}, y = {};     ///< names of the columns and of the rows; 0, 1, … if empty
  std::string xlabel = "", ylabel = "";        ///< names of the axes
  std::optional<double> vmin = {}, vmax = {};  ///< values of the first and last colour; else the data's range
  Colormap colormap = Colormap::viridis;
  std::optional<bool> annotate = {};  ///< the value in each cell; if not given: up to 12 rows and columns
  bool colorbar = true;
  std::string bar_label = "";  ///< name of the colour bar
};

/// A picture.
class Figure {
 public:
  Figure(double width, double height, std::string body) : width_(width), height_(height), body_(std::move(body)) {}
  double width() const { return width_; }
  double height() const { return height_; }
  /// What is drawn, without the frame of a document.
  const std::string& body() const { return body_; }
  /// The whole SVG document.
  std::string svg() const;
  /// Writes it to a file, whose folders are made where they are missing. Throws FileError, which names the path.
  void save(const std::string& path) const;

 private:
  double width_, height_;
  std::string body_;
};

/// A matrix [rows, columns] as coloured cells. Cells that are not finite are grey with a stroke through them. At most
/// 64 labels are drawn along an axis, then every k-th. Throws Error for another rank, for an axis of size 0 and for
/// labels that are not as many as rows or columns.
Figure heatmap(const Tensor& matrix, const Options& options = {});

/// A grid with one heat map for each head, on one scale and with one colour bar, of weights (H, Sq, Sk) or
/// (B, H, Sq, Sk), of which the first of the batch is drawn. The scale begins at 0 unless options say otherwise.
Figure heads(const Tensor& weights, const Options& options = {});
/// The same with the same tokens along both axes.
Figure heads(const Tensor& weights, const std::vector<std::string>& tokens, const std::string& title = "");

/// Several figures in a row, under one title.
Figure side_by_side(const std::vector<Figure>& figures, const std::string& title = "");

/// A curve through (x[i], y[i]); x is 0, 1, … if empty. A value that is not finite interrupts it.
struct Curve {
  std::string label = "";
  std::vector<double> y = {}, x = {};
};

struct LineOptions {
  LineOptions() {}
  /// The words; the rest is set by name.
  LineOptions(std::string title, std::string xlabel, std::string ylabel)
      : title(std::move(title)), xlabel(std::move(xlabel)), ylabel(std::move(ylabel)) {}
  std::string title = "", xlabel = "", ylabel = "";
  bool smooth = false;  ///< curves of 200 points and more turn pale, and their running mean is drawn over them
  bool log_x = false, log_y = false;  ///< logarithmic axes; what is not positive is not drawn there
};

/// Curves with axes, and with a legend if there are labels: a training's loss, for instance. Throws Error if there is
/// nothing to draw or if x and y of a curve differ in length.
Figure lines(const std::vector<Curve>& curves, const LineOptions& options = {});

/// The sinusoidal positions (fit/nn/position.hpp): T positions by d_model dimensions as a map, and the curves of some
/// dimensions beside it.
Figure positional(std::int64_t d_model, std::int64_t T);

/// Whether a heat map in the terminal has colours. automatic: if the stream is std::cout or std::cerr on a terminal,
/// the environment's NO_COLOR is empty and TERM is not "dumb".
enum class Colors { automatic, never, always };

/// A matrix in the terminal: in 24-bit colours, or else in the shades " .:-=+*#%@". A matrix of more than 32 rows or
/// columns is averaged down to that. Labels as in heatmap().
void print_heatmap(std::ostream& out, const Tensor& matrix, const Options& options = {},
                   Colors colors = Colors::automatic);

}  // namespace fit::plot
