#include "fit/nn/training/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "common/clock.hpp"

namespace fit {
namespace {

Display chosen(Display wanted, const std::ostream& out) {
  if (wanted != Display::automatic) return wanted;
  const bool terminal = (&out == &std::cerr && isatty(STDERR_FILENO)) || (&out == &std::cout && isatty(STDOUT_FILENO));
  return terminal ? Display::bar : Display::lines;
}

// 3:07, 1:02:33
std::string duration(double seconds) {
  const auto s = static_cast<long long>(std::llround(std::min(seconds, 1e9)));
  char text[48];
  if (s < 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

constexpr int bar_width = 20, line_width = 79;  // a terminal has 80 columns; a wrapped line can't be redrawn

}  // namespace

ProgressBar::ProgressBar(std::int64_t steps, std::int64_t done, Display display)
    : ProgressBar(steps, done, display, std::cerr) {}

ProgressBar::ProgressBar(std::int64_t steps, std::int64_t done, Display display, std::ostream& out,
                         double seconds_between)
    : steps_(steps),
      first_(done),
      step_(done),
      display_(chosen(display, out)),
      out_(out),
      between_(display_ == Display::bar ? 0.1 : seconds_between),
      drawn_(-between_),
      start_(steady_seconds()) {}

ProgressBar::~ProgressBar() { finish(); }

double ProgressBar::seconds() const { return steady_seconds() - start_; }

void ProgressBar::update(std::int64_t step, double loss, std::int64_t tokens) {
  step_ = step;
  loss_ = loss;
  tokens_ += tokens;
  stale_ = true;
  if (seconds() - drawn_ >= between_) draw();
}

void ProgressBar::print(const std::string& line) {
  if (display_ == Display::none) return;
  if (open_) out_ << "\r\033[K";
  open_ = false;
  out_ << line << '\n' << std::flush;
}

void ProgressBar::finish() {
  if (stale_) draw();
  if (open_) out_ << '\n' << std::flush;
  open_ = false;
}

double ProgressBar::rate() const {
  return static_cast<double>(tokens_ > 0 ? tokens_ : step_ - first_) / std::max(seconds(), 1e-9);
}

std::string ProgressBar::line() const {
  const double share = steps_ > 0 ? std::clamp(static_cast<double>(step_) / static_cast<double>(steps_), 0., 1.) : 1;
  const double left =
      seconds() * static_cast<double>(steps_ - step_) / std::max<double>(1, static_cast<double>(step_ - first_));
  const std::string count = std::to_string(step_) + '/' + std::to_string(steps_);
  char text[160];
  std::snprintf(text, sizeof text, " %3.0f %%  loss %.4f  %.*f %s/s  %s left", 100 * share, loss_, rate() < 10 ? 2 : 0,
                rate(), tokens_ > 0 ? "tokens" : "steps", duration(std::max(left, 0.)).c_str());
  const int width = std::min(bar_width, line_width - static_cast<int>(count.size() + std::strlen(text) + 3));
  if (display_ != Display::bar || width < 1) return count + text;
  const int full = static_cast<int>(share * width);
  return count + " [" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(width - full), '.') + ']' + text;
}

void ProgressBar::draw() {
  drawn_ = seconds();
  stale_ = false;
  if (display_ == Display::none) return;
  open_ = display_ == Display::bar;
  out_ << (open_ ? "\r" : "") << line() << (open_ ? "\033[K" : "\n") << std::flush;
}

}  // namespace fit
