#include "ops/autocast.hpp"

#include <cstring>
#include <mutex>

#include "graph/node.hpp"
#include "ops/elementwise.hpp"

namespace fit {

bool is_weight(const Tensor& x) {
  const detail::Node* const n = x.impl()->node;
  if (!n || n->leaf()) return n != nullptr;
  return std::strcmp(n->op, "reshape") == 0 && n->edges[0].node && n->edges[0].node->leaf();
}

namespace {

std::mutex copies;  // guards the stored copies, not the conversion

// The stored copy of this version, or an undefined tensor.
Tensor copy_of(const Tensor& x) {
  const detail::Storage& s = *x.impl()->storage;
  const std::lock_guard<std::mutex> lock(copies);
  detail::Storage* const copy = s.rounded.load();
  if (!copy || s.rounded_version != s.version.load(std::memory_order_relaxed)) return {};
  detail::hold(copy->refs);
  return Tensor(detail::new_impl(copy, 0, x.shape(), bfloat16));
}

}  // namespace

Tensor rounded(const Tensor& x) {
  if (x.dtype() != float32) return to_dtype_no_grad(x, bfloat16);
  if (Tensor copy = copy_of(x); copy.defined()) return copy;
  detail::Storage& s = *x.impl()->storage;
  const std::uint32_t version = s.version.load(std::memory_order_relaxed);
  Tensor y = to_dtype_no_grad(x, bfloat16);
  const std::lock_guard<std::mutex> lock(copies);
  detail::forget_rounded(s);
  detail::hold(y.impl()->storage->refs);
  s.rounded.store(y.impl()->storage);
  s.rounded_version = version;
  return y;
}

Tensor readable(const Tensor& x, Use use) {
  if (use == Use::inference || x.dtype() != float32) return rounded(x);
  if (Tensor copy = copy_of(x); copy.defined()) return copy;
  if (use == Use::backward) return x;
  detail::Storage& s = *x.impl()->storage;
  const std::uint32_t version = s.version.load(std::memory_order_relaxed);
  {
    const std::lock_guard<std::mutex> lock(copies);
    if (s.read_version != version) {
      s.read_version = version;
      return x;
    }
  }
  return rounded(x);
}

Tensor lowered(const Tensor& x) {
  if (x.dtype() == bfloat16 || !x.requires_grad() || is_weight(x)) return x;
  return record("to", {x}, rounded(x), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

}  // namespace fit
