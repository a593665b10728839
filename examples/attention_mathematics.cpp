/// # The mathematics of attention
///
/// Attention is a few matrix products and a softmax. This lesson shows how a transformer uses them:
///
/// - positions, which attention alone does not know;
/// - self-attention over ten tokens, with a figure of its weights;
/// - several heads, compared with PyTorch's `nn.MultiheadAttention` with the same weights;
/// - the causal mask of a decoder;
/// - cross-attention, by which a decoder attends to an encoder.
///
/// All of them use one formula:
///
/// $$\text{Attention}(Q, K, V) = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
///
/// $Q$, $K$ and $V$ are the matrices of queries, keys and values. $d_k$ is the number of features of a key. Row $i$ of
/// the softmax holds the weights with which position $i$ mixes the values.
#include <cmath>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
// not shown

plot::Options named(const std::string& title, const std::string& x = "Key position",
                    const std::string& y = "Query position") {
  return plot::Options().title(title).xlabel(x).ylabel(y).bar_label("Attention weight");
}

/// ## The formula as it stands
///
/// The library has one function for it, `scaled_dot_product_attention`. Here it is written out, with `transpose` for
/// $K^\top$. A mask is 1 where a query may attend. Elsewhere the score becomes so negative that the softmax makes it 0.
AttentionResult attention(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& mask = {}) {
  Tensor scores = matmul(Q, transpose(K)) / std::sqrt(static_cast<double>(Q.size(-1)));
  if (mask.defined()) scores = masked_fill(scores, mask == 0, -1e9);
  const Tensor weights = softmax(scores);
  return {matmul(weights, V), weights};
}
// not shown

void lesson(example::Example& e) {
  /// ## Positions
  ///
  /// If you shuffle the tokens of a sentence, attention gives the same outputs in shuffled order: a sum does not depend
  /// on the order of its terms. So the tokens themselves must contain their order. The classical way adds a vector of
  /// waves to the token at position $t$. The waves are fast in the first dimensions and very slow in the last:
  ///
  /// $$p_{t, 2i} = \sin\left(\frac{t}{10000^{2i / d}}\right), \qquad
  ///   p_{t, 2i + 1} = \cos\left(\frac{t}{10000^{2i / d}}\right)$$
  ///
  /// Like the digits of a number, fast waves distinguish neighbours, and slow waves distinguish parts of the text. A
  /// step of fixed length rotates each pair of sine and cosine by a fixed angle at every position. So a model can learn
  /// to attend "three back" with one matrix.
  e.cell();
  const Tensor p = nn::sinusoidal_positions(100, 128);
  std::cout << "100 positions of 128 dimensions: " << p.shape() << '\n';
  e.claim("position 0 is 0, 1, 0, 1, …", equal(p[0].reshape({64, 2}), broadcast_to(tensor({0., 1.}), {64, 2})));
  e.picture("positions", plot::positional(128, 100));

  /// On the left, the map shows the vectors of all positions. On the right, some dimensions are curves over the
  /// positions. Dimensions 4 and 5 are sine and cosine of the same wave. Dimension 32 changes much more slowly.
  ///
  /// ## Self-attention over ten tokens
  ///
  /// Ten random tokens plus their positions are query, key and value at once.
  e.cell();
  const Tensor x = randn({1, 10, 64}) + nn::sinusoidal_positions(10, 64);
  const auto [output, weights] = attention(x, x, x);
  std::cout << "input " << x.shape() << ", weights " << weights.shape() << ", output " << output.shape() << '\n';
  e.claim("every row sums to 1", distance(sum(weights, -1), ones({1, 10})) < 1e-5);
  e.claim("every token attends to itself most", equal(argmax(weights[0], -1), arange(10)));
  e.claim("the library's function gives the same output",
          distance(scaled_dot_product_attention(x, x, x), output) < 1e-5);
  e.picture("self_attention", plot::heatmap(weights[0], named("Self-attention weights")));

  /// The diagonal stands out. The dot product of a vector of 64 random features with itself is about 64. With another
  /// vector it is 0 ± 8. The projections of a layer, which come next, let a token attend elsewhere.
  ///
  /// ## Several heads, and the comparison with PyTorch
  ///
  /// A multi-head attention layer first projects its input by three matrices, to queries, keys and values. It splits
  /// each of them into $h$ heads of $d_k = d / h$ features, so `(batch, positions, d)` becomes
  /// `(batch, heads, positions, d_k)`. Each head attends in its own subspace. The outputs are concatenated and
  /// projected once more.
  ///
  /// Is the result the same as PyTorch's? The files hold the weights of a PyTorch `nn.MultiheadAttention(64, 8)`, an
  /// input of shape `(2, 8, 64)`, and PyTorch's output. PyTorch stores the three projections in one matrix.
  /// `nn::load_weights` splits it, with the names that `nn::torch_names` gives.
  e.cell();
  const auto stored = [](const std::string& name) {
    return load_npy(std::string(EXAMPLES_DATA) + "/attention_mathematics/" + name + ".npy");
  };
  nn::MultiHeadAttention mha(64, 8, 0.0);
  nn::load_weights(mha,
                   {{"in_proj_weight", stored("in_proj_weight")},
                    {"in_proj_bias", stored("in_proj_bias")},
                    {"out_proj.weight", stored("out_proj_weight")},
                    {"out_proj.bias", stored("out_proj_bias")}},
                   nn::torch_names(mha));
  mha.eval();
  const Tensor input = stored("input");
  const auto [mixed, by_head] = mha(input, input, input, {}, nn::return_attention);
  const double output_distance = distance(mixed, stored("output"));
  const double weights_distance = distance(by_head, stored("weights"));
  std::cout << "output " << mixed.shape() << ", largest difference " << output_distance << "\nweights "
            << by_head.shape() << ", largest difference " << weights_distance << '\n';
  e.claim("the outputs agree to 1e-5", output_distance < 1e-5);
  e.claim("the weights of every head agree to 1e-5", weights_distance < 1e-5);
  e.picture("pytorch_heads", plot::heads(by_head, named("The eight heads of the stored layer", "Key", "Query")));

  /// The difference is rounding: both add the same numbers, in different orders.
  ///
  /// ## The causal mask
  ///
  /// A decoder writes one token after the other. So in training, no position may attend to a later one. The mask is the
  /// lower triangle: row $i$ has ones up to column $i$.
  e.cell();
  const Tensor mask = create_look_ahead_mask(6);
  std::cout << mask[0].to(int64) << '\n';
  e.claim("it is the lower triangle of ones", equal(mask[0].to(int64), tensor({{1, 0, 0, 0, 0, 0},
                                                                               {1, 1, 0, 0, 0, 0},
                                                                               {1, 1, 1, 0, 0, 0},
                                                                               {1, 1, 1, 1, 0, 0},
                                                                               {1, 1, 1, 1, 1, 0},
                                                                               {1, 1, 1, 1, 1, 1}})));

  /// Attention on the same six tokens, with and without the mask:
  e.cell();
  const Tensor six = randn({1, 6, 32});
  const Tensor full = attention(six, six, six).weights[0];
  const Tensor past = attention(six, six, six, mask).weights[0];
  e.claim("with it, nothing above the diagonal has weight", equal(past, tril(past)));
  e.claim("the rows still sum to 1", distance(sum(past, -1), ones({6})) < 1e-5);
  e.picture("causal_masking",
            plot::side_by_side(
                {plot::heatmap(full, named("Attention without mask").vmin(0).vmax(1)),
                 plot::heatmap(past, named("Attention with causal mask").vmin(0).vmax(1).mask(mask[0] != 0))}));

  /// ## Cross-attention
  ///
  /// In a translation, the decoder attends to the sentence that the encoder has read. Queries come from one sequence,
  /// keys and values from another. The formula does not need equal lengths. Here five positions of a decoder attend to
  /// eight positions of an encoder, so the weights are five rows of eight numbers.
  e.cell();
  const Tensor encoder = randn({1, 8, 64}), decoder = randn({1, 5, 64});
  const auto [looked_up, cross] = attention(decoder, encoder, encoder);
  std::cout << "weights " << cross.shape() << ", output " << looked_up.shape() << '\n';
  e.claim("the weights are [1, 5, 8], the output is [1, 5, 64]",
          cross.shape() == Shape{1, 5, 8} && looked_up.shape() == Shape{1, 5, 64});
  e.claim("every row sums to 1", distance(sum(cross, -1), ones({1, 5})) < 1e-5);
  e.picture("cross_attention", plot::heatmap(cross[0], named("Cross-attention weights (decoder → encoder)",
                                                             "Encoder position", "Decoder position")));

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
  /// [all lessons](../course/course.html). `examples/run course` writes these pages.
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Positions, self-, causal and cross-attention, and PyTorch's own numbers.",
                         lesson);
}
