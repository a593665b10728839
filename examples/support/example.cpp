#include "support/example.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#ifdef FIT_MPI
#include "fit/mpi.hpp"
#endif
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/attention/attention_recorder.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "fit/tensor/random.hpp"
#include "fit/threads/parallel.hpp"

namespace example {
namespace {

// Found out before a training, not after it: whether files can be saved there.
void make_folder(const std::string& out) {
  std::error_code failed;
  std::filesystem::create_directories(out, failed);
  if (!std::filesystem::is_directory(out, failed) || access(out.c_str(), W_OK) != 0)
    throw fit::FileError("--out is '" + out + "': no folder there may be written to; name another");
}

// Text in a colour of the terminal (32 is green, 31 is red), if it shows colours.
std::string paint(const std::string& text, int color) {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) && !(no_color && *no_color) ? "\x1b[" + std::to_string(color) + "m" + text + "\x1b[0m"
                                                           : text;
}

// "Did you mean --quick?" for an unknown option, if one is near; else the names of all.
std::string suggestion(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> names;
  std::string all;
  for (const CLI::Option* const option : app.get_options()) {
    names.push_back("--" + option->get_lnames().front());
    all += ' ' + names.back();
  }
  const std::string* const near = fit::most_similar(unknown.substr(0, unknown.find('=')), names);
  return near ? "Did you mean " + *near + "?" : "The options are" + all + ", and --help says what they do.";
}

}  // namespace

void print_claim(const std::string& what, bool holds) {
  std::cout << paint(holds ? "  [ok]     " : "  [FAILED] ", holds ? 32 : 31) << what << '\n';
}

Example::Example(std::string name) : threads(fit::num_threads()), name_(std::move(name)) {}

void Example::section(const std::string& title) { std::cout << "\n== " << title << '\n'; }

void Example::cell(int line) { lesson_->cell(line); }

void Example::claim(const std::string& what, bool holds) {
  if (lesson_) {
    lesson_->claim(what, holds);
    claims_ = lesson_->claims();  // of several cases, a claim counts once
  } else {
    print_claim(what, holds);
    ++claims_;
  }
  if (!holds && std::find(failed_.begin(), failed_.end(), what) == failed_.end()) failed_.push_back(what);
}

void Example::at_least(const std::string& what, double reached, double goal) {
  quality(what, reached, "at least", goal, reached >= goal);
}

void Example::at_most(const std::string& what, double reached, double goal) {
  quality(what, reached, "at most", goal, reached <= goal);
}

void Example::quality(const std::string& what, double reached, const char* relation, double goal, bool holds) {
  std::ostringstream line;
  line << std::setprecision(4) << what << ": " << reached << " (it should be " << relation << ' ' << goal << "), after "
       << std::fixed << std::setprecision(1) << seconds() << " s";
  if (quick)
    std::cout << "  [quick]  " << line.str() << '\n';
  else
    claim(line.str(), holds);
}

void Example::compare(const std::string& what, double wide, double narrow, const std::string& kind) const {
  std::ostringstream line;
  line << std::fixed << std::setprecision(4) << what << ": " << wide << " in float32, " << narrow << " with " << kind;
  std::cout << "  " << line.str() << '\n';
}

double Example::number(const std::string& flag, double least, double most) const {
  const std::string& given = word(flag);
  char* end = nullptr;
  const double x = std::strtod(given.c_str(), &end);
  if (!given.empty() && *end == 0 && x >= least && x <= most) return x;
  std::ostringstream error;
  error << flag << " is '" << given << "': it must be a number in " << least << " … " << most;
  throw fit::Error(error.str());
}

std::int64_t Example::whole(const std::string& flag, double least, double most) const {
  const double x = number(flag, least, most);
  if (x != std::floor(x)) throw fit::Error(flag + " is '" + word(flag) + "': it must be a whole number");
  return static_cast<std::int64_t>(x);
}

bool Example::on(const std::string& flag) const {
  const std::string& given = word(flag);
  if (given != "on" && given != "off") throw fit::Error(flag + " is '" + given + "': it must be on or off");
  return given == "on";
}

double Example::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Example::progress(const std::string& unit, int done, int of, const std::string& what, double value) const {
  std::ostringstream line;
  line << std::fixed << unit << ' ' << std::setw(static_cast<int>(std::to_string(of).size())) << done << " of " << of
       << "  " << what << ' ' << std::setprecision(4) << value << "  " << std::setprecision(1) << seconds() << " s\n";
  std::cout << line.str() << std::flush;
}

void Example::picture(const std::string& name, const fit::plot::Figure& figure, int line) {
  if (lesson_) lesson_->figure(figure, "", line);
  save(name, figure);
}

void Example::save(const std::string& name, const fit::plot::Figure& figure) {
  if (fit::dist::world().rank() > 0) return;
  pictures_.push_back(path(name + ".svg"));
  figure.save(pictures_.back());
  if (dark) figure.dark().save(path(name + "_dark.svg"));
}

void Example::page(const std::string& name, const fit::AttentionRecording& recording) {
  if (lesson_) lesson_->heads(recording);
  if (fit::dist::world().rank() > 0) return;
  pictures_.push_back(path(name + ".html"));
  fit::plot::write_workbench(pictures_.back(), recording);
}

void Example::model(const std::string& name, const fit::nn::GPT& gpt, const fit::text::Vocabulary& vocabulary,
                    const std::vector<std::string>& samples, const fit::plot::WorkbenchOptions& options) {
  if (fit::dist::world().rank() > 0) return;
  pictures_.push_back(path(name + ".html"));
  fit::plot::write_workbench(pictures_.back(), gpt, vocabulary, samples, options);
}

void Example::five_minutes(const std::string& name, const fit::nn::GPT& gpt, const std::vector<std::string>& words,
                           const std::vector<std::string>& samples, const fit::plot::FiveMinutesOptions& options) {
  if (fit::dist::world().rank() > 0) return;
  first_ = path(name + ".html");
  fit::plot::write_five_minutes_page(first_, gpt, words, samples, options);
}

fit::plot::TrainingPage& Example::follow(const std::string& title, std::int64_t steps, const fit::nn::Layer& model) {
  heads_.title = title;
  model_ = &model;
  const auto o = fit::plot::TrainingPageOptions().title(title).steps(steps).on_stop([this] {
    save_weights();
    std::cerr << "Its weights are in " << path("weights.safetensors") << std::endl;
  });
  const bool writes = fit::dist::world().rank() == 0;
  if (writes) pictures_.push_back(path("training.html"));
  training_ = std::make_unique<fit::plot::TrainingPage>(writes ? pictures_.back() : "", o);
  if (writes) std::cout << "To watch it, open this in a browser: " << pictures_.back() << std::endl;
  return *training_;
}

void Example::save_weights() {
  if (fit::dist::world().rank() == 0) fit::nn::save_weights(path("weights.safetensors"), *model_);
}

void Example::trained(const std::string& ylabel) {
  save_weights();
  const auto options = fit::plot::LineOptions().title(heads_.title).xlabel("Step").ylabel(ylabel).smooth();
  picture("loss", training_->loss(options));
}

void Example::look(fit::nn::Layer& model, std::int64_t step, const std::function<void()>& read,
                   const std::function<void(fit::AttentionRecording&)>& name) {
  const fit::NoGrad no_grad;
  model.eval();
  fit::nn::AttentionRecorder recorder(model);
  recorder.step(step);
  read();
  model.train();
  fit::AttentionRecording seen = recorder.recording();
  name(seen);
  heads_.append(seen);
  training_->heads(heads_);
}

int Example::finish() {
  if (training_) training_->finish();
  const bool is_lesson = lesson_ != nullptr;
  if (is_lesson) {
    lesson_->write();
    lesson_.reset();
    std::cout << "\nThe lesson, to read in a browser:\n  " << path(name_ + ".html") << '\n';
  }
  if (!pictures_.empty()) {
    std::cout << (is_lesson ? "\nIts pictures:\n" : "\nPictures, for a browser:\n");
    for (const auto& path : pictures_) std::cout << "  " << path << '\n';
  }
  if (model_) std::cout << "\nThe weights of the model:\n  " << path("weights.safetensors") << '\n';
  if (!first_.empty()) std::cout << "\nOpen this first, in a browser:\n  " << first_ << '\n';
  if (claims_ > 0)
    std::cout << '\n' << claims_ - static_cast<std::int64_t>(failed_.size()) << " of " << claims_ << " claims hold\n";
  if (fit::dist::world().rank() > 0) return 0;
  for (const auto& what : failed_) std::cerr << "FAILED: " << what << '\n';
  return failed_.empty() ? 0 : 1;
}

// With a file it is a lesson.
int run_as(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body,
           const Flags& flags, const std::string& data, const char* file) {
#ifdef FIT_MPI
  const fit::dist::Mpi ranks;
#endif
  if (fit::dist::world().rank() > 0 && !std::freopen("/dev/null", "w", stdout)) return 1;  // rank 0 alone speaks
  Example e{std::filesystem::path(argv[0]).filename().string()};
  CLI::App app(about);
  app.option_defaults()->always_capture_default();
  app.add_option("--out", e.out, "folder for pictures, pages and weights");
  const CLI::Range seeds(std::int64_t{0}, std::int64_t{1} << 62), counts(1, 1024);
  app.add_option("--seed", e.seed, "of everything random, 0 or more")->check(seeds.description(""));
  app.add_option("--threads", e.threads, "how many to use, 1 to 1024")->check(counts.description(""));
  e.data = data;
  if (!data.empty()) app.add_option("--data", e.data, "folder of the data");
  app.add_flag("--quick", e.quick, "a few steps only, as the tests do it");
  app.add_flag("--dark", e.dark, "each picture for dark pages, too, as NAME_dark.svg");
  for (const auto& [flag, effect] : flags) {
    const std::size_t is = flag.find('=');
    const std::string name = flag.substr(0, is);
    const auto give = [&e, name] { e.flags_.insert(name); };
    if (is == std::string::npos)
      app.add_flag_callback(name, give, effect);
    else
      app.add_option(name, e.values_[name] = flag.substr(is + 1), effect)->each([give](const std::string&) { give(); });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    const std::string unknown = app.remaining().front();
    std::cerr << "There is no option '" << unknown << "'. " << suggestion(app, unknown) << '\n';
    return 2;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    make_folder(e.out);
    fit::set_num_threads(e.threads);
    fit::manual_seed(e.seed);
    if (file) e.lesson_ = std::make_unique<fit::Lesson>(e.path(e.name_ + ".html"), fit::LessonOptions(), file);
    const fit::Autocast precision(e.given("--bf16") ? fit::bfloat16 : fit::float32);
    body(e);
    return e.finish();
  } catch (const std::exception& error) {
    if (e.lesson_) e.lesson_->error(error.what());
    fit::dist::end_all(error);
    std::cerr << "FAILED: " << error.what() << '\n';
    return 1;
  }
}

int run(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body, const Flags& flags,
        const std::string& data) {
  return run_as(argc, argv, about, body, flags, data, nullptr);
}

int lesson(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body,
           const char* file) {
  return run_as(argc, argv, about, body, {}, "", file);
}

std::string data_file(const std::string& path, const std::string& package, const std::string& command) {
  if (!std::filesystem::exists(path))
    throw fit::FileError("data is missing: there is no '" + path + "'; " + package +
                         " has it, which examples/run installs, or: " + command);
  return path;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

double distance(const fit::Tensor& a, const fit::Tensor& b) {
  const fit::NoGrad no_grad;
  return fit::max(fit::abs(a - b)).item();
}

}  // namespace example
