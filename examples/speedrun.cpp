// How soon a GPT of letters reaches nanoGPT's published loss on Shakespeare, 1.4697 nats a letter.
//
// The model is nanoGPT's: 6 layers, 6 heads, 384 features, a context of 256 letters, 10.65 million parameters. So are
// the data: the first 90 % of the text to train, the rest to validate. The recipe is that of docs/speedrun.md. Each
// part is an option: `--muon off` does without Muon, and `--nanogpt --muon on` adds it to nanoGPT's recipe. An idea of
// your own is a line in model_options(), make_optimizer() or Training::step().
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>

#include "fit/fit.hpp"
#include "support/example.hpp"
#include "support/letters.hpp"

using namespace fit;

namespace {

constexpr double goal = 1.4697;  // nanoGPT's README: config/train_shakespeare_char.py

const example::Flags recipe = {
    {"--nanogpt", "nanoGPT's recipe instead; options that are given still count"},
    {"--tokens=2.45e6", "letters to train on, with repeats"},
    {"--minutes=1e9", "ends the training after so many"},
    {"--checkpoint=none", "a file: the training goes on from it, and saves itself there at each share"},
    {"--evaluations=20", "the loss of the validation text is computed after each such share of the second half"},
    {"--batch=16", "windows of 256 letters in a step"},
    {"--warmup=0.02", "share of the steps in which the rates rise"},
    {"--decay=0.6", "share of the steps in which they fall, to 0"},
    {"--cosine=off", "they fall from the warm-up on, along a cosine, to a tenth"},
    {"--muon=on", "Muon for the matrices of the blocks, AdamW for the rest; off: AdamW for all"},
    {"--rate=0.02", "of Muon"},
    {"--momentum=0.95", "of Muon"},
    {"--polar-express=on", "Muon takes three steps of Polar Express; off: five of Newton-Schulz"},
    {"--qkv-apart=off", "Muon orthogonalises the matrices of queries, keys and values one by one, not as one"},
    {"--row-beta2=0.95", "of Muon: makes it NorMuon; 0: Muon"},
    {"--adam-rate=0.006", "of AdamW"},
    {"--weight-decay=0.1", "of matrices; with Muon only of its matrices"},
    {"--average=0", "decay of an average of the weights, which is validated instead of them; 0: none"},
    {"--bfloat16=on", "products and attention in bfloat16 (Autocast)"},
    {"--dropout=0", "for embeddings, attention weights and residual branches"},
    {"--noise=0", "share of the letters that the model reads in training that are replaced by random ones"},
    {"--rotary=on", "rotary positions; off: learned ones"},
    {"--rms-norm=on", "RMSNorm; off: LayerNorm"},
    {"--qk-norm=on", "norms of queries and keys"},
    {"--squared-relu=on", "squared ReLU; off: GELU"},
    {"--value-embeddings=on", "adds an embedding of each letter to its values"},
    {"--head-gates=off", "a gate for each head"},
    {"--tie=on", "the head shares the weight of the embedding"},
    {"--embedding-scale=1", "multiplies the embeddings"},
    {"--logit-cap=15", "the logits become cap tanh(logits / cap); 0: no cap"}};

void preset_nanogpt(example::Example& e) {
  for (const char* part : {"--muon", "--rotary", "--rms-norm", "--qk-norm", "--squared-relu", "--value-embeddings"})
    e.preset(part, "off");
  for (const auto& [option, value] : {std::pair("--cosine", "on"),
                                      {"--adam-rate", "1e-3"},
                                      {"--batch", "64"},
                                      {"--tokens", "81.92e6"},
                                      {"--dropout", "0.2"},
                                      {"--logit-cap", "0"}})
    e.preset(option, value);
}

nn::GPTOptions model_options(const example::Example& e, std::int64_t letters) {
  auto o = nn::GPTOptions().vocab_size(letters).bias(false).context_length(256).num_layers(6).num_heads(6).d_model(384);
  if (e.quick) o.context_length(32).num_layers(2).num_heads(2).d_model(32);
  if (e.on("--rotary")) o.positions(nn::Positions::rotary);
  if (e.on("--rms-norm")) o.norm(nn::Norm::rms);
  if (e.on("--squared-relu")) o.activation(nn::Activation::squared_relu);
  o.qk_norm(e.on("--qk-norm")).value_embeddings(e.on("--value-embeddings")).head_gates(e.on("--head-gates"));
  o.tie_weights(e.on("--tie")).embedding_scale(e.number("--embedding-scale", 1e-3, 1e3));
  o.logit_cap(e.number("--logit-cap", 0, 1e6));
  return o.dropout(e.number("--dropout", 0, 0.99));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const example::Example& e, const nn::GPT& gpt) {
  auto adamw = optim::AdamWOptions()
                   .lr(e.number("--adam-rate", 0, 100))
                   .beta2(0.99)
                   .weight_decay(e.number("--weight-decay", 0, 100));
  if (!e.on("--muon")) return std::make_unique<optim::AdamW>(optim::decay_groups(gpt, adamw));
  auto muon = optim::MuonOptions().lr(e.number("--rate", 0, 100)).momentum(e.number("--momentum", 0, 0.9999));
  muon.weight_decay(adamw.weight_decay()).bfloat16(e.on("--bfloat16")).row_beta2(e.number("--row-beta2", 0, 0.9999));
  if (e.on("--polar-express")) muon.polar_express(true).ns_steps(3);
  auto groups = optim::muon_groups(gpt, muon, adamw.weight_decay(0));
  if (e.on("--qkv-apart"))
    groups = optim::with_options(groups, {{"*.qkv.weight", [](optim::MuonOptions& o) { o.matrices(3); }}});
  return std::make_unique<optim::Muon>(groups);
}

std::unique_ptr<optim::Schedule> make_schedule(const example::Example& e, optim::Optimizer& o, std::int64_t steps) {
  const auto share = [&](const char* option) {
    return static_cast<std::int64_t>(e.number(option, 0, 1) * static_cast<double>(steps));
  };
  if (e.on("--cosine")) return std::make_unique<optim::WarmupCosineLR>(o, steps, share("--warmup"), 0.1);
  return std::make_unique<optim::WarmupStableDecayLR>(o, steps, share("--warmup"), share("--decay"));
}

// A model, and how it is trained.
struct Training {
  Training(const example::Example& e, const Tensor& letters, std::int64_t kinds)
      : text(letters),
        gpt(model_options(e, kinds)),
        length(gpt.options().context_length()),
        batch(e.whole("--batch", 1, 1e6)),
        steps(steps_of(e)),
        precision(e.on("--bfloat16") ? bfloat16 : float32),
        noise(e.number("--noise", 0, 1)),
        decay(e.number("--average", 0, 0.999999)),
        optimizer(make_optimizer(e, gpt)),
        schedule(make_schedule(e, *optimizer, steps)),
        average(gpt.named_parameters(), decay),
        windows(text, length) {
    checkpoint.add("model", gpt).add("optimizer", *optimizer).add("schedule", *schedule).add("windows", windows);
    if (decay > 0) checkpoint.add("average", average);
  }

  std::int64_t steps_of(const example::Example& e) const {
    const std::int64_t all = e.whole("--tokens", 1, 1e15) / batch / length;
    return e.quick ? 20 : std::max<std::int64_t>(1, all);
  }

  double step() {
    const Autocast guard(precision);
    const example::Letters b(text, windows.next(batch), length);
    const Tensor read = noise == 0 ? b.input
                                   : where(rand(b.input.shape()) < noise,
                                           randint(0, gpt.options().vocab_size(), b.input.shape()), b.input);
    optimizer->zero_grad();
    const Tensor loss = gpt.loss(read, b.target);
    loss.backward();
    optim::clip_grad_norm_(gpt.parameters(), 1.0);
    optimizer->step();
    schedule->step();
    if (decay > 0) average.update();
    return loss.item();
  }

  double validate(const Tensor& validation) {
    const Autocast guard(precision);
    if (decay == 0) return example::mean_loss(gpt, validation, length, 32);
    const auto averaged = average.apply();
    return example::mean_loss(gpt, validation, length, 32);
  }

  const Tensor text;
  nn::GPT gpt;
  const std::int64_t length, batch, steps;
  const DType precision;
  const double noise, decay;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  optim::ExponentialMovingAverage average;
  example::Windows windows;
  Checkpoint checkpoint;
};

double minutes_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 60;
}

// Trains until the goal, and prints a line for each evaluation.
void race(example::Example& e, const Tensor& letters, const Tensor& validation, std::int64_t kinds) {
  const auto start = std::chrono::steady_clock::now();
  Training training(e, letters, kinds);
  const std::string& file = e.word("--checkpoint");
  const bool keeps = e.given("--checkpoint");
  if (keeps && std::filesystem::exists(file)) training.checkpoint.load(file);
  std::int64_t step = training.checkpoint.step;
  if (step >= training.steps) throw Error("--checkpoint: the training in " + file + " has taken all its steps");
  plot::TrainingPage& page = e.follow("Speedrun", training.steps, training.gpt);
  const double minutes = e.number("--minutes", 0, 1e9);
  const std::int64_t every = std::max<std::int64_t>(1, training.steps / e.whole("--evaluations", 1, 1e6));
  const auto tokens_of = [&](std::int64_t steps) { return steps * training.batch * training.length; };
  std::cout << training.gpt.num_parameters() << " parameters, " << training.steps << " steps of " << tokens_of(1)
            << " letters\n  step      letters  minutes  of them in training   train  validation\n";
  double trained = 0, losses = 0, validated = 0;
  std::int64_t seen = 0;
  for (bool last = false; !last;) {
    const auto begin = std::chrono::steady_clock::now();
    const double lr = training.optimizer->lr(), loss = training.step();
    trained += minutes_since(begin);
    page.add({{"step", ++step}, {"loss", loss}, {"lr", lr}, {"tokens", tokens_of(1)}});
    losses += loss, ++seen;
    training.checkpoint.step = step;
    if (keeps && step % every == 0) training.checkpoint.save(file);
    last = step == training.steps || minutes_since(start) > minutes;
    const bool due = step % every == 0 && (2 * step >= training.steps || step % (5 * every) == 0);
    if (!due && !last) continue;
    validated = training.validate(validation);
    last = last || validated <= goal;
    page.add({{"step", step}, {"validation", validated}});
    std::cout << std::fixed << std::setw(6) << step << std::setw(13) << tokens_of(step) << std::setprecision(2)
              << std::setw(9) << minutes_since(start) << std::setw(21) << trained << std::setprecision(4)
              << std::setw(8) << losses / static_cast<double>(seen) << std::setw(12) << validated << std::endl;
    losses = 0, seen = 0;
  }
  e.trained("Nats a letter");
  if (!e.given("--tokens") && !e.given("--minutes"))
    e.at_most("loss of the validation tenth, in nats a letter", validated, goal);
  if (validated <= goal)
    std::cout << "Reached " << goal << " after " << std::setprecision(2) << minutes_since(start) << " minutes and "
              << static_cast<double>(tokens_of(step)) / 1e6 << " million letters\n";
}

}  // namespace

int main(int argc, char** argv) {
  const auto body = [](example::Example& e) {
    if (e.given("--nanogpt")) preset_nanogpt(e);
    const std::string plays = data::read_text(EXAMPLES_DATA "/tinyshakespeare.txt");
    const text::CharVocabulary alphabet(plays);
    const Tensor text = alphabet.encode(plays);
    const std::int64_t cut = text.numel() * 9 / 10;
    race(e, text[{range(0, cut)}], text[{range(cut, e.quick ? cut + 5000 : text.numel())}], alphabet.size());
  };
  return example::run(argc, argv, "Trains nanoGPT's model of Shakespeare to its published loss.", body, recipe);
}
