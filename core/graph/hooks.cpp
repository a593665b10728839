// Hooks of tensors: registered, taken away, called.
#include "graph/hooks.hpp"

#include <algorithm>

#include "tensor/check.hpp"

namespace fit {
namespace detail {

std::atomic<std::int64_t> hook_count{0};
thread_local const std::function<void()>* between_nodes = nullptr;

void free_hooks(Hooks* hooks) noexcept {
  hook_count -= hooks->kept;
  delete hooks;
}

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

Hooks& hooks_of(Node& n) {
  if (!n.hooks) {
    n.hooks = new Hooks;
    if (n.leaf()) n.hooks->tensor = static_cast<TensorImpl*>(n.closure);
  }
  return *n.hooks;
}

template <class Entries>
bool holds(const Entries& entries, std::uint64_t id) {
  return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.id == id; });
}

template <class Entries>
void erase(Entries& entries, std::uint64_t id) {
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.id == id; });
  if (at == entries.end()) return;
  const auto last_use = std::move(at->call);  // what it holds may be freed only once the list is whole again
  entries.erase(at);
}

}  // namespace

void call_hooks(Node& leaf) {
  const std::vector<Hooks::Entry> all = leaf.hooks->after;  // a hook may take itself or others away
  for (const Hooks::Entry& one : all) {
    if (!holds(leaf.hooks->after, one.id)) continue;
    if (leaf.detached) return;
    TensorImpl* const t = leaf.hooks->tensor;
    hold(t->refs);
    (*one.call)(Tensor(t));
  }
}

void call_grad_hooks(Node& n, std::uint32_t output, Tensor& gradient) {
  constexpr const char* op = "register_hook";
  if (!n.hooks || !gradient.defined()) return;
  const std::vector<Hooks::GradEntry> all = n.hooks->on_gradient;
  for (const Hooks::GradEntry& one : all) {
    if (one.output != output || !holds(n.hooks->on_gradient, one.id)) continue;
    const Tensor seen = gradient;
    const std::uint32_t version = seen.version();
    Tensor other = (*one.call)(seen);
    if (seen.version() != version)
      check::fail(op, "a hook has changed the gradient of shape ", seen.shape(),
                  " in place, which others may share: give another tensor back");
    if (!other.defined()) continue;
    check::shape(op, "what a hook gave for the gradient", other, seen.shape());
    check::dtype(op, "what a hook gave for the gradient", other, seen.dtype());
    gradient = std::move(other);
  }
}

GradHook add_grad_hook(const Tensor& x, std::function<Tensor(const Tensor&)> f) {
  constexpr const char* op = "register_hook";
  check::defined(op, "the tensor", x);
  if (!x.requires_grad())
    check::fail(op, "the tensor of shape ", x.shape(),
                " wants no gradient: call requires_grad_() on it, or on what it is computed from");
  if (!f) check::fail(op, "the hook is empty: it must be a function");
  auto call = std::make_shared<const std::function<Tensor(const Tensor&)>>(std::move(f));
  Node& n = *x.impl()->node;
  Hooks& hooks = hooks_of(n);
  hooks.on_gradient.push_back({next_id(), x.impl()->output, std::move(call)});
  hold(n.refs);
  if (n.leaf()) ++hook_count;
  return GradHook(&n, hooks.on_gradient.back().id);
}

}  // namespace detail

GradHook register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void(const Tensor&)> f) {
  constexpr const char* op = "register_post_accumulate_grad_hook";
  if (!leaf.requires_grad() || !leaf.is_leaf())
    check::fail(op, "the tensor of shape ", leaf.shape(),
                " is no leaf that wants a gradient: call requires_grad_() on it first");
  if (!f) check::fail(op, "the hook is empty: it must be a function");
  auto call = std::make_shared<const std::function<void(const Tensor&)>>(std::move(f));
  detail::Node* const node = leaf.impl()->node;
  detail::Hooks& hooks = detail::hooks_of(*node);
  hooks.after.push_back({detail::next_id(), std::move(call)});
  detail::hold(node->refs);
  ++detail::hook_count;
  return GradHook(node, hooks.after.back().id);
}

void GradHook::remove() noexcept {
  detail::Node* const node = std::exchange(node_, nullptr);
  if (!node) return;
  detail::erase(node->hooks->after, id_);
  detail::erase(node->hooks->on_gradient, id_);
  if (node->leaf()) --detail::hook_count;
  detail::drop_node(node);
}

void GradHook::keep() noexcept {
  detail::Node* const node = std::exchange(node_, nullptr);
  if (!node) return;
  if (node->leaf()) ++node->hooks->kept;  // counts on until the leaf goes
  detail::drop_node(node);
}

BackwardPoll::BackwardPoll(std::function<void()> f) : f_(std::move(f)), before_(detail::between_nodes) {
  if (!f_) check::fail("BackwardPoll", "the function is empty");
  detail::between_nodes = &f_;
}

BackwardPoll::~BackwardPoll() { detail::between_nodes = before_; }

}  // namespace fit
