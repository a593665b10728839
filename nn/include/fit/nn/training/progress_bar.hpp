#pragma once
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>

namespace fit {

/// How progress is shown. automatic: a bar if the stream is std::cerr or std::cout on a terminal, else lines.
enum class Display { automatic, bar, lines, none };

/// "120/2000 [#...................]   6 %  loss 1.2345  38512 tokens/s  0:42 left". The line is redrawn at most ten
/// times a second. Display::lines prints a new line every few seconds.
class ProgressBar {
 public:
  /// `done` is the number of steps of the run before, if a training is resumed.
  explicit ProgressBar(std::int64_t steps, std::int64_t done = 0, Display display = Display::automatic);
  ProgressBar(std::int64_t steps, std::int64_t done, Display display, std::ostream& out, double seconds_between = 5);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the state after `step` steps. The last step had `tokens` tokens; for 0, the rate is in steps per second.
  void update(std::int64_t step, double loss, std::int64_t tokens = 0);
  /// Writes a line above the bar.
  void print(const std::string& line);
  /// Shows the last state and ends the line.
  void finish();
  /// Tokens per second since the start, or steps per second.
  double rate() const;

 private:
  double seconds() const;
  std::string line() const;
  void draw();

  std::int64_t steps_, first_, step_;
  Display display_;
  std::ostream& out_;
  double between_, drawn_, start_;  // seconds
  double loss_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t tokens_ = 0;
  bool open_ = false, stale_ = false;  // the line is not ended; the drawn state is not the last one
};

}  // namespace fit
