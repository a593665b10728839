#include "fit/nn/lens/lens.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

#include "attention/layer_names.hpp"
#include "common/pattern.hpp"
#include "fit/attention/attention.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/graph/named_values.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "lens/other_names.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {
constexpr const char* op = "Lens";
}

struct Lens::State {
  std::unordered_map<const Layer*, std::string> layers;
  Call call;  // null if the model's call does not take one tensor
};

// ---- edits --------------------------------------------------------------------------------------------------------

namespace {

// Boolean, of rank `rank` and size 1 along the other axes: which indices along an axis are listed.
Tensor listed(const std::string& name, const char* what, const std::vector<std::int64_t>& indices, const Shape& shape,
              int axis) {
  const std::int64_t size = shape[axis];
  Shape along = shape;
  for (int a = 0; a < shape.rank(); ++a) along = along.with(a, a == axis ? size : 1);
  Tensor chosen = zeros({size});
  for (std::int64_t i : indices) {
    if (i < -size || i >= size)
      check::fail(op, what, ' ', i, " is edited in '", name, "', which is ", shape, ": there are ", size);
    chosen[i] = 1.0;
  }
  return reshape(chosen != 0, along);
}

// Boolean, broadcastable to the shape: the part that an edit replaces; undefined for all.
Tensor selection(const std::string& name, const Where& where, const Shape& shape) {
  const int rank = shape.rank();
  Tensor all;
  const auto choose = [&](const char* what, const std::vector<std::int64_t>& indices, int axis, int least_rank) {
    if (indices.empty()) return;
    if (rank < least_rank) check::fail(op, what, "s of '", name, "' are edited, which is ", shape, ": it has none");
    const Tensor one = listed(name, what, indices, shape, axis);
    all = all.defined() ? logical_and(all, one) : one;
  };
  choose("element", where.elements(), 0, 3);
  choose("head", where.heads(), rank - 3, 4);
  choose("position", where.positions(), rank - 2, 2);
  choose("feature", where.features(), rank - 1, 1);
  return all;
}

Tensor edited(const Lens::Edit& edit, const std::string& name, const Tensor& x, std::size_t call) {
  const Tensor given = edit.what(name, x, call);
  check::defined(op, "the result of an edit", given);
  const Tensor y = broadcast_to(given.to(x.dtype()), x.shape());
  const Tensor chosen = selection(name, edit.where, x.shape());
  return chosen.defined() ? fit::where(chosen, y, x) : y;
}

}  // namespace

Where head(std::int64_t i) { return Where().heads({i}); }
Where position(std::int64_t i) { return Where().positions({i}); }

LensEdit zero() {
  return [](const Tensor& x) { return zeros_like(x); };
}

namespace {

// The value of the same call in another run. The value of a single call serves all calls.
const Tensor& value_of(const char* op, const LensRun& run, const std::string& name, std::size_t call) {
  const std::vector<Tensor>& calls = run.calls(name);
  if (calls.size() == 1) return calls[0];
  if (call >= calls.size())
    check::fail(op, "'", name, "' is computed more than ", calls.size(),
                " times, as in the other run: both runs must make the same calls");
  return calls[call];
}

}  // namespace

LensEdit mean_of(const LensRun& run) {
  return [run](const std::string& name, const Tensor&, std::size_t call) {
    const Tensor x = value_of("mean_of", run, name, call);
    return x.rank() == 4 ? mean(x, {0, 2}, keepdims) : x.rank() == 3 ? mean(x, {0, 1}, keepdims) : mean(x, 0, keepdims);
  };
}

LensEdit position_mean_of(const LensRun& run) {
  return [run](const std::string& name, const Tensor&, std::size_t call) {
    return mean(value_of("position_mean_of", run, name, call), 0, keepdims);
  };
}

LensEdit from(const LensRun& run) {
  return [run](const std::string& name, const Tensor& x, std::size_t call) {
    const Tensor& other = value_of("from", run, name, call);
    if (other.shape() != x.shape())
      check::fail("from", "'", name, "' is ", x.shape(), " here and ", other.shape(),
                  " in the other run: the shapes must be equal");
    return other;
  };
}

// ---- the observer of a run ----------------------------------------------------------------------------------------

namespace {

// Keeps and edits the values of one run. The tasks of parallel_for() may call it concurrently.
class Watch final : public ValueObserver {
 public:
  Watch(const std::unordered_map<const Layer*, std::string>& layers, const std::vector<Lens::Edit>& edits,
        const std::vector<std::string>& keep)
      : layers_(layers), edits_(edits), keep_(keep) {}

  bool wants_value(const ValueInfo& info) const override {
    const Plan* const plan = info.call ? plan_of(info.call->layer, info.name) : nullptr;
    return plan && (plan->kept || !plan->edits.empty());
  }
  void value_computed(const ValueInfo& info, Tensor& x) override {
    if (info.name == std::string("scores"))  // edited by edit_scores()
      keep(plan_of(info.call->layer, info.name), [&] { return x; });
    else
      take(info.call->layer, info.name, x);
  }
  void layer_entered(LayerCall& call) override {
    if (!call.inputs.empty() && dynamic_cast<const UnaryLayer*>(&call.layer)) take(call.layer, "in", call.inputs[0]);
  }
  void layer_left(LayerCall& call) override {
    // The output of a ScaledDotProductAttention is z.
    if (!call.failed && call.output.defined() && !dynamic_cast<const ScaledDotProductAttention*>(&call.layer))
      take(call.layer, "out", call.output);
  }

  bool edits_attention(const AttentionInfo& info) const override {
    return edits(info, "scores") || edits(info, "weights");
  }
  void edit_scores(const AttentionInfo& info, Tensor& x) override { change(info, "scores", x); }
  void edit_weights(const AttentionInfo& info, Tensor& x) override { change(info, "weights", x); }
  void attention_computed(const AttentionEvent& e) override {
    if (!e.call) return;
    keep(plan_of(e.call->layer, "weights"), [&] { return e.weights(); });
  }

  const std::vector<std::string>& offered() const { return offered_; }
  std::vector<std::pair<std::string, std::vector<Tensor>>> values() { return std::move(values_); }

 private:
  // What happens to a value.
  struct Plan {
    std::string name;
    bool kept = false;
    std::vector<const Lens::Edit*> edits = {};
    mutable std::atomic<std::size_t> calls = 0;
  };

  // Null if the layer is not one of the model. The values of the model are "out" and so on.
  const Plan* plan_of(const Layer& layer, const char* suffix) const {
    const auto at = layers_.find(&layer);
    if (at == layers_.end()) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto [place, added] = plans_.try_emplace({&layer, suffix});
    Plan& plan = place->second;
    if (added) {
      plan.name = at->second.empty() ? suffix : at->second + '.' + suffix;
      const auto matches = [&](const std::string& pattern) { return match(pattern, plan.name).has_value(); };
      plan.kept = std::any_of(keep_.begin(), keep_.end(), matches);
      for (const Lens::Edit& e : edits_)
        if (matches(e.pattern)) plan.edits.push_back(&e);
      offered_.push_back(plan.name);
    }
    return &plan;
  }

  bool edits(const AttentionInfo& info, const char* suffix) const {
    const Plan* const plan = info.call ? plan_of(info.call->layer, suffix) : nullptr;
    return plan && !plan->edits.empty();
  }
  void change(const AttentionInfo& info, const char* suffix, Tensor& x) const {
    if (const Plan* const plan = plan_of(info.call->layer, suffix)) change(*plan, x);
  }
  static void change(const Plan& plan, Tensor& x) {
    // checkpoint() computes again what it has computed: if there were several calls, the last of them.
    const std::size_t call =
        fit::detail::computing_again() ? std::max<std::size_t>(plan.calls, 1) - 1 : plan.calls.fetch_add(1);
    for (const Lens::Edit* const e : plan.edits) x = edited(*e, plan.name, x, call);
  }
  template <class F>
  void keep(const Plan* plan, const F& value) {
    if (!plan || !plan->kept || fit::detail::computing_again()) return;
    Tensor x = value();
    const std::lock_guard lock(mutex_);
    auto at = std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.first == plan->name; });
    if (at == values_.end()) at = values_.insert(at, {plan->name, {}});
    at->second.push_back(std::move(x));
  }
  void take(const Layer& layer, const char* suffix, Tensor& x) {
    const Plan* const plan = plan_of(layer, suffix);
    if (!plan) return;
    change(*plan, x);
    keep(plan, [&] { return x; });
  }

  const std::unordered_map<const Layer*, std::string>& layers_;
  const std::vector<Lens::Edit>& edits_;
  const std::vector<std::string>& keep_;
  mutable std::mutex mutex_;  // guards the members below; a Plan is constant, except for `calls`
  mutable std::map<std::pair<const Layer*, std::string>, Plan> plans_;
  mutable std::vector<std::string> offered_;
  std::vector<std::pair<std::string, std::vector<Tensor>>> values_;
};

}  // namespace

// ---- names of TransformerLens -------------------------------------------------------------------------------------

namespace {

// Throws Error with our name of a value that has a name of TransformerLens.
void check_name(const char* op, const std::string& name) {
  const std::string ours = our_value_name(name);
  if (!ours.empty())
    check::fail(op, "nothing is called '", name, "', which is a name of TransformerLens: here it is '", ours, '\'');
}

}  // namespace

// ---- LensRun ------------------------------------------------------------------------------------------------------

const std::vector<Tensor>& LensRun::calls(const std::string& name) const {
  for (const auto& [kept, calls] : values_)
    if (kept == name) return calls;
  check_name("LensRun", name);
  const std::vector<std::string> all = names();
  const std::string* const near = most_similar(name, all);
  check::fail("LensRun", "the run has kept no value '", name, '\'', near ? ": do you mean '" + *near + "'?" : "");
}

std::vector<std::string> LensRun::names(const std::string& pattern) const {
  std::vector<std::string> found;
  for (const auto& [name, calls] : values_)
    if (match(pattern, name)) found.push_back(name);
  return found;
}

// ---- Lens ---------------------------------------------------------------------------------------------------------

Lens::Lens(const Layer& model, Call call)
    : state_(std::make_shared<State>(State{layer_names(model), std::move(call)})) {}

Lens Lens::with(const std::string& pattern, const Where& where, LensEdit edit) const {
  Lens other = *this;
  other.edits_.push_back({pattern, where, std::move(edit)});
  return other;
}

std::function<Tensor()> Lens::call_of(const Tensor& input) const {
  if (!state_->call) check::fail(op, "the model's call does not take one tensor: give a function that calls it");
  return [this, input] { return state_->call(input); };
}

std::pair<LensRun, std::vector<std::string>> Lens::observe(const std::function<Tensor()>& f,
                                                           const std::vector<std::string>& keep) const {
  LensRun run;
  Watch watch(state_->layers, edits_, keep);
  {
    const Observe watching(watch);
    run.output = f();
  }
  std::vector<std::string> patterns = keep;
  for (const Edit& e : edits_) patterns.push_back(e.pattern);
  for (const std::string& pattern : patterns) check_name(op, pattern);
  first_matches(op, patterns, watch.offered());
  run.values_ = watch.values();
  return {std::move(run), watch.offered()};
}

LensRun Lens::run(const std::function<Tensor()>& f, const std::vector<std::string>& keep) const {
  if (!keep.empty() || !edits_.empty()) return observe(f, keep).first;
  LensRun run;
  run.output = f();
  return run;
}

std::vector<std::string> Lens::names(const std::function<Tensor()>& f) const { return observe(f, {}).second; }

LensRun Lens::run(const Tensor& input, const std::vector<std::string>& keep) const { return run(call_of(input), keep); }
std::vector<std::string> Lens::names(const Tensor& input) const { return names(call_of(input)); }

}  // namespace fit::nn
