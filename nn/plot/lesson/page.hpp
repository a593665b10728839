#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plot/lesson/prose.hpp"
#include "plot/lesson/source.hpp"

namespace fit::plot {

// What stands under the code of a cell, in its order.
struct CellOutput {
  enum class Kind { text, figure, heads, holds, fails, error } kind;
  std::string content;  // of text, claims and errors as it is; of figures an SVG; of heads a whole page
  std::string caption = "";
};

struct LessonCell {
  SourceCell source;
  std::string prose;  // HTML
  bool reached = false;
  std::vector<CellOutput> outputs = {};
};

// What a terminal shows of a text, as HTML: colours as such, of a line that was drawn again the last state.
std::string terminal_html(const std::string& text);

std::string lesson_html(const std::string& title, const std::vector<Heading>& headings,
                        const std::vector<LessonCell>& cells);

}  // namespace fit::plot
