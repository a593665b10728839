#include "fit/io/safetensors.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// .safetensors files: what is written, byte for byte; what is read; and that nothing damaged or hostile is accepted.
namespace fit::test::safetensors_test {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

std::string little_endian(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i) & 0xFF);
  return s;
}

// A file with this header (its length as it is, unless given) and these data.
std::string file_of(const std::string& header, const std::string& data, std::uint64_t length = 0) {
  return little_endian(length ? length : header.size(), 8) + header + data;
}

// The header of one tensor "a".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

Tensor only(const std::string& path) {
  const SafeTensors all = load_safetensors(path);
  REQUIRE(all.tensors.size() == 1);
  return all.tensors[0].second;
}

}  // namespace

TEST_CASE("safetensors: what is saved is read back, bit by bit", "[safetensors]") {
  const Directory d;
  const Tensor odd = tensor({{-0., 1e-45, NAN}, {INFINITY, -2.5, 3.}});
  const StateDict all = {
      {"w_q.weight", odd.to(float64)}, {"ids", arange(7)},         {"größe", odd},
      {"scalar", tensor(2.5)},         {"nothing", zeros({0, 3})}, {"mask", tensor({{true}, {false}, {true}})}};
  save_safetensors(d.file("x"), all, {{"note", "a \"quoted\" line\nand another"}, {"empty", ""}});
  const SafeTensors read = load_safetensors(d.file("x"));
  REQUIRE(read.tensors.size() == all.size());
  for (const auto& [name, x] : all) {
    INFO(name);
    const auto found = std::find_if(read.tensors.begin(), read.tensors.end(),
                                    [&, n = name](const auto& entry) { return entry.first == n; });
    REQUIRE(found != read.tensors.end());
    CHECK(same_bits(found->second, x));
  }
  CHECK(read.metadata.at("note") == "a \"quoted\" line\nand another");
  CHECK(read.metadata.at("empty").empty());
  CHECK(read.tensors.back().first == "mask");  // the smallest elements are last

  save_safetensors(d.file("x"), {});  // over the old one
  CHECK(load_safetensors(d.file("x")).tensors.empty());
  CHECK(load_safetensors(d.file("x")).metadata.empty());
}

TEST_CASE("safetensors: empty tensors, which all lie at one place, are given by name", "[safetensors]") {
  const Directory d;
  save_safetensors(d.file("x"), {{"c", zeros({0})}, {"a", zeros({0})}, {"b", zeros({0})}, {"d", zeros({0})}});
  std::string names;
  for (const auto& [name, x] : load_safetensors(d.file("x")).tensors) names += name;
  CHECK(names == "abcd");
}

TEST_CASE("safetensors: the bytes are the format's", "[safetensors]") {
  const Directory d;
  save_safetensors(d.file("x"), {{"b", tensor({1., 2.})}, {"a", tensor({5})}}, {{"k", "v"}});
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const float values[] = {1, 2};
  CHECK(get(d.file("x")) ==
        file_of(padded, little_endian(5, 8) + std::string(reinterpret_cast<const char*>(values), sizeof values)));
}

TEST_CASE("safetensors: other types become those that fit has", "[safetensors]") {
  const Directory d;
  const auto load = [&](const std::string& dtype, const std::string& shape, const std::string& data) {
    const std::string offsets = "[0," + std::to_string(data.size()) + "]";
    return only(put(d.file("x"), file_of(one(dtype, shape, offsets), data)));
  };
  CHECK(same_bits(load("I32", "[2]", little_endian(7, 4) + little_endian(0xFFFFFFFE, 4)), tensor({7, -2})));
  CHECK(same_bits(load("U8", "[1,2]", "\x01\xFF"), tensor({{1, 255}})));
  CHECK(same_bits(load("I16", "[2]", little_endian(7, 2) + little_endian(0xFFFE, 2)), tensor({7, -2})));
  CHECK(same_bits(load("U16", "[1]", little_endian(0xFFFE, 2)), tensor({0xFFFE})));
  CHECK(same_bits(load("U32", "[1]", little_endian(0xFFFFFFFE, 4)), tensor({std::int64_t{0xFFFFFFFE}})));
  std::string halves, brains;
  // 1, -2, the largest half, the smallest, -0, infinity; 1.5, the smallest normal half
  for (const int h : {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x8000, 0x7C00, 0x3E00, 0x0400}) halves += little_endian(h, 2);
  CHECK(same_bits(load("F16", "[8]", halves),
                  tensor(std::vector<float>{1, -2, 65504, 0x1p-24f, -0.f, INFINITY, 1.5, 0x1p-14f}, {8})));
  CHECK(std::isnan(load("F16", "[]", little_endian(0x7E00, 2)).item()));
  for (const int b : {0x3F80, 0xC040, 0x0001, 0xFF80}) brains += little_endian(b, 2);
  CHECK(same_bits(load("BF16", "[2,2]", brains), tensor(std::vector<float>{1, -3, 0x1p-133f, -INFINITY}, {2, 2})));
  // More than one piece of a conversion.
  CHECK(same_bits(load("U8", "[2500]", std::string(2500, '\3')), full({2500}, 3, int64)));
}

TEST_CASE("safetensors: a large tensor is mapped, and what is written to it stays in memory", "[safetensors]") {
  const Directory d;
  const Tensor x = randn({257, 129}), wide = randn({9000}, float64);  // more than 64 KiB each
  save_safetensors(d.file("x"), {{"x", x}, {"wide", wide}, {"half", x.to(bfloat16)}});
  const std::string bytes = get(d.file("x"));

  const std::int64_t before = memory_stats().live_bytes;
  StateDict a = load_safetensors(d.file("x"), keep_bfloat16).tensors;
  CHECK(memory_stats().live_bytes - before < 10000);
  const StateDict b = load_safetensors(d.file("x")).tensors;
  a[1].second.mul_(2);
  CHECK(same_bits(a[1].second, x * 2));
  CHECK(same_bits(b[1].second, x));
  CHECK(get(d.file("x")) == bytes);

  // Neither a new file of that name nor its end takes away what was loaded. Copies of a tensor share its elements.
  save_safetensors(d.file("x"), {{"x", zeros({257, 129})}});
  fs::remove(d.file("x"));
  const Tensor kept = reshape(b[0].second, {90, 100});
  a.clear();
  CHECK(same_bits(b[1].second, x));
  CHECK(same_bits(kept, reshape(wide, {90, 100})));
  CHECK(same_bits(b[2].second, x.to(bfloat16).to(float32)));
}

TEST_CASE("safetensors: large elements that lie at no multiple of their size are read", "[safetensors]") {
  const Directory d;
  const Tensor x = randn({20000});
  std::string data(static_cast<const char*>(x.raw()), 80000);
  std::string header = one("F32", "[20000]", "[0,80000]");
  while (header.size() % 4 != 1) header += ' ';
  put(d.file("x"), file_of(header, data));
  CHECK(same_bits(only(d.file("x")), x));
}

TEST_CASE("safetensors: a damaged file is refused, and told why", "[safetensors]") {
  const Directory d;
  struct Case {
    std::string file, message;
  };
  const std::string four(4, '\0'), good = one("F32", "[1]", "[0,4]");
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
  };
  const std::string bools = one("BOOL", "[2]", "[0,2]");
  std::string ones;
  for (int i = 0; i < 40; ++i) ones += ",1";
  const std::vector<Case> cases = {
      {"", "expected at least 8 bytes"},
      {"1234567", "found 7"},
      {file_of("{}", "", 3), "the header is said to have 3 bytes, but there are 2"},
      {file_of("{}", "", UINT64_MAX), "is said to have 18446744073709551615 bytes"},
      {file_of("{}", "", UINT64_MAX - 7), "is said to have"},
      {file_of("{}", "", 100'000'001), "is said to have 100000001 bytes"},
      {"\x93NUMPY\x01\x00 and so on", "it is an .npy file: load_npy() reads it"},
      {"name,age\nAda,36\n", "it is text: the readers of fit/nn/data/readers.hpp read text"},
      {little_endian(0, 8), "byte 8: expected the header to begin with '{'"},
      {file_of(" {}", ""), "byte 8: expected the header to begin with '{', found ' {}'"},
      {file_of("[]", ""), "begin with '{'"},
      {file_of("[1,2,3,4,5,6]", ""), "begin with '{', found '[1,2,3,4'"},
      {file_of("{}\n", ""), "byte 10: expected the header to end with '}' and spaces"},
      {file_of("{", ""), "expected the header to end with '}'"},
      {file_of("{\"a\":}", ""), "expected valid JSON, found something else at byte 6"},
      {file_of("{\"\xFF\":1}", ""), "expected valid JSON"},
      {file_of("{} {}", ""), "expected valid JSON"},
      {file_of("{\"a\":" + std::string(10000, '[') + std::string(10000, ']') + "}", ""), "nests deeper than 3"},
      {file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],)"
               R"("data_offsets":[0,1]}})",
               "x"),
       "the key 'a' stands twice"},
      {file_of(R"({"a":{"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four),
       "the key 'dtype' stands twice"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1]}})", four), "exactly dtype, shape and data_offsets"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", four), "exactly dtype"},
      {file_of(R"({"a":7})", ""), "tensor 'a': expected an object"},
      {file_of(R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four), "the name is empty"},
      {file_of(R"({"a\u0007":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four), "can't be printed"},
      {file_of("{\"" + std::string(5000, 'n') + "\":1}", ""), "has 5000 bytes: 4096 are the most"},
      {file_of(R"({"__metadata__":{"a":1}})", ""), "__metadata__ 'a' is number: expected a string"},
      {file_of(R"({"__metadata__":[]})", ""), "__metadata__ is array"},
      {file_of(one("F8_E4M3", "[1]", "[0,1]"), "x"), "dtype 'F8_E4M3' is not supported: convert it to one of F32, F64"},
      {file_of(R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", four), "dtype is number"},
      {file_of(one("F32", "[-1]", "[0,4]"), four), "shape holds -1: expected whole numbers that are not negative"},
      {file_of(one("F32", "[1.0]", "[0,4]"), four), "shape holds 1.0"},
      {file_of(one("F32", "[\"1\"]", "[0,4]"), four), "shape holds"},
      {file_of(one("F32", "[1e400]", "[0,4]"), four), "JSON can't be read"},
      {file_of(one("F32", "4", "[0,4]"), four), "shape is number: expected a list"},
      {file_of(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), four), "shape has 9 axes"},
      {file_of(one("F32", "[1" + ones + "]", "[0,4]"), four), "a list in the JSON has more than 32 values"},
      {file_of(one("F32", "[4294967296,4294967296]", "[0,0]"), ""), "do not fit 62 bits"},
      {file_of(one("F32", "[4611686018427387904]", "[0,0]"), ""), "do not fit 62 bits"},
      {file_of(one("F32", "[4294967296,4294967296,0]", "[0,0]"), ""), "do not fit 62 bits"},
      {file_of(one("F32", "[0,18446744073709551615]", "[0,0]"), ""), "do not fit 62 bits"},
      {file_of(one("F32", "[2]", "[0,4]"), four), "data_offsets hold 4 bytes, expected 8 for shape [2] of F32"},
      {file_of(one("F32", "[1]", "[2,4]"), four), "data_offsets hold 2 bytes, expected 4 for shape [1] of F32"},
      {file_of(one("F32", "[1]", "[0]"), four), "data_offsets must be a list of two"},
      {file_of(one("F32", "[1]", "[4,0]"), four), "data_offsets are 4 and 0 in data of 4 bytes"},
      {file_of(one("F32", "[1]", "[0,4]"), "123"), "is the file truncated?"},
      {file_of(one("F32", "[1]", "[18446744073709551612,0]"), four), "expected begin <= end"},
      {file_of(one("F32", "[1]", "[4,8]"), four + four), "data_offsets begin at 4, expected 0"},
      {file_of(good, four + "x"), "the tensors end at 4 of the data, the file at 5"},
      {file_of("{}", "x"), "the tensors end at 0 of the data, the file at 1"},
      {file_of(two("[0,2]", "[1,3]"), "xyz"), "tensor 'b': data_offsets begin at 1, expected 2"},  // overlap
      {file_of(two("[0,2]", "[0,2]"), "xy"), "begin at 0, expected 2"},                            // twice the same
      {file_of(two("[0,2]", "[3,5]"), "vwxyz"), "begin at 3, expected 2"},                         // a hole
      {file_of(bools, std::string("\1\2")),
       "byte " + std::to_string(8 + bools.size() + 1) + ", element 1 of a boolean tensor, is 2"},
  };
  for (const Case& c : cases) {
    INFO(c.message);
    CHECK_THROWS_AS(load_safetensors(put(d.file("bad"), c.file)), FileError);
    CHECK_THROWS_WITH(load_safetensors(d.file("bad")),
                      Contains("[load_safetensors] " + d.file("bad") + ": ") && Contains(c.message));
  }
  CHECK(only(put(d.file("good"), file_of(good + "   ", four))).item() == 0);  // spaces may follow
  CHECK_THROWS_WITH(load_safetensors(d.file("none")), Contains("there is no such file"));
  CHECK_THROWS_WITH(load_safetensors(d.path.string()), Contains("not a regular file"));
}

TEST_CASE("safetensors: every truncation and every flipped byte of the header is an error or a whole file",
          "[safetensors]") {
  const Directory d;
  save_safetensors(d.file("x"), {{"a", tensor({1., 2., 3.})}, {"b", tensor({true, false})}}, {{"k", "v"}});
  const std::string good = get(d.file("x"));
  for (std::size_t n = 0; n < good.size(); ++n)
    CHECK_THROWS_AS(load_safetensors(put(d.file("y"), good.substr(0, n))), FileError);
  const std::size_t data = good.size() - 14;
  for (std::size_t i = 0; i < data; ++i)
    for (const int flip : {1, 4, 128}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      try {
        std::int64_t elements = 0;
        for (const auto& [name, x] : load_safetensors(put(d.file("y"), bad)).tensors) elements += x.numel();
        CHECK(elements <= 14);  // another name or string, or the same bytes in another type
      } catch (const FileError&) {
      }
    }
}

TEST_CASE("safetensors: a write that fails on the way leaves the old file, and no other", "[safetensors]") {
  const Directory d;
  save_safetensors(d.file("x"), {{"a", ones({2})}});
  const std::string before = get(d.file("x"));
  const Tensor large = ones({100000});
  // A limit to the sizes of files ends the write as a full disk does.
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit low{10000, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &low);
  std::string told;
  try {
    save_safetensors(d.file("x"), {{"a", large}});
  } catch (const FileError& e) {
    told = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(told, Contains("[save_safetensors] " + d.file("x") + " can't be written: File too large"));
  CHECK(get(d.file("x")) == before);
  CHECK(std::distance(fs::directory_iterator(d.path), {}) == 1);

  // Nor does it if nobody catches the error and nothing is unwound.
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &low);
    std::set_terminate([] { _exit(3); });
    [&]() noexcept { save_safetensors(d.file("x"), {{"a", large}}); }();
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 3));
  CHECK(std::distance(fs::directory_iterator(d.path), {}) == 1);
}

TEST_CASE("safetensors: what a killed program left is written over, what a living one writes is not", "[safetensors]") {
  const Directory d;
  put(d.file("x.tmp-0"), std::string(100000, 'x'));
  save_safetensors(d.file("x"), {{"a", ones({2})}});
  CHECK(only(d.file("x")).shape() == Shape{2});
  CHECK_FALSE(fs::exists(d.file("x.tmp-0")));

  put(d.file("x.tmp-0"), "half a file");
  const int living = ::open(d.file("x.tmp-0").c_str(), O_RDONLY);
  REQUIRE(::flock(living, LOCK_EX) == 0);
  save_safetensors(d.file("x"), {{"a", ones({3})}});
  ::close(living);
  CHECK(only(d.file("x")).shape() == Shape{3});
  CHECK(get(d.file("x.tmp-0")) == "half a file");
}

TEST_CASE("safetensors: what can't be saved is refused, and the old file stays", "[safetensors]") {
  const Directory d;
  const Tensor x = ones({2});
  save_safetensors(d.file("x"), {{"a", x}});
  const std::string before = get(d.file("x"));
  const auto message = [&](const StateDict& tensors, const std::string& part) {
    CHECK_THROWS_AS(save_safetensors(d.file("x"), tensors), Error);
    CHECK_THROWS_WITH(save_safetensors(d.file("x"), tensors), Contains("[save_safetensors]") && Contains(part));
  };
  message({{"", x}}, "is empty");
  message({{"a", x}, {"a", x}}, "the name 'a' is there twice");
  message({{"__metadata__", x}}, "is that of the strings");
  message({{"a\n", x}}, "can't be printed");
  message({{"a\x7f", x}}, "can't be printed");
  message({{std::string(4097, 'n'), x}}, "is longer than 4096 bytes");
  message({{"a\xFF", x}}, "not valid UTF-8");
  message({{"a", Tensor()}}, "the tensor 'a' is undefined");
  CHECK(get(d.file("x")) == before);
  CHECK_THROWS_AS(save_safetensors(d.file("no/such/folder/x"), {{"a", x}}), FileError);
  CHECK(std::distance(fs::directory_iterator(d.path), {}) == 1);  // no temporary file is left
}

}  // namespace fit::test::safetensors_test
