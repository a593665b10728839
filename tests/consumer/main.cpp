// A program as a user of the library writes it: what it prints is checked by the scripts that build it.
#include <fit/fit.hpp>
#include <iostream>

using namespace fit;

struct Net final : nn::Layer {
  FIT_FIELDS(list, out)
  nn::Sequential list{nn::Linear(2, 4), nn::GELU()};
  nn::Linear out{4, 1};
};

int main() {
  Tensor w = tensor({{1., 2.}, {3., 4.}}).requires_grad_();
  sum(matmul(w, w)).backward();
  std::cout << "gradient " << w.grad().sum().item() << "\n";  // sum over i, k of (column sum i + row sum k): 40

  // A shared library and its program have one state of a thread, and know each other's types and exceptions, even if
  // the program hides all that it defines.
  const bool recorded = [&] {
    const NoGrad off;
    return matmul(w, w).requires_grad();
  }();
  std::cout << "recorded " << recorded << "\n";
  try {
    matmul(w, ones({3, 3}));
  } catch (const Error& e) {
    std::cout << "caught " << (dynamic_cast<const FileError*>(&e) ? "FileError" : "Error") << "\n";
  }
  try {
    load_npy("there is no such file");
  } catch (const FileError& e) {
    std::cout << "caught FileError\n";
  }
  Net net;
  nn::Layer& layer = net;
  std::cout << "a Net " << (dynamic_cast<Net*>(&layer) == &net) << "\n";
  std::cout << "quantised";  // the layers that the library knows as Linear
  for (const std::string& name : nn::quantize_(net)) std::cout << ' ' << name;
  std::cout << "\n";
}
