#include <unistd.h>

#include <cstdlib>
#include <fit/fit.hpp>
#include <iostream>
#include <memory>

#include "../../support/padded_sequences.hpp"

// killed_training OUT STEPS SAMPLER [MICROSECONDS]   resumes the training in the folder OUT. A signal kills it after
// the microseconds.
using namespace fit;

int main(int, char** argv) {
  manual_seed(3);
  set_num_threads(1);
  const test::Sequences sequences;
  std::vector<std::int64_t> lengths;
  std::vector<double> weights;
  for (std::int64_t i = 0; i < sequences.size(); ++i)
    lengths.push_back(sequences.length(i)), weights.push_back(1. + static_cast<double>(i));
  const auto batches = data::LoaderOptions()
                           .batch_size(4)
                           .prefetch(2)
                           .collate(data::pad_collate({test::Sequences::padding}))
                           .sampler(argv[3] == std::string("weighted") ? data::weighted_sampler(weights, 33)
                                                                       : data::bucket_sampler(lengths, 3));
  data::DataLoader loader(sequences, batches);

  test::SequenceModel model;
  optim::AdamW optimizer(optim::decay_groups(model, optim::AdamWOptions().lr(1e-2)));
  const auto up = std::make_shared<optim::LinearLR>(optimizer, 0.1, 1, 7);
  const auto down = std::make_shared<optim::CosineAnnealingLR>(optimizer, 50);
  optim::SequentialLR schedule(optimizer, {up, down}, {7});
  optim::ExponentialMovingAverage average(model.named_parameters(), 0.9);

  const auto loss = [&](const data::Batch& b) {
    const std::int64_t T = b[0].size(1);
    const Tensor input = b[0][{range(), range(0, T - 1)}], real = b[1][{range(), range(), range(0, T - 1)}];
    const auto o = nn::CrossEntropyOptions().ignore_index(test::Sequences::padding);
    return nn::cross_entropy(model(input, real), b[0][{range(), range(1, T)}], o);
  };
  const auto options = TrainerOptions()
                           .out(argv[1])
                           .steps(std::atoi(argv[2]))
                           .resume()
                           .save_every(1)
                           .accumulate(2)
                           .clip_norm(1)
                           .display(Display::none);
  Trainer trainer(model, optimizer, loader, loss, options);
  trainer.checkpoint().add("average", average);
  trainer.schedule(schedule).after_step([&] { average.update(); });
  trainer.validation(
      [&] {
        const auto scope = average.apply();
        data::DataLoader whole(sequences, data::LoaderOptions().batch_size(40).collate(batches.collate()));
        return loss(*whole.begin()).item();
      },
      5);
  if (argv[4]) ualarm(static_cast<useconds_t>(std::atoi(argv[4])), 0);
  trainer.run();
  std::cout << trainer.metrics().rows().back().at("loss") << '\n';
}
