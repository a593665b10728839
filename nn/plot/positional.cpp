#include <string>

#include "fit/nn/position.hpp"
#include "fit/plot.hpp"
#include "tensor/check.hpp"

namespace fit::plot {

Figure positional(std::int64_t d_model, std::int64_t T, Theme theme) {
  if (d_model < 1 || T < 1)
    check::fail("plot::positional", "d_model is ", d_model, ", T is ", T, ": both must be at least 1");
  const Tensor positions = nn::sinusoidal_positions(T, d_model);
  const auto p = positions.data<float>();
  Tensor upright = Tensor::empty({d_model, T});  // rows are dimensions, columns are positions
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t c = 0; c < d_model; ++c) upright.fresh<float>()[c * T + t] = p[t * d_model + c];

  std::vector<Curve> curves;
  for (const std::int64_t c : {4, 5, 16, 32}) {
    if (c >= d_model) continue;
    Curve curve{"dim " + std::to_string(c), {}, {}};
    for (std::int64_t t = 0; t < T; ++t) curve.y.push_back(p[t * d_model + c]);
    curves.push_back(std::move(curve));
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
