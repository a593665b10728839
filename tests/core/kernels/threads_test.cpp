#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "threads/thread_pool.hpp"

// Recording on and off, parallel_for, and several threads on one set of parameters.
namespace fit::test::threads_test {
namespace {

using V = std::vector<double>;

// Sets the number of threads for a scope.
class Threads {
 public:
  explicit Threads(int n) : before_(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace

TEST_CASE("recording is switched for a scope", "[threads]") {
  const Tensor x = ones({2}).requires_grad_();
  CHECK(grad_enabled());
  {
    const NoGrad outer;
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE((x * x).requires_grad());
    {
      const NoGrad inner;
      CHECK_FALSE(grad_enabled());
    }
    CHECK_FALSE(grad_enabled());
    {
      const EnableGrad on;
      CHECK((x * x).requires_grad());
      const NoGrad off;
      CHECK_FALSE(grad_enabled());
    }
    CHECK_FALSE(grad_enabled());
  }
  CHECK(grad_enabled());
  CHECK((x * x).requires_grad());
}

TEST_CASE("recording is as before after an exception", "[threads]") {
  const auto fails = [] {
    const NoGrad no_grad;
    throw Error("[test] fails");
  };
  CHECK_THROWS_AS(fails(), Error);
  CHECK(grad_enabled());

  const Tensor x = ones({1}).requires_grad_();
  const Tensor y = record("fragile", {x}, x.detach(), keep::nothing, [](Backward&) { throw Error("[fragile] fails"); });
  CHECK_THROWS_AS(y.backward(retain_graph), Error);
  CHECK(grad_enabled());
  const NoGrad no_grad;
  CHECK_THROWS_AS(y.backward(create_graph), Error);
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("backward() records nothing unless asked, whatever the scope", "[threads]") {
  const Tensor x = full({1}, 3).requires_grad_();
  bool recorded = true;
  const Tensor y = record("look", {x}, x.detach(), keep::nothing, [p = &recorded](Backward& b) {
    *p = b.recording();
    b.give(0, b.dy());
  });
  y.backward(retain_graph);
  CHECK_FALSE(recorded);
  const NoGrad no_grad;
  y.backward(create_graph);
  CHECK(recorded);
}

TEST_CASE("a new thread records", "[threads]") {
  const NoGrad no_grad;
  bool enabled = false;
  std::thread([&] { enabled = grad_enabled(); }).join();
  CHECK(enabled);
}

TEST_CASE("parallel_for covers everything once, in pieces that begin at multiples of grain", "[threads]") {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads limit(threads);
    for (const std::int64_t n : {0, 1, 2, 7, 33, 257, 1000})
      for (const std::int64_t grain : {1, 2, 10, 64, 2000}) {
        INFO("n " << n << ", grain " << grain << ", " << threads << " threads");
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
        std::atomic<int> calls{0}, crooked{0};
        parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
          ++calls;
          if (begin % grain != 0 || begin >= end) ++crooked;
          for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        CHECK(std::all_of(hits.begin(), hits.end(), [](const auto& h) { return h == 1; }));
        CHECK(crooked == 0);
        CHECK(calls <= std::min<std::int64_t>(threads, (n + grain - 1) / grain));
      }
  }
}

TEST_CASE("parallel_for covers everything once on every schedule", "[threads]") {
  for (const int threads : {1, 2, 3, 8}) {
    const Threads limit(threads);
    for (const ParallelSchedule schedule : {dynamic_schedule, guided_schedule})
      for (const std::int64_t n : {0, 1, 2, 7, 33, 257, 4096})
        for (const std::int64_t grain : {1, 10, 64, 5000}) {
          INFO("schedule " << static_cast<int>(schedule) << ", n " << n << ", grain " << grain << ", " << threads
                           << " threads");
          std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
          std::atomic<std::int64_t> smallest{n}, largest{0};
          parallel_for(n, grain, schedule, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
            const std::int64_t size = end - begin;
            for (std::int64_t s = smallest; size < s && !smallest.compare_exchange_weak(s, size);) continue;
            for (std::int64_t s = largest; size > s && !largest.compare_exchange_weak(s, size);) continue;
          });
          CHECK(std::all_of(hits.begin(), hits.end(), [](const auto& h) { return h == 1; }));
          CHECK((n == 0 || smallest > 0));
          if (schedule == guided_schedule && n == 4096 && threads > 1 && grain == 1)
            CHECK(std::llround(static_cast<double>(largest) / static_cast<double>(smallest)) == 7);
        }
  }
}

// Plain memory, so that the thread sanitizer sees whether the threads wait for each other as they should.
TEST_CASE("parallel_for finds what was written before it, and what it wrote is there after it", "[threads]") {
  const Threads limit(2);
  std::vector<std::int64_t> all(64);
  for (std::int64_t k = 0; k < 3000; ++k) {
    std::fill(all.begin(), all.end(), k);
    parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) all[static_cast<std::size_t>(i)] += i;
    });
    std::int64_t sum = 0;
    for (const std::int64_t x : all) sum += x;
    REQUIRE(sum == 64 * k + 63 * 32);
  }
}

TEST_CASE("parallel_for carries recording over, and back", "[threads]") {
  const Threads limit(2);
  for (const bool on : {true, false}) {
    const detail::Scoped mode(detail::thread_state.recording, on);
    std::atomic<int> other{0};
    parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
      if (grad_enabled() != on) ++other;
    });
    CHECK(other == 0);
    CHECK(grad_enabled() == on);
  }
}

TEST_CASE("parallel_for throws what its body throws, after all have ended", "[threads]") {
  const Threads limit(2);
  std::atomic<int> ended{0};
  const auto body = [&](std::int64_t begin, std::int64_t) {
    if (begin == 0) throw Error("[body] fails at 0");
    ++ended;
  };
  CHECK_THROWS_WITH(parallel_for(8, 1, body), "[body] fails at 0");
  CHECK(ended == 1);
  CHECK_THROWS_AS(parallel_for(8, 100, body), Error);
  std::atomic<int> sum{0};
  parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) { sum += static_cast<int>(end - begin); });
  CHECK(sum == 8);
}

TEST_CASE("parallel_for inside another is one call", "[threads]") {
  const Threads limit(2);
  std::atomic<int> inner{0};
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
      if (begin == 0 && end == 100) ++inner;
    });
  });
  CHECK(inner == 2);
}

TEST_CASE("parallel_for in teams of changing sizes, many times, and asleep in between", "[threads]") {
  const Threads before(2);
  for (int round = 0; round < 300; ++round) {
    set_num_threads(1 + round % 5);
    std::atomic<std::int64_t> sum{0};
    parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    REQUIRE(sum == 4950);
    if (round % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_CASE("a part of a round is done once: by its thread, or by the caller if that comes first", "[threads]") {
  detail::Part part;
  CHECK(part.claim(3));
  CHECK_FALSE(part.claim(3));
  CHECK(part.claim(7));
  CHECK_FALSE(part.claim(3));  // by a thread that comes late
  CHECK_FALSE(part.claim(7));
  for (std::uint64_t round = 8; round < 2000; ++round) {
    std::atomic<int> done{0};
    std::thread other([&] { done += part.claim(round); });
    done += part.claim(round);
    other.join();
    REQUIRE(done == 1);
  }
}

TEST_CASE("parallel_for on several threads at a time", "[threads]") {
  const Threads two(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&wrong] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<std::int64_t> sum{0};
        parallel_for(10, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
        if (sum != 10) ++wrong;
      }
    });
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
}

#if !defined(__SANITIZE_THREAD__)  // which may not make threads in a child of a process that has some
TEST_CASE("parallel_for in a child process", "[threads]") {
  const Threads two(2);
  const auto all = [] {
    std::atomic<std::int64_t> sum{0};
    parallel_for(10, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
    return sum == 10;
  };
  REQUIRE(all());  // there are threads now, which the child doesn't inherit
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(all() ? 0 : 1);
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif

TEST_CASE("set_num_threads wants at least one", "[threads]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(set_num_threads(0), Contains("[set_num_threads]") && Contains("0"));
  CHECK(num_threads() >= 1);
}

TEST_CASE("several threads may compute with the same parameters", "[threads]") {
  const Tensor w = random_like(zeros({64, 64})).requires_grad_(), x = random_like(zeros({32, 64}));
  const auto infer = [&] {
    const NoGrad no_grad;
    Tensor h = x;
    for (int i = 0; i < 5; ++i) h = matmul(h, w) * 0.1 + x;
    return h;
  };
  const Tensor expected = infer();
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& r : results)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) r = infer();
    });
  for (auto& t : threads) t.join();
  for (const Tensor& r : results) CHECK(same_bits(r, expected));
  CHECK(w.impl()->refs.load() == 1);
}

TEST_CASE("several threads may each train a model of their own", "[threads]") {
  const Tensor x = random_like(zeros({16, 8}));
  const auto train = [&] {
    Tensor w = full({8, 8}, 0.1).requires_grad_();
    for (int i = 0; i < 20; ++i) {
      w.zero_grad();
      const Tensor y = matmul(x, w) - x;
      sum(y * y).backward();
      const NoGrad no_grad;
      w.sub_(w.grad() * 0.005);
    }
    return w;
  };
  const Tensor expected = train();
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& r : results) threads.emplace_back([&] { r = train(); });
  for (auto& t : threads) t.join();
  for (const Tensor& r : results) CHECK(same_bits(r, expected));
}

TEST_CASE("several threads may each call grad() through one model", "[threads]") {
  const Tensor w = full({8, 8}, 0.5).requires_grad_();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&w, &wrong, t] {  // Catch2's checks belong to the first thread
      for (int i = 0; i < 200; ++i) {
        const Tensor x = full({2, 8}, t + 1).requires_grad_();
        const Tensor y = sum(matmul(x, w));
        const std::vector<Tensor> d = t % 2 ? grad(y, {x}) : grad(y, {x, w});
        wrong += !equal(d[0], full({2, 8}, 4));
        wrong += d.size() > 1 && !equal(d[1], full({8, 8}, 2 * (t + 1)));
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK_FALSE(w.has_grad());
}

TEST_CASE("a graph may be built on one thread and walked on another", "[threads]") {
  const Tensor x = tensor({1, 2}, float64).requires_grad_();
  Tensor loss;
  std::thread([&] { loss = sum(x * x * x); }).join();
  const Tensor more = loss * 2;
  std::thread([&] { more.backward(); }).join();
  CHECK(values(x.grad()) == V{6, 24});
}

}  // namespace fit::test::threads_test
