// What those find who come from TransformerLens: names of values and of weights, scales of norms, heads of one's own
// attention.
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "fit/tensor/random.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

using namespace fit;
using Catch::Matchers::Contains;
using nn::Lens;

namespace fit::test::transformer_lens_test {
namespace {

constexpr std::int64_t V = 11, T = 6, C = 12, H = 3, D = 4, M = 20;

nn::GPTOptions sizes() {
  return nn::GPTOptions().vocab_size(V).context_length(T).num_layers(2).num_heads(H).d_model(C).hidden(M).tie_weights(
      false);
}

nn::GPT gpt_of(const nn::GPTOptions& options) {
  manual_seed(1);
  nn::GPT gpt(options);
  const NoGrad no_grad;
  for (const auto& [name, parameter] : gpt.named_parameters()) Tensor(parameter).add_(0.3 * randn(parameter.shape()));
  gpt.to(float64);
  gpt.eval();
  return gpt;
}

// A state of TransformerLens with random numbers.
StateDict their_state() {
  StateDict s;
  const auto add = [&](const std::string& name, const Shape& shape) {
    s.emplace_back(name, randn(shape, float64) / 2);
  };
  add("embed.W_E", {V, C}), add("pos_embed.W_pos", {T, C});
  for (const std::string b : {"blocks.0.", "blocks.1."}) {
    for (const std::string ln : {"ln1.", "ln2."}) add(b + ln + "w", {C}), add(b + ln + "b", {C});
    for (const std::string part : {"Q", "K", "V"})
      add(b + "attn.W_" + part, {H, C, D}), add(b + "attn.b_" + part, {H, D});
    add(b + "attn.W_O", {H, D, C}), add(b + "attn.b_O", {C});
    add(b + "mlp.W_in", {C, M}), add(b + "mlp.b_in", {M}), add(b + "mlp.W_out", {M, C}), add(b + "mlp.b_out", {C});
    s.emplace_back(b + "attn.mask", ones({T, T}) != 0);
  }
  add("ln_final.w", {C}), add("ln_final.b", {C}), add("unembed.W_U", {C, V}), add("unembed.b_U", {V});
  return s;
}

// Their forward pass, by its formula.
Tensor their_logits(const StateDict& s, const Tensor& ids) {
  const auto w = [&](const std::string& name) { return at(s, name); };
  const auto norm = [&](const Tensor& x, const std::string& ln) {
    return layer_norm(x, w(ln + "w"), w(ln + "b"), 1e-5);
  };
  Tensor x = w("embed.W_E")[ids] + w("pos_embed.W_pos")[{range(0, ids.size(1))}];
  for (const std::string b : {"blocks.0.", "blocks.1."}) {
    const Tensor n = norm(x, b + "ln1.");
    const auto part = [&](const std::string& p) {
      return einsum("btc,hcd->bthd", {n, w(b + "attn.W_" + p)}) + w(b + "attn.b_" + p);
    };
    const Tensor scores = einsum("bqhd,bkhd->bhqk", {part("Q"), part("K")}) / 2.;  // sqrt(D)
    const Tensor causal = tril(ones({ids.size(1), ids.size(1)})) != 0;
    const Tensor pattern = softmax(where(causal, scores, full({1}, -INFINITY, float64)));
    const Tensor z = einsum("bhqk,bkhd->bqhd", {pattern, part("V")});
    x = x + einsum("bqhd,hdc->bqc", {z, w(b + "attn.W_O")}) + w(b + "attn.b_O");
    const Tensor pre = matmul(norm(x, b + "ln2."), w(b + "mlp.W_in")) + w(b + "mlp.b_in");
    x = x + matmul(gelu(pre, Gelu::tanh), w(b + "mlp.W_out")) + w(b + "mlp.b_out");
  }
  return matmul(norm(x, "ln_final."), w("unembed.W_U")) + w("unembed.b_U");
}

// An attention of one's own.
struct OwnAttention final : nn::SequenceLayer {
  using SequenceLayer::forward;
  Tensor forward(const Tensor& x, const nn::AttentionContext& context) const override {
    return nn::project_heads(proj, inner.forward(x, context), 2);
  }
  FIT_FIELDS(inner, proj)
  nn::SelfAttention inner{C, 2, 0.0};
  nn::Linear proj{C, C};
};

}  // namespace

TEST_CASE("weights of TransformerLens give its logits, and are written back", "[lens][weights]") {
  nn::GPT gpt = gpt_of(sizes());
  const StateDict state = their_state();
  CHECK_THROWS_WITH(nn::load_weights(gpt, state, nn::transformer_lens_names(gpt)),
                    Contains("'unembed.b_U' has no counterpart here: GPTOptions().tie_weights(false).head_bias(true)"));
  gpt.head.bias = nn::Parameter(zeros({V}, float64));
  nn::load_weights(gpt, state, nn::transformer_lens_names(gpt));
  const Tensor ids = tensor({{1, 5, 3, 10, 0}, {2, 2, 7, 8, 9}});
  CHECK(allclose(gpt(ids), their_logits(state, ids), 1e-10, 1e-10));
  const StateDict back = nn::to_theirs(gpt.state_dict(), nn::transformer_lens_names(gpt));
  CHECK(back.size() == state.size() - 2);  // without the masks
  for (const auto& [name, x] : back) CHECK(same_bits(x, at(state, name)));
  CHECK_THROWS_WITH(nn::transformer_lens_names(nn::GPT(sizes().positions(nn::Positions::rotary))),
                    Contains("positions is rotary: these weights of TransformerLens need learned"));
  nn::GPT with_bias(sizes().tie_weights(false).head_bias(true));
  with_bias.to(float64);
  nn::load_weights(with_bias, state, nn::transformer_lens_names(with_bias));
  CHECK(same_bits(with_bias(ids), gpt(ids)));
  const nn::NameMap heads = {nn::flatten("W", "w", 3)};
  CHECK_THROWS_WITH(nn::to_ours({{"W", ones({4, 2})}}, heads),
                    Contains("its first axis must be 3, with another behind it"));
  CHECK_THROWS_WITH(nn::to_theirs({{"w", ones({4, 2})}}, heads), Contains("its first axis must have 3 equal parts"));
}

TEST_CASE("a name of TransformerLens is told ours", "[lens]") {
  const nn::GPT gpt = gpt_of(sizes());
  const Lens lens(gpt);
  const Tensor ids = tensor({{1, 2, 3}});
  CHECK_THROWS_WITH(
      lens.run(ids, {"blocks.0.attn.hook_pattern"}),
      Contains("nothing is called 'blocks.0.attn.hook_pattern', which is a name of TransformerLens: here it "
               "is 'h.0.attn.weights'"));
  CHECK_THROWS_WITH(lens.with("blocks.*.hook_mlp_out", nn::zero()).run(ids), Contains("here it is 'h.*.mlp.out'"));
  const nn::LensRun run = lens.run(ids);
  CHECK_THROWS_WITH(run["hook_embed"], Contains("here it is 'wte.out'"));
  // Each of their names has a value here.
  const auto ours = [&](const std::string& theirs) -> std::string {
    try {
      run[theirs];
    } catch (const Error& e) {
      const std::string what = e.what(), here = "here it is '";
      if (const std::size_t begin = what.find(here); begin != std::string::npos)
        return what.substr(begin + here.size(), what.size() - begin - here.size() - 1);
    }
    return "";
  };
  for (const std::string name : {"hook_embed",
                                 "hook_pos_embed",
                                 "blocks.1.hook_resid_pre",
                                 "blocks.1.hook_resid_mid",
                                 "blocks.1.hook_resid_post",
                                 "blocks.1.hook_attn_out",
                                 "blocks.1.hook_mlp_out",
                                 "blocks.1.ln1.hook_scale",
                                 "blocks.1.ln1.hook_normalized",
                                 "blocks.1.ln2.hook_scale",
                                 "blocks.1.ln2.hook_normalized",
                                 "blocks.1.attn.hook_q",
                                 "blocks.1.attn.hook_k",
                                 "blocks.1.attn.hook_v",
                                 "blocks.1.attn.hook_attn_scores",
                                 "blocks.1.attn.hook_pattern",
                                 "blocks.1.attn.hook_z",
                                 "blocks.1.attn.hook_result",
                                 "blocks.1.mlp.hook_pre",
                                 "blocks.1.mlp.hook_post",
                                 "ln_final.hook_scale",
                                 "ln_final.hook_normalized"}) {
    INFO(name);
    CHECK(run[ours(name)].defined());
  }
}

TEST_CASE("the scale of a norm is read, frozen and patched", "[lens]") {
  const auto norm = GENERATE(nn::Norm::layer, nn::Norm::rms);
  const nn::GPT gpt = gpt_of(sizes().norm(norm));
  const Lens lens(gpt);
  const Tensor ids = tensor({{1, 2, 3}}), other = tensor({{4, 5, 6}});
  const nn::LensRun run = lens.run(ids);
  const Tensor x = run["h.1.resid_mid"], centred = norm == nn::Norm::layer ? x - mean(x, -1, keepdims) : x;
  const double eps = norm == nn::Norm::layer ? 1e-5 : 1e-6;
  CHECK(allclose(run["h.1.ln_2.scale"], sqrt(mean(centred * centred, -1, keepdims) + eps), 1e-12));
  CHECK(
      allclose(lens.with("*.scale", nn::from(run)).run(ids, {}).output, run.output, 1e-12, 1e-12));  // the same numbers
  // With a scale that stays, the output of a norm is linear in its input.
  const Lens frozen = lens.with("ln_f.scale", nn::from(run));
  const auto of = [&](double by) {
    return frozen.with("ln_f.in", [&](const Tensor& in) { return in * by; }).run(ids, {"ln_f.out"})["ln_f.out"];
  };
  CHECK(allclose(of(3) - of(2), of(2) - of(1), 1e-10, 1e-10));
  CHECK(!allclose(frozen.run(other, {}).output, gpt(other), 1e-6, 1e-6));
}

TEST_CASE("an attention of one's own offers what its heads add", "[lens]") {
  manual_seed(4);
  const OwnAttention own;
  const Tensor x = randn({2, 5, C});
  const Lens lens(own);
  const auto call = [&] { return own(x); };
  const nn::LensRun run = lens.run(call, {"head_out", "inner.out"});
  CHECK(run["head_out"].shape() == Shape{2, 2, 5, C});
  CHECK(allclose(sum(run["head_out"], 1) + own.proj.bias.value(), run.output, 1e-5, 1e-5));
  const Tensor without = lens.with("head_out", nn::head(1), nn::zero()).run(call, {}).output;
  CHECK(allclose(without, run.output - run["head_out"][{range(), 1}], 1e-5, 1e-5));
}

}  // namespace fit::test::transformer_lens_test
