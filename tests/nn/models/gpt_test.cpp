#include "fit/nn/models/gpt.hpp"

#include <cmath>

#include "fit/base/memory.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::gpt_test {
namespace {

nn::GPTOptions small(std::int64_t vocab = 11, std::int64_t context = 8, std::int64_t layers = 2) {
  return nn::GPTOptions().vocab_size(vocab).context_length(context).num_layers(layers).num_heads(4).d_model(16);
}

double deviation(const Tensor& x) { return std(x.detach()).item(); }

std::string message(const nn::GPTOptions& o) {
  try {
    nn::GPT gpt(o);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a GPT that computes its blocks again has the same bits in less memory", "[gpt]") {
  const Tensor ids = randint(0, 11, {16, 8}), targets = randint(0, 11, {16, 8});
  std::vector<Tensor> gradients[2];
  std::int64_t kept[2];
  for (const bool again : {false, true}) {
    manual_seed(4);
    nn::GPTOptions o = small(11, 8, 6);
    o.dropout(0.1).checkpoint_blocks(again);
    nn::GPT gpt(o);
    const std::int64_t before = memory_stats().live_bytes;
    const Tensor loss = gpt.loss(ids, targets);
    kept[again] = memory_stats().live_bytes - before;
    loss.backward();
    for (const Tensor& p : gpt.parameters()) gradients[again].push_back(p.grad());
  }
  REQUIRE(gradients[0].size() == gradients[1].size());
  for (std::size_t i = 0; i < gradients[0].size(); ++i) CHECK(same_bits(gradients[0][i], gradients[1][i]));
  CHECK(kept[1] < kept[0] / 4);
}

TEST_CASE("a GPT that computes its blocks again trains a prefix of keys and values", "[gpt]") {
  const Tensor ids = randint(0, 11, {3, 4});
  std::vector<Tensor> gradients[2];
  for (const bool again : {false, true}) {
    manual_seed(4);
    const nn::GPT gpt(small().checkpoint_blocks(again));
    std::vector<nn::KVCache::Layer> prefix;
    for (int i = 0; i < 2; ++i)
      prefix.push_back({randn({3, 4, 2, 4}).requires_grad_(), randn({3, 4, 2, 4}).requires_grad_()});
    Tensor loss;
    {
      std::vector<nn::KVCache::Layer> past = prefix;  // it doesn't live until backward()
      loss = sum(square(gpt(ids, past)));
    }
    loss.backward();
    for (const nn::KVCache::Layer& layer : prefix)
      for (const Tensor& t : {layer.keys, layer.values}) gradients[again].push_back(t.grad());
    for (const Tensor& p : gpt.parameters()) gradients[again].push_back(p.grad());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i) CHECK(same_bits(gradients[0][i], gradients[1][i]));
}

TEST_CASE("a GPT starts as GPT-2 does", "[gpt]") {
  manual_seed(1);
  nn::GPTOptions o = small(300, 200, 8);
  o.d_model(64);
  nn::GPT gpt(o);
  CHECK(deviation(gpt.wte.weight) == Approx(0.02).epsilon(0.05));
  CHECK(deviation(gpt.wpe->weight) == Approx(0.02).epsilon(0.05));
  for (nn::SequenceLayer& block : gpt.h) {
    CHECK(deviation(block.parameter("attn.qkv.weight")) == Approx(0.02).epsilon(0.05));
    CHECK(deviation(block.parameter("attn.proj.weight")) == Approx(0.005).epsilon(0.05));
    CHECK(deviation(block.parameter("mlp.fc.weight")) == Approx(0.02).epsilon(0.05));
    CHECK(deviation(block.parameter("mlp.proj.weight")) == Approx(0.005).epsilon(0.05));
    CHECK(equal(block.parameter("attn.qkv.bias"), zeros({192})));
  }
  CHECK(gpt.loss(zeros({1, 4}, int64), ones({1, 4}, int64)).item() == Approx(std::log(300.0)).epsilon(0.02));
}

TEST_CASE("a GPT draws each of its matrices once, and takes no memory beside them", "[gpt]") {
  nn::GPTOptions o = small(512, 64, 2);
  o.d_model(128);
  for (const bool tied : {true, false}) {
    o.tie_weights(tied);
    const std::uint64_t matrices = tied ? 2 + 2 * 4 : 3 + 2 * 4;
    empty_cache();
    const MemoryStats before = memory_stats();
    const std::uint64_t calls = default_generator().calls();
    nn::GPT gpt(o);
    CHECK(default_generator().calls() - calls == matrices);
    const MemoryStats after = memory_stats();
    // Blocks are up to a quarter larger than what they hold.
    CHECK(after.live_bytes - before.live_bytes < 5 * gpt.num_parameters() + 64 * 1024);
    CHECK(after.cached_bytes - before.cached_bytes < 64 * 1024);
    const auto copy = nn::clone(gpt);
    CHECK(default_generator().calls() - calls == matrices);
    CHECK(equal(copy->layer<nn::Linear>("h.1.mlp.fc").weight.detach(),
                gpt.layer<nn::Linear>("h.1.mlp.fc").weight.detach()));
  }
}

TEST_CASE("a GPT made under init::Skip takes up stored values", "[gpt]") {
  const nn::GPT trained(small());
  const std::uint64_t calls = default_generator().calls();
  const auto blank = [] {
    const nn::init::Skip guard;
    return std::make_unique<nn::GPT>(small());
  }();
  CHECK(default_generator().calls() == calls);
  blank->load_state_dict(trained.state_dict());
  const Tensor ids = tensor({{1, 2, 3}});
  CHECK(same_bits((*blank)(ids), trained(ids)));
}

TEST_CASE("a GPT's parameters have GPT-2's names", "[gpt]") {
  nn::GPT gpt(small());
  std::vector<std::string> names;
  for (const auto& [name, p] : gpt.named_parameters()) names.push_back(name);
  const std::vector<std::string> block = {"ln_1.weight",      "ln_1.bias",      "attn.qkv.weight", "attn.qkv.bias",
                                          "attn.proj.weight", "attn.proj.bias", "ln_2.weight",     "ln_2.bias",
                                          "mlp.fc.weight",    "mlp.fc.bias",    "mlp.proj.weight", "mlp.proj.bias"};
  std::vector<std::string> expected = {"wte.weight", "wpe.weight"};
  for (const char* layer : {"h.0.", "h.1."})
    for (const std::string& name : block) expected.push_back(layer + name);
  for (const char* name : {"ln_f.weight", "ln_f.bias"}) expected.push_back(name);
  CHECK(names == expected);  // the head is the table of embeddings
  CHECK(gpt.head.weight.raw() == gpt.wte.weight.raw());
  nn::GPTOptions o = small();
  o.tie_weights(false);
  CHECK(nn::GPT(o).num_parameters() == gpt.num_parameters() + 11 * 16);
}

TEST_CASE("a position of a GPT sees nothing after it", "[gpt]") {
  nn::GPT gpt(small());
  Tensor ids = tensor({{1, 2, 3, 4, 5}});
  const Tensor before = gpt(ids);
  ids[{0, 3}] = 9;
  const Tensor after = gpt(ids);
  CHECK(same_bits(slice(before, 1, 0, 3), slice(after, 1, 0, 3)));
  CHECK(max_difference(slice(before, 1, 3, 5), slice(after, 1, 3, 5)) > 1e-5);
}

TEST_CASE("a GPT's loss is the mean cross entropy of its logits", "[gpt]") {
  nn::GPT gpt(small());
  gpt.to(float64);
  const Tensor ids = tensor({{1, 2, 3}, {4, 5, 6}}), targets = tensor({{2, 3, -1}, {5, -1, 7}});
  const Tensor log_probabilities = log_softmax(gpt(ids));
  const double sum = log_probabilities[{0, 0, 2}].item() + log_probabilities[{0, 1, 3}].item() +
                     log_probabilities[{1, 0, 5}].item() + log_probabilities[{1, 2, 7}].item();
  CHECK(gpt.loss(ids, targets, -1).item() == Approx(-sum / 4).epsilon(1e-12));
}

TEST_CASE("training a GPT asks the system for nothing from the third step on", "[gpt][memory]") {
  struct Threads {  // which of several gets which piece, and so which block of scratch, is up to chance
    Threads() { set_num_threads(1); }
    ~Threads() { set_num_threads(before); }
    const int before = num_threads();
  } threads;
  const auto check = [](const char* name, nn::GPTOptions o) {
    INFO(name);
    nn::GPT gpt(o);
    optim::AdamW optimizer(gpt.named_parameters(), 1e-3);
    const Tensor ids = randint(0, 11, {2, 8}), targets = randint(0, 11, {2, 8});
    const auto step = [&] {
      optimizer.zero_grad();
      gpt.loss(ids, targets).backward();
      optim::clip_grad_norm_(gpt.named_parameters(), 1.0);
      optimizer.step();
    };
    step();
    step();
    const MemoryStats before = memory_stats();
    for (int i = 0; i < 5; ++i) step();
    CHECK(memory_stats().system_allocs == before.system_allocs);
    CHECK(memory_stats().live_blocks == before.live_blocks);
  };
  nn::GPTOptions o = small();
  check("plain", o);
  o.dropout(0.1);
  check("dropout", o);
  o.tie_weights(false).bias(false);
  check("no bias, a head of its own", o);
  o.activation(nn::Activation::swiglu).num_kv_heads(2).window(3);
  for (const nn::Positions p :
       {nn::Positions::none, nn::Positions::sinusoidal, nn::Positions::rotary, nn::Positions::alibi}) {
    o.positions(p);
    check(nn::name_of(p), o);
  }
}

TEST_CASE("each option of a GPT is its formula", "[gpt]") {
  manual_seed(5);
  const Tensor ids = tensor({{1, 2, 3, 4, 5}}), x = randn({1, 5, 16}, float64);
  const auto block = [](const nn::GPTOptions& o) {
    nn::GPTBlock b(o);
    b.to(float64);
    for (const auto& [name, p] : b.named_parameters()) nn::init::normal_(p, p.rank() == 1 ? 1 : 0, 0.3);
    return b;
  };
  const auto rms = [](const Tensor& z, const Tensor& w, double eps = 1e-6) {
    return z / sqrt(mean(square(z), -1, keepdims) + eps) * w;
  };

  SECTION("norms before and after") {
    nn::GPTBlock b = block(small().norm(nn::Norm::rms).norm_place(nn::NormPlace::both));
    const auto w = [&](const char* name) { return b.parameter(name); };
    const Tensor y = x + rms((*b.attn)(rms(x, w("ln_1.weight"))), w("post_ln_1.weight"));
    const Tensor z = y + rms((*b.mlp)(rms(y, w("ln_2.weight"))), w("post_ln_2.weight"));
    CHECK(max_difference(b(x), z) < 1e-12);
    nn::GPTBlock after = block(small().norm_place(nn::NormPlace::after));
    CHECK_FALSE(after.ln_1);
    const Tensor a = x + (*after.post_ln_1)((*after.attn)(x));
    CHECK(max_difference(after(x), a + (*after.post_ln_2)((*after.mlp)(a))) < 1e-12);
  }
  SECTION("queries and keys with norms, gates of heads") {
    nn::GPTBlock b = block(small().qk_norm().head_gates().num_kv_heads(2));
    auto& a = b.layer<nn::GPTAttention>("attn");
    const Tensor joint = a.qkv(x);
    const auto heads = [](const Tensor& part) { return reshape(part, {1, 5, part.size(2) / 4, 4}); };
    const auto flat = [](const Tensor& part) { return reshape(part, {1, 5, -1}); };
    const Tensor q = flat(rms(heads(slice(joint, 2, 0, 16)), a.q_norm->weight, 1e-5));
    const Tensor k = flat(rms(heads(slice(joint, 2, 16, 24)), a.k_norm->weight, 1e-5));
    const Tensor y = multi_head_attention(q, k, slice(joint, 2, 24, 32), 4, AttentionOptions().causal());
    const Tensor gated = flat(heads(y) * unsqueeze(sigmoid((*a.gate)(x)), -1));
    CHECK(max_difference(a(x), a.proj(gated)) < 1e-12);
  }
  SECTION("value embeddings") {
    nn::GPT gpt(small().value_embeddings().num_kv_heads(2));
    gpt.to(float64);
    auto& a = gpt.layer<nn::GPTAttention>("h.1.attn");
    nn::init::normal_(a.value_embedding->weight);
    nn::AttentionContext context;
    context.ids = ids;
    const Tensor joint = a.qkv(x), more = index_select(a.value_embedding->weight, 0, ids.flatten()).unsqueeze(0);
    const Tensor y = multi_head_attention(slice(joint, 2, 0, 16), slice(joint, 2, 16, 24),
                                          slice(joint, 2, 24, 32) + more, 4, AttentionOptions().causal());
    CHECK(max_difference(a(x, context), a.proj(y)) < 1e-12);
    CHECK_THROWS_WITH(a(x), Catch::Contains("value_embeddings needs"));
  }
  SECTION("a cap on the logits, and windows by layer") {
    nn::GPT gpt(small()), capped(small().logit_cap(0.5));
    for (nn::GPT* g : {&gpt, &capped}) g->to(float64);
    capped.load_state_dict(gpt.state_dict());
    CHECK(max_difference(capped(ids), 0.5 * tanh(gpt(ids) / 0.5)) < 1e-12);
    auto& a = capped.layer<nn::GPTAttention>("h.1.attn");
    nn::init::normal_(a.qkv.weight);
    nn::GPTAttention attention(small().attention_logit_cap(0.1));
    attention.to(float64);
    attention.load_state_dict(a.state_dict());
    const auto [q, k, v] = packed_heads(a.qkv(x), 4);
    const auto masks = AttentionOptions().causal().score([](Score s, At) { return 0.1 * tanh(s / 0.1); });
    const Tensor y = attention(x);
    CHECK(max_difference(y, a.proj(attend(q, k, v, masks).output)) < 1e-12);
    CHECK(max_difference(y, a(x)) > 1e-3);
    nn::GPT windows(small().windows({2, 0})), all(small());
    windows.load_state_dict(all.state_dict());
    const Tensor h = randn({1, 5, 16});
    CHECK(same_bits(windows.h[1](h), all.h[1](h)));
    all.h.replace(0, nn::GPTBlock(small().window(2)));
    all.load_state_dict(windows.state_dict());
    CHECK(same_bits(windows(ids), all(ids)));
  }
  SECTION("part of a head rotates") {
    const Tensor table = nn::rotary_table(5, 8, nn::RotaryTableOptions().features(4)), part = nn::rotary_table(5, 4);
    for (std::int64_t t = 0; t < 5; ++t)
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t k = 0; k < 2; ++k)
          CHECK(table[{t, i, k}].item() == (i < 2 ? part[{t, i, k}].item() : 1. - static_cast<double>(k)));
    // The first 4 of 8 interleaved features rotate as a head of 4.
    const Tensor z = randn({5, 8}, float64), y = rotary(z, table, RotaryOptions().layout(RotaryLayout::interleaved));
    CHECK(same_bits(slice(y, 1, 4, 8), slice(z, 1, 4, 8)));
    CHECK(same_bits(slice(y, 1, 0, 4),
                    rotary(slice(z, 1, 0, 4), part, RotaryOptions().layout(RotaryLayout::interleaved))));
    const auto ntk = nn::RotaryTableOptions().scaling(nn::RotaryScaling::ntk).factor(3);
    CHECK(max_difference(nn::rotary_table(5, 8, ntk), nn::rotary_table(5, 8, 1e4 * std::pow(3, 8. / 6))) < 1e-14);
  }
}

TEST_CASE("a GPT's errors", "[gpt]") {
  using Catch::Contains;
  nn::GPTOptions o = small();
  o.num_layers(0);
  CHECK_THAT(message(o), Contains("[GPT] num_layers is 0: it must be positive"));
  o = small();
  o.num_heads(3);
  CHECK_THAT(message(o), Contains("d_model is 16, num_heads is 3: num_heads must divide d_model"));
  o = small();
  o.num_kv_heads(3);
  CHECK_THAT(message(o), Contains("num_heads is 4, num_kv_heads is 3: num_kv_heads must divide num_heads"));
  CHECK_THAT(message(small().windows({2, -1})), Contains("a window of windows is -1: it must not be negative"));
  CHECK_THAT(message(small().logit_cap(-1)), Contains("logit_cap is -1: it must be finite and not negative"));
  CHECK_THAT(message(small().attention_logit_cap(-1)), Contains("attention_logit_cap is -1: it must be finite"));
  CHECK_THAT(message(small().positions(nn::Positions::rotary).rotary(nn::RotaryTableOptions().features(3))),
             Contains("[rotary_table] features is 3, D is 4"));
  CHECK_THAT(
      message(
          small().positions(nn::Positions::rotary).rotary(nn::RotaryTableOptions().scaling(nn::RotaryScaling::yarn))),
      Contains("original_length is 0"));
  const nn::GPT gpt(small());
  CHECK_THROWS_WITH(gpt(zeros({1, 9}, int64)), Contains("ids has shape [1, 9]") && Contains("context_length, 8"));
  CHECK_THROWS_WITH(gpt(zeros({4}, int64)), Contains("[B, T]"));
  CHECK_THROWS_AS(gpt(full({1, 2}, 11, int64)), Error);
  CHECK(gpt(zeros({2, 0}, int64)).shape() == Shape{2, 0, 11});
  CHECK(gpt(zeros({0, 3}, int64)).shape() == Shape{0, 3, 11});
}

}  // namespace fit::test::gpt_test
