#include "fit/threads/parallel.hpp"
#include "nn/models/small_model.hpp"
#include "support/catch.hpp"

// The same seed gives the same run, bit by bit, whatever the number of threads.
namespace fit::test::reproducible_test {
namespace {

struct Threads {
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  const int before = num_threads();
};

// Wide enough that its ops are shared among threads.
struct WideModel : nn::UnaryLayer {
  Tensor forward(const Tensor& ids) const override {
    const Tensor x = embedding(ids);
    return out(dropout(x + attention(norm(x))));
  }
  FIT_FIELDS(embedding, norm, attention, dropout, out)
  nn::Embedding embedding{67, 96};
  nn::LayerNorm norm{96};
  nn::CausalSelfAttention attention{96, 4, 0.2};
  nn::Dropout dropout{0.1};
  nn::Linear out{96, 67};
};

struct Run {
  std::vector<double> losses;
  nn::StateDict state;
};

Run wide_run(std::uint64_t seed, int threads, int prefetch) {
  const Threads scope(threads);
  manual_seed(seed);
  WideModel model;
  optim::AdamW optimizer(model.named_parameters(), 3e-3);
  Generator g(9);
  const auto options = data::LoaderOptions().batch_size(9).shuffle().prefetch(prefetch);
  data::DataLoader loader(data::TensorDataset({randint(0, 67, {50, 33}, g), randint(0, 67, {50, 33}, g)}), options);
  Run run;
  while (run.losses.size() < 30)
    for (const data::Batch& b : loader) {
      const Tensor loss = nn::cross_entropy(model(b[0]), b[1]);
      optimizer.zero_grad();
      loss.backward();
      optim::clip_grad_norm_(model.named_parameters(), 1.0);
      optimizer.step();
      run.losses.push_back(loss.item());
      if (run.losses.size() == 30) break;
    }
  run.state = copied(model);
  return run;
}

}  // namespace

TEST_CASE("reproducible: 30 steps are the same for 1, 2 and 3 threads, with and without prefetching",
          "[reproducible]") {
  const Run one = wide_run(4, 1, 0);
  CHECK(one.losses.back() < one.losses.front());
  for (const auto& [threads, prefetch] : {std::pair(1, 2), {2, 0}, {3, 0}, {3, 3}}) {
    INFO(threads << " threads, " << prefetch << " batches ahead");
    const Run other = wide_run(4, threads, prefetch);
    CHECK(other.losses == one.losses);
    CHECK(same_state(other.state, one.state));
  }
  CHECK(wide_run(5, 2, 0).losses != one.losses);
}

}  // namespace fit::test::reproducible_test
