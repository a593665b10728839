#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/tensor/tensor.hpp"

/// Recorded attention weights of a run, with their layer, step, mask and tokens.
///
///     AttentionRecording recording;
///     recording.add("encoder.self_attn", weights, AttentionRecordOptions().queries(words));
///     plot::write_workbench("out/attention.html", recording);   // fit/workbench.hpp
namespace fit {

/// Whether queries and keys come from one sequence or from two.
enum class AttentionKind { self, cross };

/// The options of AttentionRecording::add().
struct AttentionRecordOptions {
  FIT_OPTION(std::int64_t, step) = 0;                     ///< The step of the training.
  FIT_OPTION(std::int64_t, element) = 0;                  ///< The element of the batch to keep.
  FIT_OPTION(AttentionKind, kind) = AttentionKind::self;  ///< Self- or cross-attention.
  /// The mask of the attention (true = attend). Mask, causal and window tell masked pairs from pairs with weight 0.
  FIT_OPTION(Tensor, mask);
  FIT_OPTION(bool, causal) = false;      ///< Whether attention was causal: see mask.
  FIT_OPTION(std::int64_t, window) = 0;  ///< The window of the attention: see mask.
  /// The names of the queries. Without names, positions are shown.
  FIT_OPTION(std::vector<std::string>, queries);
  /// The names of the keys. In self-attention one list suffices: the queries are the last of the keys.
  FIT_OPTION(std::vector<std::string>, keys);
};

/// The weights of one layer in one call.
struct AttentionRecord {
  std::string layer;      ///< dotted name
  std::int64_t step = 0;  ///< of the training
  std::int64_t call = 0;  ///< of the layer, within the step
  AttentionKind kind = AttentionKind::self;
  Tensor weights;  ///< float32 [H, Sq, Sk]
  Tensor mask;     ///< boolean [H|1, 1|Sq, Sk], true = attend; undefined if there is none
  bool causal = false;
  std::int64_t window = 0;
  std::vector<std::string> queries, keys;  ///< Sq and Sk names, or none
};

/// Measures of a head, as means over its queries. NaN if a measure is not defined. Fully masked queries, and queries
/// with weights that are not finite, do not count.
struct HeadMeasures {
  double entropy;    ///< -sum p ln p, in nats: 0 if one key has all weight, ln Sk for equal weights
  double distance;   ///< sum p |i - j| from the query at i to the keys at j; self-attention only
  double self;       ///< weight on the query's own position; self-attention only
  double previous;   ///< weight on the previous position; self-attention only
  double first;      ///< weight on the first key
  double agreement;  ///< sum min(p, q), where q is the mean of the layer's other heads: 1 if p = q
  double duplicate;  ///< weight on earlier positions with the query's token, over the queries with such a position
  double induction;  ///< weight on the positions right after those, over the same queries (Olsson et al. 2022)
};

/// The measures of each head. In self-attention query i has position i + Sk - Sq; duplicate and induction need the
/// names of the keys. Throws Error if the weights are not float32 [H, Sq, Sk], if self-attention has fewer keys than
/// queries, or for a wrong number of names.
std::vector<HeadMeasures> head_measures(const AttentionRecord& record);

/// The records of a run, in the order in which they were added.
class AttentionRecording {
 public:
  /// The title of the page.
  std::string title = "Attention";

  /// Copies the weights (H, Sq, Sk), or one element of a batch (B, H, Sq, Sk). NaN is kept. Throws Error for
  /// - another rank or type, an axis of size 0, a weight below 0, or an element that is not in the batch;
  /// - a mask that does not fit (see AttentionOptions), or a wrong number of names;
  /// - self-attention with fewer keys than queries.
  void add(const std::string& layer, const Tensor& weights, const AttentionRecordOptions& options = {});

  /// Names the tokens of all present records of this layer and its sublayers; "" means all layers. Self-attention needs
  /// only the queries. Throws Error, and changes nothing, if there is no such record or the number of names is wrong.
  void name_tokens(const std::string& layer, const std::vector<std::string>& queries,
                   const std::vector<std::string>& keys = {});

  /// Appends the records of another recording. For the same layer and step, the calls are numbered on.
  void append(const AttentionRecording& other);

  /// Deletes the records with a step that is not a multiple of `every`.
  void keep_every(std::int64_t every);

  /// All records.
  const std::vector<AttentionRecord>& records() const& { return records_; }
  std::vector<AttentionRecord> records() && { return std::move(records_); }  // for (r : recorder.recording().records())
  /// The size of the weights and masks.
  std::size_t bytes() const { return bytes_; }

 private:
  void take(AttentionRecord record);

  std::vector<AttentionRecord> records_;
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> calls_;  // the number of calls, by step and layer
  std::size_t bytes_ = 0;
};

}  // namespace fit
