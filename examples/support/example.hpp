#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fit/plot.hpp"

/// What the examples share: their command line, the claims that they prove, the pictures that they leave.
namespace example {

class Example {
 public:
  /// --out DIR: where the pictures go, into a folder with the example's name.
  std::string out = "out";
  /// --seed N: of everything random.
  std::uint64_t seed = 42;
  /// --quick: a few steps instead of a whole training, for the tests.
  bool quick = false;

  explicit Example(std::string name) : name_(std::move(name)) {}
  /// Prints a heading.
  void section(const std::string& title);
  /// Prints whether a claim holds; one that does not makes the program fail in the end.
  void claim(const std::string& what, bool holds);
  /// Saves a picture as DIR/EXAMPLE/NAME.svg.
  void picture(const std::string& name, const fit::plot::Figure& figure);
  /// Prints the failed claims and where the pictures lie; returns the program's exit code.
  int finish() const;

 private:
  std::string name_;
  std::vector<std::string> failed_, pictures_;
  int claims_ = 0;
};

/// Reads the command line, seeds the generator, and runs `body`. The exit code is 0 if all went well, 1 if a claim or
/// anything else failed (its name is printed), 2 if the command line was wrong.
int run(int argc, char** argv, const std::string& about, const std::function<void(Example&)>& body);

/// The words of a text, by spaces.
std::vector<std::string> words(const std::string& text);

/// The largest |a - b|, for tensors of one shape.
double distance(const fit::Tensor& a, const fit::Tensor& b);

}  // namespace example
