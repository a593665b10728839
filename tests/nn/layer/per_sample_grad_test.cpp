#include "fit/nn/layer/per_sample_grad.hpp"

#include "fit/backward/functional.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::per_sample_grad_test {
using Catch::Contains;
using test::max_difference;

namespace {

// Embedding, attention, norms, an own parameter and layers made of them.
struct Small : nn::Layer {
  Tensor forward(const Tensor& ids) const {
    const Tensor x = norm(attention(word(ids) + place));
    return out(mean(inner(x) * scale, 1));
  }
  FIT_FIELDS(word, place, attention, norm, inner, scale, out)

  nn::Embedding word{7, 8};
  nn::Parameter place{randn({5, 8})}, scale{randn({8})};
  nn::SelfAttention attention{8, 2, 0};
  nn::LayerNorm norm{8};
  nn::TransformerEncoderLayer inner{nn::TransformerLayerOptions().d_model(8).num_heads(2).hidden(16).dropout(0)};
  nn::Linear out{8, 3};
};

Tensor loss_of(const Small& net, const Tensor& ids, const Tensor& y) { return nn::cross_entropy(net.forward(ids), y); }

}  // namespace

TEST_CASE("per-sample gradients are those of each sample alone, and their mean is the batch's") {
  manual_seed(1);
  Small net;
  const Tensor ids = randint(0, 7, {9, 5}), y = randint(0, 3, {9});
  const std::vector<Tensor> g = nn::per_sample_grad(loss_of, net, ids, y), p = net.parameters();
  REQUIRE(g.size() == p.size());
  const std::vector<Tensor> batch = grad(loss_of(net, ids, y), p);
  for (std::size_t i = 0; i < p.size(); ++i) {
    CHECK(g[i].shape() == p[i].shape().inserted(0, 9));
    CHECK(max_difference(mean(g[i], 0), batch[i]) < 1e-6);
  }
  for (const std::int64_t s : {0, 4, 8}) {
    const std::vector<Tensor> alone = grad(loss_of(net, slice(ids, 0, s, s + 1), slice(y, 0, s, s + 1)), p);
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(test::same_bits(g[i][s], alone[i]));
  }
  for (const Tensor& x : p) CHECK(!x.grad().defined());
}

TEST_CASE("per-sample gradients: a generator that the loss makes gives its own numbers, dropout those of the seed") {
  manual_seed(1);
  const nn::Linear net(3, 2);
  const Tensor x = randn({5, 3});
  const auto loss = [](const nn::Linear& l, const Tensor& row) {
    Generator g(7);
    return sum(l(row + randn(row.shape(), g)));
  };
  const std::vector<Tensor> all = nn::per_sample_grad(loss, net, x);
  for (std::int64_t i = 0; i < 5; ++i) {
    const std::vector<Tensor> alone = grad(loss(net, slice(x, 0, i, i + 1)), net.parameters());
    for (std::size_t k = 0; k < alone.size(); ++k) CHECK(test::same_bits(all[k][i], alone[k]));
  }
  const auto noisy = [](const nn::Linear& l, const Tensor& row) { return sum(l(dropout(row, 0.5))); };
  const auto with_seed = [&](std::uint64_t seed) {
    manual_seed(seed);
    return nn::per_sample_grad(noisy, net, x)[0];
  };
  CHECK(test::same_bits(with_seed(3), with_seed(3)));
  CHECK_FALSE(test::same_bits(with_seed(3), with_seed(4)));
}

TEST_CASE("per-sample Jacobians of a model's output") {
  manual_seed(2);
  Small net;
  const Tensor ids = randint(0, 7, {4, 5});
  const auto scores = [](const Small& net, const Tensor& ids) { return net.forward(ids); };
  const std::vector<Tensor> j = nn::per_sample_jacobian(scores, net, ids);
  const std::vector<Tensor> p = net.parameters(), expected = jacobian(net.forward(ids), p);  // [4, 3, …]
  for (std::size_t i = 0; i < p.size(); ++i) CHECK(max_difference(j[i], expected[i]) < 1e-6);
}

TEST_CASE("per-sample gradients: frozen and unused parameters, random numbers, threads") {
  manual_seed(3);
  nn::Sequential net(nn::Linear(4, 6), nn::Dropout(0.5), nn::Linear(6, 1));
  const Tensor x = randn({40, 4});
  const auto loss = [](const nn::Sequential& net, const Tensor& x) { return sum(square(net(x))); };
  const auto compute = [&](int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    manual_seed(4);
    auto g = nn::per_sample_grad(loss, net, x);
    set_num_threads(before);
    return g;
  };
  const auto one = compute(1), four = compute(4);
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(test::same_bits(one[i], four[i]));
  CHECK(!test::same_bits(nn::per_sample_grad(loss, net, x)[0], one[0]));  // another call draws other numbers
  {
    const NoGrad no_grad;
    CHECK(test::same_bits(compute(2)[2], one[2]));
  }
  net[0].freeze();
  const auto rest = compute(2);
  CHECK(!rest[0].defined());
  CHECK(test::same_bits(rest[2], one[2]));
  const auto of_first = [](const nn::Sequential& net, const Tensor& x) { return sum(square(x)) + 0 * sum(net(x)); };
  CHECK(sum(abs(nn::per_sample_grad(of_first, net, x)[3])).item() == 0);
}

TEST_CASE("per-sample gradients: what does not fit is told") {
  nn::Sequential net(nn::Linear(4, 2), nn::BatchNorm(2));
  const auto loss = [](const nn::Sequential& net, const Tensor& x) { return sum(net(x)); };
  const auto outputs = [](const nn::Sequential& net, const Tensor& x) { return net(x); };
  net.eval();
  CHECK(nn::per_sample_grad(loss, net, randn({3, 4})).size() == 4);
  CHECK_THROWS_WITH(nn::per_sample_grad(outputs, net, randn({3, 4})),
                    Contains("the loss of one example has shape [1, 2]: it must have one element"));
  CHECK_THROWS_WITH(nn::per_sample_grad(loss, net, zeros({0, 4})), Contains("with the same B >= 1"));
  const auto both = [](const nn::Sequential& net, const Tensor& x, const Tensor& y) { return sum(net(x)) + sum(y); };
  CHECK_THROWS_WITH(nn::per_sample_grad(both, net, zeros({3, 4}), zeros({2})),
                    Contains("the batch has tensors of shapes [3, 4] and [2]"));
  const auto captured = [&](const nn::Sequential&, const Tensor& x) { return sum(net(x)); };
  const auto half = [&](const nn::Sequential& copy, const Tensor& x) { return sum(net[1](copy[0](x))); };
  CHECK_THROWS_WITH(nn::per_sample_grad(captured, net, randn({3, 4})),
                    Contains("[per_sample_grad] the function calls the model that it has captured (0.") &&
                        Contains("use the copy that is its first argument"));
  CHECK_THROWS_WITH(nn::per_sample_jacobian(half, net, randn({3, 4})),
                    Contains("[per_sample_jacobian] the function calls the model that it has captured (1."));
  const auto some = [](const nn::Sequential& m, const Tensor& x, const Tensor& n) {
    return slice(m(x), 1, 0, n.item<std::int64_t>());
  };
  CHECK_THROWS_WITH(nn::per_sample_jacobian(some, net, randn({3, 4}), tensor({1, 2, 2})),
                    Contains("[per_sample_jacobian] example 1 gives derivatives float32 [2, 2, 4], example 0 float32 "
                             "[1, 2, 4]: the outputs of all must be of one shape and type"));
}

}  // namespace fit::test::per_sample_grad_test
