#pragma once
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/workbench.hpp"

/// A page that explains attention by a trained model of words, which runs in it. It is one file that opens from the
/// disk without a network.
///
///     plot::write_five_minutes_page("out/five_minutes.html", gpt, words, {"the girl who sees the dogs is happy
///     because"});
namespace fit::plot {

/// Lines of C++ that compute what a strip of the page shows.
struct StripCode {
  std::string strip;  ///< "vectors", "product", "scale", "softmax", "values", "prediction" or "stream"
  std::string lines;
};

/// A page to read next.
struct PageLink {
  std::string title, address;  ///< The address is relative.
};

/// The options of five_minutes_page().
struct FiveMinutesOptions {
  FIT_OPTION(std::string, title) = "Attention in five minutes";  ///< The title of the page.
  /// States of the training, in the order of their steps, for a slider. The page shows the last one first. Without
  /// snapshots the page has the present weights.
  FIT_OPTION(std::vector<ModelSnapshot>, snapshots);
  /// What each head finds, in a few words: {"who does it", "", …}. An empty text says nothing.
  FIT_OPTION(std::vector<std::string>, heads);
  FIT_OPTION(std::vector<StripCode>, code);  ///< The C++ of strips, which the reader may unfold.
  FIT_OPTION(std::vector<PageLink>, next);   ///< Links at the end of the page.
};

/// The page as HTML. JavaScript in it computes the forward pass from the stored float32 weights. The reader
///   * points at a word of a sentence: arcs and colours show which words it attends to;
///   * sees the same pair opened in strips: query and key, their product, scale and mask, softmax, the sum of values,
///     what that changes in the prediction, and the residual stream with the MLP. Each strip has its lines of C++;
///   * moves through the snapshots of the training, and writes a sentence of the model's words;
///   * is led by twelve cards, which light up what they speak of.
/// A badge compares every kind of number in the page with C++'s: of the last snapshot queries, keys, values, weights,
/// outputs of heads, residuals and logits of the first sample, of the others its logits.
///
/// Throws Error, beside the reasons of workbench(), for
///   * a model that has not one layer, or whose heads have more than 16 features;
///   * a window, grouped heads, ALiBi, caps, gates or value embeddings: the strips do not show them;
///   * words that are not as many as vocab_size, are not different, or are empty or contain white space;
///   * no sample, an empty or too long sample, or a sample with an unknown word;
///   * names of heads that are not one for each head, and an unknown or repeated strip in `code`.
std::string five_minutes_page(const nn::GPT& model, const std::vector<std::string>& words,
                              const std::vector<std::string>& samples, const FiveMinutesOptions& options = {});

/// Writes the page to a file, and creates missing folders. Throws FileError, which names the path.
void write_five_minutes_page(const std::string& path, const nn::GPT& model, const std::vector<std::string>& words,
                             const std::vector<std::string>& samples, const FiveMinutesOptions& options = {});

}  // namespace fit::plot
