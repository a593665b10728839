#include <cmath>

#include "fit/backward/gradcheck.hpp"
#include "fit/base/memory.hpp"
#include "fit/io/npz.hpp"
#include "fit/tensor/lookup.hpp"
#include "fit/threads/parallel.hpp"
#include "support/callable.hpp"
#include "support/oracles/attention_problem.hpp"
#include "support/variants.hpp"

// Functions of the scores: the language, the kernel against the decomposition and against operations, errors.
namespace fit::test::attention_score_test {
namespace {

struct Captured {
  Tensor by_distance;  // [H, 2 T]
  Tensor slopes;       // [H]
  Tensor number;       // []
  Tensor buckets;      // int64 [2 T]
  Tensor by_bucket;    // [H, 8]
  Tensor marked;       // boolean [B, T]
};

using Catch::Contains;
using Catch::EndsWith;

constexpr std::int64_t B = 2, H = 4, T = 150;

Captured capture(DType dtype, std::uint64_t seed = 3) {
  Generator g(seed);
  const auto leaf = [&](const Shape& s) { return randn(s, float64, g).to(dtype).requires_grad_(); };
  return {leaf({H, 2 * T}), leaf({H}), leaf({}), (arange(2 * T) * 5) % 8, leaf({H, 8}), rand({B, T}, float32, g) > 0.5};
}

struct Function {
  const char* name;
  Callable<ScoreFunction(const Captured&)> make;
};

const std::vector<Function>& functions() {
  static const std::vector<Function> all{
      {"cap", [](const Captured&) -> ScoreFunction { return [](Score s, At) { return 3 * tanh(s / 3); }; }},
      {"by distance",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score s, At at) { return s + c.by_distance[at.head][at.key - at.query + T]; };
       }},
      {"against distance",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score s, At at) { return s * c.by_distance[at.head][at.query - at.key + T]; };
       }},
      {"buckets",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score s, At at) { return s + c.by_bucket[at.head][c.buckets[at.key - at.query + T]]; };
       }},
      {"logarithmic buckets",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score s, At at) {
           const Symbol n = max(abs(at.query - at.key), 1);
           return s + c.by_bucket[at.head][min(where(n < 4, n, 2 + floor(log(n) * 1.3)), 7)];
         };
       }},
      {"slopes and a number",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score s, At at) {
           return square(s) * 0.1 - softplus(c.slopes[at.head]) * 0.1 * abs(at.query - at.key) + Symbol(c.number) * s;
         };
       }},
      {"choices",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score s, At at) {
           const Symbol chosen = where(c.marked[at.batch][at.key] && s > 0, exp(s * 0.1), sin(s) + cos(s));
           return max(min(chosen, 2), -relu(s)) / (1 + sigmoid(s)) + pow(abs(s) + 1, 0.5) - sqrt(1 + s * s);
         };
       }},
      {"cosh",
       [](const Captured& c) -> ScoreFunction { return [&](Score s, At) { return s - cosh(s * c.number) / 3; }; }},
      {"constant in s",
       [](const Captured& c) -> ScoreFunction {
         return [&](Score, At at) { return c.by_distance[at.head][at.row % 7 + at.key / 2]; };
       }},
  };
  return all;
}

struct Setting {
  const char* name;
  Callable<AttentionOptions()> make;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {"plain", [] { return AttentionOptions(); }},
      {"causal", [] { return AttentionOptions().causal(); }},
      {"causal window", [] { return AttentionOptions().causal().window(40); }},
      {"mask",
       [] {
         return AttentionOptions().mask(reshape(arange(T) % 3 != 1, {1, T}));
       }},
      {"attends", [] { return AttentionOptions().attends([](At at) { return at.query / 40 == at.key / 40; }); }},
      {"bias, alibi and sink",
       [] {
         Generator g(9);
         return AttentionOptions().bias(randn({T, T}, float32, g)).alibi(full({H}, 0.1)).sink(zeros({H}));
       }},
  };
  return all;
}

std::vector<Tensor> gradients(const Tensor& y, const Captured& c, std::vector<Tensor> operands) {
  for (const Tensor* t : {&c.by_distance, &c.slopes, &c.number, &c.by_bucket}) operands.push_back(*t);
  Generator g(8);
  return grad(std::vector<Tensor>{y}, operands, {randn(y.shape(), float64, g).to(y.dtype())}, allow_unused);
}

void check_near(const std::string& name, const Tensor& x, const Tensor& y, double tolerance, double noise = 0) {
  INFO(name);
  if (!x.defined() && !y.defined()) return;
  const auto values = [](const Tensor& t, const Tensor& like) {  // no gradient is one of zeros
    return t.defined() ? t.detach().to(float64) : zeros(like.shape(), float64);
  };
  const Tensor a = values(x, y), b = values(y, x);
  const double size = 1 + max(abs(b)).item();
  const double error = max(abs(a - b)).item();
  CHECK(error <= tolerance * size + noise);
}

void compare(DType dtype, double tolerance, double gradient_tolerance, std::int64_t kv_heads = H) {
  for (const Function& f : functions())
    for (const Setting& s : settings()) {
      const Captured c = capture(dtype == bfloat16 ? float32 : dtype);
      Generator g(4);
      const auto leaf = [&](const Shape& shape) { return randn(shape, float64, g).to(dtype).requires_grad_(); };
      const Tensor q = leaf({B, H, T, 8}), k = leaf({B, kv_heads, T, 8}), v = leaf({B, kv_heads, T, 5});
      const AttentionOptions o = s.make().score(f.make(c));
      const Tensor y = scaled_dot_product_attention(q, k, v, o);
      const Tensor z = decomposed(heads_first(q), heads_first(k), heads_first(v), o).output;
      const std::string name = std::string(f.name) + ", " + s.name;
      check_near(name, y, z, tolerance);
      const auto dy = gradients(y, c, {q, k, v}), dz = gradients(z, c, {q, k, v});
      // The kernel takes sum(dy y) of each query from the rounded output. Gradients of what was captured add up these
      // errors of all queries, which have any sign.
      const double noise = dtype == bfloat16 ? std::sqrt(B * H * T) / 512 : 0;
      for (std::size_t i = 0; i < dy.size(); ++i)
        check_near(name + ", gradient " + std::to_string(i), dy[i], dz[i], gradient_tolerance, i < 3 ? 0 : noise);
    }
}

}  // namespace

TEST_CASE("A function of scores is printed as it is written") {
  const Tensor table = zeros({2, 9});
  const ScoreFunction f = [&](Score s, At at) { return 30 * tanh(s / 30) + table[at.head][at.key - at.query + 4]; };
  CHECK(f.str() == "30 * tanh(s / 30) + table[2, 9][head][key - query + 4]");
}

TEST_CASE("A function of scores with shared parts takes time by its operations, not by its length as a text") {
  const Tensor x = randn({1, 1, 4, 4});
  const auto doubled = [](int times) {
    return ScoreFunction([times](Score s, At) {
      for (int i = 0; i < times; ++i) s = 0.5 * (s + s);
      return s;
    });
  };
  const ScoreFunction many = doubled(40);
  CHECK(doubled(2).str() == "0.5 * (0.5 * (s + s) + 0.5 * (s + s))");
  CHECK(many.str().size() < 1010);
  CHECK_THAT(many.str(), EndsWith(" …"));
  const auto scored = [&](const ScoreFunction& f) {
    return scaled_dot_product_attention(x, x, x, AttentionOptions().score(f));
  };
  CHECK(max_difference(scored(many), scaled_dot_product_attention(x, x, x)) < 1e-5);
  const auto chain = [](int operations) {
    return ScoreFunction([operations](Score s, At) {
      for (int i = 0; i < operations; ++i) s = s + 0.001;
      return s;
    });
  };
  CHECK(max_difference(scored(chain(4999)), scaled_dot_product_attention(x, x, x)) < 1e-4);
  CHECK_THROWS_WITH(chain(50000), Contains("[score] operations are nested more than 5000 deep"));
}

TEST_CASE("A function of scores in the kernel equals its decomposition, float64", "[heavy]") {
  compare(float64, 1e-12, 1e-12);
}
TEST_CASE("A function of scores in the kernel equals its decomposition, float32") { compare(float32, 1e-4, 1e-4); }
// The output and the weights are rounded to bfloat16, and with them every term of the sums of gradients.
TEST_CASE("A function of scores in the kernel equals its decomposition, bfloat16", "[heavy]") {
  compare(bfloat16, 0.03, 0.1);
}
TEST_CASE("A function of scores in the kernel equals its decomposition, grouped heads") {
  compare(float64, 1e-12, 1e-12, 2);
}

TEST_CASE("A table by distance equals a bias") {
  Generator g(1);
  const Tensor q = randn({B, H, 70, 8}, float64, g).requires_grad_(), k = randn({B, H, 90, 8}, float64, g),
               table = randn({H, 200}, float64, g).requires_grad_();
  const Tensor distance = reshape(arange(90), {1, 90}) - reshape(arange(70) + 20, {70, 1}) + 100;
  const Tensor bias = reshape(index_select(table, 1, flatten(distance)), {1, H, 70, 90});
  const ScoreFunction f = [&](Score s, At at) { return s + table[at.head][at.key - at.query + 100]; };
  const Tensor y = scaled_dot_product_attention(q, k, k, AttentionOptions().causal().score(f));
  const Tensor z = scaled_dot_product_attention(q, k, k, AttentionOptions().causal().bias(bias));
  check_near("output", y, z, 1e-14);
  const auto dy = grad(sum(y * y), {q, table}), dz = grad(sum(z * z), {q, table});
  check_near("dq", dy[0], dz[0], 1e-12);
  check_near("dtable", dy[1], dz[1], 1e-12);
}

TEST_CASE("Sinks and a cap: values and gradients are those of transformers", "[golden]") {
  const StateDict all = load_npz(FIT_GOLDEN_DIR "/attention_terms.npz");
  const double cap = at(all, "cap").item();
  for (const DType dtype : {float64, float32})
    for (const std::string name : {"sink", "cap"}) {
      const double tolerance = dtype == float64 ? 1e-12 : 1e-5;
      const auto saved = [&](const std::string& field) { return at(all, name + "_" + field); };
      const auto leaf = [&](const char* field) { return saved(field).to(dtype).clone().detach().requires_grad_(); };
      std::vector<std::pair<std::string, Tensor>> leaves{{"q", leaf("q")}, {"k", leaf("k")}, {"v", leaf("v")}};
      auto o = AttentionOptions().mask(at(all, "attends")).weights();
      if (name == "sink") {
        leaves.emplace_back("sinks", leaf("sinks"));
        o.causal(true).sink(leaves.back().second);
      } else {
        o.score([&](Score s, At) { return cap * tanh(s / cap); });
      }
      const auto [y, weights] =
          attend(heads_first(leaves[0].second), heads_first(leaves[1].second), heads_first(leaves[2].second), o);
      check_near(name, y, saved("y"), tolerance);
      check_near(name + ", weights", slice(weights, 2, 67, 70), saved("weights"), tolerance);
      sum(y * saved("d_y").to(dtype)).backward();
      for (const auto& [field, x] : leaves)
        check_near(name + ", gradient of " + field, x.grad(), saved("d_" + field), tolerance);
    }
}

TEST_CASE("Gradients of a function of scores are right to second order") {
  Generator g(1);
  const auto draw = [&](const Shape& s) { return randn(s, float64, g); };
  const auto f = [](const std::vector<Tensor>& x) {
    const ScoreFunction score = [&](Score s, At at) {
      return 2 * tanh(s / 2) * x[4][at.head] + x[3][at.head][at.key - at.query + 4];
    };
    return scaled_dot_product_attention(x[0], x[1], x[2], AttentionOptions().causal().score(score));
  };
  const GradReport r =
      check_gradients(f, {draw({1, 2, 4, 3}), draw({1, 2, 4, 3}), draw({1, 2, 4, 2}), draw({2, 8}), draw({2})},
                      GradCheckOptions().order(2));
  INFO(r);
  CHECK(r.ok);
}

TEST_CASE("A function of scores gives the same bits on any number of threads") {
  for (const Function& f : functions()) {
    std::vector<Tensor> first;
    for (const int threads : {1, 2, 3}) {
      const int before = num_threads();
      set_num_threads(threads);
      const Captured c = capture(float32);
      Generator g(4);
      const auto leaf = [&](const Shape& shape) { return randn(shape, float32, g).requires_grad_(); };
      const Tensor q = leaf({B, H, T, 8}), k = leaf({B, H, T, 8}), v = leaf({B, H, T, 5});
      const Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions().causal().score(f.make(c)));
      std::vector<Tensor> all = gradients(y, c, {q, k, v});
      all.push_back(y.detach());
      set_num_threads(before);
      if (first.empty()) first = all;
      INFO(f.name << ", " << threads << " threads");
      for (std::size_t i = 0; i < all.size(); ++i)
        if (all[i].defined()) CHECK(equal(all[i], first[i]));
    }
  }
}

TEST_CASE("Random functions of scores equal their decomposition") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const Captured c = capture(float64, seed + 1);
    const ScoreFunction f = [&](Score s, At at) {
      std::vector<Symbol> numbers{s,
                                  c.slopes[at.head],
                                  c.by_distance[at.head][at.key - at.query + T],
                                  Symbol(0.7),
                                  c.by_bucket[at.head][c.buckets[at.key + T]],
                                  Symbol(c.number)};
      std::vector<Symbol> integers{at.key, at.query, at.head, at.batch, Symbol(3)};
      const auto any = [&](const std::vector<Symbol>& of) -> const Symbol& { return of[random() % of.size()]; };
      for (int n = 0; n < 6; ++n) {
        const Symbol x = any(numbers), y = any(numbers), i = any(integers), j = any(integers);
        switch (random() % 12) {
          case 0:
            numbers.push_back(tanh(x) * y);
            break;
          case 1:
            numbers.push_back(x - y);
            break;
          case 2:
            numbers.push_back(sigmoid(x) / (1.5 + cos(y)));
            break;
          case 3:
            numbers.push_back(where(i < j, x, y));
            break;
          case 4:
            numbers.push_back(where(x < y && !(i == j), sin(x), -y));
            break;
          case 5:
            numbers.push_back(max(x, y));
            break;
          case 6:
            numbers.push_back(min(x, tanh(y)));
            break;
          case 7:
            numbers.push_back(softplus(x) + 0.01 * i);
            break;
          case 8:
            integers.push_back((i + 2 * j) % 11);
            break;
          case 9:
            integers.push_back(i / 3 - j);
            break;
          case 10:
            numbers.push_back(sqrt(1 + square(x)));
            break;
          default:
            integers.push_back(abs(i - j));
            break;
        }
      }
      return tanh(s + numbers.back()) + numbers[numbers.size() - 2] * 0.1;
    };
    INFO(seed << ": " << f.str());
    Generator g(seed);
    const auto leaf = [&](const Shape& shape) { return randn(shape, float64, g).requires_grad_(); };
    const Tensor q = leaf({B, H, 70, 4}), k = leaf({B, H, 81, 4}), v = leaf({B, H, 81, 3});
    const AttentionOptions o = AttentionOptions().causal(seed % 2 == 0).score(f);
    const Tensor y = scaled_dot_product_attention(q, k, v, o);
    const Tensor z = decomposed(heads_first(q), heads_first(k), heads_first(v), o).output;
    check_near("output", y, z, 1e-10);
    const auto dy = gradients(y, c, {q, k, v}), dz = gradients(z, c, {q, k, v});
    for (std::size_t i = 0; i < dy.size(); ++i) check_near("gradient " + std::to_string(i), dy[i], dz[i], 1e-9);
  }
}

TEST_CASE("A cache, dropout, weights and lse go with a function of scores") {
  Generator g(2);
  const Captured c = capture(float32);
  const ScoreFunction f = [&](Score s, At at) {
    return 2 * tanh(s / 2) + c.by_distance[at.head][at.key - at.query + T] + 0.1 * c.slopes[at.head] * at.batch;
  };
  const std::int64_t S = 140;
  const Tensor q = randn({B, S, H * 8}, float32, g), k = randn({B, S, H * 8}, float32, g),
               v = randn({B, S, H * 8}, float32, g);
  for (const std::int64_t window : {0, 20}) {
    const AttentionOptions o = AttentionOptions().causal().window(window).score(f);
    const AttentionResult all = attend(heads_last(q, H), heads_last(k), heads_last(v), AttentionOptions(o).weights());
    const Heads hq = heads_last(q, H), hk = heads_last(k, H), hv = heads_last(v, H);
    const AttentionResult z = decomposed(hq, hk, hv, AttentionOptions(o).weights());
    check_near("weights", all.weights, z.weights, 1e-5);
    check_near("lse", attend(hq, hk, hv, AttentionOptions(o).lse()).lse, z.lse, 1e-5);
    Tensor keys = zeros({B, H, S, 8}), values = zeros({B, H, S, 8});
    for (std::int64_t from = 0, n = 0; from < S; from += n) {
      n = from == 0 ? 130 : 1;
      const auto part = [&](const Tensor& x) { return slice(x, 1, from, from + n); };
      const Tensor y = cached_attention(part(q), part(k), part(v), keys, values, from, H, o);
      check_near("from " + std::to_string(from), y, part(all.output), 1e-5);
    }
  }
  Generator a(7), b(7);
  const AttentionOptions o = AttentionOptions().dropout(0.3).score(f);
  const Heads hq = heads_last(q, H), hk = heads_last(k, H), hv = heads_last(v, H);
  check_near("dropout", attend(hq, hk, hv, AttentionOptions(o).generator(&a)).output,
             decomposed(hq, hk, hv, AttentionOptions(o).generator(&b)).output, 1e-5);
}

TEST_CASE("Masked pairs get no gradient from a function of scores") {
  Generator g(2);
  const Tensor q = randn({1, 1, 8, 4}, float64, g).requires_grad_(), table = ones({8}).to(float64).requires_grad_();
  // 1 / 0 at pairs that causality masks.
  const ScoreFunction f = [&](Score s, At at) { return s + table[at.key] / max(at.query - at.key + 1, 0); };
  const Tensor y = scaled_dot_product_attention(q, q, q, AttentionOptions().causal().score(f));
  for (const Tensor& d : grad(sum(y * y), {q, table})) CHECK(all(isfinite(d)).item() == 1);
}

TEST_CASE("With a function of scores, a NaN behind an empty tile stays hidden, and a visible one shows") {
  for (const Function& f : functions())
    for (const bool causal : {false, true}) {
      INFO(f.name << ", causal " << causal);
      const Captured c = capture(float32);
      Generator g(5);
      const Tensor q = randn({B, H, T, 8}, float32, g), k = randn({B, H, T, 8}, float32, g);
      const auto o = AttentionOptions().causal(causal).score(f.make(c));
      // The output, and the gradients of q, k, v and the captured tensors. The keys from 128 on are a tile.
      const auto results = [&](const Tensor& mask, std::int64_t key, double value) {
        Tensor keys = k.clone(), values = k.clone();
        keys[{range(), range(), key}] = value;
        values[{range(), range(), key}] = value;
        std::vector<Tensor> leaves{q.clone().requires_grad_(), keys.requires_grad_(), values.requires_grad_()};
        const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], AttentionOptions(o).mask(mask));
        std::vector<Tensor> all = gradients(y, c, leaves);
        all.push_back(y.detach());
        return all;
      };
      const Tensor before = reshape(arange(T) < 128, {1, T}), others = reshape(arange(T) != 70, {1, T});
      for (const auto& [mask, key] : {std::pair{before, 140}, {others, 70}}) {
        const auto finite = results(mask, key, 0), hidden = results(mask, key, NAN);
        for (std::size_t i = 0; i < finite.size(); ++i) check_near(std::to_string(i), finite[i], hidden[i], 1e-5);
      }
      if (std::string(f.name) == "constant in s") continue;  // reads no score
      const Tensor y = results(others, 71, NAN).back(), seen = all(isnan(y), {-1});
      CHECK(equal(seen, broadcast_to(arange(T) >= (causal ? 71 : 0), {B, H, T})));
    }
}

TEST_CASE("A function of scores and a mask read tables without elements where there are no pairs") {
  for (const auto& [B, S] : {std::pair<std::int64_t, std::int64_t>{2, 0}, {0, 3}}) {
    const Tensor q = ones({B, 1, 4, 2}).requires_grad_(), k = ones({B, 1, S, 2}), table = ones({B, S}).requires_grad_();
    const Tensor ids = zeros({B, S}, int64);
    const auto options = AttentionOptions().score([&](Score s, At at) { return s + table[at.batch][at.key]; });
    for (const auto& o :
         {options, AttentionOptions(options).attends([&](At at) { return ids[at.batch][at.key] == 0; })}) {
      const Tensor y = scaled_dot_product_attention(q, k, k, o);
      CHECK(equal(y, zeros({B, 1, 4, 2})));
      sum(y).backward();
      CHECK(equal(q.grad(), zeros({B, 1, 4, 2})));
      CHECK(table.grad().shape() == table.shape());
    }
  }
}

TEST_CASE("A function of scores takes no memory of the scores' size") {
  const Tensor table = zeros({1, 8192}).requires_grad_();
  const auto footprint = [&](std::int64_t n) {
    const Tensor q = randn({1, 1, n, 16}).requires_grad_();
    const auto o = AttentionOptions().causal().score(
        [&](Score s, At at) { return 2 * tanh(s / 2) + table[at.head][at.query - at.key]; });
    empty_cache();
    const MemoryStats before = memory_stats();
    sum(scaled_dot_product_attention(q, q, q, o)).backward();
    const MemoryStats after = memory_stats();
    return after.live_bytes + after.cached_bytes - before.live_bytes - before.cached_bytes;
  };
  footprint(1024);  // the gradient of the table
  const std::int64_t shorter = footprint(1024), longer = footprint(2048);
  CHECK(longer < shorter * 5 / 2);
  CHECK(longer < 2048 * 2048);
}

TEST_CASE("Bad functions of scores are errors") {
  const Tensor x = zeros({1, 2, 6, 4}), table = zeros({2, 5});
  const auto call = [&](const ScoreFunction& f) { scaled_dot_product_attention(x, x, x, AttentionOptions().score(f)); };
  CHECK_THROWS_WITH(
      call([&](Score s, At at) { return s + table[at.head][at.key]; }),
      Contains(
          "in s + table[2, 5][head][key], index 1 of the table [2, 5] may reach 5 by its bounds: it must be in 0 … 4"));
  CHECK_THROWS_WITH(call([&](Score s, At at) { return s + table[at.head]; }),
                    Contains("table[2, 5][head] has 1 of 2 indices"));
  CHECK_THROWS_WITH(call([&](Score s, At at) { return s + table[at.head][s]; }), Contains("it must be an integer"));
  CHECK_THROWS_WITH(call([&](Score s, At) { return s > 0; }), Contains("a score is a number"));
  CHECK_THROWS_WITH(call([&](Score s, At at) { return s + (at.key < 3); }), Contains("a number is needed"));
  CHECK_THROWS_WITH(call([&](Score s, At at) {
                      const Tensor deep = zeros({1, 1, 1, 1, 1});
                      return s + deep[0 * at.key][0 * at.key][0 * at.key][0 * at.key][0 * at.key];
                    }),
                    Contains("has 5 axes: at most 4 are possible"));
}

}  // namespace fit::test::attention_score_test
