#include "common/retype.hpp"

#include <utility>

namespace fit::nn {

void retype(Tensor& t, const Tensor& other) {
  const bool trained = t.requires_grad();
  if (trained) t.requires_grad_(false);
  std::swap(t.impl()->storage, other.impl()->storage);
  std::swap(t.impl()->dtype, other.impl()->dtype);
  if (trained) t.requires_grad_();
}

}  // namespace fit::nn
