#pragma once
#include <string>
#include <utility>
#include <vector>

#include "fit/lesson.hpp"
#include "fit/tensor/tensor.hpp"
#include "plot/lesson/prose.hpp"
#include "plot/lesson/source.hpp"

namespace fit::plot {

// One item of output below the code of a cell.
struct CellOutput {
  enum class Kind { text, figure, heads, holds, fails, error, question, product, text_view, vary } kind;
  std::string content;  // text, claims, errors: verbatim; figures: SVG; else HTML; vary: the name
  std::string caption = "";
  std::string names = "";  // of figures: the names in the statement that draws, each between spaces
  std::vector<std::pair<std::string, std::vector<CellOutput>>> cases = {};  // of vary: value and outputs
};

struct LessonCell {
  SourceCell source;
  std::string prose;  // HTML
  bool reached = false;
  std::vector<CellOutput> outputs = {};
};

// A matrix product as three tables; the page explains each number.
std::string product_html(const Tensor& a, const Tensor& b, const Tensor& c);

// A text with the weights of its heads; the page draws arcs.
std::string text_html(const std::vector<std::string>& tokens, const std::vector<TextHead>& heads);

// Converts terminal output to HTML. Keeps colours; of a line redrawn with '\r' keeps the last state.
std::string terminal_html(const std::string& text);

std::string lesson_html(const std::string& title, const std::vector<Heading>& headings,
                        const std::vector<LessonCell>& cells);

}  // namespace fit::plot
