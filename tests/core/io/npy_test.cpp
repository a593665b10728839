#include "fit/io/npy.hpp"

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// .npy files: what is written, byte for byte; what is read; and that nothing damaged is taken for an array.
namespace fit::test::npy_test {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

// A file of a format with this header (length as it is, unless given) and these data.
std::string npy(const std::string& header, const std::string& data, int major = 1, std::int64_t length = -1) {
  if (length < 0) length = static_cast<std::int64_t>(header.size());
  std::string s = "\x93NUMPY";
  s += static_cast<char>(major);
  s += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) s += static_cast<char>(length >> (8 * i) & 0xFF);
  return s + header + data;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string bytes_of(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("npy: what is saved is read back, bit by bit", "[npy]") {
  const Directory d;
  const Tensor odd = tensor({{-0., 1e-45, NAN}, {INFINITY, -2.5, 3.}});
  for (const Tensor& x : {odd, odd.to(float64), arange(7), tensor({{true}, {false}}), tensor(2.5), zeros({0, 3}),
                          zeros({2, 1, 3, 1, 2, 1, 1, 2}, int64), odd.reshape({6}), odd[{range(), 1}]}) {
    INFO(x.dtype() << x.shape());
    save_npy(d.file("x.npy"), x);
    CHECK(same_bits(load_npy(d.file("x.npy")), x));
  }
}

TEST_CASE("npy: the bytes are NumPy's", "[npy]") {
  const Directory d;
  save_npy(d.file("x.npy"), tensor({{1., 2., 3.}, {4., 5., 6.}}));
  // numpy.save(f, numpy.array([[1, 2, 3], [4, 5, 6]], 'f4'))
  std::string expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.resize(117, ' ');
  CHECK(get(d.file("x.npy")) == npy(expected + "\n", bytes_of<float>({1, 2, 3, 4, 5, 6})));
  CHECK(get(d.file("x.npy")).size() == 128 + 24);
  save_npy(d.file("x.npy"), tensor(true));
  CHECK_THAT(get(d.file("x.npy")), Contains("{'descr': '|b1', 'fortran_order': False, 'shape': (), }  "));
  save_npy(d.file("x.npy"), arange(2));
  CHECK_THAT(get(d.file("x.npy")), Contains("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }  "));
}

TEST_CASE("npy: types and layouts that are read", "[npy]") {
  const Directory d;
  const auto read = [&](const std::string& bytes) {
    put(d.file("x.npy"), bytes);
    return load_npy(d.file("x.npy"));
  };
  for (const int format : {1, 2, 3}) {
    const Tensor x = read(npy(header("<f8", "(2,)"), bytes_of<double>({1.5, -2}), format));
    CHECK(same_bits(x, tensor({1.5, -2.}, float64)));
  }
  CHECK(same_bits(read(npy(header("<i4", "(3,)"), bytes_of<std::int32_t>({1, -2, INT32_MIN}))),
                  tensor({1, -2, INT32_MIN})));
  CHECK(same_bits(read(npy(header("|u1", "(2,)"), bytes_of<std::uint8_t>({0, 255}))), tensor({0, 255})));
  CHECK(same_bits(read(npy(header("<i2", "(2,)"), bytes_of<std::int16_t>({1, -2}))), tensor({1, -2})));
  CHECK(same_bits(read(npy(header("<u2", "(2,)"), bytes_of<std::uint16_t>({0, 65535}))), tensor({0, 65535})));
  CHECK(same_bits(read(npy(header("<u4", "(1,)"), bytes_of<std::uint32_t>({UINT32_MAX}))),
                  tensor({std::int64_t{UINT32_MAX}})));
  CHECK(same_bits(read(npy(header("<f2", "(2,)"), bytes_of<std::uint16_t>({0x3C00, 0xC000}))), tensor({1., -2.})));
  CHECK(same_bits(read(npy(header("|i1", "(2,)"), "\1\xFF")), tensor({1, -1})));
  CHECK(same_bits(read(npy(header("|b1", "(2, 1)"), std::string("\1\0", 2))), tensor({{true}, {false}})));
  CHECK(same_bits(read(npy(header("<i8", "(2, 3)", "True"), bytes_of<std::int64_t>({0, 3, 1, 4, 2, 5}))),
                  arange(6).reshape({2, 3})));
  CHECK(same_bits(read(npy(header("<i8", "(2, 1, 2)", "True"), bytes_of<std::int64_t>({0, 2, 1, 3}))),
                  arange(4).reshape({2, 1, 2})));
  CHECK(read(npy(header("<f4", "(0, 5)"), "")).shape() == Shape{0, 5});
  // A header of the most bytes.
  std::string longest = header("<f4", "(1,)");
  longest.resize(1 << 20, ' ');
  CHECK(read(npy(longest, bytes_of<float>({3}), 2)).item() == 3);
  // As other writers have it: double quotes, no last comma, another order, spaces.
  CHECK(read(npy("{\"shape\":(1,2),  \"descr\" : \"<f4\",\"fortran_order\":False}", bytes_of<float>({1, 2}))).shape() ==
        Shape{1, 2});
}

TEST_CASE("npy: damaged files are errors that say what was expected and found", "[npy]") {
  const Directory d;
  const std::string one = bytes_of<float>({1}), good = header("<f4", "(1,)");
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {"", "expected at least 10 bytes of an .npy file, found 0"},
      {std::string("\x93NUMPY\1\0", 8), "found 8"},
      {"QK\3\4" + npy(good, one), "it is no .npy file"},
      {npy(good, one, 4), "expected format 1.0, 2.0 or 3.0, found 4.0"},
      {npy(good, one, 0), "found 0.0"},
      {npy(good, one, 1, 60000), "the header is said to have 60000 bytes"},
      {npy(good, one, 2, 0xFFFFFFFF), "the header is said to have 4294967295 bytes"},
      {npy(good, one, 1, 0), "expected '{' at byte 0 of the header, found its end"},
      {npy(good, one, 1, 20), "in quotes"},
      {npy(good, ""), "expected 1 elements of 4 bytes for shape [1] of type <f4, found 0 bytes"},
      {npy(good, one.substr(1)), "found 3 bytes after the header"},
      {npy(good, one + "x"), "found 5 bytes after the header"},
      {npy("", one), "expected '{'"},
      {npy("", ""), "expected '{'"},
      {npy("[]", one), "expected '{' at byte 0 of the header, found '[]'"},
      {npy("{}", one), "lacks the key 'descr'"},
      {npy("{'descr': '<f4', 'fortran_order': False}", one), "lacks the key 'shape'"},
      {npy("{'descr': '<f4', 'shape': (1,)}", one), "lacks the key 'fortran_order'"},
      {npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", one), "'descr' stands twice"},
      {npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", one), "unknown key 'more'"},
      {npy(good + "x", one), "expected the end of the header"},
      {npy("{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", one), "expected '}'"},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", one), "structured types can't be read"},
      {npy("{'descr: <f4, }", one), "in quotes"},
      {npy(header(">f4", "(1,)"), one), "found '>f4'"},
      {npy(header("<c8", "(1,)"), one),
       "<i4, <i2, |i1, |u1, <u2, <u4, <f2, found '<c8': convert the array by astype()"},
      {npy(header("|O", "(1,)"), one), "found '|O'"},
      {npy(header("", "(1,)"), one), "found ''"},
      {npy(header("\x1b[2J\xff", "(1,)"), one), "found '?[2J?'"},
      {npy(header("|b1", "(4,)"), std::string("\0\1\2\1", 4)), "element 2 of a boolean tensor, is 2: expected 0 or 1"},
      {npy(header("<f4", "(1,)", "false"), one), "expected True or False"},
      {npy(header("<f4", "(1,)", "0"), one), "expected True or False"},
      {npy(header("<f4", "(-1,)"), one), "expected a size"},
      {npy(header("<f4", "(1)"), one), "expected a tuple"},
      {npy(header("<f4", "[1]"), one), "expected '('"},
      {npy(header("<f4", "(1.0,)"), one), "expected ',' or ')'"},
      {npy(header("<f4", "(1 1)"), one), "expected ',' or ')'"},
      {npy(header("<f4", "(,)"), one), "expected a size"},
      {npy(header("<f4", "(1,,)"), one), "expected a size"},
      {npy(header("<f4", "(1,"), one), "expected"},
      {npy(header("<f4", "(99999999999999999999,)"), one), "does not fit 64 bits"},
      {npy(header("<f4", "(9223372036854775808,)"), one), "does not fit 64 bits"},
      {npy(header("<f4", "(9223372036854775807,)"), one), "more elements than can be counted"},
      {npy(header("<f4", "(4294967296, 4294967296)"), one), "more elements than can be counted"},
      {npy(header("<f8", "(2305843009213693952,)"), one), "expected 2305843009213693952 elements"},
      {npy(header("<f4", "(2305843009213693952, 0)"), one), "expected 0 elements"},
      {npy(header("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), one), "9 axes"},
      {npy(header("<f4", "(1000000,)"), one), "expected 1000000 elements of 4 bytes"},
  };
  for (const auto& [bytes, message] : damaged) {
    put(d.file("x.npy"), bytes);
    INFO(message);
    try {
      load_npy(d.file("x.npy"));
      FAIL_CHECK("nothing was thrown");
    } catch (const FileError& e) {
      CHECK_THAT(e.what(), Contains("[load_npy] " + d.file("x.npy")) && Contains(message));
    }
  }
}

TEST_CASE("npy: no cut and no flipped bit of the header crashes", "[npy]") {
  const Directory d;
  const std::string good = npy(header("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6}));
  for (std::size_t n = 0; n < good.size(); ++n) {
    put(d.file("x.npy"), good.substr(0, n));
    CHECK_THROWS_AS(load_npy(d.file("x.npy")), FileError);
  }
  for (std::size_t i = 0; i < good.size() - 24; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      put(d.file("x.npy"), bad);
      Tensor x;
      try {
        x = load_npy(d.file("x.npy"));
      } catch (const FileError&) {
        continue;
      }
      CHECK(x.numel() == 6);  // <i4 for <f4, (2, 3) in another order
    }
}

TEST_CASE("npy: files that can't be opened", "[npy]") {
  const Directory d;
  CHECK_THROWS_WITH(load_npy(d.file("none.npy")), Contains("there is no such file"));
  CHECK_THROWS_WITH(load_npy(d.path.string()), Contains("not a regular file"));
  CHECK_THROWS_WITH(save_npy(d.file("no/where.npy"), zeros({1})), Contains("[save_npy]") && Contains("No such file"));
  CHECK_THROWS_AS(load_npy(d.file("none.npy")), FileError);
  CHECK_THROWS_AS(load_npy(d.file("none.npy")), Error);  // whoever catches Error catches all that fit throws
  CHECK_THROWS_AS(save_npy(d.file("x.npy"), Tensor()), Error);
  CHECK_THROWS_WITH(save_npy(d.file("x.npy"), arange(3).to(int8)), Contains("[save_npy] the tensor is int8"));
}

TEST_CASE("npy: a failed write leaves the old file and nothing else", "[npy]") {
  const Directory d;
  // A directory in the file's place.
  fs::create_directory(d.file("x.npy"));
  put(d.file("x.npy") + "/inside", "old");
  CHECK_THROWS_WITH(save_npy(d.file("x.npy"), zeros({3})), Contains("x.npy can't be written: Is a directory"));
  CHECK(get(d.file("x.npy") + "/inside") == "old");
  CHECK(std::distance(fs::directory_iterator(d.path), fs::directory_iterator()) == 1);
  fs::remove_all(d.file("x.npy"));
  // A success leaves the file alone, too, and replaces the old one.
  put(d.file("x.npy"), "old");
  save_npy(d.file("x.npy"), arange(3));
  CHECK(same_bits(load_npy(d.file("x.npy")), arange(3)));
  CHECK(std::distance(fs::directory_iterator(d.path), fs::directory_iterator()) == 1);
}

}  // namespace fit::test::npy_test
