#include "fit/nn/training/trainer.hpp"

#include <filesystem>
#include <fstream>
#include <optional>

#include "dist/training.hpp"
#include "io/folder_lock.hpp"
#include "support/padded_sequences.hpp"

// The Trainer and its loader among several ranks.
namespace fit::test {
namespace {

using Catch::Matchers::Contains;

constexpr std::int64_t padding = Sequences::padding;

struct Plan {
  std::string out;
  std::int64_t steps = 20, accumulate = 2, batch_size = 5, prefetch = 2;
  int patience = 0;
  bool resume = false, shard = false, weighted = true;
  DType dtype = float64;
  data::Collated collated = data::Collated::whole;
};

struct Done {
  TrainerResult result;
  std::vector<double> numbers, averages, losses, validations, norms;
};

// What a training of the world gives: attention with dropout, padding, a schedule, clipping, an average of weights.
Done train(const Plan& plan, dist::World& world) {
  const dist::WorldScope scope(world);
  manual_seed(3);
  const Sequences sequences;
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < sequences.size(); ++i) lengths.push_back(sequences.length(i));
  const auto batches = data::LoaderOptions()
                           .batch_size(plan.batch_size)
                           .prefetch(static_cast<int>(plan.prefetch))
                           .collate(data::pad_collate({padding}))
                           .collated(plan.collated)
                           .sampler(data::bucket_sampler(lengths, 3));
  data::DataLoader loader(sequences, batches);
  data::LoaderOptions whole = batches;
  whole.sampler({}).batch_size(6);
  data::DataLoader validation(sequences, whole);

  SequenceModel model;
  model.to(plan.dtype);
  optim::SGD optimizer(optim::decay_groups(model, optim::SGDOptions().lr(0.2).momentum(0.9).weight_decay(1e-3)));
  optim::CosineAnnealingLR schedule(optimizer, 30);
  optim::ExponentialMovingAverage average(model.named_parameters(), 0.9);

  const auto loss = [&](const data::Batch& b) {
    const std::int64_t T = b[0].size(1);
    const Tensor input = b[0][{range(), range(0, T - 1)}], real = b[1][{range(), range(), range(0, T - 1)}];
    const auto o = nn::CrossEntropyOptions().ignore_index(padding);
    return nn::cross_entropy(model(input, real), b[0][{range(), range(1, T)}], o);
  };
  const auto o = TrainerOptions()
                     .out(plan.out)
                     .steps(plan.steps)
                     .accumulate(plan.accumulate)
                     .resume(plan.resume)
                     .clip_norm(1)
                     .display(Display::none)
                     .shard_optimizer(plan.shard)
                     .patience(plan.patience)
                     .parallel(dist::DataParallelOptions().bucket_bytes(2000));
  Trainer trainer(model, optimizer, loader, loss, o);
  trainer.checkpoint().add("average", average);
  trainer.schedule(schedule).after_step([&] { average.update(); });
  if (plan.weighted)
    trainer.weight([](const data::Batch& b) { return sum(b[0][{range(), range(1)}] != padding).item(); });
  trainer.validation(validation, 4);
  Done done;
  done.result = trainer.run();
  done.numbers = numbers_of(model);
  for (const auto& [name, x] : average.state_dict())
    for (const double v : x.to(float64).to_vector<double>()) done.averages.push_back(v);
  for (const auto& row : trainer.metrics().rows()) {
    done.losses.push_back(row.at("loss"));
    done.norms.push_back(row.at("grad_norm"));
    if (row.count("validation")) done.validations.push_back(row.at("validation"));
  }
  return done;
}

Done alone(const Plan& plan) {
  dist::World one;
  return train(plan, one);
}

// A folder that all ranks name alike; rank 0 makes it and takes it away.
struct Folder {
  Folder() {
    if (dist::world().rank() == 0) {
      char name[] = "/tmp/fit_dist_XXXXXX";
      path = mkdtemp(name);
    }
    dist::broadcast(path);
  }
  ~Folder() {
    dist::world().barrier();
    if (dist::world().rank() == 0) std::filesystem::remove_all(path);
  }
  std::string path;
};

void check_equal(const Done& a, const Done& b, double tolerance) {
  CHECK(distance(a.numbers, b.numbers) <= tolerance);
  CHECK(distance(a.averages, b.averages) <= tolerance);
  CHECK(distance(a.losses, b.losses) <= tolerance);
  CHECK(distance(a.norms, b.norms) <= tolerance);
  CHECK(distance(a.validations, b.validations) <= tolerance);
  CHECK(a.result.step == b.result.step);
  CHECK(a.result.end == b.result.end);
}

}  // namespace

TEST_CASE("a loader's batches are divided", "[dist]") {
  const Tensor x = arange(11).reshape({11, 1});
  auto o = data::LoaderOptions().batch_size(4).shuffle().seed(5);
  for (const int prefetch : {0, 2})
    for (const bool padded : {false, true}) {
      o.prefetch(prefetch).collate(padded ? data::pad_collate({-1}) : data::Collate(data::stack_collate));
      data::DataLoader whole(data::TensorDataset({x}), o);
      std::vector<data::DataLoader*> loaders;
      std::vector<std::unique_ptr<data::DataLoader>> owners;
      for (int r = 0; r < 5; ++r) {
        owners.push_back(std::make_unique<data::DataLoader>(data::TensorDataset({x}), o));
        owners.back()->divide(r, 5);
        CHECK(owners.back()->size() == whole.size());
      }
      std::vector<data::DataLoader::Iterator> at;
      for (auto& l : owners) at.push_back(l->begin());
      for (const data::Batch& b : whole) {
        std::vector<Tensor> parts;
        for (std::size_t r = 0; r < owners.size(); ++r) {
          const dist::Rows rows = owners[r]->rows();
          CHECK(rows.of == b[0].size(0));
          if (rows.count > 0)
            parts.push_back((*at[r])[0]);
          else
            CHECK((*at[r])[0].equal(b[0][{range(-1)}]));
          CHECK(owners[r]->state_dict()[2].second.equal(whole.state_dict()[2].second));
          ++at[r];
        }
        CHECK(cat(parts, 0).equal(b[0]));
      }
    }
  data::DataLoader loader(data::TensorDataset({x}), o);
  CHECK_THROWS_WITH(loader.divide(2, 2), Contains("rank is 2 of 2"));
}

TEST_CASE("several ranks train as the Trainer of one process does", "[dist]") {
  Plan plan;
  SECTION("padded, with dropout, counted by targets, two batches a step, an uneven last one") {}
  SECTION("one batch a step") { plan.accumulate = 1; }
  SECTION("fewer rows than ranks") { plan.batch_size = 3, plan.prefetch = 0; }
  SECTION("divided averages") { plan.shard = true; }
  SECTION("ended early") { plan.patience = 1, plan.steps = 200; }
  const Done together = train(plan, dist::world()), single = alone(plan);
  check_equal(together, single, 1e-9);
  CHECK(same_on_all_ranks(together.numbers));
  CHECK(same_on_all_ranks(together.averages));
  CHECK(same_on_all_ranks(together.validations));
  CHECK(train(plan, dist::world()).numbers == together.numbers);
  plan.dtype = float32;
  if (plan.patience == 0) check_equal(train(plan, dist::world()), alone(plan), 1e-4);
}

TEST_CASE("rank 0 alone writes, and any number of ranks goes on", "[dist]") {
  const Folder folder;
  Plan plan;
  plan.out = folder.path + "/a";
  const Done whole = train(plan, dist::world());
  // A part by all, the rest by all; and the rest alone, from the same file.
  plan.out = folder.path + "/b", plan.steps = 9;
  train(plan, dist::world());
  dist::world().barrier();
  if (dist::world().rank() == 0) std::filesystem::copy(folder.path + "/b", folder.path + "/c");
  dist::world().barrier();
  plan.steps = 20, plan.resume = true;
  plan.shard = true;
  const Done rest = train(plan, dist::world());
  CHECK(rest.numbers == whole.numbers);
  CHECK(rest.averages == whole.averages);
  CHECK(same_on_all_ranks(rest.numbers));
  if (dist::world().rank() == 0) {
    plan.out = folder.path + "/c", plan.shard = false;
    const Done single = alone(plan);
    CHECK(distance(single.numbers, whole.numbers) <= 1e-9);
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path + "/a")) files += entry.is_regular_file();
    CHECK(files == 4);
    std::ifstream metrics(folder.path + "/b/metrics.jsonl");
    int lines = 0;
    for (std::string line; std::getline(metrics, line);) ++lines;
    CHECK(lines == 20);
  }
}

TEST_CASE("what ranks must have alike", "[dist]") {
  dist::World& w = dist::world();
  if (w.size() == 1) return;
  manual_seed(3);
  const Tensor x = ones({8, 2});
  const auto run = [&](std::uint64_t seed) {
    const auto o = data::LoaderOptions().batch_size(4).seed(seed);
    data::DataLoader loader(data::TensorDataset({x}), o);
    nn::Linear model(2, 1);
    optim::SGD optimizer(model.named_parameters(), 0.1);
    const auto options = TrainerOptions().steps(1).display(Display::none);
    Trainer trainer(
        model, optimizer, loader, [&](const data::Batch& b) { return sum(model(b[0])); }, options);
    trainer.run();
  };
  CHECK_THROWS_WITH(run(w.rank() == 1 ? 8 : 7), Contains("rank 1 has another loader.seed than rank 0"));
  if (w.rank() == 1) manual_seed(4);
  CHECK_THROWS_WITH(run(7), Contains("rank 1 has another generator.seed_and_calls") && Contains("manual_seed"));
  manual_seed(3);
  CHECK_NOTHROW(run(7));
}

TEST_CASE("a loss that is not finite after the sum is told by all alike", "[dist]") {
  dist::World& w = dist::world();
  const Tensor x = ones({8, 2});
  data::DataLoader loader(data::TensorDataset({x}), 8);
  nn::Linear model(2, 1);
  optim::SGD optimizer(model.named_parameters(), 0.1);
  const auto options = TrainerOptions().steps(3).display(Display::none);
  const auto loss = [&](const data::Batch& b) {
    const Tensor y = sum(model(b[0]));
    return w.rank() == w.size() - 1
               ? record("bad", {y}, y.detach(), keep::nothing, [](Backward& b) { b.give(0, b.dy() * std::nan("")); })
               : y;
  };
  Trainer trainer(model, optimizer, loader, loss, options);
  CHECK_THROWS_AS(trainer.run(), dist::AgreedError);
  CHECK_THROWS_WITH(trainer.run(), Contains("the gradient of weight is not finite in step 1"));
}

TEST_CASE("a folder that another training holds is refused on all ranks alike", "[dist]") {
  const Folder folder;
  Plan plan;
  plan.out = folder.path;
  plan.steps = 2;
  {
    std::optional<io::FolderLock> other;
    if (dist::world().rank() == 0) other.emplace(folder.path);
    std::string text;
    try {
      train(plan, dist::world());
    } catch (const dist::AgreedError& e) {
      text = e.what();
    }
    CHECK_THAT(text, Contains("[Trainer] another training writes to the folder " + folder.path + ": process "));
    std::string first = text;
    dist::broadcast(first);
    CHECK(text == first);
    dist::world().barrier();
  }
  CHECK(train(plan, dist::world()).result.step == 2);
}

}  // namespace fit::test
