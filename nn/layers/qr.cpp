// Alone in a file: xtensor-blas takes long to compile.
#include "layers/qr.hpp"

#include <xtensor-blas/xlinalg.hpp>

#include "fit/xtensor.hpp"

namespace fit::nn::init {

void orthonormalise(Tensor& a) {
  const auto m = static_cast<std::size_t>(a.size(0)), n = static_cast<std::size_t>(a.size(1));
  const auto out = a.edit<double>();
  const auto view = xt::adapt(out.data(), m * n, xt::no_ownership(), std::array<std::size_t, 2>{m, n});
  const auto [q, r] = xt::linalg::qr(view, xt::linalg::qrmode::reduced);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) out[static_cast<std::int64_t>(i * n + j)] = r(j, j) < 0 ? -q(i, j) : q(i, j);
}

}  // namespace fit::nn::init
