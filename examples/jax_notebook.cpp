// Attention as a function, as a module with several heads, and with an additive mask: the JAX and Flax notebook's three
// forms, with its heat maps.
#include <cmath>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

namespace {

plot::Options named(const std::string& title) {
  plot::Options options;
  options.title = title, options.xlabel = "Key position", options.ylabel = "Query position";
  options.bar_label = "Attention weight";
  return options;
}

void as_function(example::Example& e, const Tensor& q, const Tensor& k, const Tensor& v) {
  e.section("Attention as a function");
  const auto [output, weights] = scaled_dot_product_attention_with_weights(q, k, v);
  std::cout << "output " << output.shape() << ", weights " << weights.shape() << '\n';
  const Tensor expected = matmul(softmax(matmul(q, transpose(k)) / std::sqrt(8.0)), v);
  e.claim("it is softmax(q k^T / sqrt(d_k)) v", distance(output, expected) < 1e-6);
}

void as_module(example::Example& e) {
  e.section("Attention as a module with four heads");
  nn::MultiHeadAttention mha(64, 4);
  mha.eval();
  const Tensor x = randn({2, 8, 64});
  const auto [output, weights] = mha(x, x, x, {}, nn::return_attention);
  std::cout << "output " << output.shape() << ", weights " << weights.shape() << '\n';
  e.claim("the weights are those of each head", weights.shape() == Shape{2, 4, 8, 8});
  e.picture("random_head", plot::heatmap(weights[{0, 0}], named("Attention pattern (head 0)")));

  const Tensor constant = ones({1, 10, 64});
  const Tensor uniform = mha(constant, constant, constant, {}, nn::return_attention).weights;
  e.claim("ten equal inputs are attended to equally: every weight is 1/10",
          distance(uniform, full({1, 4, 10, 10}, 0.1)) < 1e-6);
  e.picture("uniform_head", plot::heatmap(uniform[{0, 0}], named("Attention pattern of a constant input (head 0)")));
}

// The mask is added to the scores: 0 where a key may be seen, a very negative number where not.
void additive_mask(example::Example& e, const Tensor& q, const Tensor& k, const Tensor& v) {
  e.section("The causal mask as a number that is added");
  AttentionOptions causal;
  causal.causal = true;
  const auto [output, weights] = scaled_dot_product_attention_with_weights(q, k, v, causal);
  for (const double hidden : {-1e9, -std::numeric_limits<double>::infinity()}) {
    AttentionOptions biased;
    biased.bias = where(create_look_ahead_mask(4), zeros({1, 4, 4}), hidden);
    const auto [output2, weights2] = scaled_dot_product_attention_with_weights(q, k, v, biased);
    std::cout << "hidden by adding " << hidden << ":\n" << weights2[0] << '\n';
    e.claim("the same output and weights as with the causal flag",
            distance(output, output2) < 1e-6 && distance(weights, weights2) < 1e-6);
  }
  plot::print_heatmap(std::cout, weights[0], named("Masked attention pattern"));
  e.picture("masked", plot::heatmap(weights[0], named("Masked attention pattern")));
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Attention as a function, as a module, and with an additive mask.",
                      [](example::Example& e) {
                        // Three draws: the notebook's query and key were the same numbers.
                        const Tensor q = randn({2, 4, 8}), k = randn({2, 4, 8}), v = randn({2, 4, 8});
                        as_function(e, q, k, v);
                        as_module(e);
                        additive_mask(e, q, k, v);
                      });
}
