// Members of Tensor about the graph: leaves and gradients.
#include <utility>

#include "graph/node.hpp"
#include "tensor/check.hpp"
#include "tensor/loss_terms.hpp"

namespace fit {
namespace detail {

namespace {
// No tensor can read this leaf's gradient any more. A gradient that was recorded (create_graph) would otherwise keep
// the leaf alive, and the leaf the gradient.
void abandon(Node& leaf) noexcept {
  leaf.detached = true;
  leaf.outputs[0].grad = Tensor();
}

void drop_frozen_leaf(TensorImpl& t) noexcept {
  if (Node* const leaf = std::exchange(t.frozen_leaf, nullptr)) abandon(*leaf), drop_node(leaf);
}

// The leaf that t had before it was frozen, or a new one with its hooks if the type or the shape has changed since.
Node* leaf_of(TensorImpl& t) {
  Node* const before = t.frozen_leaf;
  if (before && before->outputs[0].dtype == t.dtype && before->outputs[0].shape == t.shape) {
    before->detached = false;
    return std::exchange(t.frozen_leaf, nullptr);
  }
  Node* const leaf = new_leaf(t.shape, t.dtype);
  leaf->closure = &t;
  if (before) {
    leaf->hooks = std::exchange(before->hooks, nullptr);
    before->replaced = true;
  }
  drop_frozen_leaf(t);
  return leaf;
}
}  // namespace

void free_impl(TensorImpl* t) noexcept {
  if (Node* n = t->node) {
    if (t->owns_grad)
      if (Node* leaf = n->leaf() ? n : n->outputs[t->output].retained) abandon(*leaf);
    drop_node(n);
  }
  drop_frozen_leaf(*t);
  if (t->loss_terms) free_loss_terms(t->loss_terms);
  if (drop(t->storage->refs)) free_storage(t->storage);
  release(t, size_class(sizeof(TensorImpl)));
}

}  // namespace detail

bool Tensor::is_leaf() const { return !get().node || impl_->node->leaf(); }

const char* Tensor::grad_fn() const {
  const detail::Node* n = get().node;
  return !n ? "none" : n->leaf() ? "leaf" : n->op;
}

Tensor& Tensor::requires_grad_(bool on) {
  check::floating("requires_grad_", "the tensor", *this);
  if (!is_leaf())
    check::fail("requires_grad_", "the tensor of shape ", shape(), " is the result of ", grad_fn(),
                ": only a leaf can be changed; detach() it first");
  if (on && !impl_->node) {
    impl_->node = detail::leaf_of(*impl_);
    impl_->cut_at = nullptr;
    impl_->owns_grad = true;
  } else if (!on && impl_->node) {
    impl_->node->detached = true;
    impl_->frozen_leaf = std::exchange(impl_->node, nullptr);
    impl_->owns_grad = false;
    impl_->cut = detail::Cut::frozen;
    impl_->cut_at = "";
  }
  return *this;
}

// The node that holds x's gradient: its leaf node, or the one of retain_grad(); null if there is none. That of a frozen
// leaf is not its gradient before it trains again.
namespace {
detail::Node* grad_node(const detail::TensorImpl& x) {
  return !x.node || x.node->leaf() ? x.node : x.node->outputs[x.output].retained;
}
}  // namespace

Tensor Tensor::grad() const {
  const detail::Node* const node = grad_node(get());
  return node ? node->outputs[0].grad : Tensor();
}

bool Tensor::has_grad() const {
  const detail::Node* const node = grad_node(get());
  return node && node->outputs[0].grad.defined();
}

void Tensor::set_grad(const Tensor& g) {
  if (!requires_grad() || !is_leaf())
    check::fail("set_grad", "the tensor of shape ", shape(), " is no leaf that wants a gradient");
  if (g.defined()) {
    check::shape("set_grad", "the gradient", g, shape());
    check::dtype("set_grad", "the gradient", g, dtype());
  }
  impl_->node->outputs[0].grad = g;
}

void Tensor::zero_grad() {
  if (detail::Node* const node = grad_node(get())) node->outputs[0].grad = Tensor();
  if (impl_->frozen_leaf) impl_->frozen_leaf->outputs[0].grad = Tensor();
}

void Tensor::retain_grad() {
  detail::Node* n = get().node;
  if (!n) check::fail("retain_grad", "the tensor of shape ", shape(), " wants no gradient");
  if (n->leaf() || n->outputs[impl_->output].retained) return;
  n->outputs[impl_->output].retained = detail::new_leaf(shape(), dtype());
  impl_->owns_grad = true;
}

}  // namespace fit
