// open_model FOLDER: writes a model of 1.2 billion weights as FOLDER if it is not there (config and sizes of Llama 3.2
// 1B, random weights, 5 GB), and opens it: the seconds, and the most memory that the process had, beside the bytes of
// the weights. The first run writes, so run it twice. After root has written 3 to /proc/sys/vm/drop_caches, it reads
// the disk. Exits with 1 if it takes more than 1.05 times the bytes.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "fit/fit.hpp"

using namespace fit;

namespace {

nn::GPTOptions llama_1b() {
  auto o = nn::GPTOptions().vocab_size(128256).num_layers(16).num_heads(32).num_kv_heads(8).d_model(2048).hidden(8192);
  o.context_length(2048).positions(nn::Positions::rotary).norm(nn::Norm::rms).activation(nn::Activation::swiglu);
  return o.bias(false).tie_weights(true);
}

// In bytes, from /proc/self/status.
double most_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      double kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "open_model FOLDER\n", 2;
  const std::filesystem::path folder(argv[1]);
  if (!std::filesystem::exists(folder)) {
    nn::save_pretrained(folder.string(), nn::GPT(llama_1b()));
    std::cout << "wrote " << folder.string() << ": run it again\n";
    return 0;
  }
  const double before = most_memory();
  const auto start = std::chrono::steady_clock::now();
  const nn::Pretrained opened = nn::load_pretrained(folder.string());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double bytes = 0;
  for (const auto& [name, x] : opened.model->state_dict())
    if (name != "head.weight" || !opened.gpt().options().tie_weights())
      bytes += static_cast<double>(x.numel() * size_of(x.dtype()));
  const double most = most_memory();
  std::cout << bytes / 1e9 << " GB of weights opened in " << seconds << " s; at most " << most / bytes
            << " times their bytes in memory, " << before / 1e6 << " MB of it before\n";
  return most > 1.05 * bytes ? 1 : 0;
}
