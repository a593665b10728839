#include "fit/io/npz.hpp"

#include <zlib.h>

#include "fit/io/npy.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// .npz archives both ways, .safetensors in several files, and what is refused: pickles, and hostile files of each kind.
namespace fit::test::npz_test {
namespace {

using Catch::Matchers::Contains;

std::string number(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i) & 0xFF);
  return s;
}

// What the fields hold that no reader needs: versions, times, disks, attributes.
constexpr std::uint64_t unneeded = 0x5A5A5A5A;

// Where the directory of a zip file is. `comment` stands behind it.
std::string end_of_zip(std::uint64_t count, std::uint64_t bytes, std::uint64_t begin, const std::string& comment = "") {
  return "PK\5\6" + number(unneeded, 4) + number(count, 2) + number(count, 2) + number(bytes, 4) + number(begin, 4) +
         number(comment.size(), 2) + comment;
}

// The same in 64 bits, and where it begins.
std::string end_64(std::uint64_t count, std::uint64_t bytes, std::uint64_t begin) {
  return "PK\6\6" + number(44, 8) + number(unneeded, 4) + number(unneeded, 4) + number(unneeded, 4) + number(count, 8) +
         number(count, 8) + number(bytes, 8) + number(begin, 8);
}
std::string locator_64(std::uint64_t begin) { return "PK\6\7" + number(unneeded, 4) + number(begin, 8) + number(1, 4); }

// A member of a zip file, or a file of it alone. What the directory says of it can be a lie.
struct Zip {
  std::string name = "x.npy", data, packed = data;
  std::uint64_t method = 0, flags = 0, size = 0, packed_size = 0, begin = 0, count = 1;
  std::string extra, comment;

  explicit Zip(const std::string& bytes) : data(bytes), packed(bytes), size(bytes.size()), packed_size(bytes.size()) {}
  void deflate() {
    std::string out(compressBound(data.size()), '\0');
    z_stream z{};
    deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    z.next_in = reinterpret_cast<Bytef*>(data.data()), z.avail_in = static_cast<uInt>(data.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = static_cast<uInt>(out.size());
    ::deflate(&z, Z_FINISH);
    deflateEnd(&z);
    out.resize(z.total_out);
    packed = out, packed_size = out.size(), method = 8;
  }
  std::string fields() const {
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    return number(unneeded, 2) + number(flags, 2) + number(method, 2) + number(unneeded, 4) + number(crc, 4) +
           number(packed_size, 4) + number(size, 4) + number(name.size(), 2);
  }
  std::string local() const { return "PK\3\4" + fields() + number(0, 2) + name + packed; }
  std::string entry() const {
    return "PK\1\2" + number(unneeded, 2) + fields() + number(extra.size(), 2) + number(comment.size(), 2) +
           number(unneeded, 2) + number(unneeded, 2) + number(unneeded, 4) + number(begin, 4) + name + extra + comment;
  }
  std::string bytes() const { return local() + entry() + end_of_zip(count, entry().size(), local().size()); }
};

std::string npy_bytes(const Directory& d, const Tensor& x) {
  save_npy(d.file("one.npy"), x);
  return get(d.file("one.npy"));
}

}  // namespace

TEST_CASE("npz: what is saved is read back, bit by bit", "[npz]") {
  const Directory d;
  const Tensor odd = tensor({{-0., 1e-45, NAN}, {INFINITY, -2.5, 3.}});
  const StateDict all = {{"w_q.weight", odd.to(float64)},
                         {"ids", arange(7)},
                         {"größe", odd},
                         {"a/b", tensor(2.5)},
                         {"none", zeros({0, 3})},
                         {"mask", tensor({true, false})}};
  save_npz(d.file("x.npz"), all);
  const StateDict read = load_npz(d.file("x.npz"));
  REQUIRE(read.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(read[i].first == all[i].first);
    CHECK(same_bits(read[i].second, all[i].second));
  }
  save_npz(d.file("y.npz"), all);
  CHECK(get(d.file("x.npz")) == get(d.file("y.npz")));
  save_npz(d.file("empty.npz"), {});
  CHECK(load_npz(d.file("empty.npz")).empty());

  CHECK_THROWS_WITH(save_npz(d.file("z"), {{"", odd}}), Contains("has 0 bytes"));
  CHECK_THROWS_WITH(save_npz(d.file("z"), {{"a", odd}, {"a", odd}}), Contains("'a' is there twice"));
  CHECK_THROWS_WITH(save_npz(d.file("z"), {{"a", {}}}), Contains("'a' is undefined"));
  CHECK_FALSE(std::filesystem::exists(d.file("z")));

  const std::string longest(4096, 'n');
  save_npz(d.file("z"), {{longest, odd}});
  CHECK(same_bits(at(load_npz(d.file("z")), longest), odd));
  CHECK_THROWS_WITH(save_npz(d.file("z"), {{longest + 'n', odd}}), Contains("has 4097 bytes"));
}

TEST_CASE("npz: no more than 4 GB are saved", "[npz][heavy]") {
  // Nothing is read of the tensor, nor written: there is no such folder.
  const auto refused = [](std::int64_t bytes, const std::string& message) {
    CHECK_THROWS_WITH(save_npz("no/where.npz", {{"abc", Tensor::empty({bytes}, boolean)}}), Contains(message));
  };
  const std::int64_t largest = UINT32_MAX - 2 * 3 - 1024;  // the name stands there twice; what else is there is shorter
  refused(largest, "can't be created");
  refused(largest + 1, "1 tensors of 4294967296 bytes: an .npz has at most 65534 and 4 GB");
  CHECK_THROWS_WITH(save_npz("no/where.npz", {{"abc", Tensor::empty({1 << 30}, float32)}, {"d", ones({1})}}),
                    Contains("2 tensors of 4294969356 bytes"));
  StateDict many;
  for (int i = 0; i < 65534; ++i) many.emplace_back(std::to_string(i), zeros({0}));
  CHECK_THROWS_WITH(save_npz("no/where.npz", many), Contains("can't be created"));
  many.emplace_back("one more", zeros({0}));
  CHECK_THROWS_WITH(save_npz("no/where.npz", many), Contains("[save_npz] 65535 tensors of"));
}

TEST_CASE("npz: what NumPy writes", "[npz]") {
  // numpy.savez_compressed(path, a=arange(600, dtype=int32).reshape(20, 30), b=linspace(0, 1, 5).astype("f4"),
  //                        c=asfortranarray(arange(6.).reshape(2, 3))), NumPy 2.4.6
  const StateDict all = load_npz(FIT_GOLDEN_DIR "/numpy_compressed.npz");
  REQUIRE(all.size() == 3);
  CHECK(equal(at(all, "a"), arange(600).reshape({20, 30})));
  CHECK(equal(at(all, "b"), tensor({0., 0.25, 0.5, 0.75, 1.})));
  CHECK(equal(at(all, "c"), arange(6).reshape({2, 3}).to(float64)));
}

TEST_CASE("npz: deflated members, and sizes of 64 bits", "[npz]") {
  const Directory d;
  const Tensor x = arange(1000).reshape({10, 100});
  Zip zip(npy_bytes(d, x));
  zip.deflate();
  CHECK(zip.packed.size() < 3000);
  CHECK(equal(at(load_npz(put(d.file("x"), zip.bytes())), "x"), x));
  // as numpy writes what may become large
  zip.size = zip.packed_size = 0xFFFFFFFF;
  zip.extra = number(1, 2) + number(16, 2) + number(zip.data.size(), 8) + number(zip.packed.size(), 8);
  CHECK(equal(at(load_npz(put(d.file("y"), zip.bytes())), "x"), x));

  // Each of the three may be in the field alone, behind other fields.
  const std::string other = number(7, 2) + number(3, 2) + "abc";
  const auto alone = [&](const auto& moved, std::uint64_t value, const std::string& cut = "") {
    Zip one(npy_bytes(d, x));
    moved(one) = 0xFFFFFFFF;
    one.extra = cut.empty() ? other + number(1, 2) + number(8, 2) + number(value, 8) : cut;
    return put(d.file("z"), one.bytes());
  };
  const auto size = [](Zip& z) -> std::uint64_t& { return z.size; };
  const auto packed = [](Zip& z) -> std::uint64_t& { return z.packed_size; };
  const auto begin = [](Zip& z) -> std::uint64_t& { return z.begin; };
  const std::uint64_t all = npy_bytes(d, x).size();
  CHECK(equal(at(load_npz(alone(size, all)), "x"), x));
  CHECK(equal(at(load_npz(alone(packed, all)), "x"), x));
  CHECK(equal(at(load_npz(alone(begin, 0)), "x"), x));
  for (const std::string& cut : {other, number(1, 2) + number(4, 2) + number(0, 4), number(1, 2) + number(8, 2)}) {
    CHECK_THROWS_WITH(load_npz(alone(size, all, cut)), Contains("its 64-bit sizes are not there"));
    CHECK_THROWS_WITH(load_npz(alone(packed, all, cut)), Contains("its 64-bit sizes are not there"));
    CHECK_THROWS_WITH(load_npz(alone(begin, 0, cut)), Contains("its 64-bit sizes are not there"));
  }
}

TEST_CASE("npz: several members, with comments and further fields", "[npz]") {
  const Directory d;
  Zip a(npy_bytes(d, arange(5))), b(npy_bytes(d, ones({2, 3})));
  a.name = "a.npy", a.extra = number(7, 2) + number(3, 2) + "abc", a.comment = "the first, with more to say of it";
  b.name = "b.npy", b.begin = a.local().size(), b.extra = number(8, 2) + number(0, 2), b.comment = "the second";
  const std::string members = a.local() + b.local(), entries = a.entry() + b.entry();
  const std::string ends = end_of_zip(2, entries.size(), members.size(), "both of them");
  const StateDict all = load_npz(put(d.file("x"), members + entries + ends));
  REQUIRE(all.size() == 2);
  CHECK(same_bits(at(all, "a"), arange(5)));
  CHECK(same_bits(at(all, "b"), ones({2, 3})));
  // Its directory may be the end of the file, if it holds nothing.
  CHECK(load_npz(put(d.file("x"), end_of_zip(0, 0, 22))).empty());

  const auto refused = [&](const std::string& bytes, const std::string& message) {
    CHECK_THROWS_AS(load_npz(put(d.file("x"), bytes)), FileError);
    CHECK_THROWS_WITH(load_npz(d.file("x")), Contains(message));
  };
  // The second entry is cut: behind its mark, within its name, within its comment.
  for (const std::size_t left : {4, 45, 48, 60}) {
    const std::string cut = entries.substr(0, a.entry().size() + left);
    refused(members + cut + end_of_zip(2, cut.size(), members.size()), "entry 1 of its directory is damaged");
  }
  // Together they are said to have more bytes than the file, or they have one name.
  Zip greedy = b;
  greedy.size = greedy.packed_size = members.size() + a.entry().size() + b.entry().size() + end_of_zip(2, 0, 0).size();
  const std::string more = a.entry() + greedy.entry();
  refused(members + more + end_of_zip(2, more.size(), members.size()), "more bytes than the file's");
  Zip again = b;
  again.name = "a.npy", again.begin = a.local().size();
  const std::string same = a.entry() + again.entry(), of_same = a.local() + again.local();
  refused(of_same + same + end_of_zip(2, same.size(), of_same.size()), "the array 'a' is there twice");
  b.name = "", b.extra = "", b.comment = "";
  refused(b.local() + b.entry() + end_of_zip(1, b.entry().size(), b.local().size()), "member '' is no array");
}

TEST_CASE("npz: a directory of 64 bits", "[npz]") {
  const Directory d;
  const Zip zip(npy_bytes(d, arange(5)));
  const std::string member = zip.local(), entry = zip.entry(), all = member + entry;
  const std::string end = end_64(1, entry.size(), member.size()), locator = locator_64(all.size());
  const auto said = [](std::uint64_t count, std::uint64_t bytes, std::uint64_t begin) {
    return end_of_zip(count, bytes, begin, "a comment");
  };
  const std::string elsewhere = said(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF);
  // each of the three says so alone
  for (const std::string& e : {elsewhere, said(0xFFFF, entry.size(), member.size()), said(1, 0xFFFFFFFF, member.size()),
                               said(1, entry.size(), 0xFFFFFFFF)})
    CHECK(same_bits(at(load_npz(put(d.file("x"), all + end + locator + e)), "x"), arange(5)));

  const auto refused = [&](const std::string& bytes, const std::string& message) {
    CHECK_THROWS_AS(load_npz(put(d.file("x"), bytes)), FileError);
    CHECK_THROWS_WITH(load_npz(d.file("x")), Contains(message));
  };
  refused(elsewhere, "its 64-bit directory is not there");
  refused("PK\3\4" + elsewhere, "its 64-bit directory is not there");
  refused(all + end + elsewhere, "its 64-bit directory is not there");
  refused(locator_64(1 << 20) + elsewhere, "expected 56 bytes at byte 1048576");
  refused(all + end + locator_64(all.size() + 1) + elsewhere, "its 64-bit directory is not where it is said to be");
}

TEST_CASE("npz: what is damaged or hostile is refused", "[npz]") {
  const Directory d;
  const std::string good = npy_bytes(d, arange(5));
  const auto refused = [&](const Zip& zip, const std::string& message) {
    CHECK_THROWS_AS(load_npz(put(d.file("x"), zip.bytes())), FileError);
    CHECK_THROWS_WITH(load_npz(d.file("x")), Contains(message));
  };
  const auto with = [&](const auto& change) {
    Zip zip(good);
    change(zip);
    return zip;
  };
  CHECK(load_npz(put(d.file("x"), Zip(good).bytes())).size() == 1);
  refused(with([](Zip& z) { z.name = "x.txt"; }), "member 'x.txt' is no array");
  refused(with([](Zip& z) { z.name = ".npy"; }), "is no array");
  refused(with([](Zip& z) { z.flags = 1; }), "is encrypted");
  refused(with([](Zip& z) { z.method = 12; }), "packed by method 12");
  refused(with([](Zip& z) { z.size -= 1; }), "is said to have");
  refused(with([](Zip& z) { z.size = z.packed_size = 1 << 20; }), "more bytes than the file's");
  refused(with([](Zip& z) { z.deflate(), z.size = 4000000000; }), "is said to have 4000000000 bytes in");
  refused(with([](Zip& z) { z.deflate(), z.size += 1; }), "does not unpack");
  refused(with([](Zip& z) { z.deflate(), z.packed += "xx", z.packed_size += 2; }), "does not unpack");
  refused(with([](Zip& z) { z.deflate(), z.packed[5] ^= 4; }), "x.npy");
  refused(with([](Zip& z) { z.packed.back() ^= 1; }), "its checksum is not that");
  refused(with([](Zip& z) { z.begin = 7; }), "is not where the directory says");
  refused(with([](Zip& z) { z.begin = 1 << 30; }), "expected 30 bytes at byte 1073741824");
  refused(with([](Zip& z) { z.begin = z.bytes().size() - 29; }), "(is it truncated?)");
  const std::uint64_t all = Zip(good).bytes().size();
  refused(with([&](Zip& z) { z.size = z.packed_size = all; }), "(is it truncated?)");  // as many as the file has
  refused(with([](Zip& z) { z.deflate(), z.size = z.packed_size * 1032; }), "does not unpack");  // deflate's best
  refused(with([](Zip& z) { z.count = 2; }), "entry 1 of its directory is damaged");
  refused(with([](Zip& z) { z.size = z.packed_size = 0xFFFFFFFF; }), "its 64-bit sizes are not there");
  refused(with([](Zip& z) { z = Zip("not an array"); }), "array 'x': it is text");
  const std::string whole = Zip(good).bytes();
  for (std::size_t n = 0; n < whole.size(); n += 7)
    CHECK_THROWS_AS(load_npz(put(d.file("x"), whole.substr(0, n))), FileError);
}

TEST_CASE("a pickle is refused with the Python that converts it", "[safetensors]") {
  const Directory d;
  Zip torch("\x80\x02}q\x00.");
  torch.name = "archive/data.pkl";
  const std::string old = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  for (const std::string& bytes : {torch.bytes(), old}) {
    put(d.file("model.pt"), bytes);
    CHECK_THROWS_AS(load_safetensors(d.file("model.pt")), FileError);
    CHECK_THROWS_WITH(load_safetensors(d.file("model.pt")),
                      Contains("it is a pickle") && Contains("\n  import torch, safetensors.torch\n") &&
                          Contains("\n  state = torch.load(") && Contains("\n  safetensors.torch.save_file("));
  }
  for (const std::string& other : {std::string("PK\x09\1"), std::string("PK\1\x09"), std::string("\x80\6}q"),
                                   std::string("\x80\0}q", 4), std::string("a\x7f")})  // no zip file, pickle or text
    CHECK_THROWS_WITH(load_safetensors(put(d.file("other"), other + std::string(8, 'x'))),
                      Contains("byte 0: the header is said to have"));
  CHECK_THROWS_WITH(load_safetensors(put(d.file("other"), "a\r\n\tb\r\n\tc")), Contains("it is text"));
  put(d.file("model.pt"), torch.bytes());
  CHECK_THROWS_WITH(load_npz(d.file("model.pt")), Contains("it is a pickle"));
  save_npz(d.file("x.npz"), {{"x", ones({1})}});
  CHECK_THROWS_WITH(load_safetensors(d.file("x.npz")), Contains("if it is an .npz, load_npz() reads it"));
  CHECK_THROWS_WITH(load_npz(put(d.file("y"), std::string(30, 'x'))), Contains("it is text: the readers of"));
  // a header of 640 bytes begins as a pickle does
  save_safetensors(d.file("z"), {{std::string(582, 'n'), ones({1})}});
  REQUIRE(get(d.file("z")).substr(0, 2) == "\x80\x02");
  CHECK(load_safetensors(d.file("z")).tensors.size() == 1);
}

TEST_CASE("safetensors: a model in several files", "[safetensors]") {
  const Directory d;
  save_safetensors(d.file("a.safetensors"), {{"x", arange(3)}, {"y", arange(4)}});
  save_safetensors(d.file("b.safetensors"), {{"z", arange(5)}});
  const auto index = [&](const std::string& map) {
    return put(d.file("model.safetensors.index.json"),
               R"({"metadata": {"total_size": 96}, "weight_map": )" + map + "}");
  };
  const std::string a = R"("x": "a.safetensors", "y": "a.safetensors")";
  const SafeTensors all = load_safetensors(index("{" + a + R"(, "z": "b.safetensors"})"));
  REQUIRE(all.tensors.size() == 3);
  CHECK(equal(at(all.tensors, "z"), arange(5)));
  CHECK(equal(at(all.tensors, "y"), arange(4)));

  const auto refused = [&](const std::string& map, const std::string& message) {
    CHECK_THROWS_AS(load_safetensors(index(map)), FileError);
    CHECK_THROWS_WITH(load_safetensors(index(map)), Contains(message));
  };
  refused(R"({"x": "a.safetensors"})", "holds 'y', which the index does not say");
  refused("{" + a + R"(, "w": "a.safetensors"})", "lacks 'w', which the index says");
  refused("{" + a + R"(, "z": "c.safetensors"})", "c.safetensors: there is no such file");
  refused(R"({"x": "../a.safetensors"})", "expected the name of a file of the same folder");
  refused(R"({"x": "/etc/passwd"})", "expected the name of a file of the same folder");
  for (const char* const path : {".", "..", "a\\\\b", "a\\u0000b", ""})
    refused(std::string(R"({"x": ")") + path + "\"}", "expected the name of a file of the same folder");
  refused(R"({"x": 3})", "expected the name of a file of the same folder");
  refused("[]", "expected an index");
  refused("{", "expected valid JSON");
  refused("[[[]]]", "nests deeper than 3 levels");
  // of the most bytes that are read
  std::filesystem::resize_file(put(d.file("model.safetensors.index.json"), std::string("{") + std::string(7, ' ')),
                               100000000);
  CHECK_THROWS_WITH(load_safetensors(d.file("model.safetensors.index.json")), Contains("expected valid JSON"));
  std::filesystem::resize_file(d.file("model.safetensors.index.json"), 100000001);
  CHECK_THROWS_WITH(load_safetensors(d.file("model.safetensors.index.json")),
                    Contains("the index has more than 100000000 bytes"));
}

TEST_CASE("each reader says what another file is, and which call reads it", "[safetensors]") {
  const Directory d;
  save_npz(d.file("npz"), {{"x", ones({1})}});
  save_npy(d.file("npy"), ones({1}));
  save_safetensors(d.file("safetensors"), {{"x", ones({1})}});
  put(d.file("text"), "name,age\nAda,36\n");
  put(d.file("pickle"), std::string("\x80\x02}q\x00.", 6));
  const std::pair<const char*, const char*> files[] = {
      {"npz", "if it is an .npz, load_npz() reads it"},
      {"npy", "it is an .npy file: load_npy() reads it"},
      {"safetensors", "it is a .safetensors file: load_safetensors() "},
      {"text", "it is text: the readers of fit/nn/data/readers.hpp read text"},
      {"pickle", "it is a pickle"}};
  const std::pair<const char*, Callable<void(const std::string&)>> readers[] = {
      {"npz", [](const std::string& path) { load_npz(path); }},
      {"npy", [](const std::string& path) { load_npy(path); }},
      {"safetensors", [](const std::string& path) { load_safetensors(path); }}};
  for (const auto& [own, read] : readers)
    for (const auto& [name, text] : files) {
      INFO(own << " reads " << name);
      if (own == std::string(name))
        CHECK_NOTHROW(read(d.file(name)));
      else
        CHECK_THROWS_WITH(read(d.file(name)), Contains(text));
    }
}

}  // namespace fit::test::npz_test
