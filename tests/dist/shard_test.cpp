#include "dist/training.hpp"
#include "fit/nn/training/data_parallel.hpp"
#include "support/optimizer_groups.hpp"

// Optimisers whose averages are divided among the ranks.
namespace fit::test {
namespace {

using Catch::Matchers::Contains;

struct Trained {
  std::vector<double> numbers;
  StateDict state;
  double state_bytes = 0;  // that this rank keeps
};

enum class Divided { no, yes, later };

template <class O>
Trained trained(Divided divided, const StateDict& from = {}) {
  manual_seed(4);
  nn::GPT model(small_gpt(0.1));
  dist::DataParallel parallel(model);
  O optimizer(groups_of<O>(model.named_parameters(), 1e-2));
  const MemoryStats before = memory_stats();
  if (divided == Divided::yes) optimizer.shard(dist::world());
  if (!from.empty()) optimizer.load_state_dict(from);
  Generator data(7);
  for (int step = 0; step < 6; ++step) {
    if (divided == Divided::later && step == 3) optimizer.shard(dist::world());
    const Tensor own = parallel.rows(randint(0, 11, {5, 9}, data));
    optimizer.zero_grad();
    parallel.backward(model.loss(own[{range(), range(0, 8)}], own[{range(), range(1, 9)}]));
    optim::clip_grad_norm_(model.parameters(), 0.5);
    optimizer.step();
  }
  optimizer.zero_grad();
  const double kept = static_cast<double>(memory_stats().live_bytes - before.live_bytes);
  StateDict state;
  for (const auto& [name, x] : optimizer.state_dict()) state.emplace_back(name, x.clone());
  return {numbers_of(model), std::move(state), kept};
}

bool same(const StateDict& a, const StateDict& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}

template <class O>
void check_all() {
  INFO(typeid(O).name());
  if constexpr (on_tensors<O>) {  // Adafactor, LAMB, Muon
    CHECK_THROWS_WITH(trained<O>(Divided::yes), Contains("needs whole parameters") && Contains("can't be divided"));
    return;
  }
  const Trained whole = trained<O>(Divided::no);
  for (const Divided d : {Divided::yes, Divided::later}) {
    const Trained part = trained<O>(d);
    CHECK(part.numbers == whole.numbers);
    CHECK(same(part.state, whole.state));
    CHECK(same_on_all_ranks(part.numbers));
  }
  const Trained on = trained<O>(Divided::no, whole.state), on_in_parts = trained<O>(Divided::yes, whole.state);
  CHECK(on_in_parts.numbers == on.numbers);
  CHECK((on.numbers != whole.numbers || std::is_same_v<O, optim::SGD>));  // plain SGD has no averages
}

}  // namespace

TEST_CASE("divided averages change no bit, with any optimiser", "[dist]") {
  each_optimizer([](auto* type) { check_all<std::decay_t<decltype(*type)>>(); });
}

TEST_CASE("divided averages take a part of the memory", "[dist]") {
  const dist::World& w = dist::world();
  manual_seed(1);
  nn::Linear model(1024, 512);
  const auto kept = [&](Divided d) {
    optim::AdamW optimizer(model.named_parameters(), 1e-3);
    if (d == Divided::yes) optimizer.shard(dist::world());
    dist::DataParallel parallel(model);
    parallel.backward(sum(model(ones({2, 1024}))));
    const auto before = memory_stats().live_bytes;
    optimizer.step();
    const auto after = memory_stats().live_bytes;
    optimizer.zero_grad();
    return static_cast<double>(after - before);
  };
  const double whole = kept(Divided::no), part = kept(Divided::yes), bytes = 2 * 4 * (1024 * 512 + 512);
  CHECK(whole >= bytes);
  CHECK(part <= 1.3 * bytes / w.size());
}

TEST_CASE("averages are divided once", "[dist]") {
  if (dist::world().size() == 1) return;
  nn::Linear model(3, 2);
  optim::Adam optimizer(model.named_parameters(), 1e-3);
  optimizer.shard(dist::world());
  CHECK_THROWS_WITH(optimizer.shard(dist::world()), Contains("[Adam]") && Contains("divided among the ranks already"));
}

}  // namespace fit::test
