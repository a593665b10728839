// A GPT learns to add numbers of up to three digits, written as text: "123+989=2111". The digits of the sum are in
// reverse order, as in addition by hand. About three minutes on two cores.
#include <iostream>

#include "fit/fit.hpp"
#include "fit/tensor/xtensor.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

constexpr std::int64_t largest = 999, digits = 3;
const std::string alphabet = "0123456789+=";
constexpr std::int64_t question_length = 2 * digits + 2, answer_length = digits + 1;
constexpr std::int64_t ignored = -100;

using Whole = xt::xarray<std::int64_t>;

// The digits of numbers [B] as tokens, one column for each power of ten.
Whole digits_of(const Whole& numbers, const Whole& powers) {
  return xt::view(numbers, xt::all(), xt::newaxis()) / powers % 10;
}

// Rows "a+b=" [B, question_length] and the reversed sums [B, answer_length] for pairs a * 1000 + b.
struct Problems {
  Tensor questions, answers;

  explicit Problems(const Tensor& pairs) {
    const auto pair = as_xtensor<std::int64_t>(pairs);
    const Whole a = pair / (largest + 1), b = pair % (largest + 1), powers{100, 10, 1};
    const auto column = [&](char sign) { return Whole(Whole::shape_type{a.size(), 1}, alphabet.find(sign)); };
    questions = from_xtensor(
        xt::concatenate(xt::xtuple(digits_of(a, powers), column('+'), digits_of(b, powers), column('=')), 1));
    answers = from_xtensor(digits_of(a + b, {1, 10, 100, 1000}));
  }
};

std::string text_of(const Tensor& ids) {
  std::string text;
  for (const std::int64_t id : ids.data<std::int64_t>()) text += alphabet[static_cast<std::size_t>(id)];
  return text;
}

// The most likely digit, answer_length times.
Tensor answer(const nn::GPT& model, const Tensor& questions) {
  Tensor ids = questions;
  for (std::int64_t i = 0; i < answer_length; ++i)
    ids = cat({ids, argmax(model(ids)[{range(), -1}], -1).unsqueeze(1)}, 1);
  return ids[{range(), range(question_length)}];
}

// The percentage of sums with all digits right.
double exact_match(nn::GPT& model, const Tensor& pairs) {
  const NoGrad no_grad;
  model.eval();
  double right = 0;
  for (const Tensor& some : split(pairs, 500)) {
    const Problems p(some);
    right += sum(all(answer(model, p.questions) == p.answers, -1).to(float32)).item();
  }
  model.train();
  return 100 * right / static_cast<double>(pairs.numel());
}

}  // namespace

int main(int argc, char** argv) {
  const auto train = [](example::Example& e) {
    // All pairs in random order. The last ones are for the test.
    const Tensor pairs = randperm((largest + 1) * (largest + 1));
    const Tensor test = pairs[{range(e.quick ? -100 : -10000)}], known = pairs[{range(0, -10000)}];

    const auto o = nn::GPTOptions()
                       .vocab_size(static_cast<std::int64_t>(alphabet.size()))
                       .context_length(question_length + answer_length)
                       .num_layers(2)
                       .num_heads(4)
                       .d_model(128);
    nn::GPT model(o);
    dist::DataParallel parallel(model);
    const int steps = e.quick ? 20 : 3000, batch_size = 128;
    optim::AdamW optimizer(model.named_parameters());
    optim::OneCycleLR schedule(optimizer, 1e-3, steps, optim::OneCycleOptions().pct_start(0.05));
    std::cout << model.num_parameters() << " parameters, " << known.numel() << " pairs to learn from\n";

    plot::TrainingPage& page = e.follow("Addition", steps, model);
    // Records the heads on 123+989=2111 during the training.
    const Problems shown(full({1}, 123 * (largest + 1) + 989, int64));
    const Tensor problem = cat({shown.questions, shown.answers}, 1)[{range(), range(0, -1)}];
    std::vector<std::string> tokens;
    for (const char c : text_of(problem)) tokens.emplace_back(1, c);
    const auto film = [&](int step) {
      e.look(
          model, step, [&] { model(problem); }, [&](AttentionRecording& heads) { heads.name_tokens("", tokens); });
    };
    film(0);
    for (int step = 1; step <= steps; ++step) {
      const Problems p(parallel.rows(index_select(known, 0, randint(0, known.numel(), {batch_size}))));
      // The model reads everything except the last digit. Only the digits of the sum count in the loss.
      const Tensor text = cat({p.questions, p.answers}, 1);
      const Tensor silent = full({text.size(0), question_length - 1}, ignored, int64);
      optimizer.zero_grad();
      const double loss =
          parallel.backward(model.loss(text[{range(), range(0, -1)}], cat({silent, p.answers}, 1), ignored));
      const double norm = optim::clip_grad_norm_(model.parameters(), 1.0);
      page.add({{"step", step}, {"loss", loss}, {"lr", optimizer.lr()}, {"grad_norm", norm}});
      optimizer.step();
      schedule.step();
      if (step % (steps / 20) == 0) film(step);
      if (step % (steps / 10) == 0) e.progress("step", step, steps, "loss", loss);
    }

    const NoGrad no_grad;
    model.eval();
    std::cout << "\nThree sums that it has not seen, their last digit first:\n";
    const Problems three(test[{range(0, 3)}]);
    for (std::int64_t i = 0; i < 3; ++i)
      std::cout << "  " << text_of(three.questions[i]) << text_of(answer(model, three.questions)[i]) << '\n';
    e.trained("Nats a digit");
    e.at_least("sums of unseen pairs that are right in all digits, in percent", exact_match(model, test), 99);
  };
  return example::run(argc, argv, "Trains a GPT to add numbers of up to three digits.", train, {example::bf16});
}
