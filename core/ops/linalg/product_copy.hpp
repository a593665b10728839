#pragma once
#include <cstdint>

#include "fit/tensor/tensor.hpp"
#include "kernels/simd/isa.hpp"

// Copies of tensors in a form that matrix products read faster. A copy is made once for each version, stored with the
// elements, and freed with them or when they change. A tensor has one copy: of the form that was asked for last.
// Thread-safe.
namespace fit::detail {

/// How the elements of a copy are stored: in bfloat16, or in a layout of panels, which only raw() reads: those of
/// products (matmul/gemm_kernels.hpp), of few rows in bfloat16 (matmul/gemv_bf16_panels.hpp), or of bytes
/// (int8/bytes.hpp).
enum class CopyKind { bfloat16, panels, row_panels, byte_panels };

/// The kind with what its layout depends on: the depth k of the products, and the instruction set.
using ProductForm = std::uint32_t;
constexpr ProductForm product_form(CopyKind kind, std::int64_t k = 0, kernels::Isa isa = kernels::Isa::base) {
  static_assert(static_cast<int>(kernels::Isa::amx) < 8 && static_cast<int>(CopyKind::byte_panels) < 4);
  return static_cast<ProductForm>((k * 4 + static_cast<std::int64_t>(kind)) * 8 + static_cast<std::int64_t>(isa));
}
constexpr ProductForm bfloat16_form = product_form(CopyKind::bfloat16);

/// The copy of this version, or an undefined tensor.
Tensor find_product_copy(const Tensor& x, ProductForm form);

/// Stores the copy y of a version of x.
void keep_product_copy(const Tensor& x, std::uint32_t version, ProductForm form, const Tensor& y);

/// Whether nobody asked this before about the version of x.
bool first_read(const Tensor& x);

/// Whether a product of `rows` rows packs the weight once and keeps the panels. Nothing is kept while operations are
/// recorded: a training step changes its weights. With many rows, packing takes a small part of the time, and where
/// packing takes `longer` than the product, it pays only if it is read again: so the copy is made at the second read.
bool keeps_panels(const Tensor& weight, std::int64_t rows, bool longer);

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
