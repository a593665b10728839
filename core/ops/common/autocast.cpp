#include "ops/common/autocast.hpp"

#include <cstring>

#include "graph/node.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/linalg/product_copy.hpp"

namespace fit {

bool is_weight(const Tensor& x) {
  const detail::Node* const n = x.impl()->node;
  if (!n || n->leaf()) return n != nullptr;
  return std::strcmp(n->op, "reshape") == 0 && n->edges[0].node && n->edges[0].node->leaf();
}

Tensor rounded(const Tensor& x) {
  if (x.dtype() != float32) return to_dtype_no_grad(x, bfloat16);
  return detail::product_copy(x, detail::bfloat16_form, [&] { return to_dtype_no_grad(x, bfloat16); });
}

Tensor readable(const Tensor& x, Use use) {
  if (use == Use::inference || x.dtype() != float32) return rounded(x);
  if (Tensor copy = detail::find_product_copy(x, detail::bfloat16_form); copy.defined()) return copy;
  return use == Use::backward || detail::first_read(x) ? x : rounded(x);
}

Tensor lowered(const Tensor& x) {
  if (x.dtype() == bfloat16 || !x.requires_grad() || is_weight(x)) return x;
  return record("to", {x}, rounded(x), keep::nothing, [](Backward& b) { b.give(0, b.take_dy()); });
}

}  // namespace fit
