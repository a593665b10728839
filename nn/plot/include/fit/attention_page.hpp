#pragma once
#include <cstdint>
#include <string>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_recording.hpp"

/// A page with all heads of a run, for any browser. It is one file that opens from the disk without a network.
namespace fit::plot {

/// The options of attention_page().
struct AttentionPageOptions {
  /// More queries or keys than this are merged into blocks: the sum over neighbouring keys, the mean over neighbouring
  /// queries. So the weights of a query still sum to 1.
  FIT_OPTION(std::int64_t, max_tokens) = 512;
  /// The max size of the page. Each weight needs one byte before compression.
  FIT_OPTION(std::size_t, max_bytes) = std::size_t{256} << 20;
};

/// The page as HTML: thumbnails of all layers and heads, a large view of one head as a matrix or as lines between
/// tokens, measures to sort by, a slider over steps, and export as SVG and PNG. The max error of a weight is 1/510 of
/// the largest weight in its row. Throws Error if there are no records, if max_tokens is not positive, or if the page
/// would exceed max_bytes.
std::string attention_page(const AttentionRecording& recording, const AttentionPageOptions& options = {});

/// Writes the page to a file, and creates missing folders. Throws FileError, which names the path.
void write_attention_page(const std::string& path, const AttentionRecording& recording,
                          const AttentionPageOptions& options = {});

}  // namespace fit::plot
