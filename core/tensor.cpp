#include "fit/tensor.hpp"

#include <cmath>

#include "check.hpp"
#include "convert.hpp"
#include "dispatch.hpp"
#include "fit/memory.hpp"
#include "fit/ops.hpp"
#include "graph_node.hpp"
#include "kernels/copy.hpp"
#include "ops/elementwise.hpp"

namespace fit {
namespace detail {

Storage* new_storage(std::size_t bytes) {
  constexpr std::size_t header = 64;
  static_assert(sizeof(Storage) <= header);
  std::size_t capacity = 0;
  void* block = acquire(header + bytes, capacity);
  Storage* s = new (block) Storage;
  s->capacity = capacity;
  s->data = static_cast<char*>(block) + header;
  return s;
}

void free_storage(Storage* s) noexcept { release(s, s->capacity); }

TensorImpl* new_impl(Storage* storage, std::int64_t offset, const Shape& shape, DType dtype) {
  std::size_t capacity = 0;
  TensorImpl* t = new (acquire(sizeof(TensorImpl), capacity)) TensorImpl;
  t->dtype = dtype;
  t->storage = storage;
  t->offset = offset;
  t->shape = shape;
  return t;
}

namespace {
// Nobody can read this leaf's gradient any more. Left in place, one that was recorded (create_graph) would hold the
// leaf that holds it.
void abandon(Node& leaf) noexcept {
  leaf.orphan = true;
  leaf.outputs[0].grad = Tensor();
}
}  // namespace

void free_impl(TensorImpl* t) noexcept {
  if (Node* n = t->node) {
    if (t->owns_grad)
      if (Node* leaf = n->leaf() ? n : n->outputs[t->output].retained) abandon(*leaf);
    drop_node(n);
  }
  if (drop(t->storage->refs)) free_storage(t->storage);
  release(t, (sizeof(TensorImpl) + 63) / 64 * 64);
}

}  // namespace detail

std::int64_t Scalar::whole(const char* op) const {
  if (dtype_ == DType::boolean || dtype_ == DType::int64) return whole_;
  if (value_ != std::floor(value_) || std::abs(value_) > 9e15)
    check::fail(op, "the number ", value_,
                " is not whole and the tensor is not floating: convert the tensor with .to(float32)");
  return static_cast<std::int64_t>(value_);
}

void Tensor::throw_undefined() {
  throw Error("[tensor] an undefined tensor was used: give it a value first (zeros, tensor, ...)");
}

void Tensor::throw_dtype(DType asked) const {
  check::fail("data", "the tensor is ", dtype(), ", ", asked, " was asked for: convert it with .to(", asked, ")");
}

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  detail::Storage* s = detail::new_storage(static_cast<std::size_t>(shape.numel() * size_of(dtype)));
  return Tensor(detail::new_impl(s, 0, shape, dtype));
}

Tensor Tensor::alias(const Shape& shape) const {
  detail::hold(get().storage->refs);
  return Tensor(detail::new_impl(impl_->storage, impl_->offset, shape, impl_->dtype));
}

std::int64_t Tensor::size(int axis) const {
  const int a = check::axis("size", *this, axis);
  return shape()[a];
}

Tensor Tensor::clone() const {
  check::defined("clone", "x", *this);
  Tensor y = empty(shape(), dtype());
  kernels::copy(y.fresh<char>(), raw(), numel() * size_of(dtype()));
  return record("clone", {*this}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.dy()); });
}

Tensor Tensor::detach() const { return alias(shape()); }

Tensor Tensor::to(DType target) const {
  check::defined("to", "x", *this);
  if (dtype() == target) return *this;
  Tensor y = empty(shape(), target);
  dispatch(dtype(), [&](auto from) {
    dispatch(target, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      const From* x = data<From>().data();
      To* out = y.fresh<To>();
      parallel_for(numel(), elementwise_grain, [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) out[i] = convert<To>(x[i]);
      });
    });
  });
  // dx = dy, in x's type: give() converts
  return record("to", {*this}, std::move(y), keep::nothing, [](Backward& b) { b.give(0, b.dy()); });
}

double Tensor::item_double() const {
  if (numel() != 1) check::fail("item", "the tensor has shape ", shape(), ": it must have one element");
  double v = 0;
  dispatch(dtype(), [&](auto t) { v = static_cast<double>(data<decltype(t)>()[0]); });
  return v;
}

std::int64_t Tensor::item_int() const {
  if (dtype() == DType::int64 && numel() == 1) return data<std::int64_t>()[0];
  return convert<std::int64_t>(item_double());
}

// ---- gradients ----------------------------------------------------------------------------------------------------

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
    impl_->node = detail::new_leaf(shape(), dtype());
    impl_->owns_grad = true;
  } else if (!on && impl_->node) {
    detail::abandon(*impl_->node);
    detail::drop_node(std::exchange(impl_->node, nullptr));
    impl_->owns_grad = false;
  }
  return *this;
}

Tensor Tensor::grad() const {
  const detail::Node* n = get().node;
  if (!n) return {};
  if (n->leaf()) return n->outputs[0].grad;
  const detail::Node* kept = n->outputs[impl_->output].retained;
  return kept ? kept->outputs[0].grad : Tensor();
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
  detail::Node* n = get().node;
  if (!n) return;
  if (n->leaf())
    n->outputs[0].grad = Tensor();
  else if (detail::Node* kept = n->outputs[impl_->output].retained)
    kept->outputs[0].grad = Tensor();
}

void Tensor::retain_grad() {
  detail::Node* n = get().node;
  if (!n) check::fail("retain_grad", "the tensor of shape ", shape(), " wants no gradient");
  if (n->leaf() || n->outputs[impl_->output].retained) return;
  n->outputs[impl_->output].retained = detail::new_leaf(shape(), dtype());
  impl_->owns_grad = true;
}

}  // namespace fit
