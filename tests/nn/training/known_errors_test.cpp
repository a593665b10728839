#include <array>
#include <cmath>

#include "fit/base/memory.hpp"
#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Errors that others had, by where they were found, as far as no other test stands for them: docs/reliability.md has
// the whole list.
namespace fit::test::known_errors_test {
namespace {

using V = std::vector<double>;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

}  // namespace

TEST_CASE("mxnet#17989: one tensor 2 to 10 times among the inputs of one operation", "[known]") {
  for (int n = 2; n <= 10; ++n) {
    INFO(n << " times");
    const Tensor x = leaf({1.5, -2});
    const std::vector<Tensor> often(static_cast<std::size_t>(n), x);
    CHECK(values(grad(sum(cat(often) * 3), x)) == V(2, 3 * n));
    CHECK(values(grad(sum(stack(often) * 3), x)) == V(2, 3 * n));
    std::string letters = "i";
    for (int k = 1; k < n; ++k) letters += ",i";
    const V g = values(grad(einsum(letters + "->", often), x));
    CHECK(g[0] == Approx(n * std::pow(1.5, n - 1)));
    CHECK(g[1] == Approx(n * std::pow(-2, n - 1)));
    std::vector<Tensor> rows;
    for (int k = 0; k < n; ++k) rows.push_back(maximum(x, x));
    CHECK(values(grad(sum(stack(rows)), x)) == V(2, n));
  }
}

TEST_CASE("pytorch#3818: an exception in the middle of a forward pass leaves no graph behind", "[known]") {
  nn::Linear layer(4, 4);
  const auto broken = [&] {
    Tensor h = layer(ones({2, 4}));
    for (int i = 0; i < 5; ++i) h = tanh(layer(h));
    matmul(h, ones({3, 3}));
  };
  CHECK_THROWS_AS(broken(), Error);
  const auto base = memory_stats().live_blocks;
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(broken(), Error);
  CHECK(memory_stats().live_blocks == base);
}

TEST_CASE("pytorch#1111: a loss that is kept as a number keeps no graph", "[known]") {
  nn::Linear layer(4, 1);
  std::vector<double> losses;
  std::int64_t after_ten = 0;
  for (int i = 0; i < 100; ++i) {
    losses.push_back(mean(square(layer(ones({2, 4})))).item());
    if (i == 9) after_ten = memory_stats().live_blocks;
  }
  CHECK(memory_stats().live_blocks == after_ten);
}

TEST_CASE("pytorch#15792: an optimiser whose state is loaded twice holds it once", "[known]") {
  nn::Linear layer(4, 4);
  optim::AdamW optimizer(layer.named_parameters(), 1e-3);
  sum(layer(ones({2, 4}))).backward();
  optimizer.step();
  const StateDict state = optimizer.state_dict();
  optimizer.load_state_dict(state);
  const auto base = memory_stats().live_blocks;
  for (int i = 0; i < 3; ++i) optimizer.load_state_dict(state);
  CHECK(memory_stats().live_blocks == base);
}

TEST_CASE("jax#23842: logsumexp behind where has gradients on both sides", "[known]") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor visible = tensor({true, false, true});
  const Tensor g = grad(logsumexp(masked_fill(x, logical_not(visible), -INFINITY)), x);
  const double p = 1 / (1 + std::exp(2.));
  CHECK(max_difference(g, tensor({p, 0., 1 - p}, float64)) < 1e-15);
  const Tensor safe = where(visible, x, zeros({3}, float64));
  CHECK(all(isfinite(grad(sum(where(visible, log(safe), zeros({3}, float64))), x))).item<bool>());
}

TEST_CASE("jax#40344: the gradient of a softmax sums to zero where one term outweighs all", "[known]") {
  for (const DType dtype : {float32, float64})
    for (const double far : {0., 40., 700.}) {
      const Tensor z = tensor({far, 0}, dtype).requires_grad_();
      const Tensor g = grad(softmax(z), z, tensor({0.3, -0.7}, dtype)).to(float64);
      // dz_i = p_i (v_i - sum of p v): what is rounded is of the size of v, 0.7 at most.
      CHECK(std::abs(sum(g).item<double>()) <= 4 * (dtype == float32 ? 0x1p-24 : 0x1p-53) * 0.7);
    }
  // So the share of the term that outweighs, of the size of the others' together, is lost where it is less than that;
  // the others' are as exact as their weights.
  const Tensor z = leaf({40, 0});
  const Tensor g = grad(softmax(z), z, tensor({1, 0}, float64));
  CHECK(std::abs(g[{0}].item<double>()) <= 0x1p-53);
  CHECK(g[{1}].item<double>() == Approx(-4.248354255291589e-18).epsilon(1e-14));
}

TEST_CASE("libtorch#80494: a mask reaches the weights that are returned", "[known]") {
  nn::MultiHeadAttention attention(8, 2, 0.0);
  const Tensor x = rand({2, 4, 8});
  const auto masks =
      AttentionTerms().mask(tensor({{true, true, false, true}, {true, false, false, false}}).unsqueeze(1));
  const AttentionResult r = attention(x, x, x, masks, nn::return_attention);
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < 4; ++i) {
      CHECK(r.weights[{0, h, i, 2}].item() == 0);
      CHECK(r.weights[{1, h, i, 0}].item() == Approx(1));
    }
}

TEST_CASE("pytorch#21518: a float mask of ones and zeros is not added to the scores", "[known]") {
  const Tensor q = rand({1, 4, 8}), tril01 = tril(ones({4, 4}));
  const auto as_mask = AttentionOptions().mask(tril01);
  const auto causal = AttentionOptions().causal();
  CHECK(max_difference(scaled_dot_product_attention(q, q, q, as_mask), scaled_dot_product_attention(q, q, q, causal)) <
        1e-6);
}

TEST_CASE("pytorch#160064: where all keys of all heads are hidden, all that a layer learns from it is its last bias",
          "[known]") {
  nn::MultiHeadAttention attention(8, 2, 0.0);
  const Tensor x = rand({2, 3, 8});
  const auto masks = AttentionTerms().mask(zeros({2, 1, 3}, boolean));
  for (const bool weights : {false, true}) {
    attention.zero_grad();
    const Tensor y =
        weights ? attention(x, x, x, masks, nn::return_attention).output : attention.forward(x, x, x, masks);
    sum(y).backward();
    for (const auto& [name, p] : attention.named_parameters()) {
      INFO(name);
      REQUIRE(all(isfinite(p.grad())).item<bool>());
      CHECK(any(ne(p.grad(), 0)).item<bool>() == (name == "w_o.bias"));
    }
  }
}

TEST_CASE("micrograd#64: a value that is used again by what comes after its first user", "[known]") {
  const Tensor a = leaf({1});
  const Tensor b = a + a, c = b + b;
  const Tensor d = c * a + b;
  CHECK(values(grad(sum(d), a)) == V{8 + 2});  // d = 4 a a + 2 a
}

TEST_CASE("a number between two lists of an index counts among them, as in NumPy", "[known]") {
  const Tensor x = reshape(arange(120), {2, 3, 4, 5});
  const Tensor y = x[{range(), {0, 1}, 3, {2, 4}}];
  CHECK(values(y) == V{17, 39, 77, 99});
  CHECK(y.shape() == Shape{2, 2});
  Tensor z = zeros({2, 3, 4, 5}, int64);
  z[{range(), {0, 1}, 3, {2, 4}}] = tensor({{1, 2}, {3, 4}});
  CHECK(values(z[{range(), {0, 1}, 3, {2, 4}}]) == V{1, 2, 3, 4});
}

TEST_CASE("second derivatives of a product of many numbers need no copy for each of them", "[known]") {
  Tensor x = full({20000}, 1.0001, float64);
  x[{7}] = 2;
  x.requires_grad_();
  const Tensor first = grad(prod(x), x, create_graph);
  const double p = prod(x.detach()).item();
  CHECK(first.detach()[{7}].item() == Approx(p / 2));
  const Tensor second = grad(first[{7}], x);
  CHECK(second[{7}].item() == 0);
  CHECK(second[{0}].item() == Approx(p / 2 / 1.0001));
}

TEST_CASE("the slope of a focal loss by a target of 0 or 1 is that beside it", "[known]") {
  for (const double t : {0., 1.}) {
    const auto slope = [](double target) {
      const Tensor at = leaf({target});
      return grad(nn::focal_loss(tensor({4.179}, float64), at), at).item();
    };
    CHECK(slope(t) == Approx(slope(t == 0 ? 1e-9 : 1 - 1e-9)).epsilon(1e-6));
  }
}

TEST_CASE("what is not finite on the way to a result that is spoils no gradient", "[known]") {
  const double inf = INFINITY;
  for (const auto& [a, b, dy, want] :
       std::vector<std::array<double, 4>>{{0, 1e-10, 1e30, 0}, {1e-30, 1e-10, 1e30, -1e20}}) {
    const Tensor divisor = full({1}, b).requires_grad_();
    CHECK(grad(dy * (full({1}, a) / divisor), divisor).item() == Approx(want));
  }
  const Tensor x = leaf({2, 3, inf});
  CHECK(values(grad(sum(cumprod(x, 0, CumulativeOptions().exclusive())), x)) == V{4, 2, 0});
  CHECK(softplus(leaf({1e308}), 3).item() == 1e308);
  CHECK(grad(sum(softplus(x, 3)), x)[{2}].item() == 1);
  const Tensor zero = leaf({{0, 0}}), other = tensor({{1, 2}}, float64);
  CHECK(values(grad(nn::cosine_embedding_loss(zero, other, tensor({-1.}, float64)), zero)) == V{0, 0});
}

}  // namespace fit::test::known_errors_test
