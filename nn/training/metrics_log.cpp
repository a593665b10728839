#include "fit/nn/training/metrics_log.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>

#include "io/atomic_file.hpp"
#include "io/json.hpp"
#include "io/size_signal.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

// Writes null for numbers that are not finite, and integers without a decimal point.
std::string line_of(const MetricsLog::Row& row) {
  io::Json line = io::Json::object();
  for (const auto& [name, value] : row) {
    const bool whole = std::abs(value) < 0x1p53 && std::trunc(value) == value;
    line.items().push_back({name, whole ? io::Json(static_cast<std::int64_t>(value)) : io::Json(value)});
  }
  try {
    return line.dump() + '\n';
  } catch (const Error&) {
    check::fail("MetricsLog", "a name in the row ", line.ascii(), " is not valid UTF-8 where \\ufffd is");
  }
}

// The rows up to a step. Skips lines that are not rows, such as the last line of a killed program.
std::vector<MetricsLog::Row> rows_to(std::int64_t last_step, const std::string& path) {
  std::vector<MetricsLog::Row> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::optional<io::Json> json = io::json_in(line);
    if (!json || !json->is_object()) continue;
    MetricsLog::Row row;
    for (const auto& [name, value] : json->items()) row[name] = value.is_number() ? value.number() : std::nan("");
    if (const auto step = row.find("step"); step != row.end() && step->second <= static_cast<double>(last_step))
      rows.push_back(row);
  }
  return rows;
}

}  // namespace

MetricsLog::MetricsLog(const std::string& path, std::int64_t keep_to) : path_(path) {
  if (path.empty()) return;
  if (keep_to >= 0) rows_ = rows_to(keep_to, path);
  write();
}

void MetricsLog::write() {
  std::string all;
  for (const Row& row : rows_) all += line_of(row);
  io::write_file("MetricsLog", path_, all);
  // Rows are appended: each is on its way to the disk at once, and a row that is cut by a full disk or a killed program
  // is skipped when the file is read.
  file_ = std::make_shared<std::ofstream>(path_, std::ios::app);
}

void MetricsLog::replace_last(const Row& row) {
  if (rows_.empty()) check::fail("MetricsLog", "there is no last row to replace");
  rows_.back() = row;
  if (file_) write();
}

void MetricsLog::add(const Row& row) {
  const std::string line = line_of(row);
  rows_.push_back(row);
  if (!file_) return;
  const io::NoSizeSignal no_signal;
  if (*file_ << line << std::flush) return;
  std::cerr << "[MetricsLog] " << path_ << " can't be written any more: " << std::strerror(errno) << std::endl;
  file_.reset();
}

}  // namespace fit
