/// # Attention as a function and as a module
///
/// A function has no memory. A module has parameters, and splits its features among heads. You write both, and the
/// library takes their place without the change of a bit.
#include <cmath>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
using example::step_by_step;
// not shown

plot::Options named(const std::string& title) {
  return plot::Options().title(title).xlabel("Key position").ylabel("Query position").bar_label("Weight").vmin(0);
}

// What the sections share: query, key and value of two sequences, drawn separately.
struct Drawn {
  Tensor query = randn({2, 4, 8}), key = randn({2, 4, 8}), value = randn({2, 4, 8});
};

// The first figure is drawn from weights that the program computes later.
void opening(example::Example& e, const Tensor& all, const Tensor& past) {
  e.cell();
  // not shown
  e.picture(
      "masked",
      plot::side_by_side(
          {plot::heatmap(all, named("All keys").cell_size(40).vmax(1)),
           plot::heatmap(past, named("Without the future").cell_size(40).vmax(1).mask(tril(ones({4, 4})) != 0))}));
  e.ask(Question("Both maps have the same queries and keys. Where did the hatched weight of a row go?")
            .wrong("It is lost: the rows on the right sum to less", "Every row sums to 1, also on the right.")
            .right("To the keys that remain, in proportion",
                   "The softmax divides by the sum over the keys that remain, "
                   "so each of them grows by the same factor.")
            .wrong("To the diagonal", "Compare the rows of query 2: all keys that remain grow."));
}

/// ## 1. Self-attention as a function
///
/// Each query is compared with all keys. The softmax turns the scores into weights, and these mix the values:
///
/// $$\text{output} = \operatorname{softmax}\left(\frac{q k^\top}{\sqrt{d_k}}\right) v$$
AttentionResult simple_self_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  const Tensor scores = matmul(query, Transpose::no, key, Transpose::yes) * (1 / std::sqrt(query.size(-1)));
  const Tensor weights = softmax(scores);
  return {matmul(weights, value), weights};
}
// not shown

void function(example::Example& e, const Drawn& drawn) {
  const auto& [query, key, value] = drawn;

  /// Two sequences of four positions with eight features; query, key and value are drawn separately. With the same
  /// numbers for query and key, every position would attend to itself.
  e.cell();
  const auto [output, weights] = simple_self_attention(query, key, value);
  std::cout << "output shape: " << output.shape() << "\nattention weights shape: " << weights.shape() << '\n';
  e.claim("the rows of the weights sum to 1", distance(sum(weights, -1), ones({2, 4})) < 1e-5);
  e.claim("the library's function does the same",
          distance(output, scaled_dot_product_attention(query, key, value)) < 1e-6);
  // not shown
}

/// ## 2. Multi-head attention as a module
///
/// Three projections make queries, keys and values from one input, and a fourth one mixes the outputs of the heads.
/// With 64 features and four heads, each head has 16. **Splitting** is a reshape and a transpose: the 64 features
/// become 4 x 16, and the axis of heads moves before the positions. **Combining** goes the same way back.
struct MultiHeadAttention final : nn::Layer {
  MultiHeadAttention(std::int64_t d_model, std::int64_t heads)
      : num_heads(heads),
        q_proj(d_model, d_model),
        k_proj(d_model, d_model),
        v_proj(d_model, d_model),
        output_proj(d_model, d_model) {}

  Tensor split(const Tensor& x) const {  // [B, T, H D] -> [B, H, T, D]
    return transpose(x.reshape({x.size(0), x.size(1), num_heads, -1}), 1, 2);
  }
  Tensor combine(const Tensor& x) const {  // [B, H, T, D] -> [B, T, H D]
    return transpose(x, 1, 2).reshape({x.size(0), x.size(2), -1});
  }
  AttentionResult forward(const Tensor& x) const {
    const auto [output, weights] = simple_self_attention(split(q_proj(x)), split(k_proj(x)), split(v_proj(x)));
    return {output_proj(combine(output)), weights};
  }

  FIT_FIELDS(q_proj, k_proj, v_proj, output_proj)
  std::int64_t num_heads;
  nn::Linear q_proj, k_proj, v_proj, output_proj;
};
// not shown

void module(example::Example& e) {
  /// All of it is in the library's module. Give it the same projections and compare. In one kernel it rounds
  /// differently; operation by operation, under a lens that edits, it has the same bits.
  e.cell();
  const Tensor x = randn({2, 8, 64});
  const MultiHeadAttention mine(64, 4);
  const auto [mixed, by_head] = mine(x);
  nn::MultiHeadAttention library(64, 4);
  const auto shared = [](const nn::Linear& layer) { return nn::Linear(layer.weight, layer.bias); };
  library.w_q = shared(mine.q_proj), library.w_k = shared(mine.k_proj);
  library.w_v = shared(mine.v_proj), library.w_o = shared(mine.output_proj);
  library.eval();
  std::cout << "multi-head output shape: " << mixed.shape() << "\nmulti-head weights shape: " << by_head.shape()
            << '\n';
  const auto [same, same_by_head] = library(x, x, x, {}, nn::return_attention);
  e.claim("the weights are those of each head", by_head.shape() == Shape{2, 4, 8, 8});
  e.claim("combining undoes splitting", equal(mine.combine(mine.split(x)), x));
  e.claim("operation by operation, the library's module gives the bits of yours",
          equal(step_by_step(library, "weights", [&] { return library(x, x, x); }), mixed));
  e.claim("in one kernel, output and weights differ by rounding alone",
          distance(same, mixed) < 1e-6 && distance(same_by_head, by_head) < 1e-6);
  e.ask(Question("A model has 96 features and 8 heads. How many features has each head?")
            .numbers(tensor(12.), 0.01, "96 / 8. `split` gives `[B, 8, T, 12]`.")
            .wrong("96", "The features are divided among the heads: all of them together have 96.")
            .wrong("8", "That is the number of heads."));
  e.ask(Question("What would `x.reshape({B, H, T, D})` do, without the transpose?")
            .wrong("The same",
                   "The numbers lie in memory position after position. A reshape alone would cut along "
                   "positions.")
            .right("Mix positions and heads",
                   "Head 1 would get all features of the first positions, and not the first "
                   "features of all positions. `examples/run exercises heads` shows it."));

  /// ## 3. Looking at the patterns
  ///
  /// The first head on the first sequence. The parameters are random, so the pattern has no meaning yet; each row is
  /// already a distribution. The second input has no differences: ten times the same vector. All its keys are equal, so
  /// every weight must be $\frac{1}{10}$, for any parameters. No training can change that. So transformers add
  /// positions to their inputs.
  e.cell();
  const Tensor constant = ones({1, 10, 64});
  const Tensor uniform = mine(constant).weights;
  e.claim("ten equal inputs are attended to equally: every weight is 1/10",
          distance(uniform, full({1, 4, 10, 10}, 0.1)) < 1e-6);
  e.picture("uniform_head",
            plot::side_by_side(
                {plot::heatmap(by_head[{0, 0}], named("Random input, head 1").cell_size(24).annotate(false).vmax(0.3)),
                 plot::heatmap(uniform[{0, 0}], named("Constant input").cell_size(24).annotate(false).vmax(0.3))}));
  // not shown
}

/// ## 4. Masked self-attention
///
/// A model that writes from left to right may attend only to the past. One way is to **add** a mask to the scores
/// before the softmax: 0 for allowed keys, and a very negative number for the others. Because $e^{-10^9}$ is 0, masked
/// keys get no weight, and the allowed keys get all of it:
///
/// $$\text{weights} = \operatorname{softmax}\left(\frac{q k^\top}{\sqrt{d_k}} + M\right), \qquad
///   M_{ij} = \begin{cases} 0 & \text{if } j \le i \\ -10^9 & \text{if } j > i \end{cases}$$
Tensor causal_mask(std::int64_t T) { return triu(ones({T, T}), 1) * -1e9; }

AttentionResult masked_self_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  const Tensor scores = matmul(query, Transpose::no, key, Transpose::yes) * (1 / std::sqrt(query.size(-1)));
  const Tensor weights = softmax(scores + causal_mask(query.size(1)));
  return {matmul(weights, value), weights};
}
// not shown

// The library's function as a layer, so that a lens reads it.
struct Causal final : nn::UnaryLayer {
  Tensor forward(const Tensor& qkv) const override {  // [3, B, T, C]
    return scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], AttentionOptions().causal());
  }
  FIT_FIELDS_ONLY()
};

Tensor masked(example::Example& e, const Drawn& drawn) {
  const auto& [query, key, value] = drawn;

  /// The library's `causal` option does not add: it computes only the allowed pairs.
  e.cell();
  const auto [output, weights] = masked_self_attention(query, key, value);
  const auto [past, past_weights] = attend(query, key, value, AttentionOptions().causal().weights());
  std::cout << weights[0] << '\n';
  e.claim("the same output and weights as with the causal option",
          distance(past, output) < 1e-6 && distance(past_weights, weights) < 1e-6);
  e.claim("operation by operation, the same bits",
          equal(step_by_step(Causal(), "weights", stack({query, key, value})), output));
  const auto added = AttentionOptions().bias(where(create_look_ahead_mask(4), zeros({1, 4, 4}), -INFINITY)).weights();
  e.claim("a mask of -infinity gives the same", distance(attend(query, key, value, added).weights, weights) < 1e-6);
  e.ask(Question("Enter the first row of the weights.")
            .numbers(tensor({{1., 0., 0., 0.}}), 0.005, "The first position attends to itself alone.")
            .otherwise("The first position may attend to itself only, and its weights sum to 1."));

  /// `examples/run exercises causal` asks you for this function, `examples/run exercises padding` for another mask.
  ///
  /// Next: [The mathematics of attention](../attention_mathematics/attention_mathematics.html). Back:
  /// [Coding attention on six tokens](../six_tokens/six_tokens.html). Home: [all lessons](../course/course.html).
  e.cell();
  // not shown
  return weights[0];
}

int main(int argc, char** argv) {
  const auto lesson = [](example::Example& e) {
    const Drawn drawn;
    function(e, drawn), module(e);
    opening(e, simple_self_attention(drawn.query, drawn.key, drawn.value).weights[0], masked(e, drawn));
  };
  return example::lesson(argc, argv, "Attention as a function, as a module, and with an additive mask.", lesson);
}
