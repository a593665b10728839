// Finds the operation that made the first NaN or infinity.
#include "graph/anomalies.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// The values of a tensor: how many are NaN or infinite, the first of them, and the range of the others.
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
    << " elements, the first at [";
  std::int64_t left = v.first, size = shape.numel();
  for (int a = 0; a < shape.rank(); ++a) {
    size /= shape[a];
    s << (a ? ", " : "") << left / size;
    left %= size;
  }
  s << ']';
  return s.str();
}

Tensor value_of(const Saved& s) {
  if (!s.storage) return {};
  hold(s.storage->refs);
  return Tensor(new_impl(s.storage, s.offset, s.shape, s.dtype));
}

// Whether what came back, what was kept, and what the inputs have got so far are free of NaN and infinities.
bool clean(const Node& n) {
  for (int i = 0; i < n.output_count; ++i)
    if (!Values(n.outputs[i].grad).clean()) return false;
  for (int i = 0; i < n.saved_count; ++i)
    if (!Values(value_of(n.saved[i])).clean()) return false;
  for (int i = 0; i < n.input_count; ++i)
    if (const Edge& e = n.edges[i]; e.node && !Values(e.node->outputs[e.output].grad).clean()) return false;
  return true;
}

}  // namespace

void find_anomaly(const char* op, const Inputs& in, const Tensor* outputs, int count) {
  thread_state.anomalies->look_at_forward(op, in, outputs, count);
}

void Anomalies::look_at_forward(const char* op, const Inputs& in, const Tensor* outputs, int count) {
  bool clean = std::strcmp(op, "masked_fill") != 0;  // which puts in what it is told to
  for (int i = 0; i < in.size() && clean; ++i) clean = Values(in[i]).clean();
  for (int k = 0; k < count; ++k) {
    const Tensor& y = outputs[k];
    if (!y.defined()) continue;
    if (y.impl()->node && y.impl()->node->op) made_[y.impl()->node] = {y.impl()->node->sequence, place()};
    const Values v(y);
    if (!clean || v.clean()) continue;
    std::ostringstream inputs;
    for (int i = 0; i < in.size(); ++i) inputs << "; input " << i << " is " << in_words(in[i]);
    check::fail(op, "its result has ", what(v, y.shape()), inputs.str());
  }
}

Anomalies::Around::Around(const Node& n) : all_(std::exchange(thread_state.anomalies, nullptr)), node_(n) {
  if (!all_) return;
  clean_ = clean(n);
  for (int k = 0; k < n.output_count; ++k) came_back_.push_back(n.outputs[k].grad);
}

void Anomalies::Around::check() const {
  if (!clean_) return;
  for (int i = 0; i < node_.input_count; ++i) {
    const Edge& e = node_.edges[i];
    if (!e.node) continue;
    const Output& to = e.node->outputs[e.output];
    const Values v(to.grad);
    if (v.clean()) continue;
    std::ostringstream more;
    for (const Tensor& dy : came_back_) more << "; what came back is " << in_words(dy);
    for (int k = 0, slot = 0; k < node_.input_count; ++k)
      if (node_.kept_inputs >> k & 1) {
        const Tensor x = value_of(node_.saved[slot++]);
        if (x.defined()) more << "; input " << k << " was " << in_words(x);
      }
    const auto made = all_->made_.find(&node_);
    if (made != all_->made_.end() && made->second.sequence == node_.sequence && !made->second.place.empty())
      more << "; it was recorded in " << made->second.place;
    check::fail((std::string(node_.op) + "_backward").c_str(), "the gradient of input ", i, " has ", what(v, to.shape),
                more.str());
  }
}

}  // namespace fit::detail
