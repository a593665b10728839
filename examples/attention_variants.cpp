/// # A museum of attention
///
/// Each room changes one thing about plain attention. Every map has the same queries, keys and values: on the left
/// plain attention, then the variant, then the variant less plain attention. The slider moves the room's one number.
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

constexpr std::int64_t H = 2, T = 8, D = 32;  // heads, positions, features

// Queries, keys, values (1, H, T, D), and the numbers of the room, which may be learned.
using Attend = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& n)>;

// The numbers of a variant for a position of its slider.
using Numbers = std::function<Tensor(double)>;

Tensor one(double n) { return full({1}, n); }
Tensor each_head(double n) { return full({H}, n); }

Tensor plain(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& = {}) {
  return scaled_dot_product_attention(q, k, v, AttentionOptions().causal());
}

class Museum {
 public:
  explicit Museum(example::Example& e) : e_(e) {}
  Tensor q = randn({1, H, T, D}), k = randn({1, H, T, D}), v = randn({1, H, T, D});  // of all rooms

  // Every variant is linear in the values: with the identity as values, the output is its map.
  static Tensor map(const Attend& attend, const Tensor& q, const Tensor& k, const Tensor& n = {}) {
    const std::int64_t size = k.size(2);
    const Tensor identity = broadcast_to(eye(size, size, q.dtype()), {1, k.size(1), size, size});
    return attend(q, k, identity, n.defined() ? n.to(q.dtype()) : n)[0].detach();  // [H, T, T]
  }

  // Draws the maps of head 1 behind a slider over the room's number, checks the gradients, and takes the time of
  // forward and backward. The first value is one that differs from plain attention. `pairs` are those that attend with
  // a number, if not all earlier ones.
  void show(const std::string& name, const std::string& number, std::initializer_list<double> values,
            const Attend& attend, const Numbers& numbers = one, const Numbers& pairs = {}) {
    e_.vary(number, values, [&](double n) {
      const Tensor weights = map(attend, q, k, numbers(n))[0];
      const Tensor seen = pairs ? logical_and(causal_, pairs(n)) : causal_;
      e_.figure(plot::side_by_side(panels(name, weights, seen)));
    });
    const double middle = values.begin()[(values.size() - 1) / 2];
    std::string file = name;
    std::replace(file.begin(), file.end(), ' ', '_');
    e_.save(file, plot::side_by_side(panels(name, map(attend, q, k, numbers(middle))[0],
                                            pairs ? logical_and(causal_, pairs(middle)) : causal_)));
    const Tensor n = numbers(middle).detach().to(float64);
    std::vector<Tensor> inputs{n};
    for (const Tensor& x : {q, k, v}) inputs.push_back(slice(x, 2, 0, 5).to(float64));
    const bool learned = number.rfind("learned", 0) == 0;
    const auto f = [&](const std::vector<Tensor>& in) { return attend(in[1], in[2], in[3], learned ? in[0] : n); };
    if (!learned) inputs[0] = zeros({1}, float64);
    e_.claim("at first the slider shows a difference",
             distance(map(attend, q, k, numbers(*values.begin()))[0], map(plain, q, k)[0]) > 0.01);
    e_.claim("its gradients agree with differences", check_gradients(f, inputs).ok);
    rows_.push_back({name, time(attend, numbers(middle))});
  }

  // The picture of the room's task: what plain attention does, and what the variant does.
  void task(const std::string& xlabel, const std::string& ylabel,
            const std::vector<std::pair<std::string, Tensor>>& curves) {
    std::vector<plot::Curve> drawn;
    for (const auto& [name, y] : curves) drawn.push_back({name, y.detach().to(float64).to_vector<double>()});
    drawn.back().dashed(true);  // the variant may lie on another curve
    e_.figure(plot::lines(drawn, plot::LineOptions().xlabel(xlabel).ylabel(ylabel)));
  }

  void print_times() const {
    std::cout << std::left << std::setw(28) << "variant"
              << "time beside plain\n";
    for (const auto& [name, seconds] : rows_)
      std::cout << std::left << std::setw(28) << name << std::fixed << std::setprecision(2) << seconds / rows_[0].second
                << '\n';
  }

 private:
  std::vector<plot::Figure> panels(const std::string& name, const Tensor& weights, const Tensor& seen) const {
    const Tensor simple = map(plain, q, k)[0], change = weights - simple;
    const double top = std::max(max(abs(simple)).item(), max(abs(weights)).item()), most = max(abs(change)).item();
    auto look = plot::Options().xlabel("Key").ylabel("Query").cell_size(9).annotate(false).vmax(top).vmin(0);
    if (min(weights).item() < 0) look.colormap(plot::Colormap::rdbu).vmin(-top);
    const auto by = plot::Options(look).colormap(plot::Colormap::rdbu).bar_label("Difference");
    const double widest = std::max(most, 0.01);
    return {plot::heatmap(simple, plot::Options(look).title("plain").mask(causal_).colorbar(false)),
            plot::heatmap(weights, plot::Options(look).title(name).mask(seen).bar_label("")),
            plot::heatmap(change, plot::Options(by).title("difference").mask(causal_).vmin(-widest).vmax(widest))};
  }

  // Seconds of forward and backward, the least of some rounds.
  double time(const Attend& attend, const Tensor& numbers) const {
    const std::int64_t n = e_.quick ? 128 : 1024;
    const auto drawn = [n] { return randn({1, H, n, D}).requires_grad_(); };
    const Tensor q = drawn(), k = drawn(), v = drawn();
    double best = HUGE_VAL;
    for (int round = 0; round < 5; ++round) {
      const auto start = std::chrono::steady_clock::now();
      sum(attend(q, k, v, numbers)).backward();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }

  example::Example& e_;
  Tensor causal_ = tril(ones({T, T})) != 0;
  std::vector<std::pair<std::string, double>> rows_;
};

void lesson(example::Example& e) {
  Museum museum(e);
  const Tensor q = museum.q, k = museum.k, v = museum.v;
  const auto last_row = [](const Attend& attend, const Tensor& q, const Tensor& k, const Tensor& n = {}) {
    return Museum::map(attend, q, k, n)[{0, -1}];  // of head 1
  };
  const auto change = [](const Tensor& x, std::int64_t position) {  // x with other numbers at one position
    Tensor y = x.clone();
    y[{ellipsis, position, range()}] = 5.0;
    return y;
  };

  e.cell();
  // not shown
  const auto tempered = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& t) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().temperature(t.item()));
  };
  museum.show("temperature", "temperature", {0.25, 0.5, 1, 2, 8}, tempered);
  e.ask(Question("At which temperature is the difference 0 everywhere?")
            .numbers(tensor(1.), 0.001, "The temperature divides the scores: by 1, nothing changes.")
            .wrong("0", "A temperature of 0 would give the largest score everything.")
            .otherwise("Move the slider, and look at the map on the right."));
  e.claim("the weights of a query sum to 1", distance(sum(Museum::map(plain, q, k), -1), ones({H, T})) < 1e-5);

  /// This is the entrance: plain attention with a temperature. $q_i$, $k_j$ and $v_j$ are the query, key and value of
  /// positions $i$ and $j$ of one head, and $d$ is the number of their features. All rooms are causal.
  ///
  /// $$o_i = \sum_{j \le i} w_{ij} v_j, \qquad w_{ij} = \frac{e^{s_{ij}}}{\sum_{l \le i} e^{s_{il}}}, \qquad
  ///   s_{ij} = \frac{q_i \cdot k_j}{\sqrt d}$$
  ///
  /// Below the maps, a picture shows a task on which the variant does something that plain attention does not.
  ///
  /// ## What a score is
  ///
  /// ### Capped scores
  ///
  /// $$s'_{ij} = c \tanh(s_{ij} / c)$$
  ///
  /// No score leaves $-c \dots c$, so no weight is more than $e^{2c}$ times another (Gemma 2, 2024). The task: queries
  /// 50 times as long.
  e.cell();
  const auto capped = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& c) {
    const double most = c.item();
    const auto cap = [most](Score s, At) { return most * tanh(s / most); };
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().score(cap));
  };
  // not shown
  museum.show("capped", "c", {0.25, 0.5, 1, 2, 8}, capped);
  const Tensor long_plain = last_row(plain, 50 * q, k), long_capped = last_row(capped, 50 * q, k, one(2));
  museum.task("Key", "Weight of a long query", {{"plain", long_plain}, {"capped at 2", long_capped}});
  e.claim("with queries 50 times as long, plain attention sees one key", max(long_plain).item() > 0.99);
  e.claim("capped attention still sees all, within a factor of e^4",
          (max(long_capped) / min(long_capped)).item() < std::exp(4.001));

  /// ### Normalised queries and keys
  ///
  /// $$s_{ij} = g \, \frac{q_i}{|q_i|} \cdot \frac{k_j}{|k_j|}$$
  ///
  /// The length of a query or key has no effect; a learned $g$ says how sharp the weights may be (Henry et al. 2020).
  /// The task: queries 50 times as long.
  e.cell();
  const auto qk_norm = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g) {
    return scaled_dot_product_attention(g * normalize(q), normalize(k), v, AttentionOptions().causal().scale(1));
  };
  // not shown
  museum.show("QK-norm", "learned g", {1, 2, 5, 10, 20}, qk_norm);
  museum.task("Key", "Weight of a long query",
              {{"plain", long_plain}, {"QK-norm", last_row(qk_norm, 50 * q, k, one(5))}});
  e.claim("queries 50 times as long change nothing",
          distance(qk_norm(50 * q, k, v, one(5)), qk_norm(q, k, v, one(5))) < 1e-5 &&
              distance(plain(50 * q, k, v), plain(q, k, v)) > 0.1);

  /// ### A learned number for each distance
  ///
  /// $$s'_{ij} = s_{ij} + b_{h, i - j}$$
  ///
  /// T5's table (Raffel et al. 2020): a row for each head $h$ and a column for each distance. It knows positions
  /// without any vector for them. The slider sets distance 3. The task: learn to copy the value three places back.
  e.cell();
  const auto table = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
    const auto relative = [&](Score s, At at) { return s + b[at.head][min(at.query - at.key, 7)]; };
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().score(relative));
  };
  // not shown
  const auto distance_3 = [](double n) {
    Tensor b = zeros({H, 8});
    b[{range(), 3}] = n;
    return b;
  };
  museum.show("T5 table", "learned b at distance 3", {-4, -2, 0, 2, 4}, table, distance_3);
  Tensor b = zeros({H, 8}).requires_grad_();
  optim::Adam optimizer({b}, 0.3);
  const Tensor nothing = zeros_like(q), target = slice(v, 2, 0, T - 3);  // three places back
  const auto loss_of = [&](const Tensor& y) { return nn::mse_loss(slice(y, 2, 3, T), target); };
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    loss_of(table(nothing, nothing, v, b)).backward();
    optimizer.step();
  }
  museum.task(
      "Key", "Weight of the last query",
      {{"plain", last_row(plain, nothing, nothing)}, {"trained table", last_row(table, nothing, nothing, b.detach())}});
  e.claim("without queries, it learns to copy the value three places back",
          loss_of(table(nothing, nothing, v, b)).item() < 0.02 && loss_of(plain(nothing, nothing, v)).item() > 0.3);

  /// ### A slope for each head: ALiBi
  ///
  /// $$s'_{ij} = s_{ij} - m_h \, (i - j)$$
  ///
  /// Fixed slopes $m_h$ prefer near keys, at any length (Press et al. 2022). `examples/run exercises alibi`
  /// asks you for it. The task: keys that are all equal.
  e.cell();
  const auto alibi = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& m) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().alibi(m));
  };
  // not shown
  museum.show("ALiBi", "m", {1, 0.5, 0.25, 0.0625, 0}, alibi, each_head);
  const Tensor equal_keys = last_row(alibi, nothing, nothing, nn::alibi_slopes(H));
  museum.task("Key", "Weight of the last query",
              {{"plain", last_row(plain, nothing, nothing)},
               {"ALiBi, slope 0.25", last_row(alibi, nothing, nothing, each_head(0.25))}});
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
  /// (gpt-oss, 2025). `examples/run exercises sink` asks you for it. The task: a query that fits no key.
  e.cell();
  const auto sink = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().sink(a));
  };
  // not shown
  museum.show("sink", "learned a", {-4, -1, 0, 1, 3}, sink, each_head);
  museum.task("Key", "Weight of a query that fits none",
              {{"plain", last_row(plain, nothing, k)}, {"sink of 8", last_row(sink, nothing, k, each_head(8))}});
  e.claim("where no key fits, the output is nearly 0, and not the mean of the values",
          distance(sink(nothing, k, v, each_head(8)), zeros_like(v)) < 0.05 &&
              distance(plain(nothing, k, v), zeros_like(v)) > 0.5);

  /// ### Softmax off by one
  ///
  /// $$w_{ij} = \frac{e^{s_{ij}}}{n + \sum_{l \le i} e^{s_{il}}}, \qquad n = 1$$
  ///
  /// A sink of $\ln n$, which is not learned. The task: how much weight does a query that fits no key give away?
  e.cell();
  const auto off_by_one = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& n) {
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().sink(log(n)));
  };
  // not shown
  museum.show("off by one", "n", {8, 2, 1, 0.5, 0.01}, off_by_one, each_head);
  const auto given = [&](const Attend& attend, const Tensor& n) {
    return sum(Museum::map(attend, nothing, k, n)[0], -1);
  };
  museum.task("Query", "Sum of its weights",
              {{"plain", given(plain, {})}, {"off by one", given(off_by_one, each_head(1))}});
  e.claim("the first query, which has one key of score 0, gives half a weight away",
          std::abs(given(off_by_one, each_head(1))[0].item() - 0.5) < 1e-6);

  /// ### The difference of two maps
  ///
  /// $$w = \operatorname{softmax}(q^1 k^{1 \top}) - \lambda \operatorname{softmax}(q^2 k^{2 \top})$$
  ///
  /// Halves of the features make two maps. What both attend to is noise and cancels (Ye et al. 2024). The task: key 4
  /// fits, the others are noise.
  e.cell();
  const auto differential = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lambda) {
    const auto q_half = chunk(q, 2, -1), k_half = chunk(k, 2, -1);
    const auto o = AttentionOptions().causal();
    return scaled_dot_product_attention(q_half[0], k_half[0], v, o) -
           lambda * scaled_dot_product_attention(q_half[1], k_half[1], v, o);
  };
  // not shown
  museum.show("differential", "learned lambda", {0, 0.2, 0.4, 0.6, 0.8}, differential);
  Tensor wanted = zeros({1, H, T, D}), asking = zeros({1, H, T, D});  // key 4 fits a query; the others all alike
  wanted[{0, range(), 4, 0}] = 1.0;
  asking[{ellipsis, 0}] = 12.0;
  const Tensor noisy = last_row(plain, asking, wanted), clear = last_row(differential, asking, wanted, one(0.45));
  museum.task("Key", "Weight, beside that of key 4", {{"plain", noisy / noisy[4]}, {"differential", clear / clear[4]}});
  const auto noise = [](const Tensor& weights) { return (abs(sum(weights) - weights[4]) / weights[4]).item(); };
  e.claim("beside the key that fits, others get less than half of what they get in plain attention",
          noise(clear) < noise(noisy) / 2);

  /// ### Talking heads
  ///
  /// $$s'_h = \sum_g P_{hg} s_g, \qquad w = \operatorname{softmax}(s')$$
  ///
  /// Each head's scores are a mixture of all heads' scores (Shazeer et al. 2020, here without their second mixture,
  /// after the softmax). The slider says how much of the other head a head takes. The task: take all of it.
  e.cell();
  const auto talking = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& P) {
    const Tensor s = matmul(q, transpose(k)) / std::sqrt(q.size(-1));  // (1, H, T, T)
    const Tensor mixed = reshape(matmul(P, reshape(s, {s.size(1), -1})), s.shape());
    return matmul(softmax(masked_fill(mixed, !create_look_ahead_mask(q.size(2)), -INFINITY)), v);
  };
  // not shown
  const auto mixture = [](double m) { return tensor({{1 - m, m}, {m, 1 - m}}).to(float32); };
  museum.show("talking heads", "learned part of head 2", {1, 0.75, 0.5, 0.25, 0}, talking, mixture);
  const Tensor second = Museum::map(plain, q, k)[{1, -1}], taken = last_row(talking, q, k, mixture(1));
  museum.task("Key", "Weight of the last query",
              {{"plain, head 1", last_row(plain, q, k)}, {"plain, head 2", second}, {"talking, head 1", taken}});
  e.claim("a head can take another head's scores", distance(taken, second) < 1e-5);

  /// ## Which pairs attend
  ///
  /// ### Documents in one row
  ///
  /// $$w_{ij} = 0 \quad \text{unless} \quad \text{document}(i) = \text{document}(j)$$
  ///
  /// Texts share one row without padding. Tiles between two documents are not computed. The task: another token in
  /// the first of three documents. Which outputs change?
  e.cell();
  const auto documents = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& count) {
    const Tensor ids = arange(k.size(2)) * count.to(int64) / k.size(2);  // as many documents of equal length
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().attends(document_mask(ids.to(int64))));
  };
  // not shown
  const auto same_document = [](double count) {
    const Tensor ids = (arange(T) * static_cast<std::int64_t>(count) / T).to(int64);
    return ids.unsqueeze(1) == ids.unsqueeze(0);
  };
  museum.show("documents", "documents", {4, 3, 2, 1}, documents, one, same_document);
  const auto moved = [&](const Attend& attend, std::int64_t position, const Tensor& n) {  // by the key at a position
    return sum(abs(attend(q, change(k, position), v, n) - attend(q, k, v, n))[{0, 0}], -1);
  };
  museum.task("Position", "Change of its output",
              {{"plain", moved(plain, 1, {})}, {"documents", moved(documents, 1, one(3))}});
  e.claim("the last document does not change if the first does",
          moved(documents, 1, one(3))[-1].item() == 0 && moved(plain, 1, {})[-1].item() > 0);

  /// ### A window, and global tokens
  ///
  /// $$w_{ij} = 0 \quad \text{unless} \quad i - j < n \ \text{or} \ j = 0$$
  ///
  /// Each query attends to its neighbours and to the first token, which everybody sees (Longformer, Beltagy et al.
  /// 2020). The task: which keys move the last output? `examples/run exercises window` asks you for the mask.
  e.cell();
  const auto window = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& n) {
    const AttentionMask near = sliding_window_mask(n.to(int64).item<std::int64_t>()) | global_tokens(1);
    return scaled_dot_product_attention(q, k, v, AttentionOptions().causal().attends(near));
  };
  // not shown
  const auto near = [](double n) {
    const Tensor place = arange(T);
    return logical_or(place.unsqueeze(1) - place.unsqueeze(0) < n, place.unsqueeze(0) == 0);
  };
  museum.show("window", "n", {1, 2, 4, 6, 8}, window, one, near);
  const auto reaches = [&](const Attend& attend, const Tensor& n) {
    std::vector<Tensor> by;
    for (std::int64_t j = 0; j < T; ++j) by.push_back(moved(attend, j, n)[-1]);
    return stack(by);
  };
  const Tensor reached = reaches(window, one(4));
  museum.task("Key that changes", "Change of the last output",
              {{"plain", reaches(plain, {})}, {"window of 4", reached}});
  e.claim("the last query sees positions 0 and 4, and not 3",
          reached[0].item() > 0 && reached[4].item() > 0 && reached[3].item() == 0);

  /// ## What heads share
  ///
  /// ### Grouped heads
  ///
  /// $$o_{h, i} = \sum_j w_{h, ij} \, v_{g(h), j}$$
  ///
  /// Heads of queries share heads of keys and values (Shazeer 2019; in groups: Ainslie et al. 2023), so a cache has
  /// fewer numbers. The task: with one head of keys, two heads of queries still differ.
  e.cell();
  const auto grouped = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g) {
    const auto last = [&](const Tensor& x) {  // the last g heads
      return slice(x, 1, x.size(1) - g.to(int64).item<std::int64_t>(), x.size(1));
    };
    return scaled_dot_product_attention(q, last(k), last(v), AttentionOptions().causal());
  };
  // not shown
  museum.show("grouped", "heads of keys", {1, 2}, grouped);
  const Tensor shared = Museum::map(grouped, flip(q, {1}), k, one(1));
  museum.task("Key", "Weight of the last query",
              {{"head 1", shared[{1, -1}]}, {"head 2, the same keys", shared[{0, -1}]}});
  e.claim("heads share keys, and still look at different ones", distance(shared[0], shared[1]) > 0.1);
  e.claim("it is plain attention with the keys and values repeated",
          distance(grouped(q, k, v, one(1)), plain(q, cat({slice(k, 1, 1, 2), slice(k, 1, 1, 2)}, 1),
                                                   cat({slice(v, 1, 1, 2), slice(v, 1, 1, 2)}, 1))) < 1e-5);

  /// ### Latent heads
  ///
  /// $$s_{h, ij} = (q_{h, i} U_h) \cdot c_j$$
  ///
  /// A position has one short vector $c_j$ of $r$ numbers, from which all heads' keys $c_j U_h^\top$ come (DeepSeek-V2,
  /// 2024; values likewise). With the matrices moved to the queries, attention reads $c_j$ alone, and a cache holds
  /// nothing else. The task: how many numbers does the cache of keys hold?
  e.cell();
  const auto latent = [](const Tensor& q, const Tensor& c, const Tensor& v, const Tensor& U) {  // U [H, D, r]
    const Tensor shared = slice(slice(c, 1, 0, 1), 3, 0, U.size(2)), values = slice(v, 1, 0, 1);
    const double scale = 1 / std::sqrt(q.size(-1));
    return scaled_dot_product_attention(matmul(q, U), shared, values, AttentionOptions().causal().scale(scale));
  };
  // not shown
  const Tensor all_U = randn({H, D, D}) / 4;
  const auto first_columns = [&](double r) { return slice(all_U, 2, 0, static_cast<std::int64_t>(r)); };
  museum.show("latent", "learned U, r", {2, 4, 8, 16, 32}, latent, first_columns);
  const Tensor U = first_columns(4), c = slice(slice(k, 1, 0, 1), 3, 0, 4), positions = arange(T) + 1;
  museum.task("Positions so far", "Numbers in the cache",
              {{"plain", positions * (H * D)}, {"latent, r = 4", positions * c.size(3)}});
  const Tensor long_keys = matmul(broadcast_to(c, {1, H, T, 4}), transpose(U));
  e.claim("it is attention with all heads' keys made from the short vectors",
          distance(latent(q, k, v, U), plain(q, long_keys, broadcast_to(slice(v, 1, 0, 1), v.shape()))) < 1e-5);
  e.claim("a position has 4 numbers for all keys, not 64", c.numel() == 4 * T && k.numel() == 64 * T);

  /// ## Without softmax
  ///
  /// ### Linear attention with decay
  ///
  /// $$S_i = e^{a_h} S_{i-1} + \phi(k_i) v_i^\top, \qquad o_i = S_i^\top \phi(q_i)$$
  ///
  /// Without the softmax, all keys are a matrix $S$ of fixed size (Katharopoulos et al. 2020; the decay: Sun et al.
  /// 2023), and the time is linear in the length. The task: what must be kept to go on?
  e.cell();
  const auto linear = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& a) {
    return linear_attention(q, k, v, LinearAttentionOptions().feature_map(elu_plus_one).decay(a)).output;
  };
  // not shown
  museum.show("linear", "learned a", {-2, -0.5, -0.1, 0}, linear, each_head);
  const auto o = LinearAttentionOptions().feature_map(elu_plus_one).decay(each_head(-0.1));
  LinearAttentionResult step;
  for (std::int64_t t = 0; t < T; ++t) {
    const auto at = [t](const Tensor& x) { return slice(x, 2, t, t + 1); };
    step = linear_attention(at(q), at(k), at(v), LinearAttentionOptions(o).initial_state(step.state));
  }
  const Tensor lengths = 10 * positions;
  museum.task("Ten positions", "Numbers kept for a head",
              {{"plain: keys and values", lengths * (2 * D)}, {"linear: the state", full({T}, double(D * D))}});
  e.claim("step by step, with a state of 32 x 32 numbers for a head, it gives the same",
          step.state.shape() == Shape{1, H, D, D} &&
              allclose(step.output, slice(linear(q, k, v, each_head(-0.1)), 2, T - 1, T), 1e-4, 1e-4));

  /// ### The delta rule
  ///
  /// $$S_i = S_{i-1} + \beta \, k_i (v_i - S_{i-1}^\top k_i)^\top, \qquad o_i = S_i^\top q_i$$
  ///
  /// A key that comes again replaces its value, instead of adding another one (Schlag et al. 2021). The task: one key
  /// everywhere. How far is the output from its last value?
  e.cell();
  const auto delta = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& beta) {
    const auto rule = LinearAttentionOptions().scale(1).beta(beta * ones({1, k.size(1), k.size(2)}, beta.dtype()));
    return linear_attention(normalize(q), normalize(k), v, rule).output;
  };
  // not shown
  museum.show("delta rule", "learned beta", {0.1, 0.4, 0.7, 1}, delta);
  const Tensor twice = broadcast_to(slice(k, 2, 0, 1), k.shape());  // one key everywhere
  const auto off = [&](const Tensor& y) { return mean(abs(y - v)[{0, 0}], -1); };
  museum.task("Position", "Distance from its value",
              {{"plain", off(plain(twice, twice, v))}, {"delta rule", off(delta(twice, twice, v, one(1)))}});
  e.claim("a key that comes again has its last value, and not the mean of all",
          distance(delta(twice, twice, v, one(1)), v) < 1e-5 && distance(plain(twice, twice, v), v) > 0.5);

  /// ## The times
  ///
  /// Forward and backward on this machine, divided by the time of plain attention. `docs/performance.md` has times that
  /// were measured with care.
  e.cell();
  // not shown
  museum.print_times();
  // shown
  e.ask(Question("A cache shall hold as little as possible for each position. Which two rooms help?")
            .wrong("Capped scores and QK-norm", "They change scores; every key is kept.")
            .right("Grouped and latent heads",
                   "Heads share keys and values, or one short vector. The last two rooms keep "
                   "nothing for each position, but give up the softmax.")
            .wrong("The sink and ALiBi", "They add a number to the softmax or to the scores; every key is kept."));

  /// Next: [How a transformer learns to repeat](../induction/induction.html). Back:
  /// [The mathematics of attention](../attention_mathematics/attention_mathematics.html). Home:
  /// [all lessons](../course/course.html).
  e.cell();
  // not shown
}

int main(int argc, char** argv) {
  return example::lesson(argc, argv, "Fifteen variants of attention: formula, code, map, gradients and time.", lesson);
}
