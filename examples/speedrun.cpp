// How fast a GPT of letters reaches nanoGPT's published loss on Shakespeare, 1.4697 nats a letter, on two cores.
//
// The model is nanoGPT's for one GPU: 6 layers, 6 heads, 384 features, a context of 256 letters, 10.65 million
// parameters; the data are its data, too. --nanogpt trains as nanoGPT does. Without it, the recipe of docs/speedrun.md
// is used. Each part of it is an option here: --muon off trains without Muon.
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>

#include "fit/fit.hpp"
#include "support/example.hpp"
#include "support/letters.hpp"

using namespace fit;

namespace {

nn::GPTOptions model_options(const example::Example& e, std::int64_t letters) {
  const auto o = nn::GPTOptions().vocab_size(letters).bias(false).dropout(e.number("--dropout"));
  auto sized = e.quick ? nn::GPTOptions(o).context_length(32).num_layers(2).num_heads(2).d_model(32)
                       : nn::GPTOptions(o).context_length(256).num_layers(6).num_heads(6).d_model(384);
  if (e.given("--nanogpt")) return sized;
  if (e.on("--rotary")) sized.positions(nn::Positions::rotary);
  if (e.on("--rms-norm")) sized.norm(nn::Norm::rms);
  if (e.on("--squared-relu")) sized.activation(nn::Activation::squared_relu);
  return sized.qk_norm(e.on("--qk-norm"))
      .value_embeddings(e.on("--value-embeddings"))
      .head_gates(e.on("--head-gates"))
      .tie_weights(e.on("--tie"))
      .embedding_scale(e.number("--embedding-scale"))
      .logit_cap(e.number("--logit-cap"));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const example::Example& e, const nn::GPT& gpt) {
  if (e.given("--nanogpt") || !e.on("--muon"))
    return std::make_unique<optim::AdamW>(optim::decay_groups(
        gpt,
        optim::AdamWOptions().lr(e.given("--nanogpt") ? 1e-3 : e.number("--adam-rate")).beta2(0.99).weight_decay(0.1)));
  const auto muon = optim::MuonOptions()
                        .lr(e.number("--rate"))
                        .momentum(e.number("--momentum"))
                        .weight_decay(e.number("--weight-decay"))
                        .ns_steps(static_cast<std::int64_t>(e.number("--ns-steps")))
                        .ns_coefficients(optim::polar_express())
                        .bfloat16(e.on("--autocast"));
  const auto rest =
      optim::AdamWOptions().lr(e.number("--adam-rate")).beta1(e.number("--beta1")).beta2(0.99).weight_decay(0);
  return std::make_unique<optim::Muon>(optim::muon_groups(gpt, muon, rest));
}

std::unique_ptr<optim::Schedule> make_schedule(const example::Example& e, optim::Optimizer& optimizer,
                                               std::int64_t steps) {
  if (e.given("--nanogpt")) return std::make_unique<optim::WarmupCosineLR>(optimizer, steps, 100, 0.1);
  const auto share = [&](const char* option) {
    return static_cast<std::int64_t>(e.number(option) * static_cast<double>(steps));
  };
  return std::make_unique<optim::WarmupStableDecayLR>(optimizer, steps, share("--warmup"), share("--decay"), 0.0);
}

class Clock {
 public:
  double minutes() const { return passed_ + running(); }
  void pause() { passed_ += running(), begin_.reset(); }
  void go() { begin_ = std::chrono::steady_clock::now(); }

 private:
  double running() const {
    return begin_ ? std::chrono::duration<double>(std::chrono::steady_clock::now() - *begin_).count() / 60 : 0;
  }
  std::optional<std::chrono::steady_clock::time_point> begin_;
  double passed_ = 0;
};

void train(example::Example& e, const Tensor& training, const Tensor& validation, std::int64_t letters) {
  const auto integer = [&](const char* option) { return static_cast<std::int64_t>(e.number(option)); };
  const std::int64_t batch = integer("--batch");
  nn::GPT gpt(model_options(e, letters));
  const std::int64_t length = gpt.options().context_length();
  const auto optimizer = make_optimizer(e, gpt);
  const std::int64_t steps = e.quick ? 20 : integer("--tokens") / (batch * length);
  const auto schedule = make_schedule(e, *optimizer, steps);
  const std::int64_t every = std::max<std::int64_t>(1, steps / integer("--evaluations"));
  const double decay = e.number("--average");
  optim::ExponentialMovingAverage average(gpt.named_parameters(), decay);
  example::Windows windows(training, length);
  plot::TrainingPage& page = e.follow("Shakespeare", steps);
  Clock all, forward, stepping;
  double loss_sum = 0;
  std::int64_t count = 0;
  std::cout << gpt.num_parameters() << " parameters, " << steps << " steps\n";
  for (std::int64_t step = 1; step <= steps; ++step) {
    all.go(), forward.go();
    const example::Letters b(training, windows.next(batch), length);
    optimizer->zero_grad();
    double value = 0;
    {
      const Autocast precision(e.on("--autocast") ? bfloat16 : float32);
      const Tensor loss = gpt.loss(b.input, b.target);
      loss.backward();
      value = loss.item();
    }
    forward.pause(), stepping.go();
    const double norm = optim::clip_grad_norm_(gpt.parameters(), e.number("--clip"));
    optimizer->step();
    schedule->step();
    if (decay > 0) average.update();
    stepping.pause(), all.pause();
    page.add({{"step", step}, {"loss", value}, {"lr", optimizer->lr()}, {"grad_norm", norm}});
    loss_sum += value, ++count;
    if (step % 50 == 0) std::cerr << step << " " << loss_sum / static_cast<double>(count) << '\n';
    if (step % every != 0 && step != steps) continue;
    double validated;
    {
      const Autocast precision(e.on("--autocast") ? bfloat16 : float32);
      validated = example::mean_loss(gpt, validation, length, 32);
    }
    std::cout << "step " << step << "  tokens " << step * batch * length << "  minutes " << all.minutes()
              << "  (forward, backward " << forward.minutes() << ", step " << stepping.minutes() << ")  train "
              << loss_sum / static_cast<double>(count) << "  val " << validated;
    if (decay > 0) {
      const auto scope = average.apply();
      const Autocast precision(e.on("--autocast") ? bfloat16 : float32);
      std::cout << "  averaged " << example::mean_loss(gpt, validation, length, 32);
    }
    std::cout << std::endl;
    loss_sum = 0, count = 0;
    page.add({{"step", step}, {"validation", validated}});
    if (validated <= 1.4697) break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto body = [](example::Example& e) {
    const std::string plays = data::read_text(EXAMPLES_DATA "/tinyshakespeare.txt");
    const text::CharVocabulary alphabet(plays);
    const Tensor text = alphabet.encode(plays);
    const std::int64_t cut = text.numel() * 9 / 10;
    train(e, text[{range(0, cut)}], text[{range(cut, e.quick ? cut + 5000 : text.numel())}], alphabet.size());
  };
  const example::Flags flags = {{"--nanogpt", "nanoGPT's recipe"},
                                {"--muon=on", ""},
                                {"--rate=0.02", ""},
                                {"--adam-rate=0.006", ""},
                                {"--beta1=0.9", ""},
                                {"--momentum=0.95", ""},
                                {"--weight-decay=0.1", ""},
                                {"--ns-steps=3", ""},
                                {"--autocast=on", ""},
                                {"--dropout=0", ""},
                                {"--batch=16", ""},
                                {"--tokens=8e6", ""},
                                {"--warmup=0.02", ""},
                                {"--decay=0.6", ""},
                                {"--qk-norm=on", ""},
                                {"--rotary=on", ""},
                                {"--rms-norm=on", ""},
                                {"--squared-relu=on", ""},
                                {"--value-embeddings=on", ""},
                                {"--head-gates=off", ""},
                                {"--tie=on", ""},
                                {"--embedding-scale=1", ""},
                                {"--logit-cap=15", ""},
                                {"--average=0", ""},
                                {"--clip=1", ""},
                                {"--evaluations=5", ""}};
  return example::run(argc, argv, "Trains nanoGPT's model of Shakespeare to its loss.", body, "", flags);
}
