/// # Attention at work
///
/// A small model has learned sentences such as this one. Point at a word: two of its heads show where they look.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <limits>

#include "demonstrate/five_minutes.hpp"
#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
using nn::return_attention;

// not shown

const std::vector<std::string> sentence = example::words("the tired cat sat on the mat and slept well");
const auto length = static_cast<std::int64_t>(sentence.size());

plot::Options look_of(const std::string& title, const std::vector<std::string>& keys,
                      const std::vector<std::string>& queries) {
  return plot::Options().title(title).x(keys).y(queries).xlabel("Key").ylabel("Query").bar_label("Weight").vmin(0);
}

plot::Options without_future(plot::Options look) {
  const auto T = static_cast<std::int64_t>(look.x().size());
  return look.mask(tril(ones({T, T})) != 0);
}

bool rows_sum_to_one(const Tensor& weights) {
  const Tensor sums = sum(weights, -1);
  return distance(sums, ones_like(sums)) < 1e-5;
}

double largest_gradient(const Tensor& p) { return p.has_grad() ? max(abs(p.grad())).item() : 0.0; }

// Of the model of words, which the program trains at its end.
void opening(example::Example& e, const example::Reading& reading) {
  e.cell();
  // not shown
  e.text(reading.words, reading.heads);
  e.ask(Question("Point at the last word. The head that finds whom gives nearly all its weight to one word. To which?")
            .wrong("girl", "That is who likes. Point at *because*: there the other head looks for her.")
            .right("dogs", "So the model will say *them*. Nobody told it which noun counts: it learned that.")
            .wrong("is", "That is the other head: here it has nothing to find."));
}

/// This page shows on small sentences what training changes, what a mask excludes, and where gradients flow. The
/// program checks each statement with a mark, and fails if one is not true.
///
/// ## Fifty steps of training
///
/// The task is to predict the previous token. Only attention can carry it from one position to the next. The model is
/// an embedding, a causal layer with four heads, and a linear layer.
constexpr std::int64_t vocabulary = 10, features = 32, head_count = 4;

struct Previous : nn::Layer {
  AttentionResult forward(const Tensor& ids) const {
    const auto [y, weights] =
        attention(embedding(ids) + nn::sinusoidal_positions(ids.size(1), features), return_attention);
    return {out(y), weights};
  }
  FIT_FIELDS(embedding, attention, out)
  nn::Embedding embedding{vocabulary, features};
  nn::CausalSelfAttention attention{features, head_count, 0.0};
  nn::Linear out{features, vocabulary};
};
// not shown

void lesson(example::Example& e) {
  /// Every second step, the program adds the weights on one test sequence to a recording.
  e.cell();
  Previous model;
  optim::AdamW optimizer(model.named_parameters(), 0.01);
  const Tensor test = randperm(vocabulary).reshape({1, vocabulary});
  const Tensor untrained = model(test).weights;
  // not shown
  plot::Curve curve{"loss"};
  AttentionRecording recording;
  recording.title = "Learning to look at the token before";
  std::vector<std::string> names;
  for (const std::int64_t id : test.data<std::int64_t>()) names.emplace_back(1, static_cast<char>('a' + id));
  auto record = AttentionRecordOptions().causal().queries(names);
  recording.add("attention", untrained, record);
  // shown
  for (int step = 0; step < 50; ++step) {
    const Tensor letters = randint(0, vocabulary, {64, length});
    const Tensor logits = model(letters).output;
    const Tensor loss = nn::cross_entropy(logits[{range(), range(1)}], letters[{range(), range(0, -1)}]);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 10 == 0 || step == 49) std::printf("step %2d  loss %.3f\n", step + 1, loss.item());
    // not shown
    curve.y.push_back(loss.item());
    record.step(step + 1);
    if (record.step() % 2 == 0) recording.add("attention", model(test).weights, record);
    // shown
  }
  e.claim("the loss falls to less than a third", curve.y.back() < curve.y.front() / 3);
  /// After fifty steps, some heads attend to the previous token: the line just below the diagonal.
  e.cell();
  const Tensor trained = model(test).weights;
  // not shown
  double most = 0;
  for (const HeadMeasures& head : head_measures(recording.records().back())) most = std::max(most, head.previous);
  e.claim("one head gives most of its weight to the token before", most > 0.5);
  // shown
  const auto in_a_row = [&](const Tensor& weights, const std::string& title) {
    return plot::heads(
        weights, without_future(look_of(title, record.queries(), record.queries())).columns(2).cell_size(14).vmax(1));
  };
  e.picture("training_heads", plot::side_by_side({in_a_row(untrained, "Before"), in_a_row(trained, "After")},
                                                 "Learning to look at the token before"));

  /// This is the full recording. Move the slider, or press ▶, to see the heads form. Point at a weight to read it. You
  /// can sort the heads by measures, and switch from the matrix to lines between the tokens.
  e.cell();
  e.page("training_heads", recording);
  e.ask(Question("What does the query of the first letter attend to, in every head and at every step?")
            .right("To itself", "It may not look ahead, and nothing stands before it: one key is left, and gets all.")
            .wrong("To nothing", "The weights of a row sum to 1: somebody gets them.")
            .wrong("To all letters alike", "The mask leaves it one letter."));

  /// ## Self-attention: every word looks at every word
  ///
  /// A self-attention layer makes queries, keys and values from one sequence, here ten words as random vectors. It has
  /// four heads, each with eight of the 32 features. It is new, so its weights have no meaning: only the shapes and
  /// sums count. A helper collects what a picture needs: the mean of the heads, its largest weight, and the entropy of
  /// each row. An entropy of $\ln 10 \approx 2.3$ would be perfectly even.
  e.cell();
  const auto embedded = [](std::int64_t S) { return randn({1, S, features}) + nn::sinusoidal_positions(S, features); };
  const Tensor x = embedded(length);
  nn::SelfAttention self(features, head_count);
  self.eval();
  const auto [y, weights] = self(x, return_attention);
  const AttentionView view = attention_visualization_helper(weights, sentence);
  std::cout << "input " << x.shape() << " -> output " << y.shape() << ", weights " << weights.shape()
            << " (batch, heads, queries, keys)\nfirst row of head 1: " << weights[{0, 0, 0}] << "\nlargest mean weight "
            << view.max_attention << ", entropy of the rows " << view.attention_entropy << '\n';
  e.claim("the output has the shape of the input", y.shape() == x.shape());
  e.claim("every head has its own weights",
          weights.shape() == Shape{1, head_count, length, length} && !equal(weights[{0, 0}], weights[{0, 1}]));
  e.claim("what a word gives to all words adds up to 1", rows_sum_to_one(weights));
  e.claim("asking for the weights does not change a bit of the output", equal(self(x), y));

  /// ## Causal attention: nobody sees the future
  ///
  /// A model that writes must not attend to words after the present one. As a test, the program replaces one word and
  /// compares all outputs: before that word, not a bit may change.
  e.cell();
  nn::CausalSelfAttention causal(features, head_count);
  causal.eval();
  const auto [causal_y, causal_weights] = causal(x, return_attention);
  Tensor other = x.clone();
  other[{0, 6}] = randn({features});  // the word "mat"
  const Tensor z = causal(other);
  std::cout << "head 1, first four words:\n" << causal_weights[{0, 0, range(0, 4), range(0, 4)}] << '\n';
  // not shown
  const Range before = range(0, 6), after = range(6);
  e.picture(
      "self_attention",
      plot::side_by_side(
          {plot::heatmap(view.attention_matrix, look_of("Self-attention", sentence, sentence).cell_size(26).vmax(0.5)),
           plot::heatmap(mean(causal_weights[0], 0),
                         without_future(look_of("Causal", sentence, sentence)).cell_size(26).vmax(0.5))},
          "Mean of four heads, not trained"));
  // shown
  e.claim("weights on words that come later are exactly 0", equal(causal_weights, tril(causal_weights)));
  e.claim("the others still add up to 1", rows_sum_to_one(causal_weights));
  e.claim("before the replaced word, not a bit of the output changes",
          equal(z[{range(), before}], causal_y[{range(), before}]));
  e.claim("from there on, everything changes", min(max(abs(z[{0, after}] - causal_y[{0, after}]), -1)).item() > 1e-4);

  /// ## Cross-attention: one sentence looks at another
  ///
  /// Queries may come from one sequence, and keys and values from a sequence of another length. So a decoder attends to
  /// the sentence that it translates.
  e.cell();
  const std::vector<std::string> translation = example::words("die müde Katze schlief gut");
  nn::CrossAttention cross(features, head_count);
  cross.eval();
  const Tensor query = embedded(5);
  const auto [cross_y, cross_weights] = cross(query, x, return_attention);
  std::cout << "queries " << query.shape() << ", keys and values " << x.shape() << " -> output " << cross_y.shape()
            << '\n';
  e.claim("there is an output for each of the five queries", cross_y.shape() == Shape{1, 5, features});
  e.claim("each has a weight for each of the ten keys", cross_weights.shape() == Shape{1, head_count, 5, length});
  e.claim("they add up to 1", rows_sum_to_one(cross_weights));
  e.ask(Question("Five words attend to ten. What is the shape of the weights, without batch and heads?")
            .wrong("10 x 5", "The rows are queries: there are five.")
            .right("5 x 10", "A row for each query, a column for each key.")
            .wrong("5 x 5", "Each of the five has a weight for each of the ten keys."));

  /// ## Padding and causal together
  ///
  /// The sentences of a batch are padded to the longest. The padding must have no effect. As a test, the program
  /// replaces the padding of the second sentence by other numbers, and then by NaN. A NaN would spread to every result
  /// that uses it.
  e.cell();
  const Tensor ids = tensor({{5, 3, 8, 2, 9, 4}, {7, 1, 6, 0, 0, 0}});  // 0 is padding
  const Tensor mask = create_padding_mask(ids);
  std::cout << explain(AttentionOptions().mask(mask).causal(), 6, 6);
  Tensor two = randn({2, 6, features});
  const auto [padded_y, padded_weights] = causal(two, mask, return_attention);
  two[{1, range(3)}] = randn({3, features});
  const Tensor other_padding = causal(two, mask);
  two[{1, range(3)}] = std::numeric_limits<double>::quiet_NaN();
  const Tensor nan_padding = causal(two, mask);
  // not shown
  const auto words_moved = [&y = padded_y](const Tensor& z) {
    return std::max(distance(z[0], y[0]), distance(z[{1, range(0, 3)}], y[{1, range(0, 3)}]));
  };
  // shown
  e.claim("padding gets no weight", max(padded_weights[{1, ellipsis, range(3)}]).item() == 0);
  e.claim("neither does the future", equal(padded_weights, tril(padded_weights)));
  e.claim("not a bit of a word's output depends on what lies in the padding", words_moved(other_padding) == 0);
  e.claim("even a NaN stays hidden there", words_moved(nan_padding) <= 1e-6);

  /// With padding on the left and a causal mask, the first positions may be fully masked. Other libraries give NaN, or
  /// weights that sum to 1 on masked keys. Here such a row is 0.
  e.cell();
  const Tensor padded_first = create_padding_mask(tensor({{0, 0, 5, 7}}));
  const auto blind = causal(randn({1, 4, features}), padded_first, return_attention);
  e.claim("a word that may see nothing has zero weights, and nothing becomes NaN",
          max(abs(blind.weights[{0, ellipsis, range(0, 2), range()}])).item() == 0 &&
              all(isfinite(blind.output)).item<bool>());

  /// ## Gradients reach every parameter, and the input
  ///
  /// A parameter without a gradient does not learn. Only one gradient must be 0: the bias of the keys adds the same
  /// number, $q \cdot b$, to all scores of a query, and a softmax ignores a shift.
  e.cell();
  nn::SelfAttention learner(features, head_count);
  learner.eval();
  const Tensor input = embedded(length).requires_grad_();
  const Tensor output = learner(input);
  sum(output * randn(output.shape())).backward();
  std::printf("%-28s largest gradient %.2e\n", "input", largest_gradient(input));
  // not shown
  bool all_reached = largest_gradient(input) > 1e-4;
  double key_bias = 1;
  // shown
  for (const auto& [name, parameter] : learner.named_parameters()) {
    std::printf("%-28s largest gradient %.2e\n", name.c_str(), largest_gradient(parameter));
    // not shown
    if (name == "multihead_attn.w_k.bias")
      key_bias = largest_gradient(parameter);
    else
      all_reached = all_reached && largest_gradient(parameter) > 1e-4;
    // shown
  }
  e.claim("the input and every parameter but w_k.bias get a gradient", all_reached);
  e.claim("that of w_k.bias is 0 up to rounding", key_bias < 1e-5);

  /// ## A model of words
  ///
  /// A GPT of one layer learns sentences such as "the girl who sees the dogs is happy because she likes them". It finds
  /// the words that decide "is", "she" and "them", also in sentences with nouns that it has never seen together. The
  /// page [Attention in five minutes](five_minutes.html) opens its heads step by step. Here the program checks the same
  /// steps by hand.
  e.cell();
  // not shown
  const example::Reading reading = example::five_minutes(e);

  /// Next: [Understanding attention, one step at a time](../attention_step_by_step/attention_step_by_step.html).
  /// Back: [Attention in five minutes](five_minutes.html). Home: [all lessons](../course/course.html).
  e.cell();
  // not shown
  opening(e, reading);
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Shows attention at work, and proves what it says.", lesson);
}
