// runs_pages DIR: writes the page that runs_page.py opens. The heads of the second run are those of the
// first in another order, but for one weight.
#include <fstream>
#include <nlohmann/json.hpp>

#include "fit/fit.hpp"

using namespace fit;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  manual_seed(2);
  const std::vector<std::string> words{"the", "tired", "cat", "sat", "<b>down</b>", "there"};
  auto o = AttentionRecordOptions().causal().queries(words);
  const Tensor hidden = tril(ones({6, 6}, boolean)) == false;
  const Tensor first = softmax(masked_fill(3 * randn({4, 6, 6}), hidden, -1e9), -1);
  Tensor second = index_select(first, 0, tensor({2, 0, 3, 1}));
  second[{0, 5}] = tensor({0.7, 0.1, 0.05, 0.05, 0.05, 0.05}).to(float32);  // head 3 of the first run

  plot::WorkbenchRun a{"plain", {}, {}}, b{"with <dropout>", {}, {}};
  // Before the training, the heads stand in the same order: only the last step counts.
  a.heads.add("h.0.attn", first, o);
  b.heads.add("h.0.attn", first, o);
  o.step(100);
  a.heads.add("h.0.attn", first, o);
  b.heads.add("h.0.attn", second, o);
  // The pair that is not equal.
  const Tensor more = second[0][5] - first[2][5];
  const auto key = argmax(abs(more)).item<std::int64_t>();
  const double shared = sum(minimum(second[0], first[2])).item() / 6;
  std::ofstream(folder + "/runs.json") << nlohmann::json{
      {"key", key}, {"difference", more[key].item()}, {"shared", shared}};
  for (int step = 0; step <= 100; step += 10) {
    a.rows.push_back({{"step", step}, {"loss", 3.0 / (1 + step)}, {"only_a", 1}});
    b.rows.push_back({{"step", step}, {"loss", 4.0 / (1 + step)}, {"lr", 0.1}});
  }
  plot::WorkbenchRun c{"third", a.rows, a.heads};
  const auto titled = plot::WorkbenchOptions().title("With & without");
  plot::write_workbench(folder + "/runs.html", {a, b}, titled);
  plot::write_workbench(folder + "/three.html", {a, b, c}, titled);
}
