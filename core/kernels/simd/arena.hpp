#pragma once
#include <cstdint>

#include "fit/base/bfloat16.hpp"
#include "kernels/simd/isa_namespace.hpp"

namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Hands out a workspace from front to back.
template <class W>
class Arena {
 public:
  explicit Arena(W* workspace) : next_(workspace) {}
  W* take(std::int64_t n) {
    W* const at = next_;
    next_ += n;
    return at;
  }
  BFloat16* take_bf16(std::int64_t n) { return reinterpret_cast<BFloat16*>(take(n / 2)); }

 private:
  W* next_;
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
