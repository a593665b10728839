#pragma once
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <streambuf>
#include <string>
#include <utility>

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
  // Shared by threads: a mutex protects the text.
  class Kept {
   public:
    void add(const char* text, std::size_t size) {
      const std::lock_guard<std::mutex> lock(mutex_);
      const std::size_t space = most - std::min(most, text_.size());
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
    static constexpr std::size_t most = std::size_t{1} << 20;  // a page is not a log
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

  static void flush();

  std::FILE* const before_ = stdout;
  Kept kept_;
  Tee tee_;
};

}  // namespace fit::plot
