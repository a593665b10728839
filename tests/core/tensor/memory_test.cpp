#include "fit/base/memory.hpp"

#include <cstdint>
#include <thread>

#include "base/large_blocks.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// The cache of blocks, and that whatever the graph took comes back to it.
namespace fit::test::memory_test {
namespace {

using Catch::Matchers::Contains;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

// Passes x on; its adjoint throws.
Tensor fragile(const Tensor& x) {
  return record("fragile", {x}, x.detach(), keep::inputs | keep::output,
                [](Backward&) { throw Error("[fragile] fails"); });
}

// How many more blocks are in use after `use` than before.
template <class F>
std::int64_t left_behind(const F& use) {
  const auto before = memory_stats();
  use();
  const auto after = memory_stats();
  CHECK((after.live_bytes == before.live_bytes) == (after.live_blocks == before.live_blocks));
  return after.live_blocks - before.live_blocks;
}

}  // namespace

TEST_CASE("the counter sees what is in use", "[memory]") {
  CHECK(left_behind([] {}) == 0);
  Tensor kept;
  CHECK(left_behind([&] { kept = zeros({1000}); }) == 2);  // the buffer and what handles share
  CHECK(left_behind([&] { kept = Tensor(); }) == -2);
}

TEST_CASE("a graph is freed", "[memory]") {
  const auto loss_of = [](const Tensor& x, const Tensor& w) { return sum(x * w * w + x / w); };
  CHECK(left_behind([&] { loss_of(leaf({1, 2}), leaf({3, 4})); }) == 0);  // the leaves go first
  const auto use = [&] {
    const Tensor x = leaf({1, 2}), w = leaf({3, 4});
    SECTION("without backward") { loss_of(x, w); }
    SECTION("with backward") { loss_of(x, w).backward(); }
    SECTION("with backward, retained") { loss_of(x, w).backward(retain_graph); }
    SECTION("with grad()") { grad({loss_of(x, w)}, {x, w}); }
    SECTION("with grad() by some of the inputs") { grad({loss_of(x, w)}, {w}); }
    SECTION("after an error of grad()") { CHECK_THROWS_AS(grad({loss_of(x, x)}, {x, w}), Error); }
    SECTION("after an error of backward()") { CHECK_THROWS_AS((x * w).backward(), Error); }
    SECTION("after an exception in a forward") { CHECK_THROWS_AS(sum(x * w + zeros({7})), Error); }
    SECTION("after an exception in an adjoint") {
      CHECK_THROWS_WITH(loss_of(fragile(x * 2), w).backward(), "[fragile] fails");
    }
    SECTION("after an exception in an adjoint, retained, twice") {
      const Tensor loss = loss_of(fragile(x * 2), w);
      CHECK_THROWS_WITH(loss.backward(retain_graph), "[fragile] fails");
      CHECK_THROWS_WITH(grad({loss}, {x}, create_graph), "[fragile] fails");
    }
    SECTION("with retain_grad") {
      Tensor u = x * w;
      u.retain_grad();
      loss_of(u, w).backward();
      CHECK(u.has_grad());
    }
    SECTION("with retain_grad and no backward") {
      Tensor u = x * w;
      u.retain_grad();
      loss_of(u, w);
    }
    SECTION("with retain_grad and create_graph") {
      Tensor u = x * w;
      u.retain_grad();
      loss_of(w, u).backward(create_graph);
      CHECK(u.grad().requires_grad());
    }
    SECTION("with retain_grad and create_graph, the tensor gone before") {
      Tensor loss;
      {
        Tensor u = x * w;
        u.retain_grad();
        loss = loss_of(w, u);
      }
      loss.backward(create_graph);
    }
    SECTION("with grad(create_graph)") { grad({loss_of(x, w)}, {x, w}, create_graph); }
    SECTION("with a second derivative") {
      const auto g = grad({loss_of(x, w)}, {x, w}, create_graph);
      sum(g[0] * g[1]).backward();
    }
    SECTION("with backward(create_graph): gradients hold the graph of their leaves") {
      loss_of(x, w).backward(create_graph);
      CHECK(w.grad().requires_grad());
    }
    SECTION("with backward(create_graph), twice") {
      loss_of(x, w).backward(create_graph);
      sum(x.grad() * w.grad()).backward(create_graph);
    }
    SECTION("with a leaf that stops being one while its gradient holds its graph") {
      loss_of(x, w).backward(create_graph);
      Tensor(w).requires_grad_(false);
    }
    SECTION("with a gradient set by hand that depends on its own leaf") { Tensor(w).set_grad(w * w); }
    SECTION("with an op of several outputs of which one is dropped") {
      std::vector<Tensor> y = {x.detach() * 1, x.detach() * 2};
      record("two", {x}, y, keep::output, [](Backward& b) { b.give(0, b.dy(1)); });
      y[0] = Tensor();
      y[1].backward(ones({2}, float64));
    }
  };
  CHECK(left_behind(use) == 0);
}

TEST_CASE("what is not kept is freed at once, while the graph lives", "[memory]") {
  const Tensor x = zeros({1 << 16}).requires_grad_();
  const auto before = memory_stats().live_bytes;
  const Tensor y = x + 1 + 2 + 3 + 4;  // add keeps neither inputs nor output
  CHECK(memory_stats().live_bytes - before < 2 * 4 * (1 << 16));
}

TEST_CASE("backward() frees on the way", "[memory]") {
  const Tensor x = ones({1 << 16}).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = y * y;
  std::int64_t at_the_end = 0;
  const auto before = memory_stats().live_bytes;
  Tensor z = record("look", {x}, x.detach(), keep::nothing, [p = &at_the_end](Backward& b) {
    *p = memory_stats().live_bytes;
    b.give(0, b.dy());
  });
  for (int i = 0; i < 8; ++i) z = z * z;
  const auto full_graph = memory_stats().live_bytes;
  z.backward(ones({1 << 16}));
  CHECK(full_graph - before > 7 * 4 * (1 << 16));
  CHECK(at_the_end - before < 5 * 4 * (1 << 16));
}

TEST_CASE("a leaf gets the gradient that an adjoint has computed, not a copy", "[memory]") {
  constexpr std::int64_t n = 1 << 21;
  const Tensor x = full({n / 64, 64}, 2).requires_grad_(), w = ones({64}), dy = ones(x.shape());
  const auto taken = [&](const auto& f) {
    Tensor(x).zero_grad();
    const Tensor y = f();
    empty_cache();
    const MemoryStats before = memory_stats();
    y.backward(dy);
    const MemoryStats after = memory_stats();
    return after.live_bytes + after.cached_bytes - before.live_bytes - before.cached_bytes;
  };
  // One buffer of 4 n bytes, a quarter more at the most, and little beside it.
  CHECK(taken([&] { return layer_norm(x, w, w); }) < 6 * n);
  CHECK(taken([&] { return rms_norm(x, w); }) < 6 * n);
  CHECK(taken([&] { return div(x, w); }) < 6 * n);
  CHECK(taken([&] { return gelu(x); }) < 6 * n);
  CHECK(taken([&] { return softmax(x); }) < 6 * n);
}

TEST_CASE("a step that repeats asks the system for nothing from the third on", "[memory]") {
  Tensor w1 = full({16, 8}, 0.1).requires_grad_(), w2 = full({1, 16}, 0.2).requires_grad_(),
         bias = zeros({16}).requires_grad_();
  const Tensor x = full({32, 8}, 0.5);
  const auto step = [&] {
    const Tensor h = matmul(x, transpose(w1)) + bias;
    const Tensor y = matmul(h * h, transpose(w2));
    const Tensor loss = mean(y * y);
    loss.backward();
    const NoGrad no_grad;
    for (Tensor* p : {&w1, &w2, &bias}) {
      p->sub_(p->grad() * 0.01);
      p->zero_grad();
    }
    return loss.item();
  };
  const double first = step();
  step();
  const auto base = memory_stats();
  double last = 0;
  for (int i = 0; i < 20; ++i) last = step();
  CHECK(memory_stats().system_allocs == base.system_allocs);
  CHECK(memory_stats().live_blocks == base.live_blocks);
  CHECK(last < first);
}

TEST_CASE("blocks are aligned, large enough, and recycled", "[memory]") {
  for (const std::size_t bytes :
       {0u, 1u, 63u, 64u, 65u, 1000u, 1024u, 1025u, 1280u, 1281u, 4097u, 1u << 20, (1u << 20) + 1}) {
    INFO(bytes << " bytes");
    const detail::SizeClass size = detail::size_class(bytes);
    const std::size_t capacity = size.capacity;
    void* block = detail::acquire(size);
    CHECK(capacity >= bytes);
    CHECK(capacity <= bytes + bytes / 4 + 64);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
    static_cast<char*>(block)[0] = static_cast<char*>(block)[capacity - 1] = 1;
    CHECK(detail::size_class(capacity).index == size.index);
    const detail::SizeClass next = detail::size_class(capacity + 1);
    CHECK((size.large() ? next.large() : next.index == size.index + 1));
    CHECK(next.capacity > capacity);
    detail::release(block, size);
    const auto allocs = memory_stats().system_allocs;
    CHECK(detail::acquire(size) == block);
    CHECK(memory_stats().system_allocs == allocs);
    detail::release(block, size);
  }
  for (const std::int64_t n : {0, 1, 3, 7, 33, 257}) {
    CHECK(reinterpret_cast<std::uintptr_t>(zeros({n}).raw()) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(zeros({n, 2}, float64).raw()) % 64 == 0);
  }
}

// The bytes that large blocks have from the system, in use or free.
std::int64_t large_bytes() {
  const MemoryStats s = detail::large_stats();
  return s.live_bytes + s.cached_bytes;
}

TEST_CASE("free memory joins", "[memory]") {
  empty_cache();
  constexpr std::int64_t n = 1 << 20;  // 4 MiB, and a page for the header
  std::vector<Tensor> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(zeros({n}));
  const std::int64_t before = large_bytes(), allocs = memory_stats().system_allocs;
  SECTION("of neighbours, in any order") {
    for (const std::size_t i : {1u, 6u, 2u, 4u, 0u, 7u, 3u, 5u}) parts[i] = Tensor();
    const Tensor whole = zeros({8 * n});
    CHECK(memory_stats().system_allocs == allocs);
    CHECK(large_bytes() == before);
  }
  SECTION("with new memory of the system, so that this gives only what is missing") {
    parts.clear();
    const Tensor more = zeros({10 * n});
    CHECK(memory_stats().system_allocs == allocs + 1);
    CHECK(large_bytes() - before <= (2 * n) * 4 + (4 << 20));
  }
  SECTION("and is divided: a block takes the smallest range in which it fits") {
    const void* const small = parts[5].raw();
    for (const std::size_t i : {1u, 2u, 3u, 5u}) parts[i] = Tensor();
    const Tensor x = zeros({n}), large = zeros({3 * n});
    CHECK(x.raw() == small);
    CHECK(large_bytes() == before);
  }
}

TEST_CASE("free ranges go back to the system before it gives much", "[memory]") {
  empty_cache();
  constexpr std::int64_t n = std::int64_t{16} << 18;  // 16 MiB
  std::vector<Tensor> parts;
  for (int i = 0; i < 8; ++i) parts.push_back(zeros({n}));
  const std::int64_t before = large_bytes();
  for (std::size_t i = 0; i < 8; i += 2) parts[i] = Tensor();
  const Tensor whole = zeros({4 * n});  // fits in no range
  CHECK(large_bytes() - before <= 4 << 20);
}

TEST_CASE("what no machine has is an error", "[memory]") {
  CHECK_THROWS_WITH(detail::acquire(detail::size_class(std::size_t{1} << 50)), Contains("[memory]"));
  CHECK_THROWS_WITH(detail::acquire(detail::size_class(~std::size_t{0})), Contains("[memory]"));
  CHECK_THROWS_AS(Tensor::empty({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  CHECK_THROWS_WITH(set_cache_limit(-1), Contains("[set_cache_limit]") && Contains("-1"));
}

TEST_CASE("the cache gives back, and keeps to its limit", "[memory]") {
  empty_cache();
  const auto others = memory_stats().cached_bytes;  // of other threads
  { const Tensor x = zeros({1 << 20}); }
  CHECK(memory_stats().cached_bytes - others >= 4 << 20);
  empty_cache();
  CHECK(memory_stats().cached_bytes == others);
  set_cache_limit(4 << 20);
  { const Tensor x = zeros({1 << 21}), y = zeros({1 << 10}); }
  CHECK(memory_stats().cached_bytes - others >= 1 << 12);
  CHECK(memory_stats().cached_bytes - others <= 4 << 20);
  set_cache_limit(std::int64_t{2} << 30);
}

TEST_CASE("what one thread takes and another gives back goes around", "[memory]") {
  // As a loader's thread makes batches and the training frees them: the cache of the latter must not grow by each.
  const auto hand_over = [](int batches) {
    for (int i = 0; i < batches; ++i) {
      Tensor batch;
      std::thread([&] { batch = zeros({1 << 18}); }).join();
    }
  };
  MemoryStats before, after;
  std::thread([&] {                          // of its own: what it has taken itself is
    const Tensor data = zeros({200 << 18});  // a data set, of another size than the batches
    hand_over(20);
    before = memory_stats();
    hand_over(100);
    after = memory_stats();
  })
      .join();
  CHECK(after.live_bytes == before.live_bytes);
  CHECK(after.cached_bytes - before.cached_bytes < 4 << 20);
  CHECK(after.system_allocs - before.system_allocs < 50);  // not one for each
  empty_cache();
}

TEST_CASE("what one thread made another may free", "[memory]") {
  CHECK(left_behind([] {
          Tensor made;
          std::thread([&] {
            Tensor x = leaf({1, 2});
            made = sum(x * x);
          }).join();
          made.backward();
          std::thread([gone = std::move(made)]() mutable { gone = Tensor(); }).join();
        }) == 0);
}

// Sizes whose product fits an int64, but not the bytes, or the product of their bytes.
TEST_CASE("more bytes than can be addressed are an Error that names the shape", "[memory]") {
  const auto before = memory_stats();
  for (const DType t : {boolean, int64, float32, float64})
    for (const int log : {48, 60, 61, 62}) {
      INFO(t << " 2^" << log);
      const std::int64_t n = std::int64_t{1} << log;
      const auto told = Contains("[tensor] shape [" + std::to_string(n) + "] in " + name_of(t));
      CHECK_THROWS_WITH(Tensor::empty({n}, t), told);
      CHECK_THROWS_WITH(zeros({n}, t), told);
      CHECK_THROWS_WITH(full({n}, 1, t), told);
      CHECK_THROWS_WITH(broadcast_to(zeros({1}, t), {n}), told);
    }
  const std::int64_t n = std::int64_t{1} << 62;
  const Tensor one = ones({1}), none = zeros({n, 0});
  CHECK_THROWS_AS(rand({n}), Error);
  CHECK_THROWS_AS(randn({n}), Error);
  CHECK_THROWS_AS(randint(0, 2, {n}), Error);
  CHECK_THROWS_AS(randperm(n), Error);
  CHECK_THROWS_AS(bernoulli(0.5, {n}), Error);
  CHECK_THROWS_AS(arange(n), Error);
  CHECK_THROWS_AS(linspace(0, 1, n), Error);
  CHECK_THROWS_AS(eye(n), Error);
  CHECK_THROWS_AS(eye(1 << 30, 1 << 30), Error);
  CHECK_THROWS_AS(one_hot(zeros({1}, int64), n), Error);
  CHECK_THROWS_AS(one_hot(zeros({2}, int64), INT64_MAX), Error);
  CHECK_THROWS_AS(reshape(one, {n, 4, -1}), Error);
  CHECK_THROWS_AS(matmul(none, zeros({0, 1})), Error);
  CHECK_THROWS_AS(sum(none, 1), Error);
  CHECK_THROWS_AS(cat({zeros({0, n}), zeros({0, n}), zeros({0, n})}, 1), Error);
  CHECK_THROWS_AS(split(zeros({0, n}), 1, 1), Error);
  CHECK_THROWS_AS(split(zeros({0, n}), {n, n, n, n, n}, 1), Error);
  CHECK_THROWS_AS(chunk(zeros({0, n}), INT32_MAX, 1), Error);
  CHECK_THROWS_AS(topk(one, n, 0), Error);
  CHECK_THROWS_AS(index_select(one, 0, full({1}, INT64_MIN, int64)), Error);
  CHECK_THROWS_AS(gather(one, 0, full({1}, INT64_MAX, int64)), Error);
  CHECK_THROWS_AS(one[INT64_MIN], Error);
  const auto far = RotaryOptions().offset(INT64_MAX);
  CHECK_THROWS_AS(rotary(zeros({2, 2}), zeros({3, 1, 2}, float64), far), Error);
  CHECK(memory_stats().live_bytes - before.live_bytes < 4096);
}

TEST_CASE("tensors without elements may have axes of any size", "[memory]") {
  const std::int64_t n = std::int64_t{1} << 62;
  const Tensor rows = zeros({n, 0}), columns = zeros({0, n});
  for (const Tensor& x : {rows, columns})
    for (const int axis : {0, 1}) {
      INFO(x.shape() << ", axis " << axis);
      CHECK(softmax(x, axis).shape() == x.shape());
      CHECK(cumsum(x, axis).shape() == x.shape());
      CHECK(sort(x, axis).first.shape() == x.shape());
      CHECK(flip(x, {axis}).shape() == x.shape());
      CHECK(cat({x, x.reshape({x.size(0), x.size(1)})}, x.size(0) ? 1 : 0).shape() == x.shape());
      CHECK(slice(x, axis, INT64_MIN + 1, INT64_MAX, INT64_MAX).numel() == 0);
      CHECK(slice(x, axis, INT64_MAX, INT64_MIN + 1, INT64_MIN).numel() == 0);
    }
  CHECK(median(columns, 1).first.shape() == Shape{0});
  CHECK(tril(rows, INT64_MAX).shape() == rows.shape());
  CHECK(triu(columns, INT64_MIN).shape() == columns.shape());
  CHECK(transpose(rows).shape() == columns.shape());
  CHECK(exp(rows).shape() == rows.shape());
  CHECK((rows + ones({1})).shape() == rows.shape());
  CHECK(layer_norm(rows).shape() == rows.shape());
  CHECK(sum(rows, 0).shape() == Shape{0});
  CHECK(sum(rows.to(int64), 0).shape() == Shape{0});
  CHECK(repeat(rows, {1, 2}).shape() == rows.shape());
  CHECK(repeat_interleave(rows, 3, 1).shape() == rows.shape());
  CHECK(searchsorted(rows, rows).shape() == rows.shape());
  CHECK(matmul(columns, zeros({n, 0})).shape() == Shape{0, 0});
  CHECK(matmul(zeros({n / 4, 0, 3}), zeros({3, 4})).shape() == Shape{n / 4, 0, 4});
}

}  // namespace fit::test::memory_test
