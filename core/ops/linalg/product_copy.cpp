#include "ops/linalg/product_copy.hpp"

#include <mutex>
#include <utility>

#include "fit/detail/thread_state.hpp"

namespace fit::detail {
namespace {

std::mutex copies;  // guards the stored copies, not their making

}  // namespace

Tensor find_product_copy(const Tensor& x, ProductForm form) {
  const Storage& s = *x.impl()->storage;
  const std::lock_guard<std::mutex> lock(copies);
  Storage* const copy = s.copy.load();
  if (!copy || s.copy_form != form || s.copy_version != s.version.load(std::memory_order_relaxed)) return {};
  hold(copy->refs);
  return Tensor::adopt(new_impl(copy, x.shape(), form == bfloat16_form ? bfloat16 : x.dtype()));
}

void keep_product_copy(const Tensor& x, std::uint32_t version, ProductForm form, const Tensor& y) {
  Storage& s = *x.impl()->storage;
  const std::lock_guard<std::mutex> lock(copies);
  forget_copy(s);
  hold(y.impl()->storage->refs);
  s.copy.store(y.impl()->storage);
  s.copy_version = version;
  s.copy_form = form;
}

bool first_read(const Tensor& x) {
  Storage& s = *x.impl()->storage;
  const std::uint32_t version = s.version.load(std::memory_order_relaxed);
  const std::lock_guard<std::mutex> lock(copies);
  return std::exchange(s.read_version, version) != version;
}

bool keeps_panels(const Tensor& weight, std::int64_t rows, bool longer) {
  constexpr std::int64_t many = 128;
  return !thread_state.recording && !((rows > many || longer) && first_read(weight));
}

}  // namespace fit::detail
