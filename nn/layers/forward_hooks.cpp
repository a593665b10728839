#include "fit/nn/forward_hooks.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "tensor/check.hpp"

namespace fit::nn {
namespace detail {

struct ForwardHooks {
  struct Entry {
    std::uint64_t id;
    std::shared_ptr<const OnForward> call;
  };
  std::vector<Entry> before, after;

  static ForwardHook add(const char* op, Layer& layer, std::vector<Entry> ForwardHooks::*list, OnForward f) {
    if (!f) check::fail(op, "the hook is empty: it must be a function");
    static std::atomic<std::uint64_t> last{0};
    const std::uint64_t id = ++last;
    auto call = std::make_shared<const OnForward>(std::move(f));
    if (!layer.hooks_) layer.hooks_ = std::make_shared<ForwardHooks>();
    ((*layer.hooks_).*list).push_back({id, std::move(call)});
    return ForwardHook(layer.hooks_, id);
  }

  static Tensor run(const Layer& layer, const std::vector<Entry> ForwardHooks::*list, const Tensor& x) {
    const std::shared_ptr<const ForwardHooks> hooks = layer.hooks_;
    Tensor now = x;
    if (!hooks) return now;
    const std::vector<Entry> all = (*hooks).*list;  // a hook may take itself or others away
    for (const Entry& one : all) {
      const auto& left = (*hooks).*list;
      if (std::none_of(left.begin(), left.end(), [&](const Entry& e) { return e.id == one.id; })) continue;
      if (const Tensor other = (*one.call)(layer, now); other.defined()) now = other;
    }
    return now;
  }
};

namespace {
thread_local const HookedCall* innermost = nullptr;  // of this thread's calls that are under way
}

HookedCall::HookedCall(const Layer& layer) : layer_(layer), outer_(innermost), first_(layer.hooked()) {
  for (const HookedCall* c = outer_; c && first_; c = c->outer_) first_ = &c->layer_ != &layer;
  innermost = this;
}
HookedCall::~HookedCall() { innermost = outer_; }

void HookedCall::after(Tensor& output) const {
  if (first_ && output.defined()) output = ForwardHooks::run(layer_, &ForwardHooks::after, output);
}

Tensor hooked_input(const Layer& layer, const Tensor& x) { return ForwardHooks::run(layer, &ForwardHooks::before, x); }

ForwardHook add_forward_hook(Layer& layer, OnForward f) {
  return ForwardHooks::add("register_forward_hook", layer, &ForwardHooks::after, std::move(f));
}
ForwardHook add_forward_pre_hook(Layer& layer, OnForward f) {
  return ForwardHooks::add("register_forward_pre_hook", layer, &ForwardHooks::before, std::move(f));
}

}  // namespace detail

void ForwardHook::remove() noexcept {
  const auto hooks = std::move(hooks_);
  if (!hooks) return;
  for (auto* const list : {&hooks->before, &hooks->after}) {
    const auto at = std::find_if(list->begin(), list->end(), [&](const auto& e) { return e.id == id_; });
    if (at == list->end()) continue;
    const auto last_use = std::move(at->call);  // what it holds may be freed only once the list is whole again
    list->erase(at);
  }
}

}  // namespace fit::nn
