#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/tensor/state_dict.hpp"

/// A page in which a trained model runs, for any browser. It is one file that opens from the disk without a network.
///
///     plot::write_model_page("out/shakespeare.html", gpt, alphabet, {"ROMEO:", "To be, or not to be"});
namespace fit::plot {

/// The weights of a model at a step of its training.
struct ModelSnapshot {
  std::int64_t step = 0;
  StateDict weights;
};
/// A copy of the present weights.
ModelSnapshot model_snapshot(const nn::GPT& model, std::int64_t step);

/// The options of model_page().
struct ModelPageOptions {
  FIT_OPTION(std::string, title) = "A model";  ///< The title of the page.
  /// Precedes every text, such as the token that begins a text. It consists of tokens of the vocabulary.
  FIT_OPTION(std::string, prefix);
  /// States of the training, in the order of their steps. The page has a slider over them, and shows the last one
  /// first. Without snapshots the page has the present weights.
  FIT_OPTION(std::vector<ModelSnapshot>, snapshots);
  FIT_OPTION(bool, float32) = false;  ///< Stores weights as float32; otherwise as float16, in half the space.
};

/// The page as HTML. JavaScript in it computes the forward pass. The reader
///   * types a text, and sees the loss of each token, the probabilities of the next one, and all heads;
///   * samples token by token, with a temperature and among the most probable tokens;
///   * switches heads and MLPs off: their output is zero, its mean over the text, or that in a second text. The page
///     shows what changes in the prediction and in later heads, and can try all parts in turn;
///   * moves through the snapshots of the training.
/// A badge compares the page's tokens and logits with those of C++ for the first two samples, from the same stored
/// weights.
///
/// The page computes a GPT as its options describe it, with all of them. Throws Error, which names the part, for
///   * a model with other layers, other weights (int8, parametrised) or other blocks than nn::GPT(model.options());
///   * more than 8 million parameters;
///   * a vocabulary of another size than vocab_size, or that is no text::CharVocabulary, text::BytePairVocabulary or
///     text::GPT2Vocabulary;
///   * no sample, or a sample with prefix that is empty, longer than context_length, or has unknown characters;
///   * snapshots with other names or shapes, or steps that do not rise;
///   * weights that are not finite, or beyond float16 (65504) without `float32`.
std::string model_page(const nn::GPT& model, const text::Vocabulary& vocabulary,
                       const std::vector<std::string>& samples, const ModelPageOptions& options = {});

/// Writes the page to a file, and creates missing folders. Throws FileError, which names the path.
void write_model_page(const std::string& path, const nn::GPT& model, const text::Vocabulary& vocabulary,
                      const std::vector<std::string>& samples, const ModelPageOptions& options = {});

}  // namespace fit::plot
