// The mathematics of attention: positions, self-attention, the comparison with PyTorch's nn.MultiheadAttention on its
// own weights, the causal mask, and cross-attention.
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

namespace {

plot::Options named(const std::string& title, const std::string& x = "Key position",
                    const std::string& y = "Query position") {
  plot::Options options;
  options.title = title, options.xlabel = x, options.ylabel = y;
  options.bar_label = "Attention weight";
  return options;
}

void positions(example::Example& e) {
  e.section("Sinusoidal positions");
  const Tensor p = nn::sinusoidal_positions(100, 128);
  std::cout << "p[t][2i] = sin(t / 10000^(2i/C)), p[t][2i+1] = cos(t / 10000^(2i/C)): " << p.shape() << '\n';
  e.claim("position 0 is 0, 1, 0, 1, …", equal(p[0].reshape({64, 2}), broadcast_to(tensor({0., 1.}), {64, 2})));
  e.picture("positions", plot::positional(128, 100));
}

void self_attention(example::Example& e) {
  e.section("Self-attention over ten tokens with positions");
  const Tensor x = randn({1, 10, 64}) + nn::sinusoidal_positions(10, 64);
  const auto [output, weights] = scaled_dot_product_attention_with_weights(x, x, x);
  std::cout << "input " << x.shape() << ", weights " << weights.shape() << ", output " << output.shape() << '\n';
  e.claim("every row sums to 1", distance(sum(weights, -1), ones({1, 10})) < 1e-5);
  e.claim("every token attends to itself most", equal(argmax(weights[0], -1), arange(10)));
  plot::print_heatmap(std::cout, weights[0], named("Self-attention weights"));
  e.picture("self_attention", plot::heatmap(weights[0], named("Self-attention weights")));
}

// The files hold an nn.MultiheadAttention(64, 8), an input [2, 8, 64], and what PyTorch made of it (generate.py).
void compare_with_pytorch(example::Example& e) {
  e.section("The same as PyTorch's nn.MultiheadAttention");
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
  const Tensor x = stored("input");
  const auto [output, weights] = mha(x, x, x, {}, nn::return_attention);
  const double output_distance = distance(output, stored("output"));
  const double weights_distance = distance(weights, stored("weights"));
  std::cout << "output " << output.shape() << ", largest difference " << output_distance << "\nweights "
            << weights.shape() << ", largest difference " << weights_distance << '\n';
  e.claim("the outputs agree to 1e-5", output_distance < 1e-5);
  e.claim("the weights of every head agree to 1e-5", weights_distance < 1e-5);
  e.picture("pytorch_heads", plot::heads(weights, named("The eight heads of the stored layer", "Key", "Query")));
}

void causal(example::Example& e) {
  e.section("The causal mask");
  const Tensor mask = create_look_ahead_mask(6);
  std::cout << mask[0].to(int64) << '\n';
  e.claim("it is the lower triangle of ones", equal(mask[0].to(int64), tensor({{1, 0, 0, 0, 0, 0},
                                                                               {1, 1, 0, 0, 0, 0},
                                                                               {1, 1, 1, 0, 0, 0},
                                                                               {1, 1, 1, 1, 0, 0},
                                                                               {1, 1, 1, 1, 1, 0},
                                                                               {1, 1, 1, 1, 1, 1}})));
  const Tensor x = randn({1, 6, 32});
  AttentionOptions masked;
  masked.mask = mask;
  const Tensor full = scaled_dot_product_attention_with_weights(x, x, x).weights[0];
  const Tensor past = scaled_dot_product_attention_with_weights(x, x, x, masked).weights[0];
  e.claim("with it, nothing above the diagonal has weight", equal(past, tril(past)));
  e.claim("the rows still sum to 1", distance(sum(past, -1), ones({6})) < 1e-5);
  e.picture("causal_masking", plot::side_by_side({plot::heatmap(full, named("Attention without mask")),
                                                  plot::heatmap(past, named("Attention with causal mask"))}));
}

void cross(example::Example& e) {
  e.section("Cross-attention: five positions of a decoder on eight of an encoder");
  const Tensor encoder = randn({1, 8, 64}), decoder = randn({1, 5, 64});
  const auto [output, weights] = scaled_dot_product_attention_with_weights(decoder, encoder, encoder);
  std::cout << "weights " << weights.shape() << ", output " << output.shape() << '\n';
  e.claim("the weights are [1, 5, 8], the output is [1, 5, 64]",
          weights.shape() == Shape{1, 5, 8} && output.shape() == Shape{1, 5, 64});
  e.claim("every row sums to 1", distance(sum(weights, -1), ones({1, 5})) < 1e-5);
  e.picture("cross_attention", plot::heatmap(weights[0], named("Cross-attention weights (decoder → encoder)",
                                                               "Encoder position", "Decoder position")));
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Positions, self-, causal and cross-attention, and PyTorch's own numbers.",
                      [](example::Example& e) {
                        positions(e);
                        self_attention(e);
                        compare_with_pytorch(e);
                        causal(e);
                        cross(e);
                      });
}
