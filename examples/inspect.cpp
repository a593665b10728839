// Opens a folder of the Hugging Face Hub, prints a summary of the model, and writes its workbench for a text.
// Without --data FOLDER it makes a small folder with random weights.
#include <filesystem>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

const std::string sentence = "The cat sat on the mat, and the dog sat on the cat.";

// A folder with a small random model.
std::string small_folder(const std::string& out) {
  const std::string folder = (std::filesystem::path(out) / "small").string();
  const auto t = text::TokenizerOptions().vocab_size(280).special_tokens({"<|endoftext|>"});
  const text::Tokenizer tokenizer = text::Tokenizer::train(sentence + sentence, t);
  const auto o =
      nn::GPTOptions().vocab_size(tokenizer.size()).context_length(64).num_layers(2).num_heads(4).d_model(32);
  std::filesystem::create_directories(out);
  nn::save_pretrained(folder, nn::GPT(o), &tokenizer);
  return folder;
}

std::vector<std::string> tokens_of(const text::Tokenizer& tokenizer, const Tensor& ids) {
  std::vector<std::string> names;
  for (const std::int64_t id : ids.to_vector<std::int64_t>()) names.push_back(tokenizer.token(id));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(
      argc, argv, "Opens a folder of the Hugging Face Hub.",
      [](example::Example& e) {
        const std::string folder = e.data == "small" ? small_folder(e.out + "/inspect") : e.data;
        const nn::Pretrained opened = nn::load_pretrained(folder);
        const auto* const bert = dynamic_cast<const nn::BERT*>(opened.model.get());
        e.section(folder + ": " + opened.family);
        const Tensor ids = opened.tokenizer ? opened.tokenizer->encode(sentence).unsqueeze(0) : arange(8).unsqueeze(0);
        const NoGrad no_grad;
        const auto call = [&] { return bert ? (*bert)(ids) : opened.gpt()(ids); };
        std::cout << nn::summary(*opened.model, call);

        nn::AttentionRecorder recorder(*opened.model);
        const Tensor out = call();
        AttentionRecording recording = recorder.recording();
        if (opened.tokenizer) recording.name_tokens("", tokens_of(*opened.tokenizer, ids));
        recording.title = std::filesystem::path(folder + "/").parent_path().filename().string();
        e.page("heads", recording);
        e.claim("every layer's attention was recorded", !recording.records().empty());
        e.claim("the model computes finite numbers", all(isfinite(out)).item() == 1);
      },
      {}, "small");
}
