#pragma once
#include <string>
#include <vector>

namespace fit::plot {

// A piece of a lesson's source: prose, and the code under it.
struct SourceCell {
  int first = 0, last = 0;  // lines, counted from 1
  std::string prose;        // without the marks of comments
  std::string code;         // without the indentation that all of it has, and without cell();
  bool marked = false;      // it has a cell(); what it prints when that line is reached stands under it
};

// The cells of a source file (see fit/lesson.hpp for its form). Throws Error that names the line where prose in a
// function has no cell() behind it.
std::vector<SourceCell> source_cells(const std::string& name, const std::string& text);

}  // namespace fit::plot
