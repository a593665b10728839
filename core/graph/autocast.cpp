#include "fit/graph/autocast.hpp"

#include "tensor/check.hpp"

namespace fit {

Autocast::Autocast(DType dtype) : Scoped(detail::thread_state.autocast) {
  if (dtype != bfloat16 && dtype != float32)
    check::fail("Autocast", "the type is ", dtype, ": it must be bfloat16, or float32 to switch it off");
  detail::thread_state.autocast = dtype;
}

}  // namespace fit
