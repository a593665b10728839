#include "fit/npz.hpp"

#include <zlib.h>

#include "fit/lookup.hpp"
#include "fit/npy.hpp"
#include "fit/ops.hpp"
#include "fit/safetensors.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// .npz archives both ways, .safetensors in several files, and what is refused: pickles, and hostile files of each kind.
namespace fit::test {
namespace {

using Catch::Matchers::Contains;

std::string number(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i) & 0xFF);
  return s;
}

// A zip file of one member. What the directory says of it can be a lie.
struct Zip {
  std::string name = "x.npy", data, packed = data;
  std::uint64_t method = 0, flags = 0, size = 0, packed_size = 0, begin = 0, count = 1;
  std::string extra;

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
  std::string bytes() const {
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
    const std::string fields = number(20, 2) + number(flags, 2) + number(method, 2) + number(0, 4) + number(crc, 4) +
                               number(packed_size, 4) + number(size, 4) + number(name.size(), 2);
    const std::string local = "PK\3\4" + fields + number(0, 2) + name + packed;
    const std::string entry = "PK\1\2" + number(20, 2) + fields + number(extra.size(), 2) + number(0, 2) +
                              number(0, 2) + number(0, 2) + number(0, 4) + number(begin, 4) + name + extra;
    return local + entry + "PK\5\6" + number(0, 4) + number(count, 2) + number(count, 2) + number(entry.size(), 4) +
           number(local.size(), 4) + number(0, 2);
  }
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
  refused(with([](Zip& z) { z.deflate(), z.packed[5] ^= 4; }), "x.npy");
  refused(with([](Zip& z) { z.packed.back() ^= 1; }), "its checksum is not that");
  refused(with([](Zip& z) { z.begin = 7; }), "is not where the directory says");
  refused(with([](Zip& z) { z.begin = 1 << 30; }), "expected 30 bytes at byte 1073741824");
  refused(with([](Zip& z) { z.count = 2; }), "entry 1 of its directory is damaged");
  refused(with([](Zip& z) { z.size = z.packed_size = 0xFFFFFFFF; }), "its 64-bit sizes are not there");
  refused(with([](Zip& z) { z = Zip("not an array"); }), "array 'x': it is no .npy file");
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
  put(d.file("model.pt"), torch.bytes());
  CHECK_THROWS_WITH(load_npz(d.file("model.pt")), Contains("it is a pickle"));
  save_npz(d.file("x.npz"), {{"x", ones({1})}});
  CHECK_THROWS_WITH(load_safetensors(d.file("x.npz")), Contains("if it is an .npz, load_npz() reads it"));
  CHECK_THROWS_WITH(load_npz(put(d.file("y"), std::string(30, 'x'))), Contains("it is no .npz file"));
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
  refused(R"({"x": 3})", "expected the name of a file of the same folder");
  refused("[]", "expected an index");
  refused("{", "expected valid JSON");
}

}  // namespace fit::test
