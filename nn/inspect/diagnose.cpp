// diagnose() follows each parameter through the operations of a call, and then checks the gradients.
#include "fit/nn/inspect/diagnose.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "attention/attend.hpp"
#include "base/affixes.hpp"
#include "fit/tensor/random.hpp"
#include "graph/node.hpp"
#include "layer/buffers.hpp"
#include "layer/innermost_name.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::nn {
namespace {

struct Squares {
  double sum = 0;
  bool finite = true;

  explicit Squares(const Tensor& x) {
    dispatch_floating(x.dtype(), [&](auto zero) {
      for (const auto v : x.data<decltype(zero)>()) {
        sum += static_cast<double>(v) * static_cast<double>(v);
        finite = finite && std::isfinite(static_cast<double>(v));
      }
    });
  }
  double rms(const Tensor& x) const { return x.numel() == 0 ? 0 : std::sqrt(sum / static_cast<double>(x.numel())); }
};

// The status of a parameter in the call.
struct Status {
  std::string last;  // the last operation that depends on it, with its layer
  std::string cut;   // how its first path was cut; empty if none was
};

// Observes the computation of the loss.
class Diagnoser final : public Observer {
 public:
  Diagnoser(const Layer& model, const StateDict& parameters, const DiagnoseOptions& options)
      : statuses(parameters.size()), options_(options) {
    for (const auto& [name, layer] : model.named_layers()) names_.emplace(layer, name.empty() ? model.name() : name);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const fit::detail::TensorImpl* const p = parameters[i].second.impl();
      std::vector<bool>& from = from_[p->storage];
      from.resize(parameters.size());
      from[i] = true;
      leaves_.insert(p->node);
    }
  }

  void layer_entered(LayerCall& call) override { called.insert(&call.layer); }

  void op_recorded(const OpEvent& e) override {
    if (e.in_backward) return;
    follow(e);
    if (e.output_count != 1 || !e.outputs[0].defined()) return;
    if (e.op == std::string("relu")) look_at_relu(e.outputs[0]);
    if (e.op == std::string("softmax")) look_at_softmax(e.inputs[0], e.outputs[0]);
  }

  void attention_computed(const AttentionEvent& e) override {
    const Tensor mask = e.mask_of(0);
    kernels::Visibility pairs{e.Sq, e.Sk, e.causal, e.window};
    const auto plan = fit::detail::plan_tiles("diagnose", pairs, 1, e.H, mask.defined() ? mask.unsqueeze(0) : mask);
    plan.apply(pairs);
    ActivationCount& counted = at("attention");
    const Tensor weights = e.weights(0).to(float64);
    const double* row = weights.data<double>().begin();
    for (std::int64_t h = 0; h < e.H; ++h)
      for (std::int64_t i = 0; i < e.Sq; ++i, row += e.Sk) {
        int attended = 0;
        for (std::int64_t j = 0; j < e.Sk && attended < 2; ++j) attended += pairs.attends(0, h, i, j);
        if (attended > 1) count_row(counted, row, e.Sk);
      }
  }

  std::vector<Status> statuses;
  std::unordered_set<const Layer*> called;
  std::vector<ActivationCount> activations;
  std::vector<std::int64_t> inputs;  // of each activation
  struct Leaf {
    Tensor leaf;
    std::string reader, place;  // the operation that read it first, and its layer
  };
  std::vector<Leaf> unlisted;  // leaves that require a gradient and are no parameters of the model

 private:
  std::string location(const char* op) const {
    const std::string where = innermost_name(names_);
    return where.empty() ? op : op + (" in " + where);
  }

  // Tracks which parameters the results depend on. Buffers identify tensors, because detach() and reshape() share them.
  void follow(const OpEvent& e) {
    const char* const op = e.op;
    std::vector<bool> live(statuses.size());
    for (int i = 0; i < e.inputs.size(); ++i) {
      const fit::detail::TensorImpl* const x = e.inputs[i].impl();
      if (!x) continue;
      const auto from = from_.find(x->storage);
      if (from == from_.end() && x->node && x->node->leaf() && leaves_.insert(x->node).second)
        unlisted.push_back({e.inputs[i], location(op), innermost_name(names_)});
      if (from == from_.end()) continue;
      for (std::size_t p = 0; p < live.size(); ++p) {
        if (!from->second[p]) continue;
        if (x->node)
          live[p] = true;
        else if (statuses[p].cut.empty())
          statuses[p].cut = "by a detach() before " + location(op);
      }
    }
    for (std::size_t p = 0; p < live.size(); ++p)
      if (live[p]) statuses[p].last = location(op);
    for (int k = 0; k < e.output_count; ++k) {
      const Tensor& y = e.outputs[k];
      if (!y.defined()) continue;
      held_.push_back(y);  // so that its address is not reused
      std::vector<bool>& to = from_[y.impl()->storage];
      to.resize(live.size());
      for (std::size_t p = 0; p < live.size(); ++p) {
        if (!live[p]) continue;
        if (y.impl()->node)
          to[p] = true;
        else if (statuses[p].cut.empty())
          statuses[p].cut = "at " + location(op) + ", which ran under NoGrad";
      }
    }
  }

  ActivationCount& at(const char* op) {
    const std::string name = innermost_name(names_);
    for (ActivationCount& a : activations)
      if (a.name == name && a.op == op) return a;
    inputs.push_back(0);
    return activations.emplace_back(ActivationCount{name, op, 0, 0});
  }

  void look_at_relu(const Tensor& y) {
    if (y.numel() == 0) return;
    const int axis = y.rank() >= 4 ? 1 : y.rank() - 1;
    const std::int64_t units = y.rank() == 0 ? 1 : y.size(axis);
    std::int64_t inner = 1;
    for (int a = axis + 1; a < y.rank(); ++a) inner *= y.size(a);
    std::vector<bool> alive(static_cast<std::size_t>(units));
    dispatch_floating(y.dtype(), [&](auto zero) {
      const auto v = y.data<decltype(zero)>();
      for (std::int64_t i = 0; i < v.size(); ++i)
        if (v[i] != zero) alive[i / inner % units] = true;
    });
    ActivationCount& counted = at("relu");
    counted.count += units;
    for (const bool one : alive) counted.silent += !one;
    inputs[&counted - activations.data()] = y.numel() / units;
  }

  // x are the scores of y. A row counts if two or more scores are not masked, by -inf or a large negative number. The
  // weight of an unmasked element may be 0.
  void look_at_softmax(const Tensor& x, const Tensor& y) {
    if (y.rank() == 0 || y.size(-1) < 2) return;
    const std::int64_t n = y.size(-1);
    const Tensor wide = y.detach().to(float64), scores = x.detach().to(float64);
    const auto v = wide.data<double>(), s = scores.data<double>();
    ActivationCount& counted = at("softmax");
    for (std::int64_t r = 0; r + n <= v.size(); r += n) {
      double sum = 0;
      int seen = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += v[r + j], seen += s[r + j] > -5e8;
      if (std::abs(sum - 1) < 1e-3 && seen > 1)
        count_row(counted, v.begin() + r, n);  // a sum other than 1 means softmax along another axis
    }
  }

  void count_row(ActivationCount& counted, const double* row, std::int64_t n) const {
    ++counted.count;
    counted.silent += *std::max_element(row, row + n) > options_.one_weight();
  }

  const DiagnoseOptions options_;
  std::unordered_map<const fit::detail::Storage*, std::vector<bool>> from_;
  std::vector<Tensor> held_;
  // The leaves that are parameters or in `unlisted`. An input of checkpoint() shares the node of a leaf, not its
  // buffer.
  std::unordered_set<const fit::detail::Node*> leaves_;
  std::unordered_map<const Layer*, std::string> names_;
};

std::string short_of(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

bool bias_of_keys(const std::string& name) { return ends_with(name, "w_k.bias") || ends_with(name, "W_key.bias"); }

std::string of_no_gradient(const Status& status, const std::string& name, const Layer& model,
                           const Diagnoser& diagnoser) {
  if (!status.cut.empty())
    return (status.last.empty() ? "The" : "It was used by " + status.last + "; the") + " way to the loss was cut " +
           status.cut;
  if (!status.last.empty())
    return "The last operation that used it, or what came of it, was " + status.last +
           ", and the loss does not depend on that";
  const std::size_t dot = name.find_last_of('.');
  const std::string owner = dot == std::string::npos ? "" : name.substr(0, dot);
  for (const auto& [layer_name, layer] : model.named_layers())
    if (layer_name == owner && !owner.empty() && !diagnoser.called.count(layer))
      return "No operation used it: " + owner + " was not called";
  return "No operation used it";
}

}  // namespace

const char* name_of(Issue a) {
  // In the order of Issue.
  static constexpr const char* names[] = {
      "no gradient", "zero gradient",     "vanishing gradient", "exploding gradient", "gradient that is not finite",
      "dead units",  "saturated softmax", "not trained"};
  return names[static_cast<int>(a)];
}

namespace {

// The loss of one call, watched.
Tensor watched_loss(const char* op, const Layer& model, const std::function<Tensor()>& loss, Diagnoser& diagnoser) {
  const Observe watching(diagnoser);
  Tensor value = within(model, loss);
  check::defined(op, "the loss", value);
  if (value.numel() != 1 || !is_floating(value.dtype()))
    check::fail(op, "the loss is of shape ", value.shape(), " and type ", value.dtype(),
                ": it must be one floating number");
  return value;
}

// What is wrong with a gradient, which has elements.
void judge_gradient(const std::string& name, const Tensor& g, ParameterGradient& entry, const DiagnoseOptions& options,
                    std::vector<Finding>& findings) {
  const Squares squares(g);
  const double rms = squares.rms(g);
  entry.gradient_rms = rms;
  const auto found = [&](Issue what, const std::string& text) { findings.push_back({name, what, text}); };
  if (!squares.finite)
    found(Issue::not_finite, "It has a NaN or an infinity: DetectAnomaly finds where it comes from");
  else if (rms > options.exploding())
    found(Issue::exploding, "Its root mean square is " + short_of(rms));
  else if (rms == 0 && !bias_of_keys(name))
    found(Issue::zero, "All " + std::to_string(g.numel()) + " elements are 0");
  else if (rms > 0 && rms < options.vanishing() && !bias_of_keys(name))
    found(Issue::vanishing, "Its root mean square is " + short_of(rms));
}

void judge_activation(const ActivationCount& a, std::int64_t inputs, const DiagnoseOptions& options,
                      std::vector<Finding>& findings) {
  const bool units = a.op == "relu";
  const double share = a.count == 0 ? 0 : static_cast<double>(a.silent) / static_cast<double>(a.count);
  if (a.silent == 0 || share < (units ? options.dead() : options.saturated())) return;
  const std::string of = std::to_string(a.silent) + " of " + std::to_string(a.count);
  findings.push_back({a.name, units ? Issue::dead_units : Issue::saturated,
                      units ? of + " units of relu were 0 for all " + std::to_string(inputs) + " inputs"
                            : of + " rows of " + a.op + " have a weight above " + short_of(options.one_weight())});
}

// The gradients of the loss by the trained parameters, in their order, and then by the unlisted leaves.
std::vector<Tensor> gradients_of(const Tensor& loss, const StateDict& trained, const Diagnoser& diagnoser) {
  std::vector<Tensor> leaves;
  for (const auto& [name, p] : trained) leaves.push_back(p);
  for (const Diagnoser::Leaf& l : diagnoser.unlisted) leaves.push_back(l.leaf);
  std::vector<Tensor> gradients(leaves.size());
  if (loss.requires_grad() && !leaves.empty()) gradients = grad({loss}, leaves, allow_unused);
  return gradients;
}

// Adds all parameters, and what is wrong with the gradients of parameters and unlisted leaves.
void judge_gradients(const Layer& model, const std::vector<Tensor>& gradients, const Diagnoser& diagnoser,
                     const DiagnoseOptions& options, Diagnosis& all) {
  std::unordered_set<const void*> optimised;
  for (const Tensor& p : options.trained()) optimised.insert(p.impl());
  std::size_t next = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    ParameterGradient entry{name, p.shape(), Squares(p).rms(p), std::nullopt};
    if (p.requires_grad()) {
      const Tensor& g = gradients[next];
      const Status& status = diagnoser.statuses[next++];
      if (g.defined() && !optimised.empty() && !optimised.count(p.impl()))
        all.findings.push_back(
            {name, Issue::untrained,
             "The optimiser does not have it: make the optimiser from the parameters of this model"});
      if (!g.defined())
        all.findings.push_back({name, Issue::no_gradient, of_no_gradient(status, name, model, diagnoser)});
      else if (g.numel() > 0)
        judge_gradient(name, g, entry, options, all.findings);
    }
    all.parameters.push_back(std::move(entry));
  }
  for (const Diagnoser::Leaf& l : diagnoser.unlisted)
    if (gradients[next++].defined() && !optimised.count(l.leaf.impl()))
      all.findings.push_back(
          {l.place, Issue::untrained,
           "A leaf of shape " + l.leaf.shape().str() + " that " + l.reader +
               " reads gets a gradient, but is no parameter of the model. If it is a member, make it a "
               "Parameter and list it in FIT_FIELDS; layers behind pointers must be listed, too"});
}

}  // namespace

Diagnosis diagnose(const Layer& model, const std::function<Tensor()>& loss, const DiagnoseOptions& options) {
  constexpr const char* op = "diagnose";
  if (!loss) check::fail(op, "the loss is empty: it must be a function");
  const fit::detail::Scoped keep(default_generator());
  const KeptBuffers buffers(model);
  const EnableGrad on;
  StateDict trained;
  for (const auto& [name, p] : model.named_parameters())
    if (p.requires_grad()) trained.emplace_back(name, p);
  Diagnoser diagnoser(model, trained, options);
  const Tensor value = watched_loss(op, model, loss, diagnoser);
  Diagnosis all;
  all.loss = value.to(float64).item<double>();
  judge_gradients(model, gradients_of(value, trained, diagnoser), diagnoser, options, all);
  all.activations = diagnoser.activations;
  for (std::size_t i = 0; i < all.activations.size(); ++i)
    judge_activation(all.activations[i], diagnoser.inputs[i], options, all.findings);
  return all;
}

std::string Diagnosis::str() const {
  std::string text = "Loss " + short_of(loss) + ". ";
  text += findings.empty() ? "Nothing was found.\n" : std::to_string(findings.size()) + " findings:\n";
  for (const Finding& f : findings) text += "  " + f.name + ": " + name_of(f.what) + ". " + f.text + ".\n";
  text += "Root mean squares of values and gradients:\n";
  for (const ParameterGradient& p : parameters)
    text += "  " + p.name + ' ' + p.shape.str() + ' ' + short_of(p.value_rms) + ' ' +
            (p.gradient_rms ? short_of(*p.gradient_rms) : "-") + '\n';
  for (const ActivationCount& a : activations)
    text += "  " + a.name + ": " + std::to_string(a.silent) + " of " + std::to_string(a.count) +
            (a.op == "relu" ? " units of relu dead" : " rows of " + a.op + " saturated") + '\n';
  return text;
}

std::ostream& operator<<(std::ostream& out, const Diagnosis& diagnosis) { return out << diagnosis.str(); }

}  // namespace fit::nn
