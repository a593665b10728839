#pragma once
#include <string>
#include <vector>

namespace fit::plot {

struct Heading {
  int level;  // 1 to 4
  std::string id, html;
};

// Prose in a subset of Markdown as HTML: # headings, paragraphs, lists (- and 1.), tables (| a | b |, the first row is
// the heading, a second one of dashes may follow), **strong**, *emphasis*, `code`, [text](address), and formulas (see
// mathml.hpp) as $inline$ or $$display$$. All else is text, HTML, too. Appends the headings to `headings`.
std::string prose_html(const std::string& markdown, std::vector<Heading>& headings);

}  // namespace fit::plot
