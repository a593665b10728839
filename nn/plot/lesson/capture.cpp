#include "plot/lesson/capture.hpp"

#include <iostream>

namespace fit::plot {

OutputCapture::OutputCapture() : tee_(std::cout.rdbuf(), kept_) {
  flush();
  std::cout.rdbuf(&tee_);
#ifdef __GLIBC__  // stdout can be assigned
  cookie_io_functions_t functions{};
  functions.write = [](void* self, const char* text, std::size_t size) -> ssize_t {
    auto& capture = *static_cast<OutputCapture*>(self);
    capture.kept_.add(text, size);
    return static_cast<ssize_t>(std::fwrite(text, 1, size, capture.before_));
  };
  if (std::FILE* const file = fopencookie(this, "w", functions)) {
    std::setvbuf(file, nullptr, _IONBF, 0);
    stdout = file;
  }
#endif
}

OutputCapture::~OutputCapture() {
  flush();
  if (std::cout.rdbuf() == &tee_) std::cout.rdbuf(tee_.to());
  if (stdout == before_) return;
  std::fclose(std::exchange(stdout, before_));
}

void OutputCapture::flush() {
  std::fflush(stdout);
  std::cout.flush();
}

std::string OutputCapture::take() {
  flush();
  return kept_.take();
}

void OutputCapture::print(const std::string& text) {
  flush();
  std::fwrite(text.data(), 1, text.size(), before_);
  std::fflush(before_);
}

}  // namespace fit::plot
