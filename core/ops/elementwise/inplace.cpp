// Changes in place: add_, sub_, mul_, div_, fill_, zero_, copy_; and add_into for gradients.
#include "ops/elementwise/inplace.hpp"

#include <utility>

#include "graph/node.hpp"
#include "kernels/copy.hpp"
#include "ops/elementwise/arithmetic.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

void count_write(detail::Storage& s) noexcept {
  // Concurrent writes are a caller's error anyway, so this needs no locked instruction.
  s.version.store(s.version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  detail::forget_copy(s);
}

[[noreturn]] void fail_leaf(const char* op, const Tensor& x) {
  check::fail(op, "the tensor of shape ", x.shape(),
              " is a leaf that wants a gradient: change it under NoGrad, or use the out-of-place form");
}

}  // namespace

bool must_record(const char* op, const Tensor& x, const Tensor& operand) {
  const bool wanted = x.requires_grad() || (operand.defined() && operand.requires_grad());
  if (!grad_enabled() || !wanted || !is_floating(x.dtype())) return false;
  if (x.requires_grad() && x.is_leaf()) fail_leaf(op, x);
  if (x.impl()->frozen_leaf)  // a target network that follows: its weights would become a part of the graph
    check::fail(
        op, "the tensor of shape ", x.shape(),
        " is a frozen leaf, and would become the result of tensors that want gradients: change it under NoGrad");
  if (x.impl()->storage->refs.load(std::memory_order_acquire) != 1)
    check::fail(op, "the change of the tensor of shape ", x.shape(),
                " must be recorded, but another tensor or a recorded operation shares its buffer: use the out-of-place "
                "form, or change a clone()");
  return true;
}

void rebind_storage(Tensor& x, const Tensor& result) {
  detail::TensorImpl &to = *x.impl(), &from = *result.impl();
  const std::uint32_t version = to.storage->version.load(std::memory_order_relaxed) + 1;
  std::swap(to.storage, from.storage);
  std::swap(to.node, from.node);
  std::swap(to.output, from.output);
  std::swap(to.loss_terms, from.loss_terms);
  // What retain_grad() keeps is the gradient of the tensor after its last change.
  if (detail::Node* const kept =
          from.node ? std::exchange(from.node->outputs[from.output].retained, nullptr) : nullptr) {
    if (to.node)
      to.node->outputs[to.output].retained = kept;
    else
      detail::drop_node(kept);
  }
  // The version continues, also in the values that the node kept of its own result.
  to.storage->version.store(version, std::memory_order_relaxed);
  if (to.node)
    for (int i = 0; i < to.node->saved_count; ++i)
      if (to.node->saved[i].storage == to.storage) to.node->saved[i].version = version;
}

namespace {

// The operand of an in-place operation on x, in x's type. Tensors that share a buffer share its beginning: element i of
// the operand is read before element i of x is written.
Tensor operand_for(const char* op, const Tensor& x, const Tensor& o) {
  if (check::broadcast(op, x.shape(), o.shape()) != x.shape())
    check::fail(op, "the operand of shape ", o.shape(), " does not broadcast to the tensor's own shape ", x.shape());
  return o.dtype() == x.dtype() ? o : o.to(x.dtype());
}

// Throws Error if the tensor's own type can't hold the result of in-place arithmetic.
template <class Op>
void expect_holds(const char* op, DType own, bool fractions) {
  if (own == DType::boolean || (own == DType::int64 && (std::is_same_v<Op, Div> || fractions)))
    check::fail(op, "the tensor is ", own,
                ", which can't hold the result: use the out-of-place form, or convert the tensor with .to()");
}

template <class Op, class Form>
Tensor& change(const char* op, Tensor& x, const Tensor& o, const Form& out_of_place) {
  check::defined(op, "the tensor", x, "the operand", o);
  expect_holds<Op>(op, x.dtype(), is_floating(o.dtype()));
  const bool recorded = must_record(op, x, o);
  const Tensor operand = operand_for(op, x, o);
  if (recorded) {
    rebind_storage(x, out_of_place(x, operand));
  } else {
    x.before_write(op);
    compute<Op>(x, x, operand);
    detail::note_loss_terms({operand}, x);
  }
  return x;
}

template <class Op, class Form>
Tensor& change(const char* op, Tensor& x, Scalar s, const Form& out_of_place) {
  check::defined(op, "the tensor", x);
  expect_holds<Op>(op, x.dtype(), false);
  if (!is_floating(x.dtype())) s.to_integer(op);
  if (must_record(op, x, {})) {
    rebind_storage(x, out_of_place(x, s));
  } else {
    x.before_write(op);
    compute<Op>(x, x, s);
  }
  return x;
}

}  // namespace

void Tensor::before_write(const char* op) {
  const detail::TensorImpl& t = get();
  if (t.node && detail::thread_state.recording) {
    if (t.node->leaf()) fail_leaf(op, *this);
    check::fail(op, "the tensor of shape ", t.shape, " was computed by ", t.node->op,
                " from tensors that want gradients: write into a detach()ed clone(), or under NoGrad");
  }
  count_write(*t.storage);
}

#define FIT_IN_PLACE(Op, name)                                                                                \
  Tensor& Tensor::name##_(const Tensor& o) {                                                                  \
    return change<Op>(#name "_", *this, o, [](const Tensor& x, const Tensor& y) { return fit::name(x, y); }); \
  }                                                                                                           \
  Tensor& Tensor::name##_(Scalar s) {                                                                         \
    return change<Op>(#name "_", *this, s, [](const Tensor& x, Scalar y) { return fit::name(x, y); });        \
  }
FIT_IN_PLACE(Add, add)
FIT_IN_PLACE(Sub, sub)
FIT_IN_PLACE(Mul, mul)
FIT_IN_PLACE(Div, div)
#undef FIT_IN_PLACE

namespace {

// a op= b assigns a new tensor to a; an optimiser, a layer or grad() would keep the old leaf.
void expect_no_leaf(const char* op, const char* in_place, const Tensor& a) {
  if (a.defined() && a.requires_grad() && a.is_leaf())
    check::fail(op, "the tensor of shape ", a.shape(),
                " is a leaf that wants a gradient, and this would give its name to another tensor: change it in place, "
                "under NoGrad, by ",
                in_place, "(…)");
}

}  // namespace

#define FIT_ASSIGN(symbol, name)                        \
  Tensor& operator symbol(Tensor& a, const Tensor& b) { \
    expect_no_leaf(#symbol, #name "_", a);              \
    return a = name(a, b);                              \
  }                                                     \
  Tensor& operator symbol(Tensor& a, Scalar b) {        \
    expect_no_leaf(#symbol, #name "_", a);              \
    return a = name(a, b);                              \
  }
FIT_ASSIGN(+=, add)
FIT_ASSIGN(-=, sub)
FIT_ASSIGN(*=, mul)
FIT_ASSIGN(/=, div)
#undef FIT_ASSIGN

Tensor& Tensor::fill_(Scalar s) {
  check::defined("fill_", "the tensor", *this);
  if (must_record("fill_", *this, {})) {
    rebind_storage(*this, full(shape(), s, dtype()));
    return *this;
  }
  before_write("fill_");
  dispatch(dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T value = number_as<T>("fill_", s);
    run_unary<T, T>(*this, *this, [value](T* y, const T*, std::int64_t n) { std::fill_n(y, n, value); });
  });
  return *this;
}

Tensor& Tensor::zero_() { return fill_(0); }

Tensor& Tensor::copy_(const Tensor& o) {
  check::stored("copy_", "the tensor", *this), check::stored("copy_", "the operand", o);
  const bool recorded = must_record("copy_", *this, o);
  const Tensor from = operand_for("copy_", *this, o);
  if (recorded) {
    const Tensor wide = from.shape() == shape() ? from : fit::broadcast_to(from, shape());
    rebind_storage(*this, wide.unique() ? wide : wide.clone());
    return *this;
  }
  before_write("copy_");
  if (from.shape() != shape())
    detail::write_repeated(*this, from);
  else if (from.raw() != raw())
    kernels::copy(fresh<char>(), from.raw(), numel() * static_cast<std::int64_t>(size_of(dtype())));
  return *this;
}

void add_into(Tensor& sum, const Tensor& g) {
  count_write(*sum.impl()->storage);
  compute<Add>(sum, sum, g);
}

}  // namespace fit
