/// # How a transformer learns to repeat
///
/// A text ends in the middle of something that it has said before. Two heads of a trained model find how it goes on.
/// Point at a letter of the second half: the arc above leads to the answer, and the one below shows how it was found.
#include <algorithm>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
// not shown

std::vector<std::string> names(const Tensor& ids) {
  std::vector<std::string> all;
  for (const std::int64_t id : ids.data<std::int64_t>()) all.emplace_back(1, static_cast<char>('a' + id));
  return all;
}

// How the two heads of the trained model read a text: [T, T] weights of each.
struct Pair {
  std::vector<std::string> letters;
  Tensor induction, previous;
  std::int64_t inducing, before;  // numbers of the heads
};

void opening(example::Example& e, const Pair& p) {
  e.cell();
  // not shown
  const auto name = [](const char* letter, std::int64_t head, const char* layer) {
    return std::string("Head ") + letter + " (head " + std::to_string(head + 1) + " of layer " + layer + ")";
  };
  e.text(p.letters, {TextHead().name(name("B", p.inducing, "2")).weights(p.induction),
                     TextHead().name(name("A", p.before, "1")).weights(p.previous).from_key(true)});
  e.ask(Question("The last letter is the second *e*. Which letter comes next?")
            .wrong("e", "An *e* never followed an *e*.")
            .right("f", "*f* stood behind the first *e*. Head B looks exactly there.")
            .wrong("Any of 26", "That holds for a letter that is new. This one was there before.")
            .wrong("d", "*d* stood before *e*. The answer stands behind it."));
}

/// Head B looks for the letter that stood *behind* the first copy of the present one. But how can it know that? Nothing
/// in the letter *f* says that an *e* stood before it. Head A, one layer earlier, has written it there: each letter
/// carries a note with the name of its left neighbour. Head B reads the notes. Neither can do it alone.
///
/// Elhage et al. (2021) and Olsson et al. (2022) found such **induction heads** in language models of every size. This
/// page trains a model, watches the two heads appear, and proves what they do.
///
/// ## 1. A riddle without meaning
///
/// Each sequence is a random segment of letters that repeats. The length of the segment differs from sequence to
/// sequence, so the answer is not always at the same distance. In the first segment nothing can be predicted. After it,
/// every letter can.
constexpr std::int64_t letters = 26, T = 36, shortest = 8, longest = 16;

// ids [B, T], and the next letters [B, T]: -100 where they can't be known.
struct Repeats {
  Tensor ids, next;
};

Repeats repeats(std::int64_t B) {
  const Tensor segment = randint(0, letters, {B, longest}), length = randint(shortest, longest + 1, {B, 1});
  const Tensor place = arange(T + 1).unsqueeze(0), all = gather(segment, 1, place % length);
  const Tensor next = where(place < length, full({B, T + 1}, -100, int64), all);
  return {all[{range(), range(0, T)}], next[{range(), range(1, T + 1)}]};
}

/// ## 2. Two layers, and nothing else
///
/// Two layers of attention with two heads each: no feed-forward layers. Each layer adds to the
/// **residual stream**, the vectors that pass through the model. `observed` offers it to a lens under a name. The
/// layers of fit inside already offer their values.
constexpr std::int64_t C = 64, heads = 2;

struct Block final : nn::UnaryLayer {
  Tensor forward(const Tensor& given) const override {
    const Tensor x = observed("resid_pre", given);
    return observed("resid_post", x + attention(norm(x)));
  }
  FIT_FIELDS(norm, attention)
  nn::LayerNorm norm{C};
  nn::CausalSelfAttention attention{C, heads, 0.0};
};

struct Model final : nn::UnaryLayer {
  Model() { h.add(Block()), h.add(Block()); }
  Tensor forward(const Tensor& ids) const override {
    Tensor x = token(ids) + place(arange(ids.size(1)));
    for (const Block& block : h) x = block(x);
    return logits(x);
  }
  Tensor logits(const Tensor& x) const { return out(norm(x)); }
  FIT_FIELDS(token, place, h, norm, out)
  nn::Embedding token{letters, C}, place{T, C};
  nn::ModuleList<Block> h;
  nn::LayerNorm norm{C};
  nn::Linear out{C, letters};
};
// not shown

std::string value(std::int64_t layer, const char* suffix) {
  return "h." + std::to_string(layer) + ".attention.multihead_attn." + suffix;
}

plot::Options look(const std::string& title) {
  const std::vector<std::string> numbers{"1", "2"};
  return plot::Options().title(title).xlabel("Head").ylabel("Layer").x(numbers).y(numbers).annotate(true);
}

// The loss and the best scores over the steps.
struct Curves {
  plot::Curve loss{"loss"}, previous{"previous token, layer 1"}, induction{"induction, layer 2"};
  void add(int step, double value, const nn::HeadScores& scores) {
    for (plot::Curve* const curve : {&loss, &previous, &induction}) curve->x.push_back(step);
    loss.y.push_back(value);
    previous.y.push_back(max(scores.previous[0]).item());
    induction.y.push_back(max(scores.induction[1]).item());
  }
};

// The head with the largest number in a row [heads].
std::int64_t best(const Tensor& row) { return argmax(row).item<int>(); }

void lesson(example::Example& e) {
  /// ## 3. The moment when it understands
  ///
  /// Training takes half a minute. Every few steps, the program asks what each head does on new sequences:
  ///
  /// - the **previous-token score**: its mean weight on the letter before,
  /// - the **induction score**: its mean weight on the letters *behind* earlier copies of the present letter. There
  ///   stands the answer.
  e.cell();
  Model model;
  optim::AdamW optimizer(model.named_parameters(), optim::AdamWOptions().lr(2e-3).weight_decay(0.01));
  // not shown
  const int steps = e.quick ? 300 : 800, every = 20;
  // shown
  const Repeats test = repeats(32);
  const auto loss_of = [&](const Repeats& r) { return nn::cross_entropy(model(r.ids), r.next); };
  const nn::Lens lens(model);
  // not shown
  Curves curves;
  AttentionRecording recording;
  recording.title = "Two layers learn to repeat";
  const auto note = [&](int step) {
    const NoGrad no_grad;
    const nn::HeadScores scores = head_scores(lens.run(test.ids, {"*.weights"}), test.ids);
    curves.add(step, loss_of(test).item(), scores);
    if (step % (4 * every) != 0) return;
    nn::AttentionRecorder recorder(model);
    recorder.step(step);
    model(test.ids[{range(0, 1)}]);
    recording.append(recorder.recording());
    e.progress("step", step, steps, "loss", curves.loss.y.back());
  };
  // shown
  for (int step = 0; step <= steps; ++step) {
    // not shown
    if (step % every == 0) note(step);
    // shown
    const Tensor now = loss_of(repeats(64));
    optimizer.zero_grad();
    now.backward();
    optimizer.step();
  }
  // not shown
  recording.name_tokens("", names(test.ids[0]), names(test.ids[0]));

  /// At first the loss stays near $\ln 26 \approx 3.26$, which is guessing. After some fifty steps it falls steeply,
  /// and at the same time both scores rise: the model has found the trick.
  ///
  /// A part of the loss remains. If a letter stands twice in the segment, there are two possible answers. To tell them
  /// apart, a head must look back by two letters, and this takes longer to learn.
  e.cell();
  const auto axes = [](const char* of) { return plot::LineOptions().xlabel("Step").ylabel(of); };
  e.picture("loss", plot::lines({curves.loss}, axes("Loss")));
  e.picture("forming", plot::lines({curves.previous, curves.induction}, axes("Best score")));
  // not shown
  const NoGrad no_grad;
  const Tensor known = test.next >= 0;
  const Tensor right = logical_and(argmax(model(test.ids), -1) == test.next, known);
  e.at_least("share of right letters that can be known", sum(right).item() / sum(known).item(), 0.9);

  /// ## 4. Who did it?
  ///
  /// `lens.run` calls the model and keeps the values whose names match. `head_scores` makes one number of each head's
  /// weights.
  e.cell();
  const nn::LensRun run = lens.run(test.ids, {"*.weights", "*.resid_pre", "*.resid_post"});
  const nn::HeadScores scores = head_scores(run, test.ids);
  const std::int64_t before = best(scores.previous[0]), inducing = best(scores.induction[1]);
  std::cout << "head " << before + 1
            << " of layer 1 attends to the previous letter: " << scores.previous[{0, before}].item() << "\nhead "
            << inducing + 1 << " of layer 2 attends behind earlier copies: " << scores.induction[{1, inducing}].item()
            << '\n';
  e.picture("scores", plot::side_by_side({plot::heatmap(scores.previous, look("Previous token").vmin(0).vmax(1)),
                                          plot::heatmap(scores.induction, look("Induction").vmin(0).vmax(1))}));

  /// Here is all that the heads do on one text, over the whole training. Move the slider and see the pair appear. The
  /// induction head looks for letters *behind* a copy of the present one.
  e.cell();
  e.claim("a head of layer 1 gives a third of its weight, or more, to the previous letter",
          scores.previous[{0, before}].item() > 1. / 3);
  e.claim("no head of layer 2 does that", max(scores.previous[1]).item() < 0.1);
  e.claim("a head of layer 2 gives most of its weight to the answer", scores.induction[{1, inducing}].item() > 0.5);
  e.claim("no head of layer 1 gives a quarter to it", max(scores.induction[0]).item() < 0.25);
  e.page("heads", recording);
  e.ask(Question("Could the induction head stand in layer 1?")
            .right("No",
                   "In layer 1 no key knows its left neighbour yet: the notes are written there, and read one layer "
                   "later.")
            .wrong("Yes, if it had more features", "No number of features tells a key what stands before it.")
            .wrong("Yes, with a longer training", "A model of one layer never gets there: try it."));

  /// ## 5. Take each head away
  ///
  /// A pattern is a hint, not a proof. So we take each head away and measure the loss. `ablate_heads` sets the output
  /// of one head to zero, or to its mean, in one run for each head. Several heads of a layer may share the work:
  /// without one of them, the others still answer.
  e.cell();
  const auto measure = [&] { return loss_of(test); };
  const double plain = measure().item();
  const Tensor zeroed = ablate_heads(lens, measure), averaged = ablate_heads(lens, measure, nn::Ablation::mean);
  std::cout << "loss " << plain << "; each head removed adds\n" << zeroed << '\n';
  // not shown
  const double most = std::max(max(zeroed).item(), max(averaged).item());
  const auto rise = [&](const std::string& title) {
    return look(title).bar_label("Rise of the loss").vmin(0).vmax(most);
  };
  e.picture("ablation", plot::side_by_side({plot::heatmap(zeroed, rise("Rise of the loss without the head")),
                                            plot::heatmap(averaged, rise("Rise of the loss with the head's mean"))}));
  e.claim("in layer 1, the loss rises most without the previous-token head", best(zeroed[0]) == before);
  e.claim("in layer 2, the loss rises most without the induction head", best(zeroed[1]) == inducing);
  e.claim("without either of them, the loss is at least twice as large",
          zeroed[{0, before}].item() > plain && zeroed[{1, inducing}].item() > plain);

  /// ## 6. One cannot work without the other
  ///
  /// Now change one head and watch the *other*. We keep the previous-token head, but let it attend to its own letter:
  /// `lens.with` replaces its weights by the identity. Everything else runs as before.
  e.cell();
  const nn::Lens blinded = lens.with(value(0, "weights"), nn::head(before),
                                     [](const Tensor& w) { return broadcast_to(eye(w.size(-1)), w.shape()); });
  const nn::HeadScores blind = head_scores(blinded.run(test.ids, {"*.weights"}), test.ids);
  std::cout << "induction score: " << scores.induction[{1, inducing}].item() << " before, "
            << blind.induction[{1, inducing}].item() << " when head " << before + 1 << " of layer 1 is blinded\n";
  e.claim("the induction head is lost without the previous-token head",
          blind.induction[{1, inducing}].item() < 0.5 * scores.induction[{1, inducing}].item());

  /// ## 7. Follow one letter through the model
  ///
  /// Take a text that ends with the second *e*. The answer is *f*, because *f* stood behind the first *e*. In a second
  /// text, *x* stands there. The model answers *x*. Then we **patch**: one vector of the residual stream, at one layer
  /// and position, comes from the run of the first text. The number is how much that changes the model's mind: the
  /// logit of *f* minus the logit of *x*.
  e.cell();
  const Tensor text = tensor({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4}});
  Tensor other = text.clone();
  other[{0, 5}] = 23;
  const nn::LensRun clean = lens.run(text, {"*.resid_pre", "*.z"});
  const auto mind = [&] {
    const Tensor last = model(other)[{0, -1}];
    return last[5] - last[23];
  };
  const Tensor sweep = patch_sweep(lens, clean, mind), by_head = patch_heads(lens, clean, mind);
  e.picture("patching", plot::heatmap(sweep, plot::Options()
                                                 .title("Logit of f - logit of x")
                                                 .cell_size(18)
                                                 .x(names(other[0]))
                                                 .y({"before layer 1", "before layer 2"})
                                                 .xlabel("Position")
                                                 .ylabel("Patched")));
  e.claim("the model answers f to the first text and x to the second",
          argmax(model(text)[{0, -1}]).item<int>() == 5 && argmax(model(other)[{0, -1}]).item<int>() == 23);
  e.claim("before both layers, the answer stands at position 5 alone", best(sweep[0]) == 5 && best(sweep[1]) == 5);
  e.claim("of all heads, the induction head carries it to the end", best(by_head.flatten()) == heads + inducing);

  /// ## 8. When does the model know?
  ///
  /// The **logit lens** asks what the model would answer if it stopped early: it applies the last norm and the output
  /// layer to the residual stream after each layer. Here is the probability of the right letter, on average over the
  /// sequences:
  e.cell();
  const auto unembed = [&](const Tensor& x) { return model.logits(x); };
  const Tensor targets = where(known, test.next, zeros({1}, int64));
  const Tensor early = cat({logit_lens(run, unembed, targets, "h.0.resid_pre"), logit_lens(run, unembed, targets)}, 0);
  e.picture("logit_lens",
            plot::heatmap(early[{range(), range(longest, T)}], plot::Options()
                                                                   .title("Probability of the right letter")
                                                                   .cell_size(14)
                                                                   .y({"embedding", "after layer 1", "after layer 2"})
                                                                   .xlabel("Position behind the first segment")
                                                                   .ylabel("Read")
                                                                   .vmin(0)
                                                                   .vmax(1)));
  const Tensor means = mean(early[{range(), range(longest, T)}], 1);
  std::cout << "mean probability: " << means << '\n';
  e.claim("the answer appears in layer 2", means[1].item() < 0.25 && means[2].item() > 0.75);

  /// So this is the trick: head A copies each letter to its right neighbour. Head B searches, with the present letter
  /// as query, for a position that has this letter as its *left neighbour*, and copies the letter there.
  ///
  /// To try: train one layer (`h.add` once) and watch the loss. Give all segments the same length, and look for a head
  /// that needs no partner. `examples/run exercises induction` asks you for a program that finds such heads.
  ///
  /// Back: [A museum of attention](../attention_variants/attention_variants.html). Home:
  /// [all lessons](../course/course.html).
  e.cell();
  // not shown
  const nn::LensRun read = lens.run(text, {"*.weights"});
  opening(e, {names(text[0]), read[value(1, "weights")][{0, inducing}], read[value(0, "weights")][{0, before}],
              inducing, before});
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Two heads that learn together to repeat a sequence, found and proved.", lesson);
}
