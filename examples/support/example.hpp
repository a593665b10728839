#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fit/five_minutes_page.hpp"
#include "fit/lesson.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/plot.hpp"
#include "fit/training_page.hpp"
#include "fit/workbench.hpp"

/// What the examples share: the ranks that mpirun starts, their command line, the claims that they prove, the quality
/// that they reach, the pictures that they leave.
namespace example {

/// Flags that one example has, and what they do: {{"--today", "…"}}. One with a value names its default:
/// {{"--dropout=0.2", "…"}}.
using Flags = std::map<std::string, std::string>;
/// Those of several examples. With --bf16 the whole program runs under Autocast(bfloat16). --int8 is for those that
/// call beside_int8().
inline const Flags::value_type bf16{"--bf16", "products and attention in bfloat16 (fit/graph/autocast.hpp)"};
inline const Flags::value_type int8{"--int8",
                                    "measures what was trained with int8 weights, too (fit/nn/layers/quantize.hpp)"};

/// Prints "[ok] what" or "[FAILED] what", in colours where the terminal has them.
void print_claim(const std::string& what, bool holds);

class Example {
 public:
  /// --out DIR: where the pictures go, into a folder with the example's name.
  std::string out = "out";
  /// --seed N: of everything random.
  std::uint64_t seed = 42;
  /// --quick: a few steps instead of a whole training, for the tests.
  bool quick = false;
  /// --dark: each picture also as NAME_dark.svg, for pages with a dark ground.
  bool dark = false;

  /// --data DIR: where the data lies, for the examples that read what isn't in this repository.
  std::string data;
  /// --threads N: how many to use.
  int threads;
  /// Whether a flag of its own was given.
  bool given(const std::string& flag) const { return flags_.count(flag) > 0; }
  /// The value of one of its own, as a word, as a number in least … most, also a whole one, and "on" or "off". Throws
  /// Error if it is none.
  const std::string& word(const std::string& flag) const { return values_.at(flag); }
  double number(const std::string& flag, double least, double most) const;
  std::int64_t whole(const std::string& flag, double least, double most) const;
  bool on(const std::string& flag) const;
  /// Another default for one of its own.
  void preset(const std::string& flag, const std::string& value) {
    if (!given(flag)) values_.at(flag) = value;
  }

  explicit Example(std::string name);
  /// Prints a heading.
  void section(const std::string& title);
  /// A new cell of the lesson begins in this line (fit/lesson.hpp).
  void cell(int line = __builtin_LINE());
  /// Add a question, a text, cases behind a slider and a product to the lesson, as in fit/lesson.hpp.
  void ask(const fit::Question& question) { lesson_->ask(question); }
  void text(const std::vector<std::string>& tokens, const std::vector<fit::TextHead>& heads) {
    lesson_->text(tokens, heads);
  }
  void vary(const std::string& name, std::initializer_list<double> values, const std::function<void(double)>& f) {
    lesson_->vary(name, values, f);
  }
  void vary(const std::string& name, const std::vector<std::string>& cases, const std::function<void(std::size_t)>& f) {
    lesson_->vary(name, cases, f);
  }
  fit::Tensor product(const fit::Tensor& a, const fit::Tensor& b) { return lesson_->product(a, b); }
  /// Shows a picture in the lesson without saving it.
  void figure(const fit::plot::Figure& figure, int line = __builtin_LINE()) { lesson_->figure(figure, "", line); }
  /// Prints whether a claim holds; one that does not makes the program fail in the end.
  void claim(const std::string& what, bool holds);
  /// Prints the quality that a training reached beside the one that it should reach, and the time since the program's
  /// start. A whole training that falls short makes the program fail in the end; one of --quick is not judged.
  void at_least(const std::string& what, double reached, double goal);
  void at_most(const std::string& what, double reached, double goal);
  /// With --int8: what `measure` finds of the model with int8 weights, and with int8 activations, too, may be at most
  /// `loss` above what was reached. All are printed.
  template <class Model, class Measure>
  void beside_int8(const std::string& what, const Model& model, const Measure& measure, double reached, double loss) {
    if (!given("--int8")) return;
    const auto beside = [&](const std::string& kind, const auto& options) {
      const auto small = fit::nn::clone(model);
      fit::nn::quantize_(*small, options);
      const double narrow = measure(*small);
      compare(what, reached, narrow, kind);
      at_most("what " + kind + " add to the " + what, narrow - reached, loss);
    };
    beside("int8 weights", fit::nn::Int8WeightOnlyOptions());
    beside("int8 weights and activations", fit::nn::Int8DynamicActivationInt8WeightOptions());
  }
  /// Prints how far a training is, and the time since the program's start: "step  200 of 2000  loss 2.345  12.3 s".
  void progress(const std::string& unit, int done, int of, const std::string& what, double value) const;
  /// Saves a picture as DIR/EXAMPLE/NAME.svg.
  void save(const std::string& name, const fit::plot::Figure& figure);
  /// Saves a picture. A lesson shows it as well, and the page of a recording.
  void picture(const std::string& name, const fit::plot::Figure& figure, int line = __builtin_LINE());
  /// Saves the page of a recording as DIR/EXAMPLE/NAME.html.
  void page(const std::string& name, const fit::AttentionRecording& recording);
  /// Saves a page in which the model runs as DIR/EXAMPLE/NAME.html.
  void model(const std::string& name, const fit::nn::GPT& gpt, const fit::text::Vocabulary& vocabulary,
             const std::vector<std::string>& samples, const fit::plot::WorkbenchOptions& options);
  /// Saves the page that explains attention by the model as DIR/EXAMPLE/NAME.html. It is the first that finish() names.
  void five_minutes(const std::string& name, const fit::nn::GPT& gpt, const std::vector<std::string>& words,
                    const std::vector<std::string>& samples, const fit::plot::FiveMinutesOptions& options);
  /// The page of the training of a model, DIR/EXAMPLE/training.html, which redraws itself from now on. Ctrl-C saves the
  /// weights.
  fit::plot::TrainingPage& follow(const std::string& title, std::int64_t steps, const fit::nn::Layer& model);
  /// Saves the weights of that model as DIR/EXAMPLE/weights.safetensors.
  void save_weights();
  /// After the training: the weights, and the picture of the loss.
  void trained(const std::string& ylabel);
  /// Adds to that page what the heads of `model` do while it reads, in evaluation and without gradients. `name` gives
  /// the tokens their names.
  void look(fit::nn::Layer& model, std::int64_t step, const std::function<void()>& read,
            const std::function<void(fit::AttentionRecording&)>& name);
  /// Prints the failed claims and where the pictures lie; returns the program's exit code.
  int finish();

 private:
  friend int run_as(int, char**, const std::string&, const std::function<void(Example&)>&, const Flags&,
                    const std::string&, const char*);
  std::string path(const std::string& name) const { return out + '/' + name_ + '/' + name; }
  void quality(const std::string& what, double reached, const char* relation, double goal, bool holds);
  void compare(const std::string& what, double wide, double narrow, const std::string& kind) const;
  double seconds() const;

  std::string name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::set<std::string> flags_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> failed_, pictures_;
  std::string first_;                    // the page to open first, if there is one
  std::unique_ptr<fit::Lesson> lesson_;  // null: it is none
  std::unique_ptr<fit::plot::TrainingPage> training_;
  fit::AttentionRecording heads_;          // of it
  const fit::nn::Layer* model_ = nullptr;  // that it trains
  std::int64_t claims_ = 0;
};

/// Reads the command line, seeds the generator, and runs `body`. The exit code is 0 if all went well, 1 if a claim or
/// anything else failed (its name is printed), 2 if the command line was wrong. With a folder for data there is --data.
/// Among several ranks (fit/nn/dist/dist.hpp) rank 0 alone prints and writes, and one that fails ends all.
int run(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body,
        const Flags& flags = {}, const std::string& data = "");

/// The same for a program that is a lesson: its page is DIR/EXAMPLE/EXAMPLE.html.
int lesson(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body,
           const char* file = __builtin_FILE());

/// The path, if there is such a file. Throws FileError, which says what package has it, and what installs that beside
/// examples/run.
std::string data_file(const std::string& path, const std::string& package, const std::string& command);

/// What f() returns if the attention of `layer` in it is computed operation by operation, in the order of the formula,
/// as under a lens that edits. `weights` is the name of its weights.
template <class Layer>
fit::Tensor step_by_step(const Layer& layer, const std::string& weights, const std::function<fit::Tensor()>& f) {
  return fit::nn::Lens(layer).with(weights, [](const fit::Tensor& w) { return w; }).run(f, {}).output;
}
template <class Layer>
fit::Tensor step_by_step(const Layer& layer, const std::string& weights, const fit::Tensor& x) {
  return step_by_step(layer, weights, [&] { return layer(x); });
}

/// The words of a text, by spaces.
std::vector<std::string> words(const std::string& text);

/// The largest |a - b|, for tensors of one shape.
double distance(const fit::Tensor& a, const fit::Tensor& b);

}  // namespace example
