#include "threads/pieces.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "matmul/gemm.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// How work is cut for 1 to 64 threads. Nothing here is timed: a machine with two cores shows the cut for 64.
namespace fit::test::pieces_test {
namespace {

using detail::Pieces;

// The parallel regions of f with this many threads.
std::vector<Pieces> regions_of(int threads, const std::function<void()>& f) {
  std::vector<Pieces> found;
  const int before = num_threads();
  set_num_threads(threads);
  detail::regions = &found;
  f();
  detail::regions = nullptr;
  set_num_threads(before);
  return found;
}

// The part of `threads` threads that work, if each element of the range costs the same and a free thread takes the next
// piece.
double balance(const Pieces& pieces, int threads) {
  std::vector<std::int64_t> busy(static_cast<std::size_t>(threads), 0);
  for (std::int64_t i = 0; i < pieces.size(); ++i) {
    const auto [begin, end] = pieces[i];
    *std::min_element(busy.begin(), busy.end()) += std::max<std::int64_t>(end - begin, 0);
  }
  const auto longest = static_cast<double>(*std::max_element(busy.begin(), busy.end()));
  return static_cast<double>(pieces.n) / (threads * longest);
}

struct Row {
  const char* name;
  std::function<void()> f;
};

Tensor some(const Shape& shape) { return full(shape, 0.5); }

std::function<void()> product(std::int64_t m, std::int64_t k, std::int64_t n) {
  return [a = some({m, k}), b = some({k, n})] { (void)matmul(a, b); };
}
std::function<void()> attention(std::int64_t B, std::int64_t H, std::int64_t T, std::int64_t D) {
  return [x = some({B, H, T, D})] { (void)scaled_dot_product_attention(x, x, x, AttentionOptions().causal()); };
}

}  // namespace

TEST_CASE("the pieces of a range cover it once, for any number of threads", "[threads]") {
  for (const auto schedule : {ParallelSchedule::static_schedule, dynamic_schedule, guided_schedule})
    for (const std::int64_t n : {2, 7, 33, 1000, 4096})
      for (const std::int64_t grain : {1, 10, 64})
        for (std::int64_t threads = 1; threads <= std::min<std::int64_t>(64, (n + grain - 1) / grain); ++threads) {
          INFO("schedule " << static_cast<int>(schedule) << ", n " << n << ", grain " << grain << ", " << threads);
          const Pieces pieces{n, grain, schedule, threads};
          std::vector<int> hits(static_cast<std::size_t>(n), 0);
          std::int64_t least = n, most = 0;
          for (std::int64_t i = 0; i < pieces.size(); ++i) {
            const auto [begin, end] = pieces[i];
            for (std::int64_t k = begin; k < end; ++k) ++hits[static_cast<std::size_t>(k)];
            least = std::min(least, end - begin), most = std::max(most, end - begin);
            if (schedule != guided_schedule) CHECK(begin % grain == 0);
          }
          CHECK(std::all_of(hits.begin(), hits.end(), [](int h) { return h == 1; }));
          if (schedule == ParallelSchedule::static_schedule && n % grain == 0) CHECK(most - least <= grain);
          if (schedule == dynamic_schedule) CHECK(most <= grain);
          if (schedule == guided_schedule && n / threads == 64 && n % threads == 0) CHECK(most == 7 * least);
        }
}

TEST_CASE("small work takes one thread", "[threads]") {
  const Tensor x = some({64, 64}), row = some({1000});
  const Row rows[] = {{"exp", [&] { (void)exp(x); }},
                      {"add", [&] { (void)(x + x); }},
                      {"sum", [&] { (void)sum(x); }},
                      {"mean of columns", [&] { (void)mean(x, 0); }},
                      {"softmax", [&] { (void)softmax(x, -1); }},
                      {"transpose", [&] { (void)transpose(x); }},
                      {"a fill",
                       [&] {
                         (void)some({100, 100});
                       }},
                      {"a product", product(64, 64, 64)},
                      {"a row times a matrix", product(1, 128, 128)},
                      {"attention", attention(1, 2, 16, 16)}};
  for (const Row& r : rows) {
    INFO(r.name);
    CHECK(regions_of(64, r.f).empty());
  }
}

// docs/threads.md has the table.
TEST_CASE("large work has pieces for many threads, of some size and even", "[threads]") {
  const Tensor x = some({4096, 1024});
  const struct {
    const char* name;
    std::function<void()> f;
    std::int64_t pieces[4];  // for 2, 8, 16 and 64 threads
    double balance[4];
  } rows[] = {
      {"exp", [&] { (void)exp(x); }, {2, 8, 16, 64}, {1, 1, 1, 1}},
      {"sum", [&] { (void)sum(x); }, {2, 8, 16, 64}, {1, 1, 1, 1}},
      {"sum of columns", [&] { (void)sum(x, 0); }, {2, 8, 16, 64}, {1, 1, 1, 1}},
      {"softmax", [&] { (void)softmax(x, -1); }, {2, 8, 16, 64}, {1, 1, 1, 1}},
      {"256 x 768 x 3072", product(256, 768, 3072), {24, 32, 64, 64}, {1, 1, 1, 1}},
      {"1024 x 1024 x 1024", product(1024, 1024, 1024), {8, 32, 64, 64}, {1, 1, 1, 1}},
      {"1 x 768 x 3072", product(1, 768, 3072), {24, 24, 24, 24}, {1, 1, 0.75, 0.37}},
      {"attention b12h4t64d32", attention(12, 4, 64, 32), {48, 48, 48, 48}, {1, 1, 1, 0.75}},
      {"attention b1h12t1024d64", attention(1, 12, 1024, 64), {12, 192, 192, 192}, {1, 1, 1, 1}},
      {"attention b1h1t8192d64", attention(1, 1, 8192, 64), {128, 128, 128, 128}, {1, 1, 1, 1}},
  };
  constexpr int threads[] = {2, 8, 16, 64};
  for (const auto& row : rows)
    for (int i = 0; i < 4; ++i) {
      const std::vector<Pieces> found = regions_of(threads[i], row.f);
      INFO(row.name << ", " << threads[i] << " threads");
      REQUIRE_FALSE(found.empty());
      const Pieces& main = found.back();  // those before pack an operand
      CHECK(main.size() == row.pieces[i]);
      CHECK(balance(main, threads[i]) >= row.balance[i]);
      CHECK(main.n / main.size() >= main.grain);
    }
}

TEST_CASE("the tiles of a product cover it once, and are even for 2 to 64 threads where the shape allows",
          "[threads]") {
  const struct {
    std::int64_t m, n, k;
    double balance;  // for up to 64 threads
  } rows[] = {{1024, 1024, 1024, 0.96}, {256, 3072, 768, 0.96},  {2048, 1536, 384, 0.96}, {2048, 2048, 2048, 0.96},
              {1024, 512, 512, 0.96},   {256, 50257, 768, 0.88}, {512, 512, 512, 0.96},   {256, 768, 768, 0.72}};
  for (const auto& [m, n, k, least] : rows) {
    INFO(m << " x " << k << " x " << n);
    for (const std::int64_t threads : {1, 2, 3, 4, 8, 16, 32, 64}) {
      INFO(threads << " threads");
      const auto t = kernels::tiling(m, n, 2.0 * static_cast<double>(m * n * k), threads);
      CHECK((t.row_tiles - 1) * t.rows < m);
      CHECK(m <= t.row_tiles * t.rows);
      CHECK((t.col_tiles - 1) * t.cols < n);
      CHECK(n <= t.col_tiles * t.cols);
      CHECK(t.cols <= 256);
      std::vector<std::int64_t> busy(static_cast<std::size_t>(threads), 0);
      for (std::int64_t i = 0; i < t.count(); ++i) {
        const kernels::Tile tile = t.tile(i, m, n);
        *std::min_element(busy.begin(), busy.end()) += tile.rows * tile.cols;
      }
      const auto longest = static_cast<double>(threads * *std::max_element(busy.begin(), busy.end()));
      CHECK(static_cast<double>(m * n) / longest >= least);
    }
  }
}

}  // namespace fit::test::pieces_test
