// Hooks of leaves: registered, taken away, called.
#include "graph/hooks.hpp"

#include <algorithm>

#include "tensor/check.hpp"

namespace fit {
namespace detail {

std::atomic<std::int64_t> hook_count{0};
thread_local const std::function<void()>* between_nodes = nullptr;

void free_hooks(LeafHooks* hooks) noexcept { delete hooks; }

void call_hooks(Node& leaf) {
  const std::vector<LeafHooks::Entry> all = leaf.hooks->entries;  // a hook may take itself or others away
  for (const LeafHooks::Entry& one : all) {
    const auto& now = leaf.hooks->entries;
    if (std::none_of(now.begin(), now.end(), [&](const auto& e) { return e.id == one.id; })) continue;
    if (leaf.orphan) return;
    TensorImpl* const t = leaf.hooks->tensor;
    hold(t->refs);
    (*one.call)(Tensor(t));
  }
}

}  // namespace detail

GradHook register_post_accumulate_grad_hook(const Tensor& leaf, std::function<void(const Tensor&)> f) {
  constexpr const char* op = "register_post_accumulate_grad_hook";
  if (!leaf.requires_grad() || !leaf.is_leaf())
    check::fail(op, "the tensor of shape ", leaf.shape(),
                " is no leaf that wants a gradient: call requires_grad_() on it first");
  if (!f) check::fail(op, "the hook is empty: it must be a function");
  static std::atomic<std::uint64_t> last{0};
  detail::Node* const node = leaf.impl()->node;
  auto call = std::make_shared<const std::function<void(const Tensor&)>>(std::move(f));
  if (!node->hooks) node->hooks = new detail::LeafHooks{leaf.impl(), {}, nullptr};
  node->hooks->entries.push_back({++last, std::move(call)});
  detail::hold(node->refs);
  ++detail::hook_count;
  return GradHook(node, node->hooks->entries.back().id);
}

void GradHook::remove() noexcept {
  detail::Node* const node = std::exchange(node_, nullptr);
  if (!node) return;
  auto& entries = node->hooks->entries;
  const auto at = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.id == id_; });
  if (at != entries.end()) {
    const auto last_use = std::move(at->call);  // what it holds may be freed only once the list is whole again
    entries.erase(at);
  }
  --detail::hook_count;
  detail::drop_node(node);
}

BackwardPoll::BackwardPoll(std::function<void()> f) : f_(std::move(f)), before_(detail::between_nodes) {
  if (!f_) check::fail("BackwardPoll", "the function is empty");
  detail::between_nodes = &f_;
}

BackwardPoll::~BackwardPoll() { detail::between_nodes = before_; }

}  // namespace fit
