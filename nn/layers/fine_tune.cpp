#include "fit/nn/layers/fine_tune.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <sstream>
#include <unordered_map>

#include "common/lent.hpp"
#include "common/pattern.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/layer/parametrize.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/ops/ops.hpp"
#include "layer/parametrized.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char *A_name = ".lora_A.weight", *B_name = ".lora_B.weight", *alpha_name = ".lora_alpha";

// The name of an adapter's part. The model itself has no name.
std::string part_name(const std::string& layer, const char* suffix) {
  return layer.empty() ? std::string(suffix + 1) : layer + suffix;
}

void set_frozen(const char* op, const Layer& layer, const std::vector<std::string>& patterns, bool frozen) {
  const StateDict all = layer.named_parameters();
  std::vector<std::string> names;
  for (const auto& [name, p] : all) names.push_back(name);
  const std::vector<std::size_t> matches = first_matches(op, patterns, names);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (matches[i] < patterns.size()) Tensor(all[i].second).requires_grad_(!frozen);
}

// The LoRA adapter of a Linear's weight; null if there is none.
std::shared_ptr<LowRank> adapter_of(const Linear& linear) {
  for (const auto& [name, child] : linear.children())
    if (const auto* p = dynamic_cast<const detail::Parametrized*>(child); p && name == "weight" && p->parametrization)
      return std::dynamic_pointer_cast<LowRank>(p->parametrization);
  return nullptr;
}

// Calls f(name, layer, adapter) for each Linear with an adapter.
template <class F>
void each_adapted(const char* op, const Layer& model, const F& f) {
  bool any = false;
  for (const auto& [name, linear] : model.named_layers<Linear>())
    if (const auto adapter = adapter_of(*linear)) any = true, f(name, const_cast<Linear&>(*linear), *adapter);
  if (!any) check::fail(op, model.name(), " has no adapters: add_lora() adds them");
}

// Throws Error if an adapter has other values for a scope.
void check_own(const char* op, const Layer& model, const char* lost) {
  for (const auto& [name, linear] : model.named_layers<Linear>())
    if (const auto adapter = adapter_of(*linear)) {
      check_not_lent(op, part_name(name, A_name), adapter->A.original(), lost);
      check_not_lent(op, part_name(name, B_name), adapter->B.original(), lost);
    }
}

// The number of names that share the memory of each tensor.
std::unordered_map<const void*, int> names_of_each(const Layer& model) {
  std::unordered_map<const void*, int> count;
  for (const auto& [name, x] : model.state_dict()) ++count[x.raw()];
  return count;
}

bool has_adapters(const Layer& model) {
  const auto linears = model.named_layers<Linear>();
  return std::any_of(linears.begin(), linears.end(), [](const auto& named) { return adapter_of(*named.second); });
}

// The entries of lora_state_dict() for one layer.
struct Stored {
  Tensor A, B, alpha;

  Tensor* part(const std::string& suffix) {
    if (suffix == A_name) return &A;
    if (suffix == B_name) return &B;
    return &alpha;
  }
  std::int64_t rank() const { return A.size(0); }
  // Why the entries do not fit this layer; empty if they fit.
  std::string misfit(const Linear& linear) const {
    std::ostringstream s;
    const Shape weight{linear.out_features(), linear.in_features()};
    if (!A.defined() || !B.defined() || !alpha.defined())
      s << "one of lora_A.weight, lora_B.weight and lora_alpha is missing";
    else if (!is_floating(A.dtype()) || !is_floating(B.dtype()) || A.rank() != 2 || B.rank() != 2 || A.size(0) < 1 ||
             Shape{B.size(0), A.size(1)} != weight || B.size(1) != A.size(0))
      s << "lora_A is " << A.dtype() << ' ' << A.shape() << ", lora_B " << B.dtype() << ' ' << B.shape()
        << ": for a weight of " << weight << " they must be [rank, " << weight[1] << "] and [" << weight[0]
        << ", rank]";
    else if (alpha.numel() != 1 || !std::isfinite(alpha.item()))
      s << "lora_alpha is " << alpha << ": it must be one finite number";
    else if (const auto there = adapter_of(linear)) {
      if (there->A.original().size(0) != rank() || there->alpha() != alpha.item())
        s << "it has rank " << rank() << " and alpha " << alpha.item() << ", the adapter that is there "
          << there->A.original().size(0) << " and " << there->alpha() << ": they must be alike";
    } else if (!detail::adaptable(linear.weight))
      s << "the weight is parametrised already";
    return s.str();
  }
};

// Groups the entries by layer. Adds a message to `wrong` for each name that is not part of an adapter.
std::map<std::string, Stored> stored_adapters(const StateDict& state, std::string& wrong) {
  std::map<std::string, Stored> all;
  for (const auto& [name, x] : state) {
    bool taken = false;
    for (const std::string suffix : {A_name, B_name, alpha_name})
      if (const std::string layer = name.substr(0, std::max(name.size(), suffix.size()) - suffix.size());
          name == part_name(layer, suffix.c_str())) {
        Tensor* const part = all[layer].part(suffix);
        taken = !part->defined();
        *part = x;
      }
    if (!taken) wrong += "\n  unexpected: " + name;
  }
  return all;
}

}  // namespace

void freeze(Layer& layer, const std::vector<std::string>& patterns) { set_frozen("freeze", layer, patterns, true); }

void unfreeze(Layer& layer, const std::vector<std::string>& patterns) {
  set_frozen("unfreeze", layer, patterns, false);
}

std::vector<std::string> add_lora(Layer& model, const LoraOptions& o) {
  constexpr const char* op = "add_lora";
  if (o.rank() < 1) check::fail(op, "rank is ", o.rank(), ": it must be positive");
  if (!std::isfinite(o.alpha())) check::fail(op, "alpha is ", o.alpha(), ": it must be finite");
  if (o.alpha() == 0) check::fail(op, "alpha is 0: the adapters would have no effect, and learn nothing");
  const auto linears = model.named_layers<Linear>();
  if (linears.empty()) check::fail(op, model.name(), " has no Linear");
  std::vector<std::string> names;
  names.reserve(linears.size());
  for (const auto& [name, linear] : linears) names.push_back(name);
  const std::vector<std::size_t> matches = first_matches(op, o.layers(), names);
  const auto count = names_of_each(model);
  std::vector<std::string> adapted;
  std::vector<Linear*> chosen;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const auto& [name, linear] = linears[i];
    if (matches[i] == o.layers().size()) continue;
    if (!detail::adaptable(linear->weight))
      check::fail(op, "the weight of ", name.empty() ? model.name() : name, " is parametrised already");
    if (count.at(linear->weight.original().raw()) > 1) continue;
    chosen.push_back(linear);
    adapted.push_back(name);
  }
  if (chosen.empty()) check::fail(op, "no Linear of ", model.name(), " has a weight of its own that is asked for");
  if (!has_adapters(model)) model.freeze();
  for (Linear* const linear : chosen) low_rank(linear->weight, o.rank(), o.alpha());
  return adapted;
}

StateDict lora_state_dict(const Layer& model) {
  StateDict state;
  each_adapted("lora_state_dict", model, [&](const std::string& name, const Linear&, const LowRank& adapter) {
    state.emplace_back(part_name(name, A_name), adapter.A.original().detach());
    state.emplace_back(part_name(name, B_name), adapter.B.original().detach());
    state.emplace_back(part_name(name, alpha_name), full({}, adapter.alpha(), float64));
  });
  return state;
}

void load_lora_state_dict(Layer& model, const StateDict& state) {
  constexpr const char* op = "load_lora_state_dict";
  std::string wrong;
  std::map<std::string, Stored> adapters = stored_adapters(state, wrong);
  if (adapters.empty() && wrong.empty()) check::fail(op, "there are no adapters");
  const bool first = !has_adapters(model);
  std::vector<std::pair<Linear*, Stored>> fitting;
  for (const auto& [name, linear] : model.named_layers<Linear>()) {
    const auto found = adapters.find(name);
    if (adapter_of(*linear) && found == adapters.end()) wrong += "\n  missing: " + name;
    if (found == adapters.end()) continue;
    if (const std::string misfit = found->second.misfit(*linear); !misfit.empty())
      wrong += "\n  " + name + ": " + misfit;
    fitting.emplace_back(linear, found->second);
    adapters.erase(found);
  }
  for (const auto& [name, adapter] : adapters)
    wrong +=
        "\n  unexpected: " + (name.empty() ? model.name() + " itself is no Linear" : "no Linear is called " + name);
  if (!wrong.empty()) check::fail(op, model.name(), " does not fit; nothing was loaded:", wrong);
  check_own(op, model, "would undo the loading");
  if (first) model.freeze();
  const NoGrad no_grad;
  for (auto& [linear, from] : fitting) {
    if (detail::adaptable(linear->weight)) low_rank(linear->weight, from.rank(), from.alpha.item());
    const auto to = adapter_of(*linear);
    Tensor(to->A.original()).copy_(from.A.to(to->A.original().dtype()));
    Tensor(to->B.original()).copy_(from.B.to(to->B.original().dtype()));
  }
}

void merge_lora(Layer& model) {
  check_own("merge_lora", model, "would restore an adapter that the model no longer has");
  each_adapted("merge_lora", model,
               [](const std::string&, Linear& linear, const LowRank&) { remove_parametrization(linear.weight); });
}

}  // namespace fit::nn
