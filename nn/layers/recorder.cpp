#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fit/nn/attention.hpp"
#include "fit/nn/attention_recorder.hpp"
#include "fit/ops.hpp"
#include "layers/recorded.hpp"
#include "ops/attention_tap.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

// Shared with calls that run in other threads when the recorder goes.
struct AttentionRecorder::State {
  std::unordered_map<const Layer*, std::string> names;  // does not change
  AttentionRecorderOptions options;                     // nor does this

  mutable std::mutex mutex;  // of what follows
  std::int64_t every, step = 0;
  std::map<std::string, std::int64_t> calls;  // in this step
  AttentionRecording recording;

  bool due(const std::string& layer) {
    const std::lock_guard lock(mutex);
    if (step % every != 0) return false;
    const auto at = calls.find(layer);
    return at == calls.end() || at->second < options.calls;
  }

  void take(const std::string& layer, AttentionKind kind, const fit::detail::TappedAttention& call) {
    const std::lock_guard lock(mutex);
    if (step % every != 0 || calls[layer] >= options.calls) return;
    ++calls[layer];
    const auto bytes = static_cast<std::size_t>(call.weights.numel()) * 4 +
                       static_cast<std::size_t>(call.mask.defined() ? call.mask.numel() : 0);
    while (recording.bytes() + bytes > options.max_bytes) {
      // Of a single step nothing can be forgotten: what does not fit is left out.
      const auto& records = recording.records();
      if (std::all_of(records.begin(), records.end(), [&](const AttentionRecord& r) { return r.step == step; })) return;
      every *= 2;
      recording.keep_every(every);
      if (step % every != 0) return;
    }
    AttentionRecordOptions o;
    o.step = step;
    const bool fewer_keys = call.weights.size(2) < call.weights.size(1);
    o.kind = fewer_keys ? AttentionKind::cross : kind;
    o.causal = call.causal;
    o.window = call.window;
    if (call.mask.defined()) o.mask = call.mask.unsqueeze(0);
    recording.add(layer, call.weights, o);
  }
};

namespace {

std::mutex registry_mutex;
std::vector<std::shared_ptr<AttentionRecorder::State>> registry;  // of those that live

// The ScaledDotProductAttention within a layer, called "attention", goes by the name of the layer that it serves.
void list(const Layer& layer, const std::string& name, std::unordered_map<const Layer*, std::string>& names) {
  names.emplace(&layer, name);  // a layer that is there twice keeps its first name
  for (const auto& [child, below] : layer.children()) {
    const bool serves = child == "attention" && dynamic_cast<const ScaledDotProductAttention*>(below);
    list(*below, serves ? name : name.empty() ? child : name + '.' + child, names);
  }
}

}  // namespace

// ---- while a layer is called --------------------------------------------------------------------------------------

class detail::Recorded::Taps {
 public:
  Taps() = default;
  ~Taps() { fit::detail::attention_tap = outer_; }
  Taps(const Taps&) = delete;
  Taps& operator=(const Taps&) = delete;

  bool empty() const { return taps_.empty(); }
  void add(std::shared_ptr<AttentionRecorder::State> state, const std::string& name, AttentionKind kind) {
    taps_.push_back(std::make_unique<Tap>(std::move(state), name, kind));
    fit::detail::attention_tap = taps_.back().get();
  }

 private:
  struct Tap final : fit::detail::AttentionTap {
    Tap(std::shared_ptr<AttentionRecorder::State> s, std::string n, AttentionKind k)
        : AttentionTap(s->options.element, fit::detail::attention_tap),
          state(std::move(s)),
          name(std::move(n)),
          kind(k) {}
    void take(const fit::detail::TappedAttention& call) override { state->take(name, kind, call); }
    std::shared_ptr<AttentionRecorder::State> state;
    std::string name;
    AttentionKind kind;
  };
  std::vector<std::unique_ptr<Tap>> taps_;
  fit::detail::AttentionTap* outer_ = fit::detail::attention_tap;
};

void detail::Recorded::begin(const Layer& layer, AttentionKind kind) {
  if (fit::detail::attention_tap) return;  // the layer around this one sees to it, and knows more
  auto taps = std::make_unique<Taps>();
  {
    const std::lock_guard lock(registry_mutex);
    for (const auto& state : registry) {
      const auto at = state->names.find(&layer);
      if (at != state->names.end() && state->due(at->second)) taps->add(state, at->second, kind);
    }
  }
  if (!taps->empty()) taps_ = taps.release();
}

void detail::Recorded::end() { delete taps_; }

// ---- AttentionRecorder --------------------------------------------------------------------------------------------

AttentionRecorder::AttentionRecorder(const Layer& model, const AttentionRecorderOptions& options)
    : state_(std::make_shared<State>()) {
  constexpr const char* op = "AttentionRecorder";
  if (options.every < 1 || options.calls < 1 || options.max_bytes < 1)
    check::fail(op, "every is ", options.every, ", calls is ", options.calls, ", max_bytes is ", options.max_bytes,
                ": all must be positive");
  if (options.element < 0) check::fail(op, "element is ", options.element, ": it must not be negative");
  list(model, "", state_->names);
  for (auto& [layer, name] : state_->names)
    if (name.empty()) name = model.name();
  state_->options = options;
  state_->every = options.every;
  const std::lock_guard lock(registry_mutex);
  registry.push_back(state_);
  detail::living_recorders.fetch_add(1, std::memory_order_relaxed);
}

AttentionRecorder::~AttentionRecorder() {
  const std::lock_guard lock(registry_mutex);
  registry.erase(std::find(registry.begin(), registry.end(), state_));
  detail::living_recorders.fetch_sub(1, std::memory_order_relaxed);
}

void AttentionRecorder::step(std::int64_t step) {
  if (step < 0) check::fail("AttentionRecorder", "step is ", step, ": it must not be negative");
  const std::lock_guard lock(state_->mutex);
  if (step != state_->step) state_->calls.clear();
  state_->step = step;
}

AttentionRecording AttentionRecorder::recording() const {
  const std::lock_guard lock(state_->mutex);
  return state_->recording;
}

std::int64_t AttentionRecorder::every() const {
  const std::lock_guard lock(state_->mutex);
  return state_->every;
}

}  // namespace fit::nn
