#include "support/oracles/one_result.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "fit/detail/function_ref.hpp"
#include "fit/matmul/reproducible.hpp"
#include "kernels/simd/isa.hpp"
#include "support/catch.hpp"
#include "support/sha256.hpp"
#include "support/variants.hpp"

namespace fit::test {
namespace {

constexpr const char* path = FIT_GOLDEN_DIR "/one_result.txt";

// The fingerprints of the file, by name.
std::map<std::string, std::string>& known() {
  static std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> lines;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);)
      if (line.size() > 65) lines[line.substr(65)] = line.substr(0, 64);
    return lines;
  }();
  return all;
}

void write(const std::string& name, const std::string& value) {
  known()[name] = value;
  const std::string aside = path + std::to_string(getpid());  // ranks write at once
  {
    std::ofstream out(aside);
    for (const auto& [key, hash] : known()) out << hash << ' ' << key << '\n';
  }
  std::filesystem::rename(aside, path);
}

template <class T>
std::string with_one_nan(const Tensor& x) {
  std::string bytes(static_cast<const char*>(x.raw()), static_cast<std::size_t>(x.numel()) * sizeof(T));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T v;
    std::memcpy(&v, bytes.data() + i, sizeof v);
    if (!std::isnan(v)) continue;
    v = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(bytes.data() + i, &v, sizeof v);
  }
  return bytes;
}

}  // namespace

std::string fingerprint(const std::vector<Tensor>& tensors) {
  Sha256 hash;
  const auto add = [&](const std::string& bytes) { hash.add(bytes.data(), bytes.size()); };
  for (const Tensor& x : tensors) {
    if (!x.defined()) continue;
    std::ostringstream kind;
    kind << x.dtype() << x.shape();
    add(kind.str());
    if (x.dtype() == float32)
      add(with_one_nan<float>(x));
    else if (x.dtype() == float64)
      add(with_one_nan<double>(x));
    else
      hash.add(x.raw(), static_cast<std::size_t>(x.numel()) * size_of(x.dtype()));
  }
  return hash.digits();
}

namespace {

template <class EachSet>
void check_one(const std::string& name, FunctionRef<std::vector<Tensor>()> make, const EachSet& each_set) {
  const char* const wish = std::getenv("FIT_WRITE_ONE_RESULT");
  if (wish && std::string(wish) == "1") write(name, fingerprint(make()));
  const auto found = known().find(name);
  INFO(name << ": FIT_WRITE_ONE_RESULT=1 writes tests/golden/one_result.txt anew");
  const std::string expected = found == known().end() ? "none" : found->second;
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  int threads = 0;
  each_set([&] {
    set_num_threads(1 + threads++ % 3);
    CHECK(fingerprint(make()) == expected);
  });
}

}  // namespace

void check_one_result(const std::string& name, FunctionRef<std::vector<Tensor>()> make) {
  check_one(name, make, [](const auto& body) { each_isa(body); });
}

void check_one_narrow_result(const std::string& name, FunctionRef<std::vector<Tensor>()> make) {
  const Reproducible mode;
  check_one(name, make, [](const auto& body) { each_bfloat16_isa(body); });
}

}  // namespace fit::test
