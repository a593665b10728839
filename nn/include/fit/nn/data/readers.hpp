#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/tensor/tensor.hpp"

/// Readers for data files. All throw FileError with the file, the position, the expected and the found content.
namespace fit::data {

/// The full content of a file.
std::string read_text(const std::string& path);
/// The lines of a file, without the line ends ("\n" or "\r\n").
std::vector<std::string> read_lines(const std::string& path);

/// The options of read_csv().
struct CsvOptions {
  FIT_OPTION(bool, header) = true;    ///< The first row names the columns.
  FIT_OPTION(char, delimiter) = ',';  ///< The character between two fields.
  /// Fields that stand for no value, such as {"", "NA"}: numbers() makes NaN of them.
  FIT_OPTION(std::vector<std::string>, missing);
};

/// A table of text.
struct Csv {
  std::vector<std::string> columns;            ///< names; empty without a header
  std::vector<std::vector<std::string>> rows;  ///< all of the same length
  std::vector<std::int64_t> lines;             ///< the line in the file at which each row begins, from 1
  std::string path;
  std::vector<std::string> missing;  ///< CsvOptions::missing()

  /// The index of a column. If there is none, throws Error with the names of all columns. Throws Error if there are
  /// two.
  std::int64_t column(const std::string& name) const;
  /// The given columns, or all, as [rows, columns]. Throws FileError, with line and column, for a field that is not a
  /// number, or not an integer for an integer type, which has no NaN for a missing value. So it does for a finite
  /// number that is too large for the type.
  Tensor numbers(const std::vector<std::string>& names = {}, DType dtype = float32) const;
};

/// Reads CSV (RFC 4180). Fields may be quoted; then "" is a quote, and line ends are part of the field. Empty lines are
/// skipped.
Csv read_csv(const std::string& path, const CsvOptions& options = {});

/// Reads MNIST's format (IDX), compressed (.gz) or not: an array of unsigned bytes with its shape. Converts the values
/// 0 … 255 to dtype, such as float32 for images (the caller divides by 255) or int64 for labels.
Tensor read_idx(const std::string& path, DType dtype = int64);

}  // namespace fit::data
