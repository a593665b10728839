// exchange_files DIR: writes files that other programs read: event files for TensorBoard, models for llama.cpp.
#include <fstream>

#include "fit/fit.hpp"

using namespace fit;

namespace {

void event_files(const std::string& folder) {
  {
    SummaryWriter writer(folder);
    for (int step = 1; step <= 4; ++step) writer.add_scalar("loss", 1. / step, step);
    writer.add_histogram("weights/w", arange(100).to(float32), 2);
    writer.add_histogram("weights/none", zeros({0}), 2);
    writer.add_text("note", "größer **Markdown**", 1);
  }
  SummaryWriter resumed(folder, 4);  // step 4 is computed again
  for (int step = 4; step <= 5; ++step) resumed.add_scalar("loss", 10. / step, step);
}

// A model, and beside it what the reader must find: each value under its name.
void model_file(const std::string& path, const nn::GPTOptions& options, nn::GGUFType type) {
  manual_seed(3);
  nn::GPT model(options);
  {
    const NoGrad no_grad;
    for (const Tensor& p : model.parameters()) Tensor(p).add_(0.05 * randn(p.shape()));
  }
  const text::BytePairVocabulary pairs({{'t', 'h'}, {256, 'e'}, {' ', 257}});
  nn::save_gguf(path, model, nn::gguf_tokenizer(pairs), nn::SaveGGUFOptions().type(type).name("exchange"));
  StateDict all = model.state_dict();
  const Tensor ids = randint(0, options.vocab_size(), {1, 6});
  model.eval();
  const NoGrad no_grad;
  all.emplace_back("ids", ids), all.emplace_back("logits", model(ids));
  save_safetensors(path + ".safetensors", all);
  save_npz(path + ".npz", all);
}

}  // namespace

int main(int, char** argv) {
  const std::string folder = argv[1];
  event_files(folder + "/events");
  const auto gpt2 =
      nn::GPTOptions().vocab_size(259).context_length(16).num_layers(2).num_heads(4).d_model(64).tie_weights(false);
  const auto llama = nn::GPTOptions(gpt2)
                         .num_kv_heads(2)
                         .hidden(96)
                         .bias(false)
                         .positions(nn::Positions::rotary)
                         .norm(nn::Norm::rms)
                         .activation(nn::Activation::swiglu);
  model_file(folder + "/gpt2.gguf", gpt2, nn::GGUFType::float32);
  model_file(folder + "/llama.gguf", llama, nn::GGUFType::float32);
  model_file(folder + "/half.gguf", llama, nn::GGUFType::float16);
  model_file(folder + "/brain.gguf", llama, nn::GGUFType::bfloat16);
  model_file(folder + "/q8.gguf", llama, nn::GGUFType::q8_0);
  if (argv[2]) {  // a file that the gguf package wrote: its values, for comparison
    save_npz(folder + "/read.npz", nn::load_gguf(argv[2]).model.state_dict());
  }
}
