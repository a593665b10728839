// Attention on six tokens of three features, from dot products to several heads, beside the numbers that the
// well-known notebook "Coding attention mechanisms" prints. Every table that its printed inputs determine is computed
// and compared.
#include <cmath>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

namespace {

// A number printed with four digits is right to half a unit of the last one; what is computed from such numbers, to
// about one.
constexpr double printed = 0.5e-4 + 1e-6, from_printed = 1e-4;

const std::vector<std::string> tokens{"t1", "t2", "t3", "t4", "t5", "t6"};

Tensor six_tokens() {
  return tensor({{0.42, 0.15, 0.89},
                 {0.78, 0.33, 0.21},
                 {0.12, 0.44, 0.67},
                 {0.56, 0.91, 0.73},
                 {0.34, 0.29, 0.85},
                 {0.63, 0.11, 0.49}});
}

// Without parameters: a token is its own query, key and value, and the scores are not scaled.
Tensor simplified(example::Example& e, const Tensor& x) {
  e.section("Simplified self-attention");
  const Tensor scores = matmul(x, x[1]);
  const Tensor weights = softmax(scores);
  const Tensor context = matmul(weights, x);
  std::cout << "scores of token 2:  " << scores << "\nweights of token 2: " << weights
            << "\ncontext of token 2: " << context << '\n';
  e.claim("the scores of token 2 are those printed",
          distance(scores, tensor({0.5640, 0.7614, 0.3795, 0.8904, 0.5394, 0.6306})) < printed);
  e.claim("the weights of token 2 are those printed",
          distance(weights, tensor({0.1543, 0.1880, 0.1283, 0.2139, 0.1506, 0.1649})) < printed);
  e.claim("the context of token 2 is the one printed", distance(context, tensor({0.5017, 0.3981, 0.6277})) < printed);

  AttentionOptions unscaled;
  unscaled.scale = 1;
  const auto [contexts, all_weights] = scaled_dot_product_attention_with_weights(x, x, x, unscaled);
  std::cout << "contexts of all tokens:\n" << contexts << '\n';
  e.claim("the contexts of all six tokens are those printed",
          distance(contexts, tensor({{0.4657, 0.3874, 0.6732},
                                     {0.5017, 0.3981, 0.6277},
                                     {0.4606, 0.4091, 0.6722},
                                     {0.4790, 0.4538, 0.6663},
                                     {0.4641, 0.3983, 0.6740},
                                     {0.4861, 0.3826, 0.6464}})) < printed);
  e.claim("every row of the weights sums to 1", distance(sum(all_weights, 1), ones({6})) < 1e-6);
  e.picture("simplified", plot::heatmap(all_weights, {"Simplified self-attention", tokens, tokens, "Key", "Query"}));
  return all_weights;
}

// With parameters: returns the weights of token 2. The notebook's parameters are random
// and not printed, but what came of them is.
Tensor trainable(example::Example& e) {
  e.section("Attention with trainable parameters");
  const Tensor query = tensor({1.0057, 0.2636}), key = tensor({0.8479, 1.1501});
  const Tensor scores = tensor({0.9975, 1.1559, 0.6061, 1.3122, 0.9206, 1.0459});
  const Tensor weights = softmax(scores / std::sqrt(2.0));
  std::cout << "weights of token 2, from its printed scores: " << weights << '\n';
  e.claim("the printed query and key of token 2 give its printed score",
          distance(matmul(query, key), scores[1]) < from_printed);
  e.claim("the printed scores, over sqrt 2, give the printed weights",
          distance(weights, tensor({0.1637, 0.1831, 0.1241, 0.2045, 0.1551, 0.1694})) < from_printed);
  return weights;
}

void causal(example::Example& e, const Tensor& seen_by_two) {
  e.section("Causal attention");
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor scores = tensor({{0.2368, 0.2338, 0.1602, 0.3064, 0.2241, 0.2229},
                                {0.0069, -0.1251, 0.0575, -0.0078, 0.0246, -0.0760},
                                {0.5268, 0.4681, 0.3771, 0.6750, 0.5057, 0.4633},
                                {0.5142, 0.3672, 0.4041, 0.6475, 0.5060, 0.3962},
                                {0.3489, 0.3237, 0.2443, 0.4488, 0.3331, 0.3154},
                                {0.0286, -0.0277, 0.0417, 0.0299, 0.0347, -0.0081}});
  const Tensor hidden = create_look_ahead_mask(6)[0] == 0;
  const Tensor masked = masked_fill(scores, hidden, -inf);
  const Tensor weights = softmax(masked / std::sqrt(2.0));
  std::cout << "masked scores:\n" << masked << "\nweights:\n" << weights << '\n';
  e.claim("the masked scores are -inf above the diagonal, and those printed elsewhere",
          all(eq(masked, -inf) == hidden).item<bool>() && distance(masked_fill(masked, hidden, 0), tril(scores)) == 0);
  e.claim("the printed 6x6 scores, masked and over sqrt 2, give the printed weights",
          distance(weights, tensor({{1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000},
                                    {0.5233, 0.4767, 0.0000, 0.0000, 0.0000, 0.0000},
                                    {0.3498, 0.3356, 0.3147, 0.0000, 0.0000, 0.0000},
                                    {0.2548, 0.2296, 0.2357, 0.2799, 0.0000, 0.0000},
                                    {0.2011, 0.1975, 0.1867, 0.2158, 0.1988, 0.0000},
                                    {0.1681, 0.1615, 0.1696, 0.1682, 0.1688, 0.1638}})) < from_printed);
  // Token 1 sees itself alone, so its context is its value; then the context of token 2 gives the value of token 2, and
  // so on: the printed contexts determine all values, of which the notebook prints one.
  const Tensor contexts = tensor(
      {{1.1219, 0.8538}, {1.0589, 0.8639}, {1.0103, 0.7918}, {1.1774, 0.9110}, {1.1607, 0.8931}, {1.1172, 0.8701}});
  Tensor values = zeros({6, 2});
  for (std::int64_t i = 0; i < 6; ++i) values[i] = (contexts[i] - matmul(weights[i], values)) / weights[{i, i}];
  std::cout << "values:\n" << values << '\n';
  e.claim("the value of token 2 that follows from the contexts is the one printed",
          distance(values[1], tensor({0.9898, 0.8750})) < 3e-4);
  e.claim("with these values, the weights of token 2 without a mask give its printed context",
          distance(matmul(seen_by_two, values), tensor({1.1408, 0.8940})) < 3e-4);
  e.picture("causal", plot::side_by_side({plot::heatmap(masked, {"Masked scores", tokens, tokens, "Key", "Query"}),
                                          plot::heatmap(weights, {"Causal weights", tokens, tokens, "Key", "Query"})}));
}

void dropped(example::Example& e, const Tensor& weights) {
  e.section("Dropout of weights");
  const Tensor notebook = tensor({{0.2772, 0.1809, 0.2098, 0.0000, 0.2641, 0.0000},
                                  {0.2204, 0.0000, 0.1833, 0.0000, 0.2151, 0.2356},
                                  {0.2491, 0.1785, 0.2356, 0.3179, 0.2555, 0.1920},
                                  {0.2164, 0.1898, 0.2029, 0.4159, 0.0000, 0.0000},
                                  {0.2666, 0.1781, 0.2172, 0.3042, 0.2611, 0.2014},
                                  {0.2523, 0.2313, 0.1935, 0.2769, 0.2388, 0.0000}});
  const auto scaled = [&](const Tensor& survivors) { return where(survivors > 0, weights / 0.7, zeros_like(weights)); };
  const Tensor ours = dropout(weights, 0.3);
  std::cout << "dropout of 30 %:\n" << ours << '\n';
  e.claim("what the notebook's dropout leaves is weight / 0.7", distance(notebook, scaled(notebook)) < printed);
  e.claim("what our dropout leaves is weight / 0.7", distance(ours, scaled(ours)) < 1e-6);
}

// The notebook's layers. Its causal one was not causal (the result of masked_fill was thrown away); this one is.
void layers(example::Example& e, const Tensor& x) {
  e.section("As layers");
  const nn::BareSingleHeadAttention bare(3, 2);
  const auto [context, weights] = bare.forward_with_weights(x);
  const Tensor scores = matmul(matmul(x, bare.W_query), transpose(matmul(x, bare.W_key)));
  const Tensor expected = matmul(softmax(scores / std::sqrt(2.0)), matmul(x, bare.W_value));
  std::cout << "bare parameters:\n" << context << '\n';
  e.claim("the layer with bare parameters computes softmax(q k^T / sqrt 2) v", distance(context, expected) < 1e-6);

  const nn::SingleHeadAttention linear(3, 2);
  std::cout << "Linear projections:\n" << linear(x) << '\n';
  e.claim("the layer with Linear projections gives [6, 2]", linear(x).shape() == Shape{6, 2});

  const Tensor batch = stack({x, x});
  const nn::CausalAttention causal(3, 2, 6);
  const auto [causal_context, causal_weights] = causal.forward_with_weights(batch);
  Tensor changed = batch.clone();
  changed[{ellipsis, 5, range()}] = 9.0;
  e.claim("the causal layer gives [2, 6, 2]", causal_context.shape() == Shape{2, 6, 2});
  e.claim("its weights are 0 above the diagonal", equal(causal_weights, tril(causal_weights)));
  e.claim("another last token changes nothing before it",
          equal(causal(changed)[{range(), range(0, 5)}], causal_context[{range(), range(0, 5)}]));

  const nn::MultiHeadAttentionWrapper heads(3, 2, 6, 0.0, 2);
  const Tensor both = heads(batch);
  std::cout << "two heads side by side: " << both.shape() << '\n';
  e.claim("two heads of two features give [2, 6, 4]", both.shape() == Shape{2, 6, 4});
  e.claim("they are the two heads' outputs, side by side",
          equal(both, cat({heads.heads[0](batch), heads.heads[1](batch)}, -1)));
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Attention on six tokens, step by step, against printed numbers.",
                      [](example::Example& e) {
                        const Tensor x = six_tokens();
                        const Tensor weights = simplified(e, x);
                        causal(e, trainable(e));
                        dropped(e, weights);
                        layers(e, x);
                      });
}
