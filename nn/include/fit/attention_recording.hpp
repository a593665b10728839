#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/option.hpp"
#include "fit/tensor.hpp"

/// Attention weights of a run, to be looked at: of which layer, at which step, behind which mask, between which tokens.
///
///     AttentionRecording recording;
///     recording.add("encoder.self_attn", weights, AttentionRecordOptions().queries(words));
///     plot::write_attention_page("out/attention.html", recording);   // fit/attention_page.hpp
namespace fit {

/// Whether queries and keys come from one sequence or from two.
enum class AttentionKind { self, cross };

/// What is known of the weights that are added.
struct AttentionRecordOptions {
  FIT_OPTION(std::int64_t, step) = 0;                     ///< The step of the training.
  FIT_OPTION(std::int64_t, element) = 0;                  ///< The element of the batch that is kept.
  FIT_OPTION(AttentionKind, kind) = AttentionKind::self;  ///< Self- or cross-attention.
  /// The mask that attention had (true = attend). Mask, causal and window tell the pairs that could not attend from
  /// those that did not.
  FIT_OPTION(Tensor, mask);
  FIT_OPTION(bool, causal) = false;      ///< Whether attention was causal: see mask.
  FIT_OPTION(std::int64_t, window) = 0;  ///< The window that attention had: see mask.
  /// The names of the queries; positions are shown where there are none.
  FIT_OPTION(std::vector<std::string>, queries);
  /// The names of the keys. In self-attention one list serves both: the queries are then the last of the keys.
  FIT_OPTION(std::vector<std::string>, keys);
};

/// The weights of one layer in one call.
struct AttentionRecord {
  std::string layer;      ///< dotted name
  std::int64_t step = 0;  ///< of the training
  std::int64_t call = 0;  ///< of the layer, within the step
  AttentionKind kind = AttentionKind::self;
  Tensor weights;  ///< float32 [H, Sq, Sk]
  Tensor mask;     ///< boolean [H|1, 1|Sq, Sk], true = attend; undefined where there is none
  bool causal = false;
  std::int64_t window = 0;
  std::vector<std::string> queries, keys;  ///< Sq and Sk names, or none
};

/// The mean over a head's queries of what the head does. NaN where a measure says nothing. A query that sees nothing,
/// or whose weights are not finite, does not count.
struct HeadMeasures {
  double entropy;    ///< -sum p ln p, in nats: 0 if one key gets everything, ln Sk if all get the same
  double distance;   ///< sum p |i - j| from the query at i to the keys at j; self-attention only
  double self;       ///< weight on the query's own position; self-attention only
  double previous;   ///< weight on the position before; self-attention only
  double first;      ///< weight on the first key
  double agreement;  ///< sum min(p, q), where q is the mean of the layer's other heads: 1 if they do the same
};

/// The measures of each head. In self-attention query i stands at position i + Sk - Sq. Throws Error if the weights are
/// not float32 [H, Sq, Sk] with a key for each query of self-attention.
std::vector<HeadMeasures> head_measures(const AttentionRecord& record);

/// The records of a run, in the order in which they were added.
class AttentionRecording {
 public:
  /// What the page is called.
  std::string title = "Attention";

  /// Copies the weights (B, H, Sq, Sk), of which one element of the batch is kept, or (H, Sq, Sk). Throws Error for
  /// another rank or type, an axis of size 0, a weight below 0, an element that is not in the batch, a mask that does
  /// not fit (see AttentionOptions), names that are not as many as queries or keys, and self-attention with fewer keys
  /// than queries. NaN is kept as it is.
  void add(const std::string& layer, const Tensor& weights, const AttentionRecordOptions& options = {});

  /// Names for the tokens of all records so far whose layer has this name or begins with it and a dot; "" means all.
  /// In self-attention the queries alone are needed. Throws Error if there is none, or if the numbers don't fit, and
  /// then has changed nothing.
  void name_tokens(const std::string& layer, const std::vector<std::string>& queries,
                   const std::vector<std::string>& keys = {});

  /// Adds the records of another recording, whose calls come after those of the same layer and step.
  void append(const AttentionRecording& other);

  /// Forgets the records whose step is not a multiple of `every`.
  void keep_every(std::int64_t every);

  /// All of them.
  const std::vector<AttentionRecord>& records() const& { return records_; }
  std::vector<AttentionRecord> records() && { return std::move(records_); }  // for (r : recorder.recording().records())
  /// What the weights and masks take.
  std::size_t bytes() const { return bytes_; }

 private:
  void take(AttentionRecord record);

  std::vector<AttentionRecord> records_;
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> calls_;  // that there are records of, by step and layer
  std::size_t bytes_ = 0;
};

}  // namespace fit
