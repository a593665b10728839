#pragma once
#include <memory>
#include <string>

namespace fit::plot {

// While one lives, what the program prints by std::cout, printf and their kin is kept, and still printed. One at a
// time. What is written to the file descriptor itself, as other programs do, is not seen.
class OutputCapture {
 public:
  OutputCapture();
  ~OutputCapture();
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;

  // What was printed since the last call.
  std::string take();
  // Prints what is not kept.
  void print(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fit::plot
