/// # A museum of attention
///
/// Plain attention has many variants. Each changes one thing: what a score is, what the softmax runs over, which pairs
/// attend, what heads share, or whether there is a softmax at all. This lesson has fifteen of them, in at most ten
/// lines each. Every exhibit shows
///
/// - its formula and its code,
/// - its map beside the one of plain attention: which keys (columns) each query (row) mixes. All exhibits have the same
///   queries and keys, so every cell can be compared,
/// - under "How this is checked", a task on which it does something that plain attention does not, and a check of its
///   gradients against differences,
/// - its time beside plain attention, in a table at the end.
///
/// $q_i$, $k_j$ and $v_j$ are the query, key and value of positions $i$ and $j$ of one head, and $d$ is the number of
/// their features. All exhibits are causal: position $i$ mixes positions up to $i$.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iomanip>
#include <iostream>

#include "fit/fit.hpp"
#include "support/example.hpp"

using namespace fit;
using example::distance;
// not shown

constexpr std::int64_t H = 2, T = 16, D = 32;  // heads, positions, features

// Queries, keys, values (1, H, T, D), and learned numbers, which may be undefined.
using Attend = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& p)>;

class Museum {
 public:
  explicit Museum(example::Example& e) : e_(e) {}
  Tensor q = randn({1, H, T, D}), k = randn({1, H, T, D}), v = randn({1, H, T, D});  // of all exhibits

  // Every variant is linear in the values: with the identity as values, the output is its map.
  static Tensor map(const Attend& attend, const Tensor& q, const Tensor& k, const Tensor& p = {}) {
    const std::int64_t n = k.size(2);
    const Tensor identity = broadcast_to(eye(n, n, q.dtype()), {1, k.size(1), n, n});
    return attend(q, k, identity, p.defined() ? p.to(q.dtype()) : p)[0];  // [H, T, T]
  }

  // Draws the map of head 1 beside the plain one, checks the gradients, and takes the time of forward and backward.
  void show(const std::string& name, const Attend& attend, const Tensor& p = {}, const Tensor& pairs = {}) {
    const Tensor weights = map(attend, q, k, p)[0].detach(), causal = tril(ones({T, T})) != 0;
    if (!plain_.defined()) plain_ = weights;
    const double top = std::max(amax(abs(plain_)).item(), amax(abs(weights)).item());
    auto look = plot::Options().xlabel("Key").ylabel("Query").bar_label("Weight").mask(causal).vmax(top);
    if (min(weights).item() < 0) look.colormap(plot::Colormap::rdbu);
    std::vector<plot::Figure> figures{plot::heatmap(plain_, plot::Options(look).title("plain").colorbar(false))};
    if (pairs.defined()) look.mask(logical_and(causal, pairs));
    if (!rows_.empty()) figures.push_back(plot::heatmap(weights, look.title(name)));
    std::string file = name;
    std::replace(file.begin(), file.end(), ' ', '_');
    e_.picture(file, plot::side_by_side(figures));
    std::vector<Tensor> inputs;
    for (const Tensor& x : {slice(q, 2, 0, 5), slice(k, 2, 0, 5), slice(v, 2, 0, 5), p})
      if (x.defined()) inputs.push_back(x.detach().to(float64));
    const GradReport report = check_gradients(
        [&](const std::vector<Tensor>& in) { return attend(in[0], in[1], in[2], p.defined() ? in[3] : Tensor()); },
        inputs);
    e_.claim("its gradients agree with differences", report.ok);
    rows_.push_back({name, time(attend, p)});
  }

  void print_times() const {
    std::cout << std::left << std::setw(28) << "variant"
              << "time beside plain\n";
    for (const auto& [name, seconds] : rows_)
      std::cout << std::left << std::setw(28) << name << std::fixed << std::setprecision(2) << seconds / rows_[0].second
                << '\n';
  }

 private:
  // Seconds of forward and backward, the least of some rounds.
  double time(const Attend& attend, const Tensor& p) const {
    const std::int64_t n = e_.quick ? 128 : 1024;
    const auto drawn = [n] { return randn({1, H, n, D}).requires_grad_(); };
    const Tensor q = drawn(), k = drawn(), v = drawn();
    double best = HUGE_VAL;
    for (int round = 0; round < 5; ++round) {
      const auto start = std::chrono::steady_clock::now();
      sum(attend(q, k, v, p)).backward();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

  example::Example& e_;
  Tensor plain_;  // [T, T]
  std::vector<std::pair<std::string, double>> rows_;
};

void lesson(example::Example& e) {
  Museum museum(e);

  /// ## Plain attention
  ///
  /// $$o_i = \sum_{j \le i} w_{ij} v_j, \qquad w_{ij} = \frac{e^{s_{ij}}}{\sum_{l \le i} e^{s_{il}}}, \qquad
  ///   s_{ij} = \frac{q_i \cdot k_j}{\sqrt d}$$
  e.cell();
  const auto plain = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal());
  };
  museum.show("plain", plain);
  const Tensor q = museum.q, k = museum.k, v = museum.v;
  const auto change = [](const Tensor& x, std::int64_t position) {  // x with other numbers at one position
    Tensor y = x.clone();
    y[{ellipsis, position, range()}] = 5.0;
    return y;
  };
  e.claim("the weights of a query sum to 1", distance(sum(Museum::map(plain, q, k), -1), ones({H, T})) < 1e-5);

  /// ## What a score is
  ///
  /// ### Capped scores
  ///
  /// $$s'_{ij} = c \tanh(s_{ij} / c)$$
  ///
  /// No score leaves $-c \dots c$, so no weight is more than $e^{2c}$ times another, and no gradient vanishes because
  /// one score ran away (Gemma 2, 2024).
  e.cell();
  const auto capped = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    const auto cap = [](Score s, At) { return 2 * tanh(s / 2); };
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().score(cap));
  };
  museum.show("capped", capped);
  const Tensor long_plain = Museum::map(plain, 50 * q, k)[{0, -1}],
               long_capped = Museum::map(capped, 50 * q, k)[{0, -1}];
  e.claim("with queries 50 times as long, plain attention sees one key", amax(long_plain).item() > 0.999);
  e.claim("capped attention still sees all, within a factor of e^4",
          (amax(long_capped) / amin(long_capped)).item() < std::exp(4.001));

  /// ### Normalised queries and keys
  ///
  /// $$s_{ij} = g \, \frac{q_i}{|q_i|} \cdot \frac{k_j}{|k_j|}$$
  ///
  /// The length of a query or key has no effect; a learned $g$ says how sharp the weights may be (Henry et al. 2020).
  e.cell();
  const auto qk_norm = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g) {
    return scaled_dot_product_attention(g * normalize(q), normalize(k), v, AttentionOptions().causal().scale(1));
  };
  museum.show("QK-norm", qk_norm, full({1}, 5.0).requires_grad_());
  const Tensor g = full({1}, 5.0);
  e.claim("queries 50 times as long change nothing", distance(qk_norm(50 * q, k, v, g), qk_norm(q, k, v, g)) < 1e-5 &&
                                                         distance(plain(50 * q, k, v, {}), plain(q, k, v, {})) > 0.1);

  /// ### A learned number for each distance
  ///
  /// $$s'_{ij} = s_{ij} + b_{h, \min(i - j,\, 15)}$$
  ///
  /// T5's table (Raffel et al. 2020), here with a row for each head $h$ and a column for each distance. It knows
  /// positions without any vector for them.
  e.cell();
  const auto table = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    const auto relative = [&](Score s, At at) { return s + b[at.head][min(at.query - at.key, 15)]; };
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().score(relative));
  };
  museum.show("T5 table", table, (0.5 * randn({H, 16})).requires_grad_());
  Tensor b = zeros({H, 16}).requires_grad_();
  optim::Adam optimizer({b}, 0.3);
  const Tensor nothing = zeros_like(q), target = slice(v, 2, 0, T - 3);  // three places back
  const auto loss_of = [&](const Tensor& y) { return nn::mse_loss(slice(y, 2, 3, T), target); };
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    loss_of(table(nothing, nothing, v, b)).backward();
    optimizer.step();
  }
  e.claim("without queries, it learns to copy the value three places back",
          loss_of(table(nothing, nothing, v, b)).item() < 0.01 && loss_of(plain(nothing, nothing, v, {})).item() > 0.3);

  /// ### A slope for each head: ALiBi
  ///
  /// $$s'_{ij} = s_{ij} - m_h \, (i - j)$$
  ///
  /// Fixed slopes $m_h$ prefer near keys, at any length (Press et al. 2022).
  e.cell();
  const auto alibi = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().alibi(nn::alibi_slopes(q.size(1))));
  };
  museum.show("ALiBi", alibi);
  const Tensor equal_keys = Museum::map(alibi, nothing, nothing)[0][-1];
  const double slope = nn::alibi_slopes(H)[0].item();
  e.claim(
      "of equal keys, each has e^-slope times the weight of the next",
      distance(slice(equal_keys, 0, 0, T - 1) / slice(equal_keys, 0, 1, T), full({T - 1}, std::exp(-slope))) < 1e-5);

  /// ## What the softmax runs over
  ///
  /// ### A sink
  ///
  /// $$w_{ij} = \frac{e^{s_{ij}}}{e^{a_h} + \sum_{l \le i} e^{s_{il}}}$$
  ///
  /// A learned logit $a_h$ for each head takes part in the softmax and has no value, so a head can attend to nothing
  /// (gpt-oss, 2025).
  e.cell();
  const auto sink = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().sink(a));
  };
  museum.show("sink", sink, full({H}, 1.0).requires_grad_());
  const Tensor deep = full({H}, 8.0);
  e.claim("where no key fits, the output is nearly 0, and not the mean of the values",
          distance(sink(nothing, k, v, deep), zeros_like(v)) < 0.05 &&
              distance(plain(nothing, k, v, {}), zeros_like(v)) > 0.5);

  /// ### Softmax off by one
  ///
  /// $$w_{ij} = \frac{e^{s_{ij}}}{1 + \sum_{l \le i} e^{s_{il}}}$$
  ///
  /// A sink of 0, which is not learned.
  e.cell();
  const auto off_by_one = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().sink(zeros({q.size(1)}, q.dtype())));
  };
  museum.show("off by one", off_by_one);
  const Tensor first = Museum::map(off_by_one, nothing, k)[{0, 0, 0}];
  e.claim("the first query, which has one key of score 0, gives half a weight away",
          std::abs(first.item() - 0.5) < 1e-6);

  /// ### The difference of two maps
  ///
  /// $$w = \operatorname{softmax}(q^1 k^{1 \top}) - \lambda \operatorname{softmax}(q^2 k^{2 \top})$$
  ///
  /// Halves of the features make two maps. What both attend to is noise and cancels (Ye et al. 2024).
  e.cell();
  const auto differential = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lambda) {
    const auto half = [](const Tensor& x, std::int64_t i) {
      const std::int64_t n = x.size(-1) / 2;
      return slice(x, -1, i * n, (i + 1) * n);
    };
    const auto o = AttentionOptions().causal();
    return scaled_dot_product_attention(half(q, 0), half(k, 0), v, o) -
           lambda * scaled_dot_product_attention(half(q, 1), half(k, 1), v, o);
  };
  museum.show("differential", differential, full({1}, 0.6).requires_grad_());
  Tensor wanted = zeros({1, H, T, D}), asking = zeros({1, H, T, D});  // key 4 fits a query; the others all alike
  wanted[{0, range(), 4, 0}] = 1.0;
  asking[{ellipsis, 0}] = 12.0;
  const auto noise = [&](const Attend& attend, double lambda) {
    const Tensor weights = Museum::map(attend, asking, wanted, full({1}, lambda))[0][-1];
    return (abs(sum(weights) - weights[4]) / weights[4]).item();
  };
  e.claim("beside the key that fits, others get less than a third of what they get in plain attention",
          noise(differential, 0.45) < noise(plain, 0) / 3);

  /// ### Talking heads
  ///
  /// $$s'_h = \sum_g P_{hg} s_g, \qquad w = \operatorname{softmax}(s')$$
  ///
  /// Each head's scores are a mixture of all heads' scores (Shazeer et al. 2020, here without their second mixture,
  /// after the softmax).
  e.cell();
  const auto talking = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& P) {
    const Tensor s = matmul(q, transpose(k)) / std::sqrt(static_cast<double>(q.size(-1)));  // (1, H, T, T)
    const Tensor mixed = reshape(matmul(P, reshape(s, {s.size(1), -1})), s.shape());
    return matmul(softmax(masked_fill(mixed, !create_look_ahead_mask(q.size(2)), -INFINITY)), v);
  };
  museum.show("talking heads", talking, (eye(H) + 0.3 * randn({H, H})).requires_grad_());
  const Tensor other = Museum::map(talking, q, k, tensor({{0., 1.}, {0., 1.}}).to(float32));
  e.claim("a head can take another head's scores", distance(other[0], Museum::map(plain, q, k)[1]) < 1e-5);

  /// ## Which pairs attend
  ///
  /// ### Documents in one row
  ///
  /// $$w_{ij} = 0 \quad \text{unless} \quad \text{document}(i) = \text{document}(j)$$
  ///
  /// Texts of different lengths share one row without padding. Tiles between two documents are not computed.
  e.cell();
  const auto documents = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    const Tensor ids = arange(k.size(2)) * 3 / k.size(2);  // three of equal length
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().attends(document_mask(ids.to(int64))));
  };
  const Tensor ids = arange(T) * 3 / T;
  museum.show("documents", documents, {}, ids.unsqueeze(1) == ids.unsqueeze(0));
  const auto last = [](const Tensor& y) { return y[{0, 0, -1}]; };
  e.claim("the last document does not change if the first does",
          equal(last(documents(q, change(k, 2), v, {})), last(documents(q, k, v, {}))) &&
              !equal(last(plain(q, change(k, 2), v, {})), last(plain(q, k, v, {}))));

  /// ### A window, and global tokens
  ///
  /// $$w_{ij} = 0 \quad \text{unless} \quad i - j < 4 \ \text{or} \ j = 0$$
  ///
  /// Each query attends to its neighbours and to the first token, which everybody sees (Longformer, Beltagy et al.
  /// 2020).
  e.cell();
  const auto window = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    const AttentionMask near = sliding_window_mask(4) | global_tokens(1);
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().attends(near));
  };
  const Tensor place = arange(T), distances = place.unsqueeze(1) - place.unsqueeze(0);
  museum.show("window and global token", window, {}, logical_or(distances < 4, place.unsqueeze(0) == 0));
  const auto reaches = [&](std::int64_t position) {
    return !equal(last(window(q, change(k, position), v, {})), last(window(q, k, v, {})));
  };
  e.claim("the last query sees positions 0 and 12, and not 5", reaches(0) && reaches(12) && !reaches(5));

  /// ## What heads share
  ///
  /// ### Grouped heads
  ///
  /// $$o_{h, i} = \sum_j w_{h, ij} \, v_j$$
  ///
  /// All heads of queries share one head of keys and values (Shazeer 2019; in groups: Ainslie et al. 2023). A cache has
  /// $H$ times fewer numbers.
  e.cell();
  const auto grouped = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&) {
    return scaled_dot_product_attention(q, slice(k, 1, 0, 1), slice(v, 1, 0, 1), AttentionOptions().causal());
  };
  museum.show("grouped", grouped);
  const Tensor shared = Museum::map(grouped, q, k);
  e.claim("heads share keys, and still look at different ones", distance(shared[0], shared[1]) > 0.1);
  e.claim("it is plain attention with the keys and values repeated",
          distance(grouped(q, k, v, {}), plain(q, cat({slice(k, 1, 0, 1), slice(k, 1, 0, 1)}, 1),
                                               cat({slice(v, 1, 0, 1), slice(v, 1, 0, 1)}, 1), {})) < 1e-5);

  /// ### Latent heads
  ///
  /// $$s_{h, ij} = (q_{h, i} U_h) \cdot c_j$$
  ///
  /// A position has one short vector $c_j$, from which all heads' keys $c_j U_h^\top$ come (DeepSeek-V2, 2024; values
  /// likewise). With the matrices moved to the queries, attention reads $c_j$ alone, and a cache holds nothing else.
  e.cell();
  const auto latent = [](const Tensor& q, const Tensor& c, const Tensor& v, const Tensor& U) {  // U [H, D, r]
    const Tensor shared = slice(slice(c, 1, 0, 1), 3, 0, U.size(2)), values = slice(v, 1, 0, 1);
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    return scaled_dot_product_attention(matmul(q, U), shared, values, AttentionOptions().causal().scale(scale));
  };
  museum.show("latent", latent, (randn({H, D, D / 8}) / 4).requires_grad_());
  const Tensor U = randn({H, D, D / 8}) / 4, c = slice(slice(k, 1, 0, 1), 3, 0, D / 8);
  const Tensor long_keys = matmul(broadcast_to(c, {1, H, T, D / 8}), transpose(U));
  e.claim("it is attention with all heads' keys made from the short vectors",
          distance(latent(q, k, v, U), plain(q, long_keys, broadcast_to(slice(v, 1, 0, 1), v.shape()), {})) < 1e-5);
  e.claim("a position has 4 numbers for all keys, not 64", c.numel() == 4 * T && k.numel() == 64 * T);

  /// ## Without softmax
  ///
  /// ### Linear attention with decay
  ///
  /// $$S_i = e^{a_h} S_{i-1} + \phi(k_i) v_i^\top, \qquad o_i = S_i^\top \phi(q_i)$$
  ///
  /// Without the softmax, all keys are a matrix $S$ of fixed size (Katharopoulos et al. 2020; the decay: Sun et al.
  /// 2023). The time is linear in the length.
  e.cell();
  const auto linear = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a) {
    return linear_attention(q, k, v, LinearAttentionOptions().feature_map(elu_plus_one).decay(a)).output;
  };
  museum.show("linear with decay", linear, full({H}, -0.1).requires_grad_());
  const auto o = LinearAttentionOptions().feature_map(elu_plus_one).decay(full({H}, -0.1));
  LinearAttentionResult step;
  for (std::int64_t t = 0; t < T; ++t) {
    const auto at = [t](const Tensor& x) { return slice(x, 2, t, t + 1); };
    step = linear_attention(at(q), at(k), at(v), LinearAttentionOptions(o).initial_state(step.state));
  }
  e.claim("step by step, with a state of 32 x 32 numbers for a head, it gives the same",
          step.state.shape() == Shape{1, H, D, D} &&
              allclose(step.output, slice(linear(q, k, v, full({H}, -0.1)), 2, T - 1, T), 1e-4, 1e-4));

  /// ### The delta rule
  ///
  /// $$S_i = S_{i-1} + \beta \, k_i (v_i - S_{i-1}^\top k_i)^\top, \qquad o_i = S_i^\top q_i$$
  ///
  /// A key that comes again replaces its value, instead of adding another one (Schlag et al. 2021).
  e.cell();
  const auto delta = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta) {
    const auto rule = LinearAttentionOptions().scale(1).beta(beta * ones({1, k.size(1), k.size(2)}, beta.dtype()));
    return linear_attention(normalize(q), normalize(k), v, rule).output;
  };
  museum.show("delta rule", delta, full({1}, 0.7).requires_grad_());
  const Tensor twice = broadcast_to(slice(k, 2, 0, 1), k.shape()), once = full({1}, 1.0);  // one key everywhere
  e.claim("a key that comes again has its last value, and not the mean of all",
          distance(delta(twice, twice, v, once), v) < 1e-5 && distance(plain(twice, twice, v, {}), v) > 0.5);

  /// ## The times
  ///
  /// Forward and backward on this machine, divided by the time of plain attention. `docs/performance.md` has times that
  /// were measured with care.
  e.cell();
  museum.print_times();

  /// Next: [How a transformer learns to repeat](../induction/induction.html). Back:
  /// [The mathematics of attention](../attention_mathematics/attention_mathematics.html). Home:
  /// [all lessons](../course/course.html). `examples/run course` writes these pages.
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Fifteen variants of attention: formula, code, map, gradients and time.", lesson);
}
