/// # Attention as a function and as a module
///
/// Attention passes information between the positions of a transformer. This lesson shows three forms:
///
/// 1. self-attention as a plain function,
/// 2. multi-head attention as a module with parameters,
/// 3. masked self-attention, for models that write from left to right,
///
/// and the patterns of their weights. The shapes are always `(batch, positions, features)`.
#include <cmath>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

/// ## 1. Self-attention as a function
///
/// Each query is compared with all keys. The softmax turns the scores into weights, and these mix the values:
///
/// $$\text{output} = \operatorname{softmax}\left(\frac{q k^\top}{\sqrt{d_k}}\right) v$$
///
/// From scratch:
AttentionResult simple_self_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto d_k = static_cast<double>(query.size(-1));
  const Tensor scores = matmul(query, transpose(key)) / std::sqrt(d_k);
  const Tensor weights = softmax(scores);
  return {matmul(weights, value), weights};
}
// not shown

plot::Options named(const std::string& title) {
  return plot::Options().title(title).xlabel("Key position").ylabel("Query position").bar_label("Attention weight");
}

void lesson(example::Example& e) {
  /// There are two sequences of four positions with eight features. Query, key and value are drawn separately. With the
  /// same numbers for query and key, every position would attend to itself.
  e.cell();
  const Tensor query = randn({2, 4, 8}), key = randn({2, 4, 8}), value = randn({2, 4, 8});
  const auto [output, weights] = simple_self_attention(query, key, value);
  std::cout << "output shape: " << output.shape() << "\nattention weights shape: " << weights.shape() << '\n';
  e.claim("the rows of the weights sum to 1", distance(sum(weights, -1), ones({2, 4})) < 1e-5);
  e.claim("the library's function does the same",
          distance(output, scaled_dot_product_attention(query, key, value)) < 1e-6);

  /// ## 2. Multi-head attention as a module
  ///
  /// A module has parameters. Three linear projections make queries, keys and values from one input. A fourth one mixes
  /// the outputs of the heads. With 64 features and four heads, each head has 16. Inside, `(batch, positions, 64)`
  /// becomes `(batch, heads, positions, 16)`. Every head attends separately. Then the outputs are concatenated.
  e.cell();
  nn::MultiHeadAttention mha(64, 4);
  mha.eval();
  const Tensor x = randn({2, 8, 64});
  const auto [mixed, by_head] = mha(x, x, x, {}, nn::return_attention);
  std::cout << mha << "\nmulti-head output shape: " << mixed.shape()
            << "\nmulti-head weights shape: " << by_head.shape() << '\n';
  e.claim("the weights are those of each head", by_head.shape() == Shape{2, 4, 8, 8});

  /// ## 3. Looking at the patterns
  ///
  /// This is the first head on the first sequence. The parameters are random, so the pattern has no meaning yet. But
  /// each row is already a distribution. Point at a cell to read its weight.
  e.cell();
  e.picture("random_head", plot::heatmap(by_head[{0, 0}], named("Attention pattern (head 1)")));

  /// The next input has no differences: ten times the same vector. Then all keys are equal, all scores of a query are
  /// equal, and the softmax is uniform. Every weight must be $\frac{1}{10}$, in every head, for any parameters.
  /// Attention cannot distinguish equal inputs, and no training can change that. So transformers add positions to their
  /// inputs.
  e.cell();
  const Tensor constant = ones({1, 10, 64});
  const Tensor uniform = mha(constant, constant, constant, {}, nn::return_attention).weights;
  e.claim("ten equal inputs are attended to equally: every weight is 1/10",
          distance(uniform, full({1, 4, 10, 10}, 0.1)) < 1e-6);
  e.picture("uniform_head",
            plot::heatmap(uniform[{0, 0}], named("Attention pattern of a constant input (head 1)").vmax(1)));

  /// ## 4. Masked self-attention
  ///
  /// A model that writes from left to right may attend only to the past. One way is to **add** a mask to the scores
  /// before the softmax: 0 for allowed keys, and a very negative number for masked keys. Because $e^{-10^9}$ is 0,
  /// masked keys get no weight, and the allowed keys get all of it:
  ///
  /// $$\text{weights} = \operatorname{softmax}\left(\frac{q k^\top}{\sqrt{d_k}} + M\right), \qquad
  ///   M_{ij} = \begin{cases} 0 & \text{if } j \le i \\ -\infty & \text{if } j > i \end{cases}$$
  ///
  /// The library has a `causal` option, which computes only the allowed pairs. The result is the same as with $-10^9$
  /// or $-\infty$:
  e.cell();
  const auto causal = AttentionOptions().causal();
  const auto [past, past_weights] = attend(query, key, value, AttentionOptions(causal).weights());
  for (const double hidden : {-1e9, -std::numeric_limits<double>::infinity()}) {
    const auto [output2, weights2] =
        attend(query, key, value,
               AttentionOptions().bias(where(create_look_ahead_mask(4), zeros({1, 4, 4}), hidden)).weights());
    std::cout << "hidden by adding " << hidden << ":\n" << weights2[0] << '\n';
    e.claim("the same output and weights as with the causal option",
            distance(past, output2) < 1e-6 && distance(past_weights, weights2) < 1e-6);
  }
  e.picture("masked", plot::heatmap(past_weights[0], named("Masked attention pattern").mask(tril(ones({4, 4})) != 0)));

  /// The triangle above the diagonal is masked, so it is hatched. The first position attends only to itself, with all
  /// its weight. The second one divides its weight between two positions, and so on.
  ///
  /// Next: [The mathematics of attention](../attention_mathematics/attention_mathematics.html). Back:
  /// [Coding attention on six tokens](../six_tokens/six_tokens.html). Home: [all lessons](../course/course.html).
  /// `examples/run course` writes these pages.
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Attention as a function, as a module, and with an additive mask.", lesson);
}
