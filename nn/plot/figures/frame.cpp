#include "plot/figures/frame.hpp"

#include <algorithm>

#include "tensor/check.hpp"

namespace fit::plot {
namespace {

constexpr double legend_step = 19, note_step = 16;

}  // namespace

void Axis::finish(const char* op, const char* name, double margin, int tick_count) {
  if (low > high)
    check::fail(op, "no point can be drawn: there must be a finite ", log ? "positive " : "", name, " at least");
  if (low == high) {
    const double around = low == 0 ? 1 : std::abs(low) / 2;
    low -= around, high += around;
  }
  if (log) {
    const double factor = std::pow(high / low, margin);
    low /= factor, high *= factor;
    ticks = log_ticks(low, high);
  } else {
    const double more = (high - low) * margin;
    low -= more, high += more;
    ticks = round_ticks(low, high, tick_count);
  }
}

void Frame::begin() {
  for (std::string* s : {&title, &xlabel, &ylabel}) *s = shorten(printable(*s), longest_title);
  const auto most = static_cast<std::size_t>((field_height - 8) / legend_step);
  if (legend.size() > most) {
    const std::string more = "… and " + std::to_string(legend.size() - most + 1) + " more";
    legend.resize(most - 1);
    legend.push_back({more, look().ground});
  }
  double legend_width = 0, ticks_width = 0, widest = title_width(title, title_size);
  for (LegendEntry& e : legend) {
    e.label = shorten(printable(e.label), longest_label);
    legend_width = std::max(legend_width, 34 + text_width(e.label, tick_size));
  }
  for (const Tick& t : y.ticks) ticks_width = std::max(ticks_width, text_width(t.label, tick_size));
  for (const std::string& s : notes) widest = std::max(widest, text_width(s, tick_size));
  left_ = std::max(padding + (ylabel.empty() ? 0 : 22) + ticks_width + 7, padding + (widest - field_width) / 2);
  top_ = padding + (title.empty() ? 4 : 28);
  width_ = std::max(right() + (legend_width > 0 ? 14 + legend_width : 4), left_ + (field_width + widest) / 2) + padding;
  height_ = bottom() + 8 + tick_size + (xlabel.empty() ? 0 : 22) + static_cast<double>(notes.size()) * note_step +
            padding - 4;

  const double middle = left_ + field_width / 2;
  if (!title.empty())
    drawing.text(middle, padding + title_size * 0.8, title, {title_size, Anchor::middle, look().ink, true});
  for (const Tick& t : y.ticks) {
    drawing.line(left_, at_y(t.value), right(), at_y(t.value), look().grid);
    drawing.text(left_ - 7, at_y(t.value) + tick_size * 0.36, t.label, {tick_size, Anchor::end, look().soft_ink});
  }
  for (const Tick& t : x.ticks) {
    drawing.line(at_x(t.value), top_, at_x(t.value), bottom(), look().grid);
    drawing.text(at_x(t.value), bottom() + 8 + tick_size * 0.8, t.label, {tick_size, Anchor::middle, look().soft_ink});
  }
  double note_y = height_ - padding - static_cast<double>(notes.size()) * note_step;
  if (!xlabel.empty()) drawing.text(middle, note_y, xlabel, {label_size, Anchor::middle, look().ink, false, 0, "axis"});
  if (!ylabel.empty())
    drawing.text(padding + label_size * 0.8, top_ + field_height / 2, ylabel,
                 {label_size, Anchor::middle, look().ink, false, -90, "axis"});
  for (const std::string& s : notes)
    drawing.text(middle, note_y += note_step, s, {tick_size, Anchor::middle, look().soft_ink});
}

Figure Frame::end() {
  drawing.line(left_, bottom(), right(), bottom(), look().soft_ink);
  drawing.line(left_, top_, left_, bottom(), look().soft_ink);
  double legend_y = top_ + 8;
  for (const LegendEntry& e : legend) {
    drawing.add(Line{right() + 14, legend_y, right() + 38, legend_y, e.color, 2.5, 1, e.dashed});
    drawing.text(right() + 46, legend_y + tick_size * 0.36, e.label,
                 {tick_size, Anchor::start, look().ink, false, 0, "legend"});
    legend_y += legend_step;
  }
  return {width_, height_, theme, std::move(drawing)};
}

}  // namespace fit::plot
