#include "fit/backward/functional.hpp"

#include "fit/attention/attention.hpp"
#include "fit/backward/activation_checkpoint.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::functional_test {
namespace {

using Catch::Contains;

Tensor softmax_rows(const Tensor& x) { return softmax(x, -1); }
// Not symmetric in its elements, and with all second derivatives.
Tensor mixed(const Tensor& x) { return sum(exp(x) * cumsum(x, 0)) + prod(x); }

}  // namespace

TEST_CASE("jacobian() of softmax is diag(p) - p p^T", "[functional]") {
  const Tensor x = tensor({0.3, -1., 2.}, float64), p = softmax(x);
  const Tensor expected = eye(3, 3, float64) * p - outer(p, p);
  CHECK(max_difference(jacobian(softmax_rows, x), expected) < 1e-15);
  const Tensor leaf = x.clone().requires_grad_();
  CHECK(max_difference(jacobian(softmax_rows(leaf), leaf), expected) < 1e-15);
}

TEST_CASE("jacobian() has y's axes before x's, and takes several inputs", "[functional]") {
  const Tensor a = randn({2, 3}, float64).requires_grad_(), b = randn({3, 4}, float64).requires_grad_();
  const Tensor y = matmul(a, b);
  const std::vector<Tensor> j = jacobian(y, {a, b});
  REQUIRE(j[0].shape() == Shape{2, 4, 2, 3});
  REQUIRE(j[1].shape() == Shape{2, 4, 3, 4});
  // dy_ij / da_kl = [i = k] b_lj, dy_ij / db_kl = a_ik [j = l]
  CHECK(max_difference(j[0], einsum("ik,lj->ijkl", {eye(2, 2, float64), b.detach()})) == 0);
  CHECK(max_difference(j[1], einsum("ik,jl->ijkl", {a.detach(), eye(4, 4, float64)})) == 0);
  sum(y).backward();  // the graph is still there
  CHECK(a.grad().defined());
}

TEST_CASE("hessian() is the jacobian of the gradient, and symmetric", "[functional]") {
  const Tensor x = tensor({0.5, -0.3, 1.2}, float64);
  const Tensor h = hessian(mixed, x);
  CHECK(max_difference(h, transpose(h)) < 1e-15);
  CHECK(max_difference(hessian([](const Tensor& z) { return sum(z * z * z); }, x), eye(3, 3, float64) * (6 * x)) <
        1e-15);
  // Central differences of the gradient.
  const double e = 1e-5;
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto gradient = [&](double step) {
      Tensor z = x.clone();
      z[i] += step;
      z.requires_grad_();
      return grad(mixed(z), z);
    };
    CHECK(max_difference(h[i], (gradient(e) - gradient(-e)) / (2 * e)) < 1e-8);
  }
}

TEST_CASE("batch_jacobian() and batch_hessian() are those of each row", "[functional]") {
  const Tensor x = randn({5, 3}, float64), w = randn({3, 4}, float64);
  const auto rows = [&](const Tensor& z) { return tanh(matmul(z, w)); };
  const auto energy = [&](const Tensor& z) { return sum(rows(z) * rows(z), -1); };
  const Tensor j = batch_jacobian(rows, x), h = batch_hessian(energy, x);
  REQUIRE(j.shape() == Shape{5, 4, 3});
  REQUIRE(h.shape() == Shape{5, 3, 3});
  for (std::int64_t b = 0; b < 5; ++b) {
    CHECK(max_difference(j[b], jacobian(rows, x[b])) < 1e-15);
    CHECK(max_difference(h[b], hessian([&](const Tensor& z) { return energy(unsqueeze(z, 0)); }, x[b])) < 1e-14);
  }
  const auto matrix = [](const Tensor& z) { return unsqueeze(z, -1) * unsqueeze(z, -2); };  // [B, 3, 3]
  CHECK(max_difference(batch_jacobian(matrix, x)[2], jacobian([&](const Tensor& z) { return outer(z, z); }, x[2])) ==
        0);

  const Tensor leaf = x.clone().requires_grad_();
  const Tensor again = batch_jacobian(leaf * leaf, leaf, create_graph);  // 2 x on the diagonal
  CHECK(max_difference(grad(sum(again), leaf), full({5, 3}, 2., float64)) == 0);
  CHECK(batch_jacobian(rows, zeros({0, 3}, float64)).shape() == Shape{0, 4, 3});
  CHECK_THROWS_WITH(batch_jacobian(sum(leaf), leaf),
                    "[batch_jacobian] y is [], x is [5, 3]: both must be [B, …], of as many rows");
  CHECK_THROWS_WITH(batch_hessian(leaf, leaf), "[batch_hessian] y is [5, 3], x is [5, 3]: x must be [B, …] and y [B]");
}

TEST_CASE("products with vectors are those with the matrices", "[functional]") {
  const Tensor x = tensor({0.5, -0.3, 1.2}, float64), v = tensor({1., 2., -0.5}, float64);
  const Tensor j = jacobian(softmax_rows, x);
  CHECK(max_difference(jvp(softmax_rows, x, v), matmul(j, v)) < 1e-15);
  CHECK(max_difference(vjp(softmax_rows, x, v), matmul(v, j)) < 1e-15);
  CHECK(max_difference(hvp(mixed, x, v), matmul(hessian(mixed, x), v)) < 1e-14);

  // Over several inputs: of f = sum(a b a), H v = (2 (b va + a vb), 2 a va).
  const Tensor a = randn({3}, float64).requires_grad_(), b = randn({3}, float64).requires_grad_();
  const std::vector<Tensor> hv = hvp(sum(a * b * a), {a, b}, {v, x});
  CHECK(max_difference(hv[0], 2 * (b * v + a * x)) < 1e-14);
  CHECK(max_difference(hv[1], 2 * a * v) < 1e-14);

  // Of g = a b, J (va, vb) = b va + a vb and v^T J = (v b, v a); H of f has the blocks 2 diag(b), 2 diag(a) and 0.
  const std::vector<Tensor> inputs{a, b};
  CHECK(max_difference(jvp(a * b, inputs, {v, x}), b * v + a * x) < 1e-15);
  const std::vector<Tensor> vj = vjp(a * b, inputs, v);
  CHECK(max_difference(vj[0], v * b) < 1e-15);
  CHECK(max_difference(vj[1], v * a) < 1e-15);
  const auto h = hessian(sum(a * b * a), inputs);
  CHECK(max_difference(h[0][0], 2 * diag(b)) < 1e-15);
  CHECK(max_difference(h[0][1], 2 * diag(a)) < 1e-15);
  CHECK(max_difference(h[1][0], 2 * diag(a)) < 1e-15);
  CHECK(max_difference(h[1][1], zeros({3, 3})) < 1e-15);
  CHECK_THROWS_WITH(jvp(a * b, inputs, {v}), "[jvp] 1 vectors for 2 inputs: there must be one for each");
}

TEST_CASE("Hessian-vector products go through attention, layer norm and cross entropy", "[functional]") {
  Generator g(1);
  const Tensor x = randn({3, 4}, float64, g), v = randn({3, 4}, float64, g), ids = tensor({1, 0, 3});
  const auto loss = [&](const Tensor& z) {
    const Tensor rows = reshape(layer_norm(z), {1, 1, 3, 4});
    return sum(cross_entropy_rows(
        reshape(scaled_dot_product_attention(rows, rows, rows, AttentionOptions().causal()), {3, 4}), ids));
  };
  const double e = 1e-5;
  const auto gradient = [&](double step) {
    const Tensor z = (x + step * v).requires_grad_();
    return grad(loss(z), z);
  };
  CHECK(max_difference(hvp(loss, x, v), (gradient(e) - gradient(-e)) / (2 * e)) < 1e-8);
}

TEST_CASE("derivatives can be differentiated again, under NoGrad too", "[functional]") {
  const Tensor x = tensor({0.5, 2.}, float64).requires_grad_();
  const Tensor j = jacobian(x * x * x, x, create_graph);
  CHECK(max_difference(grad(sum(j), x), 6 * x) < 1e-15);
  const Tensor h = hessian(sum(x * x * x), x, create_graph);
  CHECK(max_difference(grad(sum(h), x), full({2}, 6., float64)) < 1e-15);
  const Tensor y = x * x * x;
  const NoGrad no_grad;
  CHECK(max_difference(jvp(y, x, ones({2}, float64)), 3 * x * x) < 1e-15);
  CHECK_FALSE(jacobian(softmax_rows, x).requires_grad());
}

TEST_CASE("what doesn't depend is 0, and what doesn't fit is told", "[functional]") {
  const Tensor x = randn({2}).requires_grad_(), other = randn({3}).requires_grad_();
  CHECK(equal(jacobian(2 * x, other), zeros({2, 3})));
  CHECK(equal(hessian(sum(2 * x), x), zeros({2, 2})));
  CHECK(equal(hvp(sum(x), x, ones({2})), zeros({2})));
  CHECK(jacobian(zeros({0}) * sum(x), x).shape() == Shape{0, 2});
  CHECK_THROWS_WITH(hessian(x * x, x), Contains("[hessian] y has shape [2]: it must have one element"));
  CHECK_THROWS_WITH(jvp(x * x, x, ones({3})), Contains("[jvp] v is [3], x is [2]: they must be equal"));
  CHECK_THROWS_WITH(vjp(x * x, x, ones({3})), Contains("[vjp] v is [3], y is [2]: they must be equal"));
  CHECK_THROWS_WITH(jacobian(x * x, randn({2})), Contains("[jacobian] input 0 of shape [2] wants no gradient"));
  CHECK_THROWS_WITH(hvp(sum(x), {x, other}, {x}), Contains("1 vectors for 2 inputs"));
  const auto square = [](const Tensor& z) { return z * z; };
  CHECK_THROWS_WITH(jacobian(square, arange(3)), Contains("[jacobian] x is int64: it must be bfloat16, float32"));
  CHECK_THROWS_WITH(vjp(square, arange(3), ones({3})), Contains("[vjp] x is int64"));
  CHECK_THROWS_WITH(jacobian(square, Tensor()), Contains("[jacobian] x is undefined"));
}

TEST_CASE("derivatives of functions nest, to third order and more", "[functional][heavy]") {
  const Tensor x = tensor({0.5, -0.3, 1.2}, float64), v = tensor({1., 2., -0.5}, float64), I = eye(3, 3, float64);
  const auto quartic = [](const Tensor& z) { return z * z * z * z; };
  const auto total = [&](const Tensor& z) { return sum(quartic(z)); };
  const auto first = [&](const Tensor& z) { return jacobian(quartic, z); };
  const auto second = [&](const Tensor& z) { return jacobian(first, z); };
  const Tensor on_diagonal = einsum("ij,ik,il->ijkl", {I, I, I});
  CHECK(max_difference(jacobian(second, x), on_diagonal * (24 * x)) < 1e-14);
  CHECK(max_difference(sum(jacobian([&](const Tensor& z) { return jacobian(second, z); }, x)), full({}, 72.)) < 1e-13);
  CHECK(max_difference(hessian([&](const Tensor& z) { return sum(first(z)); }, x), I * (24 * x)) < 1e-14);

  const auto expect = [&](const char* what, const Tensor& given, const Tensor& expected) {
    INFO(what);
    CHECK(max_difference(given, expected) < 1e-14);
  };
  const Tensor ones3 = ones({3}, float64), third = I * (24 * x * v);
  expect("hessian", jacobian([&](const Tensor& z) { return matmul(hessian(total, z), v); }, x), third);
  expect("hvp", jacobian([&](const Tensor& z) { return hvp(total, z, v); }, x), third);
  expect("vjp", hessian([&](const Tensor& z) { return sum(vjp(quartic, z, v)); }, x), third);
  expect("jvp", hessian([&](const Tensor& z) { return sum(jvp(quartic, z, v)); }, x), third);
  expect("vjp, jvp, vjp",
         vjp([&](const Tensor& a) { return jvp([&](const Tensor& b) { return vjp(quartic, b, ones3); }, a, ones3); }, x,
             v),
         24 * x * v);
  const auto rows = [&](const Tensor& z) { return reshape(z, {3, 1}); };
  expect("batch_jacobian", hessian([&](const Tensor& z) { return sum(batch_jacobian(quartic, rows(z))); }, x),
         I * (24 * x));
  expect("batch_hessian",
         jacobian(
             [&](const Tensor& z) {
               return reshape(batch_hessian([&](const Tensor& r) { return sum(quartic(r), -1); }, rows(z)), {3});
             },
             x),
         I * (24 * x));

  // By torch.func 2.13.
  const auto gated = [](const Tensor& a) { return softmax(a) * a; };
  const Tensor far = tensor({0.3, -1., 2.}, float64);
  const Tensor all =
      jacobian([&](const Tensor& a) { return jacobian([&](const Tensor& b) { return jacobian(gated, b); }, a); }, far);
  CHECK(all[{0, 1, 2, 0}].item() == Approx(0.011335407060756052).epsilon(1e-12));
  CHECK(all[{2, 2, 2, 2}].item() == Approx(-0.2609073854799353).epsilon(1e-12));
  CHECK(max_difference(hessian([&](const Tensor& a) { return sum(square(jacobian(gated, a))); }, far),
                       tensor({{0.3172959500056141, -0.065352021353132, 0.14925627311751716},
                               {-0.06535202135313203, 0.012311645371524505, 0.09641492830571823},
                               {0.1492562731175171, 0.09641492830571823, -0.5462183320962284}},
                              float64)) < 1e-14);
}

TEST_CASE("what a function captures is a constant inside and a variable outside", "[functional]") {
  const Tensor x = tensor({0.3, -1., 2.}, float64);
  // d/dx of x d(z x)/dz at z = x: the inner derivative is x, not 2 x.
  CHECK(max_difference(
            jacobian(
                [](const Tensor& a) { return a * vjp([&](const Tensor& z) { return z * a; }, a, ones({3}, float64)); },
                x),
            2 * diag(x)) == 0);

  // Weights that a loss reaches through a derivative, by torch.func 2.13. x itself wants no gradient.
  Tensor W = tensor({{0.5, -0.2, 0.1}, {1., 0.3, -0.7}}, float64).requires_grad_();
  const auto layer = [&](const Tensor& a) { return tanh(matmul(W, a)); };
  sum(square(jacobian(layer, x))).backward();
  CHECK(max_difference(W.grad(), tensor({{0.46050483290677247, 0.11269456499097616, -0.5624208588938151},
                                         {0.17187237679968803, -0.2333955543880447, 0.45744673166753214}},
                                        float64)) < 1e-14);
  W.zero_grad();
  const Tensor v = tensor({1., 2., -0.5}, float64).requires_grad_();
  sum(square(hvp([&](const Tensor& a) { return sum(pow(layer(a), 3)); }, x, v))).backward();
  CHECK(max_difference(W.grad(), tensor({{1.1988742191724346, 2.367300962036267, -0.9211280567942064},
                                         {6.22372559184558, 5.312490770228361, -1.732365060532642}},
                                        float64)) < 1e-13);
  CHECK(max_difference(v.grad(), tensor({3.192399031531021, 0.5747556431944763, -1.7422969511597903}, float64)) <
        1e-13);
}

TEST_CASE("vectors that a derivative is multiplied by are variables, too", "[functional]") {
  const Tensor x = tensor({0.5, -0.3, 1.2}, float64), at = tensor({1., 2., -0.5}, float64);
  const Tensor v = at.clone().requires_grad_();
  const auto cube = [](const Tensor& z) { return z * z * z; };
  CHECK(max_difference(grad(sum(square(vjp(cube, x, v))), v), 18 * pow(x, 4) * at) < 1e-14);
  CHECK(max_difference(grad(sum(square(jvp(cube, x, v))), v), 18 * pow(x, 4) * at) < 1e-14);
  const auto total = [&](const Tensor& z) { return sum(cube(z)); };
  CHECK(max_difference(grad(sum(square(hvp(total, x, v))), v), 72 * square(x) * at) < 1e-14);
}

TEST_CASE("a derivative of a function is connected to what wants a gradient, and to nothing under NoGrad",
          "[functional]") {
  const Tensor plain = tensor({0.5, 2.}, float64), w = ones({2}, float64).requires_grad_();
  const Tensor x = plain.clone().requires_grad_();
  const auto cube = [](const Tensor& z) { return z * z * z; };
  const auto weighted = [&](const Tensor& z) { return w * z * z; };
  CHECK_FALSE(jacobian(cube, plain).requires_grad());
  CHECK(jacobian(cube, x).requires_grad());
  CHECK(jacobian(weighted, plain).requires_grad());
  CHECK(max_difference(grad(sum(jacobian(cube, x)), x), 6 * plain) < 1e-15);
  {
    const NoGrad no_grad;
    CHECK_FALSE(jacobian(cube, x).requires_grad());
    CHECK_FALSE(jacobian(weighted, plain).requires_grad());
    CHECK_FALSE(vjp(cube, plain, w).requires_grad());
  }
  // A result that does not depend on x has a zero slope and no graph.
  const auto constant = [](const Tensor&) { return ones({2}, float64); };
  CHECK(equal(jacobian(constant, x), zeros({2, 2}, float64)));
  CHECK_FALSE(jacobian(constant, x).requires_grad());
  CHECK(equal(jvp(constant, x, ones({2}, float64)), zeros({2}, float64)));
  CHECK_THROWS_WITH(jacobian([](const Tensor&) { return Tensor(); }, x), Contains("[jacobian] y is undefined"));
  // Through a function that is computed again.
  const auto slopes = [&](const Tensor& z) { return jacobian(weighted, z * z); };
  const Tensor again = sum(checkpoint(slopes, x)), direct = sum(slopes(x));
  const std::vector<Tensor> given = grad({again}, {x, w}), expected = grad({direct}, {x, w});
  for (std::size_t i = 0; i < 2; ++i) CHECK(max_difference(given[i], expected[i]) == 0);
  // A function that changes its argument is an error, never another derivative.
  const auto changes = [](const Tensor& z) { return Tensor(z).mul_(2); };
  CHECK_THROWS_AS(jacobian(changes, x), Error);
  CHECK_THROWS_AS(jacobian(changes, plain), Error);
}

}  // namespace fit::test::functional_test
