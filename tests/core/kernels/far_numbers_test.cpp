#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <utility>

#include "fit/core.hpp"
#include "support/catch.hpp"

namespace fit::test::far_numbers_test {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

// The least time of a pass forward and backward at x.
double seconds(const Function& f, Tensor x) {
  x.requires_grad_();
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    sum(f(x)).backward();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

}  // namespace

// Processors may take a hundred times as long for a result that rounds to 0. Masks and tails of rows make such results.
TEST_CASE("functions take no longer where they are 0", "[functions][softmax]") {
  const std::pair<const char*, Function> functions[] = {
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu tanh", [](const Tensor& x) { return gelu(x, Gelu::tanh); }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"selu", [](const Tensor& x) { return selu(x); }},
      {"softmax", [](const Tensor& x) { return softmax(x, -1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }},
  };
  // Rows that fill no vectors.
  const Tensor near = full({600, 27}, -1), far = full({600, 27}, -1000), masked = cat({near, far}, -1);
  for (const auto& [name, f] : functions) {
    INFO(name);
    const double usual = seconds(f, near);
    CHECK(seconds(f, far) < 4 * usual);
    CHECK(seconds(f, masked) < 8 * usual);  // has twice the elements
  }
}

TEST_CASE("attention takes no longer for scores that are far apart", "[attention]") {
  Generator random(5);
  const Tensor k = randn({1, 2, 256, 32}, float32, random), v = randn({1, 2, 256, 32}, float32, random);
  const Function attend = [&](const Tensor& q) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal());
  };
  const Tensor q = randn({1, 2, 256, 32}, float32, random);
  const double usual = seconds(attend, q.detach());
  for (const double factor : {10., 20., 50.}) CHECK(seconds(attend, q * factor) < 3 * usual);
}

TEST_CASE("linear attention takes no longer for a state that fades fast", "[linear_attention]") {
  Generator random(6);
  const Tensor k = randn({1, 2, 512, 32}, float32, random), v = randn({1, 2, 512, 32}, float32, random);
  const auto time = [&](double decay) {
    const auto options = LinearAttentionOptions().decay(full({2}, decay));
    return seconds([&](const Tensor& q) { return linear_attention(q, k, v, options).output; }, k.clone());
  };
  const double usual = time(-0.1);
  for (const double decay : {-2., -5., -90.}) CHECK(time(decay) < 3 * usual);
}

}  // namespace fit::test::far_numbers_test
