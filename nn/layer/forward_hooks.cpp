#include "fit/nn/layer/forward_hooks.hpp"

#include "graph/observers.hpp"
#include "layer/list.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

class OnCall final : public Observer {
 public:
  OnCall(detail::OnForward f, detail::When when) : f_(std::move(f)), when_(when) {}
  void layer_entered(LayerCall& call) override {
    if (when_ == detail::When::before && !call.inputs.empty()) apply(call, call.inputs[0]);
  }
  void layer_left(LayerCall& call) override {
    if (when_ == detail::When::after && call.output.defined()) apply(call, call.output);
  }

 private:
  void apply(const LayerCall& call, Tensor& x) const {
    if (Tensor other = f_(call.layer, x); other.defined()) x = std::move(other);
  }
  detail::OnForward f_;
  detail::When when_;
};

void check_calls(const char* op, const Layer& layer) {
  if (ListOf::has_own_call(layer))
    check::fail(op, layer.name(),
                " has a call operator of its own, which no hook sees: name it forward, and FIT_FIELDS ",
                "makes the call operator");
}

}  // namespace

Attachment attach(const Layer& layer, std::shared_ptr<Observer> observer) {
  constexpr const char* op = "attach";
  if (!observer) check::fail(op, "the observer is null: give one made by std::make_shared");
  check_calls(op, layer);
  return layer.attached_.add(std::move(observer));
}

namespace detail {

using fit::detail::ObserverLink;

ForwardHook add_hook(const char* op, const Layer& layer, OnForward f, When when) {
  if (!f) check::fail(op, "the hook is empty: it must be a function");
  check_calls(op, layer);
  return attach(layer, std::make_shared<OnCall>(std::move(f), when));
}

// ---- observed calls -----------------------------------------------------------------------------------------------

namespace {

// The enclosing observed call of the same layer, or null. Its observers do not see nested calls.
const ObserverLink* enclosing(const ObserverLink* at, const Layer& layer) {
  while (at && !(at->call && &at->call->layer == &layer)) at = at->outer;
  return at;
}

template <class F>
void tell(const ObserverLink& link, const F& f) {
  const ObserverLink* const outer = enclosing(link.outer, link.call->layer);
  notify_both(outer ? nullptr : link.attached, f, outer);
}

}  // namespace

void observe(const Layer& layer, std::initializer_list<Tensor*> inputs, FunctionRef<Tensor*()> run) {
  const ObserverLink* const outer = enclosing(fit::detail::thread_state.observed, layer);
  if (outer && thread_observers(outer).empty()) {
    run();
    return;
  }
  LayerCall call{layer, innermost_call(), {}, {}, false};
  for (const Tensor* x : inputs)
    if (x) call.inputs.push_back(*x);
  const ObserverLink link(&call, layer.attached_.list());
  Tensor* output = nullptr;
  fit::detail::EachOne each(call.failed);
  each([&] {
    tell(link, [&](Observer& o) { o.layer_entered(call); });
    std::size_t next = 0;
    for (Tensor* x : inputs)
      if (x) *x = call.inputs.at(next++);
    output = run();
    if (output) call.output = std::move(*output);
  });
  tell(link, [&](Observer& o) { each([&] { o.layer_left(call); }); });
  each.rethrow();
  if (output) *output = std::move(call.output);
}

}  // namespace detail
}  // namespace fit::nn
