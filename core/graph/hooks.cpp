// Hooks of tensors: functions attached as observers.
#include "graph/hooks.hpp"

#include "tensor/check.hpp"

namespace fit {
namespace detail {

std::atomic<std::int64_t> hook_count{0};

void free_hooks(Hooks* hooks) noexcept { delete hooks; }

Hooks& hooks_of(Node& n) {
  if (!n.hooks) {
    n.hooks = new Hooks;
    if (n.leaf()) n.hooks->tensor = static_cast<TensorImpl*>(n.closure);
  }
  return *n.hooks;
}

namespace {

struct OnAccumulated final : Observer {
  explicit OnAccumulated(std::function<void(const Tensor&)> g) : f(std::move(g)) {}
  void gradient_accumulated(const Tensor& leaf) override { f(leaf); }
  std::function<void(const Tensor&)> f;
};

struct OnGradient final : Observer {
  explicit OnGradient(std::function<Tensor(const Tensor&)> g) : f(std::move(g)) {}
  void gradient_computed(Tensor& gradient) override {
    if (Tensor other = f(gradient); other.defined()) gradient = std::move(other);
  }
  std::function<Tensor(const Tensor&)> f;
};

}  // namespace

void notify_accumulated(Node& leaf) {
  const auto tell = [&](Observer& o) {
    if (leaf.detached) return;
    TensorImpl* const t = leaf.hooks->tensor;
    hold(t->refs);
    o.gradient_accumulated(Tensor::adopt(t));
  };
  if (ObserverList* const all = leaf.hooks->accumulated.list()) all->each(0, tell);
  if (thread_state.observed) notify_thread(tell);
}

void call_grad_hooks(Node& n, std::uint32_t output, Tensor& gradient) {
  constexpr const char* op = "register_hook";
  ObserverList* const all = n.hooks ? n.hooks->on_gradient.list() : nullptr;
  if (!all || !gradient.defined()) return;
  all->each(output, [&](Observer& o) {
    Tensor now = gradient;
    const std::uint32_t version = gradient.version();
    o.gradient_computed(now);
    if (gradient.version() != version)
      check::fail(op, "a hook has changed the gradient of shape ", gradient.shape(),
                  " in place, which others may share: give another tensor back");
    check::shape(op, "what a hook gave for the gradient", now, gradient.shape());
    check::dtype(op, "what a hook gave for the gradient", now, gradient.dtype());
    gradient = std::move(now);
  });
}

GradHook add_grad_hook(const Tensor& x, std::function<Tensor(const Tensor&)> f) {
  constexpr const char* op = "register_hook";
  check::defined(op, "the tensor", x);
  if (!x.requires_grad())
    check::fail(op, "the tensor of shape ", x.shape(),
                " wants no gradient: call requires_grad_() on it, or on what it is computed from");
  if (!f) check::fail(op, "the hook is empty: it must be a function");
  Node& n = *x.impl()->node;
  return hooks_of(n).on_gradient.add(std::make_shared<OnGradient>(std::move(f)), x.impl()->output,
                                     n.leaf() ? &hook_count : nullptr);
}

}  // namespace detail

GradHook register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void(const Tensor&)> f) {
  constexpr const char* op = "register_post_accumulate_grad_hook";
  if (!leaf.requires_grad() || !leaf.is_leaf())
    check::fail(op, "the tensor of shape ", leaf.shape(),
                " is no leaf that wants a gradient: call requires_grad_() on it first");
  if (!f) check::fail(op, "the hook is empty: it must be a function");
  return detail::hooks_of(*leaf.impl()->node)
      .accumulated.add(std::make_shared<detail::OnAccumulated>(std::move(f)), 0, &detail::hook_count);
}

}  // namespace fit
