#include <thread>
#include <vector>

#include "fit/base/memory.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/ops/ops.hpp"
#include "ops/elementwise/functions.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// linear() with a function of its result, and with the weight's panels that are kept without a graph.
namespace fit::test::linear_test {
namespace {

using kernels::Function;

struct Layer {
  Layer(std::int64_t rows, std::int64_t in, std::int64_t out, DType dtype)
      : x(randn({rows, in}, dtype)), weight(randn({out, in}, dtype)), bias(randn({out}, dtype)) {}
  Tensor x, weight, bias;
};

const void* copy_of(const Tensor& x) { return x.impl()->storage->copy.load(); }

}  // namespace

TEST_CASE("a function of linear()'s result has the bits and the gradients of two operations", "[linear]") {
  const auto check = [](std::int64_t rows, std::int64_t in, std::int64_t out, DType dtype) {
    INFO(rows << " x " << in << " x " << out);
    Layer a(rows, in, out, dtype);
    const Tensor seed = randn({rows, out}, dtype);
    for (const Function* const f : {&Function::relu, &Function::gelu, &Function::gelu_tanh, &Function::silu}) {
      const auto run = [&](bool fused) {
        std::vector<Tensor> results;
        for (Tensor* const t : {&a.x, &a.weight, &a.bias}) t->requires_grad_(), t->zero_grad();
        const auto forward = [&] {
          return fused ? detail::apply_to_linear(*f, a.x, a.weight, a.bias)
                       : detail::apply(*f, linear(a.x, a.weight, a.bias));
        };
        const Tensor y = forward();
        y.backward(seed);
        results = {y.detach(), a.x.grad(), a.weight.grad(), a.bias.grad()};
        const NoGrad no_grad;
        results.push_back(forward());
        return results;
      };
      const std::vector<Tensor> apart = run(false), fused = run(true);
      for (std::size_t i = 0; i < apart.size(); ++i) CHECK(same_bits(apart[i], fused[i]));
    }
  };
  const auto check_all = [&](DType dtype) {
    for (const std::int64_t rows : {1, 3, 16, 70, 300}) {
      check(rows, 5, 7, dtype);
      check(rows, 70, 150, dtype);
    }
    check(0, 5, 7, dtype);
    check(3, 0, 7, dtype);
  };
  each_isa([&] {
    check_all(float32);
    check_all(float64);
  });
  each_bfloat16_isa([&] { check_all(bfloat16); });
}

TEST_CASE("a function of linear()'s result does not depend on the number of threads", "[linear]") {
  const Layer a(130, 300, 700, float32);
  const NoGrad no_grad;
  check_threads([&] { return detail::apply_to_linear(Function::gelu, a.x, a.weight, a.bias); });
}

TEST_CASE("panels of a weight are kept for a version, and go with it", "[linear]") {
  const NoGrad no_grad;
  const std::int64_t before = memory_stats().live_blocks;
  each_isa([&] {
    Layer a(16, 300, 150, float32);
    const Tensor y = linear(a.x, a.weight);
    const void* const panels = copy_of(a.weight);
    REQUIRE(panels != nullptr);
    CHECK(same_bits(linear(a.x, a.weight), y));
    CHECK(copy_of(a.weight) == panels);
    CHECK(allclose(y, matmul(a.x, transpose(a.weight)), 1e-4, 1e-4));
    a.weight.mul_(2);
    CHECK(copy_of(a.weight) == nullptr);
    CHECK(same_bits(linear(a.x, a.weight), y * 2));
    // Another form of the same tensor takes the place of the panels.
    {
      const Autocast on(bfloat16);
      CHECK(allclose(linear(a.x, a.weight).to(float32), y * 2, 0.05, 1));
    }
    CHECK(same_bits(linear(a.x, a.weight), y * 2));
    const Tensor x = randn({16, 100}), other_rows = a.weight.reshape({450, 100});
    CHECK(allclose(linear(x, other_rows), matmul(x, transpose(other_rows)), 1e-4, 1e-4));
    CHECK(same_bits(linear(a.x, a.weight), y * 2));
  });
  CHECK(memory_stats().live_blocks == before);
}

TEST_CASE("a graph and few rows keep no panels; many rows keep them from the second use on", "[linear]") {
  const auto kept = [](std::int64_t rows, bool recording, DType dtype = float32, int uses = 1) {
    const detail::Scoped mode(detail::thread_state.recording, recording);
    const Layer a(rows, 300, 150, dtype);
    for (int i = 0; i < uses; ++i) linear(a.x, a.weight);
    return copy_of(a.weight) != nullptr;
  };
  each_bfloat16_isa([&] {
    if (kernels::chosen_isa < kernels::Isa::avx2) return;
    for (const DType dtype : {float32, bfloat16}) {
      CHECK_FALSE(kept(16, true, dtype, 2));
      CHECK_FALSE(kept(4, false, dtype, 2));
      CHECK(kept(8, false, dtype));
      CHECK(kept(128, false, dtype));
      CHECK_FALSE(kept(129, false, dtype));
      CHECK(kept(129, false, dtype, 2));
      CHECK(kept(1000, false, dtype, 2));
    }
  });
}

TEST_CASE("kept panels of a bfloat16 weight change no bit", "[linear]") {
  const auto check = [](std::int64_t rows, std::int64_t in, std::int64_t out) {
    const Layer a(rows, in, out, bfloat16);
    const Tensor packed_anew = [&] {
      const EnableGrad recording;
      return linear(a.x, a.weight, a.bias);
    }();
    const NoGrad no_grad;
    for (int use = 0; use < 2; ++use) CHECK(same_bits(linear(a.x, a.weight, a.bias), packed_anew));
    check_threads([&] { return linear(a.x, a.weight, a.bias); });
  };
  each_bfloat16_isa([&] {
    for (const std::int64_t rows : {5, 16, 24, 25, 70, 128, 129, 500}) {
      check(rows, 300, 150);
      check(rows, 1100, 400);  // longer than a part of k
    }
  });
}

TEST_CASE("the instruction set may change between two uses of kept panels", "[linear]") {
  const NoGrad no_grad;
  const Layer a(16, 300, 150, float32);
  const Tensor expected = linear(a.x.to(float64), a.weight.to(float64));
  for (int round = 0; round < 2; ++round)
    each_bfloat16_isa([&] { CHECK(allclose(linear(a.x, a.weight).to(float64), expected, 1e-4, 1e-4)); });
}

TEST_CASE("Reproducible may begin and end between two uses of kept panels", "[linear]") {
  const NoGrad no_grad;
  each_bfloat16_isa([] {
    Layer a(128, 300, 400, float32);
    a.weight = floor(a.weight * 4.0);  // no bits in the lower half: panels of another form hold no NaN
    const Tensor expected = linear(a.x.to(float64), a.weight.to(float64));
    const auto right = [&] { return allclose(linear(a.x, a.weight).to(float64), expected, 1e-4, 1e-4); };
    for (int turn = 0; turn < 2; ++turn) {
      {
        const Reproducible mode;
        CHECK(right());
      }
      CHECK(right());
    }
  });
}

TEST_CASE("Reproducible: kept panels change no bit of a row", "[linear]") {
  const NoGrad no_grad;
  const Reproducible mode;
  const Layer a(200, 300, 150, float32);
  const Tensor all = linear(a.x, a.weight, a.bias);
  for (const std::int64_t rows : {1, 4, 5, 8, 16, 25, 64, 128, 129})
    CHECK(same_bits(linear(slice(a.x, 0, 0, rows), a.weight, a.bias), slice(all, 0, 0, rows)));
}

TEST_CASE("several threads may ask for panels of one weight", "[linear]") {
  for (int round = 0; round < 20; ++round) {
    const Layer a(16, 300, 150, float32);
    std::vector<Tensor> results(4);
    std::vector<std::thread> threads;
    for (Tensor& y : results)
      threads.emplace_back([&] {
        const NoGrad no_grad;
        y = linear(a.x, a.weight);
      });
    for (std::thread& t : threads) t.join();
    for (const Tensor& y : results) CHECK(same_bits(y, results[0]));
  }
}

}  // namespace fit::test::linear_test
