#include "fit/nn/layers/containers.hpp"

#include "tensor/check.hpp"

namespace fit::nn {

void detail::fail_position(const Layer& list, std::size_t i, std::size_t size) {
  check::fail(list.name().c_str(), "there is no layer ", i, ": it has ", size);
}

void detail::fail_null(const std::string& holder) {
  check::fail(holder.c_str(), "a layer is a null pointer: give a layer, or a std::shared_ptr that holds one");
}

void Sequential::fields(Fields& f) { f.self(*this), list(f); }

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const UnaryLayer& layer : *this) y = layer(y);
  return y;
}

}  // namespace fit::nn
