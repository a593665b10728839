// Attention at work: what it attends to, what it never sees, what it learns. Every statement is checked, and the
// program fails if one is not true.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
using nn::return_attention;

namespace {

constexpr std::int64_t features = 32, head_count = 4;

const std::vector<std::string> sentence = example::words("the tired cat sat on the mat and slept well");
const auto length = static_cast<std::int64_t>(sentence.size());

// Each word as a vector, its position added: [1, S, features].
Tensor embedded(const std::vector<std::string>& words) {
  const auto S = static_cast<std::int64_t>(words.size());
  return randn({1, S, features}) + nn::sinusoidal_positions(S, features);
}

Tensor mean_over_heads(const Tensor& weights) { return attention_visualization_helper(weights).attention_matrix; }

bool rows_sum_to_one(const Tensor& weights) {
  const Tensor sums = sum(weights, -1);
  return distance(sums, ones_like(sums)) < 1e-5;
}

void self_attention(example::Example& e, const Tensor& x) {
  e.section("Self-attention: every word looks at every word");
  nn::SelfAttention attention(features, head_count);
  attention.eval();
  const auto [y, weights] = attention(x, return_attention);
  std::cout << attention << "\ninput " << x.shape() << " -> output " << y.shape() << ", weights " << weights.shape()
            << " (batch, heads, queries, keys)\n";
  plot::print_heatmap(std::cout, mean_over_heads(weights), {"Mean of the heads", sentence, sentence});
  e.claim("the output has the shape of the input", y.shape() == x.shape());
  e.claim("every head has its own weights",
          weights.shape() == Shape{1, head_count, length, length} && !equal(weights[{0, 0}], weights[{0, 1}]));
  e.claim("what a word gives to all words adds up to 1", rows_sum_to_one(weights));
  e.claim("asking for the weights does not change a bit of the output", equal(attention(x), y));
  e.picture("self_attention", plot::heads(weights, sentence, "Self-attention: four heads, not yet trained"));
}

void causal_attention(example::Example& e, const Tensor& x) {
  e.section("Causal attention: nobody sees the future");
  nn::CausalSelfAttention attention(features, head_count);
  attention.eval();
  const auto [y, weights] = attention(x, return_attention);
  constexpr std::int64_t changed = 6;
  Tensor other = x.clone();
  other[{0, changed}] = randn({features});
  const Tensor z = attention(other);
  const Range before = range(0, changed), after = range(changed);
  std::cout << "'" << sentence[changed] << "' is replaced by another word\n";
  e.claim("weights on words that come later are exactly 0", equal(weights, tril(weights)));
  e.claim("the others still add up to 1", rows_sum_to_one(weights));
  e.claim("before the replaced word, not a bit of the output changes",
          equal(z[{range(), before}], y[{range(), before}]));
  e.claim("from there on, everything changes", min(max(abs(z[{0, after}] - y[{0, after}]), -1)).item() > 1e-4);
  e.picture("causal_attention", plot::heads(weights, sentence, "Causal self-attention"));
}

void cross_attention(example::Example& e, const Tensor& x) {
  e.section("Cross-attention: one sentence looks at another, of another length");
  const std::vector<std::string> translation = example::words("die müde Katze schlief gut");
  nn::CrossAttention attention(features, head_count);
  attention.eval();
  const Tensor query = embedded(translation);
  const auto [y, weights] = attention(query, x, return_attention);
  std::cout << "queries " << query.shape() << ", keys and values " << x.shape() << " -> output " << y.shape() << '\n';
  e.claim("there is an output for each of the five queries", y.shape() == Shape{1, 5, features});
  e.claim("each has a weight for each of the ten keys", weights.shape() == Shape{1, head_count, 5, length});
  e.claim("they add up to 1", rows_sum_to_one(weights));
  plot::Options options;
  options.title = "Cross-attention", options.x = sentence, options.y = translation, options.xlabel = "Key",
  options.ylabel = "Query";
  options.bar_label = "Attention weight";
  e.picture("cross_attention", plot::heads(weights, options));
}

void padding_and_causal(example::Example& e) {
  e.section("Padding and causal together: two sentences of different length in one batch");
  const Tensor ids = tensor({{5, 3, 8, 2, 9, 4}, {7, 1, 6, 0, 0, 0}});  // 0 is padding
  const Tensor mask = create_padding_mask(ids);
  nn::CausalSelfAttention attention(features, head_count);
  attention.eval();
  Tensor x = randn({2, 6, features});
  const auto [y, weights] = attention(x, mask, return_attention);
  const auto unchanged_words = [&y = y](const Tensor& z, double tolerance) {
    return distance(z[0], y[0]) <= tolerance && distance(z[{1, range(0, 3)}], y[{1, range(0, 3)}]) <= tolerance;
  };
  x[{1, range(3)}] = randn({3, features});  // something else in the padding
  const Tensor other_padding = attention(x, mask);
  x[{1, range(3)}] = std::numeric_limits<double>::quiet_NaN();
  const Tensor nan_padding = attention(x, mask);
  std::cout << "ids:\n" << ids << '\n';
  plot::print_heatmap(std::cout, mean_over_heads(weights[{range(1, 2)}]), {"Weights of the second sentence"});
  e.claim("padding gets no weight", max(weights[{1, ellipsis, range(3)}]).item() == 0);
  e.claim("neither does the future", equal(weights, tril(weights)));
  e.claim("not a bit of a word's output depends on what lies in the padding", unchanged_words(other_padding, 0));
  e.claim("even a NaN stays hidden there", unchanged_words(nan_padding, 1e-6));

  const Tensor padded_first = create_padding_mask(tensor({{0, 0, 5, 7}}));
  const auto blind = attention(randn({1, 4, features}), padded_first, return_attention);
  e.claim("a word that may see nothing has zero weights, and nothing becomes NaN",
          max(abs(blind.weights[{0, ellipsis, range(0, 2), range()}])).item() == 0 &&
              all(isfinite(blind.output)).item<bool>());
}

void gradients(example::Example& e) {
  e.section("Gradients reach every parameter, and the input");
  nn::SelfAttention attention(features, head_count);
  attention.eval();
  const Tensor x = embedded(sentence).requires_grad_();
  const Tensor y = attention(x);
  sum(y * randn(y.shape())).backward();
  const auto largest = [](const Tensor& p) { return p.has_grad() ? max(abs(p.grad())).item() : 0.0; };
  std::printf("  %-28s largest gradient %.2e\n", "input", largest(x));
  bool all_reached = largest(x) > 1e-4;
  double key_bias = 1;
  for (const auto& [name, parameter] : attention.named_parameters()) {
    std::printf("  %-28s largest gradient %.2e\n", name.c_str(), largest(parameter));
    if (name == "multihead_attn.w_k.bias")
      key_bias = largest(parameter);
    else
      all_reached = all_reached && largest(parameter) > 1e-4;
  }
  std::fflush(stdout);
  e.claim("the input and every parameter but w_k.bias get a gradient", all_reached);
  e.claim("that of w_k.bias is 0 up to rounding", key_bias < 1e-5);
  std::cout << "  (It must be: it adds the same number, q b, to all scores of a query, and softmax ignores a shift.)\n";
}

constexpr std::int64_t vocabulary = 10;

// Says which token came one position before: only attention can know.
struct Previous : nn::Layer {
  AttentionResult operator()(const Tensor& ids) const {
    const auto [y, weights] =
        attention(embedding(ids) + nn::sinusoidal_positions(ids.size(1), features), return_attention);
    return {out(y), weights};
  }
  FIT_FIELDS(embedding, attention, out)
  nn::Embedding embedding{vocabulary, features};
  nn::CausalSelfAttention attention{features, head_count, 0.0};
  nn::Linear out{features, vocabulary};
};

void training(example::Example& e) {
  e.section("Fifty steps of training: which token came before this one?");
  Previous model;
  optim::AdamW optimizer(model.named_parameters(), 0.01);
  plot::Curve curve{"loss"};
  const Tensor test = randperm(vocabulary).reshape({1, vocabulary});
  const Tensor untrained = model(test).weights;
  AttentionRecording recording;
  recording.title = "Learning to look at the token before";
  AttentionRecordOptions record;
  record.causal = true;
  for (const std::int64_t id : test.data<std::int64_t>())
    record.queries.push_back(std::string(1, static_cast<char>('a' + id)));
  recording.add("attention", untrained, record);
  for (int step = 0; step < 50; ++step) {
    const Tensor ids = randint(0, vocabulary, {64, length});
    const Tensor logits = model(ids).output;
    const Tensor loss = nn::cross_entropy(logits[{range(), range(1)}], ids[{range(), range(0, -1)}]);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    curve.y.push_back(loss.item());
    record.step = step + 1;
    if (record.step % 2 == 0) recording.add("attention", model(test).weights, record);
    if (step % 10 == 0 || step == 49) std::printf("  step %2d  loss %.3f\n", step + 1, loss.item());
  }
  std::fflush(stdout);
  const Tensor trained = model(test).weights;
  e.claim("the loss falls to less than a third", curve.y.back() < curve.y.front() / 3);
  double most = 0;
  for (const HeadMeasures& head : head_measures(recording.records().back())) most = std::max(most, head.previous);
  e.claim("one head gives most of its weight to the token before", most > 0.5);
  e.picture("training_loss", plot::lines({curve}, {"Fifty steps", "Step", "Cross-entropy (nats)"}));
  e.picture("training_heads", plot::side_by_side({plot::heads(untrained, record.queries, "Before"),
                                                  plot::heads(trained, record.queries, "After")},
                                                 "Learning to look at the token before"));
  e.page("training_heads", recording);
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, "Shows attention at work, and proves what it says.", [](example::Example& e) {
    const Tensor x = embedded(sentence);
    self_attention(e, x);
    causal_attention(e, x);
    cross_attention(e, x);
    padding_and_causal(e);
    gradients(e);
    training(e);
  });
}
