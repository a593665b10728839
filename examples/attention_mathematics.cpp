/// # The mathematics of attention
///
/// Attention is a few matrix products and a softmax. It knows no order, so positions must be added: as waves. Each line
/// below is one number of the position's vector.
#include <cmath>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
using example::step_by_step;
// not shown

plot::Options named(const std::string& title, const std::string& x = "Key position",
                    const std::string& y = "Query position") {
  return plot::Options().title(title).xlabel(x).ylabel(y).bar_label("Weight").vmin(0);
}

void opening(example::Example& e) {
  e.cell();
  // not shown
  const Tensor p = nn::sinusoidal_positions(60, 64);
  std::vector<plot::Curve> curves;
  for (const std::int64_t c : {0, 4, 16})
    curves.push_back({"dimension " + std::to_string(c), p[{range(), c}].to(float64).to_vector<double>()});
  e.figure(plot::lines(curves, plot::LineOptions().xlabel("Position").ylabel("Value")));
  e.ask(Question("Dimension 0 is $\\sin(t)$ at position $t$. After how many positions does its wave begin again?")
            .numbers(tensor(2 * std::acos(-1.)), 0.3,
                     "$2 \\pi \\approx 6.28$. It tells neighbours apart, but position "
                     "44 looks like position 0: $44 \\approx 7 \\cdot 2 \\pi$. The "
                     "slow waves tell these apart.")
            .wrong("10000", "That is the base: the slowest wave is nearly 10000 times as long as the fastest.")
            .wrong("3.14", "That is half a wave: there the sine is 0 again, but it falls.")
            .otherwise("Look for the distance from one peak of the fastest line to the next."));
}

/// ## Positions
///
/// If you shuffle the tokens of a sentence, attention gives the same outputs in shuffled order: a sum does not depend
/// on the order of its terms. So the tokens themselves must contain their order. The classical way adds a vector of
/// waves to the token at position $t$, fast in the first dimensions and very slow in the last:
///
/// $$p_{t, 2i} = \sin\left(\frac{t}{10000^{2i / d}}\right), \qquad
///   p_{t, 2i + 1} = \cos\left(\frac{t}{10000^{2i / d}}\right)$$
Tensor positional_encoding(std::int64_t T, std::int64_t d) {
  const Tensor position = arange(T).to(float64).unsqueeze(1);  // [T, 1]
  const Tensor even = 2 * arange(d / 2).to(float64);           // 0, 2, 4 …
  const Tensor angle = position * pow(10000.0, -even / d);     // [T, d / 2]
  return stack({sin(angle), cos(angle)}, -1).reshape({T, d}).to(float32);
}
// not shown

void positions(example::Example& e) {
  /// Like the digits of a number, fast waves distinguish neighbours, and slow waves distinguish parts of the text. A
  /// step of fixed length rotates each pair of sine and cosine by a fixed angle, at every position. So a model can
  /// learn to attend "three back" with one matrix.
  e.cell();
  const Tensor p = positional_encoding(100, 128);
  std::cout << "100 positions of 128 dimensions: " << p.shape() << '\n';
  e.claim("position 0 is 0, 1, 0, 1, …", equal(p[0].reshape({64, 2}), broadcast_to(tensor({0., 1.}), {64, 2})));
  e.claim("nn::sinusoidal_positions gives the same bits", equal(p, nn::sinusoidal_positions(100, 128)));
  // not shown
  e.save("positions", plot::positional(128, 100));
  const auto by_dimension = plot::Options().xlabel("Position").ylabel("Dimension").bar_label("Value");
  e.figure(plot::heatmap(transpose(p), plot::Options(by_dimension).colormap(plot::Colormap::rdbu).vmin(-1).vmax(1)));
  std::vector<plot::Curve> curves;
  for (const std::int64_t c : {4, 5, 16, 32})
    curves.push_back({"dimension " + std::to_string(c), p[{range(), c}].to(float64).to_vector<double>()});
  e.figure(plot::lines(curves, plot::LineOptions().xlabel("Position").ylabel("Value")));
  // not shown
}

/// The map shows the vectors of all positions, one in each column. Below it, some dimensions are curves over the
/// positions. Dimensions 4 and 5 are sine and cosine of the same wave. Dimension 32 changes much more slowly.
/// `examples/run exercises sinusoidal` asks you for this table, and `examples/run exercises rope` for the rotation
/// itself.
///
/// ## Self-attention over ten tokens
///
/// $$\text{Attention}(Q, K, V) = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
///
/// A mask is 1 where a query may attend. Elsewhere the score becomes so negative that the softmax makes it 0.
AttentionResult attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& mask = {}) {
  Tensor scores = matmul(Q, transpose(K)) * (1 / std::sqrt(Q.size(-1)));
  if (mask.defined()) scores = masked_fill(scores, mask == 0, -1e9);
  const Tensor weights = softmax(scores);
  return {matmul(weights, V), weights};
}
// not shown

void ten_tokens(example::Example& e) {
  /// Ten random tokens plus their positions are query, key and value at once.
  e.cell();
  const Tensor x = randn({1, 10, 64}) + positional_encoding(10, 64);
  const auto [output, weights] = attention(x, x, x);
  std::cout << "input " << x.shape() << ", weights " << weights.shape() << ", output " << output.shape() << '\n';
  e.claim("every row sums to 1", distance(sum(weights, -1), ones({1, 10})) < 1e-5);
  e.claim("every token attends to itself most", equal(argmax(weights[0], -1), arange(10)));
  e.claim("the library's function gives the same output",
          distance(scaled_dot_product_attention(x, x, x), output) < 1e-5);
  e.picture("self_attention",
            plot::heatmap(weights[0], named("Self-attention weights").cell_size(32).annotate(false).vmax(1)));
  e.ask(Question("The dot product of a vector of 64 random features with *another* one is 0 on average. What is its "
                 "standard deviation?")
            .numbers(tensor(8.), 0.01,
                     "$\\sqrt{64}$. With itself the product is about 64, so the diagonal stands out. "
                     "The projections of a layer, which come next, let a token attend elsewhere.")
            .wrong("64", "That is the variance: 64 products of variance 1. The deviation is its root.")
            .otherwise("The variances of 64 products of variance 1 add up; the deviation is the root."));
  // not shown
}

/// ## Several heads, and the comparison with PyTorch
///
/// A multi-head layer projects its inputs to queries, keys and values. It splits each of them into $h$ heads of
/// $d_k = d / h$ features, attends in each head, combines the heads, and projects once more.
struct MultiHeadAttention final : nn::Layer {
  MultiHeadAttention(std::int64_t d_model, std::int64_t heads)
      : num_heads(heads), W_q(d_model, d_model), W_k(d_model, d_model), W_v(d_model, d_model), W_o(d_model, d_model) {}

  Tensor split_heads(const Tensor& x) const {  // [B, T, d_model] -> [B, num_heads, T, d_k]
    return transpose(x.reshape({x.size(0), x.size(1), num_heads, -1}), 1, 2);
  }
  Tensor combine_heads(const Tensor& x) const {  // the inverse of split_heads
    return transpose(x, 1, 2).reshape({x.size(0), x.size(2), -1});
  }
  AttentionResult forward(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& mask = {}) const {
    const auto [output, weights] = attention(split_heads(W_q(Q)), split_heads(W_k(K)), split_heads(W_v(V)), mask);
    return {W_o(combine_heads(output)), weights};
  }

  FIT_FIELDS(W_q, W_k, W_v, W_o)
  std::int64_t num_heads;
  nn::Linear W_q, W_k, W_v, W_o;
};
// not shown

Tensor stored(const std::string& name) {
  return load_npy(std::string(EXAMPLES_DATA) + "/attention_mathematics/" + name + ".npy");
}

void against_pytorch(example::Example& e) {
  /// Is the result the same as PyTorch's? The files hold the weights of a PyTorch `nn.MultiheadAttention(64, 8)`, an
  /// input of shape `(2, 8, 64)`, and PyTorch's output. PyTorch stores the three projections in one matrix; `chunk`
  /// cuts it. `nn::load_weights` does that for the library's layer, with the names that `nn::torch_names` gives.
  e.cell();
  const auto W = chunk(stored("in_proj_weight"), 3, 0), b = chunk(stored("in_proj_bias"), 3, 0);
  const auto linear = [](const Tensor& w, const Tensor& bias) {
    return nn::Linear(nn::Parameter(w), nn::Parameter(bias));
  };
  MultiHeadAttention mine(64, 8);
  mine.W_q = linear(W[0], b[0]), mine.W_k = linear(W[1], b[1]), mine.W_v = linear(W[2], b[2]);
  mine.W_o = linear(stored("out_proj_weight"), stored("out_proj_bias"));

  nn::MultiHeadAttention library(64, 8, 0.0);
  nn::load_weights(library,
                   {{"in_proj_weight", stored("in_proj_weight")},
                    {"in_proj_bias", stored("in_proj_bias")},
                    {"out_proj.weight", stored("out_proj_weight")},
                    {"out_proj.bias", stored("out_proj_bias")}},
                   nn::torch_names(library));

  const Tensor input = stored("input");
  const auto [mixed, by_head] = mine(input, input, input);
  const double output_distance = distance(mixed, stored("output"));
  const double weights_distance = distance(by_head, stored("weights"));
  std::cout << "output " << mixed.shape() << ", largest difference from PyTorch " << output_distance << "\nweights "
            << by_head.shape() << ", largest difference " << weights_distance << '\n';
  e.claim("the outputs agree to 1e-5", output_distance < 1e-5);
  e.claim("the weights of every head agree to 1e-5", weights_distance < 1e-5);
  e.claim("operation by operation, the library's layer gives the bits of yours",
          equal(step_by_step(library, "weights", [&] { return library(input, input, input); }), mixed));
  e.claim("in one kernel, it differs by rounding alone", distance(library(input, input, input), mixed) < 1e-6);
  e.picture("pytorch_heads",
            plot::heads(by_head, named("The eight heads of the stored layer", "Key", "Query").columns(4).cell_size(8)));

  /// The difference is rounding: both add the same numbers, in different orders.
  ///
  /// ## The causal mask
  ///
  /// A decoder writes one token after the other. So in training, no position may attend to a later one. The mask is the
  /// lower triangle: row $i$ has ones up to column $i$. `create_look_ahead_mask` is the library's.
  e.cell();
  const Tensor mask = tril(ones({6, 6}));
  std::cout << mask.to(int64) << '\n';
  const Tensor six = randn({1, 6, 32});
  const Tensor full = attention(six, six, six).weights[0];
  const Tensor past = attention(six, six, six, mask).weights[0];
  e.claim("the library's mask is the same", equal(mask, create_look_ahead_mask(6)[0].to(float32)));
  e.claim("with it, nothing above the diagonal has weight", equal(past, tril(past)));
  e.claim("the rows still sum to 1", distance(sum(past, -1), ones({6})) < 1e-5);
  e.picture("causal_masking",
            plot::side_by_side({plot::heatmap(full, named("Without mask").vmax(1)),
                                plot::heatmap(past, named("With causal mask").vmax(1).mask(mask != 0))}));

  /// ## Cross-attention
  ///
  /// In a translation, the decoder attends to the sentence that the encoder has read. Queries come from one sequence,
  /// keys and values from another. The formula does not need equal lengths. Here five positions of a decoder attend to
  /// eight positions of an encoder.
  e.cell();
  const Tensor encoder = randn({1, 8, 64}), decoder = randn({1, 5, 64});
  const auto [looked_up, cross] = attention(decoder, encoder, encoder);
  std::cout << "weights " << cross.shape() << ", output " << looked_up.shape() << '\n';
  e.claim("the weights are [1, 5, 8], the output is [1, 5, 64]",
          cross.shape() == Shape{1, 5, 8} && looked_up.shape() == Shape{1, 5, 64});
  e.claim("every row sums to 1", distance(sum(cross, -1), ones({1, 5})) < 1e-5);
  e.picture("cross_attention",
            plot::heatmap(cross[0], named("Cross-attention (decoder → encoder)", "Encoder position", "Decoder position")
                                        .cell_size(34)
                                        .annotate(false)
                                        .vmax(1)));
  e.ask(Question("The encoder has read a sentence twice as long. What changes in this map?")
            .wrong("It has ten rows", "The rows are the queries, and these come from the decoder.")
            .right("It has sixteen columns", "A column for each key. The output keeps its shape, `[1, 5, 64]`.")
            .wrong("The output is twice as long", "There is one output for each query, and there are five."));

  /// ## In short
  ///
  /// - Attention computes new weights for every input.
  /// - The division by $\sqrt{d_k}$ prevents a saturated softmax, and so a vanishing gradient, for many features.
  /// - Several heads attend in several subspaces.
  /// - Positions are added, because attention itself does not depend on order.
  /// - A causal mask makes writing from left to right possible.
  /// - Cross-attention connects an encoder with a decoder.
  ///
  /// Next: [A museum of attention](../attention_variants/attention_variants.html). Back:
  /// [Attention as a function and as a module](../jax_notebook/jax_notebook.html). Home:
  /// [all lessons](../course/course.html).
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  const auto lesson = [](example::Example& e) { opening(e), positions(e), ten_tokens(e), against_pytorch(e); };
  return example::lesson(argc, argv, "Positions, self-, causal and cross-attention, and PyTorch's own numbers.",
                         lesson);
}
