#pragma once
#include <string>

namespace fit::plot {

// A formula in a subset of LaTeX as MathML Core, which browsers set without any font or script of the page. Display: on
// a line of its own, else within text. What is known: letters, numbers, ^ and _, {groups}, \frac, \sqrt, \text,
// \mathbf, \operatorname, \left and \right, Greek letters, signs such as \cdot and \in, functions such as \max, and
// \begin{pmatrix|bmatrix|cases} with & and \\. Throws Error, which names what is not.
enum class MathStyle { inside, display };
std::string mathml(const std::string& latex, MathStyle style);

}  // namespace fit::plot
