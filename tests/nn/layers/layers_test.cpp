// What the basic layers compute and refuse; the table of layers checks what all have in common.
#include <algorithm>
#include <cmath>

#include "fit/backward/activation_checkpoint.hpp"
#include "fit/nn/attention/single_head.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/dropout.hpp"
#include "fit/nn/layers/feed_forward.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::layers_test {
using Catch::Contains;
using fit::test::same_bits;

TEST_CASE("Linear multiplies by the transposed weight") {
  nn::Linear layer(3, 2);
  layer.weight = nn::Parameter(tensor({{1., 2., 3.}, {0., -1., 1.}}));
  layer.bias = nn::Parameter(tensor({10., 20.}));
  CHECK(layer(tensor({1., 1., 2.})).to_vector<float>() == std::vector<float>{19, 21});
  CHECK(layer(zeros({4, 0, 3})).shape() == Shape{4, 0, 2});
  CHECK(nn::Linear(0, 2)(zeros({3, 0})).shape() == Shape{3, 2});
  CHECK(nn::Linear(3, 0)(zeros({2, 3})).shape() == Shape{2, 0});
}

TEST_CASE("Linear starts uniform in ±1/sqrt(in)") {
  manual_seed(1);
  const nn::Linear layer(64, 500);
  for (const Tensor& p : layer.parameters()) {
    const std::vector<float> v = p.detach().to_vector<float>();
    const auto [low, high] = std::minmax_element(v.begin(), v.end());
    CHECK(*low >= -0.125f);
    CHECK(*high <= 0.125f);
    CHECK(*low < -0.12f);
    CHECK(*high > 0.12f);
  }
}

TEST_CASE("Linear shares the parameters that it is given") {
  const nn::Linear one(3, 2), other(one.weight, one.bias), plain(one.weight);
  CHECK(other.weight.impl() == one.weight.impl());
  CHECK(other.bias.impl() == one.bias.impl());
  CHECK_FALSE(plain.bias.defined());
  const Tensor x = tensor({1., 2., 3.});
  CHECK(equal(other(x), one(x)));
  sum(other(x)).backward();
  CHECK(one.weight.has_grad());
  CHECK_THROWS_WITH(nn::Linear(one.bias), Contains("[Linear] weight has shape [2]: it must be [out, in]"));
  CHECK_THROWS_WITH(nn::Linear(one.weight, nn::Parameter(zeros({3}))), Contains("bias") && Contains("[3]"));
}

TEST_CASE("Linear's errors name both shapes") {
  const nn::Linear layer(3, 2);
  CHECK_THROWS_WITH(layer(zeros({2, 5})),
                    "[Linear] x is [2, 5], weight is [2, 3]: the last of x must be in_features = 3");
  CHECK_THROWS_WITH(layer(zeros({})), Contains("[Linear] x is []"));
  CHECK_THROWS_WITH(nn::Linear(-1, 2), Contains("[Linear] in_features is -1"));
  CHECK_THROWS_WITH(nn::Linear(1, -2), Contains("[Linear] out_features is -2"));
}

TEST_CASE("Embedding takes rows, and the padding row is zero and stays so") {
  nn::Embedding table(4, 2, 1);
  const Tensor y = table(tensor({{0, 1}, {3, 0}}));
  CHECK(y.shape() == Shape{2, 2, 2});
  CHECK(y.detach()[{0, 1}].to_vector<float>() == std::vector<float>{0, 0});
  CHECK(same_bits(y.detach()[{1, 0}], table.weight.detach()[3]));
  sum(y).backward();
  CHECK(table.weight.grad().to_vector<float>() == std::vector<float>{2, 2, 0, 0, 0, 0, 1, 1});
  CHECK_THROWS_AS(table(tensor({4})), Error);
  CHECK_THROWS_AS(table(tensor({1.})), Error);
  CHECK_THROWS_WITH(nn::Embedding(4, 2, 4), Contains("padding_idx is 4") && Contains("4 rows"));
  CHECK_THROWS_WITH(nn::Embedding(4, -2), Contains("embedding_dim is -2"));
}

TEST_CASE("sizes that make no sense are refused by name") {
  CHECK_THROWS_WITH(nn::Embedding(0, 2), "[Embedding] num_embeddings is 0: it must be positive");
  CHECK_THROWS_WITH(nn::Embedding(2, 0), "[Embedding] embedding_dim is 0: it must be positive");
  CHECK_THROWS_WITH(nn::LayerNorm(0), "[LayerNorm] size is 0: it must be positive");
  CHECK_THROWS_WITH(nn::RMSNorm(0), "[RMSNorm] size is 0: it must be positive");
  CHECK_THROWS_WITH(nn::FeedForward(0, 2), "[FeedForward] d_model is 0: it must be positive");
  CHECK_THROWS_WITH(nn::FeedForward(2, -1), "[FeedForward] hidden is -1: it must be positive");
  CHECK_THROWS_WITH(nn::BareSingleHeadAttention(2, 0), "[BareSingleHeadAttention] d_out is 0: it must be positive");
  CHECK_THROWS_WITH(nn::SingleHeadAttention(0, 2), "[SingleHeadAttention] d_in is 0: it must be positive");
  CHECK_THROWS_WITH(nn::CausalAttention(2, 2, 0, 0.), "[CausalAttention] context_length is 0: it must be positive");
}

TEST_CASE("Dropout follows train and eval, and its generator") {
  nn::Dropout drop(0.25);
  const Tensor x = ones({10000});
  const std::vector<float> v = drop(x).to_vector<float>();
  const auto zeros = std::count(v.begin(), v.end(), 0.f);
  CHECK(std::abs(static_cast<double>(zeros) - 2500) < 5 * std::sqrt(10000 * .25 * .75));
  CHECK(std::count(v.begin(), v.end(), 1 / 0.75f) == 10000 - zeros);
  drop.eval();
  CHECK(same_bits(drop(x), x));

  Generator a(5), b(5);
  CHECK(same_bits(nn::Dropout(0.5, a)(x), nn::Dropout(0.5, b)(x)));
  CHECK(same_bits(nn::Dropout(1)(x), fit::zeros({10000})));
  CHECK_THROWS_WITH(nn::Dropout(1.5), Contains("[Dropout] p is 1.5"));
  CHECK_THROWS_AS(nn::Dropout(-0.1), Error);
  CHECK_THROWS_AS(nn::Dropout(std::nan("")), Error);
}

TEST_CASE("activations are the functions of their names") {
  const Tensor x = tensor({{-2., -0.5, 0.}, {0.5, 1., 3.}});
  CHECK(same_bits(nn::ReLU()(x), relu(x)));
  CHECK(same_bits(nn::LeakyReLU(0.3)(x), leaky_relu(x, 0.3)));
  CHECK(same_bits(nn::GELU()(x), gelu(x)));
  CHECK(same_bits(nn::GELU(Gelu::tanh)(x), gelu(x, Gelu::tanh)));
  CHECK(same_bits(nn::SiLU()(x), silu(x)));
  CHECK(same_bits(nn::Tanh()(x), fit::tanh(x)));
  CHECK(same_bits(nn::Sigmoid()(x), sigmoid(x)));
  CHECK(same_bits(nn::Softmax(0)(x), softmax(x, 0)));
  CHECK(same_bits(nn::Softmax()(x), softmax(x, 1)));
  CHECK(same_bits(nn::LogSoftmax()(x), log_softmax(x, 1)));
  CHECK(nn::GELU(Gelu::tanh).str() == "GELU(form=tanh)");
  CHECK(nn::Softmax(1).str() == "Softmax(axis=1)");
  CHECK(nn::LeakyReLU().str() == "LeakyReLU(negative_slope=0.01)");
}

TEST_CASE("the norms are those of their formulas") {
  // mean 2, variance 2/3; mean of squares 14/3
  const Tensor x = tensor({1., 2., 3.});
  const std::vector<float> a = nn::LayerNorm(3)(x).detach().to_vector<float>();
  CHECK(a[0] == Approx(-1 / std::sqrt(2. / 3 + 1e-5)));
  CHECK(a[1] == Approx(0).margin(1e-6));
  const std::vector<float> b = nn::RMSNorm(3)(x).detach().to_vector<float>();
  CHECK(b[2] == Approx(3 / std::sqrt(14. / 3 + 1e-6)));
  nn::LayerNorm shifted(3);
  {
    const NoGrad no_grad;
    shifted.weight.fill_(2);
    shifted.bias.fill_(5);
  }
  CHECK(shifted(x).detach().to_vector<float>()[2] == Approx(5 + 2 / std::sqrt(2. / 3 + 1e-5)));
  CHECK_FALSE(nn::LayerNorm(3, nn::LayerNormOptions().bias(false)).bias.defined());
  CHECK_THROWS_WITH(nn::LayerNorm(3)(zeros({3, 4})),
                    "[LayerNorm] x is [3, 4], weight is [3]: the last of x must be size = 3");
  CHECK_THROWS_WITH(nn::RMSNorm(3)(zeros({})), Contains("[RMSNorm] x is []"));
  CHECK_THROWS_WITH(nn::RMSNorm(-3), Contains("[RMSNorm] size is -3"));
  CHECK_THROWS_WITH(nn::LayerNorm(3, -1), Contains("[LayerNorm] eps is -1"));
}

TEST_CASE("checkpoint() of a BatchNorm updates its running statistics once", "[checkpoint]") {
  const nn::BatchNorm norm(4), expected(4);
  const Tensor x = randn({5, 4}).requires_grad_();
  const auto f = [&](const Tensor& z) { return tanh(norm(z)); };
  sum(tanh(expected(x))).backward();
  const Tensor dx = x.grad().clone();
  for (const bool nested : {false, true}) {
    Tensor(norm.running_mean).zero_();
    Tensor(norm.running_var).fill_(1);
    Tensor(x).zero_grad();
    sum(nested ? checkpoint([&](const Tensor& z) { return checkpoint(f, z); }, x) : checkpoint(f, x)).backward();
    CHECK(same_bits(norm.running_mean, expected.running_mean));
    CHECK(same_bits(norm.running_var, expected.running_var));
    CHECK(same_bits(x.grad(), dx));
  }
}

}  // namespace fit::test::layers_test
