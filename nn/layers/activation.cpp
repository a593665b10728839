#include "fit/nn/activation.hpp"

#include "layers/describe.hpp"

namespace fit::nn {

std::string LeakyReLU::describe() const { return describe_all("negative_slope=", negative_slope_); }

std::string GELU::describe() const { return form_ == Gelu::tanh ? "form=tanh" : "form=exact"; }

std::string Softmax::describe() const { return describe_all("axis=", axis_); }

std::string LogSoftmax::describe() const { return describe_all("axis=", axis_); }

}  // namespace fit::nn
