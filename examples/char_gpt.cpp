// A character-level GPT learns to write like Shakespeare. Sized for a minute on two cores.
//
// nanoGPT's configuration for a CPU: 4 layers, 4 heads, 128 features, a context of 64 letters; no biases, no dropout,
// tied embeddings; initial weights from N(0, 0.02), smaller for residual projections; 2000 steps of 12 windows; AdamW
// with betas 0.9 and 0.99 and weight decay 0.1 for matrices; gradients clipped to norm 1; linear warm-up of 100 steps,
// then a cosine to 1e-4.
// Differences: the peak rate is 2e-3 instead of 1e-3 (with 1e-3 this ends at 1.905, and nanoGPT's model in PyTorch at
// 1.901 and 1.920); no window repeats before all were used; GELU uses the tanh approximation.
#include <iostream>
#include <memory>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

constexpr std::int64_t context = 64, batch_size = 12;

// The `context` letters from each of `starts` [B], and the next letter of each: [B, T] twice.
struct Batch {
  Tensor input, target;

  Batch(const Tensor& text, const Tensor& starts) {
    const Tensor at = starts.unsqueeze(1) + arange(context);
    const auto letters = [&](const Tensor& where) {
      return reshape(index_select(text, 0, where.flatten()), at.shape());
    };
    input = letters(at);
    target = letters(at + 1);
  }
};

// The starts of windows in random order. No window repeats within an epoch. Each epoch has another offset.
class Windows {
 public:
  explicit Windows(const Tensor& text) : letters_(text.numel()) {}
  Tensor next() {  // [B]
    if (!starts_.defined() || read_ + batch_size > starts_.numel()) {
      const std::int64_t count = letters_ / context - 1;
      starts_ = context * randperm(count) + randint(0, context, {1});
      read_ = 0;
    }
    read_ += batch_size;
    return starts_[{range(read_ - batch_size, read_)}];
  }

 private:
  std::int64_t letters_, read_ = 0;
  Tensor starts_;
};

// The mean loss in nats per letter over all windows of the text.
double mean_loss(nn::GPT& model, const Tensor& text) {
  const NoGrad no_grad;
  model.eval();
  double total = 0;
  const dist::Rows windows((text.numel() - 1) / context, dist::world().rank(), dist::world().size());
  for (const Tensor& some : split(context * (windows.first + arange(windows.count)), 128)) {
    const Batch b(text, some);
    total += model.loss(b.input, b.target).item() * static_cast<double>(some.numel());
  }
  model.train();
  const auto count = static_cast<double>(windows.count);
  return dist::mean(total / count, count);
}

// Draws letter by letter, from the probabilities after the last `context` letters.
Tensor write(nn::GPT& model, Tensor ids, std::int64_t count) {
  const NoGrad no_grad;
  model.eval();
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor seen = ids[{range(-context)}].unsqueeze(0);
    const Tensor probabilities = softmax(model(seen)[{0, -1}] / 0.8);  // temperature 0.8
    const Tensor next = sum(cumsum(probabilities, 0) < rand({1}), 0, keepdims);
    ids = cat({ids, minimum(next, full({1}, probabilities.numel() - 1, int64))});
  }
  return ids;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Trains a GPT of letters on Shakespeare's plays.", [](example::Example& e) {
    const std::string plays = data::read_text(EXAMPLES_DATA "/tinyshakespeare.txt");
    const text::CharVocabulary alphabet(plays);
    const Tensor text = alphabet.encode(plays);
    const std::int64_t cut = text.numel() * 9 / 10;
    const Tensor training = text[{range(0, cut)}];
    const Tensor validation = text[{range(cut, e.quick ? cut + 5000 : text.numel())}];

    const auto o = nn::GPTOptions()
                       .vocab_size(alphabet.size())
                       .context_length(context)
                       .num_layers(4)
                       .num_heads(4)
                       .d_model(128)
                       .bias(false);
    nn::GPT model(o);
    dist::DataParallel parallel(model);

    // Matrices have weight decay; the scales of norms have none.
    const auto [matrices, scales] = optim::split_by_decay(model);
    // The peak rate was chosen on the last tenth of the training text: 2e-3 ends at 1.75, 1e-3 at 1.87 nats per letter.
    const auto decayed = optim::AdamWOptions().lr(2e-3).beta2(0.99).weight_decay(0.1);
    optim::AdamWOptions others = decayed;
    others.weight_decay(0);
    optim::AdamW optimizer({{matrices, decayed}, {scales, others}});

    // Linear warm-up, then a cosine.
    const int steps = e.quick ? 20 : 2000, warm_up = e.quick ? 5 : 100;
    const auto up = std::make_shared<optim::LinearLR>(optimizer, 1.0 / (warm_up + 1), 1.0, warm_up);
    const auto down = std::make_shared<optim::CosineAnnealingLR>(optimizer, steps - warm_up, 1e-4);
    optim::SequentialLR schedule(optimizer, {up, down}, {warm_up});

    Windows windows(training);
    plot::TrainingPage& page = e.follow("Shakespeare", steps);
    // Records the heads on a line of the validation text during the training.
    const Tensor line = validation[{range(0, 40)}];
    std::vector<std::string> letters;
    for (const char c : alphabet.decode(line)) letters.emplace_back(1, c);
    const auto film = [&](int step) {
      e.look(
          model, step, [&] { model(line.unsqueeze(0)); },
          [&](AttentionRecording& heads) { heads.name_tokens("", letters); });
    };
    film(0);
    double validated = 0;
    for (int step = 0; step < steps; ++step) {
      const Batch batch(training, parallel.rows(windows.next()));
      optimizer.zero_grad();
      const double loss = parallel.backward(model.loss(batch.input, batch.target));
      const double norm = optim::clip_grad_norm_(model.parameters(), 1.0);
      page.add({{"step", step + 1}, {"loss", loss}, {"lr", optimizer.lr()}, {"grad_norm", norm}});
      optimizer.step();
      schedule.step();
      if ((step + 1) % (steps / 20) == 0) film(step + 1);
      if ((step + 1) % (steps / 5) == 0) {
        validated = mean_loss(model, validation);
        page.add({{"step", step + 1}, {"validation", validated}});
        e.progress("step", step + 1, steps, "validation loss", validated);
      }
    }

    e.picture("loss",
              page.loss(plot::LineOptions().title("Shakespeare").xlabel("Step").ylabel("Nats a letter").smooth()));
    e.at_most("loss over the whole validation tenth, in nats a letter", validated, 1.90);
    e.beside_int8(
        "loss", model, [&](nn::GPT& m) { return mean_loss(m, validation); }, validated, 0.01);
    std::cout << '\n' << alphabet.decode(write(model, alphabet.encode("\n"), e.quick ? 50 : 500)) << '\n';
  });
}
