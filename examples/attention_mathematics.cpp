/// # The mathematics of attention
///
/// Attention is a few products of matrices and a softmax. This lesson goes through what a transformer makes of them:
///
/// - positions, which attention by itself knows nothing of;
/// - self-attention over ten tokens, and its weights as a picture;
/// - several heads, compared with PyTorch's `nn.MultiheadAttention` on its own weights;
/// - the causal mask of a decoder;
/// - cross-attention, by which a decoder looks at an encoder.
///
/// Throughout, one formula does the work:
///
/// $$\text{Attention}(Q, K, V) = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
///
/// with $Q$ the matrix of queries, $K$ that of keys, $V$ that of values, and $d_k$ the number of features of a key. Row
/// $i$ of the softmax holds the shares with which position $i$ mixes the values.
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
/// The library has it as one function, `scaled_dot_product_attention`. Written out, with `transpose` for $K^\top$, it
/// is no longer than the formula. A mask is 1 where a query may look; elsewhere the score becomes so negative that the
/// softmax makes it 0.
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
  /// Shuffle the tokens of a sentence, and attention gives the same outputs, shuffled: a sum does not know the order of
  /// its terms. So the order has to be put into the tokens. The classical way adds to the token at position $t$ a
  /// vector of waves, from fast ones in the first dimensions to very slow ones in the last:
  ///
  /// $$p_{t, 2i} = \sin\left(\frac{t}{10000^{2i / d}}\right), \qquad
  ///   p_{t, 2i + 1} = \cos\left(\frac{t}{10000^{2i / d}}\right)$$
  ///
  /// Like the digits of a number, fast waves tell neighbours apart, slow ones tell which part of the text one is in.
  /// And a step of fixed length turns each pair of sine and cosine by a fixed angle, whatever the position, so a model
  /// can learn to look "three back" with one matrix.
  e.cell();
  const Tensor p = nn::sinusoidal_positions(100, 128);
  std::cout << "100 positions of 128 dimensions: " << p.shape() << '\n';
  e.claim("position 0 is 0, 1, 0, 1, …", equal(p[0].reshape({64, 2}), broadcast_to(tensor({0., 1.}), {64, 2})));
  e.picture("positions", plot::positional(128, 100));

  /// On the left, each column is the vector of one position; on the right, some of its dimensions as curves over the
  /// positions. Dimensions 4 and 5 are sine and cosine of the same wave; dimension 32 turns much more slowly.
  ///
  /// ## Self-attention over ten tokens
  ///
  /// Ten random tokens with their positions added are query, key and value at once.
  e.cell();
  const Tensor x = randn({1, 10, 64}) + nn::sinusoidal_positions(10, 64);
  const auto [output, weights] = attention(x, x, x);
  std::cout << "input " << x.shape() << ", weights " << weights.shape() << ", output " << output.shape() << '\n';
  e.claim("every row sums to 1", distance(sum(weights, -1), ones({1, 10})) < 1e-5);
  e.claim("every token attends to itself most", equal(argmax(weights[0], -1), arange(10)));
  e.claim("the library's function gives the same output",
          distance(scaled_dot_product_attention(x, x, x), output) < 1e-5);
  e.picture("self_attention", plot::heatmap(weights[0], named("Self-attention weights")));

  /// The diagonal stands out: a vector of 64 random features times itself is about 64, times another one about 0, give
  /// or take 8. The projections of a layer, which come next, let a token look elsewhere.
  ///
  /// ## Several heads, and the comparison with PyTorch
  ///
  /// A layer of multi-head attention first projects its input by three matrices, to queries, keys and values. It splits
  /// each of them into $h$ heads of $d_k = d / h$ features, so that `(batch, positions, d)` becomes
  /// `(batch, heads, positions, d_k)`; each head attends by itself, in a subspace of its own; the outputs are put side
  /// by side again and projected once more.
  ///
  /// Is it the same as everybody else's? The files read here hold the weights of a PyTorch `nn.MultiheadAttention(64,
  /// 8)`, an input of shape `(2, 8, 64)`, and what PyTorch made of it. PyTorch keeps the three projections in one
  /// matrix; `load_torch` cuts it apart.
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

  /// What differs is rounding: the two add the same numbers in another order.
  ///
  /// ## The causal mask
  ///
  /// A decoder writes one token after the other, so while it learns, no position may see a later one. The mask is the
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

  /// With and without it, on the same six tokens:
  e.cell();
  const Tensor six = randn({1, 6, 32});
  const Tensor full = attention(six, six, six).weights[0];
  const Tensor past = attention(six, six, six, mask).weights[0];
  e.claim("with it, nothing above the diagonal has weight", equal(past, tril(past)));
  e.claim("the rows still sum to 1", distance(sum(past, -1), ones({6})) < 1e-5);
  e.picture("causal_masking", plot::side_by_side({plot::heatmap(full, named("Attention without mask")),
                                                  plot::heatmap(past, named("Attention with causal mask"))}));

  /// ## Cross-attention
  ///
  /// In a translation, the decoder that writes looks at the sentence that the encoder has read: queries come from one
  /// sequence, keys and values from another. Nothing in the formula asks for equal lengths. Here five positions of a
  /// decoder look at eight of an encoder, so the weights are five rows of eight shares.
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
  /// - Attention weighs the parts of its input anew for every input.
  /// - The division by $\sqrt{d_k}$ keeps the softmax, and with it the gradient, alive where there are many features.
  /// - Several heads look at several subspaces.
  /// - Positions are added, as attention itself knows no order.
  /// - A causal mask makes writing from left to right possible.
  /// - Cross-attention connects an encoder with a decoder.
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Positions, self-, causal and cross-attention, and PyTorch's own numbers.",
                         lesson);
}
