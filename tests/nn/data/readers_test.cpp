#include "fit/nn/data/readers.hpp"

#include <zlib.h>

#include "fit/io/npy.hpp"
#include "fit/io/npz.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// Readers of text, CSV and IDX files.
namespace fit::test::readers_test {
namespace {

using Catch::Matchers::Contains;
using Rows = std::vector<std::vector<std::string>>;

std::string idx(int type, const std::vector<std::uint32_t>& sizes, const std::string& data) {
  std::string s{0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const std::uint32_t n : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) s += static_cast<char>(n >> shift & 0xFF);
  return s + data;
}

std::string compressed(const std::string& path, const std::string& bytes) {
  const gzFile f = gzopen(path.c_str(), "wb");
  REQUIRE(f);
  gzwrite(f, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(f);
  return path;
}

}  // namespace

TEST_CASE("readers: text", "[readers]") {
  const Directory d;
  put(d.file("t"), std::string("a\r\n\nb\0c\nend", 11));
  CHECK(data::read_text(d.file("t")).size() == 11);
  CHECK(data::read_lines(d.file("t")) == std::vector<std::string>{"a", "", std::string("b\0c", 3), "end"});
  CHECK(data::read_lines(put(d.file("t"), "")).empty());
  CHECK(data::read_lines(put(d.file("t"),
                             "\xEF\xBB\xBF"
                             "a\n")) == std::vector<std::string>{"a"});
  CHECK_THROWS_WITH(data::read_text(d.file("none")), Contains(d.file("none") + ": there is no such file"));
}

TEST_CASE("readers: CSV", "[readers]") {
  const Directory d;
  const auto read = [&](const std::string& text, const data::CsvOptions& options = {}) {
    return data::read_csv(put(d.file("c"), text), options);
  };
  const data::Csv csv =
      read("\xEF\xBB\xBFname,x,y\r\n\"a \"\"b\"\", c\",1.5,-2\r\n\n\"two\nlines\",+3e2, 4 \r\nlast,,7");
  CHECK(csv.columns == std::vector<std::string>{"name", "x", "y"});
  CHECK(csv.rows == Rows{{"a \"b\", c", "1.5", "-2"}, {"two\nlines", "+3e2", " 4 "}, {"last", "", "7"}});
  CHECK(csv.lines == std::vector<std::int64_t>{2, 4, 6});
  CHECK(same_bits(csv.numbers({"y"}), tensor({{-2.}, {4.}, {7.}})));
  CHECK_THROWS_AS(csv.numbers({"x"}), FileError);
  CHECK_THROWS_WITH(
      csv.numbers({"x"}),
      Contains("line 6, column x: expected a number, found ''; CsvOptions().missing({\"\"}) reads it as NaN"));
  CHECK_THROWS_WITH(csv.numbers(), Contains("line 2, column name"));
  CHECK_THROWS_WITH(csv.numbers({"z"}), Contains("there is no column 'z': there are name, x, y"));
  CHECK_THROWS_WITH(read("a,b\r1,2\r"), Contains("line 1: a carriage return without a line feed"));

  const data::Csv twice = read("a,b,a\n1,2,1e300\n");
  CHECK(values(twice.numbers({"b"})) == std::vector<double>{2});
  CHECK_THROWS_WITH(twice.numbers({"a"}),
                    "[Csv] two columns are called 'a': give them different names in " + d.file("c"));
  CHECK(values(twice.numbers({}, float64))[2] == 1e300);
  CHECK_THROWS_WITH(twice.numbers(),
                    Contains("line 2, column a: expected a number that float32 holds (take float64, or "
                             "name it in missing), found '1e300'"));
  CHECK(values(read("a\n-inf\n3.4e38\n").numbers())[0] == -INFINITY);

  const auto plain = data::CsvOptions().header(false).delimiter(';');
  const data::Csv numbers = read("1;2.25\n3;nan\n", plain);
  CHECK(values(numbers.numbers({}, float64))[1] == 2.25);
  CHECK(numbers.numbers({}, float64).dtype() == float64);
  CHECK(std::isnan(values(numbers.numbers())[3]));
  CHECK(read("a,b\n").numbers().shape() == Shape{0, 2});
  CHECK_THROWS_WITH(read("1;2x", plain).numbers(), Contains("line 1, column 1: expected a number, found '2x'"));
  for (const std::string wrong : {"+-2", "-+2", "++2", "+"})
    CHECK_THROWS_WITH(read("1;" + wrong, plain).numbers(), Contains("column 1: expected a number, found '" + wrong));
  CHECK_THROWS_WITH(read("1;   ", plain).numbers(), Contains("line 1, column 1: expected a number, found '   '"));
  CHECK(same_bits(read("9007199254740993; -4", plain).numbers({}, int64), tensor({{9007199254740993, -4}})));
  CHECK_THROWS_WITH(read("1;2.5", plain).numbers({}, int64),
                    Contains("column 1: expected a whole number, found '2.5'"));
  CHECK_THROWS_WITH(read("nan;2", plain).numbers({}, int64),
                    Contains("column 0: expected a whole number, found 'nan'"));

  CHECK_THROWS_WITH(read("a,b\n1,2\n3\n"), Contains("line 3: expected 2 fields, found 1"));
  CHECK_THROWS_WITH(read("a,b\n1,2,3"), Contains("line 2: expected 2 fields, found 3"));
  CHECK_THROWS_WITH(read("a\n\"open\n\n"), Contains("line 2: a quote is opened and never closed"));
  CHECK_THROWS_WITH(read("a\n\"x\"y\n"),
                    Contains("line 2: expected ',' or the line's end after a quoted field, found 'y'"));
  CHECK_THROWS_WITH(read("a\nx\"y\n"), Contains("line 2: a quote within a field"));
  CHECK_THROWS_WITH(read(""), Contains("expected a first row with names"));
}

TEST_CASE("readers: IDX", "[readers]") {
  const Directory d;
  const std::string images = idx(8, {2, 1, 3}, "\x01\x02\x03\xFF\x10\x20");
  const Tensor expected = tensor({{{1, 2, 3}}, {{255, 16, 32}}});
  CHECK(same_bits(data::read_idx(put(d.file("i"), images)), expected));
  CHECK(same_bits(data::read_idx(d.file("i"), float32), expected.to(float32)));
  CHECK(same_bits(data::read_idx(compressed(d.file("i.gz"), images)), expected));
  // More than one piece.
  const std::string many(3'000'000, '\7');
  CHECK(
      same_bits(data::read_idx(compressed(d.file("m.gz"), idx(8, {3000, 1000}, many))), full({3000, 1000}, 7, int64)));
  CHECK(data::read_idx(put(d.file("i"), idx(8, {0, 5}, ""))).shape() == Shape{0, 5});

  const auto refused = [&](const std::string& bytes, const std::string& why) {
    CHECK_THROWS_AS(data::read_idx(put(d.file("bad"), bytes)), FileError);
    CHECK_THROWS_WITH(data::read_idx(d.file("bad")), Contains("[read_idx] " + d.file("bad")) && Contains(why));
  };
  refused("", "it is no IDX file");
  refused("PNG and so on", "it is text: the readers");
  refused(idx(13, {1}, "1234"), "the type is 13: expected 8");
  refused(idx(8, {2}, "1"), "expected 2 bytes for shape [2], found 1");
  refused(idx(8, {2}, "123"), "expected 2 bytes for shape [2], found more");
  refused(idx(8, {2, 3}, "").substr(0, 9), "ends within its header");
  refused(idx(8, {4294967295, 4294967295, 4294967295}, ""), "multiply to more than");
  refused(idx(8, {0, 4294967295, 4294967295, 4294967295}, ""), "multiply to more than");
  refused(idx(8, {1 << 30}, "1"), "expected 1073741824 bytes");
  refused(idx(8, std::vector<std::uint32_t>(9, 1), "1"), "it has 9 axes");
  CHECK(data::read_idx(put(d.file("i"), idx(8, std::vector<std::uint32_t>(8, 1), "1"))).rank() == 8);
  refused(idx(8, {1 << 20, 1 << 20}, "1"), "expected 1099511627776 bytes");  // 2^40 are the most
  refused(idx(8, {1 << 20}, std::string((1 << 20) + 1, '1')), "found more");
  const std::string gz = get(d.file("m.gz"));
  refused(gz.substr(0, gz.size() / 2), "the file is cut off");
  refused(gz.substr(0, 12), "the file is cut off");
  refused(gz.substr(0, 1000) + std::string(1000, 'x') + gz.substr(2000), "can't be read");
  // Its end counts also where it holds no elements: wherever it is cut.
  const std::string none = get(compressed(d.file("n.gz"), idx(8, {0, 5}, "")));
  CHECK(data::read_idx(d.file("n.gz")).shape() == Shape{0, 5});
  for (std::size_t size = 0; size < none.size(); ++size) {
    INFO(size << " of " << none.size() << " bytes");
    CHECK_THROWS_AS(data::read_idx(put(d.file("bad"), none.substr(0, size))), FileError);
  }
  CHECK_THROWS_WITH(data::read_idx(d.file("none")), Contains("there is no such file"));
}

TEST_CASE("readers: a delimiter that can't divide fields is refused", "[readers]") {
  const Directory d;
  put(d.file("c"), "a,b\n1,2\n");
  for (const char delimiter : {'"', '\n', '\r'})
    CHECK_THROWS_WITH(data::read_csv(d.file("c"), data::CsvOptions().delimiter(delimiter)),
                      "[read_csv] the delimiter is a quote or the end of a line: it must be another character");
}

TEST_CASE("read_csv and read_idx say what a file of tensors is") {
  const Directory d;
  save_npz(d.file("npz"), {{"x", ones({1})}});
  save_npy(d.file("npy"), ones({1}));
  save_safetensors(d.file("safetensors"), {{"x", ones({1})}});
  for (const auto& [name, text] : {std::pair("npz", "load_npz() reads it"), std::pair("npy", "load_npy() reads it"),
                                   std::pair("safetensors", "load_safetensors() reads it")}) {
    CHECK_THROWS_WITH(data::read_csv(d.file(name)), Contains(text));
    CHECK_THROWS_WITH(data::read_idx(d.file(name)), Contains(text));
  }
}

}  // namespace fit::test::readers_test
