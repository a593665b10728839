// Writes the files of a version into a folder, which tests/nn/training/released_test.cpp then reads for ever. Build it
// with the released version before the next one changes a format:
//
//     g++ -std=c++17 tests/golden/released/write.cpp $(pkg-config --cflags --libs fit) -o write && ./write FOLDER
#include "contents.hpp"

int main(int, char** argv) {
  using namespace released;
  const std::string to = std::string(argv[1]) + '/';
  save_safetensors(to + "tensors.safetensors", tensors());
  StateDict plain;
  for (const auto& [name, x] : tensors())
    if (x.dtype() != bfloat16 && x.dtype() != int8) plain.emplace_back(name, x);
  save_npz(to + "tensors.npz", plain);
  save_npy(to + "matrix.npy", pattern({2, 5}, float32));

  nn::GPT gpt(gpt_options());
  fill(gpt);
  gpt.eval();
  nn::save_weights(to + "weights.safetensors", gpt);
  save_npy(to + "logits.npy", gpt(gpt_input()).detach());
  nn::quantize_(gpt);
  nn::save_weights(to + "weights_int8.safetensors", gpt);
  save_npy(to + "logits_int8.npy", gpt(gpt_input()).detach());

  Training training;
  manual_seed(17);
  (void)rand({3});
  training.step();
  training.step();
  for (const auto& batch : training.loader)
    if (batch[0].data<float>()[0] != pattern({6, 3}, float32).data<float>()[0]) break;  // the second batch
  Checkpoint checkpoint = training.checkpoint();
  checkpoint.step = 2;
  checkpoint.config["layers"] = "1";
  checkpoint.save(to + "checkpoint.safetensors");
  training.step();
  training.step();
  StateDict later;
  for (const auto& [name, p] : training.model.named_parameters()) later.emplace_back(name, p.detach());
  later.emplace_back("drawn", rand({3}));
  save_npz(to + "later.npz", later);

  MetricsLog log(to + "metrics.jsonl");
  for (const auto& row : log_rows()) log.add(row);
  text::CharVocabulary(sample).save(to + "characters.json");
  text::BytePairVocabulary::train(sample, 262).save(to + "byte_pairs.json");
}
