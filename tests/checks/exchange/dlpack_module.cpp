// A library for ctypes: fit's memory as DLPack tensors, and DLPack tensors as fit's.
#include "fit/ops/ops.hpp"
#include "fit/tensor/dlpack.hpp"

using namespace fit;

extern "C" {
DLManagedTensorVersioned* lend() { return to_dlpack(arange(12).to(float32).reshape({3, 4})); }
DLManagedTensor* lend_unversioned() { return to_unversioned_dlpack(tensor({{1., -2.}, {3., 4.}}).to(float64)); }

// A tensor is kept between calls.
static Tensor& kept() {
  static Tensor x;
  return x;
}
DLManagedTensorVersioned* edit() {
  kept() = zeros({3});
  return edit_dlpack(kept());
}
void keep(DLManagedTensorVersioned* theirs) { kept() = from_dlpack(theirs); }
void keep_unversioned(DLManagedTensor* theirs) { kept() = from_dlpack(theirs); }
void forget() { kept() = Tensor(); }
double total() { return sum(kept().to(float64)).item(); }
const void* address() { return kept().raw(); }
}
