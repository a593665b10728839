// Fine-tuning with LoRA: a character-level GPT, trained on Shakespeare, learns first names. It trains a few small
// matrices beside its frozen weights. About a minute on two cores.
#include <filesystem>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

constexpr std::int64_t context = 32, batch_size = 16;

nn::GPT model_for(const text::CharVocabulary& alphabet) {
  const auto o =
      nn::GPTOptions().vocab_size(alphabet.size()).context_length(context).num_layers(2).num_heads(4).d_model(64);
  return nn::GPT(o);
}

// Trains all parameters that are not frozen with AdamW, on windows of a text.
void train(example::Example& e, nn::GPT& model, const Tensor& text, int steps, double lr) {
  data::DataLoader loader(text::TextWindows(text, context), data::LoaderOptions().batch_size(batch_size).shuffle());
  optim::AdamW optimizer(optim::decay_groups(model, optim::AdamWOptions().lr(lr)));
  optim::CosineAnnealingLR schedule(optimizer, steps);
  model.train();
  int step = 0;
  for (const data::Batch& batch : loader) {
    optimizer.zero_grad();
    const Tensor loss = model.loss(batch[0], batch[1]);
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    schedule.step();
    if (++step % std::max(steps / 4, 1) == 0) e.progress("step", step, steps, "loss", loss.item());
    if (step == steps) return;
  }
}

// The mean loss in nats per letter.
double mean_loss(nn::GPT& model, const Tensor& text) {
  const NoGrad no_grad;
  model.eval();
  double total = 0;
  std::int64_t windows = 0;
  for (const data::Batch& batch : data::DataLoader(text::TextWindows(text, context, context), 64)) {
    total += model.loss(batch[0], batch[1]).item() * static_cast<double>(batch[0].size(0));
    windows += batch[0].size(0);
  }
  return total / static_cast<double>(windows);
}

std::string some_names(const nn::GPT& model, const text::CharVocabulary& alphabet) {
  const auto o = nn::GenerateOptions().max_new_tokens(context - 1).temperature(0.8);
  return alphabet.decode(nn::generate(model, {{alphabet.encode("\n").item<std::int64_t>()}}, o)[0]);
}

}  // namespace

int main(int argc, char** argv) {
  const auto body = [](example::Example& e) {
    const std::string plays = data::read_text(EXAMPLES_DATA "/tinyshakespeare.txt");
    const std::string names = data::read_text(EXAMPLES_DATA "/names.txt");
    const text::CharVocabulary alphabet(plays);
    const Tensor old_text = alphabet.encode(plays), new_text = alphabet.encode(names);
    const Tensor validation = new_text[{range(-20000)}], training = new_text[{range(0, -20000)}];
    const std::string folder = e.out + "/fine_tune";
    const std::string base_file = folder + "/base.safetensors", adapter_file = folder + "/adapter.safetensors";
    std::filesystem::create_directories(folder);

    e.section("A GPT that has read Shakespeare");
    {
      nn::GPT model = model_for(alphabet);
      train(e, model, old_text, e.quick ? 20 : 800, 3e-3);
      nn::save_weights(base_file, model);
    }

    e.section("Fine-tuned to first names");
    nn::GPT model = model_for(alphabet);
    nn::load_weights(model, base_file);
    const double before = mean_loss(model, validation);
    const auto adapted = nn::add_lora(model, nn::LoraOptions().rank(8).alpha(16));
    std::cout << "adapters for " << adapted.size() << " layers: " << model.num_trainable_parameters() << " numbers of "
              << model.num_parameters() << " are trained\n";
    train(e, model, training, e.quick ? 20 : 800, 5e-3);
    const double after = mean_loss(model, validation);
    save_safetensors(adapter_file, nn::lora_state_dict(model));

    e.section("What was learned");
    std::cout << "nats a letter of names that it has not seen: " << before << " before, " << after << " after\n";
    const StateDict base = load_safetensors(base_file).tensors;
    bool kept = true;
    for (const auto& [name, value] : model.state_dict()) {
      const std::string before_lora = name.substr(0, name.rfind(".original"));
      if (contains(base, before_lora)) kept = kept && example::distance(value, at(base, before_lora)) == 0;
    }
    e.claim("the model's own weights are as they were", kept);
    e.claim("the adapters' file is less than a third of the model's",
            3 * std::filesystem::file_size(adapter_file) < std::filesystem::file_size(base_file));
    nn::GPT other = model_for(alphabet);
    nn::load_weights(other, base_file);
    nn::load_lora_state_dict(other, load_safetensors(adapter_file).tensors);
    nn::merge_lora(other);
    model.eval(), other.eval();
    const Tensor line = validation[{range(0, context)}].unsqueeze(0);
    e.claim("base and adapter files, merged, give the same model",
            example::distance(model(line).detach(), other(line).detach()) < 1e-4);
    e.at_most("loss on names that it has not seen, in nats a letter", after, 2.3);
    std::cout << some_names(other, alphabet) << '\n';
  };
  return example::run(argc, argv, "Fine-tunes a GPT with LoRA.", body, {example::bf16});
}
