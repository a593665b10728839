#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/int8/int8.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/ops/ops.hpp"
#include "fit/ops/recurrent.hpp"
#include "fit/threads/parallel.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// In the mode Reproducible a row has the same bits with any number of other rows, and at any place among them.
namespace fit::test::reproducible_mode_test {
namespace {

using Rows = Callable<Tensor(const Tensor&)>;

// f of some rows of x equals the rows of f(x).
void check_rows(const std::string& name, const Tensor& x, const Rows& f) {
  const NoGrad no_grad;
  const Tensor all = f(x);
  const std::int64_t n = x.size(0);
  for (const std::int64_t count : {1, 2, 4, 5, 8, 9, 24, 25, 97})
    for (const std::int64_t first : {n / 3, n - count}) {
      if (first < 0 || first + count > n) continue;
      if (same_bits(f(slice(x, 0, first, first + count)), slice(all, 0, first, first + count))) continue;
      FAIL_CHECK(name << " of " << x.dtype() << ' ' << x.shape() << ": " << count << " rows from " << first);
      return;
    }
}

// Below and above the parts of a product along k, of float (384) and of bfloat16 (512), and none of them whole.
constexpr std::int64_t depths[] = {3, 129, 389, 1030};

}  // namespace

TEST_CASE("a row of a product does not depend on the other rows", "[reproducible]") {
  const Reproducible mode;
  Generator g(1);
  each_bfloat16_isa([&] {
    for (const DType dtype : {float32, float64, bfloat16})
      for (const std::int64_t k : depths)
        for (const std::int64_t n : {1, 5, 130}) {
          const Tensor x = randn({130, k}, dtype, g), w = randn({n, k}, dtype, g), b = randn({n}, dtype, g);
          const Tensor wt = transpose(w, 0, 1);
          check_rows("linear", x, [&](const Tensor& rows) { return linear(rows, w, b); });
          check_rows("linear without a bias", x, [&](const Tensor& rows) { return linear(rows, w, {}); });
          check_rows("matmul", x, [&](const Tensor& rows) { return matmul(rows, wt); });
          check_rows("matmul of a transpose", x, [&](const Tensor& rows) {
            return matmul(transpose(rows, 0, 1), Transpose::yes, wt, Transpose::no);
          });
          check_rows("products", reshape(x, {26, 5, k}), [&](const Tensor& stack) { return matmul(stack, wt); });
          if (dtype != float32) continue;
          const Autocast low(bfloat16);
          check_rows("linear under Autocast", x, [&](const Tensor& rows) { return linear(rows, w, b); });
        }
  });
}

TEST_CASE("a row of a product with int8 weights does not depend on the other rows", "[reproducible]") {
  const Reproducible mode;
  Generator g(2);
  each_bfloat16_isa([&] {
    for (const DType dtype : {float32, bfloat16})
      for (const std::int64_t k : depths)
        for (const std::int64_t n : {5, 130})
          for (const std::int64_t group : {0, 32}) {
            const Tensor x = randn({130, k}, dtype, g), b = randn({n}, dtype, g);
            const Int8Matrix w = quantize(randn({n, k}, dtype, g), group);
            check_rows("int8 linear", x, [&](const Tensor& rows) { return linear(rows, w, b); });
          }
  });
}

TEST_CASE("rows of norms, softmax, functions and recurrent layers do not depend on the other rows", "[reproducible]") {
  const Reproducible mode;
  Generator g(3);
  each_isa([&] {
    // The large one is written past the caches.
    for (const Shape& shape : {Shape{100, 37}, Shape{1100, 2048}}) {
      const std::int64_t n = shape[1];
      const Tensor x = randn(shape, float32, g), weight = randn({n}, float32, g), bias = randn({n}, float32, g);
      check_rows("layer_norm", x, [&](const Tensor& rows) { return layer_norm(rows, weight, bias); });
      check_rows("layer_norm without a bias", x, [&](const Tensor& rows) { return layer_norm(rows, weight, {}); });
      check_rows("rms_norm", x, [&](const Tensor& rows) { return rms_norm(rows, weight); });
      check_rows("softmax", x, [](const Tensor& rows) { return softmax(rows, -1); });
      check_rows("log_softmax", x, [](const Tensor& rows) { return log_softmax(rows, -1); });
      check_rows("gelu", x, [](const Tensor& rows) { return gelu(rows); });
      check_rows("sums", x, [&](const Tensor& rows) { return rows * weight + bias; });
      check_rows("mean", x, [](const Tensor& rows) { return mean(rows, -1); });
    }
    const Tensor steps = randn({100, 5, 4 * 20}, float32, g), weight = randn({4 * 20, 20}, float32, g);
    check_rows("lstm_steps", steps, [&](const Tensor& rows) {
      const Tensor zero = zeros({rows.size(0), 20});
      return lstm_steps(rows, weight, {}, zero, zero).first;
    });
  });
}

TEST_CASE("a query's context does not depend on the other queries and the padding behind", "[reproducible]") {
  const Reproducible mode;
  Generator g(4);
  each_bfloat16_isa([&] {
    for (const DType dtype : {float32, float64, bfloat16})
      for (const std::int64_t D : {8, 40, 64}) {
        const std::int64_t S = 140;
        const Tensor q = randn({2, 4, S, D}, dtype, g), k = randn({2, 2, S, D}, dtype, g),
                     v = randn({2, 2, S, D}, dtype, g);
        const auto part = [](const Tensor& x, std::int64_t from, std::int64_t to) { return slice(x, 2, from, to); };
        const Tensor slopes = tensor({0.5, 0.25, 0.125, 0.0625});
        for (const std::int64_t window : {0, 30})
          for (const bool alibi : {false, true}) {
            auto options = AttentionOptions().causal().window(window);
            if (alibi) options.alibi(slopes);
            const Tensor all = scaled_dot_product_attention(q, k, v, options);
            // Queries from … to - 1 with the keys up to them: causality stands at the bottom right.
            for (const auto& [from, to] :
                 std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1}, {0, 70}, {69, 70}, {60, 131}, {139, 140}})
              CHECK(same_bits(scaled_dot_product_attention(part(q, from, to), part(k, 0, to), part(v, 0, to), options),
                              part(all, from, to)));
            // One element of the batch.
            CHECK(same_bits(
                scaled_dot_product_attention(slice(q, 0, 1, 2), slice(k, 0, 1, 2), slice(v, 0, 1, 2), options),
                slice(all, 0, 1, 2)));
          }
        // Keys behind that are masked.
        for (const std::int64_t n : {1, 63, 64, 65, 130}) {
          const Tensor mask = reshape(lt(arange(S), n), {1, 1, 1, S});
          const Tensor padded = scaled_dot_product_attention(q, k, v, AttentionOptions().mask(mask));
          CHECK(
              same_bits(part(padded, 0, n), scaled_dot_product_attention(part(q, 0, n), part(k, 0, n), part(v, 0, n))));
        }
      }
  });
}

TEST_CASE("the mode is a state of the thread, which tasks copy", "[reproducible]") {
  CHECK_FALSE(reproducible());
  {
    const Reproducible mode;
    CHECK(reproducible());
    set_num_threads(3);
    std::vector<char> on(64, 0);
    parallel_for(64, 1, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) on[static_cast<std::size_t>(i)] = reproducible();
    });
    CHECK(on == std::vector<char>(64, 1));
    set_num_threads(1);
  }
  CHECK_FALSE(reproducible());
}

TEST_CASE("without the mode few rows are added up in another order", "[reproducible]") {
  Generator g(5);
  const Tensor x = randn({64, 300}, float32, g), w = randn({80, 300}, float32, g);
  const Tensor all = linear(x, w, {}), one = linear(slice(x, 0, 0, 1), w, {});
  CHECK_FALSE(same_bits(one, slice(all, 0, 0, 1)));
  const Reproducible mode;
  CHECK(same_bits(linear(slice(x, 0, 0, 1), w, {}), slice(linear(x, w, {}), 0, 0, 1)));
}

}  // namespace fit::test::reproducible_mode_test
