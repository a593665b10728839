#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "fit/trainer.hpp"
#include "io/atomic_file.hpp"
#include "load.hpp"
#include "tensor/check.hpp"

namespace fit {

// ---- MetricsLog ---------------------------------------------------------------------------------------------------

namespace {

// Null stands for what is not finite; a whole number has no point.
std::string line_of(const MetricsLog::Row& row) {
  nlohmann::json line = row;
  for (const auto& [name, value] : row)
    if (std::abs(value) < 0x1p53 && std::trunc(value) == value) line[name] = static_cast<std::int64_t>(value);
  return line.dump() + '\n';
}

// The rows up to a step. Lines that are no rows (the last one of a program that was killed) are left out.
std::vector<MetricsLog::Row> rows_to(std::int64_t last_step, const std::string& path) {
  std::vector<MetricsLog::Row> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    MetricsLog::Row row;
    for (const auto& [name, value] : json.items()) row[name] = value.is_number() ? value.get<double>() : std::nan("");
    if (const auto step = row.find("step"); step != row.end() && step->second <= static_cast<double>(last_step))
      rows.push_back(row);
  }
  return rows;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, std::int64_t keep_to) : path_(path) {
  if (path.empty()) return;
  if (keep_to >= 0) rows_ = rows_to(keep_to, path);
  std::string old;
  for (const Row& row : rows_) old += line_of(row);
  io::AtomicFile kept("MetricsLog", path);  // a program that is killed here must not take the old lines along
  kept.write(old.data(), old.size());
  kept.commit();
  file_ = std::make_shared<std::ofstream>(path, std::ios::app);
}

void MetricsLog::add(const Row& row) {
  rows_.push_back(row);
  if (!file_) return;
  if (*file_ << line_of(row) << std::flush) return;
  std::cerr << "[MetricsLog] " << path_ << " can't be written any more: " << std::strerror(errno) << std::endl;
  file_.reset();
}

// ---- EarlyStopping ------------------------------------------------------------------------------------------------

bool EarlyStopping::update(double value) {
  if (value < best_ - min_delta_) {
    best_ = value;
    since_best_ = 0;
    return true;
  }
  ++since_best_;
  return false;
}

std::vector<std::pair<std::string, Tensor>> EarlyStopping::state_dict() const {
  return {{"best", full({}, best_, float64)}, {"since_best", full({}, since_best_, int64)}};
}

void EarlyStopping::load_state_dict(const std::vector<std::pair<std::string, Tensor>>& state) {
  const auto mine = state_dict();
  nn::load_values("load_state_dict", "EarlyStopping", mine, state);
  if (std::isnan(mine[0].second.item()) || mine[1].second.item<std::int64_t>() < 0)
    check::fail("load_state_dict", "the state of EarlyStopping has best ", mine[0].second.item(), ", since_best ",
                mine[1].second.item<std::int64_t>(), ": a number, and a count; nothing was loaded");
  best_ = mine[0].second.item();
  since_best_ = mine[1].second.item<std::int64_t>();
}

// ---- InterruptGuard -----------------------------------------------------------------------------------------------

namespace {

volatile std::sig_atomic_t interrupt_noted = 0;
constexpr int watched[] = {SIGINT, SIGTERM};

// As nohup or a shell's background has it: that is to stay so.
bool ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupt_noted = 0;
  struct sigaction note {};
  note.sa_handler = [](int) {
    interrupt_noted = 1;
    for (const int signal : watched)  // the second one ends the program
      if (!ignored(signal)) std::signal(signal, SIG_DFL);
  };
  note.sa_flags = SA_RESTART;
  sigemptyset(&note.sa_mask);
  for (int i = 0; i < 2; ++i) {
    sigaction(watched[i], nullptr, &before_[i]);
    if (!ignored(watched[i])) sigaction(watched[i], &note, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (int i = 0; i < 2; ++i) sigaction(watched[i], &before_[i], nullptr);
}

bool InterruptGuard::interrupted() { return interrupt_noted != 0; }

}  // namespace fit
