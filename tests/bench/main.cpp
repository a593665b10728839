// The benchmark: standard workloads, one JSON object a line.
//
//     bench [--only NAME[,NAME]] [--threads N] [--quick] [--check] [--products] [--growth] [--list]
//
// Each workload's result is first checked against its reference. median_s, min_s and max_s are of one step; growth_mb
// is how much the peak memory has grown since the program began; limit says which limit of the machine binds the
// workload (gemm: the rate of a large matrix product, gemm_bf16: of one of bfloat16, memory: that of y += a x over
// large arrays, read: that of reading an array as large as what the workload reads), share how much of it was reached.
// Where the same step is written by hand, too, both run by turns: by_hand_s, and times_by_hand, the ratio of the
// medians. The limits are measured in the same run, and are medians, too. Only ratios taken on one machine in one
// sitting mean anything.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/elementwise.hpp"
#include "matmul/gemm_bf16.hpp"

namespace fit::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

const char* name_of(Limit l) {
  return l == Limit::gemm        ? "gemm"
         : l == Limit::gemm_bf16 ? "gemm_bf16"
         : l == Limit::memory    ? "memory"
         : l == Limit::read      ? "read"
                                 : "none";
}

// Warms up, then runs the steps by turns for `budget` seconds or 2000 times, at least 3 times. The times of each,
// sorted.
std::vector<std::vector<double>> measure_by_turns(const std::vector<std::function<void()>>& steps, double budget) {
  for (int i = 0; i < 2; ++i)
    for (const auto& step : steps) step();
  std::vector<std::vector<double>> times(steps.size());
  const double end = now() + budget;
  while ((now() < end && times[0].size() < 2000) || times[0].size() < 3)
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double begin = now();
      steps[i]();
      times[i].push_back(now() - begin);
    }
  for (auto& t : times) std::sort(t.begin(), t.end());
  return times;
}

std::vector<double> measure(const std::function<void()>& step, double budget) {
  return measure_by_turns({step}, budget)[0];
}

// What this machine can do: operations and bytes a second, and the seconds that an empty parallel region takes.
struct Limits {
  double gemm, gemm_bf16, memory, read, region;
};

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

// Bytes a second, if an array is read again and again: in several streams, which is faster than in one.
double read_rate(double bytes) {
  constexpr std::int64_t columns = 4096;
  const Tensor row = ones({1, columns}), matrix = ones({static_cast<std::int64_t>(bytes / 4) / columns, columns});
  return 4.0 * static_cast<double>(matrix.numel()) / median(measure([&] { linear(row, matrix); }, 1.0));
}

Limits measure_limits() {
  Limits l{};
  {
    constexpr std::int64_t n = 1536;
    const Tensor a = randn({n, n}), b = randn({n, n});
    Tensor c = zeros({n, n});
    kernels::GemmParams<float> p;
    p.m = p.n = p.k = p.lda = p.ldb = p.ldc = n;
    const auto step = [&] {
      kernels::gemm_parallel(p, a.data<float>().data(), b.data<float>().data(), c.fresh<float>());
    };
    l.gemm = p.flops() / median(measure(step, 1.0));
  }
  {
    constexpr std::int64_t n = 1536;
    const std::vector<BFloat16> a(n * n, BFloat16(1)), b(n * n, BFloat16(1));
    std::vector<BFloat16> c(n * n);
    kernels::GemmParams<BFloat16> p;
    p.m = p.n = p.k = p.lda = p.ldb = p.ldc = n;
    l.gemm_bf16 = p.flops() / median(measure([&] { kernels::gemm_parallel(p, a.data(), b.data(), c.data()); }, 1.0));
  }
  {
    const Tensor x = ones({std::int64_t{1} << 26});
    Tensor y = ones(x.shape());
    l.memory = 12.0 * static_cast<double>(x.numel()) / median(measure([&] { y.add_(x); }, 1.0));
  }
  l.read = read_rate(0x1p30);
  l.region = median(measure([] { parallel_for(num_threads(), 1, [](std::int64_t, std::int64_t) {}); }, 0.2));
  return l;
}

// Runs f in a child process and hands over what it returns, so that its memory does not count here.
template <class T, class F>
T in_child(const F& f) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe could be made");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no child process could be started");
  if (child == 0) {
    close(ends[0]);
    try {
      const T result = f();
      if (write(ends[1], &result, sizeof result) != sizeof result) _exit(1);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  T result{};
  const bool complete = read(ends[0], &result, sizeof result) == sizeof result;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!complete || status != 0) throw std::runtime_error("the check failed");
  return result;
}

double limit_of(const Workload& w, const Limits& l) {
  return w.limit == Limit::gemm        ? l.gemm
         : w.limit == Limit::gemm_bf16 ? l.gemm_bf16
         : w.limit == Limit::memory    ? l.memory
         : w.limit == Limit::read      ? in_child<double>([&] { return read_rate(w.bytes_per_pass); })
                                       : INFINITY;
}

// How time grows with the size: time ~ size^exponent from one size to its double. With each number of threads.
void print_growth(const Growing& g, int threads) {
  for (const int n : {1, threads}) {
    set_num_threads(n);
    double before = 0;
    for (const std::int64_t size : g.sizes) {
      const double time = median(measure(g.make(size).make(), 1.0));
      nlohmann::json line{{"growing", g.name}, {g.size_name, size}, {"threads", n}, {"median_s", time}};
      if (before > 0) line["exponent"] = std::log2(time / before);
      before = time;
      std::printf("%s\n", line.dump().c_str());
      std::fflush(stdout);
    }
    if (threads == 1) return;
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Times the standard workloads: one JSON object a line."};
  std::vector<std::string> only;
  int threads = num_threads();
  bool quick = false, check = false, list = false, growth = false, products = false;
  app.add_option("--only", only, "the workloads to run")->delimiter(',');
  app.add_option("--threads", threads, "how many threads to use")->check(CLI::Range(1, 1024));
  app.add_flag("--quick", quick, "a second for each, instead of several");
  app.add_flag("--check", check, "only compare the results with the references");
  app.add_flag("--growth", growth, "instead, how time grows with the length of a sequence and with the batch");
  app.add_flag("--products", products,
               "instead, products of matrices in 16 sizes; openblas.sh compares them with OpenBLAS's");
  app.add_flag("--list", list, "print the names and stop");
  CLI11_PARSE(app, argc, argv);

  std::vector<Workload> all = products ? product_workloads() : op_workloads();
  if (!products)
    for (auto& more : {model_workloads(), tiny_gpt_workloads(), everyday_workloads(), program_workloads(),
                       linear_attention_workloads(), low_precision_workloads()})
      for (const Workload& w : more) all.push_back(w);
  if (list) {
    for (const Workload& w : all) std::puts(w.name.c_str());
    return 0;
  }
  for (const std::string& name : only)
    if (std::none_of(all.begin(), all.end(), [&](const Workload& w) { return w.name == name; })) {
      std::fprintf(stderr, "bench: there is no workload %s; --list shows them\n", name.c_str());
      return 2;
    }
  if (growth) {
    for (const Growing& g : {growing_attention(), growing_gpt()}) print_growth(g, threads);
    return 0;
  }
  set_num_threads(threads);
  const auto wanted = [&](const Workload& w) {
    return only.empty() || std::find(only.begin(), only.end(), w.name) != only.end();
  };

  // Both in children, before any thread is started here.
  for (const Workload& w : all)
    if (wanted(w)) in_child<bool>([&] { return w.check(), true; });
  if (check) return 0;
  const Limits limits = in_child<Limits>(measure_limits);
  std::printf("%s\n", nlohmann::json{{"gemm_gflops", limits.gemm / 1e9},
                                     {"gemm_bf16_gflops", limits.gemm_bf16 / 1e9},
                                     {"memory_gb_s", limits.memory / 1e9},
                                     {"read_gb_s", limits.read / 1e9},
                                     {"region_us", limits.region * 1e6},
                                     {"threads", threads}}
                          .dump()
                          .c_str());
  sum(matmul(ones({8, 8}).requires_grad_(), ones({8, 8}))).backward();
  const double base = peak_mb();
  for (const Workload& w : all) {
    if (!wanted(w)) continue;
    const double limit = limit_of(w, limits);
    std::vector<std::function<void()>> steps{w.make()};
    if (w.by_hand) steps.push_back(w.by_hand());
    const auto times = measure_by_turns(steps, quick ? std::min(w.budget, 1.0) : w.budget);
    const std::vector<double>& t = times[0];
    nlohmann::json line{{"workload", w.name},
                        {"threads", threads},
                        {"median_s", median(t)},
                        {"min_s", t.front()},
                        {"max_s", t.back()},
                        {"runs", t.size()},
                        {"growth_mb", peak_mb() - base},
                        {"limit", name_of(w.limit)},
                        {"share", w.amount / median(t) / limit}};
    if (w.by_hand) line["by_hand_s"] = median(times[1]), line["times_by_hand"] = median(t) / median(times[1]);
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

void expect_close(const char* what, const Tensor& a, const Tensor& b, double tolerance) {
  const Tensor x = a.to(float64), y = b.to(float64);
  const double worst = max(abs(x - y)).item(), largest = max(abs(y)).item();
  if (!(worst <= tolerance * largest))
    throw std::runtime_error(std::string(what) + " is wrong: off by " + std::to_string(worst) +
                             " where the largest is " + std::to_string(largest));
}

}  // namespace fit::bench

int main(int argc, char** argv) {
  try {
    return fit::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench: %s\n", e.what());
    return 1;
  }
}
