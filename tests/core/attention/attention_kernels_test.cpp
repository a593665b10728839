#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "attention/kernel/kernel.hpp"
#include "attention/plan.hpp"
#include "fit/base/memory.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// The kernels of attention.hpp, each against its reference with the rounding of every operation: heads side by side
// with room between them, off any alignment. What the operation makes of them is in attention_test.cpp.
namespace fit::test::attention_kernels_test {
namespace {

template <class T>
using W = AccT<T>;

// The spacing of numbers at 1.
template <class T>
double epsilon() {
  return std::is_same_v<T, BFloat16> ? 0x1p-7 : static_cast<double>(std::numeric_limits<W<T>>::epsilon());
}

// Of a number that is written, or multiplied, as T: BFloat16 rounds it, and its instructions take what is denormal for
// 0.
template <class T>
Rounded<W<T>> as(Rounded<W<T>> x) {
  if (std::is_same_v<T, BFloat16>)
    x.error += 0x1p-8L * (std::abs(x.value) + x.error) + static_cast<long double>(std::numeric_limits<W<T>>::min());
  return x;
}

// [B, S, H, D] with room between the heads.
template <class T>
struct Stack {
  std::int64_t B, H, S, D;
  GuardedBuffer<T> room;
  kernels::HeadView<T> heads;

  Stack(std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D, std::int64_t gap = 3)
      : B(B),
        H(H),
        S(S),
        D(D),
        room(B * S * H * (D + gap)),
        heads{room.data(), S * H * (D + gap), D + gap, H * (D + gap)} {}
  kernels::HeadView<const T> read() const { return {heads.data, heads.batch, heads.head, heads.row}; }
  T& operator()(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) { return heads.at(b, h, s)[d]; }
  Stack& draw(std::mt19937_64& random) {
    each([&](T& v, auto...) { v = static_cast<T>(between(-2, 2)(random)); });
    return *this;
  }
  template <class F>
  void each(const F& f) {
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t s = 0; s < S; ++s)
          for (std::int64_t d = 0; d < D; ++d) f((*this)(b, h, s, d), b, h, s, d);
  }
  // Whether the room between the heads is as it was.
  bool guards_intact() {
    std::vector<bool> used(static_cast<std::size_t>(B * S * heads.row));
    each([&](T& v, auto...) { used[static_cast<std::size_t>(&v - room.data())] = true; });
    bool all = room.guards_intact();
    for (std::size_t i = 0; i < used.size(); ++i)
      all = all && (used[i] || room.untouched(static_cast<std::int64_t>(i)));
    return all;
  }
};

struct AttentionForm {
  std::int64_t B, H, kv_heads, Sq, Sk, D, Dv;
  bool causal;
  std::int64_t window;
  bool mask, bias;
  double dropout;
  bool alibi = false;
  friend std::ostream& operator<<(std::ostream& out, const AttentionForm& f) {
    return out << "B " << f.B << " H " << f.H << " of " << f.kv_heads << " Sq " << f.Sq << " Sk " << f.Sk << " D "
               << f.D << " Dv " << f.Dv << " causal " << f.causal << " window " << f.window << " mask " << f.mask
               << " bias " << f.bias << " dropout " << f.dropout << " alibi " << f.alibi;
  }
};

// e^a, by way of 2^(a log2(e)); results under the smallest normal number may be 0.
template <class T>
Rounded<T> exp_of(const Rounded<T>& a, double units) {
  const Rounded<T> power = a * Rounded<T>::of(1 / std::log(2.L), 0);
  return exp(Rounded<T>{power.value * std::log(2.L), power.error * std::log(2.L)}, units, true);
}

template <class T>
struct Call {
  using R = Rounded<W<T>>;
  AttentionForm f;
  std::mt19937_64 random{11};
  Stack<T> q, k, v;
  Stack<W<T>> bias;
  Stack<bool> mask;
  std::vector<W<T>> slopes;
  std::vector<W<T>> factor;  // what dropout multiplies each weight by
  kernels::Attention<T> a;
  detail::TilePlan plan;

  explicit Call(const AttentionForm& f)
      : f(f),
        q(f.B, f.H, f.Sq, f.D),
        k(f.B, f.kv_heads, f.Sk, f.D),
        v(f.B, f.kv_heads, f.Sk, f.Dv),
        bias(f.B, f.H, f.Sq, f.Sk, 0),
        mask(f.B, f.H, f.Sq, f.Sk) {
    q.draw(random), k.draw(random), v.draw(random), bias.draw(random);
    mask.each([&](bool& m, std::int64_t, std::int64_t, std::int64_t i, std::int64_t) {
      m = i % 5 != 2 && random() % 3 != 0;
    });
    a.B = f.B, a.H = f.H, a.kv_heads = f.kv_heads, a.Sq = f.Sq, a.Sk = f.Sk, a.D = f.D, a.Dv = f.Dv;
    a.scale = double(W<T>(0.7)), a.causal = f.causal, a.window = f.window;
    a.q = q.read(), a.k = k.read(), a.v = v.read();
    read_mask();
    if (f.bias) a.bias = bias.read();
    for (std::int64_t h = 0; h < f.H; ++h) slopes.push_back(W<T>(0.3) / static_cast<W<T>>(h + 1));
    if (f.alibi) a.alibi = slopes.data();
    a.dropout = kernels::Dropout(f.dropout, {5, 6});
    const auto n = static_cast<std::size_t>(f.B * f.H * f.Sq * f.Sk);
    std::vector<std::uint32_t> words(n);
    kernels::random<W<T>>().words(words.data(), a.dropout.key, 0, static_cast<std::int64_t>(n));
    for (const std::uint32_t w : words)
      factor.push_back(f.dropout > 0 && w <= a.dropout.limit ? W<T>(0) : static_cast<W<T>>(a.dropout.kept));
  }
  void read_mask() {
    if (!f.mask) return;
    Tensor pairs = Tensor::empty({f.B, f.H, f.Sq, f.Sk}, boolean);
    bool* const to = pairs.fresh<bool>();
    mask.each([&](bool m, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      to[((b * f.H + h) * f.Sq + i) * f.Sk + j] = m;
    });
    plan = detail::plan_tiles("test", a, f.B, f.H, pairs);
    plan.apply(a);
  }
  std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t i) const { return (b * f.H + h) * f.Sq + i; }
  std::int64_t kv(std::int64_t h) const { return h / (f.H / f.kv_heads); }
  R dropped(std::int64_t r, std::int64_t j) const { return R(factor[static_cast<std::size_t>(r * f.Sk + j)]); }
  bool sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    const std::int64_t ahead = j - (i + f.Sk - f.Sq);
    return (!f.causal || ahead <= 0) && (f.window == 0 || std::abs(ahead) < f.window) && (!f.mask || mask(b, h, i, j));
  }
  // scale q k + bias - alibi |i + Sk - Sq - j|
  R score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    Sum<W<T>> s;
    for (std::int64_t d = 0; d < f.D; ++d) s.add(R(q(b, h, i, d)) * R(k(b, kv(h), j, d)));
    R score = s.in_chains() * R(static_cast<W<T>>(a.scale));
    if (f.bias) score = score + R(bias(b, h, i, j));
    if (f.alibi)
      score = score - R(slopes[static_cast<std::size_t>(h)]) * R(static_cast<W<T>>(std::abs(i + f.Sk - f.Sq - j)));
    return score;
  }
  template <class F>
  void each_row(const F& body) {
    for (std::int64_t b = 0; b < f.B; ++b)
      for (std::int64_t h = 0; h < f.H; ++h)
        for (std::int64_t i = 0; i < f.Sq; ++i) body(b, h, i);
  }
};

// check: whether the backward pass looks out for what isn't finite.
template <class T>
void check_call(const AttentionForm& f, bool check) {
  using R = Rounded<W<T>>;
  const bool native = kernels::isa() >= kernels::Isa::avx512_bf16 && f.Sq >= 8;
  // Weights and their gradients as they are multiplied.
  const auto factor = [native](const R& x, bool checked) { return native && !checked ? as<T>(x) : x; };
  INFO(f << ", check " << check << ", " << sizeof(T) << " bytes");
  Call<T> c(f);
  Stack<T> out(f.B, f.H, f.Sq, f.Dv);
  GuardedBuffer<W<T>> m(f.B * f.H * f.Sq), inv_l(f.B * f.H * f.Sq), w(f.B * f.H * f.Sq * f.Sk, 3);
  const kernels::SoftmaxStats<const W<T>> stats{m.data(), inv_l.data()};
  CHECK(kernels::attention_forward<T>(c.a, out.heads, {m.data(), inv_l.data()}));
  kernels::attention_weights<T>(c.a, stats, {0, f.B}, w.data());
  CHECK((out.guards_intact() && m.guards_intact() && inv_l.guards_intact() && w.guards_intact()));

  // The sum is one of e^(score - m), where m may have changed on the way: four units in all.
  Worst contexts, sums, weights;
  std::vector<std::vector<R>> P(static_cast<std::size_t>(f.B * f.H * f.Sq));  // those of the backward pass
  c.each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t r = c.row(b, h, i);
    std::vector<R> scores;
    for (std::int64_t j = 0; j < f.Sk; ++j) scores.push_back(c.score(b, h, i, j));
    Sum<W<T>> total;
    std::vector<Sum<W<T>>> context(static_cast<std::size_t>(f.Dv));
    for (std::int64_t j = 0; j < f.Sk; ++j) {
      const R& s = scores[static_cast<std::size_t>(j)];
      if (!c.sees(b, h, i, j)) {
        P[static_cast<std::size_t>(r)].push_back(R());
        continue;
      }
      const R p = exp_of(s - R(m[r]), 4);
      total.add(p);
      for (std::int64_t d = 0; d < f.Dv; ++d)
        context[static_cast<std::size_t>(d)].add(factor(p * c.dropped(r, j), false) * R(c.v(b, c.kv(h), j, d)));
      P[static_cast<std::size_t>(r)].push_back(exp_of(s - R(m[r]), 2) * R(inv_l[r]));
    }
    for (std::int64_t j = 0; j < f.Sk; ++j)
      weights.add(r * f.Sk + j, w[r * f.Sk + j], P[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)]);
    const R all = total.in_chains();
    const bool blind = total.terms == 0;
    if (blind) CHECK(inv_l[r] == 0);
    if (!blind) sums.add(r, inv_l[r], R(W<T>(1)) / all);
    for (std::int64_t d = 0; d < f.Dv; ++d)
      contexts.add(r * f.Dv + d, static_cast<W<T>>(out(b, h, i, d)),
                   blind ? R() : as<T>(context[static_cast<std::size_t>(d)].in_chains() * (R(W<T>(1)) / all)));
  });
  INFO("contexts " << contexts << "; sums " << sums << "; weights " << weights);
  CHECK(contexts.within_bounds());
  CHECK(sums.within_bounds());
  CHECK(weights.within_bounds());

  // P = e^(score - m) / l, dS = P (factor dO V' - sum(dO out)).
  Stack<T> d_out(f.B, f.H, f.Sq, f.Dv);
  d_out.draw(c.random);
  Stack<T> dq(f.B, f.H, f.Sq, f.D), dk(f.B, f.kv_heads, f.Sk, f.D), dv(f.B, f.kv_heads, f.Sk, f.Dv);
  Stack<W<T>> dbias(f.B, f.H, f.Sq, f.Sk, 0);
  std::vector<Sum<W<T>>> to_q(static_cast<std::size_t>(f.B * f.H * f.Sq * f.D)),
      to_k(static_cast<std::size_t>(f.B * f.kv_heads * f.Sk * f.D)),
      to_v(static_cast<std::size_t>(f.B * f.kv_heads * f.Sk * f.Dv));
  std::vector<R> to_bias;
  c.each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t r = c.row(b, h, i);
    Sum<W<T>> dots;
    for (std::int64_t d = 0; d < f.Dv; ++d) dots.add(R(d_out(b, h, i, d)) * R(out(b, h, i, d)));
    for (std::int64_t j = 0; j < f.Sk; ++j) {
      const std::int64_t key = (b * f.kv_heads + c.kv(h)) * f.Sk + j;
      const R& p = P[static_cast<std::size_t>(r)][static_cast<std::size_t>(j)];
      R ds;
      if (c.sees(b, h, i, j)) {
        Sum<W<T>> dp;
        for (std::int64_t d = 0; d < f.Dv; ++d) {
          dp.add(R(d_out(b, h, i, d)) * R(c.v(b, c.kv(h), j, d)));
          to_v[static_cast<std::size_t>(key * f.Dv + d)].add(factor(p * c.dropped(r, j), check) * R(d_out(b, h, i, d)));
        }
        ds = p * (dp.in_chains() * c.dropped(r, j) - dots.in_chains());
        for (std::int64_t d = 0; d < f.D; ++d) {
          to_q[static_cast<std::size_t>(r * f.D + d)].add(factor(ds, check) * R(c.k(b, c.kv(h), j, d)));
          to_k[static_cast<std::size_t>(key * f.D + d)].add(factor(ds, check) * R(c.q(b, h, i, d)));
        }
      }
      to_bias.push_back(ds);
    }
  });
  const kernels::AttentionGradients<T> to{dq.heads, dk.heads, dv.heads,
                                          f.bias ? dbias.heads : kernels::HeadView<W<T>>{}};
  kernels::attention_backward<T>({c.a, out.read(), stats, d_out.read(), to, check});
  Worst gradients;
  const auto against = [&](Stack<T>& x, const std::vector<Sum<W<T>>>& sums, W<T> scale) {
    x.each([&](T& got, std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
      const std::int64_t at = ((b * x.H + h) * x.S + s) * x.D + d;
      gradients.add(at, static_cast<W<T>>(got), as<T>(sums[static_cast<std::size_t>(at)].in_chains() * R(scale)));
    });
    CHECK(x.guards_intact());
  };
  const auto scale = static_cast<W<T>>(c.a.scale);
  against(dq, to_q, scale), against(dk, to_k, scale), against(dv, to_v, 1);
  if (f.bias)
    dbias.each([&](W<T>& got, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      const std::int64_t at = c.row(b, h, i) * f.Sk + j;
      gradients.add(at, got, to_bias[static_cast<std::size_t>(at)]);
    });
  INFO("gradients " << gradients);
  CHECK(gradients.within_bounds());
}

template <class T>
void check_calls() {
  const AttentionForm forms[] = {
      {4, 4, 2, 9, 5, 3, 3, false, 0, false, false, 0},        {1, 1, 1, 64, 70, 3, 24, false, 0, false, false, 0},
      {1, 1, 1, 64, 7, 3, 64, false, 0, false, false, 0},      {1, 1, 1, 1, 1, 1, 1, false, 0, false, false, 0},
      {1, 1, 1, 3, 7, 3, 5, true, 0, false, true, 0},          {2, 2, 1, 7, 33, 5, 3, false, 0, true, false, 0},
      {1, 2, 2, 33, 33, 7, 7, true, 0, true, true, 0.3},       {1, 4, 2, 33, 65, 3, 9, false, 0, false, false, 0.3},
      {3, 3, 3, 9, 65, 4, 4, true, 0, false, false, 0},        {1, 1, 1, 65, 130, 17, 33, true, 0, false, false, 0},
      {1, 1, 1, 130, 65, 3, 2, true, 0, true, true, 0},        {1, 2, 1, 70, 150, 2, 3, true, 20, false, true, 0.2},
      {1, 1, 1, 150, 70, 3, 3, false, 30, true, false, 0},     {1, 1, 1, 9, 257, 33, 257, false, 0, false, false, 0},
      {2, 8, 2, 5, 16, 16, 16, true, 0, false, false, 0},      {1, 1, 1, 300, 129, 2, 2, true, 65, false, false, 0.1},
      {2, 2, 1, 40, 70, 3, 5, true, 0, false, false, 0, true}, {1, 3, 3, 70, 33, 3, 3, false, 0, true, true, 0.2, true},
      {4, 2, 2, 66, 64, 8, 8, true, 0, false, true, 0},        {3, 2, 1, 17, 23, 9, 5, true, 0, true, false, 0},
      {2, 1, 1, 32, 64, 16, 7, true, 9, false, false, 0},      {2, 3, 1, 50, 40, 4, 64, false, 0, true, false, 0}};
  for (const AttentionForm& f : forms)
    for (const bool check : {false, true}) check_call<T>(f, check);
}

// Rubbish that nobody sees, in keys and values (and in queries whose gradients are 0), has no effect, however the work
// is cut; forward says that it has met some.
template <class T>
void check_hidden(std::int64_t B, std::int64_t Sk, T rubbish) {
  INFO(B << " heads, " << Sk << " keys, " << sizeof(T) << " bytes, " << static_cast<double>(rubbish));
  const AttentionForm f{B, 1, 1, 9, Sk, 3, 3, false, 0, true, true, 0.2};
  Call<T> c(f);
  c.mask.each([](bool& m, std::int64_t, std::int64_t, std::int64_t i, std::int64_t j) { m = j != 5 && i != 4; });
  c.read_mask();
  Stack<T> d_out(B, 1, 9, 3);
  d_out.draw(c.random);
  struct Result {
    Stack<T> out, dq, dk, dv;
    Stack<W<T>> dbias;
    bool finite;
    Result(const AttentionForm& f)
        : out(f.B, 1, f.Sq, f.Dv),
          dq(f.B, 1, f.Sq, f.D),
          dk(f.B, 1, f.Sk, f.D),
          dv(f.B, 1, f.Sk, f.Dv),
          dbias(f.B, f.H, f.Sq, f.Sk, 0) {}
  };
  const auto run = [&](T x, bool check) {
    for (std::int64_t d = 0; d < 3; ++d) c.k(0, 0, 5, d) = c.v(0, 0, 5, d) = c.q(0, 0, 4, d) = d_out(0, 0, 4, d) = x;
    c.bias(0, 0, 4, 7) = c.bias(0, 0, 7, 5) = static_cast<W<T>>(x);
    auto r = std::make_unique<Result>(f);
    std::vector<W<T>> m(static_cast<std::size_t>(B * 9)), inv_l(m.size());
    r->finite = kernels::attention_forward<T>(c.a, r->out.heads, {m.data(), inv_l.data()});
    kernels::attention_backward<T>({c.a,
                                    r->out.read(),
                                    {m.data(), inv_l.data()},
                                    d_out.read(),
                                    {r->dq.heads, r->dk.heads, r->dv.heads, r->dbias.heads},
                                    check});
    return r;
  };
  const auto clean = run(T(0), false);
  CHECK(clean->finite);
  for (const bool check : {false, true}) {
    const auto r = run(rubbish, check);
    CHECK_FALSE(r->finite);
    const auto compare = [](auto& got, auto& right) {
      double worst = 0;
      got.each([&](auto& x, std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
        const double off = std::abs(static_cast<double>(x) - static_cast<double>(right(b, h, s, d)));
        worst = off <= worst ? worst : off;  // a NaN is the worst
      });
      CHECK(worst < 64 * epsilon<T>());
    };
    compare(r->out, clean->out), compare(r->dq, clean->dq), compare(r->dk, clean->dk), compare(r->dv, clean->dv);
    compare(r->dbias, clean->dbias);
  }
}

// Fills with `byte` what the cache of buffers hands out next on this thread.
void fill_cache(int byte) {
  constexpr std::size_t most = 400'000;
  std::vector<std::pair<void*, detail::SizeClass>> held;
  for (detail::SizeClass c = detail::size_class(1); c.capacity <= most; c = detail::size_class(c.capacity + 1))
    for (int i = 0; i < 3; ++i) {
      held.emplace_back(detail::acquire(c), c);
      std::memset(held.back().first, byte, c.capacity);
    }
  for (const auto& [block, c] : held) detail::release(block, c);
}

// All that the kernels give for a call, after the cache of buffers was filled with `byte`.
template <class T>
std::vector<double> results_after(int byte, Call<T>& c, bool check) {
  const AttentionForm& f = c.f;
  Stack<T> out(f.B, f.H, f.Sq, f.Dv), d_out(f.B, f.H, f.Sq, f.Dv);
  Stack<T> dq(f.B, f.H, f.Sq, f.D), dk(f.B, f.kv_heads, f.Sk, f.D), dv(f.B, f.kv_heads, f.Sk, f.Dv);
  Stack<W<T>> w(f.B, f.H, f.Sq, f.Sk, 0), m(f.B, f.H, f.Sq, 1, 0), inv_l(f.B, f.H, f.Sq, 1, 0);
  std::mt19937_64 random(3);
  d_out.draw(random);
  fill_cache(byte);
  std::vector<double> all{double(kernels::attention_forward<T>(c.a, out.heads, {m.heads.data, inv_l.heads.data}))};
  kernels::attention_weights<T>(c.a, {m.heads.data, inv_l.heads.data}, {0, f.B}, w.heads.data);
  fill_cache(byte);
  kernels::attention_backward<T>(
      {c.a, out.read(), {m.heads.data, inv_l.heads.data}, d_out.read(), {dq.heads, dk.heads, dv.heads, {}}, check});
  const auto take = [&](auto& x) { x.each([&](auto v, auto...) { all.push_back(static_cast<double>(v)); }); };
  take(out), take(m), take(inv_l), take(w), take(dq), take(dk), take(dv);
  return all;
}

template <class T>
void check_old_memory(const AttentionForm& f) {
  Call<T> c(f);
  for (const bool check : {false, true}) {
    INFO(f << ", check " << check << ", " << sizeof(T) << " bytes");
    const std::vector<double> after_zeros = results_after(0, c, check), after_nan = results_after(255, c, check);
    CHECK(after_zeros[0] == 1);
    CHECK(std::all_of(after_zeros.begin(), after_zeros.end(), [](double x) { return std::isfinite(x); }));
    CHECK(after_nan == after_zeros);
  }
}

// A bias that elements of the batch, heads or rows share: its gradient is the sum of those of a bias for each.
template <class T>
void check_shared_bias(std::int64_t Sk, bool batch, bool head, bool row) {
  INFO(Sk << " keys, a bias for each" << (batch ? " element" : "") << (head ? " head" : "") << (row ? " row" : ""));
  const AttentionForm f{4, 4, 2, 9, Sk, 3, 3, false, 0, false, true, 0};
  Call<T> c(f);
  const std::int64_t B = batch ? f.B : 1, H = head ? f.H : 1, S = row ? f.Sq : 1;
  Stack<W<T>> shared(B, H, S, Sk, 0), d_each(f.B, f.H, f.Sq, Sk, 0);
  std::vector<W<T>> d_shared(static_cast<std::size_t>(B * H * S * Sk + 1), W<T>(7));  // the last is another's
  c.bias.each([&](W<T>& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    W<T>& at = shared(batch ? b : 0, head ? h : 0, row ? i : 0, j);
    at = std::isnan(at) ? x : at;
    x = at;
  });
  const auto view = [&](W<T>* x) {  // [B, H, S, Sk] in order, with strides of 0
    return kernels::HeadView<W<T>>{x, batch ? H * S * Sk : 0, head ? S * Sk : 0, row ? Sk : 0};
  };
  for (Stack<W<T>>* x : {&c.bias, &d_each}) x->heads = {x->room.data(), f.H * f.Sq * Sk, f.Sq * Sk, Sk};
  std::mt19937_64 random(5);
  Stack<T> out(f.B, f.H, f.Sq, f.Dv), d_out(f.B, f.H, f.Sq, f.Dv);
  Stack<T> dq(f.B, f.H, f.Sq, f.D), dk(f.B, f.kv_heads, Sk, f.D), dv(f.B, f.kv_heads, Sk, f.Dv);
  d_out.draw(random);
  std::vector<W<T>> m(static_cast<std::size_t>(f.B * f.H * f.Sq)), inv_l(m.size());
  const kernels::HeadView<W<T>> read = view(shared.heads.data);
  c.a.bias = {read.data, read.batch, read.head, read.row};
  kernels::attention_forward<T>(c.a, out.heads, {m.data(), inv_l.data()});
  for (const auto& to : {view(d_shared.data()), d_each.heads})
    kernels::attention_backward<T>(
        {c.a, out.read(), {m.data(), inv_l.data()}, d_out.read(), {dq.heads, dk.heads, dv.heads, to}, false});
  CHECK(d_shared.back() == 7);
  std::vector<double> sums(static_cast<std::size_t>(B * H * S * Sk));
  const auto index = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>((((batch ? b : 0) * H + (head ? h : 0)) * S + (row ? i : 0)) * Sk + j);
  };
  d_each.each([&](W<T>& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    sums[index(b, h, i, j)] += static_cast<double>(x);
  });
  double worst = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double off = std::abs(static_cast<double>(d_shared[i]) - sums[i]);
    worst = off <= worst ? worst : off;  // a NaN is the worst
  }
  CHECK(worst < 64 * static_cast<double>(std::numeric_limits<W<T>>::epsilon()));
}

template <class T>
void check_rows(std::int64_t rows, std::int64_t cols) {
  INFO("row_dots and copy_finite, " << rows << " x " << cols << " of " << sizeof(T) << " bytes");
  using R = Rounded<W<T>>;
  const kernels::AttentionTable<T>& table = kernels::attention_table(kernels::Attention<T>());
  std::mt19937_64 random(1);
  Stack<T> x(1, 1, rows, cols), y(1, 1, rows, cols, 5), to(1, 1, rows, cols, 2);
  Stack<W<T>> sums(1, 1, rows, cols);
  x.draw(random), y.draw(random), sums.draw(random);
  GuardedBuffer<W<T>> dots(rows);
  table.row_dots(rows, cols, x.room.data(), x.heads.row, y.room.data(), y.heads.row, dots.data());
  Worst worst;
  for (std::int64_t r = 0; r < rows; ++r) {
    Sum<W<T>> s;
    for (std::int64_t c = 0; c < cols; ++c) s.add(R(x(0, 0, r, c)) * R(y(0, 0, r, c)));
    worst.add(r, dots[r], s.in_chains(2));
  }
  INFO(worst);
  CHECK(worst.within_bounds());
  CHECK(dots.guards_intact());
  const auto copied = [&](bool finite) {
    CHECK(table.copy_finite(rows, cols, W<T>(0.5), sums.room.data(), sums.heads.row, to.room.data(), to.heads.row) ==
          finite);
    bool same = to.guards_intact();
    sums.each([&](W<T>& v, std::int64_t, std::int64_t, std::int64_t r, std::int64_t c) {
      const T half(v / 2);
      same = same && std::memcmp(&half, &to(0, 0, r, c), sizeof(T)) == 0;
    });
    CHECK(same);
  };
  using Limits = std::numeric_limits<W<T>>;
  copied(true);
  for (const W<T> bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    W<T>& at = sums(0, 0, static_cast<std::int64_t>(random() >> 1) % rows, cols - 1);
    at = bad;
    copied(false);
    at = Limits::max();
  }
  copied(true);
}

}  // namespace

TEST_CASE("attention's kernels are within the rounding of their references", "[kernels][attention]") {
  each_isa([] { check_calls<float>(), check_calls<double>(); });
}

TEST_CASE("attention's kernels of bfloat16 are within the rounding of their references", "[kernels][attention]") {
  each_bfloat16_isa([] { check_calls<BFloat16>(); });
}

TEST_CASE("attention's kernels keep out what is hidden and not finite", "[kernels][attention]") {
  const auto check_all = [](auto zero) {
    using T = decltype(zero);
    for (const std::int64_t heads : {1, 9})
      for (const std::int64_t keys : {33, 257})
        for (const double rubbish : {nan, inf}) check_hidden<T>(heads, keys, static_cast<T>(rubbish));
  };
  each_isa([&] { check_all(float()), check_all(double()); });
  each_bfloat16_isa([&] { check_all(BFloat16()); });
}

TEST_CASE("attention's kernels don't let in what stood in their memory before", "[kernels][attention]") {
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  set_num_threads(1);  // whose cache is filled
  const AttentionForm forms[] = {{1, 1, 1, 10, 7, 3, 3, false, 0, false, false, 0},
                                 {2, 2, 1, 33, 66, 5, 33, false, 0, true, false, 0.2},
                                 {4, 1, 1, 130, 65, 3, 2, true, 0, false, false, 0},
                                 {1, 2, 2, 70, 150, 40, 3, true, 20, false, false, 0}};
  const auto check_all = [&](auto zero) {
    for (const AttentionForm& f : forms) check_old_memory<decltype(zero)>(f);
  };
  each_isa([&] { check_all(float()), check_all(double()); });
  each_bfloat16_isa([&] { check_all(BFloat16()); });
}

TEST_CASE("the gradient of a bias that heads share is the sum of theirs, and nothing beside", "[kernels][attention]") {
  for (const std::int64_t keys : {9, 70, 200})
    for (const bool batch : {false, true})
      for (const bool head : {false, true})
        for (const bool row : {false, true}) {
          check_shared_bias<float>(keys, batch, head, row);
          check_shared_bias<double>(keys, batch, head, row);
        }
}

TEST_CASE("attention's rows are multiplied and copied as by plain loops", "[kernels][attention]") {
  each_isa([] {
    for (const std::int64_t rows : {1, 3, 7, 33, 64, 65, 257})
      for (const std::int64_t cols : {1, 3, 7, 16, 33, 257}) {
        check_rows<BFloat16>(rows, cols);
        check_rows<float>(rows, cols);
        check_rows<double>(rows, cols);
      }
  });
}

}  // namespace fit::test::attention_kernels_test
