#include "fit/nn/containers.hpp"

#include "tensor/check.hpp"

namespace fit::nn {

void detail::fail_position(const Layer& list, std::size_t i, std::size_t size) {
  check::fail(list.name().c_str(), "there is no layer ", i, ": it has ", size);
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const UnaryLayer& layer : *this) y = layer(y);
  return y;
}

std::shared_ptr<Layer> Sequential::make() const {
  auto made = std::make_shared<Sequential>();
  made->add_made_like(*this);
  return made;
}

}  // namespace fit::nn
