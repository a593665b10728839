#include <string>

#include "fit/nn/layers/position.hpp"
#include "fit/ops/ops.hpp"
#include "fit/plot.hpp"
#include "tensor/check.hpp"

namespace fit::plot {

Figure positional(std::int64_t d_model, std::int64_t T, Theme theme) {
  if (d_model < 1 || T < 1)
    check::fail("plot::positional", "d_model is ", d_model, ", T is ", T, ": both must be at least 1");
  const Tensor upright = transpose(nn::sinusoidal_positions(T, d_model));  // rows are dimensions, columns are positions

  std::vector<Curve> curves;
  for (const std::int64_t c : {4, 5, 16, 32}) {
    if (c >= d_model) continue;
    curves.push_back({"dim " + std::to_string(c), upright[c].to(float64).to_vector<double>()});
  }
  const auto map = Options()
                       .title("Positional encoding")
                       .xlabel("Position")
                       .ylabel("Dimension")
                       .vmin(-1)
                       .vmax(1)
                       .colormap(Colormap::rdbu)
                       .theme(theme);
  Figure picture = heatmap(upright, map);
  if (curves.empty()) return picture;
  const auto beside =
      LineOptions().title("Selected dimensions").xlabel("Position").ylabel("Encoding value").theme(theme);
  return side_by_side({picture, lines(curves, beside)});
}

}  // namespace fit::plot
