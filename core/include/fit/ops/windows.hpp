#pragma once
#include <cstdint>
#include <string>
#include <type_traits>

#include "fit/base/option.hpp"
#include "fit/tensor/tensor.hpp"

/// Operations on signals [N, C, L] and images [N, C, H, W]: convolutions and pools, whose windows slide over the last
/// one or two axes, and other sizes. The rules of fit/ops/ops.hpp, which includes this header, hold for them, too.
namespace fit {

/// A number for each axis along which windows slide: one for all, or {down, right}.
class PerAxis {
 public:
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  PerAxis(T all) : at_{static_cast<std::int64_t>(all), static_cast<std::int64_t>(all)} {}
  PerAxis(std::int64_t down, std::int64_t right) : at_{down, right}, count_(2) {}
  /// The number of axis i, 0 or 1.
  std::int64_t operator[](int i) const { return at_[i]; }
  /// How many numbers were given.
  int count() const { return count_; }
  /// "2" or "(2, 1)"
  std::string str() const;
  /// Whether the numbers of both axes are equal.
  friend bool operator==(const PerAxis& a, const PerAxis& b) { return a[0] == b[0] && a[1] == b[1]; }
  friend bool operator!=(const PerAxis& a, const PerAxis& b) { return !(a == b); }

 private:
  std::int64_t at_[2];
  int count_ = 1;
};
/// The options apply to each axis along which the windows slide. All but groups take {down, right}, too.
struct ConvOptions {
  FIT_OPTION(PerAxis, stride) = 1;       ///< The distance between windows, in elements.
  FIT_OPTION(PerAxis, padding) = 0;      ///< The number of zeros before and after the axis.
  FIT_OPTION(PerAxis, dilation) = 1;     ///< The distance between the elements of a window.
  FIT_OPTION(std::int64_t, groups) = 1;  ///< The number of groups of channels, each with its own outputs.
  FIT_OPTION(bool, bias) = true;         ///< Whether a layer has a bias.
  /// Of transposed convolutions: elements more at the end of the axis, fewer than stride.
  FIT_OPTION(PerAxis, output_padding) = 0;
};
/// x [N, C, L], weight [O, C / groups, K] -> [N, O, M], M = floor((L + 2 padding - dilation (K - 1) - 1) / stride) + 1:
/// y[n][o][m] = bias[o] + sum of weight[o][c][k] x[n][c][m stride + k dilation - padding]. bias is [O] or undefined.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
/// Same over the last two axes: x [N, C, H, W], weight [O, C / groups, K, L].
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvOptions& options = {});
/// The transpose of conv1d(), whose gradient by its input it is: stride spreads x, padding leaves out elements of y.
/// x [N, C, L], weight [C, O / groups, K] -> [N, O, M], M = (L - 1) stride - 2 padding + dilation (K - 1) +
/// output_padding + 1: y[n][o][l stride + k dilation - padding] adds up weight[c][o][k] x[n][c][l], and bias[o].
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvOptions& options = {});
/// Same over the last two axes: x [N, C, H, W], weight [C, O / groups, K, L].
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvOptions& options = {});
/// Options of the pools. All take {down, right}, too.
struct PoolOptions {
  FIT_OPTION(PerAxis, stride) = 0;  ///< The distance between windows; 0: the window's size.
  /// At most half a window. A maximum ignores padding; a mean counts it as zeros.
  FIT_OPTION(PerAxis, padding) = 0;
  FIT_OPTION(PerAxis, dilation) = 1;  ///< The distance between the elements of a window.
};
/// Maximum or mean of each window of `size` along the last axis (x [N, C, L]), or of size[0] x size[1] along the last
/// two (x [N, C, H, W]). The gradient of a maximum goes to the first of equal elements.
Tensor max_pool1d(const Tensor& x, PerAxis size, const PoolOptions& options = {});
Tensor max_pool2d(const Tensor& x, PerAxis size, const PoolOptions& options = {});
Tensor avg_pool1d(const Tensor& x, PerAxis size, const PoolOptions& options = {});
Tensor avg_pool2d(const Tensor& x, PerAxis size, const PoolOptions& options = {});

/// What lies between the elements: the element before, or a line. Of an image, linear is PyTorch's bilinear.
enum class Interpolation { nearest, linear };
/// The options of interpolate(): one of size and scale_factor is given.
struct InterpolateOptions {
  FIT_OPTION(PerAxis, size) = 0;  ///< The size of the result, of an image also {down, right}; 0: by scale_factor.
  FIT_OPTION(double, scale_factor) = 0;  ///< How many times as large: n becomes floor(n scale_factor).
  FIT_OPTION(Interpolation, mode) = Interpolation::nearest;  ///< What lies between the elements.
  /// For linear: the first and the last elements stay at the ends, instead of filling cells of equal width.
  FIT_OPTION(bool, align_corners) = false;
};
/// x [N, C, L] or [N, C, H, W] with other sizes. Element i of an axis lies at i s (nearest), (i + 1/2) s - 1/2
/// (linear), or i (n - 1) / (m - 1) (align_corners) of x, limited to 0 … n - 1, where n becomes m, and s = n / m, or 1
/// / scale_factor. The positions are computed in float64.
///
///     interpolate(x, InterpolateOptions().scale_factor(2).mode(Interpolation::linear))
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// x [N, C r r, H, W] -> [N, C, H r, W r] (Shi et al. 2016): y[n][c][h r + i][w r + j] = x[n][c r r + i r + j][h][w].
Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/// The way back: x [N, C, H r, W r] -> [N, C r r, H, W].
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);

}  // namespace fit
