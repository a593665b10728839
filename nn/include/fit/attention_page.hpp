#pragma once
#include <cstdint>
#include <string>

#include "fit/attention_recording.hpp"
#include "fit/option.hpp"

/// A page that shows all heads of a run, for any browser: one file, which opens from the disk and asks for nothing
/// else.
namespace fit::plot {

/// What attention_page() may take.
struct AttentionPageOptions {
  /// More queries or keys than this are shown in blocks: the sum of neighbouring keys, and the mean of neighbouring
  /// queries, so that the weights of a query still add up to 1.
  FIT_OPTION(std::int64_t, max_tokens) = 512;
  /// The largest size of the page. Each weight takes a byte, before compression.
  FIT_OPTION(std::size_t, max_bytes) = std::size_t{256} << 20;
};

/// The page as HTML: thumbnails of all layers and heads, a large view of one as a matrix or as lines between tokens,
/// measures to sort by, a slider over steps, export as SVG and PNG. Weights are there with an error of at most 1/510 of
/// the largest of their row. Throws Error if there are no records, if max_tokens is not positive, or if the page would
/// be larger than max_bytes.
std::string attention_page(const AttentionRecording& recording, const AttentionPageOptions& options = {});

/// Writes it to a file, whose folders are made where they are missing. Throws FileError, which names the path.
void write_attention_page(const std::string& path, const AttentionRecording& recording,
                          const AttentionPageOptions& options = {});

}  // namespace fit::plot
