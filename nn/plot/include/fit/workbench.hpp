#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_recording.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/training_page.hpp"

/// The workbench: a page with all heads of recorded runs, or of a model that runs in the page. It is one file that
/// opens from the disk in any browser, without a network.
///
///     plot::write_workbench("out/heads.html", recording);
///     plot::write_workbench("out/runs.html", {{"plain", rows, heads}, {"with dropout", more_rows, more_heads}});
///     plot::write_workbench("out/shakespeare.html", gpt, alphabet, {"To be, or not to ", "ROMEO:"});
namespace fit::plot {

/// A training as the workbench shows it.
struct WorkbenchRun {
  std::string name;               ///< "with dropout"
  std::vector<TrainingRow> rows;  ///< Numbers by name, with the step: see TrainingPage::add(). There may be none.
  AttentionRecording heads;       ///< What the heads do. There may be none.
};

/// The weights of a model at a step of its training.
struct ModelSnapshot {
  std::int64_t step = 0;
  StateDict weights;
};
/// A copy of the present weights.
ModelSnapshot model_snapshot(const nn::GPT& model, std::int64_t step);

/// The options of workbench().
struct WorkbenchOptions {
  FIT_OPTION(std::string, title);  ///< The title of the page. Without one, that of the recording, or "Runs", "A model".
  /// Recorded runs: more queries or keys than this are merged into blocks: the sum over neighbouring keys, the mean
  /// over neighbouring queries. So the weights of a query still sum to 1.
  FIT_OPTION(std::int64_t, max_tokens) = 512;
  /// Recorded runs: the max size of the page. Each weight needs one byte before compression.
  FIT_OPTION(std::size_t, max_bytes) = std::size_t{256} << 20;
  /// A model: precedes every text, such as the token that begins a text. It consists of tokens of the vocabulary.
  FIT_OPTION(std::string, prefix);
  /// A model: states of the training, in the order of their steps. The page has a slider over them, and shows the last
  /// one first. Without snapshots the page has the present weights.
  FIT_OPTION(std::vector<ModelSnapshot>, snapshots);
  FIT_OPTION(bool, float32) = false;  ///< A model: stores weights as float32; otherwise as float16, in half the space.
  /// A model: texts on which the roles of its heads are measured, cut to the context. Without them, the samples and
  /// four texts of random tokens that repeat.
  FIT_OPTION(std::vector<std::string>, role_texts);
};

/// The page of one recorded run, as HTML. The reader
///   * sees all layers and heads at once, with what a head does (previous token, first token, induction …): the part of
///   its weight beyond even weights;
///   * points at a token: the text takes the colours of its weights;
///   * opens heads, one or several in colours of their own, as matrices or as lines between tokens, two also as their
///   difference; moves through the steps; sorts heads by measures;
///   * saves what is shown as SVG, PNG, by the page's address, or on paper.
/// The max error of a weight is 1/510 of the largest weight in its row. Throws Error if there are no records, if
/// max_tokens is not positive, or if the page would exceed max_bytes.
std::string workbench(const AttentionRecording& recording, const WorkbenchOptions& options = {});

/// The page of any number of runs, as HTML: in addition
///   * the curves of the runs over each other, one chart for each name that two runs have;
///   * pairs of heads of two runs. The similarity of two heads is the weight that they share, sum min(p, q), mean over
///   the queries: 1 if they are equal. The most similar heads are the first pair, the most similar ones of the others
///   the next. They are compared at the last step of each run.
/// Throws Error, in addition, if two runs have the same name, if a row has no step, or if there is nothing to show: no
/// number that two runs have, and no record.
std::string workbench(const std::vector<WorkbenchRun>& runs, const WorkbenchOptions& options = {});

/// The page in which a model runs, as HTML. JavaScript in it computes the forward pass. In addition to the heads of a
/// recorded run, the reader
///   * types a text, and sees the loss of each token, the probabilities of the next one, and all heads;
///   * samples token by token, with a temperature and among the most probable tokens; the window of the model slides
///   on;
///   * opens a pair: query times key, feature by feature, and the weight times the length of the value;
///   * switches heads, MLPs, layers and columns off: their output is zero, its mean over the text, or that in a second
///     text, whose heads can be dragged onto those of the first. The page shows what changes in the prediction and in
///     later heads, and can try all parts in turn;
///   * sees arrows between heads that compose: how much of a head's weight moves without an earlier one;
///   * moves through the snapshots of the training.
/// A badge compares the page's tokens and logits with those of C++ for the first two samples, from the same stored
/// weights. C++ measures the roles of heads, at each snapshot.
///
/// The page computes a GPT as its options describe it. Throws Error, which names the part, for
///   * the options local_rotary, rotary_features, qk_norm_across_heads, parallel, norm_weights(false), embedding_scale,
///     attention_scale, and the activations solu and geglu_tanh;
///   * a model with other layers, other weights (int8, parametrised) or other blocks than nn::GPT(model.options());
///   * more than 8 million parameters;
///   * a vocabulary of another size than vocab_size, or that is no text::CharVocabulary, text::BytePairVocabulary or
///     text::GPT2Vocabulary;
///   * no sample, or a sample with prefix that is empty, longer than context_length, or has unknown characters;
///   * snapshots with other names or shapes, or steps that do not rise;
///   * weights that are not finite, or beyond float16 (65504) without `float32`.
std::string workbench(const nn::GPT& model, const text::Vocabulary& vocabulary, const std::vector<std::string>& samples,
                      const WorkbenchOptions& options = {});

/// Writes the page to a file, and creates missing folders. Throws FileError, which names the path.
void write_workbench(const std::string& path, const AttentionRecording& recording,
                     const WorkbenchOptions& options = {});
/// The same for any number of runs.
void write_workbench(const std::string& path, const std::vector<WorkbenchRun>& runs,
                     const WorkbenchOptions& options = {});
/// The same for a model that runs in the page.
void write_workbench(const std::string& path, const nn::GPT& model, const text::Vocabulary& vocabulary,
                     const std::vector<std::string>& samples, const WorkbenchOptions& options = {});

}  // namespace fit::plot
