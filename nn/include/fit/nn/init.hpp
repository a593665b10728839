#pragma once
#include "fit/random.hpp"
#include "fit/tensor.hpp"

/// Values for parameters to start from. Each overwrites the tensor that it is given, counts as a change, is not
/// recorded, and returns the tensor: `init::orthogonal_(layer.weight)`. Formulas and defaults are PyTorch's.
///
/// The weight of a layer is [out, in, ...]: fan_in is in times what follows, fan_out is out times what follows.
namespace fit::nn::init {

/// While one lives, the initialisers do nothing on this thread, so that layers are made without drawing values which
/// others will replace, as a checkpoint does:
///
///     const auto gpt = [&] { const nn::init::Skip guard; return std::make_shared<nn::GPT>(options); }();
///     gpt->load_state_dict(state);
class Skip {
 public:
  Skip();
  ~Skip();
  Skip(const Skip&) = delete;
  Skip& operator=(const Skip&) = delete;

 private:
  bool before_;
};

/// Which side of a weight counts.
enum class Fan { in, out };
/// What follows the layer.
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// What a nonlinearity takes away from the standard deviation: 1, 1, 5/3, sqrt 2, sqrt(2 / (1 + slope^2)), 3/4.
double gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

/// All elements: the value, 0, or 1.
Tensor constant_(Tensor t, Scalar value);
Tensor zeros_(Tensor t);
Tensor ones_(Tensor t);
/// Uniform in [low, high).
Tensor uniform_(Tensor t, double low = 0, double high = 1, Generator& g = default_generator());
Tensor normal_(Tensor t, double mean = 0, double std = 1, Generator& g = default_generator());
/// Normal, but for values outside low … high, which are not drawn.
Tensor trunc_normal_(Tensor t, double mean = 0, double std = 1, double low = -2, double high = 2,
                     Generator& g = default_generator());
/// Uniform in ±gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).
Tensor xavier_uniform_(Tensor t, double gain = 1, Generator& g = default_generator());
/// Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal_(Tensor t, double gain = 1, Generator& g = default_generator());
/// Uniform in ±gain sqrt(3 / fan), where the gain is that of `nonlinearity` with slope `a` (He et al. 2015).
Tensor kaiming_uniform_(Tensor t, double a = 0, Fan fan = Fan::in, Nonlinearity nonlinearity = Nonlinearity::leaky_relu,
                        Generator& g = default_generator());
/// Normal with standard deviation gain / sqrt(fan).
Tensor kaiming_normal_(Tensor t, double a = 0, Fan fan = Fan::in, Nonlinearity nonlinearity = Nonlinearity::leaky_relu,
                       Generator& g = default_generator());
/// `gain` times rows (or columns, if they are fewer) of length 1 at right angles (Saxe et al. 2013). Axes after the
/// first are taken as one.
Tensor orthogonal_(Tensor t, double gain = 1, Generator& g = default_generator());

}  // namespace fit::nn::init
