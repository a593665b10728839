#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fit/attention_recording.hpp"
#include "fit/nn/layer.hpp"
#include "fit/option.hpp"

/// Records the weights of every attention layer inside a model, which knows nothing of it.
///
///     nn::AttentionRecorder recorder(model, nn::AttentionRecorderOptions().every(50));
///     for (int step = 0; step <= 1000; ++step) {
///       recorder.step(step);
///       …                                          // the training as it was
///     }
///     AttentionRecording recording = recorder.recording();
///     recording.name_tokens("encoder", source_words);
///     plot::write_attention_page("out/attention.html", recording);
namespace fit::nn {

/// What an AttentionRecorder keeps.
struct AttentionRecorderOptions {
  FIT_OPTION(std::int64_t, every) = 1;    ///< Records the steps that this divides.
  FIT_OPTION(std::int64_t, element) = 0;  ///< The element of the batch; a batch that is smaller is not recorded.
  /// The calls of a layer that are recorded in one step: a cache makes many of them, and so do batches to a step.
  FIT_OPTION(std::int64_t, calls) = 1;
  /// The largest size of the records. Where it is not enough, every other step is forgotten and `every` doubled, so
  /// that the whole training stays in view; what does not fit within one step is left out.
  FIT_OPTION(std::size_t, max_bytes) = std::size_t{256} << 20;
};

/// While one lives, calls of the model's layers are recorded under their dotted names: weights of each head, before
/// dropout, in training and in evaluation, with a cache, from any thread. The bits of outputs and gradients stay the
/// same. A layer of your own is recorded where it computes attention within nn::within(). The model must stay where it
/// is as long as this lives.
class AttentionRecorder {
 public:
  /// Throws Error for options that are not positive, or a negative element.
  explicit AttentionRecorder(const Layer& model, const AttentionRecorderOptions& options = {});
  ~AttentionRecorder();
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// What is called from now on belongs to this step, which must not be negative. It is 0 at first.
  void step(std::int64_t step);
  /// What there is so far.
  AttentionRecording recording() const;
  /// Steps from one record to the next, after what had to be forgotten.
  std::int64_t every() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
  std::vector<Attachment> attachments_;
};

}  // namespace fit::nn
