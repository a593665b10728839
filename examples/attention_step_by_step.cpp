/// # Understanding attention, one step at a time
///
/// A model that reads a sentence should not treat all words alike. For the meaning of one word, some of the others
/// matter much, and most of them hardly. **Attention** lets a model find out which words matter. For each position it
/// computes a weighted sum of *values*. The weights say how well the *query* of the position fits the *key* of every
/// position. Queries, keys and values are computed from the words, so a model learns what matters.
///
/// This lesson builds attention by hand, shows its weights, masks the future, and splits it into heads. It ends with an
/// exercise for pencil and paper. The program makes this page: the text and figures below a piece of code are the
/// output of that code.
#include <cmath>
#include <cstdio>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;

/// ## 1. Scaled dot-product attention
///
/// One formula is the base of everything else:
///
/// $$\text{Attention}(Q, K, V) = \operatorname{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
///
/// - $Q$ holds the **queries**, one row for each position: the information that a position searches.
/// - $K$ holds the **keys**: the description that a position offers to the search.
/// - $V$ holds the **values**: the content that a position passes on when it is found.
/// - $d_k$ is the number of features of a key.
///
/// The product $Q K^\top$ compares each query with each key. The division by $\sqrt{d_k}$ keeps the scores small: a sum
/// of $d_k$ products of random numbers has a standard deviation of $\sqrt{d_k}$. A softmax of large numbers would give
/// all weight to one key and pass hardly any gradient. The softmax turns each row of scores into weights that sum to 1.
/// The second product mixes the values with these weights.
///
/// Here is the formula as a function, one line for each step. It prints each result. A mask, if given, is 1 where a
/// query may attend and 0 where it may not. A score of $-10^9$ becomes a weight of 0.
void print_range(const char* name, const Tensor& x) {
  std::printf("%s: [%.3f, %.3f]\n", name, x.min().item(), x.max().item());
}

// q, k [B, S, d_k], v [B, S, d_v] -> output [B, S, d_v], weights [B, S, S]
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
  print_range("4. weights, sums of the rows (should be 1)", sum(weights, -1));
  return {matmul(weights, v), weights};
}
// not shown

// 1000 as "1,000".
std::string with_commas(std::int64_t n) {
  std::string s = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(s.size()) - 3; at > 0; at -= 3)
    s.insert(static_cast<std::size_t>(at), ",");
  return s;
}

void lesson(example::Example& e) {
  /// As a test, take one sequence of four positions with eight random features each. The library has the same function,
  /// fused into one kernel that never stores the scores. It must give the same output.
  e.cell();
  const Tensor q = randn({1, 4, 8}), k = randn({1, 4, 8}), v = randn({1, 4, 8});
  std::cout << "Q: " << q.shape() << ", K: " << k.shape() << ", V: " << v.shape() << '\n';
  const auto [output, weights] = attention(q, k, v);
  std::cout << "5. output: " << output.shape() << ", weights: " << weights.shape() << '\n';
  e.claim("every row of the weights sums to 1", distance(sum(weights, -1), ones({1, 4})) < 1e-5);
  e.claim("the library's function gives the same output",
          distance(scaled_dot_product_attention(q, k, v), output) < 1e-6);

  /// ## 2. Four words
  ///
  /// Random numbers have no meaning. So here are four words with features chosen by hand. Related words have some
  /// features in common. There are no parameters yet: each word is its own query, key and value.
  ///
  /// In the figure, each **row** is the query of a word. It shows how the word divides its attention among the words of
  /// the **columns**. The stronger a cell stands out, the larger its weight. Point at a cell to read the weight.
  e.cell();
  const std::vector<std::string> words{"The", "cat", "sat", "down"};
  const Tensor x = tensor({{{1.0, 0.5, 0.0, 0.5, 0.0, 0.0},     // an article
                            {0.0, 1.0, 1.0, 0.0, 0.5, 0.0},     // a noun
                            {0.0, 0.0, 0.5, 1.0, 1.0, 0.5},     // a verb
                            {0.5, 0.0, 0.0, 0.5, 1.0, 1.0}}});  // an adverb
  const Tensor shares = attention(x, x, x).weights[0];
  const auto look = plot::Options()
                        .x(words)
                        .y(words)
                        .xlabel("Key (attending to)")
                        .ylabel("Query (attending from)")
                        .bar_label("Attention weight")
                        .vmin(0)
                        .vmax(1);
  e.picture("words", plot::heatmap(shares, plot::Options(look).title("Self-attention weights")));
  e.claim("'cat' attends to itself most, by 0.388",
          argmax(shares[1]).item<int>() == 1 && std::abs(shares[{1, 1}].item() - 0.3877) < 1e-4);

  /// The diagonal stands out because each word is most similar to itself. Off the diagonal, *sat* and *down* attend to
  /// each other, because their features overlap most.
  ///
  /// ### Temperature
  ///
  /// A **temperature** divides the scores once more, before the softmax.
  e.cell();
  e.ask("What do the weights become when the temperature grows without end?",
        "Each word gets 1/4: all scores go to 0, and $e^0 = 1$ for each of them. When the temperature goes to 0, the "
        "largest score gets everything.");

  /// Move the slider: small temperatures sharpen the weights, large ones level them.
  e.cell();
  const auto weights_at = [&](double temperature) {
    return attend(x, x, x, AttentionOptions().temperature(temperature).weights()).weights[0];
  };
  e.vary("temperature", {0.1, 0.25, 0.5, 1, 2, 4, 16},
         [&](double temperature) { e.figure(plot::heatmap(weights_at(temperature), look)); });
  e.claim("a temperature of 0.1 gives more than 0.88 of each row to one word",
          min(max(weights_at(0.1), -1)).item() > 0.88);
  e.claim("at a temperature of 16, no word gets 0.27", max(weights_at(16)).item() < 0.27);

  /// ### Attention does not know the order
  ///
  /// **Shuffle** the words: their weights move with them, and no weight changes. "The cat sat down" and "down sat cat
  /// The" are the same to attention. That is why transformers add positions to the words.
  e.cell();
  const std::vector<Tensor> orders{tensor({0, 1, 2, 3}), tensor({3, 2, 1, 0}), tensor({2, 0, 3, 1})};
  const auto weights_of = [&](const Tensor& order) {
    const Tensor moved = index_select(x, 1, order);
    return attend(moved, moved, moved, AttentionOptions().weights()).weights[0];
  };
  e.vary("order", {"as written", "reversed", "shuffled"}, [&](std::size_t i) {
    std::vector<std::string> names;
    for (const auto word : orders[i].to_vector<std::int64_t>()) names.push_back(words[static_cast<std::size_t>(word)]);
    e.figure(plot::heatmap(weights_of(orders[i]), plot::Options(look).x(names).y(names)));
  });
  const auto is_moved = [&](const Tensor& order) {
    return distance(weights_of(order), index_select(index_select(shares, 0, order), 1, order)) < 1e-6;
  };
  e.claim("reversed, every weight is the one of the same two words as written", is_moved(orders[1]));
  e.claim("shuffled, it is so, too", is_moved(orders[2]));

  /// ## 3. Causal attention: no looking ahead
  ///
  /// A language model learns to predict the next word. If it could attend to that word, it would only learn to copy it,
  /// and could not write by itself. So position $i$ may attend only to positions $j \le i$: itself and earlier
  /// positions. The mask for that is a lower triangle of ones.
  e.cell();
  const Tensor mask = create_look_ahead_mask(4);
  std::cout << "1 = may attend, 0 = may not:\n" << mask[0].to(int64) << '\n';
  const Tensor past = attention(x, x, x, mask).weights[0];
  e.claim("the weights above the diagonal are 0", equal(past, tril(past)));
  e.claim("every row still sums to 1", distance(sum(past, -1), ones({4})) < 1e-5);
  e.claim("the library's causal option does the same",
          distance(attend(x, x, x, AttentionOptions().causal().weights()).weights[0], past) < 1e-6);

  /// Here are both, on one scale. The upper triangle of the causal weights is hatched: no weight can stand there. Its
  /// weight has moved to the other words. The first word can only attend to itself, so it gives itself all its weight.
  e.cell();
  e.picture("words_causal",
            plot::side_by_side({plot::heatmap(shares, plot::Options(look).title("Full")),
                                plot::heatmap(past, plot::Options(look).title("Causal").mask(mask[0] != 0))},
                               "The same words, all seen and only the past seen"));

  /// ## 4. Several heads
  ///
  /// One set of weights can express one kind of relation at a time. **Multi-head attention** computes several at once.
  /// It projects the input to queries, keys and values for each of $h$ heads. Each head attends with
  /// $d_k = d_{\text{model}} / h$ features. The results are concatenated and mixed by one more matrix:
  ///
  /// $$\text{head}_i = \text{Attention}(X W_i^Q, X W_i^K, X W_i^V), \qquad
  ///   Y = [\text{head}_1, \dots, \text{head}_h] \, W^O$$
  ///
  /// It costs no more than one large head, and each head can learn its own relation.
  e.cell();
  nn::MultiHeadAttention mha(8, 2);
  mha.eval();
  const Tensor z = randn({1, 4, 8});
  const auto [mixed, by_head] = mha(z, z, z, {}, nn::return_attention);
  std::cout << mha.num_heads() << " heads of " << mha.d_k() << " features each: " << z.shape() << " -> "
            << mixed.shape() << "\nweights " << by_head.shape() << " (batch, heads, queries, keys)\n";
  e.claim("the output has the shape of the input", mixed.shape() == z.shape());
  e.claim("each head has its own weights",
          by_head.shape() == Shape{1, 2, 4, 4} && !equal(by_head[{0, 0}], by_head[{0, 1}]));
  const auto two = plot::Options().title("Two heads, not yet trained").annotate().bar_label("Attention weight");
  e.picture("two_heads", plot::heads(by_head, two));

  /// ## 5. Why it works, and what it costs
  ///
  /// - **All positions at once.** A recurrent network (RNN) must read word after word. Attention can compute all pairs
  ///   at the same time, also in training.
  /// - **Any distance in one step.** Two words at opposite ends of a text are as near to each other as neighbours, so
  ///   distant words do not fade.
  /// - **It can be shown.** The weights show the words to which the model attends, as the figures on this page do.
  /// - **It is flexible.** A sentence can attend to itself, to its past, or to another sentence. Several heads find
  ///   several relations.
  ///
  /// The cost is $n^2$ pairs for $n$ positions, in time and, if the weights are stored, in memory:
  e.cell();
  std::cout << "Sequence length | Attention (n^2) | RNN (n)\n----------------+-----------------+--------\n";
  std::string last;
  for (const std::int64_t n : {100, 500, 1000, 2000}) {
    last = with_commas(n * n);
    std::printf("%15s | %15s | %7s\n", with_commas(n).c_str(), last.c_str(), with_commas(n).c_str());
  }
  e.claim("2,000 words have 4,000,000 pairs", last == "4,000,000");

  /// ## 6. An exercise, to do by hand
  ///
  /// Take two queries, two keys and two values, without scaling, so that the numbers stay simple:
  ///
  /// $$Q = \begin{bmatrix} 1 & 0 \\ 0 & 1 \end{bmatrix} \quad K = \begin{bmatrix} 1 & 1 \\ 1 & 0 \end{bmatrix} \quad
  ///   V = \begin{bmatrix} 2 & 0 \\ 0 & 3 \end{bmatrix}$$
  ///
  /// 1. Compute the scores $Q K^\top$.
  /// 2. Take the softmax of each row. You need $e \approx 2.718$: a row $(1, 0)$ becomes
  ///    $\left(\frac{e}{e + 1}, \frac{1}{e + 1}\right)$.
  /// 3. Multiply by $V$.
  ///
  /// `examples/run exercises by_hand` checks your numbers. Or compare here:
  e.cell();
  e.ask("What is the output?",
        "The scores, the weights and the output are $$\\begin{bmatrix} 1 & 1 \\\\ 1 & 0 \\end{bmatrix}, \\quad "
        "\\begin{bmatrix} 0.5 & 0.5 \\\\ 0.7311 & 0.2689 \\end{bmatrix}, \\quad "
        "\\begin{bmatrix} 1 & 1.5 \\\\ 1.4621 & 0.8068 \\end{bmatrix}$$");

  /// The library computes it in one call, with a scale of 1:
  e.cell();
  const Tensor Q = tensor({{1., 0.}, {0., 1.}}), K = tensor({{1., 1.}, {1., 0.}}), V = tensor({{2., 0.}, {0., 3.}});
  const auto [answer, portions] = attend(Q, K, V, AttentionOptions().scale(1).weights());
  e.claim("the scores of the answer are right", equal(matmul(Q, transpose(K)), tensor({{1., 1.}, {1., 0.}})));
  e.claim("its weights are right", distance(portions, tensor({{0.5, 0.5}, {0.7311, 0.2689}})) < 5.1e-5);
  e.claim("its output is right", distance(answer, tensor({{1.0, 1.5}, {1.4621, 0.8068}})) < 5.1e-5);

  /// ## What to take along
  ///
  /// 1. **Scaled dot-product attention** is similarity, softmax, weighted sum. A model uses it to select what matters.
  /// 2. **Its weights can be shown**: a row for each query, with weights that sum to 1.
  /// 3. **A causal mask** masks the future. A model that writes from left to right needs it.
  /// 4. **Several heads** find several relations at once.
  /// 5. **Everything is computed in parallel and reaches any distance**, at a cost of $n^2$.
  ///
  /// Next: [Coding attention on six tokens](../six_tokens/six_tokens.html). Back:
  /// [Attention at work](../demonstrate/demonstrate.html). Home: [all lessons](../course/course.html).
  /// `examples/run course` writes these pages.
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Attention step by step, with every intermediate result.", lesson);
}
