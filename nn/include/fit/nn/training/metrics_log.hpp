#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "fit/nn/training/training_listener.hpp"

namespace fit {

/// A log of numbers by name, one JSON object per line. A number that is not finite is written as null.
class MetricsLog {
 public:
  using Row = TrainingRow;
  /// Starts a new file. With keep_to >= 0, keeps the lines of the old file up to that "step". Throws FileError if it
  /// can't be written. With an empty path, the rows stay in memory.
  explicit MetricsLog(const std::string& path = "", std::int64_t keep_to = -1);
  /// Adds a row. Throws Error for a name that is not valid UTF-8. If the disk is full, prints one message on stderr;
  /// the training goes on.
  void add(const Row& row);
  /// Replaces the last row. The file is written anew.
  void replace_last(const Row& row);
  /// All rows.
  const std::vector<Row>& rows() const { return rows_; }

 private:
  void write();
  std::shared_ptr<std::ostream> file_;  // null: in memory only
  std::string path_;
  std::vector<Row> rows_;
};

}  // namespace fit
