// A small GPT of letters learns from 29,000 first names and invents new ones. About a minute on two cores. It leaves a
// page in which the model runs, with a slider over its training.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <set>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;

namespace {

constexpr std::int64_t end_token = 0, context = 16, ignored = -100;

// A line break begins and ends each name. Its id is end_token; 1 … 26 are the letters.
const text::CharVocabulary alphabet("\nabcdefghijklmnopqrstuvwxyz");

std::vector<std::string> read_names(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw FileError("cannot read '" + path + "'");
  std::vector<std::string> names;
  for (std::string name; file >> name;)
    if (static_cast<std::int64_t>(name.size()) < context) names.push_back(name);
  return names;
}

struct Batch {
  Tensor input, target;  // [B, T]
  std::int64_t letters;  // targets that count
};

// The input of "ada" is end a d a, and its targets are a d a end. Names are padded to the longest. With causal
// attention no letter attends to the padding, and the loss ignores targets there.
Batch batch_of(const std::vector<std::string>& names, Span<const std::int64_t> which) {
  std::size_t longest = 0;
  for (const std::int64_t i : which) longest = std::max(longest, names[static_cast<std::size_t>(i)].size());
  const auto T = static_cast<std::int64_t>(longest) + 1;
  Batch b{full({which.size(), T}, end_token, int64), full({which.size(), T}, ignored, int64), 0};
  auto input = b.input.edit<std::int64_t>(), target = b.target.edit<std::int64_t>();
  for (std::int64_t row = 0; row < which.size(); ++row) {
    std::int64_t at = row * T;
    for (const char letter : names[static_cast<std::size_t>(which[row])]) {
      target[at] = letter - 'a' + 1;
      input[++at] = letter - 'a' + 1;
    }
    target[at] = end_token;
    b.letters += at - row * T + 1;
  }
  return b;
}

Tensor loss_of(const nn::GPT& model, const Batch& b, nn::Reduction reduction) {
  return nn::cross_entropy(model(b.input), b.target,
                           nn::CrossEntropyOptions().ignore_index(ignored).reduction(reduction));
}

// The mean loss in nats per character.
double validation_loss(nn::GPT& model, const std::vector<std::string>& names, const Tensor& which) {
  const NoGrad no_grad;
  model.eval();
  double nats = 0;
  std::int64_t letters = 0;
  for (const Tensor& some : split(which, 500)) {
    const Batch b = batch_of(names, some.data<std::int64_t>());
    nats += loss_of(model, b, nn::Reduction::sum).item();
    letters += b.letters;
  }
  model.train();
  return nats / static_cast<double>(letters);
}

// Draws `count` names, letter by letter, from the probabilities of the last position.
std::vector<std::string> invent(nn::GPT& model, std::int64_t count) {
  const NoGrad no_grad;
  model.eval();
  Tensor ids = full({count, 1}, end_token, int64);
  while (ids.size(1) < context) {
    const Tensor probabilities = softmax(model(ids)[{range(), -1}]);  // [count, letters]
    const Tensor below = cumsum(probabilities, 1) < rand({count, 1});
    const Tensor next = minimum(sum(below, 1, keepdims), full({1}, alphabet.size() - 1, int64));
    ids = cat({ids, next}, 1);
  }
  std::vector<std::string> names;
  for (std::int64_t row = 0; row < count; ++row) {
    std::string name;
    for (std::int64_t t = 1; t < context && ids[{row, t}].item<std::int64_t>() != end_token; ++t)
      name += static_cast<char>('a' + ids[{row, t}].item<std::int64_t>() - 1);
    names.push_back(name);
  }
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  const auto train = [](example::Example& e) {
    const std::vector<std::string> names = read_names(std::string(EXAMPLES_DATA) + "/names.txt");
    const auto count = static_cast<std::int64_t>(names.size());
    const Tensor order = randperm(count);
    const Tensor training = order[{range(0, count * 9 / 10)}], validation = order[{range(count * 9 / 10)}];

    nn::GPT model(
        nn::GPTOptions().vocab_size(alphabet.size()).context_length(context).num_layers(2).num_heads(4).d_model(64));
    dist::DataParallel parallel(model);
    const int steps = e.quick ? 80 : 1500;
    const double peak = 4e-3;
    optim::AdamW optimizer(model.named_parameters(), peak);
    std::cout << count << " names, " << model.num_parameters() << " parameters, " << steps << " steps\n";
    plot::TrainingPage& page = e.follow("A model of names", steps, model);
    // Records the heads on one name during the training.
    const std::string shown = "katharina";
    std::vector<std::string> letters{"↵"};
    for (const char letter : shown) letters.emplace_back(1, letter);
    const std::int64_t first = 0;
    const Tensor text = batch_of({shown}, Span<const std::int64_t>(&first, 1)).input;
    std::vector<plot::ModelSnapshot> snapshots;
    const auto look = [&](int step) {
      snapshots.push_back(plot::model_snapshot(model, step));
      e.look(
          model, step, [&] { model(text); }, [&](AttentionRecording& r) { r.name_tokens("", letters); });
    };
    look(0);

    const auto start = std::chrono::steady_clock::now();
    double validated = 0;
    for (int step = 1; step <= steps; ++step) {
      // A short warm-up, then a cosine.
      const double warm_up = std::min(1.0, step / 50.0), progress = static_cast<double>(step) / steps;
      optimizer.set_lr(peak * warm_up * (0.02 + 0.49 * (1 + std::cos(std::acos(-1.0) * progress))));
      const Tensor which = parallel.rows(index_select(training, 0, randint(0, training.size(0), {128})));
      const Batch batch = batch_of(names, which.data<std::int64_t>());
      optimizer.zero_grad();
      const double loss =
          parallel.backward(loss_of(model, batch, nn::Reduction::mean), static_cast<double>(batch.letters));
      optimizer.step();
      page.add({{"step", step}, {"loss", loss}, {"lr", optimizer.lr()}});
      if (step % (steps / 20) == 0) look(step);
      if (step % (steps / 10) == 0) {
        validated = validation_loss(model, names, validation);
        page.add({{"step", step}, {"validation", validated}});
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        std::printf("step %4d  training %.3f  validation %.3f nats a character  %5.1f s\n", step, loss, validated,
                    seconds.count());
        std::fflush(stdout);
      }
    }

    std::cout << "\nTen names that are not in the list:\n";
    const std::set<std::string> known(names.begin(), names.end());
    std::set<std::string> invented;
    for (int round = 0; round < 20 && invented.size() < 10; ++round)
      for (const std::string& name : invent(model, 30))
        if (invented.size() < 10 && name.size() > 1 && !known.count(name)) invented.insert(name);
    for (const std::string& name : invented) std::cout << "  " << name << '\n';

    e.model("model", model, alphabet, {"mari", "katharina", "alexander"},
            plot::WorkbenchOptions().title("A model of names").prefix("\n").snapshots(snapshots));
    e.trained("Nats a character");
    e.claim("ten new names were found", invented.size() == 10);
    const double goal = e.quick ? 2.6 : 2.2;
    e.claim("the validation loss is below " + std::to_string(goal).substr(0, 3) + " nats a character",
            validated < goal);
  };
  return example::run(argc, argv, "Trains a language model on first names and invents ten.", train, {example::bf16});
}
