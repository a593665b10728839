#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plot/lesson/prose.hpp"
#include "plot/lesson/source.hpp"

namespace fit::plot {

// One item of output below the code of a cell.
struct CellOutput {
  enum class Kind { text, figure, heads, holds, fails, error } kind;
  std::string content;  // text, claims, errors: verbatim; figures: SVG; heads: HTML
  std::string caption = "";
};

struct LessonCell {
  SourceCell source;
  std::string prose;  // HTML
  bool reached = false;
  std::vector<CellOutput> outputs = {};
};

// Converts terminal output to HTML. Keeps colours; of a line redrawn with '\r' keeps the last state.
std::string terminal_html(const std::string& text);

std::string lesson_html(const std::string& title, const std::vector<Heading>& headings,
                        const std::vector<LessonCell>& cells);

}  // namespace fit::plot
