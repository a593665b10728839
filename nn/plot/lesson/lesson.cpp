#include "fit/lesson.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

#include "common/rollback.hpp"
#include "fit/base/error.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/colormap.hpp"
#include "plot/figures/text.hpp"
#include "plot/lesson/capture.hpp"
#include "plot/lesson/page.hpp"
#include "plot/lesson/prose.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"

namespace fit {

using Kind = plot::CellOutput::Kind;

namespace {

const std::filesystem::path program = "/proc/self/exe";

// __FILE__ may be relative to the compiler's working directory, often a parent of the program's folder.
std::filesystem::path find_source(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::read_symlink(program, error);
  if (std::filesystem::exists(file, error) || file.is_absolute()) return file;
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    if (std::filesystem::exists(folder / file, error)) return folder / file;
  }
  return file;
}

std::string source_of(const std::string& name) {
  const std::filesystem::path file = find_source(name);
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (error || !in)
    throw FileError("[Lesson] cannot read the source '" + name +
                    "': run the program where it was built, or give the text as LessonOptions::source");
  const auto built = std::filesystem::last_write_time(program, error);
  if (!error && written > built)
    check::fail("Lesson", "the source '", name, "' is newer than the program: build it again, or the page would show ",
                "what did not run");
  return text;
}

}  // namespace

struct Lesson::State {
  State(std::string page_path, const LessonOptions& options, const std::string& file)
      : path(std::move(page_path)), title(options.title()) {
    bool any = false;
    source = options.source().empty() ? source_of(file) : options.source();
    for (plot::SourceCell& cell : plot::source_cells(file, source)) {
      any = any || !cell.prose.empty();
      try {
        std::string prose = plot::prose_html(cell.prose, headings);
        cells.push_back({std::move(cell), std::move(prose)});
      } catch (const Error& error) {
        check::fail("Lesson", file, ", in the prose from line ", cell.first, " on: ", error.what());
      }
    }
    if (!any) check::fail("Lesson", file, " has no prose: lines that begin with three slashes are");
    write();
  }

  void add(Kind kind, const std::string& content, const std::string& caption = "") {
    collect();
    outputs().push_back({kind, content, caption});
  }
  // The text printed so far belongs to the current cell.
  void collect() {
    if (!capture) return;
    std::string text = capture->take();
    if (text.empty()) return;
    auto& to = outputs();
    if (!to.empty() && to.back().kind == Kind::text)
      to.back().content += text;
    else
      to.push_back({Kind::text, std::move(text)});
  }
  void write() {
    collect();
    plot::write_text("Lesson", path, plot::lesson_html(title, headings, cells));
  }
  void try_to_write() noexcept {
    try {
      write();
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
    }
  }
  // The outputs of the current cell, or of the current case of vary().
  std::vector<plot::CellOutput>& outputs() {
    auto& all = cells[running].outputs;
    return varies ? all[all.size() - 1].cases.back().second : all;
  }

  std::string path, title, source;
  std::vector<plot::Heading> headings;
  std::vector<plot::LessonCell> cells;
  std::size_t running = 0;
  bool varies = false;  // in vary()
  // In vary(), whether the claims of its cases so far hold in all of them: each counts once.
  std::map<std::string, bool> in_cases;
  std::int64_t claims = 0, failed = 0;
  int exceptions = std::uncaught_exceptions();
  std::unique_ptr<plot::OutputCapture> capture;
};

namespace {

std::atomic<Lesson::State*> living{nullptr};
std::terminate_handler terminate_before = nullptr;

// LCOV_EXCL_START: it ends the process, a child of lesson_test, before its counts are written.

// An uncaught exception ends the program without running destructors.
[[noreturn]] void report_and_terminate() {
  if (Lesson::State* const state = living.exchange(nullptr)) {
    try {
      if (std::current_exception()) throw;
      state->add(Kind::error, "The program was ended.");
    } catch (const std::exception& error) {
      state->add(Kind::error, error.what());
    } catch (...) {
      state->add(Kind::error, "An exception that is no std::exception ended the program.");
    }
    state->try_to_write();
  }
  if (terminate_before) terminate_before();
  std::abort();
}

// LCOV_EXCL_STOP

}  // namespace

Lesson::Lesson(const std::string& path, const LessonOptions& options, const char* file)
    : state_(std::make_unique<State>(path, options, file)) {
  State* none = nullptr;
  if (!living.compare_exchange_strong(none, state_.get()))
    check::fail("Lesson", "another one lives: there is one at a time, for it keeps what the program prints");
  state_->capture = std::make_unique<plot::OutputCapture>();
  terminate_before = std::set_terminate(report_and_terminate);
}

Lesson::~Lesson() {
  if (std::uncaught_exceptions() > state_->exceptions)
    error("An exception left the lesson here; the program's own output says which.");
  state_->try_to_write();
  std::set_terminate(terminate_before);
  living = nullptr;
}

// Prints headings in a terminal, to show the position in the lesson.
void Lesson::print_headings(const std::string& prose) {
  std::istringstream lines(prose);
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t at = line.find_first_not_of('#'); at != 0 && at != std::string::npos && line[at] == ' ')
      state_->capture->print("\n==" + line.substr(at) + '\n');
}

void Lesson::cell(int line) {
  if (state_->varies) check::fail("Lesson", "cell() is called inside vary(): its cases are parts of one cell");
  state_->collect();
  for (std::size_t i = 0; i < state_->cells.size(); ++i) {
    const plot::SourceCell& source = state_->cells[i].source;
    if (!source.marked || line < source.first || line > source.last) continue;
    state_->running = i;
    state_->cells[i].reached = true;
    print_headings(source.prose);
    return;
  }
  check::fail("Lesson", "cell() was called in line ", line, ", where the source has none on a line of its own");
}

void Lesson::figure(const plot::Figure& figure, const std::string& caption, int line) {
  state_->add(Kind::figure, figure.svg(), caption);
  state_->outputs().back().names = plot::names_at(state_->source, line);
}

void Lesson::heads(const AttentionRecording& recording) {
  state_->add(Kind::heads, plot::page::workbench_view(recording), plot::printable(recording.title));
}

bool Lesson::claim(const std::string& what, bool holds) {
  State& s = *state_;
  s.add(holds ? Kind::holds : Kind::fails, what);
  bool before = true;  // without the claim
  if (!s.varies) {
    ++s.claims;
  } else {
    const auto [at, is_new] = s.in_cases.emplace(what, true);
    if (is_new) ++s.claims;
    before = std::exchange(at->second, at->second && holds);
  }
  if (before && !holds) ++s.failed;
  const bool colors = plot::has_colors(std::cout);
  const std::string mark = holds ? "  [ok]     " : "  [FAILED] ";
  s.capture->print((colors ? (holds ? "\x1b[32m" : "\x1b[31m") + mark + "\x1b[0m" : mark) + what + '\n');
  return holds;
}

void Lesson::ask(const Question& question) { state_->add(Kind::question, question.html()); }

void Lesson::text(const std::vector<std::string>& tokens, const std::vector<TextHead>& heads) {
  constexpr std::size_t max_heads = 4;  // the page has a colour for each
  const auto T = static_cast<std::int64_t>(tokens.size());
  if (tokens.empty() || heads.empty() || heads.size() > max_heads)
    check::fail("Lesson::text", tokens.size(), " tokens and ", heads.size(), " heads: give tokens, and 1 to ",
                max_heads, " heads");
  for (const TextHead& head : heads) {
    check::defined("Lesson::text", "weights", head.weights());
    if (head.weights().shape() != Shape{T, T})
      check::fail("Lesson::text", "weights is ", head.weights().shape(), ": it must be [", T, ", ", T,
                  "], a row and a column for each token");
  }
  state_->add(Kind::text_view, plot::text_html(tokens, heads));
}

void Lesson::vary(const std::string& name, const std::vector<std::string>& cases,
                  const std::function<void(std::size_t)>& f) {
  State& s = *state_;
  if (cases.empty()) check::fail("Lesson", "vary() has no cases of ", name, ": give one at least");
  if (s.varies) check::fail("Lesson", "vary() is called inside vary(): the page has one slider for each");
  s.add(Kind::vary, name);
  const std::size_t at = s.cells[s.running].outputs.size() - 1, cell = s.running;
  s.varies = true;
  s.in_cases.clear();
  const Rollback after_error([&s] { s.varies = false; });
  for (std::size_t i = 0; i < cases.size(); ++i) {
    s.cells[cell].outputs[at].cases.push_back({cases[i], {}});
    s.capture->print("-- " + name + ": " + cases[i] + '\n');
    f(i);
    s.collect();
  }
  s.varies = false;
}

void Lesson::vary(const std::string& name, std::initializer_list<double> values, const std::function<void(double)>& f) {
  std::vector<std::string> cases;
  for (const double v : values) {
    std::ostringstream text;
    text << v;
    cases.push_back(text.str());
  }
  vary(name, cases, [&](std::size_t i) { f(values.begin()[i]); });
}

Tensor Lesson::product(const Tensor& a, const Tensor& b) {
  constexpr std::int64_t max_size = 12;
  check::defined("Lesson::product", "a", a, "b", b);
  if (a.rank() != 2 || b.rank() != 2 || a.size(1) != b.size(0))
    check::fail("Lesson::product", "a is ", a.shape(), ", b is ", b.shape(), ": they must be (m, k) and (k, n)");
  if (std::max({a.size(0), a.size(1), b.size(1)}) > max_size)
    check::fail("Lesson::product", "a is ", a.shape(), ", b is ", b.shape(), ": at most ", max_size,
                " rows and columns can be shown");
  const Tensor c = matmul(a, b);
  state_->add(Kind::product, plot::product_html(a, b, c));
  return c;
}

void Lesson::error(const std::string& what) { state_->add(Kind::error, what); }

std::int64_t Lesson::claims() const { return state_->claims; }
std::int64_t Lesson::failed() const { return state_->failed; }

void Lesson::write() { state_->write(); }

}  // namespace fit
