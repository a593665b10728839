#include "fit/nn/layers/dropout.hpp"

#include "base/joined.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

void Dropout::fields(Fields& f) { f.self(*this); }

Dropout::Dropout(double p, Generator& generator) : p_(p), generator_(&generator) {
  if (!(p >= 0 && p <= 1)) check::fail("Dropout", "p is ", p, ": it must be a probability, 0 … 1");
}

Tensor Dropout::forward(const Tensor& x) const { return training() && p_ > 0 ? dropout(x, p_, *generator_) : x; }

std::string Dropout::describe() const { return joined("p=", p_); }

}  // namespace fit::nn
