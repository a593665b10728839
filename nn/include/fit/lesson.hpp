#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/attention_recording.hpp"
#include "fit/option.hpp"
#include "fit/plot.hpp"

/// Turns a program into a page like a notebook: prose, the code that ran, its output, figures and claims. The page is
/// one HTML file that opens from the disk in any browser without a network.
///
///     int main() {
///       fit::Lesson lesson("out/lesson.html");
///
///       /// # Softmax
///       /// It turns scores into fractions: $p_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$.
///       lesson.cell();
///       const Tensor p = softmax(tensor({1., 2., 3.}));
///       std::cout << p << '\n';
///       lesson.claim("the fractions sum to 1", std::abs(sum(p).item() - 1) < 1e-6);
///     }
///
/// The page shows the source file from its first line to its last:
///   * Lines that begin with three slashes are prose, in a subset of Markdown: # headings, lists, tables, **strong**,
///     *emphasis*, `code`, links, and formulas in a subset of LaTeX as $…$ and $$…$$.
///   * All lines between two pieces of prose are code. Prose at the left margin explains the definitions below it.
///     After prose in a function, call lesson.cell(): the page shows the output from there below that code.
///   * After a line "// not shown", code is left out up to the next prose.
namespace fit {

/// The options of Lesson.
struct LessonOptions {
  FIT_OPTION(std::string, title);  ///< The title of the window; the first heading if empty.
  /// The text of the program; if empty, the file that constructs the Lesson.
  FIT_OPTION(std::string, source);
};

/// Captures std::cout and printf for the page during its lifetime. The output is still printed. Only one Lesson may
/// exist at a time.
class Lesson {
 public:
  /// Reads the source and writes a first page without output. Throws FileError if the source can't be read or the page
  /// can't be written. Throws Error if
  /// - the source is newer than the program, so the page would not show the code that runs;
  /// - the source has no prose, prose in a function without cell(), or an unknown formula;
  /// - another Lesson exists.
  explicit Lesson(const std::string& path, const LessonOptions& options = {}, const char* file = __builtin_FILE());
  /// Writes the page. If an exception unwinds the stack, the page shows it in red, with its message if nothing catches
  /// it. If the page can't be written, prints a message on stderr.
  ~Lesson();
  Lesson(const Lesson&) = delete;
  Lesson& operator=(const Lesson&) = delete;

  /// Starts a new cell: later output is shown below its code. Throws Error if the source has no cell in this line.
  void cell(int line = __builtin_LINE());
  /// Adds a figure. Its cells show their values under the pointer.
  void figure(const plot::Figure& figure, const std::string& caption = "");
  /// Adds the page of a recording (fit/attention_page.hpp).
  void heads(const AttentionRecording& recording);
  /// Prints "[ok] what" or "[FAILED] what". A failed claim is red on the page. Returns `holds`.
  bool claim(const std::string& what, bool holds);
  /// Adds an error message in red.
  void error(const std::string& what);
  /// The number of claims, and of failed claims.
  std::int64_t claims() const;
  std::int64_t failed() const;
  /// Writes the page in its present state. Throws FileError.
  void write();

  struct State;

 private:
  void print_headings(const std::string& prose);

  std::unique_ptr<State> state_;
};

}  // namespace fit
