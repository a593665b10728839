#include "fit/attention/linear_attention.hpp"

#include "fit/io/npz.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "linear_attention/kernel/reference.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/variants.hpp"

// Linear attention against its loops, against transformers' gated delta rule, and step by step. Its derivatives and
// decompositions are in ops_linear_attention.cpp.
namespace fit::test::linear_attention_test {
namespace {

using Options = LinearAttentionOptions;
enum class Decay { none, step, feature };

struct Sizes {
  std::int64_t heads, steps, D, Dv;
};
const Sizes sizes[] = {{1, 1, 1, 1},   {2, 5, 3, 2},    {1, 16, 16, 16}, {1, 17, 8, 33},
                       {2, 63, 5, 65}, {1, 64, 64, 64}, {3, 65, 33, 7},  {1, 200, 32, 40}};

// Operands drawn so that states stay small, in buffers with guards.
template <class T>
struct Call {
  std::mt19937_64 random{3};
  GuardedBuffer<T> q, k, v, decay, beta, initial;
  kernels::LinearAttention<T> a;

  Call(const Sizes& s, Decay kind, bool delta)
      : q(s.heads * s.steps * s.D),
        k(s.heads * s.steps * s.D),
        v(s.heads * s.steps * s.Dv),
        decay(s.heads * s.steps * (kind == Decay::feature ? s.D : 1)),
        beta(s.heads * s.steps),
        initial(s.heads * s.D * s.Dv) {
    const auto draw = [&](GuardedBuffer<T>& x, double low, double high) {
      for (std::int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(static_cast<float>(between(low, high)(random)));
    };
    const double size = 1 / std::sqrt(static_cast<double>(s.D));  // keys of norm below 1
    draw(q, -2, 2), draw(k, -size, size), draw(v, -2, 2), draw(decay, -1.5, 0), draw(beta, 0, 1), draw(initial, -1, 1);
    if (kind != Decay::none && s.steps > 2) decay[1] = -std::numeric_limits<T>::infinity();  // clears the state
    a.heads = s.heads, a.steps = s.steps, a.D = s.D, a.Dv = s.Dv, a.scale = T(0.5);
    a.q = q.data(), a.k = k.data(), a.v = v.data(), a.initial = initial.data();
    if (kind != Decay::none) a.decay = decay.data();
    a.by_feature = kind == Decay::feature;
    if (delta) a.beta = beta.data();
  }
};

// The largest difference of x from y, relative to 1 + |y|.
template <class T>
double difference(const std::vector<T>& x, const std::vector<double>& y) {
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double off = std::abs(static_cast<double>(x[i]) - y[i]) / (1 + std::abs(y[i]));
    worst = std::max(worst, std::isfinite(off) ? off : INFINITY);
  }
  return worst;
}

Tensor drawn(const Shape& shape, double low, double high, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return random_tensor(shape, Domain{low, high}, random);
}

// A problem of the operation; D = 8, Dv = 6.
struct Problem {
  std::int64_t T;
  Tensor q, k, v, beta, initial;
  explicit Problem(std::int64_t T)
      : T(T),
        q(drawn({2, 2, T, 8}, -1, 1, 1)),
        k(normalize(drawn({2, 2, T, 8}, -1, 1, 2))),
        v(drawn({2, 2, T, 6}, -1, 1, 3)),
        beta(drawn({2, 2, T}, 0, 1, 4)),
        initial(drawn({2, 2, 8, 6}, -1, 1, 5)) {}
  Tensor decay(Decay kind) const {
    return kind == Decay::none   ? Tensor()
           : kind == Decay::step ? drawn({2, 2, T}, -1, 0, 6)
                                 : drawn({2, 2, T, 8}, -1, 0, 6);
  }
};

}  // namespace

TEMPLATE_TEST_CASE("linear attention: the kernel computes the recurrence", "[attention][kernels]", float, double) {
  using T = TestType;
  each_isa([&] {
    for (const Sizes& s : sizes)
      for (const Decay kind : {Decay::none, Decay::step, Decay::feature})
        for (const bool delta : {false, true}) {
          INFO("steps " << s.steps << " D " << s.D << " Dv " << s.Dv << " decay " << static_cast<int>(kind) << " delta "
                        << delta);
          Call<T> call(s, kind, delta);
          Call<double> exact(s, kind, delta);
          GuardedBuffer<T> out(s.heads * s.steps * s.Dv), state(s.heads * s.D * s.Dv);
          kernels::linear_attention_forward<T>(call.a, out.data(), state.data(), {});
          std::vector<double> want(static_cast<std::size_t>(s.heads * s.steps * s.Dv)),
              last(static_cast<std::size_t>(s.heads * s.D * s.Dv));
          kernels::reference::linear_attention_forward<double>(exact.a, want.data(), last.data());
          const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-13;
          CHECK(difference(out.values(), want) <= tolerance);
          CHECK(difference(state.values(), last) <= tolerance);
          CHECK((out.guards_intact() && state.guards_intact()));
        }
  });
}

TEST_CASE("linear attention: step by step, and in any parts, it gives the same", "[attention]") {
  const Problem p(150);
  for (const Decay kind : {Decay::none, Decay::step, Decay::feature})
    for (const bool delta : {false, true})
      for (const bool normalized : {false, true}) {
        if (delta && normalized) continue;
        const Tensor decay = p.decay(kind);
        const auto part = [&](const Tensor& x, std::int64_t from, std::int64_t to) {
          return x.defined() ? slice(x, 2, from, to) : x;
        };
        const auto options = [&](std::int64_t from, std::int64_t to, const Tensor& state) {
          return Options()
              .decay(part(decay, from, to))
              .beta(delta ? part(p.beta, from, to) : Tensor())
              .normalize(normalized)
              .feature_map(normalized ? elu_plus_one : nullptr)
              .initial_state(state);
        };
        const LinearAttentionResult all = linear_attention(p.q, p.k, p.v, options(0, p.T, {}));
        for (const std::int64_t step : {1, 37}) {
          INFO("decay " << static_cast<int>(kind) << " delta " << delta << " step " << step);
          Tensor state;
          std::vector<Tensor> outputs;
          for (std::int64_t t = 0; t < p.T; t += step) {
            const std::int64_t end = std::min(t + step, p.T);
            const auto [y, next] =
                linear_attention(part(p.q, t, end), part(p.k, t, end), part(p.v, t, end), options(t, end, state));
            outputs.push_back(y), state = next;
          }
          CHECK(max_difference(cat(outputs, 2), all.output) <= 1e-12);
          CHECK(max_difference(state, all.state) <= 1e-12);
        }
      }
}

TEST_CASE("linear attention: values and gradients are those of transformers", "[attention][golden]") {
  const StateDict all = load_npz(FIT_GOLDEN_DIR "/linear_attention.npz");
  for (const DType dtype : {float64, float32}) {
    const double tolerance = dtype == float64 ? 1e-12 : 1e-5;
    const auto leaf = [&](const char* name) { return at(all, name).to(dtype).clone().detach().requires_grad_(); };
    const Tensor q = leaf("q"), k = leaf("k"), v = leaf("v"), g = leaf("g"), beta = leaf("beta"), S = leaf("S");
    const auto [y, state] = linear_attention(q, k, v, Options().decay(g).beta(beta).initial_state(S));
    CHECK(max_difference(y, at(all, "y")) <= tolerance);
    CHECK(max_difference(state, at(all, "state")) <= tolerance);
    (sum(y * at(all, "d_y").to(dtype)) + sum(state * at(all, "d_state").to(dtype))).backward();
    const std::pair<const char*, Tensor> leaves[] = {{"q", q}, {"k", k}, {"v", v}, {"g", g}, {"beta", beta}, {"S", S}};
    for (const auto& [name, x] : leaves) {
      INFO(name);
      CHECK(max_difference(x.grad(), at(all, std::string("d_") + name)) <= tolerance);
    }
  }
}

TEST_CASE("linear attention: retention is attention with powers of a factor", "[attention]") {
  const Problem p(70);
  const Tensor gamma = tensor({0.9, 0.5}).to(float64);
  const Tensor i = arange(70).to(float64), distance = unsqueeze(i, -1) - i;
  const Tensor powers = tril(pow(reshape(gamma, {2, 1, 1}), abs(distance)));
  const Tensor expected = matmul(matmul(p.q, transpose(p.k)) * powers, p.v);
  const Tensor y = linear_attention(p.q, p.k, p.v, Options().decay(log(gamma)).scale(1.0)).output;
  CHECK(max_difference(y, expected) <= 1e-12);
}

TEST_CASE("linear attention: the delta rule replaces the value of a key", "[attention]") {
  // Three keys, the first one twice: reading gives the value that was written last, or the sum.
  const Tensor k = reshape(tensor({{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 0, 0}}).to(float32), {1, 1, 4, 3});
  const Tensor v = reshape(tensor({1, 2, 3, 10}).to(float32), {1, 1, 4, 1});
  const auto read = [&](const Options& o) { return values(linear_attention(k, k, v, o).state); };
  CHECK(read(Options().beta(ones({1, 1, 4}))) == std::vector<double>{10, 2, 3});
  CHECK(read(Options()) == std::vector<double>{11, 2, 3});
  CHECK(read(Options().decay(tensor({{{0, 0, 0, -INFINITY}}}).to(float32))) == std::vector<double>{10, 0, 0});
}

TEST_CASE("linear attention: a NaN reaches what it reaches step by step, and nothing else", "[attention]") {
  for (const Decay kind : {Decay::none, Decay::step, Decay::feature})
    for (const bool delta : {false, true})
      for (int spoilt = 0; spoilt < 3; ++spoilt) {
        INFO("decay " << static_cast<int>(kind) << " delta " << delta << " NaN in input " << spoilt);
        const Problem p(100);
        std::vector<Tensor> in{p.q, p.k, p.v, p.initial};
        if (kind != Decay::none) in.push_back(p.decay(kind));
        if (delta) in.push_back(p.beta);
        in[spoilt].reshape({-1})[(100 + 70) * in[spoilt].size(3) + 3] = NAN;  // head 1, step 70
        for (Tensor& x : in) x.requires_grad_();
        auto o = Options().initial_state(in[3]);
        if (kind != Decay::none) o.decay(in[4]);
        if (delta) o.beta(in.back());
        const auto [y, state] = linear_attention(in[0], in[1], in[2], o);
        CHECK(all(isfinite(slice(y, 2, 0, 70))).item<bool>());
        CHECK(any(isnan(slice(y, 2, 70, 71))).item<bool>());
        const std::vector<Tensor> outputs{y, state}, seeds{random_like(y), random_like(state)};
        const std::vector<Tensor> fused = grad(outputs, in, seeds, retain_graph);
        const std::vector<Tensor> by_steps = grad(outputs, in, seeds, create_graph);
        for (std::size_t i = 0; i < in.size(); ++i) {
          INFO("gradient " << i);
          CHECK(max_difference(fused[i], by_steps[i]) <= 1e-12);
        }
      }
}

TEST_CASE("linear attention: no steps leave the state as it was", "[attention]") {
  const Tensor state = ones({2, 1, 2, 3}).requires_grad_(), none = zeros({2, 1, 0, 2}), v = zeros({2, 1, 0, 3});
  const auto [y, last] = linear_attention(none, none, v, Options().initial_state(state));
  CHECK(y.shape() == v.shape());
  CHECK(same_bits(last.detach(), state.detach()));
  sum(last * 2).backward();
  CHECK(same_bits(state.grad(), full({2, 1, 2, 3}, 2)));
  CHECK(same_bits(linear_attention(none, none, v).state, zeros({2, 1, 2, 3})));
}

TEST_CASE("linear attention: bits do not depend on the number of threads", "[attention]") {
  Problem p(300);
  for (const Decay kind : {Decay::step, Decay::feature}) {
    const Tensor decay = p.decay(kind);
    check_threads([&] {
      std::vector<Tensor> leaves{p.q, p.k, p.v, decay, p.beta, p.initial};
      for (Tensor& x : leaves) x = x.detach().to(float32).requires_grad_();
      const auto [y, state] = linear_attention(leaves[0], leaves[1], leaves[2],
                                               Options().decay(leaves[3]).beta(leaves[4]).initial_state(leaves[5]));
      (sum(y * y) + sum(state)).backward();
      std::vector<Tensor> all{reshape(y.detach(), {-1}), reshape(state.detach(), {-1})};
      for (const Tensor& x : leaves) all.push_back(reshape(x.grad(), {-1}));
      return cat(all);
    });
  }
}

TEST_CASE("linear attention: bfloat16 is computed in float32, and the state stays float32", "[attention][bfloat16]") {
  const Problem p(40);
  const Tensor q = p.q.to(bfloat16), k = p.k.to(bfloat16), v = p.v.to(bfloat16), decay = p.decay(Decay::step);
  const auto [y, state] = linear_attention(q, k, v, Options().decay(decay).beta(p.beta));
  const auto [z, exact] =
      linear_attention(q.to(float32), k.to(float32), v.to(float32), Options().decay(decay).beta(p.beta));
  CHECK(same_bits(y, z.to(bfloat16)));
  CHECK(state.dtype() == float32);
  CHECK(same_bits(state, exact));
}

}  // namespace fit::test::linear_attention_test
