#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "fit/attention_recording.hpp"
#include "fit/option.hpp"
#include "fit/plot.hpp"

/// A program as a page that one reads like a notebook: prose, the code that ran, what it printed, its figures, its
/// claims. One HTML file, which opens from the disk in any browser and asks for nothing else.
///
///     int main() {
///       fit::Lesson lesson("out/lesson.html");
///
///       /// # Softmax
///       /// It turns scores into shares: $p_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$.
///       lesson.cell();
///       const Tensor p = softmax(tensor({1., 2., 3.}));
///       std::cout << p << '\n';
///       lesson.claim("the shares add up to 1", std::abs(sum(p).item() - 1) < 1e-6);
///     }
///
/// The page shows the source file from its first line to its last:
///   * Lines that begin with three slashes are prose, in a subset of Markdown: # headings, lists, tables, **strong**,
///     *emphasis*, `code`, links, and formulas in a subset of LaTeX as $…$ and $$…$$.
///   * What stands between two pieces of prose is code. Prose at the left margin explains what is defined under it.
///     Prose in a function is followed by lesson.cell(), and what is printed from there on stands under that code.
///   * From a line "// not shown" on, code is left out up to the next prose.
namespace fit {

/// Where a Lesson goes.
struct LessonOptions {
  FIT_OPTION(std::string, title);  ///< The title of the window; the first heading if empty.
  /// The text of the program; if empty, the file in which the Lesson is made is read.
  FIT_OPTION(std::string, source);
};

/// While one lives, what std::cout and printf print is kept for the page, and still printed. One at a time.
class Lesson {
 public:
  /// Reads the source and writes a first page, on which nothing has run yet. Throws FileError if the source can't be
  /// read or the page not written, and Error if the source is newer than the program (what would be shown is not what
  /// runs), if it has no prose, if prose in a function has no cell() behind it, if a formula is not known, or if
  /// another Lesson lives.
  explicit Lesson(const std::string& path, const LessonOptions& options = {}, const char* file = __builtin_FILE());
  /// Writes the page. An exception on its way through is told there in red, in its own words if nothing catches it. A
  /// page that can't be written is told on stderr.
  ~Lesson();
  Lesson(const Lesson&) = delete;
  Lesson& operator=(const Lesson&) = delete;

  /// A new cell begins in this line: what comes from now on stands under its code. Throws Error if the source has none
  /// there.
  void cell(int line = __builtin_LINE());
  /// A picture, whose cells show their values under the pointer.
  void figure(const plot::Figure& figure, const std::string& caption = "");
  /// The page of a recording (fit/attention_page.hpp), within this one.
  void heads(const AttentionRecording& recording);
  /// Prints "[ok] what" or "[FAILED] what"; on the page one that fails is red. Returns whether it holds.
  bool claim(const std::string& what, bool holds);
  /// Something went wrong here: it is told in red.
  void error(const std::string& what);
  /// How many claims there were, and how many of them failed.
  std::int64_t claims() const;
  std::int64_t failed() const;
  /// Writes the page as it stands. Throws FileError.
  void write();

  struct State;

 private:
  void print_headings(const std::string& prose);

  std::unique_ptr<State> state_;
};

}  // namespace fit
