#include <cmath>
#include <type_traits>

#include "fit/backward/gradcheck.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/layer/parametrize.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/fine_tune.hpp"
#include "fit/nn/layers/recurrent.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/optim/more/lbfgs.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/tensor/lookup.hpp"
#include "nn/models/trained.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/option_names.hpp"

// What went wrong without a word: each is right now, or an Error that names the cure.
namespace fit::test::silent_mistakes_test {
namespace {

using Catch::Matchers::Contains;

nn::GPTOptions small() {
  return nn::GPTOptions().vocab_size(11).context_length(8).num_layers(2).num_heads(4).d_model(16).positions(
      nn::Positions::rotary);
}

Tensor leaf(const Tensor& value) { return value.clone().requires_grad_(); }

// As a schedule does, and a Trainer.
template <class O, class = void>
struct TakenAsOptimizer : std::false_type {};
template <class O>
struct TakenAsOptimizer<O, std::void_t<decltype(optim::StepLR(std::declval<O&>(), 3))>> : std::true_type {};

}  // namespace

TEST_CASE("every option of a model is saved with its weights, except what changes no result", "[silent]") {
  const Directory folder;
  const auto check = [&](const nn::Layer& model, const std::string& type, const std::string& header,
                         const std::string& before) {
    const std::string path = folder.file("model.safetensors");
    nn::save_weights(path, model);
    const auto saved = load_safetensors(path).metadata;
    const std::vector<std::string> names = option_names(type, "nn/include/fit/nn/" + header);
    CHECK(names.size() >= 4);
    for (const std::string& name : names) {
      const std::string key = "options." + before + name;
      const auto next = saved.lower_bound(key);  // or those of a struct in it: "options.rotary.base"
      INFO(key);
      CHECK((name == "checkpoint_blocks" || (next != saved.end() && next->first.compare(0, key.size(), key) == 0)));
    }
  };
  const nn::GPT gpt(small());
  check(gpt, "GPTOptions", "models/gpt.hpp", "");
  check(gpt, "RotaryTableOptions", "layers/position.hpp", "rotary.");
  const nn::BERT bert(nn::BERTOptions().vocab_size(9).num_layers(1).d_model(8).num_heads(2));
  check(bert, "BERTOptions", "models/bert.hpp", "");
  check(bert, "TransformerLayerOptions", "models/transformer.hpp", "");
}

TEST_CASE("weights go only into a model with the options that they were saved with", "[silent]") {
  const Directory folder;
  const std::string path = folder.file("gpt.safetensors");
  manual_seed(3);
  const nn::GPT gpt(
      small().windows({4, 0}).rotary(nn::RotaryTableOptions().base(5000)).norm(nn::Norm::rms).dropout(0.1));
  nn::save_weights(path, gpt);
  CHECK(load_safetensors(path).metadata.at("options.num_heads") == "4");

  for (const auto& [options, difference] : std::vector<std::pair<nn::GPTOptions, std::string>>{
           {nn::GPTOptions(gpt.options()).num_heads(8).num_kv_heads(8).head_size(2),
            "num_heads is 4 in the file, 8 here"},
           {nn::GPTOptions(gpt.options()).rotary(nn::RotaryTableOptions()),
            "rotary.base is 5000 in the file, 10000 here"},
           {nn::GPTOptions(gpt.options()).windows({4, 2}), "windows is {4, 0} in the file, {4, 2} here"},
           {nn::GPTOptions(gpt.options()).norm_eps(1e-5), "norm_eps is"}}) {
    nn::GPT other(options);
    const nn::StateDict before = copied(other);
    CHECK_THROWS_WITH(nn::load_weights(other, path), Contains(difference) && Contains("GPT::load(path)"));
    CHECK(same_state(other.state_dict(), before));
    CHECK_NOTHROW(nn::load_weights(other, load_safetensors(path).tensors));  // by those who mean it
  }
  nn::GPT undropped(nn::GPTOptions(gpt.options()).dropout(0));
  CHECK_NOTHROW(nn::load_weights(undropped, path));

  const nn::GPT again = nn::GPT::load(path);
  CHECK(same_state(again.state_dict(), gpt.state_dict()));
  CHECK(again.options().rotary().base() == 5000);
  CHECK(again.options().windows() == std::vector<std::int64_t>{4, 0});
  CHECK(again.options().dropout() == 0.1);
  const Tensor ids = tensor({{1, 2, 3, 4, 5, 6}});
  undropped.eval();
  nn::GPT loaded = nn::GPT::load(path);
  loaded.eval();
  CHECK(same_bits(loaded(ids).detach(), undropped(ids).detach()));
  save_safetensors(path, gpt.state_dict());
  CHECK_THROWS_WITH(nn::GPT::load(path), Contains("has no options of a GPT") && Contains("load_weights()"));
  CHECK_NOTHROW(nn::load_weights(undropped, path));  // a file of others says nothing
  save_safetensors(path, gpt.state_dict(), {{"options.vocab_size", "11"}, {"options.num_heads", "many"}});
  CHECK_THROWS_WITH(nn::GPT::load(path), Contains("the option num_heads is 'many'"));
}

TEST_CASE("checkpoints hold the options of their models, too", "[silent]") {
  const Directory folder;
  const std::string path = folder.file("last.safetensors");
  nn::GPT gpt(small());
  Checkpoint checkpoint;
  checkpoint.add("model", gpt).save(path);
  CHECK_NOTHROW(checkpoint.load(path));
  CHECK(same_state(nn::GPT::load(path).state_dict(), gpt.state_dict()));
  nn::GPT other(small().window(3));
  Checkpoint wrong;
  wrong.add("model", other);
  CHECK_THROWS_WITH(wrong.load(path), Contains("model.window is 0 in the file, 3 here"));
  CHECK_THROWS_WITH(load_from_checkpoint(path, other), Contains("model.window is 0 in the file, 3 here"));
  nn::BERT bert(nn::BERTOptions().vocab_size(9).num_layers(1).d_model(8).num_heads(2));
  nn::save_weights(path, bert);
  nn::BERT heads(nn::BERTOptions().vocab_size(9).num_layers(1).d_model(8).num_heads(4));
  CHECK_THROWS_WITH(nn::load_weights(heads, path), Contains("num_heads is 2 in the file, 4 here"));
}

TEST_CASE("weights of layers go only into those with their heads, activation and order of norms", "[silent]") {
  const Directory folder;
  const std::string path = folder.file("weights.safetensors");
  const auto options = nn::TransformerLayerOptions().d_model(8).num_heads(2).activation(nn::Activation::gelu);
  struct Net : nn::Layer {
    explicit Net(const nn::TransformerLayerOptions& o) : stack(o, 2), attention(8, o.num_heads()) {}
    FIT_FIELDS_ONLY(stack, attention)
    nn::TransformerEncoder stack;
    nn::CrossAttention attention;
  };
  nn::save_weights(path, Net(options));
  Net same(options);
  nn::load_weights(same, path);
  for (const auto& [other, difference] : std::vector<std::pair<nn::TransformerLayerOptions, std::string>>{
           {nn::TransformerLayerOptions(options).num_heads(4),
            "attention.multihead_attn.num_heads is 2 in the file, 4"},
           {nn::TransformerLayerOptions(options).num_heads(4),
            "stack.layers.1.self_attn.num_heads is 2 in the file, 4"},
           {nn::TransformerLayerOptions(options).activation(nn::Activation::relu),
            "stack.layers.0.mlp.activation is gelu in the file, relu here"},
           {nn::TransformerLayerOptions(options).norm_first(true).final_norm(false),
            "stack.layers.0.norm_first is false in the file, true here"}}) {
    Net net(other);
    CHECK_THROWS_WITH(nn::load_weights(net, path), Contains(difference));
    CHECK_NOTHROW(nn::load_weights(net, load_safetensors(path).tensors));
  }
  const nn::BERT bert(nn::BERTOptions().vocab_size(9).num_layers(1).d_model(8).num_heads(2));
  nn::save_weights(path, bert);
  for (const auto& [key, value] : load_safetensors(path).metadata) {
    INFO(key);
    CHECK(key.find("layers.") == std::string::npos);  // the model says them for its layers
  }
}

TEST_CASE("adapters go only into a model with their alpha", "[silent]") {
  const Directory folder;
  const std::string path = folder.file("last.safetensors"), weights = folder.file("weights.safetensors");
  const auto adapted = [&](double alpha) {
    auto gpt = std::make_unique<nn::GPT>(small());
    nn::add_lora(*gpt, nn::LoraOptions().rank(2).alpha(alpha).layers({"h.0.attn.qkv"}));
    return gpt;
  };
  const auto gpt = adapted(16), same = adapted(16), other = adapted(0.5);
  Checkpoint().add("model", *gpt).save(path);
  nn::save_weights(weights, *gpt);
  const nn::StateDict before = copied(*other);
  const std::string alpha = "h.0.attn.qkv.weight.parametrization.alpha is 16 in the file, 0.5 here";
  CHECK_THROWS_WITH(Checkpoint().add("model", *other).load(path), Contains("model." + alpha));
  CHECK_THROWS_WITH(nn::load_weights(*other, weights), Contains(alpha));
  CHECK(same_state(other->state_dict(), before));
  Checkpoint().add("model", *same).load(path);
  nn::load_weights(*same, weights);
  CHECK(same_state(same->state_dict(), gpt->state_dict()));
}

TEST_CASE("a norm has one default of eps, alone and in a GPT", "[silent]") {
  const auto eps = [](const nn::GPTOptions& o) { return nn::GPT(o).options().norm_eps(); };
  CHECK(eps(small()) == 1e-5);
  CHECK(eps(small().norm(nn::Norm::rms)) == 1e-6);
  CHECK(eps(small().norm(nn::Norm::rms).norm_eps(1e-3)) == 1e-3);
  const nn::GPT gpt(small().norm(nn::Norm::rms));
  CHECK(gpt.ln_f->str() == nn::RMSNorm(16).str());
  CHECK_THROWS_WITH(nn::GPT(small().norm_eps(-1)), Contains("[GPT] norm_eps is -1"));
}

TEST_CASE("LBFGS tells of a closure without gradients, and is no Optimizer", "[silent]") {
  Tensor w = leaf(tensor({3., -2.}, float64));
  optim::LBFGS lbfgs({w});
  const std::string told = "[LBFGS] no trained parameter has a gradient after the closure, whose loss is 13";
  CHECK_THROWS_WITH(lbfgs.step([&] { return sum(square(w)); }), Contains(told) && Contains("loss.backward()"));
  CHECK_THROWS_WITH(lbfgs.step([&] {
    const NoGrad off;
    return sum(square(w));
  }),
                    Contains(told));
  w.set_grad(ones({2}, float64));  // of before
  CHECK_THROWS_WITH(lbfgs.step([&] { return sum(square(w)); }), Contains(told));
  CHECK(values(w.detach()) == std::vector<double>{3, -2});
  lbfgs.step([&] {  // without zero_grad()
    const Tensor loss = sum(square(w));
    loss.backward();
    return loss;
  });
  CHECK(max(abs(w)).item() < 1e-6);
  STATIC_REQUIRE_FALSE(TakenAsOptimizer<optim::LBFGS>::value);
  STATIC_REQUIRE(TakenAsOptimizer<optim::AdamW>::value);
}

TEST_CASE("a resumed training goes on with the order of its validation", "[silent]") {
  const auto run = [](std::int64_t stop, const std::string& out, bool resume, bool restore_first = false) {
    Trained t(quiet(stop, out).resume(resume));
    if (restore_first) t.trainer.restore();
    data::DataLoader checks(small_data(), data::LoaderOptions().batch_size(40).shuffle().seed(5));
    std::vector<double> first;  // the first token of each validation
    t.trainer.validation(checks, 2);
    t.trainer.run();
    for (const auto& row : t.trainer.metrics().rows())
      if (row.count("validation")) first.push_back(row.at("validation"));
    return std::pair(first, checks.epoch());
  };
  const Directory folder;
  const auto whole = run(8, folder.file("whole"), false);
  run(4, folder.file("parts"), false);
  const auto resumed = run(8, folder.file("parts"), true);
  CHECK(whole.second == 3);
  CHECK(resumed.second == 3);
  CHECK(resumed.first == whole.first);
  run(4, folder.file("restored"), false);
  CHECK(run(8, folder.file("restored"), true, true) == whole);
  // A training without this validation goes on from the same file, and one with it from a file without.
  Trained without(quiet(9, folder.file("parts")).resume(true));
  CHECK(without.trainer.run().step == 9);
}

TEST_CASE("GenerateOptions() generates, as many tokens as transformers does", "[silent]") {
  nn::GPT gpt(small().context_length(40));
  gpt.eval();
  CHECK(nn::generate(gpt, {{1, 2, 3}}, nn::GenerateOptions())[0].size() == 20);
  CHECK(nn::generate(gpt, {{1, 2, 3}}, nn::GenerateOptions().max_new_tokens(0))[0].empty());
}

TEST_CASE("NoamLR refuses a rate that is meant as one", "[silent]") {
  Tensor w = leaf(ones({2}));
  optim::AdamW small_rate({w}, 2e-3), paper({w}, 1);
  CHECK_THROWS_WITH(optim::NoamLR(small_rate, 64, 100), Contains("[NoamLR] the optimiser's lr is 0.002") &&
                                                            Contains("the highest rate would be 2.5e-05") &&
                                                            Contains("set lr to 1"));
  CHECK(small_rate.lr() == 2e-3);
  optim::NoamLR schedule(paper, 64, 100);
  CHECK(paper.lr() == Approx(1 / 8. * 1e-3));
}

TEST_CASE("focal loss of soft targets is torchvision's", "[silent]") {
  const auto plain = nn::FocalOptions().alpha(-1).reduction(nn::Reduction::none);
  CHECK(nn::focal_loss(tensor({2.}, float64), tensor({0.5}, float64), plain).item() == Approx(0.2817320).epsilon(1e-6));
  // alpha_t weights both parts of the cross entropy.
  const Tensor x = leaf(tensor({-1.3, 0.4, 3., -200., 200.}, float64)), t = tensor({0.2, 1., 0.7, 0.5, 0.}, float64);
  const Tensor loss = nn::focal_loss(x, t, nn::FocalOptions().gamma(0.5).reduction(nn::Reduction::none));
  const Tensor p = sigmoid(x.detach()), ce = t * softplus(-x.detach()) + (1 - t) * softplus(x.detach());
  const Tensor expected = (0.25 * t + 0.75 * (1 - t)) * ce * pow(1 - (p * t + (1 - p) * (1 - t)), 0.5);
  CHECK(allclose(loss, expected, 1e-12));
  loss.sum().backward();
  CHECK(all(isfinite(x.grad())).item<bool>());
  const GradReport report =
      check_gradients([&](const auto& in) { return nn::focal_loss(in[0], t, nn::FocalOptions().gamma(1.5)); },
                      {leaf(tensor({-1.3, 0.4, 3., -2., 2.}, float64))});
  INFO(report);
  CHECK(report.ok);
}

TEST_CASE("a schedule goes on only with the numbers that it was saved with", "[silent]") {
  Tensor w = leaf(ones({2}));
  optim::SGD a({w}, 0.1), b({w}, 0.1);
  optim::CosineAnnealingLR schedule(a, 10), longer(b, 20), same(b, 10);
  CHECK_THROWS_WITH(longer.load_state_dict(schedule.state_dict()),
                    Contains("T_max is 10 in the state, 20 here") && Contains("nothing was loaded"));
  CHECK_NOTHROW(same.load_state_dict(schedule.state_dict()));
  StateDict of_before = schedule.state_dict();
  of_before.resize(3);  // lr, position, base_lr
  CHECK_NOTHROW(longer.load_state_dict(of_before));
  const auto chain = [](optim::Optimizer& o, std::int64_t first) {
    return optim::SequentialLR(
        o, {std::make_shared<optim::LinearLR>(o, 0.1, 1, first), std::make_shared<optim::CosineAnnealingLR>(o, 10)},
        {first});
  };
  CHECK_THROWS_WITH(chain(b, 4).load_state_dict(chain(a, 3).state_dict()),
                    Contains("milestone_0 is 3 in the state, 4 here") && Contains("0.total_iters is 3"));
}

TEST_CASE("a layer that was replaced is noticed, whoever else holds the old parameters", "[silent]") {
  nn::Linear layer(2, 1);
  optim::SGD optimizer(layer.named_parameters(), 0.1), second(layer.named_parameters(), 0.1);
  const std::vector<Tensor> handles = layer.parameters();
  const Tensor loss = sum(layer(ones({4, 2})));
  layer = nn::Linear(2, 1);
  for (int again = 0; again < 2; ++again)
    CHECK_THROWS_WITH(optimizer.step(), Contains("the parameter weight of shape [1, 2] belongs to no layer any more"));
  second.named_parameters()[0].second.requires_grad_(false), second.named_parameters()[1].second.requires_grad_(false);
  CHECK_NOTHROW(second.step());  // what is frozen trains nowhere
}

TEST_CASE("parameters that move, are tied, adapted or converted stay in their layers", "[silent]") {
  struct Tied : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return b(a(x)); }
    FIT_FIELDS_ONLY(a, b)
    nn::Linear a{3, 3}, b{3, 3};
  };
  auto net = std::make_unique<Tied>();
  net->b.weight = net->a.weight;
  optim::SGD optimizer(net->named_parameters(), 0.1);
  const auto steps = [&](const nn::UnaryLayer& of) {
    optimizer.zero_grad();
    sum(of(ones({2, 3}, of.parameters()[0].dtype()))).backward();
    CHECK_NOTHROW(optimizer.step());
  };
  nn::Sequential moved(std::move(*net));
  net.reset();
  steps(moved);
  const auto copy = moved.clone();
  steps(moved);
  std::vector<nn::Sequential> many;
  many.push_back(std::move(moved));
  for (int i = 0; i < 5; ++i) many.emplace_back(nn::Linear(3, 3));
  auto& tied = many[0].layer<Tied>("0");
  nn::parametrize(tied.a.bias, std::make_shared<nn::Tanh>());
  steps(many[0]);
  many[0].to(float64);
  steps(many[0]);
  tied.a.weight = nn::Parameter(randn({3, 3}, float64));  // b has it still
  steps(many[0]);
  tied.b.weight = tied.a.weight;
  CHECK_THROWS_WITH(optimizer.step(), Contains("the parameter a.weight of shape [3, 3] belongs to no layer any more"));
}

TEST_CASE("tensors that were in no layer when the optimiser was made need none", "[silent]") {
  Tensor taken;
  {
    const nn::Linear gone(2, 1);
    taken = gone.weight;
  }
  const Tensor own = randn({2}).requires_grad_();
  optim::SGD optimizer({taken, own}, 0.1);
  { const nn::Linear other(2, 1); }
  sum(taken * own).backward();
  CHECK_NOTHROW(optimizer.step());
}

TEST_CASE("an empty dataset, probabilities for logarithms: errors", "[silent]") {
  CHECK_THROWS_WITH(data::DataLoader(data::TensorDataset({zeros({0, 3})}), 4),
                    Contains("[DataLoader] the dataset has no examples"));
  const Tensor logits = tensor({{0.3, -1., 2.}}), p = softmax(logits);
  CHECK_THROWS_WITH(nn::kl_div(p, p),
                    Contains("[kl_div] input has numbers between 0 and 1 only") && Contains("log_softmax(logits)"));
  CHECK(nn::kl_div(log_softmax(logits), p).item() == Approx(0).margin(1e-7));
  CHECK(nn::kl_div(zeros({1, 1}), ones({1, 1})).item() == 0);
  CHECK_THROWS_WITH(
      nn::kl_div(log_softmax(logits), log_softmax(logits)),
      Contains("[kl_div] target has negative numbers: it must be probabilities") && Contains("set log_target"));
  CHECK(nn::kl_div(log_softmax(logits), log_softmax(logits), nn::KLDivOptions().log_target(true)).item() == 0);
  CHECK_THROWS_WITH(nn::nll_loss(p, tensor({2})),
                    Contains("[nll_loss] input has numbers between 0 and 1 only") && Contains("cross_entropy()"));
  CHECK_THROWS_WITH(nn::cross_entropy(logits, -p), Contains("[cross_entropy] targets has negative numbers"));
  CHECK_NOTHROW(nn::cross_entropy(logits, p - min(p)));  // a rounded 0
}

TEST_CASE("a loss without a graph, and an old one: the error names the cure", "[silent]") {
  nn::Linear net(3, 2);
  const Tensor x = randn({4, 3}), y = zeros({4}, int64);
  const Tensor hits = mean(eq(argmax(net(x), -1), y).to(float32));
  CHECK_THROWS_WITH(hits.backward(), Contains("argmax(), comparisons, integers, item() and sample() pass none on") &&
                                         Contains("on the leaves that are to be trained, not on the result"));
  const nn::GRU gru(3, 2);
  nn::RecurrentState state;
  const auto step = [&] {
    const auto r = gru(randn({1, 4, 3}), state);
    state = r.state;
    sum(r.output).backward();
  };
  step();
  CHECK_THROWS_WITH(step(), Contains("or detach() a state that one step hands to the next"));
  CHECK_THROWS_WITH(optim::SGD({randn({3})}, 0.1),
                    Contains("[SGD] all parameters are frozen") && Contains("requires_grad_() tensors of your own"));
}

TEST_CASE("a loss of a Trainer that calls backward() itself is told so", "[silent]") {
  nn::Linear net(3, 1);
  optim::SGD optimizer(net.named_parameters(), 0.1);
  data::DataLoader loader(data::TensorDataset({randn({4, 3})}), 2);
  const auto loss = [&](const data::Batch& b) {
    const Tensor l = mean(square(net(b[0])));
    return l.backward(), l;
  };
  Trainer trainer(net, optimizer, loader, loss, TrainerOptions().steps(2).display(Display::none));
  CHECK_THROWS_WITH(trainer.run(), Contains("[Trainer] the loss of step 1 has been through backward() already: the "
                                            "Trainer calls it"));
}

TEST_CASE("a pack that a function of one's own makes is divided among ranks", "[silent]") {
  std::vector<data::Example> texts;
  for (std::int64_t i = 0; i < 8; ++i) texts.push_back({full({i + 1}, i, int64)});
  const auto packs = data::LoaderOptions().batch_size(4).collate(
      [](const std::vector<data::Example>& examples) { return data::pack_collate(examples); });
  std::vector<double> all;
  for (const int rank : {0, 1}) {
    data::DataLoader loader(data::ListDataset(texts), packs);
    loader.divide(rank, 2);
    for (const data::Batch& batch : loader) {
      CHECK(batch[0].size(0) == 1);
      CHECK(batch[1][{0, 0}].item() == 0);  // each rank's documents count from 0
      const Tensor ids = batch[0];
      for (const std::int64_t id : ids.data<std::int64_t>()) all.push_back(static_cast<double>(id));
    }
  }
  CHECK(all.size() == 36);  // each document once
}

TEST_CASE("names with a prefix are paired with those that they end in", "[silent]") {
  nn::Linear linear(2, 2);
  StateDict state = {{"deep.encoder.weight", zeros({2, 2})}, {"deep.encoder.bias", zeros({2})}};
  CHECK_THROWS_WITH(linear.load_state_dict(state), Contains("with the prefix 'deep.encoder.'"));
  struct Two : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return x; }
    FIT_FIELDS_ONLY(w_q, norm1)
    nn::Linear w_q{2, 2}, norm1{2, 2};
  } two;
  state = {{"w_q.weight", zeros({2, 2})},
           {"a.w_q.bias", zeros({2})},
           {"norm1.weight", zeros({2, 2})},
           {"b.norm1.bias", zeros({2})}};
  CHECK_THROWS_WITH(two.load_state_dict(state),
                    Contains("perhaps: a.w_q.bias for w_q.bias, b.norm1.bias for norm1.bias"));
  nn::Sequential net(nn::Linear(2, 2));
  CHECK_THROWS_WITH(net.load_state_dict(linear.state_dict()), Contains("every name was given without the prefix '0.'"));
}

// Its weights became results: gradients of the loss went through them into the net, and their graph grew in each step.
TEST_CASE("a frozen target network that follows outside of NoGrad is told so", "[silent]") {
  nn::Linear net(2, 1);
  const auto target = nn::clone(net);
  target->freeze();
  const Tensor before = target->weight.detach().clone();
  CHECK_THROWS_WITH(target->weight.add_(0.1 * net.weight),
                    Contains("[add_] the tensor of shape [1, 2] is a frozen leaf") && Contains("under NoGrad"));
  CHECK_THROWS_WITH(target->weight.copy_(0.1 * net.weight), Contains("[copy_]"));
  CHECK_THROWS_WITH(index_put_(target->weight, {Index(0)}, net.weight[0]), Contains("is a frozen leaf"));
  CHECK_NOTHROW(target->weight.mul_(0.9).add_(0.1 * net.weight.detach()));
  {
    const NoGrad no_grad;
    target->weight.copy_(before).add_(net.weight);
  }
  CHECK(target->weight.frozen());
  CHECK(equal(target->weight.detach(), 2 * before));
  nn::vector_to_parameters(0.5 * nn::parameters_to_vector(net.parameters()), target->parameters());
  CHECK(equal(target->weight.detach(), 0.5 * before));
}

TEST_CASE("messages name what the caller wrote", "[silent]") {
  CHECK_THROWS_WITH(nn::GPT(small().dropout(10)), Contains("[GPT] dropout is 10"));
  CHECK_NOTHROW(nn::GPTAttention(small().num_layers(0)));
  CHECK_NOTHROW(nn::GPTBlock(small().num_layers(0)));
  const Tensor w = leaf(ones({2}));
  CHECK_THROWS_WITH(sum(w.grad()), Contains("a gradient gets one by backward()"));
}

TEST_CASE("logit_attribution counts the bias of the head", "[silent]") {
  manual_seed(2);
  nn::GPT gpt(small().tie_weights(false));
  gpt.eval();
  gpt.head.bias = nn::Parameter(randn({11}) * 3);
  const nn::LogitAttribution parts = nn::logit_attribution(gpt, tensor({{1, 2, 3}}), 4, -1);
  CHECK(parts.sum() == Approx(parts.logit).epsilon(1e-4));
}

}  // namespace fit::test::silent_mistakes_test
