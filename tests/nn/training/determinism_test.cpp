#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>

#include "fit/nn.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/variants.hpp"

// 50 steps of a transformer with dropout: parameters, averages of the optimiser and random state are the same to the
// bit, whatever the threads, the load, what memory held before, and where it was interrupted.
namespace fit::test::determinism_test {
namespace {

// FNV-1a, of everything that a training leaves behind.
std::uint64_t hash_of(const StateDict& state) {
  std::uint64_t h = 14695981039346656037u;
  const auto add = [&](const void* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      h = (h ^ static_cast<const unsigned char*>(data)[i]) * std::uint64_t{1099511628211u};
  };
  for (const auto& [name, x] : state) {
    add(name.data(), name.size());
    add(x.raw(), static_cast<std::size_t>(x.numel()) * size_of(x.dtype()));
  }
  return h;
}

nn::GPTOptions options() {
  return nn::GPTOptions().vocab_size(41).context_length(24).d_model(48).num_heads(4).num_layers(2).dropout(0.1);
}

// With all that a checkpoint holds.
struct Training {
  explicit Training(std::uint64_t seed = 7) {
    manual_seed(seed);
    gpt.emplace(options());
    optimizer.emplace(optim::decay_groups(*gpt, optim::AdamWOptions().lr(1e-3)));
    Generator g(3);
    const auto batches = data::LoaderOptions().batch_size(8).shuffle().seed(5);
    loader.emplace(data::TensorDataset({randint(0, 41, {60, 24}, g), randint(0, 41, {60, 24}, g)}), batches);
    checkpoint.add("model", *gpt).add("optimizer", *optimizer).add("loader", *loader);
  }
  void run(int steps) {
    while (done < steps)
      for (const data::Batch& b : *loader) {
        optimizer->zero_grad();
        gpt->loss(b[0], b[1]).backward();
        optim::clip_grad_norm_(gpt->named_parameters(), 1.0);
        optimizer->step();
        if (++done == steps) break;
      }
  }
  std::uint64_t hash() const { return hash_of(checkpoint.state_dict()); }

  std::optional<nn::GPT> gpt;
  std::optional<optim::AdamW> optimizer;
  std::optional<data::DataLoader> loader;
  Checkpoint checkpoint;
  int done = 0;
};

constexpr int all_steps = 50;

std::uint64_t trained() {
  Training t;
  t.run(all_steps);
  return t.hash();
}

struct Threads {
  int before = num_threads();
  ~Threads() { set_num_threads(before); }
};

// Fills what the cache gives with NaN, in sizes and an order of its own, and leaves some of it there.
std::vector<Tensor> disturbed_memory(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> held;
  for (int i = 0; i < 400; ++i) {
    const Tensor x = full({static_cast<std::int64_t>(random() % 5000)}, std::nan(""), random() % 2 ? float32 : float64);
    if (random() % 3 == 0) held.push_back(x);
    if (random() % 5 == 0 && !held.empty()) held.erase(held.begin());
  }
  return held;
}

}  // namespace

TEST_CASE("50 steps of a transformer with dropout have one result, whatever the number of threads", "[determinism]") {
  const Threads restore;
  set_num_threads(1);
  const std::uint64_t expected = trained();
  Training one_less;
  one_less.run(all_steps - 1);
  CHECK(one_less.hash() != expected);
  for (const int threads : {1, 2, 3, 5, 8}) {
    INFO(threads << " threads");
    set_num_threads(threads);
    CHECK(trained() == expected);
  }
}

TEST_CASE("… under load, after any history of allocations, and resumed", "[determinism]") {
  const Threads restore;
  set_num_threads(2);
  const std::uint64_t expected = trained();
  SECTION("while other threads compute") {
    std::atomic<bool> stop{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 3; ++i)
      others.emplace_back([&] {
        const Tensor a = ones({64, 64});
        while (!stop) matmul(a, a);
      });
    CHECK(trained() == expected);
    stop = true;
    for (std::thread& o : others) o.join();
  }
  SECTION("in memory that held something else") {
    for (const unsigned seed : {1u, 2u}) {
      const std::vector<Tensor> held = disturbed_memory(seed);
      CHECK(trained() == expected);
    }
  }
  SECTION("without a cache of memory") {
    set_cache_limit(0);
    const std::uint64_t other = trained();
    set_cache_limit(std::int64_t{2} << 30);
    CHECK(other == expected);
  }
  SECTION("interrupted and gone on with elsewhere") {
    const Directory d;
    Training first;
    first.run(23);
    first.checkpoint.save(d.file("c"));
    set_num_threads(3);
    Training second(99);  // of another start, all of which is replaced
    second.done = 23;
    second.checkpoint.load(d.file("c"));
    second.run(all_steps);
    CHECK(second.hash() == expected);
  }
  SECTION("another seed is another training") {
    Training other(8);
    other.run(all_steps);
    CHECK(other.hash() != expected);
  }
}

TEST_CASE("one model may be asked by several threads at once, with the bits that it gives alone", "[determinism]") {
  manual_seed(1);
  nn::GPT gpt(options());
  gpt.eval();
  const auto answer = [&](int i) {
    const NoGrad no_grad;
    Generator g(static_cast<std::uint64_t>(i));
    return gpt(randint(0, 41, {3, 20}, g));
  };
  constexpr int askers = 6;
  std::vector<Tensor> alone, together(askers);
  for (int i = 0; i < askers; ++i) alone.push_back(answer(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < askers; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) together[static_cast<std::size_t>(i)] = answer(i);
    });
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < askers; ++i)
    CHECK(same_bits(together[static_cast<std::size_t>(i)], alone[static_cast<std::size_t>(i)]));
}

}  // namespace fit::test::determinism_test
