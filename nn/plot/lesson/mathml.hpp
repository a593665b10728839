#pragma once
#include <string>

namespace fit::plot {

// Converts a formula in a subset of LaTeX to MathML Core, which browsers render without a font or script of the page.
// Display style is for a separate line. Supported: letters, numbers, ^ and _, {groups}, \frac, \sqrt, \text,
// \mathbf, \operatorname, \left and \right, Greek letters, signs such as \cdot and \in, functions such as \max,
// \begin{pmatrix|bmatrix|cases} with & and \\, and \name{variable}{formula}: pointing at the formula marks the
// variable in code and figures. Throws Error that names an unsupported command.
enum class MathStyle { inside, display };
std::string mathml(const std::string& latex, MathStyle style);

}  // namespace fit::plot
