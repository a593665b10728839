/// # Coding attention on six tokens
///
/// With six tokens of three features, you can follow every number. You will build four kinds of attention, each based
/// on the previous one:
///
/// 1. simplified self-attention, without parameters,
/// 2. self-attention with trainable parameters,
/// 3. causal attention,
/// 4. multi-head attention.
///
/// Some boxes ask you something first: guess before you read on. The numbers are those of a well-known notebook,
/// "Coding attention mechanisms", so you can read both side by side.
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "fit/tensor/xtensor.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

// A number printed with four digits is exact to half a unit of the last digit. A result computed from such numbers is
// exact to about one unit.
constexpr double printed = 0.5e-4 + 1e-6, from_printed = 1e-4;
// not shown

// The notebook's weights of simplified attention after a dropout of 0.3.
Tensor notebook_draw() {
  return tensor({{0.2772, 0.1809, 0.2098, 0.0000, 0.2641, 0.0000},
                 {0.2204, 0.0000, 0.1833, 0.0000, 0.2151, 0.2356},
                 {0.2491, 0.1785, 0.2356, 0.3179, 0.2555, 0.1920},
                 {0.2164, 0.1898, 0.2029, 0.4159, 0.0000, 0.0000},
                 {0.2666, 0.1781, 0.2172, 0.3042, 0.2611, 0.2014},
                 {0.2523, 0.2313, 0.1935, 0.2769, 0.2388, 0.0000}});
}
// The weights that are left in `kept`, divided by 1 - p.
Tensor scaled(const Tensor& weights, const Tensor& kept, double p) {
  return where(kept > 0, weights / (1 - p), zeros_like(weights));
}

void lesson(example::Example& e) {
  /// ## 1. Simplified self-attention
  ///
  /// Each row of the file is a token: a vector of three features. A real model learns such embeddings. xtensor reads
  /// the file.
  e.cell();
  const std::vector<std::string> tokens{"t1", "t2", "t3", "t4", "t5", "t6"};
  std::ifstream file(std::string(EXAMPLES_DATA) + "/six_tokens.csv");
  const Tensor x = from_xtensor(xt::load_csv<float>(file));
  std::cout << x << '\n';

  /// ### Scores
  ///
  /// Let the second token attend to all six. Its **query** is the token itself. Its **score** for token $j$ is the dot
  /// product $x_2 \cdot x_j$, which is larger for more similar tokens.
  e.cell();
  e.ask("Which token gets the largest score from token 2: itself, or another one? Look at the rows above.",
        "Token 4. A dot product also grows with the length of the vectors, and token 4 is the longest of the six.");

  /// One product of the matrix with the query computes all six scores:
  e.cell();
  const Tensor scores_2 = matmul(x, x[1]);
  std::cout << scores_2 << '\n';
  e.claim("token 2 scores 0.5640, 0.7614, 0.3795, 0.8904, 0.5394 and 0.6306",
          distance(scores_2, tensor({0.5640, 0.7614, 0.3795, 0.8904, 0.5394, 0.6306})) < printed);
  e.claim("token 4, not token 2 itself, has the largest score", argmax(scores_2).item<int>() == 3);

  ///
  /// ### Weights
  ///
  /// The softmax turns scores into weights that sum to 1, $w_j = e^{s_j} / \sum_k e^{s_k}$:
  e.cell();
  const Tensor weights_2 = softmax(scores_2);
  std::cout << weights_2 << '\n';
  e.claim("token 2 gives token 4 the largest weight, 0.2139",
          distance(weights_2, tensor({0.1543, 0.1880, 0.1283, 0.2139, 0.1506, 0.1649})) < printed);

  /// ### Context
  ///
  /// The **context vector** of token 2 is the weighted sum of all tokens:
  e.cell();
  const Tensor context_2 = matmul(weights_2, x);
  std::cout << context_2 << '\n';
  e.claim("the context of token 2 is (0.5017, 0.3981, 0.6277)",
          distance(context_2, tensor({0.5017, 0.3981, 0.6277})) < printed);

  /// ### All tokens at once
  ///
  /// That was one token. One product computes the scores of all six, $\name{all_scores}{S} = \name{x}{X}
  /// \name{x}{X}^\top$. Point at a score: it is the dot product of a row and a column.
  e.cell();
  const Tensor all_scores = matmul(x, transpose(x));
  e.product(x, transpose(x));
  e.claim("the second row holds the scores of token 2", distance(all_scores[1], scores_2) < 1e-6);

  /// The weights $\name{weights}{A}$ are the softmax of the scores $\name{all_scores}{S}$ by rows, and the contexts are
  /// $\name{weights}{A} \name{x}{X}$. Point at a letter of these formulas: the code and the picture show what it is.
  e.cell();
  const Tensor weights = softmax(all_scores);
  const Tensor contexts = matmul(weights, x);
  std::cout << contexts << '\n';
  e.claim("the contexts of all six tokens are exact to four digits",
          distance(contexts, tensor({{0.4657, 0.3874, 0.6732},
                                     {0.5017, 0.3981, 0.6277},
                                     {0.4606, 0.4091, 0.6722},
                                     {0.4790, 0.4538, 0.6663},
                                     {0.4641, 0.3983, 0.6740},
                                     {0.4861, 0.3826, 0.6464}})) < printed);
  e.claim("scaled_dot_product_attention with a scale of 1 gives the same",
          distance(scaled_dot_product_attention(x, x, x, AttentionOptions().scale(1)), contexts) < 1e-6);
  e.claim("every row of the weights sums to 1", distance(sum(weights, 1), ones({6})) < 1e-6);
  const auto look = plot::Options().x(tokens).y(tokens).xlabel("Key").ylabel("Query");
  e.picture("simplified", plot::heatmap(weights, plot::Options(look).title("Simplified self-attention")));

  /// So the steps are:
  ///
  /// - **scores**: the similarity of each pair of tokens, by a dot product,
  /// - **weights**: the softmax of each row of scores,
  /// - **contexts**: the weighted sums of the tokens, which are the new representation.
  ///
  /// ## 2. Attention with trainable parameters
  ///
  /// So far there are no parameters to learn. Now each token gets three roles, by three trained matrices $W_q$, $W_k$
  /// and $W_v$: $q = x W_q$, $k = x W_k$, $v = x W_v$. The names come from databases:
  ///
  /// - a **query** is the search request of a token;
  /// - a **key** describes an entry for the search: each token has one;
  /// - a **value** is the content of the entry that was found.
  ///
  /// The scores are now $q k^\top$, divided by the square root of the number of features of a key, $\sqrt{d_k}$.
  ///
  /// ### Why the root?
  e.cell();
  e.ask("Queries and keys of 256 random features, each of variance 1: how large are their dot products, about?",
        "About $\\sqrt{256} = 16$: the variances of the 256 terms add up. So scores grow with the number of features.");

  /// The softmax of large scores is nearly 0 or 1, and its gradient $p (1 - p)$ nearly vanishes: the model can't learn.
  /// Move the slider to see it happen, without the root and with it:
  e.cell();
  e.vary("d_k", {1, 4, 16, 64, 256}, [&](double d_k) {
    const auto features = static_cast<std::int64_t>(d_k);
    const Tensor products = matmul(randn({6, features}), transpose(randn({6, features})));
    const Tensor without_root = softmax(products), with_root = softmax(products / std::sqrt(d_k));
    const auto gradient = [](const Tensor& p) { return mean(p * (1 - p)).item(); };
    std::cout << "mean gradient without the root " << gradient(without_root) << ", with it " << gradient(with_root)
              << '\n';
    const auto one_scale = plot::Options(look).vmin(0).vmax(1).annotate(true);
    e.figure(plot::side_by_side({plot::heatmap(without_root, plot::Options(one_scale).title("Without the root")),
                                 plot::heatmap(with_root, plot::Options(one_scale).title("With the root"))}));
    e.claim("from 64 features on, the gradient is below a fifth of the other one",
            d_k < 64 || gradient(without_root) < gradient(with_root) / 5);
  });

  /// ### Query, key, weights
  ///
  /// Our keys have two features. With some trained matrices, token 2 has this query and this key, and these scores for
  /// the six tokens. Its score for itself is the product of the two, 1.1559.
  e.cell();
  const Tensor query_2 = tensor({1.0057, 0.2636}), key_2 = tensor({0.8479, 1.1501});
  const Tensor learned_scores_2 = tensor({0.9975, 1.1559, 0.6061, 1.3122, 0.9206, 1.0459});
  const Tensor learned_weights_2 = softmax(learned_scores_2 / std::sqrt(2.0));
  std::cout << learned_weights_2 << '\n';
  e.claim("the product of query and key is the score of token 2 for itself",
          distance(matmul(query_2, key_2), learned_scores_2[1]) < from_printed);
  e.claim("token 4 gets the largest weight again, 0.2045",
          distance(learned_weights_2, tensor({0.1637, 0.1831, 0.1241, 0.2045, 0.1551, 0.1694})) < from_printed);

  /// ### As a layer
  ///
  /// A layer holds the three matrices. The first form has bare matrices, drawn uniformly from 0 to 1:
  e.cell();
  const nn::BareSingleHeadAttention bare(3, 2);
  const auto [bare_context, bare_weights] = bare(x, nn::return_attention);
  const Tensor bare_scores = matmul(matmul(x, bare.W_query), transpose(matmul(x, bare.W_key)));
  const Tensor expected = matmul(softmax(bare_scores / std::sqrt(2.0)), matmul(x, bare.W_value));
  std::cout << bare_context << '\n';
  e.claim("the layer with bare parameters computes softmax(q k^T / sqrt 2) v", distance(bare_context, expected) < 1e-6);

  /// The second form has three `Linear` layers. Their initial weights are around 0, and smaller for more features,
  /// which is a better start for training:
  e.cell();
  const nn::SingleHeadAttention linear(3, 2);
  std::cout << linear(x) << '\n';
  e.claim("the layer with Linear projections gives [6, 2]", linear(x).shape() == Shape{6, 2});

  /// ## 3. Hiding future words: causal attention
  ///
  /// A model such as GPT predicts the next token, so no token may attend to a later one. This is causal, or masked,
  /// attention. Take the scores of all six tokens from a layer:
  e.cell();
  const Tensor scores = tensor({{0.2368, 0.2338, 0.1602, 0.3064, 0.2241, 0.2229},
                                {0.0069, -0.1251, 0.0575, -0.0078, 0.0246, -0.0760},
                                {0.5268, 0.4681, 0.3771, 0.6750, 0.5057, 0.4633},
                                {0.5142, 0.3672, 0.4041, 0.6475, 0.5060, 0.3962},
                                {0.3489, 0.3237, 0.2443, 0.4488, 0.3331, 0.3154},
                                {0.0286, -0.0277, 0.0417, 0.0299, 0.0347, -0.0081}});

  /// The scores above the diagonal become $-\infty$:
  e.cell();
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor hidden = create_look_ahead_mask(6)[0] == 0;
  const Tensor masked = masked_fill(scores, hidden, -inf);
  std::cout << masked << '\n';
  e.claim("the masked scores are -inf above the diagonal, and unchanged elsewhere",
          all(eq(masked, -inf) == hidden).item<bool>() && distance(masked_fill(masked, hidden, 0), tril(scores)) == 0);

  e.ask("Softmax now turns each row into weights. What does the first row become?",
        "(1, 0, 0, 0, 0, 0): token 1 can attend to nothing but itself. Because $e^{-\\infty} = 0$, the others get "
        "nothing.");

  /// Because $e^{-\infty} = 0$, the softmax gives no weight to the future, and each row still sums to 1:
  e.cell();
  const Tensor causal_weights = softmax(masked / std::sqrt(2.0));
  std::cout << causal_weights << '\n';
  e.claim("token 2 divides its attention between itself, 0.4767, and token 1, 0.5233",
          distance(causal_weights, tensor({{1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000},
                                           {0.5233, 0.4767, 0.0000, 0.0000, 0.0000, 0.0000},
                                           {0.3498, 0.3356, 0.3147, 0.0000, 0.0000, 0.0000},
                                           {0.2548, 0.2296, 0.2357, 0.2799, 0.0000, 0.0000},
                                           {0.2011, 0.1975, 0.1867, 0.2158, 0.1988, 0.0000},
                                           {0.1681, 0.1615, 0.1696, 0.1682, 0.1688, 0.1638}})) < from_printed);
  e.picture("causal", plot::side_by_side(
                          {plot::heatmap(masked, plot::Options(look).title("Masked scores")),
                           plot::heatmap(causal_weights, plot::Options(look).title("Causal weights").mask(!hidden))}));

  /// ### A triangle can be solved
  ///
  /// A causal layer hides nothing of the past: from its contexts you can compute its values again. Token 1 attends only
  /// to itself, so its context *is* its value. With this value, the context of token 2 gives the value of token 2, and
  /// so on, from the first row to the last.
  e.cell();
  const Tensor layer_contexts = tensor(
      {{1.1219, 0.8538}, {1.0589, 0.8639}, {1.0103, 0.7918}, {1.1774, 0.9110}, {1.1607, 0.8931}, {1.1172, 0.8701}});
  Tensor values = zeros({6, 2});
  for (std::int64_t i = 0; i < 6; ++i)
    values[i] = (layer_contexts[i] - matmul(causal_weights[i], values)) / causal_weights[{i, i}];
  std::cout << values << '\n';
  e.claim("the value of token 2 is (0.9898, 0.8750), the one that the layer used",
          distance(values[1], tensor({0.9898, 0.8750})) < 3e-4);
  e.claim("with these values, token 2 without a mask gets its context without a mask",
          distance(matmul(learned_weights_2, values), tensor({1.1408, 0.8940})) < 3e-4);

  /// ### Dropout
  ///
  /// In training, dropout sets each weight to 0 with probability $p$, so that the model does not depend on a single
  /// weight. It divides the other weights by $1 - p$. In evaluation there is no dropout.
  e.cell();
  e.ask("Why does dropout divide the weights that remain by $1 - p$?",
        "So that the sum of a row stays the same on average. The layers behind it see inputs of the same size in "
        "training "
        "and in evaluation.");

  /// Dropped weights are hatched. With $p = 0.7$, a row may lose all of its weights:
  e.cell();
  e.vary("p", {0, 0.1, 0.3, 0.5, 0.7}, [&](double p) {
    const Tensor kept = dropout(weights, p);
    std::cout << "sums of the rows: " << sum(kept, -1) << ", their mean " << mean(sum(kept, -1)).item() << '\n';
    e.figure(plot::heatmap(kept, plot::Options(look).vmin(0).vmax(0.7).mask(kept > 0)));
    e.claim("what remains is the weight / (1 - p)", distance(kept, scaled(weights, kept, p)) < 1e-6);
  });
  e.claim("so it is in the notebook's draw with p = 0.3",
          distance(notebook_draw(), scaled(weights, notebook_draw(), 0.3)) < printed);

  /// ### The causal layer
  ///
  /// The layer takes batches of sequences, up to a context length. A test of causality is easy: replace the last token,
  /// and no bit of the earlier outputs may change. Test your own layers like this: the notebook's layer masks the
  /// scores, but then does not use the result.
  e.cell();
  const Tensor batch = stack({x, x});
  const nn::CausalAttention causal(3, 2, 6);
  const auto [causal_context, layer_weights] = causal(batch, nn::return_attention);
  Tensor changed = batch.clone();
  changed[{ellipsis, 5, range()}] = 9.0;
  std::cout << batch.shape() << " -> " << causal_context.shape() << '\n';
  e.claim("the causal layer gives [2, 6, 2]", causal_context.shape() == Shape{2, 6, 2});
  e.claim("its weights are 0 above the diagonal", equal(layer_weights, tril(layer_weights)));
  e.claim("another last token changes nothing before it",
          equal(causal(changed)[{range(), range(0, 5)}], causal_context[{range(), range(0, 5)}]));

  /// ## 4. Multi-head attention
  ///
  /// The simplest form of several heads is two causal layers with separate parameters and the same input. Their outputs
  /// are concatenated. Two heads of two features give four features.
  e.cell();
  const nn::MultiHeadAttentionWrapper heads(3, 2, 6, 0.0, 2);
  const Tensor both = heads(batch);
  std::cout << batch.shape() << " -> " << both.shape() << '\n';
  e.claim("two heads of two features give [2, 6, 4]", both.shape() == Shape{2, 6, 4});
  e.claim("they are the two heads' outputs, side by side",
          equal(both, cat({heads.heads[0](batch), heads.heads[1](batch)}, -1)));
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Attention on six tokens, step by step.", lesson);
}
