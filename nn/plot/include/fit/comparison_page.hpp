#pragma once
#include <string>
#include <vector>

#include "fit/nn/attention/attention_recording.hpp"
#include "fit/training_page.hpp"

/// A page that compares two runs, for any browser. It is one file that opens from the disk without a network.
namespace fit::plot {

/// A run to compare.
struct ComparedRun {
  std::string name;               ///< "with dropout"
  std::vector<TrainingRow> rows;  ///< Numbers by name, with the step: see TrainingPage::add(). There may be none.
  AttentionRecording heads;       ///< What the heads do. There may be none.
};

/// The page as HTML:
///   * the curves of the two runs over each other, one chart for each name;
///   * pairs of heads. The similarity of two heads is the weight that they share, sum min(p, q), mean over the queries:
///     1 if they are equal. The most similar heads of the two runs are the first pair, the most similar ones of the
///     others the next. They are compared at the last step of each run;
///   * for a pair, the matrices of both, and their difference.
/// Throws Error if there is nothing to compare: no row in both runs and no record in both. Heads of different numbers
/// of queries or keys are not paired.
std::string comparison_page(const ComparedRun& a, const ComparedRun& b, const std::string& title = "Two runs");

/// Writes the page to a file, and creates missing folders. Throws FileError, which names the path.
void write_comparison_page(const std::string& path, const ComparedRun& a, const ComparedRun& b,
                           const std::string& title = "Two runs");

}  // namespace fit::plot
