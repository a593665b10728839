#include "support/oracles/golden.hpp"

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/io/npy.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test {
namespace {

struct Entry {
  std::string dtype;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
};

struct File {
  std::map<std::string, Entry> entries;
  Tensor numbers;

  File() : numbers(load_npy(FIT_GOLDEN_DIR "/golden.npy")) {
    std::ifstream index(FIT_GOLDEN_DIR "/golden.txt");
    std::string line, magic;
    int version = 0;
    if (!std::getline(index, line) || !(std::istringstream(line) >> magic >> version) || magic != "fit-golden" ||
        version != 1)
      throw FileError("tests/golden/golden.txt does not begin with \"fit-golden 1\": run tests/golden/generate.py");
    while (std::getline(index, line)) {
      std::istringstream words(line);
      std::string name;
      Entry e;
      words >> name >> e.dtype >> e.offset;
      for (std::int64_t n; words >> n;) e.sizes.push_back(n);
      entries[name] = e;
    }
  }
};

const File& file() {
  static const File f;
  return f;
}

}  // namespace

bool Golden::has(const std::string& tensor) const { return file().entries.count(name_ + '/' + tensor) != 0; }

Tensor Golden::operator()(const std::string& tensor) const {
  if (!has(tensor)) throw Error("[golden] there is no " + name_ + '/' + tensor);
  const Entry& e = file().entries.at(name_ + '/' + tensor);
  Tensor t = Tensor::empty(e.sizes, float64);
  const auto from = file().numbers.data<double>().begin() + e.offset;
  std::copy(from, from + t.numel(), t.fresh<double>());
  return e.dtype == "int64" ? t.to(int64) : e.dtype == "boolean" ? t.to(boolean) : t;
}

Tensor leaf_of(const Golden& golden, const std::string& tensor, DType dtype) {
  return golden(tensor).to(dtype).requires_grad_();
}

void check_close(const std::string& what, const Tensor& ours, const Tensor& theirs, DType dtype) {
  INFO(what << ", " << dtype);
  REQUIRE(ours.defined());
  CHECK(ours.dtype() == dtype);
  CHECK(max_difference(ours, theirs) <= (dtype == float64 ? 1e-13 : 1e-5));
}

void check_function(const std::string& name, const std::vector<std::string>& inputs,
                    FunctionRef<Tensor(const std::vector<Tensor>&)> f) {
  const Golden golden(name);
  INFO(name);
  for (const DType dtype : {float64, float32}) {
    std::vector<Tensor> in;
    for (const std::string& n : inputs) in.push_back(leaf_of(golden, n, dtype));
    const Tensor y = f(in);
    check_close("y", y, golden("y"), dtype);
    y.backward(golden("d_y"));
    for (std::size_t i = 0; i < in.size(); ++i)
      check_close("gradient of " + inputs[i], in[i].grad(), golden("d_" + inputs[i]), dtype);
  }
}

}  // namespace fit::test
