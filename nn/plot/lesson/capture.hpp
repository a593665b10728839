#pragma once
#include <memory>
#include <string>

namespace fit::plot {

// Captures the output through std::cout and stdio during its lifetime. The output is still printed. Only one may exist
// at a time. Direct writes to the file descriptor, such as those of child processes, are not captured.
class OutputCapture {
 public:
  OutputCapture();
  ~OutputCapture();
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;

  // The text printed since the last call.
  std::string take();
  // Prints text without capturing it.
  void print(const std::string& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fit::plot
