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

// A model for llama.cpp, and what it must answer: 64 greedy tokens, and the logarithms of the probabilities at each.
void answered_file(const std::string& path, nn::GPTOptions options) {
  manual_seed(11);
  nn::GPT model(options.context_length(96));
  {
    const NoGrad no_grad;
    // As large as in trained models: llama.cpp reads gelu from a table in float16, which errs with the size of its
    // values.
    for (const Tensor& p : model.parameters()) Tensor(p).add_(0.05 * randn(p.shape()));
    // No byte beyond ASCII is the likeliest: llama.cpp's server holds back what is not a whole character.
    Tensor head = model.head.weight;
    const Tensor ascii = head[{range(0, 128)}];
    head.copy_(cat({ascii, ascii * 0.5, head[{range(256)}]}, 0));
  }
  model.eval();
  const text::BytePairVocabulary pairs({{'t', 'h'}, {256, 'e'}, {' ', 257}});
  nn::save_gguf(path, model, nn::gguf_tokenizer(pairs), nn::SaveGGUFOptions().name("answered"));
  const std::string text = "the path, then 3 others";
  const nn::Tokens prompt = pairs.encode(text).to_vector<std::int64_t>();
  const auto greedy = nn::GenerateOptions().temperature(0).max_new_tokens(64);
  nn::Tokens all = prompt;
  const nn::Tokens answer = nn::generate(model, {prompt}, greedy)[0];
  all.insert(all.end(), answer.begin(), answer.end());
  const NoGrad no_grad;
  const auto first = static_cast<std::int64_t>(prompt.size()) - 1;
  const Tensor logits = model(tensor(all).unsqueeze(0))[{0, range(first, first + 64)}];
  save_npz(path + ".npz", {{"prompt", tensor(prompt)}, {"answer", tensor(answer)}, {"logs", log_softmax(logits, -1)}});
  std::ofstream(path + ".txt", std::ios::binary) << text;
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
  answered_file(folder + "/answered_gpt2.gguf", gpt2);
  answered_file(folder + "/answered_llama.gguf", llama);
  answered_file(folder + "/answered_qwen2.gguf", nn::GPTOptions(llama).qkv_bias(true));
  answered_file(folder + "/answered_qwen3.gguf", nn::GPTOptions(llama).qk_norm(true));
  if (argv[2]) {  // a file that the gguf package wrote: its values, for comparison
    save_npz(folder + "/read.npz", nn::load_gguf(argv[2]).model.state_dict());
  }
}
