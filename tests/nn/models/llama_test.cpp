// GPTs with the parts of Llama and Qwen 3, beside Hugging Face's (tests/golden/llama.py).
#include "fit/io/safetensors.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "weights/maps.hpp"

namespace fit::test::llama_test {
namespace {

const StateDict& cases() {
  static const StateDict all = load_safetensors(FIT_GOLDEN_DIR "/llama.safetensors").tensors;
  return all;
}

StateDict under(const std::string& before) {
  StateDict some;
  for (const auto& [name, x] : cases())
    if (name.rfind(before, 0) == 0) some.emplace_back(name.substr(before.size()), x);
  return some;
}

nn::GPTOptions llama() {
  return nn::family_options("llama")
      .vocab_size(13)
      .context_length(16)
      .num_layers(2)
      .num_heads(4)
      .num_kv_heads(2)
      .d_model(16)
      .hidden(24)
      .norm_eps(1e-6);
}

void check_model(const std::string& name, const nn::GPTOptions& o) {
  INFO(name);
  nn::GPT gpt(o);
  const StateDict theirs = under(name + "/state/");
  const nn::NameMap names = nn::llama_names(gpt);
  nn::load_weights(gpt, theirs, names);
  for (const auto& [key, x] : nn::to_theirs(gpt.state_dict(), names)) {
    INFO(key);
    CHECK(same_bits(x.detach(), at(theirs, key)));
  }
  const Tensor ids = at(cases(), name + "/ids"), expected = at(cases(), name + "/logits"), logits = gpt(ids);
  const double size = max(abs(expected)).item();
  CHECK(max_difference(logits, expected) < 1e-4 * size);
  gpt.loss(ids[{range(), range(0, -1)}], ids[{range(), range(1)}]).backward();
  StateDict gradients;
  for (const auto& [key, p] : gpt.named_parameters()) gradients.emplace_back(key, p.grad());
  const StateDict ours = nn::to_theirs(gradients, names);
  for (const auto& [key, g] : under(name + "/gradient/")) {
    INFO(key);
    CHECK(max_difference(at(ours, key), g) < 1e-4 * std::max(1., max(abs(g)).item()));
  }
  // Token by token.
  const NoGrad no_grad;
  nn::KVCache cache = gpt.make_cache(2);
  std::vector<Tensor> steps;
  for (std::int64_t t = 0; t < ids.size(1); ++t) steps.push_back(gpt(slice(ids, 1, t, t + 1), cache));
  CHECK(max_difference(cat(steps, 1), expected) < 1e-4 * size);
  const std::vector<std::int64_t> text = at(cases(), name + "/generated").flatten().to_vector<std::int64_t>();
  const nn::Tokens prompt(text.begin(), text.begin() + 4), rest(text.begin() + 4, text.end());
  CHECK(nn::generate(gpt, {prompt}, nn::GenerateOptions().max_new_tokens(10).temperature(0))[0] == rest);
}

}  // namespace

TEST_CASE("Llama and Qwen 3 by their names", "[golden][weights]") {
  check_model("llama", llama());
  check_model("yarn", llama().tie_weights(true).rotary(
                          nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn).factor(4).original_length(4)));
  check_model("qwen3", llama().tie_weights(true).head_size(6).qk_norm().norm_eps(1e-5).rotary(
                           nn::RotaryTableOptions().base(100)));
  const auto scaled = nn::RotaryTableOptions().scaling(nn::RotaryScaling::llama3).factor(4).original_length(8);
  check_model("llama3", llama().tie_weights(true).rotary(nn::RotaryTableOptions(scaled).beta_slow(0.5).beta_fast(2)));
}

TEST_CASE("scaled rotary positions have Hugging Face's angles", "[golden]") {
  const auto check = [](const std::string& kind, const nn::RotaryTableOptions& o) {
    INFO(kind);
    const std::vector<float> expected = at(cases(), "rope/" + kind).to_vector<float>();
    const Tensor table = nn::rotary_table(2, 16, o);
    REQUIRE(expected.size() == 9);
    for (std::int64_t i = 0; i < 8; ++i) {
      const double cosine = table[{1, i, 0}].item(), sine = table[{1, i, 1}].item();
      CHECK(std::atan2(sine, cosine) == Approx(expected[static_cast<std::size_t>(i)]).epsilon(1e-6));
      CHECK(std::hypot(sine, cosine) == Approx(expected[8]).epsilon(1e-6));
    }
  };
  check("linear", nn::RotaryTableOptions().scaling(nn::RotaryScaling::linear).factor(8));
  check("yarn", nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn).factor(8).original_length(64));
  check("llama3", nn::RotaryTableOptions().scaling(nn::RotaryScaling::llama3).factor(8).original_length(64));
}

TEST_CASE("yarn has the lengths and the pairs of Hugging Face's options", "[weights]") {
  // transformers.modeling_rope_utils._compute_yarn_parameters, in plain formulas. Pairs of one turn, of a DeepSeek-V3:
  // rope_theta 10000, 64 features, factor 40, 4096 positions.
  const auto yarn = nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn).original_length(4096).factor(40);
  const auto lengths = [](const nn::RotaryTableOptions& o) {
    const Tensor table = nn::rotary_table(3, 64, o), length = sqrt(sum(square(table), -1));
    CHECK(max(length).item() == Approx(min(length).item()).epsilon(1e-14));
    return length[{2, 5}].item();
  };
  const auto o = [&] { return nn::RotaryTableOptions(yarn); };
  CHECK(lengths(o()) == Approx(1.3688879454113936).epsilon(1e-14));  // 0.1 ln 40 + 1
  CHECK(lengths(o().attention_factor(1.25)) == Approx(1.25).epsilon(1e-14));
  CHECK(lengths(o().mscale(1).mscale_all_dim(1)) == Approx(1).epsilon(1e-14));
  // (0.0707 ln 40 + 1) / (0.1 ln 40 + 1)
  CHECK(lengths(o().mscale(0.707).mscale_all_dim(1)) == Approx(0.9210423553163399).epsilon(1e-14));
  CHECK(lengths(o().mscale(0.707).mscale_all_dim(1).attention_factor(2)) == Approx(2).epsilon(1e-14));
  CHECK(lengths(o().factor(0.5)) == Approx(1).epsilon(1e-14));
  CHECK(lengths(o().factor(0.5).mscale(0.3).mscale_all_dim(2)) == Approx(1).epsilon(1e-14));

  // The angles of pair 15 of 32: the ramp goes from pair 10 to pair 23 (10.47 and 22.51 without truncate).
  const auto angle = [](const nn::RotaryTableOptions& options) {
    const Tensor table = nn::rotary_table(2, 64, options);
    return std::atan2(table[{1, 15, 1}].item(), table[{1, 15, 0}].item());
  };
  const double plain = std::pow(10000., -30 / 64.), pairs = 64 / (2 * std::log(10000.));
  const double low = pairs * std::log(4096 / (32 * 2 * std::acos(-1.))),
               high = pairs * std::log(4096 / (2 * std::acos(-1.)));
  CHECK(std::floor(low) == 10);
  CHECK(std::ceil(high) == 23);
  const auto ramp = [&](double from, double to) {
    const double slowed = (15 - from) / (to - from);
    return plain / 40 * slowed + plain * (1 - slowed);
  };
  CHECK(angle(yarn) == Approx(ramp(10, 23)).epsilon(1e-12));
  CHECK(angle(o().truncate(false)) == Approx(ramp(low, high)).epsilon(1e-12));
}

}  // namespace fit::test::llama_test
