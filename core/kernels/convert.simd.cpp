#include "kernels/convert.hpp"

#include "kernels/simd/for_each_vector.hpp"

namespace fit::kernels {
namespace {

using V = Vec<float>;

void widen_run(float* y, const BFloat16* x, std::int64_t n) {
  for_each_vector<V>(
      n, [&](std::int64_t i, auto access) { access.store(access.template load<V>(x + i, BFloat16(0)), y + i); });
}

void round_run(BFloat16* y, const float* x, std::int64_t n) {
  for_each_vector<V>(n,
                     [&](std::int64_t i, auto access) { access.store(access.template load<V>(x + i, 0.0F), y + i); });
}

}  // namespace

template <class IsaTag, class T>
const ConvertKernels<T>& convert_table() {
  static constexpr ConvertKernels<T> table{widen_run, round_run};
  return table;
}

template const ConvertKernels<BFloat16>& convert_table<FIT_ISA, BFloat16>();

}  // namespace fit::kernels
