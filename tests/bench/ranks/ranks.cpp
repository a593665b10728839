#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fit/fit.hpp>
#include <fit/mpi.hpp>
#include <fstream>
#include <string>
#include <vector>

// ranks [rows=12] [bucket=1048576] [overlap=1] [shard=0] [steps=60] [d=128] [layers=4]   one line about a step of
// char_gpt's model (or a wider one) on the ranks that there are:
//   ranks threads rows bucket overlap shard parameters buckets early step_ms least_ms wait_ms sent state_bytes
//   live_bytes
// The times are the median and the least of the steps on rank 0, and what it stood still for in the median step.
using namespace fit;

namespace {

std::int64_t option(int argc, char** argv, const std::string& name, std::int64_t otherwise) {
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]).rfind(name + '=', 0) == 0) return std::atoll(argv[i] + name.size() + 1);
  return otherwise;
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const dist::Mpi mpi;
  dist::World& world = dist::world();
  const auto get = [&](const char* name, std::int64_t otherwise) { return option(argc, argv, name, otherwise); };
  manual_seed(1);
  const auto o = nn::GPTOptions()
                     .vocab_size(65)
                     .context_length(64)
                     .num_layers(get("layers", 4))
                     .num_heads(4)
                     .d_model(get("d", 128))
                     .bias(false);
  nn::GPT model(o);
  const auto parallel_options = dist::DataParallelOptions()
                                    .bucket_bytes(static_cast<std::size_t>(get("bucket", 1 << 20)))
                                    .overlap(get("overlap", 1) ? dist::Overlap::yes : dist::Overlap::no);
  dist::DataParallel parallel(model, parallel_options);
  optim::AdamW optimizer(optim::decay_groups(model, optim::AdamWOptions()));
  if (get("shard", 0)) optimizer.shard(world);

  const std::int64_t rows = get("rows", 12), warm_up = 10, steps = get("steps", 60);
  std::vector<double> times, waits;
  double sent = 0;
  std::int64_t state_bytes = 0;
  for (std::int64_t step = 0; step < warm_up + steps; ++step) {
    const Tensor ids = randint(0, 65, {rows, 65});
    world.barrier();
    const double sent_before = world.bytes_sent(), waited_before = parallel.traffic().seconds_waited;
    const auto start = std::chrono::steady_clock::now();
    const Tensor own = parallel.rows(ids);
    optimizer.zero_grad();
    parallel.backward(model.loss(own[{range(), range(0, 64)}], own[{range(), range(1)}]));
    optim::clip_grad_norm_(model.parameters(), 1.0);
    const std::int64_t live = memory_stats().live_bytes;
    optimizer.step();
    if (step == 0) state_bytes = memory_stats().live_bytes - live;
    if (step < warm_up) continue;
    times.push_back(1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    waits.push_back(1e3 * (parallel.traffic().seconds_waited - waited_before));
    sent = world.bytes_sent() - sent_before;
  }
  const dist::Traffic& t = parallel.traffic();
  if (world.rank() == 0)
    std::printf("%d %d %lld %lld %d %d %lld %lld %.1f %.3f %.3f %.3f %.0f %lld %lld\n", world.size(), num_threads(),
                static_cast<long long>(rows), static_cast<long long>(parallel_options.bucket_bytes()),
                static_cast<int>(get("overlap", 1)), static_cast<int>(get("shard", 0)),
                static_cast<long long>(model.num_parameters()), static_cast<long long>(t.buckets),
                t.steps ? static_cast<double>(t.sent_early) / static_cast<double>(t.steps) : 0, median(times),
                *std::min_element(times.begin(), times.end()), median(waits), sent, static_cast<long long>(state_bytes),
                static_cast<long long>(memory_stats().live_bytes));
}
