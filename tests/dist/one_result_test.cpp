#include "support/oracles/one_result.hpp"

#include "dist/training.hpp"
#include "fit/nn/optim/schedule.hpp"

// A training has one result, to the bit, on N ranks and in one process that accumulates N batches, on every instruction
// set.
namespace fit::test::one_result_test {
namespace {

// Each rank, or each accumulated batch, has four rows.
std::vector<Tensor> trained(dist::World& world, std::int64_t batch, std::int64_t accumulate) {
  const dist::WorldScope scope(world);
  manual_seed(2);
  nn::GPT gpt(small_gpt(0));
  optim::AdamW optimizer(optim::decay_groups(gpt, optim::AdamWOptions().lr(3e-3)));
  optim::CosineAnnealingLR schedule(optimizer, 20);
  Generator g(3);
  const Tensor ids = randint(0, 11, {48, 10}, g);
  data::DataLoader loader(data::TensorDataset({slice(ids, 1, 0, 9), slice(ids, 1, 1, 10)}), batch);
  Trainer trainer(
      gpt, optimizer, loader, [&](const data::Batch& b) { return gpt.loss(b[0], b[1]); },
      TrainerOptions().steps(20).accumulate(accumulate).clip_norm(0.5).display(Display::none));
  trainer.schedule(schedule).run();
  std::vector<Tensor> all;
  for (const auto& [name, p] : gpt.named_parameters()) all.push_back(p.detach());
  for (const auto& row : trainer.metrics().rows())
    all.push_back(tensor({row.at("loss"), row.at("grad_norm")}, float64));
  return all;
}

}  // namespace

TEST_CASE("one result: a GPT trained on ranks, and in as many accumulated batches", "[dist][one_result]") {
  dist::World one;
  const std::int64_t parts = dist::world().size();
  const std::string name = "GPT of " + std::to_string(parts) + " parts of a batch";
  check_one_result(name, [&] { return trained(one, 4, parts); });
  check_one_result(name, [&] { return trained(dist::world(), 4 * parts, 1); });
}

}  // namespace fit::test::one_result_test
