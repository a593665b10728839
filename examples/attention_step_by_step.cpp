/// # Understanding attention, one step at a time
///
/// For the meaning of a word, some of the other words matter much, and most of them hardly. **Attention** lets a model
/// find out which. Point at a word:
#include <cmath>
#include <cstdio>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
using example::step_by_step;
// not shown

const std::vector<std::string> words{"The", "cat", "sat", "down"};

Tensor four_words() {
  return tensor({{{1.0, 0.5, 0.0, 0.5, 0.0, 0.0},     // an article
                  {0.0, 1.0, 1.0, 0.0, 0.5, 0.0},     // a noun
                  {0.0, 0.0, 0.5, 1.0, 1.0, 0.5},     // a verb
                  {0.5, 0.0, 0.0, 0.5, 1.0, 1.0}}});  // an adverb
}

void opening(example::Example& e) {
  e.cell();
  // not shown
  const Tensor x = four_words();
  const Tensor weights = attend(x, x, x, AttentionOptions().weights()).weights[0];
  e.text(words, {TextHead().name("Attention").weights(weights)});
  e.ask(
      Question("Point at *sat*. Which word does it attend to most, beside itself?")
          .wrong("cat", "19 %. A cat can sit, but these features do not say so.")
          .right("down", "29 %. The features of *sat* and *down* have most in common. This is all that attention sees.")
          .wrong("The", "16 %: an article has little in common with a verb."));
}

/// For each position, attention computes a weighted sum of *values*. The weights say how well the *query* of the
/// position fits the *key* of every position. Queries, keys and values are computed from the words, so a model learns
/// what matters. This lesson builds attention by hand, masks the future, and splits it into heads. It ends with an
/// exercise for pencil and paper.
///
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
  Tensor scores = matmul(q, Transpose::no, k, Transpose::yes);
  std::cout << "1. raw scores Q K^T: " << scores.shape() << '\n' << scores[0] << '\n';
  scores = scores * (1 / std::sqrt(q.size(-1)));
  print_range("2. scaled scores, range", scores);
  if (mask.defined()) scores = masked_fill(scores, mask == 0, -1e9);
  const int hidden = mask.defined() ? sum(mask == 0).item<int>() : 0;
  std::cout << "3. masked: " << hidden << " of " << scores.numel() << " scores are hidden\n";
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

// The library's function as a layer, so that a lens reads it.
struct Library final : nn::UnaryLayer {
  Tensor forward(const Tensor& qkv) const override { return scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]); }
  FIT_FIELDS_ONLY()
};

plot::Options look_of(const std::string& title) {
  return plot::Options()
      .title(title)
      .x(words)
      .y(words)
      .xlabel("Key (attending to)")
      .ylabel("Query (attending from)")
      .bar_label("Weight")
      .vmin(0)
      .vmax(1);
}

void lesson(example::Example& e) {
  /// As a test, take one sequence of four positions with eight random features each. The library has the same function,
  /// fused into one kernel that never stores the scores. It must give the same output. Operation by operation, as it
  /// computes under a lens that edits, it must even give the same bits.
  e.cell();
  const Tensor q = randn({1, 4, 8}), k = randn({1, 4, 8}), v = randn({1, 4, 8});
  std::cout << "Q: " << q.shape() << ", K: " << k.shape() << ", V: " << v.shape() << '\n';
  const auto [output, weights] = attention(q, k, v);
  std::cout << "5. output: " << output.shape() << ", weights: " << weights.shape() << '\n';
  e.claim("every row of the weights sums to 1", distance(sum(weights, -1), ones({1, 4})) < 1e-5);
  e.claim("the library's function gives the same output",
          distance(scaled_dot_product_attention(q, k, v), output) < 1e-6);
  e.claim("operation by operation, it gives the same bits",
          equal(step_by_step(Library(), "weights", stack({q, k, v})), output));

  /// ## 2. Four words
  ///
  /// Random numbers have no meaning. So here are four words with features chosen by hand. Related words have some
  /// features in common. There are no parameters yet: each word is its own query, key and value.
  ///
  /// In the figure, each **row** is the query of a word. It shows how the word divides its attention among the words of
  /// the **columns**. The stronger a cell stands out, the larger its weight. Point at a cell to read the weight.
  e.cell();
  const Tensor x = four_words();
  std::cout << "embeddings: " << x.shape() << '\n' << x[0] << '\n';
  const Tensor shares = attention(x, x, x).weights[0];
  e.picture("words", plot::heatmap(shares, look_of("Self-attention weights")));
  e.claim("'cat' attends to itself most, by 0.388",
          argmax(shares[1]).item<int>() == 1 && std::abs(shares[{1, 1}].item() - 0.3877) < 1e-4);

  e.ask(Question("Which cell says how much *down* attends to *cat*? Choose it.")
            .cell(plot::heatmap(shares, look_of("").colorbar(false).annotate(false)))
            .right("down → cat", "The row is the query, the column the key.")
            .wrong("cat → down", "That is how much *cat* attends to *down*: the row is the query.")
            .otherwise("Rows ask, columns are asked. Find the row of *down* and the column of *cat*."));

  /// The diagonal stands out because each word is most similar to itself. Off the diagonal, *sat* and *down* attend to
  /// each other, because their features overlap most.
  ///
  /// ### Temperature
  ///
  /// A **temperature** divides the scores once more, before the softmax.
  e.cell();
  e.ask(Question("What does each weight become when the temperature grows without end?")
            .numbers(tensor(0.25), 0.001,
                     "All scores go to 0, and $e^0 = 1$ for each of the four words. When the "
                     "temperature goes to 0, the largest score gets everything.")
            .wrong("0", "The row must still sum to 1.")
            .wrong("1", "One word alone gets 1 when the temperature goes to 0, not when it grows.")
            .otherwise("Then all scores are 0. What does the softmax of four zeros give?"));

  /// Move the slider: small temperatures sharpen the weights, large ones level them.
  e.cell();
  const auto weights_at = [&](double temperature) {
    return attend(x, x, x, AttentionOptions().temperature(temperature).weights()).weights[0];
  };
  e.vary("temperature", {0.1, 0.25, 0.5, 1, 2, 4, 16},
         [&](double temperature) { e.figure(plot::heatmap(weights_at(temperature), look_of(""))); });
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
    e.figure(plot::heatmap(weights_of(orders[i]), look_of("").x(names).y(names)));
  });
  // not shown
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
  const Tensor mask = tril(ones({1, 4, 4}));
  std::cout << "1 = may attend, 0 = may not:\n" << mask[0].to(int64) << '\n';
  const Tensor past = attention(x, x, x, mask).weights[0];
  e.claim("the weights above the diagonal are 0", equal(past, tril(past)));
  e.claim("create_look_ahead_mask gives the same mask", equal(mask, create_look_ahead_mask(4).to(float32)));
  e.claim("every row still sums to 1", distance(sum(past, -1), ones({4})) < 1e-5);
  e.claim("the library's causal option does the same",
          distance(attend(x, x, x, AttentionOptions().causal().weights()).weights[0], past) < 1e-6);

  /// Here are both, on one scale. The upper triangle of the causal weights is hatched: no weight can stand there. Its
  /// weight has moved to the other words. The first word can only attend to itself, so it gives itself all its weight.
  e.cell();
  e.picture("words_causal", plot::side_by_side({plot::heatmap(shares, look_of("Full")),
                                                plot::heatmap(past, look_of("Causal").mask(mask[0] != 0))},
                                               "All seen, and only the past seen"));

  /// ## 4. Several heads
  ///
  /// One set of weights can express one kind of relation at a time. **Multi-head attention** computes several at once.
  /// It projects the input to queries, keys and values for each of $h$ heads. Each head attends with
  /// $d_k = d_{\text{model}} / h$ features. The results are concatenated and mixed by one more matrix:
  ///
  /// $$\text{head}_i = \text{Attention}(X W_i^Q, X W_i^K, X W_i^V), \qquad
  ///   Y = [\text{head}_1, \dots, \text{head}_h] \, W^O$$
  ///
  /// It costs no more than one large head, and each head can learn its own relation. Here the matrices are set by hand.
  /// Each word has four features of its own, and four that number its place. Head 1 compares the words. The keys of
  /// head 2 move each place by one, so its queries find the word before. Point at a word:
  e.cell();
  const Tensor own = tensor({{2.0, 0.0, 0.0, 0.4}, {1.2, 1.8, 0.4, 0.0}, {0.0, 0.8, 2.0, 1.2}, {0.0, 0.0, 1.2, 2.0}});
  const Tensor z = cat({own, 3 * eye(4)}, 1).unsqueeze(0);  // [1, 4, 8]
  Tensor W_k = eye(8);
  W_k[{range(4), range(4)}] = triu(ones({4, 4}), 1) - triu(ones({4, 4}), 2);
  const auto linear = [](const Tensor& W) { return nn::Linear(nn::Parameter(transpose(W))); };
  nn::MultiHeadAttention mha(8, 2);
  mha.eval();
  mha.w_q = linear(eye(8)), mha.w_k = linear(W_k), mha.w_v = linear(eye(8)), mha.w_o = linear(eye(8));
  const auto [mixed, by_head] = mha(z, z, z, {}, nn::return_attention);
  std::cout << mha.num_heads() << " heads of " << mha.d_k() << " features each: " << z.shape() << " -> "
            << mixed.shape() << "\nweights " << by_head.shape() << " (batch, heads, queries, keys)\n";
  e.text(words,
         {TextHead().name("Head 1").weights(by_head[{0, 0}]), TextHead().name("Head 2").weights(by_head[{0, 1}])});
  e.claim("the output has the shape of the input", mixed.shape() == z.shape());
  e.claim("head 2 gives most of its weight to the word before", min(diagonal(by_head[{0, 1}], -1)).item() > 0.9);
  e.claim("head 1 gives no word before so much", max(diagonal(by_head[{0, 0}], -1)).item() < 0.5);
  e.picture("two_heads", plot::heads(by_head, look_of("Two heads").cell_size(32)));
  e.ask(Question("Head 2 of *The* attends to all four words alike. Why?")
            .right("There is no word before it",
                   "No key fits its query, so all scores are 0, and the softmax of zeros is "
                   "even: it can't attend to nothing.")
            .wrong("Its features are 0", "Its place is numbered as the others are.")
            .wrong("The softmax failed", "The row sums to 1, as every row."));

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
  for (const std::int64_t n : {100, 500, 1000, 2000})
    std::printf("%15s | %15s | %7s\n", with_commas(n).c_str(), with_commas(n * n).c_str(), with_commas(n).c_str());
  e.claim("2,000 words have 4,000,000 pairs", with_commas(2000 * 2000) == "4,000,000");

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
  /// `examples/run exercises by_hand` asks you for the program.
  e.cell();
  e.ask(Question("The scores $Q K^\\top$:")
            .numbers(tensor({{1., 1.}, {1., 0.}}), 0.001, "Row 1 is the first query with each key.")
            .otherwise("Row $i$ and column $j$: query $i$ times key $j$."));
  e.ask(Question("The weights:")
            .numbers(tensor({{0.5, 0.5}, {0.7311, 0.2689}}), 0.0051, "$e / (e + 1) = 0.7311$.")
            .otherwise("Divide $e$ to the score by the sum over the row."));
  e.ask(Question("The output:")
            .numbers(tensor({{1.0, 1.5}, {1.4621, 0.8068}}), 0.0051,
                     "Half of each value, and then 0.7311 of the first "
                     "and 0.2689 of the second.")
            .otherwise("Multiply the weights by $V$: each row mixes the two values."));
  // not shown
  const Tensor Q = tensor({{1., 0.}, {0., 1.}}), K = tensor({{1., 1.}, {1., 0.}}), V = tensor({{2., 0.}, {0., 3.}});
  const auto [answer, portions] = attend(Q, K, V, AttentionOptions().scale(1).weights());
  e.claim("the scores that the page accepts are right", equal(matmul(Q, transpose(K)), tensor({{1., 1.}, {1., 0.}})));
  e.claim("so are the weights", distance(portions, tensor({{0.5, 0.5}, {0.7311, 0.2689}})) < 5.1e-5);
  e.claim("so is the output", distance(answer, tensor({{1.0, 1.5}, {1.4621, 0.8068}})) < 5.1e-5);

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
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  const auto all = [](example::Example& e) { opening(e), lesson(e); };
  return example::lesson(argc, argv, "Attention step by step, with every intermediate result.", all);
}
