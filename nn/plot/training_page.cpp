#include "fit/training_page.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <utility>

#include "common/clock.hpp"
#include "fit/base/error.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/training/interrupt.hpp"
#include "fit/workbench.hpp"
#include "plot/figures/text.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

using json = io::Json;
constexpr const char* training_page_op = "plot::TrainingPage";
constexpr std::size_t most_points = 2000;
constexpr double share_of_time = 0.01;  // fraction of the time that writing may take

// Neighbouring values of a curve, merged into one point.
struct Point {
  double x = 0, sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  std::int64_t count = 0;

  void add(const Point& p) {
    x = p.x;
    sum += p.sum;
    low = std::min(low, p.low), high = std::max(high, p.high);
    count += p.count;
  }
  double mean() const { return sum / static_cast<double>(count); }
};

struct Series {
  std::vector<Point> points;
  std::int64_t in_point = 1;  // values

  void add(double x, double y) {
    if (points.empty() || points.back().count >= in_point) {
      if (points.size() == most_points) halve();
      points.emplace_back();
    }
    points.back().add({x, y, y, y, 1});
  }
  void halve() {
    for (std::size_t i = 0; i < points.size() / 2; ++i) {
      Point joined = points[2 * i];
      joined.add(points[2 * i + 1]);
      points[i] = joined;
    }
    points.resize(points.size() / 2);
    in_point *= 2;
  }
  json columns() const {
    json c{{"x", json::array()}, {"y", json::array()}};
    for (const Point& p : points) {
      c["x"].push_back(p.x), c["y"].push_back(static_cast<float>(p.mean()));
      if (in_point > 1) c["low"].push_back(static_cast<float>(p.low)), c["high"].push_back(static_cast<float>(p.high));
    }
    return c;
  }
};

// How many values have which magnitude, by step: class 0 is below 1e-10, then come two classes a decade. The last one
// is from 1e4 on, and has what is not finite.
struct Magnitudes {
  static constexpr int lowest = -10, highest = 4, classes = 2 + 2 * (highest - lowest);
  static constexpr std::size_t most_columns = 60;
  std::vector<double> steps;
  std::vector<std::vector<std::int64_t>> counts;
  std::int64_t in_column = 1, in_last = 0;  // steps

  void add(double step, const Tensor& values) {
    if (counts.empty() || in_last == in_column) {
      if (counts.size() == most_columns) halve();
      steps.push_back(step), counts.emplace_back(classes, 0), in_last = 0;
    }
    steps.back() = step, ++in_last;
    for (const float v : values.detach().to(float32).to_vector<float>()) ++counts.back()[class_of(v)];
  }
  static std::size_t class_of(float v) {
    if (v == 0) return 0;
    const double at = std::isfinite(v) ? 1 + 2 * (std::log10(std::abs(static_cast<double>(v))) - lowest) : classes;
    return static_cast<std::size_t>(std::clamp(std::floor(at), 0.0, classes - 1.0));
  }
  void halve() {
    for (std::size_t i = 0; i < counts.size() / 2; ++i) {
      steps[i] = steps[2 * i + 1];
      for (std::size_t k = 0; k < counts[i].size(); ++k) counts[i][k] = counts[2 * i][k] + counts[2 * i + 1][k];
    }
    steps.resize(steps.size() / 2), counts.resize(counts.size() / 2);
    in_column *= 2, in_last = in_column;
  }
  json columns() const { return {{"counts", counts}, {"x", steps}}; }
};

}  // namespace

struct TrainingPage::State {
  explicit State(const std::string& path, const TrainingPageOptions& o) : stem(path), options(o) {
    const std::size_t end = path.size() - std::min<std::size_t>(5, path.size());
    if (!path.empty() && path.compare(end, 5, ".html") != 0)
      check::fail(training_page_op, "the path is '", path, "': it must end with .html");
    check::not_negative(training_page_op, "steps", options.steps());
    check::not_negative(training_page_op, "seconds_between", options.seconds_between());
    stem.erase(end);
    for (const TrainingRow& row : options.before()) take(row);
    options.before({});
    silent = path.empty();
    if (silent) return;
    if (InterruptGuard::count() == 0) guard.emplace();
    write_text(training_page_op, stem + ".js", script());
    write_text(training_page_op, stem + ".html", html(""));
  }

  // Adds the values of a log row. Returns the number of steps since the row before.
  double take(const TrainingRow& row) {
    const auto at = row.find("step");
    if (at == row.end() || !std::isfinite(at->second))
      check::fail(training_page_op, "a row has no \"step\": it says where it belongs");
    for (const auto& [name, value] : row)
      if (name != "step" && name != "tokens" && std::isfinite(value)) all[name].add(at->second, value);
    return at->second - std::exchange(step, at->second);
  }

  std::string name(const char* ending) const { return std::filesystem::path(stem).filename().string() + ending; }

  std::string data() const {
    const char* const states[] = {"running", "done", "stopped"};
    json d{{"title", printable(options.title())},
           {"steps", options.steps()},
           {"step", step},
           {"first", first},
           {"seconds", steady_seconds() - start},
           {"written", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()},
           {"state", states[static_cast<int>(state)]},
           {"rate", has_tokens ? "Tokens a second" : "Steps a second"},
           {"heads", heads_written},
           {"series", json::object()}};
    for (const auto& [parameter, kinds] : magnitudes)
      for (const auto& [kind, values] : kinds) d["histograms"][printable(parameter)][kind] = values.columns();
    for (const auto& [series, values] : all) d["series"][printable(series)] = values.columns();
    return page::script_json(d);
  }
  // The page of heads as an attribute of its frame: a finished page needs no file beside it.
  std::string heads_inside() const {
    if (recording.records().empty()) return "";
    std::string escaped;
    for (const char c : workbench(recording)) escaped += c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return " srcdoc=\"" + escaped + '"';
  }
  std::string script() const { return "show(" + data() + ");\n"; }
  std::string html(const std::string& numbers) const {
    return page::filled(page::training_html, {{"{{head}}", page::head(escape_xml(options.title()), page::training_css,
                                                                      " 'self' file:; frame-src 'self' file:")},
                                              {"{{source}}", escape_xml(name(".js"))},
                                              {"{{heads}}", escape_xml(name("_heads.html"))},
                                              {"{{inside}}", numbers.empty() ? "" : heads_inside()},
                                              {"{{data}}", numbers},
                                              {"{{script}}", page::shared_script() + page::training_js}});
  }

  void write_heads() {
    if (recording.records().empty() || !heads_changed) return;
    write_text(training_page_op, stem + "_heads.html", workbench(recording));
    heads_changed = false;
    ++heads_written;
  }
  void measure() {
    if (const double time = steady_seconds() - measured; time > 0 && counted > 0) all["rate"].add(step, counted / time);
    counted = 0, measured = steady_seconds();
  }
  void write() {
    write_heads();
    write_text(training_page_op, stem + ".js", script());
  }
  // Writes the output of f unless writing has been given up.
  template <class F>
  void guarded(F f) {
    if (silent) return;
    const double begin = steady_seconds();
    try {
      f();
    } catch (const FileError& error) {
      silent = true;
      std::cerr << error.what() << std::endl;
    }
    if (options.seconds_between() > 0)
      wait = std::max(options.seconds_between(), (steady_seconds() - begin) / share_of_time);
    written = steady_seconds();
  }

  std::string stem;  // the path without .html
  TrainingPageOptions options;
  TrainingState state = TrainingState::running;
  std::map<std::string, Series> all;
  std::map<std::string, std::map<std::string, Magnitudes>> magnitudes;  // by parameter; "weights" and "gradients"
  double step = 0, first = -1;
  bool has_tokens = false;
  bool silent = false;  // no path, or writing has failed
  double counted = 0;   // tokens, or steps, since the rate was measured
  double start = steady_seconds(), measured = start, written = start;
  double wait = 0;  // seconds
  AttentionRecording recording;
  bool heads_changed = false;
  std::int64_t heads_written = 0;
  std::optional<InterruptGuard> guard;  // none if the loop around has one
};

TrainingPage::TrainingPage(const std::string& path, const TrainingPageOptions& options)
    : state_(std::make_unique<State>(path, options)) {}

TrainingPage::~TrainingPage() {
  if (state_->state == TrainingState::running) finish(TrainingState::stopped);
}

void TrainingPage::add(const TrainingRow& row) {
  State& s = *state_;
  const double steps = s.take(row);
  const auto tokens = row.find("tokens");
  const double count = tokens == row.end() ? 0 : tokens->second;
  if (s.first < 0)
    s.first = s.step, s.measured = steady_seconds();  // earlier steps are not timed
  else
    s.counted += count > 0 ? count : steps;
  s.has_tokens = s.has_tokens || count > 0;
  // LCOV_EXCL_START: it ends the process, a child of training_page_test, before its counts are written.
  if (s.guard && InterruptGuard::count() == 1 && InterruptGuard::signal() != 0) {
    finish(TrainingState::stopped);
    std::cerr << "Stopped at step " << s.step << std::endl;
    if (s.options.on_stop()) s.options.on_stop()();
    std::raise(InterruptGuard::signal());  // ends the program, as it would have without the page
  }
  // LCOV_EXCL_STOP
  if (steady_seconds() - s.written < s.wait) return;
  s.measure();
  s.guarded([&] { s.write(); });
}

void TrainingPage::heads(AttentionRecording recording) {
  state_->recording = std::move(recording);
  state_->heads_changed = true;
}

void TrainingPage::histograms(std::int64_t step, const StateDict& parameters) {
  const NoGrad no_grad;
  for (const auto& [name, parameter] : parameters) {
    auto& kinds = state_->magnitudes[name];
    kinds["weights"].add(static_cast<double>(step), parameter);
    if (const Tensor gradient = parameter.grad(); gradient.defined())
      kinds["gradients"].add(static_cast<double>(step), gradient);
  }
}

void TrainingPage::finish(TrainingState state) {
  State& s = *state_;
  s.state = state;
  s.guard.reset();
  s.guarded([&] {
    s.write();
    write_text(training_page_op, s.stem + ".html", s.html(s.data()));
  });
}

Figure TrainingPage::loss(const LineOptions& options) const {
  std::vector<Curve> curves;
  for (const auto& [label, name] : {std::pair("training", "loss"), std::pair("validation", "validation")}) {
    const auto found = state_->all.find(name);
    if (found == state_->all.end()) continue;
    Curve curve{label};
    for (const Point& p : found->second.points) curve.x.push_back(p.x), curve.y.push_back(p.mean());
    curves.push_back(std::move(curve));
  }
  return lines(curves, options);
}

}  // namespace fit::plot
