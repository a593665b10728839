#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/attention/attention_recording.hpp"
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
/// The page shows the source file from its first line to its last, but for what only makes it a program: lines that
/// begin with an include or with using, and what follows "int main(" up to the next prose.
///   * Lines that begin with three slashes are prose, in a subset of Markdown: # headings, lists, tables, **strong**,
///     *emphasis*, `code`, links, and formulas in a subset of LaTeX as $…$ and $$…$$. In a formula, \name{weights}{A}
///     shows A. Pointing at it marks the name `weights` in the code, and the figures that are drawn from it.
///   * All lines between two pieces of prose are code. Prose at the left margin explains the definitions below it.
///     After prose in a function, call lesson.cell(): the page shows the output from there below that code.
///   * After a line "// not shown", code is left out up to a line "// shown", or up to the next prose.
///   * Calls of the lesson (claims, figures, vary() …), and what else names plot::, stand behind the line "How this is
///     checked", not in the shown code. So the shown code only computes. Questions and answers are in no code.
namespace fit {

/// The options of Lesson.
struct LessonOptions {
  FIT_OPTION(std::string, title);  ///< The title of the window; the first heading if empty.
  /// The text of the program; if empty, the file that constructs the Lesson.
  FIT_OPTION(std::string, source);
};

/// A question that the page checks. The reader chooses an answer, enters numbers, or points at a cell of a heat map.
/// The page answers each try with a word: why it is wrong, or why it is right. All texts are prose (see above).
///
///     lesson.ask(Question("Which is larger?").wrong("2", "The smaller one.").right("3", "Yes."));
///     lesson.ask(Question("How much is 1 / 4?").numbers(tensor(0.25), 0.005, "A quarter."));
///     lesson.ask(Question("Who looks at **cat**?").cell(map).right("sat → cat", "Yes.").otherwise("No."));
class Question {
 public:
  explicit Question(std::string text);
  /// An answer and the word on it: a choice, in the order of the calls. With numbers(), a frequent mistake, a number.
  /// With cell(), the names of the cell's row and column, "row → column".
  Question& right(const std::string& answer, const std::string& word);
  Question& wrong(const std::string& answer, const std::string& word);
  /// The word on every other try.
  Question& otherwise(const std::string& word);
  /// Asks for the numbers of a tensor of up to two axes. A number is right if it differs by at most `within`.
  Question& numbers(const Tensor& answer, double within, const std::string& word);
  /// Asks for a cell of this heat map.
  Question& cell(const plot::Figure& map);
  /// As HTML. Throws Error without a right answer, with several, and with one choice only.
  std::string html() const;

 private:
  struct Answer {
    std::string text, word;
    bool right;
  };
  std::string fields() const;

  std::string text_, otherwise_, map_;
  std::vector<Answer> answers_;
  Tensor numbers_;
  double within_ = 0;
};

/// A head of Lesson::text().
struct TextHead {
  FIT_OPTION(std::string, name);  ///< Its name in the page.
  FIT_OPTION(Tensor, weights);    ///< [T, T]: of each query (row) on each key.
  /// Asks from the token to which the head before it attends most, not from the one that is pointed at.
  FIT_OPTION(bool, from_key) = false;
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
  /// Adds a figure. Its cells show their values under the pointer. The names in the statement of this line are what it
  /// is drawn from.
  void figure(const plot::Figure& figure, const std::string& caption = "", int line = __builtin_LINE());
  /// Adds the page of a recording (fit/workbench.hpp).
  void heads(const AttentionRecording& recording);
  /// Prints "[ok] what" or "[FAILED] what". A failed claim is red on the page. The same claim about several cases of a
  /// vary() counts once, and holds if it holds in all of them. Returns `holds`.
  bool claim(const std::string& what, bool holds);
  /// Adds a question, which the page checks.
  void ask(const Question& question);
  /// Adds a text. If the reader points at a token, arcs lead to the tokens that each head attends to. At first the last
  /// token is chosen. Throws Error without tokens or heads, above four heads, and for weights that are not [T, T].
  void text(const std::vector<std::string>& tokens, const std::vector<TextHead>& heads);
  /// Calls f with each value. The page shows the output of one call, with a slider over the values:
  ///     lesson.vary("d_k", {1, 16, 256}, [&](double d_k) { lesson.figure(plot::heatmap(softmax(scores * d_k))); });
  /// Throws Error if there are no values, for vary() inside vary(), and for cell() inside vary().
  void vary(const std::string& name, std::initializer_list<double> values, const std::function<void(double)>& f);
  /// The same for cases with names, {"sorted", "shuffled"}: f gets the index.
  void vary(const std::string& name, const std::vector<std::string>& cases, const std::function<void(std::size_t)>& f);
  /// Adds the product of two matrices (m, k) and (k, n), and returns it. Pointing at a number of the result marks its
  /// row and column and shows the sum; it can play. Throws Error if the shapes do not fit, or above 12 rows or columns.
  Tensor product(const Tensor& a, const Tensor& b);
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
