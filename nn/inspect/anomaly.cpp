// DetectAnomaly finds the operation that made the first NaN or infinity.
#include "fit/nn/inspect/anomaly.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "fit/nn/layer/layer.hpp"
#include "graph/node.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"
#include "tensor/position.hpp"

namespace fit {
namespace {

// Statistics of a tensor: counts of NaN and infinite values, the index of the first one, the range of finite values.
struct Values {
  std::int64_t nan = 0, infinite = 0, first = -1;
  double low = std::numeric_limits<double>::infinity(), high = -low;

  explicit Values(const Tensor& x) {
    if (!x.defined() || !is_floating(x.dtype())) return;
    dispatch_floating(x.dtype(), [&](auto zero) {
      const auto all = x.data<decltype(zero)>();
      for (std::int64_t i = 0; i < all.size(); ++i) {
        const double v = static_cast<double>(all[i]);
        if (std::isfinite(v)) {
          low = std::min(low, v);
          high = std::max(high, v);
          continue;
        }
        ++(std::isnan(v) ? nan : infinite);
        if (first < 0) first = i;
      }
    });
  }
  bool clean() const { return nan + infinite == 0; }
};

std::string in_words(const Tensor& x) {
  if (!x.defined()) return "none";
  std::ostringstream s;
  s << x.shape();
  if (!is_floating(x.dtype())) {
    s << ' ' << x.dtype();
    return s.str();
  }
  const Values v(x);
  if (v.low <= v.high) s << " from " << v.low << " to " << v.high;
  if (v.nan) s << ", " << v.nan << " NaN";
  if (v.infinite) s << ", " << v.infinite << " infinite";
  return s.str();
}

// "a NaN in 3 of 8 elements, the first at [0, 2]"
std::string what(const Values& v, const Shape& shape) {
  std::ostringstream s;
  s << (v.nan ? "a NaN" : "an infinity") << " in " << v.nan + v.infinite << " of " << shape.numel()
    << " elements, the first at " << position(shape, v.first);
  return s.str();
}

Tensor value_of(const detail::Saved& s) {
  if (!s.storage) return {};
  detail::hold(s.storage->refs);
  return Tensor::adopt(detail::new_impl(s.storage, s.shape, s.dtype));
}

// Whether incoming gradients, saved tensors and the inputs' gradients so far have no NaN and no infinity.
bool clean(const detail::Node& n) {
  for (int i = 0; i < n.output_count; ++i)
    if (!Values(n.outputs[i].grad).clean()) return false;
  for (int i = 0; i < n.saved_count; ++i)
    if (!Values(value_of(n.saved[i])).clean()) return false;
  for (int i = 0; i < n.input_count; ++i)
    if (const detail::Edge& e = n.edges[i]; e.node && !Values(e.node->outputs[e.output].grad).clean()) return false;
  return true;
}

// The dotted name of the innermost called layer, relative to the outermost; the class name if both are the same.
std::string place() {
  const LayerCall* const inner = innermost_call();
  if (!inner) return {};
  const LayerCall* top = inner;
  while (top->outer) top = top->outer;
  for (const LayerCall* at = inner; at != top; at = at->outer)
    for (const auto& [name, layer] : top->layer.named_layers())
      if (layer == &at->layer && !name.empty()) return name;
  return top->layer.name();
}

}  // namespace

class DetectAnomaly::Finder final : public Observer {
 public:
  // Throws Error if an output has a NaN or an infinity, and no input has one.
  void op_recorded(const OpEvent& e) override {
    for (int k = 0; k < e.output_count; ++k) note(e.outputs[k]);
    if (e.in_backward || is_checkpoint(e.op)) return;  // node_left() checks the gradients
    bool clean = true;  // no tensor and no number that the operation takes is infinite or NaN
    for (const OpAttribute& a : e.attributes) clean = clean && std::isfinite(a.number());
    for (int i = 0; i < e.inputs.size() && clean; ++i) clean = Values(e.inputs[i]).clean();
    for (int k = 0; k < e.output_count; ++k) {
      const Tensor& y = e.outputs[k];
      if (!y.defined()) continue;
      const Values v(y);
      if (!clean || v.clean()) continue;
      // The logsumexp of a query that sees no key is -infinity.
      if (k > 0 && v.nan == 0 && std::strcmp(e.op, "attention") == 0) continue;
      std::ostringstream inputs;
      for (int i = 0; i < e.inputs.size(); ++i) inputs << "; input " << i << " is " << in_words(e.inputs[i]);
      check::fail(e.op, "its result has ", what(v, y.shape()), inputs.str());
    }
  }

  void node_entered(const NodeEvent& e) override {
    Before& b = before_.emplace_back();
    b.clean = clean(e.node());
    for (int k = 0; k < e.outputs(); ++k) b.came_back.push_back(e.gradient(k));
  }

  // Throws Error if an input's gradient gets a NaN or infinity, and everything was clean before the adjoint.
  void node_left(const NodeEvent& e) override {
    if (before_.empty()) return;  // the node was entered before the Finder existed
    const Before before = std::move(before_.back());
    before_.pop_back();
    if (e.failed || !before.clean || is_checkpoint(e.op())) return;
    const detail::Node& n = e.node();
    for (int i = 0; i < n.input_count; ++i) {
      if (!n.edges[i].node) continue;
      const detail::Output& to = n.edges[i].node->outputs[n.edges[i].output];
      const Values v(to.grad);
      if (v.clean()) continue;
      std::ostringstream more;
      for (const Tensor& dy : before.came_back) more << "; what came back is " << in_words(dy);
      for (int k = 0, slot = 0; k < n.input_count; ++k)
        if (n.kept_inputs >> k & 1) {
          const Tensor x = value_of(n.saved[slot++]);
          if (x.defined()) more << "; input " << k << " was " << in_words(x);
        }
      const auto made = made_.find(&n);
      if (made != made_.end() && made->second.sequence == n.sequence && !made->second.place.empty())
        more << "; it was recorded in " << made->second.place;
      check::fail((std::string(n.op) + "_backward").c_str(), "the gradient of input ", i, " has ", what(v, to.shape),
                  more.str());
    }
  }

 private:
  // The operations within checkpoint() are seen themselves, with what they are given.
  static bool is_checkpoint(const char* op) { return std::strcmp(op, "checkpoint") == 0; }
  void note(const Tensor& y) {
    const detail::Node* const n = y.defined() ? y.impl()->node : nullptr;
    if (n && n->op) made_[n] = {n->sequence, place()};
  }

  struct Before {
    bool clean = false;
    std::vector<Tensor> came_back;  // incoming gradients, which the adjoint may free
  };
  struct Made {
    std::uint64_t sequence;  // identifies the node, because its address may be reused
    std::string place;
  };
  std::vector<Before> before_;  // a stack of the nodes with running adjoints
  std::unordered_map<const detail::Node*, Made> made_;
  const Observe watching_{*this};
};

DetectAnomaly::DetectAnomaly() : finder_(std::make_unique<Finder>()) {}
DetectAnomaly::~DetectAnomaly() = default;

}  // namespace fit
