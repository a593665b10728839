#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fit/fit.hpp>
#include <fit/mpi.hpp>
#include <fstream>
#include <iostream>
#include <thread>

// ranks_training OUT STEPS [throw|caught|kill|odd RANK | slow MILLISECONDS]   trains, going on where the folder's last
// run ended, and leaves each rank's process number in OUT. In step 5 that rank throws (main() catches it or not), or
// kills itself; odd: its model has another shape; slow: each step takes so long. ranks_training compare A B TOLERANCE
// whether the models in two checkpoints are equal up to that
using namespace fit;

namespace {

struct Model : nn::Layer {
  explicit Model(std::int64_t width) : out(width, 12) {}
  Tensor forward(const Tensor& ids) const { return out(dropout(attention(token(ids)))); }  // [B, T] -> [B, T, 12]
  FIT_FIELDS(token, attention, dropout, out)
  nn::Embedding token{12, 16};
  nn::CausalSelfAttention attention{16, 2, 0.2};
  nn::Dropout dropout{0.2};
  nn::Linear out;
};

int compare(const char* a, const char* b, double tolerance) {
  const StateDict one = checkpoint_part(a, "model"), other = checkpoint_part(b, "model");
  double most = 0;
  for (std::size_t i = 0; i < one.size(); ++i) most = std::max(most, max(abs(one[i].second - other[i].second)).item());
  std::cout << "they differ by " << most << '\n';
  return most <= tolerance ? 0 : 1;
}

void train(int argc, char** argv) {
  const dist::Mpi mpi;
  const std::string out = argv[1], fault = argc > 3 ? argv[3] : "";
  const int rank = dist::world().rank();
  const bool me = argc > 4 && rank == std::atoi(argv[4]);
  std::ofstream(out + "/pid." + std::to_string(rank)) << getpid() << std::endl;

  manual_seed(3);
  const Tensor ids = randint(0, 12, {23, 9});
  const auto batches = data::LoaderOptions().batch_size(5).shuffle().prefetch(1);
  data::DataLoader loader(data::TensorDataset({ids[{range(), range(0, 8)}], ids[{range(), range(1)}]}), batches);
  Model model(fault == "odd" && me ? 8 : 16);
  optim::SGD optimizer(model.named_parameters(), 0.1, 0.9);
  optim::CosineAnnealingLR schedule(optimizer, 100);
  optim::ExponentialMovingAverage average(model.named_parameters(), 0.9);
  std::int64_t steps = 0;
  const auto o = TrainerOptions().out(out).steps(std::atoi(argv[2])).resume().save_every(1).display(Display::none);
  Trainer trainer(
      model, optimizer, loader,
      [&](const data::Batch& b) {
        if (fault == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[4])));
        if (me && ++steps == 5 && (fault == "throw" || fault == "caught"))
          throw Error("[model] the cat sat on the mat");
        if (me && steps == 5 && fault == "kill") raise(SIGKILL);
        return nn::cross_entropy(model(b[0]), b[1]);
      },
      o);
  trainer.checkpoint().add("average", average);
  trainer.schedule(schedule).after_step([&] { average.update(); });
  const TrainerResult result = trainer.run();
  if (rank == 0)
    std::cout << "ended in step " << result.step
              << (result.end == TrainerResult::End::interrupted ? ": interrupted" : ": done") << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argv[1] == std::string("compare")) return compare(argv[2], argv[3], std::atof(argv[4]));
  if (argc < 4 || argv[3] != std::string("caught")) {
    train(argc, argv);
    return 0;
  }
  try {
    train(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << std::string("main() caught: ") + e.what() + '\n';  // at once: mpirun writes meanwhile
    return 1;
  }
}
