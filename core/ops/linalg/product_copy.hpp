#pragma once
#include <cstdint>

#include "fit/tensor/tensor.hpp"

// Copies of tensors in a form that matrix products read faster. A copy is made once for each version, stored with the
// elements, and freed with them or when they change. A tensor has one copy: of the form that was asked for last.
// Thread-safe.
namespace fit::detail {

/// How the elements of a copy are stored: in bfloat16, or else in a layout of panels (matmul/gemm_kernels.hpp), which
/// only raw() reads.
using ProductForm = std::uint32_t;
constexpr ProductForm bfloat16_form = 0;

/// The copy of this version, or an undefined tensor.
Tensor find_product_copy(const Tensor& x, ProductForm form);

/// Stores the copy y of a version of x.
void keep_product_copy(const Tensor& x, std::uint32_t version, ProductForm form, const Tensor& y);

/// Whether nobody asked this before about the version of x.
bool first_read(const Tensor& x);

/// The copy of this version, made by make() if there is none.
template <class Make>
Tensor product_copy(const Tensor& x, ProductForm form, const Make& make) {
  if (Tensor copy = find_product_copy(x, form); copy.defined()) return copy;
  const std::uint32_t version = x.impl()->storage->version.load(std::memory_order_relaxed);
  Tensor y = make();
  keep_product_copy(x, version, form, y);
  return y;
}

}  // namespace fit::detail
