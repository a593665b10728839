#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "attention/layer_names.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/attention_recorder.hpp"
#include "fit/nn/layer/forward_hooks.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

namespace {

// Cross-attention if the enclosing layer has different inputs for queries and keys, or if there are fewer keys than
// queries; else self-attention.
AttentionKind kind_of(const AttentionEvent& e) {
  const LayerCall* const outer = e.call->outer;
  const bool differ = outer && outer->inputs.size() > 1 && outer->inputs[0].raw() != outer->inputs[1].raw();
  return differ || e.Sk < e.Sq ? AttentionKind::cross : AttentionKind::self;
}

}  // namespace

// The observer of all layers. Calls on other threads may still use it when the recorder is destroyed.
struct AttentionRecorder::State final : Observer {
  std::unordered_map<const Layer*, std::string> names;  // constant
  AttentionRecorderOptions options;                     // constant

  mutable std::mutex mutex;  // guards the members below
  std::int64_t every, step = 0;
  std::map<std::string, std::int64_t> calls;  // in this step
  AttentionRecording recording;

  bool due(const std::string& layer) {
    const std::lock_guard lock(mutex);
    if (step % every != 0) return false;
    const auto at = calls.find(layer);
    return at == calls.end() || at->second < options.calls();
  }

  void attention_computed(const AttentionEvent& e) override {
    if (fit::detail::computing_again()) return;  // recorded the first time
    const auto name = names.find(&e.call->layer);
    if (name == names.end() || options.element() >= e.B || !due(name->second)) return;
    const std::string& layer = name->second;
    const Tensor weights = e.weights(options.element()), mask = e.mask_of(options.element());
    const std::lock_guard lock(mutex);
    if (step % every != 0 || calls[layer] >= options.calls()) return;
    ++calls[layer];
    const auto bytes =
        static_cast<std::size_t>(weights.numel()) * 4 + static_cast<std::size_t>(mask.defined() ? mask.numel() : 0);
    while (recording.bytes() + bytes > options.max_bytes()) {
      // Records of a single step cannot be thinned out: drop the new one.
      const auto& records = recording.records();
      if (std::all_of(records.begin(), records.end(), [&](const AttentionRecord& r) { return r.step == step; })) return;
      every *= 2;
      recording.keep_every(every);
      if (step % every != 0) return;
    }
    auto o = AttentionRecordOptions().step(step).kind(kind_of(e)).causal(e.causal).window(e.window);
    if (mask.defined()) o.mask(mask.unsqueeze(0));
    recording.add(layer, weights, o);
  }
};

// ---- AttentionRecorder --------------------------------------------------------------------------------------------

AttentionRecorder::AttentionRecorder(const Layer& model, const AttentionRecorderOptions& options)
    : state_(std::make_shared<State>()) {
  constexpr const char* op = "AttentionRecorder";
  if (options.every() < 1 || options.calls() < 1 || options.max_bytes() < 1)
    check::fail(op, "every is ", options.every(), ", calls is ", options.calls(), ", max_bytes is ",
                options.max_bytes(), ": all must be positive");
  check::not_negative(op, "element", options.element());
  state_->names = layer_names(model);
  for (auto& [layer, name] : state_->names)
    if (name.empty()) name = model.name();
  state_->options = options;
  state_->every = options.every();
  for (const auto& [layer, name] : state_->names) attachments_.push_back(attach(*layer, state_));
}

AttentionRecorder::~AttentionRecorder() = default;

void AttentionRecorder::step(std::int64_t step) {
  check::not_negative("AttentionRecorder", "step", step);
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
