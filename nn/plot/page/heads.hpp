#pragma once
#include <string>

#include "fit/attention_page.hpp"

namespace fit::plot {

// The view of all heads as a part of a page: markup with its data. The page's script makes it work by
// `new HeadsView(element)` (page/heads/view.js); it needs heads_script() and the style heads_css.
// The errors are those of attention_page().
std::string heads_html(const AttentionRecording& recording, const AttentionPageOptions& options = {});

}  // namespace fit::plot
