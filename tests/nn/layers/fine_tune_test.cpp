// Training that goes on from weights that are there.
#include "fit/nn/layers/fine_tune.hpp"

#include <algorithm>

#include "fit/nn.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::fine_tune_test {
using Catch::Contains;
using fit::test::max_difference;
using fit::test::same_bits;

namespace {

nn::GPT small_gpt(bool tied = true) {
  const auto o =
      nn::GPTOptions().vocab_size(7).context_length(5).num_layers(2).num_heads(2).d_model(8).tie_weights(tied);
  return nn::GPT(o);
}

nn::LoraOptions attention_only() { return nn::LoraOptions().rank(2).alpha(4).layers({"h.*.attn.*"}); }

void train(nn::GPT& gpt, int steps) {
  const Tensor ids = tensor({{1, 2, 3, 4}, {5, 6, 0, 1}}), targets = tensor({{2, 3, 4, 5}, {6, 0, 1, 2}});
  optim::AdamW optimizer(gpt.named_parameters(), 1e-2);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    gpt.loss(ids, targets).backward();
    optimizer.step();
  }
}

std::vector<std::string> trainable(const nn::Layer& layer) {
  std::vector<std::string> names;
  for (const auto& [name, p] : layer.named_parameters())
    if (p.requires_grad()) names.push_back(name);
  return names;
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, x] : state) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("LoRA on a GPT: adapters alone are trained, saved, loaded elsewhere, and merged") {
  manual_seed(3);
  nn::GPT gpt = small_gpt();
  const auto base = nn::clone(gpt);
  const Tensor ids = tensor({{1, 2, 3, 4}}), before = gpt(ids).detach();
  const std::vector<std::string> plain = names_of(gpt.state_dict());
  CHECK(nn::add_lora(gpt, attention_only()) ==
        std::vector<std::string>{"h.0.attn.qkv", "h.0.attn.proj", "h.1.attn.qkv", "h.1.attn.proj"});
  CHECK(same_bits(gpt(ids).detach(), before));  // B starts with zeros
  CHECK(trainable(gpt).size() == 8);
  train(gpt, 10);
  const Tensor tuned = gpt(ids).detach();
  CHECK(max_difference(tuned, before) > 1e-2);

  const StateDict adapters = nn::lora_state_dict(gpt);
  CHECK(adapters.size() == 12);
  CHECK(at(adapters, "h.0.attn.qkv.lora_A.weight").shape() == Shape{2, 8});
  CHECK(at(adapters, "h.0.attn.qkv.lora_B.weight").shape() == Shape{24, 2});
  CHECK(at(adapters, "h.0.attn.qkv.lora_alpha").item() == 4);
  const test::Directory d;
  save_safetensors(d.file("adapter.safetensors"), adapters);
  nn::load_lora_state_dict(*base, load_safetensors(d.file("adapter.safetensors")).tensors);
  CHECK(same_bits((*base)(ids).detach(), tuned));
  CHECK(trainable(*base) == trainable(gpt));

  // What is loaded again goes into the adapters that are there: an optimiser goes on with them.
  const Tensor A = base->parameter("h.0.attn.qkv.weight.parametrization.A");
  train(*base, 1);
  CHECK_FALSE(same_bits(A.detach(), at(adapters, "h.0.attn.qkv.lora_A.weight")));
  nn::load_lora_state_dict(*base, adapters);
  CHECK(same_bits(A.detach(), at(adapters, "h.0.attn.qkv.lora_A.weight")));
  CHECK(same_bits((*base)(ids).detach(), tuned));

  const Tensor w = base->layer<nn::Linear>("h.0.attn.qkv").weight.original().detach().clone();
  nn::merge_lora(*base);
  CHECK(names_of(base->state_dict()) == plain);
  CHECK(max_difference((*base)(ids).detach(), tuned) < 1e-6);
  CHECK(trainable(*base).empty());
  // W + alpha / rank B A
  const Tensor expected =
      w + 2 * matmul(at(adapters, "h.0.attn.qkv.lora_B.weight"), at(adapters, "h.0.attn.qkv.lora_A.weight"));
  CHECK(max_difference(base->layer<nn::Linear>("h.0.attn.qkv").weight.detach(), expected) < 1e-7);
}

TEST_CASE("LoRA on a bfloat16 base, and on its int8 weights: trained in float32, saved, resumed, loaded and merged") {
  const bool int8_base = GENERATE(false, true);
  INFO((int8_base ? "int8" : "bfloat16"));
  const Tensor ids = tensor({{1, 2, 3, 4}, {5, 6, 0, 1}}), targets = tensor({{2, 3, 4, 5}, {6, 0, 1, 2}});
  const auto base = [&] {
    manual_seed(3);
    nn::GPT gpt = small_gpt();
    gpt.to(bfloat16);
    if (int8_base) nn::quantize_(gpt);
    return gpt;
  };
  nn::GPT gpt = base();
  const Tensor before = gpt(ids).detach();
  CHECK(before.dtype() == bfloat16);
  nn::add_lora(gpt, attention_only());
  CHECK(same_bits(gpt(ids).detach(), before));  // B starts with zeros
  for (const auto& [name, p] : gpt.named_parameters()) CHECK(p.dtype() == (p.requires_grad() ? float32 : bfloat16));
  CHECK(trainable(gpt).size() == 8);

  const double first = gpt.loss(ids, targets).item();
  optim::AdamW optimizer(gpt.named_parameters(), 0.05);
  const auto step = [&](nn::GPT& model, optim::AdamW& o) {
    o.zero_grad();
    const Tensor loss = model.loss(ids, targets);
    loss.backward();
    for (const auto& [name, p] : model.named_parameters())
      if (p.has_grad()) CHECK(p.grad().dtype() == float32);
    o.step();
    return loss.item();
  };
  for (int i = 0; i < 60; ++i) step(gpt, optimizer);
  CHECK(gpt.loss(ids, targets).item() < 0.95 * first);

  // The training goes on from a checkpoint, to the bit.
  const test::Directory d;
  Checkpoint().add("model", gpt).add("optimizer", optimizer).save(d.file("last"));
  nn::GPT resumed = base();
  nn::add_lora(resumed, attention_only());
  optim::AdamW other(resumed.named_parameters(), 0.05);
  Checkpoint().add("model", resumed).add("optimizer", other).load(d.file("last"));
  for (int i = 0; i < 3; ++i) CHECK(step(gpt, optimizer) == step(resumed, other));

  // Where it is used.
  const Tensor tuned = gpt(ids).detach();
  save_safetensors(d.file("adapter"), nn::lora_state_dict(gpt));
  nn::GPT used = base();
  nn::load_lora_state_dict(used, load_safetensors(d.file("adapter")).tensors);
  CHECK(same_bits(used(ids).detach(), tuned));
  nn::merge_lora(used);
  CHECK(used.layer<nn::Linear>("h.0.attn.qkv").weight.dtype() == bfloat16);
  CHECK(same_bits(used(ids).detach(), tuned));  // the sum was rounded to bfloat16 before, too
}

TEST_CASE("LoRA passes a weight over that layers share, and takes one that is its layer's own") {
  nn::GPT tied = small_gpt(), free = small_gpt(false);
  CHECK(nn::add_lora(tied).size() == 8);  // qkv, proj, fc and proj of two blocks
  CHECK(nn::add_lora(free).back() == "head");
  CHECK(tied.head.weight.frozen());
  const auto o = nn::LoraOptions().layers({"head"});
  nn::GPT again = small_gpt();
  CHECK_THROWS_WITH(nn::add_lora(again, o), "[add_lora] no Linear of GPT has a weight of its own that is asked for");
  CHECK(trainable(again).size() == again.named_parameters().size());
}

TEST_CASE("adapters of another rank leave those that are there, and what was unfrozen, to train") {
  nn::GPT gpt = small_gpt();
  nn::add_lora(gpt, attention_only());
  nn::unfreeze(gpt, {"*.ln_1.*"});
  const std::vector<std::string> before = trainable(gpt);
  CHECK(nn::add_lora(gpt, nn::LoraOptions().rank(1).layers({"h.*.mlp.*"})).size() == 4);
  const std::vector<std::string> after = trainable(gpt);
  CHECK(after.size() == before.size() + 8);
  for (const std::string& name : before) CHECK(std::count(after.begin(), after.end(), name) == 1);
  nn::GPT other = small_gpt();
  nn::load_lora_state_dict(other, nn::lora_state_dict(gpt));
  CHECK(trainable(other).size() == 16);
}

TEST_CASE("weights with adapters for a model without them, and the other way round, are told with the cure") {
  nn::GPT plain = small_gpt(), adapted = small_gpt();
  nn::add_lora(adapted, attention_only());
  const StateDict of_plain = plain.state_dict(), of_adapted = adapted.state_dict();
  CHECK_THROWS_WITH(
      plain.load_state_dict(of_adapted),
      Contains("the state holds adapters or parametrised weights: nn::add_lora()") && !Contains("perhaps"));
  CHECK_THROWS_WITH(
      adapted.load_state_dict(of_plain),
      Contains("the model has adapters or parametrised weights: load plain weights before") && !Contains("perhaps"));
  nn::GPT quantised = small_gpt();
  nn::quantize_(quantised);
  nn::add_lora(quantised, attention_only());
  CHECK_THROWS_WITH(plain.load_state_dict(quantised.state_dict()),
                    Contains("nn::quantize_() the model before") && Contains("nn::add_lora() or nn::parametrize()"));
}

TEST_CASE("LoRA on a Linear that is the model itself") {
  nn::Linear linear(3, 2), other(3, 2);
  other.load_state_dict(linear.state_dict());
  CHECK(nn::add_lora(linear, nn::LoraOptions().rank(1)) == std::vector<std::string>{""});
  linear.parameter("weight.parametrization.B").detach().fill_(0.5);
  const StateDict state = nn::lora_state_dict(linear);
  CHECK(names_of(state) == std::vector<std::string>{"lora_A.weight", "lora_B.weight", "lora_alpha"});
  nn::load_lora_state_dict(other, state);
  CHECK(same_bits(other(ones({1, 3})), linear(ones({1, 3}))));
  CHECK_THROWS_WITH(nn::add_lora(linear), "[add_lora] the weight of Linear is parametrised already");
  CHECK_THROWS_WITH(nn::load_lora_state_dict(other, {{".lora_A.weight", ones({1, 3})}}),
                    Contains("unexpected: .lora_A.weight"));
}

TEST_CASE("adapters that can't be added or loaded are refused, and nothing has changed") {
  nn::Sequential none{nn::ReLU()};
  CHECK_THROWS_WITH(nn::add_lora(none), "[add_lora] Sequential has no Linear");
  nn::GPT gpt = small_gpt();
  const std::size_t all = trainable(gpt).size();
  CHECK_THROWS_WITH(nn::add_lora(gpt, nn::LoraOptions().rank(0)), "[add_lora] rank is 0: it must be positive");
  CHECK_THROWS_WITH(nn::add_lora(gpt, nn::LoraOptions().alpha(INFINITY)), "[add_lora] alpha is inf: it must be finite");
  CHECK_THROWS_WITH(nn::add_lora(gpt, nn::LoraOptions().alpha(0)), Contains("[add_lora] alpha is 0: the adapters"));
  CHECK_THROWS_WITH(nn::add_lora(gpt, nn::LoraOptions().layers({"h.0.attn.qkw"})),
                    "[add_lora] nothing is called 'h.0.attn.qkw', where * stands for one or more letters: do you mean "
                    "'h.0.attn.qkv'?");
  CHECK_THROWS_WITH(
      nn::add_lora(gpt, nn::LoraOptions().layers({"attn.qkv"})),
      "[add_lora] nothing is called 'attn.qkv', where * stands for one or more letters: a pattern is of a "
      "full name, such as '*.attn.qkv' of 'h.0.attn.qkv'");
  CHECK_THROWS_WITH(nn::add_lora(gpt, nn::LoraOptions().layers({"q_proj_of_another_model"})),
                    Contains(": there are h.0.attn.qkv, h.0.attn.proj, "));
  CHECK_THROWS_WITH(nn::lora_state_dict(gpt), "[lora_state_dict] GPT has no adapters: add_lora() adds them");
  CHECK_THROWS_WITH(nn::merge_lora(gpt), "[merge_lora] GPT has no adapters: add_lora() adds them");
  CHECK_THROWS_WITH(nn::load_lora_state_dict(gpt, {}), "[load_lora_state_dict] there are no adapters");
  CHECK(trainable(gpt).size() == all);

  nn::GPT other = small_gpt();
  nn::add_lora(other, attention_only());
  StateDict state = nn::lora_state_dict(other);
  CHECK_THROWS_WITH(nn::add_lora(other), "[add_lora] the weight of h.0.attn.qkv is parametrised already");
  state[0].second = zeros({2, 9});  // h.0.attn.qkv.lora_A.weight
  state.erase(state.begin() + 5);   // h.0.attn.proj.lora_alpha
  state.emplace_back("h.7.attn.qkv.lora_A.weight", zeros({2, 8}));
  state.emplace_back("h.0.attn.qkv.bias", zeros({24}));
  CHECK_THROWS_WITH(
      nn::load_lora_state_dict(gpt, state),
      Contains("[load_lora_state_dict] GPT does not fit; nothing was loaded:") &&
          Contains("unexpected: h.0.attn.qkv.bias") && Contains("unexpected: no Linear is called h.7.attn.qkv") &&
          Contains("h.0.attn.qkv: lora_A is float32 [2, 9], lora_B float32 [24, 2]: for a weight of [24, 8] they must "
                   "be [rank, 8] and [24, rank]") &&
          Contains("h.0.attn.proj: one of lora_A.weight, lora_B.weight and lora_alpha is missing"));
  CHECK(trainable(gpt).size() == all);
  CHECK_FALSE(gpt.layer<nn::Linear>("h.1.attn.qkv").weight.parametrized());

  // Each part of an adapter may be wrong alone.
  const StateDict good = nn::lora_state_dict(other);
  const auto with = [&](std::size_t i, const Tensor& x) {
    StateDict changed = good;
    changed[i].second = x;  // 0: h.0.attn.qkv.lora_A.weight, 1: lora_B.weight, 2: lora_alpha
    return changed;
  };
  for (const auto& [changed, why] : std::vector<std::pair<StateDict, std::string>>{
           {with(0, Tensor()), "is missing"},
           {with(1, Tensor()), "is missing"},
           {with(2, Tensor()), "is missing"},
           {with(0, ones({2, 8}, int64)), "lora_A is int64 [2, 8]"},
           {with(1, ones({24, 2}, int64)), "lora_B int64 [24, 2]"},
           {with(0, ones({16})), "lora_A is float32 [16]"},
           {with(1, ones({48})), "lora_B float32 [48]"},
           {with(0, ones({0, 8})), "lora_A is float32 [0, 8]"},
           {with(1, ones({24, 3})), "lora_B float32 [24, 3]"},
           {with(2, ones({2})), "it must be one finite number"},
           {with(2, tensor(static_cast<double>(INFINITY))), "lora_alpha is inf"},
           {with(2, tensor(5.)), "it has rank 2 and alpha 5, the adapter that is there 2 and 4"}}) {
    INFO(why);
    nn::GPT& to = why.find("the adapter that is there") == std::string::npos ? gpt : other;
    CHECK_THROWS_WITH(nn::load_lora_state_dict(to, changed), Contains("nothing was loaded") && Contains(why));
  }
  CHECK_THROWS_WITH(nn::load_lora_state_dict(gpt, {{"x", ones({1})}, {"lora_alpha", ones({1})}}),
                    Contains("unexpected: x\n") && Contains("unexpected: GPT itself is no Linear"));
  nn::GPT scaled = small_gpt();
  nn::parametrize(scaled.layer<nn::Linear>("h.0.attn.qkv").weight, nn::Lambda([](const Tensor& w) { return w * 2; }));
  CHECK_THROWS_WITH(nn::load_lora_state_dict(scaled, good),
                    Contains("h.0.attn.qkv: the weight is parametrised already"));
  CHECK_THROWS_WITH(nn::merge_lora(scaled), "[merge_lora] GPT has no adapters: add_lora() adds them");

  nn::GPT third = small_gpt();
  nn::add_lora(third);
  CHECK_THROWS_WITH(nn::load_lora_state_dict(third, nn::lora_state_dict(other)),
                    Contains("missing: h.0.mlp.fc") &&
                        Contains("it has rank 2 and alpha 4, the adapter that is there 8 and 16: they must be alike"));
}

TEST_CASE("parameters are frozen by the patterns of their names") {
  nn::GPT gpt = small_gpt();
  nn::freeze(gpt, {"w*e.weight", "h.0.*"});
  for (const auto& [name, p] : gpt.named_parameters()) {
    INFO(name);
    CHECK(p.requires_grad() == (name.rfind("h.1.", 0) == 0 || name.rfind("ln_f.", 0) == 0));
  }
  nn::unfreeze(gpt, {"h.0.ln_1.bias"});
  CHECK(gpt.layer<nn::LayerNorm>("h.0.ln_1").weight.frozen());
  CHECK_FALSE(gpt.layer<nn::LayerNorm>("h.0.ln_1").bias.frozen());
  CHECK_THROWS_WITH(nn::freeze(gpt, {"h.1.*", "h.2.*"}), Contains("[freeze] nothing is called 'h.2.*'"));
  CHECK_FALSE(gpt.layer<nn::LayerNorm>("h.1.ln_1").bias.frozen());
  CHECK_THROWS_WITH(nn::unfreeze(gpt, {"wte.wait"}), Contains("do you mean 'wte.weight'?"));
}

TEST_CASE("groups have rates of their own by name, and keep their other options") {
  nn::GPT gpt = small_gpt();
  const auto options = optim::AdamWOptions().lr(0.1).weight_decay(0.5);
  const auto groups =
      optim::with_rates(optim::decay_groups(gpt, options), {{"h.0.*", 0.2}, {"h.*", 0.3}, {"wpe.weight", 0}});
  std::map<std::string, std::pair<double, double>> found;  // rate and decay
  for (const auto& group : groups)
    for (const auto& [name, p] : group.parameters.named())
      CHECK(found.emplace(name, std::pair(group.options.lr(), group.options.weight_decay())).second);
  CHECK(found.size() == gpt.named_parameters().size());
  for (const auto& [name, both] : found) {
    INFO(name);
    CHECK(both.first == (name == "wpe.weight" ? 0 : name.rfind("h.0.", 0) == 0 ? 0.2 : name[0] == 'h' ? 0.3 : 0.1));
    CHECK(both.second == (gpt.parameter(name).rank() >= 2 ? 0.5 : 0));
  }
  optim::AdamW optimizer(groups);
  CHECK(optimizer.groups() == groups.size());
  const Tensor table = gpt.wpe->weight.detach().clone();
  gpt.loss(tensor({{1, 2}}), tensor({{2, 3}})).backward();
  optimizer.step();
  CHECK(same_bits(gpt.wpe->weight.detach(), table));  // a rate of 0
  CHECK_THROWS_WITH(optim::with_rates(groups, {{"g.*", 1}}), Contains("[split_by_name] nothing is called 'g.*'"));
}

}  // namespace fit::test::fine_tune_test
