#include "fit/nn/data/readers.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/affixes.hpp"
#include "base/from_chars.hpp"
#include "io/input_file.hpp"
#include "io/kind.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::data {

std::string read_text(const std::string& path) { return io::InputFile("read_text", path).rest(); }

namespace {

// Where a text begins behind its byte order mark.
std::size_t after_bom(const std::string& text) { return starts_with(text, "\xEF\xBB\xBF") ? 3 : 0; }

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = io::InputFile("read_lines", path).rest();
  std::vector<std::string> lines;
  for (std::size_t at = after_bom(text); at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

// ---- CSV ----------------------------------------------------------------------------------------------------------

namespace {

class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter)
      : file_("read_csv", path), text_(file_.rest()), delimiter_(delimiter) {
    if (delimiter == '"' || delimiter == '\n' || delimiter == '\r')
      check::fail("read_csv", "the delimiter is a quote or the end of a line: it must be another character");
    if (text_.find('\0') != std::string::npos) {
      io::refuse_others(file_, io::FileKind::text);
      file_.fail("it is no text: it holds a byte of 0");
    }
    at_ = after_bom(text_);
  }

  /// Reads the next row; false at the end. Skips empty lines.
  bool row(std::vector<std::string>& fields, std::int64_t& line) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) line_ += text_[at_++] == '\n';
    if (at_ == text_.size()) return false;
    line = line_;
    fields.clear();
    do {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
    } while (take(delimiter_));
    const bool returned = take('\r');
    if (at_ < text_.size() && !take('\n')) {
      if (returned) file_.fail("line ", line_, ": a carriage return without a line feed: lines end in LF or CR LF");
      file_.fail("line ", line_, ": expected '", delimiter_, "' or the line's end after a quoted field, found '",
                 io::shown(text_.substr(at_, 1)), "'");
    }
    ++line_;
    return true;
  }
  const io::InputFile& file() const { return file_; }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string plain() {
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' && text_[at_] != '\r') {
      if (text_[at_] == '"') file_.fail("line ", line_, ": a quote within a field that doesn't begin with one");
      ++at_;
    }
    return text_.substr(first, at_ - first);
  }
  std::string quoted() {
    const std::int64_t first = line_;
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] != '"') return field;
      }
      line_ += text_[at_] == '\n';
      field += text_[at_];
    }
    file_.fail("line ", first, ": a quote is opened and never closed");
  }

  io::InputFile file_;
  std::string text_;
  char delimiter_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
};

// The largest number of a type that a table is read as.
double largest(DType dtype) {
  return dtype == float32 || dtype == bfloat16 ? double{std::numeric_limits<float>::max()} : HUGE_VAL;
}

// How to read a field that often stands for no value.
template <class T>
std::string missing_advice(const std::string& field) {
  if (!std::is_floating_point_v<T> || (field != "" && field != "NA" && field != "N/A" && field != "null")) return {};
  return "; CsvOptions().missing({\"" + field + "\"}) reads it as NaN";
}

template <class T>
T number(const Csv& csv, std::size_t row, std::size_t column, DType dtype) {
  const std::string& field = csv.rows[row][column];
  if constexpr (std::is_floating_point_v<T>)
    if (std::find(csv.missing.begin(), csv.missing.end(), field) != csv.missing.end()) return T(NAN);
  const std::size_t end = field.find_last_not_of(' ') + 1, first = std::min(field.find_first_not_of(' '), end);
  const bool plus = first < end && field[first] == '+';
  const char* const from = field.data() + first + plus;  // from_chars() rejects a plus sign
  T value = 0;
  const auto [stop, error] = fit::from_chars(from, field.data() + end, value);
  const auto expected = [&](const std::string& what) {
    const std::string name = csv.columns.empty() ? std::to_string(column) : csv.columns[column];
    throw FileError("[read_csv] " + csv.path + ": line " + std::to_string(csv.lines[row]) + ", column " + name +
                    ": expected a " + what + ", found '" + io::shown(field) + "'" + missing_advice<T>(field));
  };
  if (error != std::errc() || stop != field.data() + end || (plus && *from == '-'))
    expected(std::is_integral_v<T> ? "whole number" : "number");
  if constexpr (std::is_floating_point_v<T>)
    if (std::isfinite(value) && std::abs(value) > largest(dtype))
      expected(std::string("number that ") + name_of(dtype) + " holds (take float64, or name it in missing)");
  return value;
}

}  // namespace

Csv read_csv(const std::string& path, const CsvOptions& options) {
  CsvReader in(path, options.delimiter());
  Csv csv;
  csv.path = path;
  csv.missing = options.missing();
  std::vector<std::string> fields;
  std::int64_t line = 0;
  if (options.header() && !in.row(csv.columns, line)) in.file().fail("expected a first row with names, found none");
  while (in.row(fields, line)) {
    const std::size_t expected = options.header()   ? csv.columns.size()
                                 : csv.rows.empty() ? fields.size()
                                                    : csv.rows[0].size();
    if (fields.size() != expected)
      in.file().fail("line ", line, ": expected ", expected, " fields, found ", fields.size());
    csv.rows.push_back(fields);
    csv.lines.push_back(line);
  }
  return csv;
}

std::int64_t Csv::column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    std::string all;
    for (const std::string& c : columns) all += (all.empty() ? "" : ", ") + c;
    check::fail("Csv", "there is no column '", name, "': there are ", all.empty() ? "no names" : all);
  }
  if (std::find(found + 1, columns.end(), name) != columns.end())
    check::fail("Csv", "two columns are called '", name, "': give them different names in ", path);
  return found - columns.begin();
}

Tensor Csv::numbers(const std::vector<std::string>& names, DType dtype) const {
  if (dtype == int8) check::fail("Csv", "dtype is int8, which holds weights and is not computed with: take int64");
  std::vector<std::size_t> which;
  which.reserve(names.size());
  for (const std::string& name : names) which.push_back(static_cast<std::size_t>(column(name)));
  if (names.empty())
    for (std::size_t i = 0; i < (rows.empty() ? columns.size() : rows[0].size()); ++i) which.push_back(i);
  const Shape shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(which.size())};
  const auto read = [&](auto zero) {
    using T = decltype(zero);
    Tensor y = Tensor::empty(shape, dtype_of<T>());
    T* to = y.fresh<T>();
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (const std::size_t column : which) *to++ = number<T>(*this, row, column, dtype);
    return y.to(dtype);
  };
  return is_floating(dtype) ? read(double{}) : read(std::int64_t{});
}

// ---- IDX ----------------------------------------------------------------------------------------------------------

namespace {

// Reads a gzipped or plain file through zlib.
class MaybeCompressed {
 public:
  explicit MaybeCompressed(const std::string& path)
      : plain_("read_idx", path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) plain_.fail("it can't be opened for reading");
  }
  /// Reads up to n bytes; fewer at the end of the file.
  std::int64_t some(void* to, std::int64_t bytes) {
    const int n = gzread(file_.get(), to, static_cast<unsigned>(bytes));
    int error = 0;
    const char* const why = gzerror(file_.get(), &error);
    if (n < 0 || error == Z_BUF_ERROR)
      plain_.fail("byte ", at_, " of the data can't be read: ", n < 0 ? why : "the file is cut off");
    at_ += n;
    return n;
  }
  const io::InputFile& file() const { return plain_; }

 private:
  io::InputFile plain_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::int64_t at_ = 0;
};

}  // namespace

Tensor read_idx(const std::string& path, DType dtype) {
  MaybeCompressed in(path);
  const auto fail = [&](const auto&... parts) { in.file().fail(parts...); };
  unsigned char magic[4] = {};
  if (in.some(magic, 4) != 4 || magic[0] != 0 || magic[1] != 0) {
    io::InputFile other("read_idx", path);
    io::refuse_others(other, io::FileKind::idx);
    fail("it is no IDX file: expected it to begin with two bytes of 0");
  }
  if (magic[2] != 8) fail("the type is ", int{magic[2]}, ": expected 8, unsigned bytes");
  if (magic[3] > Shape::max_rank) fail("it has ", int{magic[3]}, " axes: ", int{Shape::max_rank}, " are the most");
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1, largest = 1;
  for (int axis = 0; axis < magic[3]; ++axis) {
    unsigned char s[4];  // big-endian
    if (in.some(s, 4) != 4) fail("it ends within its header");
    sizes.push_back(std::int64_t{s[0]} << 24 | s[1] << 16 | s[2] << 8 | s[3]);
    // A size of 0 must not mask an overflow of the other sizes.
    if (sizes.back() > 0 && __builtin_mul_overflow(largest, sizes.back(), &largest)) largest = INT64_MAX;
    if (largest > std::int64_t{1} << 40) fail("its sizes multiply to more than 2^40");
    count *= sizes.back();
  }
  // Memory grows with the bytes read, not with the sizes in the header.
  std::vector<unsigned char> bytes;
  for (std::int64_t had = 0, n = 1; n > 0 && had <= count; had += n) {
    const std::int64_t piece = std::min(count + 1 - had, std::int64_t{1} << 20);
    bytes.resize(static_cast<std::size_t>(had + piece));
    n = in.some(bytes.data() + had, piece);
    bytes.resize(static_cast<std::size_t>(had + n));
  }
  if (static_cast<std::int64_t>(bytes.size()) != count)
    fail("expected ", count, " bytes for shape ", Shape(sizes), ", found ",
         static_cast<std::int64_t>(bytes.size()) > count ? "more" : std::to_string(bytes.size()));
  Tensor y = Tensor::empty(Shape(sizes), dtype);
  dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::transform(bytes.begin(), bytes.end(), y.fresh<T>(), [](unsigned char b) { return static_cast<T>(b); });
  });
  return y;
}

}  // namespace fit::data
