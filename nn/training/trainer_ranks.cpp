// The Trainer with several ranks.
#include "dist/agree.hpp"
#include "fit/nn/training/trainer.hpp"
#include "training/training_files.hpp"

namespace fit {

// Sends the values of rank 0 to all ranks. Checks that all other parts agree.
void Trainer::begin_ranks() {
  if (parallel_) return;
  parallel_ = std::make_unique<dist::DataParallel>(model_, optimizer_, options_.parallel(), world_);
  if (world_.size() == 1) return;
  StateDict averages = optimizer_.state_dict();
  dist::broadcast(averages, world_);
  if (world_.rank() != 0) optimizer_.load_state_dict(averages);
  StateDict rest;
  for (const auto& [name, x] : checkpoint_.state_dict())
    if (name.rfind("model.", 0) != 0 && name.rfind("optimizer.", 0) != 0) rest.emplace_back(name, x);
  dist::check_same("Trainer", rest, "every rank must be seeded alike (manual_seed) and make the same parts", world_);
  if (options_.shard_optimizer()) optimizer_.shard(world_);
  loader_.divide(world_.rank(), world_.size());
  if (validation_.loader) validation_.loader->divide(world_.rank(), world_.size());
}

// At the end of a step, the ranks agree on the number of tokens, on interruption of any rank, and on saving (rank 0
// decides).
void Trainer::agree(std::int64_t& tokens) {
  save_due_ = files_->due();
  if (world_.size() == 1) return;
  const double mine = loader_.rows().count == 0 ? 0 : static_cast<double>(tokens);
  const std::vector<double> all =
      dist::sum({mine, InterruptGuard::interrupted() ? 1. : 0., save_due_ ? 1. : 0.}, world_);
  tokens = static_cast<std::int64_t>(all[0]);
  interrupted_ = all[1] > 0;
  save_due_ = all[2] > 0;
}

}  // namespace fit
