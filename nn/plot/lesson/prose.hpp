#pragma once
#include <string>
#include <vector>

namespace fit::plot {

struct Heading {
  int level;  // 1 to 4
  std::string id, html;
};

// Prose in a subset of Markdown as HTML: # headings, paragraphs, lists (- and 1.), tables (| a | b |, the first row is
// the heading, a second one of dashes may follow), **strong**, *emphasis*, `code`, [text](address), and formulas as
// $inline$ or $$display$$. All else is text, HTML, too. Appends the headings to `headings`.
std::string prose_html(const std::string& markdown, std::vector<Heading>& headings);

// Converts a formula in a subset of LaTeX to MathML Core, which browsers render without a font or script of the page.
// Display style is for a separate line. Supported: letters, numbers, ^ and _, {groups}, \frac, \sqrt, \text,
// \mathbf, \operatorname, \left and \right, Greek letters, signs such as \cdot and \in, functions such as \max,
// \begin{pmatrix|bmatrix|cases} with & and \\, and \name{variable}{formula}: pointing at the formula marks the
// variable in code and figures. Throws Error that names an unsupported command.
enum class MathStyle { inside, display };
std::string mathml(const std::string& latex, MathStyle style);

}  // namespace fit::plot
