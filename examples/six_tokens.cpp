/// # Coding attention on six tokens
///
/// With six tokens of three features, you can follow every number. You write each layer yourself. Then one call of the
/// library takes its place, and not a bit of the result changes.
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "fit/tensor/xtensor.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
using example::step_by_step;
// not shown

// A number printed with four digits is exact to half a unit of the last digit. A result computed from such numbers is
// exact to about one unit.
constexpr double printed = 0.5e-4 + 1e-6, from_printed = 1e-4;

const std::vector<std::string> tokens{"t1", "t2", "t3", "t4", "t5", "t6"};

plot::Options look_of(const std::string& title) {
  return plot::Options().title(title).x(tokens).y(tokens).xlabel("Key").ylabel("Query").bar_label("Weight").vmin(0);
}

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

Tensor six_tokens() {
  std::ifstream file(std::string(EXAMPLES_DATA) + "/six_tokens.csv");
  return from_xtensor(xt::load_csv<float>(file));
}

// The values of the matrices that the notebook drew: they give all its numbers.
const Tensor W_q = tensor({{0.9051, 0.1072}, {0.5200, 0.5200}, {0.6100, 0.0400}});
const Tensor W_k = tensor({{0.9565, 1.0001}, {0.1569, 0.5099}, {0.2385, 0.9609}});
const Tensor W_v = tensor({{0.7787, 0.7944}, {0.6614, 0.4501}, {0.7816, 0.5086}});

void opening(example::Example& e) {
  e.cell();
  // not shown
  const Tensor x = six_tokens();
  const auto rows = plot::Options().y(tokens).x({"1", "2", "3"}).xlabel("Feature").ylabel("Token").bar_label("Value");
  e.figure(plot::heatmap(x, plot::Options(rows).vmin(0).title("Six tokens of three features")));
  e.ask(Question("The score of two tokens is the sum of the products of their features. Which token has the largest "
                 "score with token 2?")
            .wrong("Token 2 itself", "0.7614. Its features fit best, but a dot product also grows with the length.")
            .right("Token 4",
                   "0.8904. A dot product also grows with the length of the vectors, and token 4 is the "
                   "longest of the six.")
            .wrong("Token 6", "0.6306. It points in nearly the same direction as token 2, but it is short."));
}

void simplified(example::Example& e) {
  /// ## 1. Simplified self-attention
  ///
  /// Each row is a token. A real model learns such embeddings. Token 2 asks: its **query** is the token itself. Its
  /// **score** for token $j$ is the dot product $x_2 \cdot x_j$. The softmax turns scores into **weights** that sum to
  /// 1, $w_j = e^{s_j} / \sum_k e^{s_k}$. The **context** of token 2 is the sum of all tokens with these weights.
  e.cell();
  const Tensor x = six_tokens();  // [6, 3]
  const Tensor scores_2 = matmul(x, x[1]);
  const Tensor weights_2 = exp(scores_2) / sum(exp(scores_2));
  const Tensor context_2 = matmul(weights_2, x);
  std::cout << "scores  " << scores_2 << "\nweights " << weights_2 << "\ncontext " << context_2 << '\n';
  e.claim("token 2 scores 0.5640, 0.7614, 0.3795, 0.8904, 0.5394 and 0.6306",
          distance(scores_2, tensor({0.5640, 0.7614, 0.3795, 0.8904, 0.5394, 0.6306})) < printed);
  e.claim("token 4, not token 2 itself, has the largest score", argmax(scores_2).item<int>() == 3);
  e.claim("token 2 gives token 4 the largest weight, 0.2139",
          distance(weights_2, tensor({0.1543, 0.1880, 0.1283, 0.2139, 0.1506, 0.1649})) < printed);
  e.claim("the context of token 2 is (0.5017, 0.3981, 0.6277)",
          distance(context_2, tensor({0.5017, 0.3981, 0.6277})) < printed);

  /// One product computes the scores of all six, $\name{all_scores}{S} = \name{x}{X} \name{x}{X}^\top$. Point at a
  /// score: it is the dot product of a row and a column.
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
  e.picture("simplified", plot::heatmap(weights, look_of("Simplified self-attention")));
  // not shown
}

void projections(example::Example& e) {
  /// ## 2. Queries, keys and values
  ///
  /// So far there is nothing to learn. Now each token gets three roles, by three trained matrices. The names come from
  /// databases: a **query** $q = x W_q$ is a search request, a **key** $k = x W_k$ describes an entry for the search,
  /// and a **value** $v = x W_v$ is the content of the entry that was found.
  ///
  /// Here are matrices from three features to two, and what token 2 becomes:
  e.cell();
  const Tensor x = six_tokens();
  std::cout << "W_q\n" << W_q << "\nW_k\n" << W_k << "\nW_v\n" << W_v << '\n';
  const Tensor query_2 = matmul(x[1], W_q), key_2 = matmul(x[1], W_k), value_2 = matmul(x[1], W_v);
  std::cout << "query " << query_2 << ", key " << key_2 << ", value " << value_2 << '\n';
  e.claim("the query of token 2 is (1.0057, 0.2636)", distance(query_2, tensor({1.0057, 0.2636})) < printed);
  e.claim("its key is (0.8479, 1.1501)", distance(key_2, tensor({0.8479, 1.1501})) < printed);
  e.claim("its value is (0.9898, 0.8750)", distance(value_2, tensor({0.9898, 0.8750})) < printed);

  e.ask(Question("What is the score of token 2 for itself, the product of its query and its key?")
            .numbers(tensor(1.1559), 0.006, "1.0057 · 0.8479 + 0.2636 · 1.1501 = 1.1559.")
            .wrong("0.7614", "That was the product of the token with itself. Now multiply its query by its key.")
            .otherwise("Multiply the first features, multiply the second features, and add."));

  /// One product gives all keys. Point at a number to see where it comes from:
  e.cell();
  const Tensor keys = matmul(x, W_k), values = matmul(x, W_v);
  e.product(x, W_k);
  const Tensor scores_2 = matmul(keys, query_2);
  const Tensor weights_2 = softmax(scores_2 / std::sqrt(2.0));  // two features
  const Tensor context_2 = matmul(weights_2, values);
  std::cout << "scores  " << scores_2 << "\nweights " << weights_2 << "\ncontext " << context_2 << '\n';
  e.claim("the scores are 0.9975, 1.1559, 0.6061, 1.3122, 0.9206 and 1.0459",
          distance(scores_2, tensor({0.9975, 1.1559, 0.6061, 1.3122, 0.9206, 1.0459})) < printed);
  e.claim("token 4 gets the largest weight again, 0.2045",
          distance(weights_2, tensor({0.1637, 0.1831, 0.1241, 0.2045, 0.1551, 0.1694})) < printed);
  e.claim("the context of token 2 is (1.1408, 0.8940)", distance(context_2, tensor({1.1408, 0.8940})) < printed);

  /// ### Why divide by the root?
  ///
  /// A score is a sum of $d_k$ products. Its standard deviation is $\sqrt{d_k}$ for features of variance 1. The softmax
  /// of large scores is nearly 0 or 1, and its gradient $p (1 - p)$ nearly vanishes: the model can't learn. Move the
  /// slider to see it happen, without the root and with it:
  e.cell();
  const auto gradient = [](const Tensor& p) { return mean(p * (1 - p)).item(); };
  // not shown
  std::vector<double> ratios;
  // shown
  e.vary("d_k", {4, 16, 64, 256}, [&](double d_k) {
    const auto features = static_cast<std::int64_t>(d_k);
    const Tensor products = matmul(randn({100, 6, features}), transpose(randn({100, 6, features})));  // 100 draws
    const Tensor without_root = softmax(products), with_root = softmax(products / std::sqrt(d_k));
    ratios.push_back(gradient(without_root) / gradient(with_root));
    std::cout << "mean gradient over 100 draws, without the root " << gradient(without_root) << ", with it "
              << gradient(with_root) << '\n';
    e.figure(plot::side_by_side({plot::heatmap(without_root[0], look_of("Without the root").vmax(1).annotate(true)),
                                 plot::heatmap(with_root[0], look_of("With the root").vmax(1).annotate(true))}));
  });
  e.claim("with 64 features, the gradient without the root is below a quarter of the other one", ratios[2] < 0.25);
  e.claim("with 256 features, it is below a seventh", ratios[3] < 1. / 7);
}

/// ### As a layer
///
/// A layer holds the three matrices, drawn uniformly from 0 to 1. Its `forward` is what you have just seen:
struct SelfAttentionV1 final : nn::UnaryLayer {
  SelfAttentionV1(std::int64_t d_in, std::int64_t d_out)
      : W_query(rand({d_in, d_out})), W_key(rand({d_in, d_out})), W_value(rand({d_in, d_out})) {}

  Tensor forward(const Tensor& x) const override {
    const Tensor queries = matmul(x, W_query), keys = matmul(x, W_key), values = matmul(x, W_value);
    const Tensor scores = matmul(queries, transpose(keys));
    const Tensor weights = softmax(scores * (1 / std::sqrt(keys.size(-1))));
    return matmul(weights, values);
  }

  FIT_FIELDS(W_query, W_key, W_value)
  nn::Parameter W_query, W_key, W_value;
};

/// Second version: `Linear` holds a matrix and a bias, and starts with small numbers around 0. That is a better start
/// for training. And the four lines become one: `attend` is the library's attention.
struct SelfAttentionV2 final : nn::SequenceLayer {
  SelfAttentionV2(std::int64_t d_in, std::int64_t d_out)
      : W_query(d_in, d_out), W_key(d_in, d_out), W_value(d_in, d_out) {}

  Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
    return context.attend(W_query(x), W_key(x), W_value(x));
  }

  FIT_FIELDS_ONLY(W_query, W_key, W_value)
  nn::Linear W_query, W_key, W_value;
};
// not shown

void layers(example::Example& e) {
  /// Give both the same matrices, and compare bit by bit. The library usually computes attention in one kernel, which
  /// adds in another order: it rounds differently in the seventh digit. Under a lens that edits, it computes the
  /// formula operation by operation, as you did.
  e.cell();
  const Tensor x = six_tokens();
  const SelfAttentionV1 v1(3, 2);
  const auto no_bias = [](const Tensor& W) { return nn::Linear(nn::Parameter(transpose(W))); };
  SelfAttentionV2 v2(3, 2);
  v2.W_query = no_bias(v1.W_query), v2.W_key = no_bias(v1.W_key), v2.W_value = no_bias(v1.W_value);
  std::cout << v1(x) << '\n';
  e.claim("operation by operation, the library's attention gives the bits of yours",
          equal(step_by_step(v2, "weights", x), v1(x)));
  e.claim("in one kernel, it differs by rounding alone", distance(v2(x), v1(x)) < 1e-6);
  e.claim("a layer of Linear projections gives [6, 2]", SelfAttentionV2(3, 2)(x).shape() == Shape{6, 2});
  // not shown
}

void masks(example::Example& e) {
  /// ## 3. Hiding future words: causal attention
  ///
  /// A model such as GPT predicts the next token, so no token may attend to a later one. This is causal, or masked,
  /// attention. Here are the scores of queries of a second layer, which has a bias, with the keys from above. Those
  /// above the diagonal become $-\infty$:
  e.cell();
  const Tensor x = six_tokens(), keys = matmul(x, W_k), values = matmul(x, W_v);
  const Tensor W = tensor({{-0.46077, -0.22093}, {-0.25743, 0.49692}, {0.47395, -0.10600}});
  const Tensor queries = matmul(x, W) + tensor({-0.08386, 0.23788});
  const Tensor scores = matmul(queries, transpose(keys));
  const Tensor later = triu(ones({6, 6}), 1) != 0;
  const Tensor masked = masked_fill(scores, later, -std::numeric_limits<double>::infinity());
  std::cout << masked << '\n';
  e.claim("the scores are those of the notebook",
          distance(scores, tensor({{0.2368, 0.2338, 0.1602, 0.3064, 0.2241, 0.2229},
                                   {0.0069, -0.1251, 0.0575, -0.0078, 0.0246, -0.0760},
                                   {0.5268, 0.4681, 0.3771, 0.6750, 0.5057, 0.4633},
                                   {0.5142, 0.3672, 0.4041, 0.6475, 0.5060, 0.3962},
                                   {0.3489, 0.3237, 0.2443, 0.4488, 0.3331, 0.3154},
                                   {0.0286, -0.0277, 0.0417, 0.0299, 0.0347, -0.0081}})) < from_printed);
  e.claim(
      "the masked scores are -inf above the diagonal, and unchanged elsewhere",
      all(eq(masked, -INFINITY) == later).item<bool>() && distance(masked_fill(masked, later, 0), tril(scores)) == 0);

  e.ask(Question("Softmax turns each row into weights. What does the first row become?")
            .numbers(tensor({{1., 0., 0., 0., 0., 0.}}), 0.005,
                     "Token 1 can attend to nothing but itself. Because $e^{-\\infty} = 0$, the others get nothing.")
            .otherwise("$e^{-\\infty} = 0$, and the row must sum to 1."));

  /// Because $e^{-\infty} = 0$, the softmax gives no weight to the future, and each row still sums to 1:
  e.cell();
  const Tensor weights = softmax(masked / std::sqrt(2.0));
  const Tensor contexts = matmul(weights, values);
  std::cout << weights << '\n';
  e.claim("token 2 divides its attention between itself, 0.4767, and token 1, 0.5233",
          distance(weights, tensor({{1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000},
                                    {0.5233, 0.4767, 0.0000, 0.0000, 0.0000, 0.0000},
                                    {0.3498, 0.3356, 0.3147, 0.0000, 0.0000, 0.0000},
                                    {0.2548, 0.2296, 0.2357, 0.2799, 0.0000, 0.0000},
                                    {0.2011, 0.1975, 0.1867, 0.2158, 0.1988, 0.0000},
                                    {0.1681, 0.1615, 0.1696, 0.1682, 0.1688, 0.1638}})) < from_printed);
  e.claim("the contexts are those of the notebook", distance(contexts, tensor({{1.1219, 0.8538},
                                                                               {1.0589, 0.8639},
                                                                               {1.0103, 0.7918},
                                                                               {1.1774, 0.9110},
                                                                               {1.1607, 0.8931},
                                                                               {1.1172, 0.8701}})) < from_printed);
  const auto score_look = look_of("Masked scores").bar_label("Score").vmin(masked_fill(masked, later, 0).min().item());
  e.picture("causal", plot::side_by_side({plot::heatmap(masked, score_look),
                                          plot::heatmap(weights, look_of("Causal weights").mask(!later).vmax(1))}));

  /// ### A triangle can be solved
  ///
  /// A causal layer hides nothing of the past: from its contexts you can compute its values again. Token 1 attends only
  /// to itself, so its context *is* its value. With this value, the context of token 2 gives the value of token 2, and
  /// so on, from the first row to the last.
  e.cell();
  Tensor solved = zeros({6, 2});
  for (std::int64_t i = 0; i < 6; ++i) solved[i] = (contexts[i] - matmul(weights[i], solved)) / weights[{i, i}];
  std::cout << solved << '\n';
  e.claim("these are the values that the layer used", distance(solved, values) < 1e-5);

  /// ### Dropout
  ///
  /// In training, dropout sets each weight to 0 with probability $p$, so that the model does not depend on a single
  /// weight. It divides the other weights by $1 - p$. In evaluation there is no dropout.
  e.cell();
  e.ask(Question("Why does it divide the weights that remain by $1 - p$?")
            .wrong("So that each row sums to exactly 1",
                   "A row that lost one weight of six sums to another number than "
                   "a row that lost three. Only the mean over draws is 1.")
            .right("So that the sum of a row stays the same on average",
                   "The layers behind it see inputs of the same size in training and in evaluation.")
            .wrong("So that small weights count more", "All weights that remain grow by the same factor."));

  /// Dropped weights are hatched. With $p = 0.7$, a row may lose all of its weights:
  e.cell();
  const Tensor plain = softmax(matmul(x, transpose(x)));
  e.vary("p", {0, 0.1, 0.3, 0.5, 0.7}, [&](double p) {
    const Tensor kept = dropout(plain, p), many = dropout(broadcast_to(plain, {10000, 6, 6}), p);
    std::cout << "sums of the rows in one draw: " << sum(kept, -1) << ", on average over 10,000 draws "
              << mean(sum(many, -1)).item() << '\n';
    e.figure(plot::heatmap(kept, look_of("").vmax(0.7).mask(kept > 0)));
  });
  // not shown
  const auto remains = [&](double p) {
    const Tensor kept = dropout(plain, p);
    return distance(kept, scaled(plain, kept, p)) < 1e-6;
  };
  // shown
  e.claim("what remains with p = 0.1 is the weight / 0.9", remains(0.1));
  e.claim("what remains with p = 0.7 is the weight / 0.3", remains(0.7));
  e.claim("so it is in the notebook's draw with p = 0.3",
          distance(notebook_draw(), scaled(plain, notebook_draw(), 0.3)) < printed);
}

/// ### The causal layer
///
/// The mask is a **buffer**: it belongs to the layer and is saved with it, but it is not trained. It is made once, for
/// the longest sequence; `forward` takes the part that it needs. `qkv_bias` says whether the projections add a bias.
/// Most models have none: a bias of the keys adds the same number to all scores of a query, and the softmax ignores it.
struct CausalAttention final : nn::UnaryLayer {
  CausalAttention(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length, double p, bool qkv_bias = false)
      : W_query(d_in, d_out, qkv_bias),
        W_key(d_in, d_out, qkv_bias),
        W_value(d_in, d_out, qkv_bias),
        drop(p),
        mask(triu(ones({context_length, context_length}), 1)) {}

  Tensor forward(const Tensor& x) const override {  // [B, T, d_in] -> [B, T, d_out]
    const Tensor queries = W_query(x), keys = W_key(x), values = W_value(x);
    const Range first = range(0, x.size(1));
    const Tensor scores = masked_fill(matmul(queries, transpose(keys)), mask[{first, first}] != 0, -INFINITY);
    const Tensor weights = drop(softmax(scores * (1 / std::sqrt(keys.size(-1)))));
    return matmul(weights, values);
  }

  FIT_FIELDS(W_query, W_key, W_value, drop, mask)
  nn::Linear W_query, W_key, W_value;
  nn::Dropout drop;
  nn::Buffer mask;  // [context_length, context_length]: 1 above the diagonal
};
// not shown

// The library's attention with the projections of a causal layer.
struct LibraryCausal final : nn::SequenceLayer {
  explicit LibraryCausal(const CausalAttention& layer)
      : q(layer.W_query.weight, layer.W_query.bias),
        k(layer.W_key.weight, layer.W_key.bias),
        v(layer.W_value.weight, layer.W_value.bias) {}
  Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
    return context.attend(q(x), k(x), v(x), AttentionOptions().causal());
  }
  FIT_FIELDS_ONLY(q, k, v)
  nn::Linear q, k, v;
};

void causal_layer(example::Example& e) {
  /// A test of causality is easy: replace the last token, and no bit of the earlier outputs may change. Test your own
  /// layers like this: the notebook's layer masks the scores, but then does not use the result. `examples/run exercises
  /// causal_bug` lets you find that.
  e.cell();
  const Tensor x = six_tokens(), batch = stack({x, x});  // [2, 6, 3]
  CausalAttention causal(3, 2, 6, 0.0), with_bias(3, 2, 6, 0.0, true);
  Tensor changed = batch.clone();
  changed[{ellipsis, 5, range()}] = 9.0;
  const Tensor before = causal(batch), after = causal(changed);
  std::cout << batch.shape() << " -> " << before.shape() << ", parameters " << causal.parameters().size()
            << ", with a bias " << with_bias.parameters().size() << '\n';
  e.claim("the causal layer gives [2, 6, 2]", before.shape() == Shape{2, 6, 2});
  e.claim("another last token changes nothing before it",
          equal(after[{range(), range(0, 5)}], before[{range(), range(0, 5)}]));
  e.claim("a shorter sequence takes a part of the mask",
          equal(causal(batch[{range(), range(0, 4)}]), before[{range(), range(0, 4)}]));
  // not shown
  for (CausalAttention* const layer : {&causal, &with_bias}) {
    const bool bias = layer->W_query.has_bias();
    e.claim(std::string("operation by operation, the library's causal option gives its bits, ") +
                (bias ? "with a bias" : "without a bias"),
            equal(step_by_step(LibraryCausal(*layer), "weights", batch), (*layer)(batch)));
  }
  e.claim("the buffer is saved, and not trained", causal.state_dict().size() == 4 && causal.parameters().size() == 3);
}

/// ## 4. Multi-head attention
///
/// The simplest form of several heads is a list of causal layers with separate parameters and the same input. Their
/// outputs are concatenated. Two heads of two features give four features.
struct MultiHeadAttentionWrapper final : nn::UnaryLayer {
  MultiHeadAttentionWrapper(std::int64_t d_in, std::int64_t d_out, std::int64_t context_length, double p,
                            std::int64_t num_heads, bool qkv_bias = false) {
    for (std::int64_t h = 0; h < num_heads; ++h) heads.add(CausalAttention(d_in, d_out, context_length, p, qkv_bias));
  }

  Tensor forward(const Tensor& x) const override {
    std::vector<Tensor> outputs;
    for (const CausalAttention& head : heads) outputs.push_back(head(x));
    return cat(outputs, -1);
  }

  FIT_FIELDS(heads)
  nn::ModuleList<CausalAttention> heads;
};
// not shown

void several_heads(example::Example& e) {
  e.cell();
  const Tensor x = six_tokens(), batch = stack({x, x});
  const MultiHeadAttentionWrapper heads(3, 2, 6, 0.0, 2);
  const Tensor both = heads(batch);
  std::cout << batch.shape() << " -> " << both.shape() << '\n';
  e.claim("two heads of two features give [2, 6, 4]", both.shape() == Shape{2, 6, 4});
  e.claim("they are the two heads' outputs, side by side",
          equal(both, cat({heads.heads[0](batch), heads.heads[1](batch)}, -1)));
  // not shown
  std::vector<plot::Figure> maps;
  for (std::int64_t h = 0; h < 2; ++h)
    maps.push_back(plot::heatmap(both[{0, range(), range(2 * h, 2 * h + 2)}],
                                 plot::Options()
                                     .title("Output of head " + std::to_string(h + 1))
                                     .y(tokens)
                                     .x({std::to_string(2 * h + 1), std::to_string(2 * h + 2)})
                                     .ylabel("Token")
                                     .xlabel("Feature")
                                     .bar_label("Value")
                                     .colormap(plot::Colormap::rdbu)
                                     .vmin(-max(abs(both)).item())
                                     .vmax(max(abs(both)).item())));
  e.picture("two_heads", plot::side_by_side(maps));

  /// Each head fills two columns of the output. A list of layers is easy to read, but it computes one head after the
  /// other. The [next lesson](../jax_notebook/jax_notebook.html) makes one wide projection, splits it into heads, and
  /// combines them again: that is `nn::MultiHeadAttention`.
  ///
  /// Next: [Attention as a function and as a module](../jax_notebook/jax_notebook.html). Back:
  /// [Understanding attention, one step at a time](../attention_step_by_step/attention_step_by_step.html). Home:
  /// [all lessons](../course/course.html).
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  const auto lesson = [](example::Example& e) {
    opening(e), simplified(e), projections(e), layers(e), masks(e), causal_layer(e), several_heads(e);
  };
  return example::lesson(argc, argv, "Attention on six tokens, step by step.", lesson);
}
