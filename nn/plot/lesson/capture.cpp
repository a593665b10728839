#include "plot/lesson/capture.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <utility>

namespace fit::plot {
namespace {

constexpr std::size_t max_kept = std::size_t{1} << 20;  // a page is not a log

// Shared by threads: a mutex protects the text.
class Kept {
 public:
  void add(const char* text, std::size_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t space = max_kept - std::min(max_kept, text_.size());
    text_.append(text, std::min(size, space));
    lost_ += size - std::min(size, space);
  }
  std::string take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string text = std::exchange(text_, {});
    if (lost_ > 0) text += "\n… and " + std::to_string(std::exchange(lost_, 0)) + " more bytes\n";
    return text;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::size_t lost_ = 0;
};

// A stream buffer that also forwards to another buffer.
class Tee : public std::streambuf {
 public:
  Tee(std::streambuf* to, Kept& kept) : to_(to), kept_(kept) {}
  std::streambuf* to() const { return to_; }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char letter = traits_type::to_char_type(c);
    kept_.add(&letter, 1);
    return to_->sputc(letter);
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    kept_.add(text, static_cast<std::size_t>(size));
    return to_->sputn(text, size);
  }
  int sync() override { return to_->pubsync(); }

 private:
  std::streambuf* to_;
  Kept& kept_;
};

}  // namespace

struct OutputCapture::State {
  State() : tee(std::cout.rdbuf(), kept) {
    std::fflush(stdout);
    std::cout.flush();
    std::cout.rdbuf(&tee);
#ifdef __GLIBC__  // stdout can be assigned
    cookie_io_functions_t functions{};
    functions.write = [](void* self, const char* text, std::size_t size) -> ssize_t {
      auto& state = *static_cast<State*>(self);
      state.kept.add(text, size);
      return static_cast<ssize_t>(std::fwrite(text, 1, size, state.before));
    };
    if (std::FILE* const file = fopencookie(this, "w", functions)) {
      std::setvbuf(file, nullptr, _IONBF, 0);
      stdout = file;
    }
#endif
  }
  ~State() {
    flush();
    if (std::cout.rdbuf() == &tee) std::cout.rdbuf(tee.to());
    if (stdout == before) return;
    std::fclose(std::exchange(stdout, before));
  }
  void flush() {
    std::fflush(stdout);
    std::cout.flush();
  }

  std::FILE* const before = stdout;
  Kept kept;
  Tee tee;
};

OutputCapture::OutputCapture() : state_(std::make_unique<State>()) {}
OutputCapture::~OutputCapture() = default;

std::string OutputCapture::take() {
  state_->flush();
  return state_->kept.take();
}

void OutputCapture::print(const std::string& text) {
  state_->flush();
  std::fwrite(text.data(), 1, text.size(), state_->before);
  std::fflush(state_->before);
}

}  // namespace fit::plot
