#include "kernels/attention.hpp"
#include "support/catch.hpp"
#include "support/room.hpp"
#include "support/variants.hpp"

// Attention with operands of BFloat16 is that of floats with the same values (kernels_attention_test.cpp), rounded
// once.
namespace fit::test {
namespace {

// [B, S, H, D] with room between the heads, in BFloat16 and in floats.
struct Stack {
  std::int64_t B, H, S, D, gap = 3;
  Room<BFloat16> narrow;
  Room<float> wide;

  Stack(std::int64_t B, std::int64_t H, std::int64_t S, std::int64_t D)
      : B(B), H(H), S(S), D(D), narrow(B * S * H * (D + gap)), wide(B * S * H * (D + gap)) {}
  template <class T>
  kernels::HeadView<T> view(T* data) const {
    return {data, S * H * (D + gap), D + gap, H * (D + gap)};
  }
  template <class F>
  void each(const F& f) {
    for (std::int64_t r = 0; r < B * S * H; ++r)
      for (std::int64_t d = 0; d < D; ++d) f(r * (D + gap) + d);
  }
  Stack& draw(std::mt19937_64& random, const Draw& draw) {
    each([&](std::int64_t i) {
      narrow[i] = BFloat16(static_cast<float>(draw(random)));
      wide[i] = narrow[i];
    });
    return *this;
  }
  // Whether BFloat16 holds the floats, rounded, and nothing lies between the heads.
  bool rounded() {
    bool same = narrow.kept();
    std::vector<bool> used(static_cast<std::size_t>(B * S * H * (D + gap)));
    each([&](std::int64_t i) {
      const BFloat16 want(wide[i]);
      used[static_cast<std::size_t>(i)] = true;
      same =
          same && (narrow[i].bits == want.bits || (std::isnan(wide[i]) && std::isnan(static_cast<float>(narrow[i]))));
    });
    for (std::size_t i = 0; i < used.size(); ++i)
      same = same && (used[i] || narrow.untouched(static_cast<std::int64_t>(i)));
    return same;
  }
};

void check(std::int64_t B, std::int64_t H, std::int64_t kv_heads, std::int64_t Sq, std::int64_t Sk, bool causal,
           const Draw& draw) {
  INFO("B " << B << " H " << H << " of " << kv_heads << " Sq " << Sq << " Sk " << Sk << " causal " << causal);
  std::mt19937_64 random(3);
  const std::int64_t D = 5, Dv = 7, rows = B * H * Sq;
  Stack q(B, H, Sq, D), k(B, kv_heads, Sk, D), v(B, kv_heads, Sk, Dv), dout(B, H, Sq, Dv), out(B, H, Sq, Dv);
  Stack dq(B, H, Sq, D), dk(B, kv_heads, Sk, D), dv(B, kv_heads, Sk, Dv);
  q.draw(random, draw), k.draw(random, draw), v.draw(random, draw), dout.draw(random, draw);
  std::vector<float> bias, slopes(static_cast<std::size_t>(H), 0.25F);
  for (std::int64_t i = 0; i < rows * Sk; ++i) bias.push_back(static_cast<float>(between(-1, 1)(random)));
  const auto fill = [&](auto& a) {
    a.B = B, a.H = H, a.kv_heads = kv_heads, a.Sq = Sq, a.Sk = Sk, a.D = D, a.Dv = Dv;
    a.scale = 0.5, a.causal = causal, a.window = Sk, a.dropout = 0.25, a.key = {5, 6};
    a.bias = {bias.data(), H * Sq * Sk, Sq * Sk, Sk};
    a.alibi = slopes.data();
  };
  kernels::Attention<BFloat16> narrow;
  fill(narrow);
  narrow.q = q.view<const BFloat16>(q.narrow.data());
  narrow.k = k.view<const BFloat16>(k.narrow.data());
  narrow.v = v.view<const BFloat16>(v.narrow.data());
  kernels::Attention<float> wide;
  fill(wide);
  wide.q = q.view<const float>(q.wide.data());
  wide.k = k.view<const float>(k.wide.data());
  wide.v = v.view<const float>(v.wide.data());

  const auto n = static_cast<std::size_t>(rows);
  std::vector<float> stats(2 * n), wide_stats(2 * n), w(n * static_cast<std::size_t>(Sk)), wide_w(w.size());
  const bool finite = kernels::attention_forward<BFloat16>(narrow, out.view(out.narrow.data()), {&stats[0], &stats[n]});
  CHECK(finite == kernels::attention_forward<float>(wide, out.view(out.wide.data()), {&wide_stats[0], &wide_stats[n]}));
  CHECK(out.rounded());
  CHECK(std::memcmp(stats.data(), wide_stats.data(), stats.size() * sizeof(float)) == 0);
  kernels::attention_weights<BFloat16>(narrow, {&stats[0], &stats[n]}, w.data());
  kernels::attention_weights<float>(wide, {&stats[0], &stats[n]}, wide_w.data());
  CHECK(std::memcmp(w.data(), wide_w.data(), w.size() * sizeof(float)) == 0);

  out.each([&](std::int64_t i) { out.wide[i] = out.narrow[i]; });  // what the backward pass is given
  std::vector<float> dbias(bias.size()), wide_dbias(bias.size());
  const auto like_bias = [&](std::vector<float>& x) {
    return kernels::HeadView<float>{x.data(), H * Sq * Sk, Sq * Sk, Sk};
  };
  for (const bool look_out : {false, true}) {
    kernels::attention_backward<BFloat16>(
        narrow, out.view<const BFloat16>(out.narrow.data()), {&stats[0], &stats[n]},
        dout.view<const BFloat16>(dout.narrow.data()),
        {dq.view(dq.narrow.data()), dk.view(dk.narrow.data()), dv.view(dv.narrow.data()), like_bias(dbias)}, look_out);
    kernels::attention_backward<float>(
        wide, out.view<const float>(out.wide.data()), {&stats[0], &stats[n]}, dout.view<const float>(dout.wide.data()),
        {dq.view(dq.wide.data()), dk.view(dk.wide.data()), dv.view(dv.wide.data()), like_bias(wide_dbias)}, look_out);
    CHECK(dq.rounded());
    CHECK(dk.rounded());
    CHECK(dv.rounded());
    CHECK(std::memcmp(dbias.data(), wide_dbias.data(), dbias.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("attention of bfloat16 is that of floats, rounded", "[kernels][attention][bfloat16]") {
  each_isa([] {
    for (const bool causal : {false, true}) {
      check(1, 1, 1, 1, 1, causal, between(-2, 2));
      check(2, 4, 2, 33, 70, causal, between(-2, 2));
      check(3, 2, 1, 66, 65, causal, between(-2, 2));
      check(1, 2, 2, 9, 9, causal, sometimes({std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}, between(-2, 2), 40));
    }
  });
}

}  // namespace fit::test
