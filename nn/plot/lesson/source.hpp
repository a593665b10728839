#pragma once
#include <string>
#include <vector>

namespace fit::plot {

// A piece of a lesson's source: prose, and the code under it.
struct SourceCell {
  int first = 0, last = 0;  // lines, counted from 1
  std::string prose;        // without the comment marks
  std::string code;         // without the common indentation and without cell();
  std::string checks;   // the statements of the code that check or draw: calls of the lesson, figures and their options
  bool marked = false;  // has a cell(): output up to that line is shown below the code
};

// Splits a source file into cells (fit/lesson.hpp shows the form). Throws Error with the line if prose in a function
// is not followed by a cell().
std::vector<SourceCell> source_cells(const std::string& name, const std::string& text);

// The names in the statement that contains a line of the text, each between spaces: " lesson figure weights ".
std::string names_at(const std::string& text, int line);

}  // namespace fit::plot
