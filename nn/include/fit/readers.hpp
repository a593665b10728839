#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/option.hpp"
#include "fit/tensor.hpp"

/// Readers for files of data. All throw FileError, with the file, the place, what was expected and what was found.
namespace fit::data {

/// A whole file.
std::string read_text(const std::string& path);
/// Its lines, without their ends ("\n" or "\r\n").
std::vector<std::string> read_lines(const std::string& path);

/// What a file of read_csv() looks like.
struct CsvOptions {
  FIT_OPTION(bool, header) = true;    ///< The first row names the columns.
  FIT_OPTION(char, delimiter) = ',';  ///< The character between two fields.
};

/// A table of text.
struct Csv {
  std::vector<std::string> columns;            ///< names; empty without a header
  std::vector<std::vector<std::string>> rows;  ///< all of one length
  std::vector<std::int64_t> lines;             ///< where in the file each row begins, from 1
  std::string path;

  /// A column's place. Throws Error, which lists the columns, if there is no such.
  std::int64_t column(const std::string& name) const;
  /// [rows, columns]: the columns given, or all. Throws FileError, with line and column, for what is no number, or no
  /// whole one where the type asks for such.
  Tensor numbers(const std::vector<std::string>& names = {}, DType dtype = float32) const;
};

/// CSV as RFC 4180 has it: fields may be in quotes, in which "" is a quote and line ends are part of the field. Empty
/// lines are skipped.
Csv read_csv(const std::string& path, const CsvOptions& options = {});

/// MNIST's format (IDX): unsigned bytes, in an array whose shape the file tells. Compressed (.gz) or not. Values 0 …
/// 255 in the type asked for: float32 for images (/ 255 is up to the caller), int64 for labels.
Tensor read_idx(const std::string& path, DType dtype = int64);

}  // namespace fit::data
