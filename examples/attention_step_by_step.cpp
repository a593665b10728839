// Scaled dot-product attention, one step after the other: scores, scale, mask, softmax, weighted sum; then causal
// attention, several heads, what it costs, and an exercise to do by hand.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

namespace {

void print_range(const char* name, const Tensor& x) {
  std::printf("%s: [%.3f, %.3f]\n", name, x.min().item(), x.max().item());
  std::fflush(stdout);
}

// Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, as one reads it. Q, K [B, S, d_k], V [B, S, d_v].
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {}) {
  const auto d_k = static_cast<double>(q.size(-1));
  Tensor scores = matmul(q, transpose(k));
  std::cout << "1. raw scores Q K^T: " << scores.shape() << '\n';
  scores = scores / std::sqrt(d_k);
  print_range("2. scaled scores, range", scores);
  if (mask.defined()) {
    scores = masked_fill(scores, mask == 0, -1e9);
    std::cout << "3. masked: " << sum(mask == 0).item<int>() << " of " << mask.numel() << " scores are hidden\n";
  }
  const Tensor weights = softmax(scores);
  print_range("4. weights, sums of the rows", sum(weights, -1));
  return {matmul(weights, v), weights};
}

void first_steps(example::Example& e) {
  e.section("1. Scaled dot-product attention");
  const Tensor q = randn({1, 4, 8}), k = randn({1, 4, 8}), v = randn({1, 4, 8});
  const auto [output, weights] = attention(q, k, v);
  std::cout << "5. output: " << output.shape() << ", weights: " << weights.shape() << '\n';
  e.claim("every row of the weights sums to 1", distance(sum(weights, -1), ones({1, 4})) < 1e-5);
  e.claim("the library's function gives the same output",
          distance(scaled_dot_product_attention(q, k, v), output) < 1e-6);
}

void four_words(example::Example& e) {
  e.section("2. Four words");
  const std::vector<std::string> words{"The", "cat", "sat", "down"};
  const Tensor x = tensor({{{1.0, 0.5, 0.0, 0.5, 0.0, 0.0},     // an article
                            {0.0, 1.0, 1.0, 0.0, 0.5, 0.0},     // a noun
                            {0.0, 0.0, 0.5, 1.0, 1.0, 0.5},     // a verb
                            {0.5, 0.0, 0.0, 0.5, 1.0, 1.0}}});  // an adverb
  const Tensor weights = attention(x, x, x).weights[0];
  plot::Options options;
  options.title = "Self-attention weights", options.x = words, options.y = words,
  options.xlabel = "Keys (attending to)", options.ylabel = "Queries (attending from)";
  options.colormap = plot::Colormap::blues;
  options.bar_label = "Attention weight";
  plot::print_heatmap(std::cout, weights, options);
  e.picture("words", plot::heatmap(weights, options));
  e.claim("'cat' attends to itself most, by 0.388",
          argmax(weights[1]).item<int>() == 1 && std::abs(weights[{1, 1}].item() - 0.3877) < 1e-4);

  e.section("3. Causal attention: a word sees itself and what is before it");
  const Tensor mask = create_look_ahead_mask(4);
  std::cout << "1 = may attend, 0 = may not:\n" << mask[0].to(int64) << '\n';
  const Tensor causal = attention(x, x, x, mask).weights[0];
  AttentionOptions causal_option;
  causal_option.causal = true;
  e.claim("the weights above the diagonal are 0", equal(causal, tril(causal)));
  e.claim("every row still sums to 1", distance(sum(causal, -1), ones({4})) < 1e-5);
  e.claim("the causal option does the same",
          distance(scaled_dot_product_attention_with_weights(x, x, x, causal_option).weights[0], causal) < 1e-6);
  options.vmin = 0, options.vmax = 1;
  plot::Options beside = options;
  options.title = "Full", beside.title = "Causal";
  e.picture("words_causal", plot::side_by_side({plot::heatmap(weights, options), plot::heatmap(causal, beside)},
                                               "The same words, all seen and only the past seen"));
}

void several_heads(example::Example& e) {
  e.section("4. Several heads");
  nn::MultiHeadAttention mha(8, 2);
  mha.eval();
  const Tensor x = randn({1, 4, 8});
  const auto [output, weights] = mha(x, x, x, {}, nn::return_attention);
  std::cout << mha.num_heads() << " heads of " << mha.d_k() << " features each: " << x.shape() << " -> "
            << output.shape() << ", weights " << weights.shape() << " (batch, heads, queries, keys)\n";
  e.claim("the output has the shape of the input", output.shape() == x.shape());
  e.claim("each head has its own weights",
          weights.shape() == Shape{1, 2, 4, 4} && !equal(weights[{0, 0}], weights[{0, 1}]));
  plot::Options options;
  options.title = "Two heads", options.xlabel = "Keys", options.ylabel = "Queries";
  options.colormap = plot::Colormap::blues;
  options.annotate = true;
  options.bar_label = "Attention weight";
  e.picture("two_heads", plot::heads(weights, options));
}

std::string with_commas(std::int64_t n) {
  std::string s = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(s.size()) - 3; at > 0; at -= 3)
    s.insert(static_cast<std::size_t>(at), ",");
  return s;
}

void cost(example::Example& e) {
  e.section("5. What it costs");
  std::cout << "Sequence length | Attention (n^2) | RNN (n)\n----------------+-----------------+--------\n";
  std::string last;
  for (const std::int64_t n : {100, 500, 1000, 2000}) {
    last = with_commas(n * n);
    std::printf("%15s | %15s | %7s\n", with_commas(n).c_str(), last.c_str(), with_commas(n).c_str());
  }
  std::fflush(stdout);
  std::cout << "All pairs of attention can be computed at once; an RNN's steps wait for each other.\n";
  e.claim("2,000 words have 4,000,000 pairs", last == "4,000,000");
}

void exercise(example::Example& e) {
  e.section("6. An exercise to do by hand (the scores are not scaled)");
  const Tensor q = tensor({{1., 0.}, {0., 1.}}), k = tensor({{1., 1.}, {1., 0.}}), v = tensor({{2., 0.}, {0., 3.}});
  AttentionOptions unscaled;
  unscaled.scale = 1;
  const auto [output, weights] = scaled_dot_product_attention_with_weights(q, k, v, unscaled);
  std::cout << "Q =\n"
            << q << "\nK =\n"
            << k << "\nV =\n"
            << v << "\nQ K^T =\n"
            << matmul(q, transpose(k)) << "\nweights =\n"
            << weights << "\noutput =\n"
            << output << '\n';
  e.claim("the weights are .5 .5 / .7311 .2689", distance(weights, tensor({{0.5, 0.5}, {0.7311, 0.2689}})) < 5.1e-5);
  e.claim("the output is 1, 1.5 / 1.4621, .8068", distance(output, tensor({{1.0, 1.5}, {1.4621, 0.8068}})) < 5.1e-5);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Attention step by step, with every intermediate result.", [](example::Example& e) {
    first_steps(e);
    four_words(e);
    several_heads(e);
    cost(e);
    exercise(e);
  });
}
