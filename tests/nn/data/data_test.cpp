#include "fit/nn/data/data.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <stdexcept>
#include <thread>

#include "fit/attention/attention.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/ops/ops.hpp"
#include "nn/data/numbered.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Datasets, batches, and the order in which they come.
namespace fit::test::data_test {
namespace {

using Catch::Matchers::Contains;
using data::Batch;
using data::DataLoader;
using data::TensorDataset;

// Examples that a function makes.
struct Made : data::Dataset {
  explicit Made(Callable<data::Example(std::int64_t)> f, std::int64_t n = 256) : make(std::move(f)), count(n) {}
  std::int64_t size() const override { return count; }
  data::Example get(std::int64_t i) const override { return make(i); }
  Callable<data::Example(std::int64_t)> make;
  std::int64_t count;
};

struct Failing : data::Dataset {
  std::int64_t size() const override { return 6; }
  data::Example get(std::int64_t i) const override {
    if (i == 4) throw FileError("example 4 can't be read");
    return {full({}, i, int64)};
  }
};

}  // namespace

TEST_CASE("data: a TensorDataset gives rows", "[data]") {
  const TensorDataset d({tensor({{1., 2.}, {3., 4.}, {5., 6.}}), arange(3)});
  CHECK(d.size() == 3);
  CHECK(same_bits(d.get(1)[0], tensor({3., 4.})));
  CHECK(d.get(2)[1].item<int>() == 2);
  CHECK_THROWS_WITH(d.get(3), Contains("there is no example 3: there are 3"));
  CHECK_THROWS_WITH(d.get(-1), Contains("there is no example -1"));
  CHECK_THROWS_WITH(TensorDataset({}), Contains("at least one is needed"));
  CHECK_THROWS_WITH(TensorDataset({ones({3, 2}), ones({2})}),
                    Contains("[3, 2] and [2]: the first sizes must be equal"));
  CHECK_THROWS_WITH(TensorDataset({tensor(1.)}), Contains("shape []"));
}

TEST_CASE("data: batches in order, the last one smaller or left out", "[data]") {
  DataLoader loader(numbers(7), 3);
  CHECK(loader.size() == 3);
  CHECK(batches(loader) == std::vector<Ids>{{0, 1, 2}, {3, 4, 5}, {6}});
  CHECK(batches(loader) == std::vector<Ids>{{0, 1, 2}, {3, 4, 5}, {6}});
  DataLoader even(numbers(7), data::LoaderOptions().batch_size(3).drop_last());
  CHECK(even.size() == 2);
  CHECK(batches(even) == std::vector<Ids>{{0, 1, 2}, {3, 4, 5}});
}

TEST_CASE("data: shuffling depends on seed and epoch alone", "[data]") {
  auto options = data::LoaderOptions().batch_size(4).shuffle().seed(5);
  DataLoader loader(numbers(50), options);
  const auto first = batches(loader), second = batches(loader);
  CHECK(loader.epoch() == 1);
  CHECK(sorted(joined(first)) == count_to(50));
  CHECK(joined(first) != count_to(50));
  CHECK(first != second);

  for (const int prefetch : {0, 1, 3}) {
    options.prefetch(prefetch);
    DataLoader again(numbers(50), options);
    (void)rand({3});  // other random numbers don't matter
    CHECK(batches(again) == first);
    CHECK(batches(again) == second);
  }
  options.seed(6);
  DataLoader other(numbers(50), options);
  CHECK(batches(other) != first);
  // Without a seed it is the default generator's.
  options.seed({});
  manual_seed(5);
  DataLoader by_default(numbers(50), options);
  CHECK(batches(by_default) == first);
}

TEST_CASE("data: a loop that is left early is followed by a new epoch", "[data]") {
  for (const int prefetch : {0, 2}) {
    DataLoader loader(numbers(5), data::LoaderOptions().batch_size(1).prefetch(prefetch));
    for (const Batch& b : loader)
      if (b[0].item<int>() == 2) break;
    CHECK(loader.epoch() == 0);
    CHECK(joined(batches(loader)) == count_to(5));
    CHECK(loader.epoch() == 1);
  }
}

TEST_CASE("data: an epoch for which the sampler draws nothing is followed by another draw", "[data]") {
  int draws = 0;
  const data::Sampler every_third = [&](Generator&, std::int64_t) {
    return ++draws % 3 == 1 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{};
  };
  DataLoader loader(TensorDataset({arange(4)}), data::LoaderOptions().batch_size(2).sampler(every_third));
  draws = 0;
  std::vector<int> batches;
  for (int epoch = 0; epoch < 4; ++epoch) {
    batches.push_back(0);
    for (const Batch& b : loader) batches.back() += static_cast<int>(b.size());
    CHECK(loader.epoch() == epoch);
  }
  CHECK(batches == std::vector<int>{1, 0, 0, 1});
}

TEST_CASE("data: a position can be saved and restored in the middle of an epoch", "[data]") {
  for (const int prefetch : {0, 2})
    for (const int stop : {0, 3, 6}) {  // before, within and behind the last batch of the epoch
      auto options = data::LoaderOptions().batch_size(3).shuffle().seed(1).prefetch(prefetch);
      DataLoader loader(numbers(17), options);
      batches(loader);
      std::vector<Ids> rest;
      auto state = loader.state_dict();
      int count = 0;
      for (const Batch& b : loader) {
        if (count++ >= stop) rest.push_back(b[0].to_vector<std::int64_t>());
        if (count == stop) state = loader.state_dict();
      }
      const auto next = batches(loader);

      options.seed(99);
      DataLoader resumed(numbers(17), options);
      resumed.load_state_dict(state);
      CHECK(resumed.epoch() == 1);
      CHECK(batches(resumed) == rest);
      CHECK(batches(resumed) == next);
    }
  DataLoader loader(numbers(17), 3), shorter(numbers(16), 3);
  CHECK_THROWS_WITH(shorter.load_state_dict(loader.state_dict()),
                    Contains("one in 17 examples by batches of 3, this DataLoader has 16 by batches of 3; nothing was "
                             "loaded. Give it the same; for a training with others, load the weights alone"));
  CHECK_THROWS_WITH(loader.load_state_dict({{"epoch", full({}, 1, int64)}}), Contains("missing: seed"));
  for (const std::int64_t epoch : {std::int64_t{-1}, INT64_MAX}) {
    auto state = loader.state_dict();
    state[1].second = full({}, epoch, int64);
    state[2].second = full({}, 2, int64);
    CHECK_THROWS_WITH(loader.load_state_dict(state), Contains("batch 2 of epoch " + std::to_string(epoch)));
    CHECK(loader.epoch() == 0);
  }
}

TEST_CASE("data: a loop that runs takes up what is loaded, and the next one is the next epoch", "[data]") {
  for (const int prefetch : {0, 2}) {
    const auto options = data::LoaderOptions().batch_size(1).prefetch(prefetch);
    DataLoader loader(numbers(5), options), at_three(numbers(5), options);
    for (const Batch& b : at_three)
      if (b[0].item<int>() == 2) break;
    Ids seen;
    for (const Batch& b : loader) {
      seen.push_back(b[0].item<std::int64_t>());
      if (seen.size() == 1) loader.load_state_dict(at_three.state_dict());
    }
    CHECK(seen == Ids{0, 3, 4});
    CHECK(joined(batches(loader)) == count_to(5));
    CHECK(loader.epoch() == 1);
  }
}

TEST_CASE("data: a sampler that fails while a position is loaded leaves the loader as it was", "[data]") {
  bool broken = false;
  const auto options = data::LoaderOptions().batch_size(2).sampler(
      [&](Generator&, std::int64_t) { return broken ? Ids{7} : count_to(5); });
  DataLoader loader(numbers(5), options);
  auto state = loader.state_dict();
  state[2].second = full({}, 1, int64);
  broken = true;
  CHECK_THROWS_WITH(loader.check_state_dict(state), Contains("the sampler gave example 7"));
  CHECK_THROWS_WITH(loader.load_state_dict(state), Contains("the sampler gave example 7: there are 5"));
  broken = false;
  CHECK(joined(batches(loader)) == count_to(5));
}

TEST_CASE("data: what a dataset throws arrives in the loop, with the number of the example", "[data]") {
  for (const auto& [workers, prefetch] : {std::pair(0, 0), {0, 1}, {0, 4}, {1, 0}, {4, 3}}) {
    const auto options = data::LoaderOptions().batch_size(2).prefetch(prefetch).workers(workers);
    DataLoader loader(Failing(), options);
    std::vector<Ids> seen;
    const auto run = [&] {
      for (const Batch& b : loader) seen.push_back(b[0].to_vector<std::int64_t>());
    };
    CHECK_THROWS_AS(run(), FileError);
    CHECK(seen == std::vector<Ids>{{0, 1}, {2, 3}});
    const auto again = [&] { loader.load_state_dict(loader.state_dict()), run(); };
    CHECK_THROWS_WITH(again(), "example 4 can't be read, in example 4 of the dataset");

    DataLoader other(Made([](std::int64_t i) -> data::Example {
                       if (i > 2) throw std::runtime_error("no picture " + std::to_string(i));
                       return {full({}, i, int64)};
                     }),
                     options);
    try {
      for ([[maybe_unused]] const Batch& b : other) continue;
      FAIL("nothing was thrown");
    } catch (const Error& e) {
      CHECK(e.what() == std::string("[DataLoader] example 3 of the dataset: no picture 3"));
      CHECK_THROWS_AS(std::rethrow_if_nested(e), std::runtime_error);
    }
  }
}

TEST_CASE("data: batches have the same bits with any number of workers, random numbers too", "[data]") {
  const Made noisy(
      [](std::int64_t i) -> data::Example {
        return {rand({3}) + static_cast<double>(i), randint(0, 9, {2})};
      },
      24);
  const auto collate = [](const std::vector<data::Example>& examples) {
    Batch batch = data::stack_collate(examples);
    batch.push_back(rand({2}));
    return batch;
  };
  manual_seed(3);
  auto options = data::LoaderOptions().batch_size(4).shuffle().collate(collate);
  const auto two_epochs = [&] {
    DataLoader loader(noisy, options);
    std::vector<Batch> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const Batch& b : loader) {
        all.push_back(b);
        (void)rand({5});  // the training's own random numbers
      }
    return all;
  };
  const std::vector<Batch> expected = two_epochs();
  REQUIRE(expected.size() == 12);
  CHECK(!same_bits(expected[0][0], expected[6][0]));
  const auto same = [](const Batch& a, const Batch& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_bits);
  };
  for (const auto& [workers, prefetch] : {std::pair(0, 2), {1, 0}, {3, 0}, {4, 1}, {8, 5}}) {
    INFO(workers << " workers, prefetch " << prefetch);
    options.workers(workers).prefetch(prefetch);
    CHECK(std::equal(expected.begin(), expected.end(), two_epochs().begin(), same));
  }
  // A resumed epoch, and the part of one rank.
  DataLoader loader(noisy, options), resumed(noisy, options), whole(noisy, options);
  auto first = loader.begin();
  ++first;
  resumed.load_state_dict(loader.state_dict());
  CHECK(same(*resumed.begin(), expected[2]));
  whole.divide(1, 2);
  CHECK(same_bits((*whole.begin())[1], slice(expected[0][1], 0, 2, 4)));
}

TEST_CASE("data: a generator that get() makes or seeds gives its own numbers; the others depend on the loader's seed",
          "[data]") {
  const Made own(
      [](std::int64_t i) -> data::Example {
        Generator g(static_cast<std::uint64_t>(i));
        const Tensor made = randn({2}, g);
        manual_seed(static_cast<std::uint64_t>(i));
        return {made, randn({2})};
      },
      6);
  const Made drawn([](std::int64_t) -> data::Example { return {randn({2})}; }, 6);
  const auto batches = [](const Made& dataset, std::int64_t workers) {
    DataLoader loader(dataset, data::LoaderOptions().batch_size(6).seed(4).workers(workers));
    std::vector<Batch> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const Batch& b : loader) {
        all.push_back(b);
        manual_seed(8);  // of the training
      }
    return all;
  };
  for (const std::int64_t workers : {0, 3}) {
    INFO(workers << " workers");
    manual_seed(1);
    (void)rand({1});
    const std::vector<Batch> first = batches(drawn, workers), theirs = batches(own, workers);
    CHECK(default_generator().seed() == 8);
    CHECK(default_generator().calls() == 0);
    for (std::int64_t i = 0; i < 6; ++i) {
      Generator g(static_cast<std::uint64_t>(i)), seeded(static_cast<std::uint64_t>(i));
      const Tensor expected = randn({2}, g), after = randn({2}, seeded);
      for (const Batch& b : theirs) {
        CHECK(same_bits(b[0][i], expected));
        CHECK(same_bits(b[1][i], after));
      }
    }
    manual_seed(2);
    const std::vector<Batch> again = batches(drawn, workers);
    for (int epoch = 0; epoch < 2; ++epoch) CHECK(same_bits(first[epoch][0], again[epoch][0]));
    CHECK_FALSE(same_bits(first[0][0], first[1][0]));
  }
}

TEST_CASE("data: batches depend neither on the caller's Autocast nor on more room than there are examples", "[data]") {
  const Tensor w = randn({4, 4});
  struct Products : data::Dataset {
    explicit Products(Tensor w) : w(std::move(w)) {}
    std::int64_t size() const override { return 6; }
    data::Example get(std::int64_t i) const override { return {matmul(slice(w, 0, i % 4, i % 4 + 1), w)}; }
    Tensor w;
  };
  const Autocast narrow(bfloat16);
  const auto largest = std::numeric_limits<std::int64_t>::max();
  std::vector<Tensor> all;
  for (const int workers : {0, 1, 2}) {
    const auto o = data::LoaderOptions().batch_size(largest).workers(workers).prefetch(std::numeric_limits<int>::max());
    data::DataLoader loader(Products(w), o);
    for (const data::Batch& batch : loader) all.push_back(batch[0]);
  }
  REQUIRE(all.size() == 3);
  CHECK(all[0].dtype() == float32);
  CHECK(same_bits(all[0], all[1]));
  CHECK(same_bits(all[0], all[2]));
}

TEST_CASE("data: workers share the work of slow examples", "[data]") {
  std::atomic<int> running{0}, most{0};
  const Made slow([&](std::int64_t i) -> data::Example {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    --running;
    return {full({}, i, int64)};
  });
  for (const int workers : {1, 4})
    for (const std::int64_t batch_size : {32, 256}) {
      INFO(workers << " workers, batches of " << batch_size);
      most = 0;
      DataLoader loader(slow, data::LoaderOptions().batch_size(batch_size).workers(workers));
      CHECK(joined(batches(loader)) == count_to(256));
      CHECK(most == workers);  // examples that are made at the same time
    }
}

TEST_CASE("data: workers stop at once, and hold no more batches than asked for", "[data]") {
  std::atomic<int> calls{0};
  const auto get = [&](std::int64_t i) -> data::Example {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {full({}, i, int64)};
  };
  const Made examples(get, 1 << 20);
  {
    DataLoader loader(examples, data::LoaderOptions().batch_size(5).workers(3).prefetch(2));
    auto it = loader.begin();
    ++it;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(calls <= 4 * 5);  // two batches were taken, two are ready
    CHECK(calls > 2 * 5);
  }
  calls = 0;
  {
    DataLoader loader(examples, data::LoaderOptions().batch_size(5).workers(3).prefetch(1000));
    (void)loader.begin();
  }
  CHECK(calls < 1000);  // of 5000 that it may prepare
  CHECK_THROWS_WITH(DataLoader(examples, data::LoaderOptions().workers(-1)), Contains("workers is -1"));
}

TEST_CASE("data: Ctrl-C ends a loop, and its workers join at once", "[data]") {
  std::atomic<int> calls{0};
  int batches = 0;
  {
    const InterruptGuard guard;
    const Made examples(
        [&](std::int64_t i) -> data::Example {
          ++calls;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return {full({}, i, int64)};
        },
        1 << 20);
    DataLoader loader(examples, data::LoaderOptions().batch_size(5).workers(3).prefetch(1000));
    for ([[maybe_unused]] const Batch& b : loader) {
      if (++batches == 3) std::raise(SIGINT);
      if (InterruptGuard::interrupted()) break;
    }
  }
  CHECK(batches == 3);
  CHECK(calls < 1000);  // of 5000 that they may prepare
}

TEST_CASE("data: a padding mask is one that attention takes, also where B = T", "[data]") {
  DataLoader loader(Growing(), data::LoaderOptions().batch_size(3).collate(data::pad_collate({-1, 0})));
  const Batch b = *loader.begin();  // [3, 3]
  Generator g(4);
  const Tensor x = randn({3, 3, 2}, float32, g);
  const Tensor y = scaled_dot_product_attention(x, x, x, AttentionOptions().mask(b[2]));
  for (int row = 0; row < 3; ++row) {  // the keys that are real, of each row
    const Tensor real = slice(x[row], 0, 0, row + 1);
    CHECK(max_difference(y[row], scaled_dot_product_attention(x[row], real, real)) < 1e-6);
  }
}

TEST_CASE("data: sequences are packed in one row, with their numbers and positions", "[data]") {
  DataLoader loader(Growing(), data::LoaderOptions().batch_size(3).collate(data::pack_collate));
  const Batch b = *loader.begin();
  CHECK(same_bits(b[0], tensor({{0, 1, 1, 2, 2, 2}})));
  CHECK(same_bits(b[1], arange(3)));
  CHECK(same_bits(b[2], tensor({{0, 1, 1, 2, 2, 2}})));
  CHECK(same_bits(b[3], tensor({{0, 0, 1, 0, 1, 2}})));
  CHECK(b.size() == 4);
  const Batch wide = data::pack_collate({{ones({2, 3}), arange(2)}, {zeros({1, 3}), arange(1)}});
  CHECK(wide[0].shape() == Shape{1, 3, 3});
  CHECK(same_bits(wide[1], tensor({{0, 1, 0}})));
  CHECK_THROWS_WITH(data::pack_collate({}), Contains("no examples"));
  CHECK_THROWS_WITH(data::pack_collate({{tensor(1.)}}), Contains("the first field must be a sequence"));
  CHECK_THROWS_WITH(data::pack_collate({{arange(2), arange(3)}}),
                    Contains("field 1 of example 0 is [3], field 0 is [2]"));
  CHECK_THROWS_WITH(data::pack_collate({{arange(2)}, {arange(0)}}), Contains("field 0 of example 1 is [0]"));
}

TEST_CASE("data: a field that is not there is told", "[data]") {
  DataLoader loader(numbers(4), 2);
  for (const Batch& b : loader)
    CHECK_THROWS_WITH(b[1], Contains("[Batch] there is no field 1: there are 1, those that the dataset gives"));
  CHECK_THROWS_WITH(loader.dataset().get(0)[2], Contains("there is no field 2"));
  CHECK_THROWS_WITH(Batch()[0], Contains("there are 0"));
}

TEST_CASE("data: two loops over one loader at once are refused", "[data]") {
  for (const int prefetch : {0, 2}) {
    DataLoader loader(numbers(6), data::LoaderOptions().batch_size(2).prefetch(prefetch));
    std::vector<Ids> seen;
    for (const Batch& b : loader) {
      seen.push_back(b[0].to_vector<std::int64_t>());
      CHECK_THROWS_WITH(loader.begin(),
                        Contains("a loop over this loader has not ended") && Contains("make a second loader"));
    }
    CHECK(seen == std::vector<Ids>{{0, 1}, {2, 3}, {4, 5}});
    CHECK(loader.epoch() == 0);
    for ([[maybe_unused]] const Batch& b : loader) break;  // one that is left has ended
    CHECK(joined(batches(loader)) == count_to(6));
    auto by_hand = loader.begin();
    while (by_hand != loader.end()) ++by_hand;
    by_hand = loader.begin();  // and so has one that is through
    CHECK(loader.epoch() == 4);
  }
}

TEST_CASE("data: sizes near the limits are not multiplied", "[data]") {
  DataLoader all(numbers(5), INT64_MAX);
  CHECK(all.size() == 1);
  CHECK(batches(all) == std::vector<Ids>{count_to(5)});
  CHECK(DataLoader(numbers(5), data::LoaderOptions().batch_size(INT64_MAX - 1).drop_last()).size() == 0);
  CHECK_THROWS_WITH(data::random_split(numbers(10), Ids{INT64_MAX, INT64_MAX, 12}), Contains("a size is"));
  CHECK_THROWS_WITH(data::random_split(numbers(10), std::vector<double>{INFINITY, 1}), Contains("a share is inf"));
  CHECK_THROWS_WITH(data::weighted_sampler({1e308, 1e308}, 3), Contains("the weights sum up to more"));
}

TEST_CASE("data: batches are no part of a graph", "[data]") {
  const Tensor x = ones({4, 2}).requires_grad_();
  for (const int prefetch : {0, 1}) {
    const auto options = data::LoaderOptions().batch_size(2).prefetch(prefetch);
    DataLoader loader(TensorDataset({x}), options);
    for (const Batch& b : loader) CHECK_FALSE(b[0].requires_grad());
  }
}

TEST_CASE("data: a batch is divided among ranks by rows", "[data]") {
  // A field of rows, one without, and one of another length.
  struct Rows : data::Dataset {
    std::int64_t size() const override { return 7; }
    data::Example get(std::int64_t i) const override { return {full({2}, i, int64), full({}, i, int64)}; }
  };
  auto options = data::LoaderOptions().batch_size(5).collate([](const std::vector<data::Example>& examples) {
    const Batch whole = data::stack_collate(examples);
    return Batch{whole[0], sum(whole[1]), arange(3)};
  });
  const auto by_hand = options;
  options.collate(data::stack_collate);
  for (const data::LoaderOptions& o : {by_hand, options})
    for (const int ranks : {1, 2, 3}) {
      DataLoader whole(Rows(), o);
      std::vector<Batch> all;
      for (const Batch& b : whole) all.push_back(b);
      for (int rank = 0; rank < ranks; ++rank) {
        CAPTURE(ranks, rank);
        DataLoader part(Rows(), o);
        part.divide(rank, ranks);
        CHECK(part.rows().of == 0);  // there is none in hand yet
        std::size_t i = 0;
        for (const Batch& b : part) {
          const dist::Rows rows = part.rows(), expected(i == 0 ? 5 : 2, rank, ranks);
          CHECK(rows.of == expected.of);
          CHECK(rows.first == expected.first);
          CHECK(rows.count == expected.count);
          // Who has no row gets the last one.
          const std::int64_t first = rows.count > 0 ? rows.first : rows.of - 1;
          const auto own = range(first, first + std::max<std::int64_t>(rows.count, 1));
          CHECK(same_bits(b[0], all[i][0][{own}]));
          if (b.size() == 3) {
            CHECK(same_bits(b[1], all[i][1]));
            CHECK(same_bits(b[2], all[i][2]));
          } else {
            CHECK(same_bits(b[1], all[i][1][{own}]));
          }
          ++i;
        }
        CHECK(i == all.size());
      }
    }
  DataLoader loader(numbers(3), 1);
  for (const auto& [rank, ranks] : std::vector<std::pair<int, int>>{{0, 0}, {-1, 2}, {2, 2}, {3, 2}})
    CHECK_THROWS_WITH(loader.divide(rank, ranks), Contains("rank is " + std::to_string(rank) + " of "));
}

TEST_CASE("data: options out of range are told", "[data]") {
  CHECK_THROWS_WITH(DataLoader(numbers(3), 0), Contains("batch_size is 0"));
  CHECK_THROWS_WITH(DataLoader(numbers(3), data::LoaderOptions().prefetch(-1)), Contains("prefetch is -1"));
}

}  // namespace fit::test::data_test
