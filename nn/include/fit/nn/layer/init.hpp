#pragma once
#include "fit/detail/scoped.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/tensor.hpp"

/// Initial values of parameters. Each function overwrites its tensor and returns it; that counts as a change
/// (Tensor::version), and the graph does not record it. Formulas and defaults are PyTorch's.
///
/// For a weight [out, in, ...] with receptive field R, the product of the sizes after `in`: fan_in is in R, fan_out is
/// out R.
namespace fit::nn::init {

/// Disables the initialisers on this thread during its lifetime. Use it when loaded values replace the initial ones:
///
///     const auto gpt = [&] { const nn::init::Skip guard; return std::make_shared<nn::GPT>(options); }();
///     gpt->load_state_dict(state);
class Skip : public fit::detail::Scoped<bool> {
 public:
  [[nodiscard]] Skip();
};

/// Whether fan_in or fan_out is used.
enum class Fan { in, out };
/// The function after the layer.
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// The factor of the standard deviation that corrects for the nonlinearity. In the order of Nonlinearity: 1, 1, 5/3,
/// sqrt 2, sqrt(2 / (1 + slope^2)), 3/4.
double gain(Nonlinearity nonlinearity, double negative_slope = 0.01);

/// Sets all elements to the value, 0, or 1.
Tensor constant_(Tensor t, Scalar value);
Tensor zeros_(Tensor t);
Tensor ones_(Tensor t);
/// Uniform in [low, high).
Tensor uniform_(Tensor t, double low = 0, double high = 1, Generator& g = default_generator());
Tensor normal_(Tensor t, double mean = 0, double std = 1, Generator& g = default_generator());
/// The normal distribution truncated to low … high.
Tensor trunc_normal_(Tensor t, double mean = 0, double std = 1, double low = -2, double high = 2,
                     Generator& g = default_generator());
/// Uniform in ±gain sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010).
Tensor xavier_uniform_(Tensor t, double gain = 1, Generator& g = default_generator());
/// Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)).
Tensor xavier_normal_(Tensor t, double gain = 1, Generator& g = default_generator());
/// Uniform in ±gain sqrt(3 / fan), where gain is gain(nonlinearity, a) (He et al. 2015).
Tensor kaiming_uniform_(Tensor t, double a = 0, Fan fan = Fan::in, Nonlinearity nonlinearity = Nonlinearity::leaky_relu,
                        Generator& g = default_generator());
/// Normal with standard deviation gain / sqrt(fan).
Tensor kaiming_normal_(Tensor t, double a = 0, Fan fan = Fan::in, Nonlinearity nonlinearity = Nonlinearity::leaky_relu,
                       Generator& g = default_generator());
/// `gain` times a matrix with orthonormal rows, or columns if they are fewer (Saxe et al. 2013). Axes after the first
/// are merged into one.
Tensor orthogonal_(Tensor t, double gain = 1, Generator& g = default_generator());

}  // namespace fit::nn::init
