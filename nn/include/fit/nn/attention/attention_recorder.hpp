#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_recording.hpp"
#include "fit/nn/layer/layer.hpp"

/// Records the weights of every attention layer in a model. The model needs no change.
///
///     nn::AttentionRecorder recorder(model, nn::AttentionRecorderOptions().every(50));
///     for (int step = 0; step <= 1000; ++step) {
///       recorder.step(step);
///       …                                          // the training step, unchanged
///     }
///     AttentionRecording recording = recorder.recording();
///     recording.name_tokens("encoder", source_words);
///     plot::write_workbench("out/attention.html", recording);
namespace fit::nn {

/// The options of AttentionRecorder.
struct AttentionRecorderOptions {
  FIT_OPTION(std::int64_t, every) = 1;    ///< Records the steps that are multiples of this.
  FIT_OPTION(std::int64_t, element) = 0;  ///< The recorded element of the batch. Smaller batches are not recorded.
  /// The max number of recorded calls of a layer in one step. Generation with a cache makes many calls, and so does
  /// gradient accumulation.
  FIT_OPTION(std::int64_t, calls) = 1;
  /// The max size of the records. When it is reached, every other step is deleted and `every` is doubled, so the
  /// records span the whole training. Records of a single step that do not fit are dropped.
  FIT_OPTION(std::size_t, max_bytes) = std::size_t{256} << 20;
};

/// Records the attention calls of the model's layers under their dotted names, during its lifetime. It records the
/// weights of each head before dropout: in training and evaluation, with a cache, from any thread. Outputs and
/// gradients keep the same bits. A custom layer is recorded if forward() computes the attention. Do not move
/// the model while the recorder lives.
class AttentionRecorder {
 public:
  /// Throws Error for options that are not positive, or a negative element.
  explicit AttentionRecorder(const Layer& model, const AttentionRecorderOptions& options = {});
  ~AttentionRecorder();
  AttentionRecorder(const AttentionRecorder&) = delete;
  AttentionRecorder& operator=(const AttentionRecorder&) = delete;

  /// Sets the step of the next calls, 0 at first. Throws Error for a negative step.
  void step(std::int64_t step);
  /// The records so far.
  AttentionRecording recording() const;
  /// The steps between two records. It grows when records are deleted: see max_bytes.
  std::int64_t every() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
  std::vector<Attachment> attachments_;
};

}  // namespace fit::nn
