#include "fit/nn/weights/weights.hpp"

#include <cmath>

#include "fit/base/memory.hpp"
#include "fit/io/npz.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/layers/fine_tune.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/oracles/golden.hpp"
#include "support/tensors.hpp"

// Models of PyTorch, transformers and nanoGPT under our names and back (tests/golden/weights.py).
namespace fit::test::weights_test {
namespace {

using Catch::Matchers::Contains;

const StateDict& all_cases() {
  static const StateDict all = load_safetensors(FIT_GOLDEN_DIR "/weights.safetensors").tensors;
  return all;
}

// What a model gives for a case's inputs: its output, and the attention weights of each layer in PyTorch's order.
struct Result {
  Tensor y;
  std::vector<Tensor> weights;
};
using In = Callable<Tensor(const std::string&)>;  // an input by its name; floating ones as the model is

template <class Model, class Run>
void check_model(const std::string& name, Model& model, const nn::NameMap& map, const Run& run) {
  const StateDict golden = under(all_cases(), name + "/"), state = under(golden, "state/");
  INFO(name);
  REQUIRE(!state.empty());
  for (const DType dtype : {float64, float32}) {
    model.to(dtype);
    model.zero_grad();
    nn::load_weights(model, state, map);
    const In in = [&](const std::string& input) {
      const Tensor x = at(golden, "in/" + input);
      return is_floating(x.dtype()) ? x.to(dtype) : x;
    };
    const Result r = run(in);
    check_close("y", r.y, at(golden, "out/y"), dtype);
    for (std::size_t i = 0; i < r.weights.size(); ++i)
      check_close("weights " + std::to_string(i), r.weights[i], at(golden, "out/weights." + std::to_string(i)), dtype);
    CHECK_FALSE(contains(golden, "out/weights." + std::to_string(r.weights.size())));
    (r.y * at(golden, "d/y").to(dtype)).sum().backward();
    const StateDict gradients = nn::to_ours(under(golden, "grad/"), map);
    for (const auto& [parameter, p] : model.named_parameters())
      check_close("gradient of " + parameter, p.grad(), at(gradients, parameter), dtype);
  }
  // and back: what is written under their names is what they wrote
  model.to(float64);
  nn::load_weights(model, state, map);
  const StateDict back = nn::to_theirs(model.state_dict(), map);
  for (const auto& [theirs, tensor] : back)
    if (contains(state, theirs)) {
      INFO(theirs);
      CHECK(same_bits(tensor, at(state, theirs)));
    } else {
      CHECK((theirs == "lm_head.weight" || theirs == "head.weight"));  // tied, and left out
    }
  for (const auto& [theirs, tensor] : state) {
    INFO(theirs);
    CHECK((contains(back, theirs) || theirs.find("pooler") == 0));
  }
}

nn::TransformerLayerOptions small() {
  return nn::TransformerLayerOptions().d_model(8).num_heads(2).hidden(12).dropout(0);
}

struct Basic : nn::UnaryLayer {
  Tensor forward(const Tensor& ids) const override { return rms(fc(norm(table(ids)))); }
  FIT_FIELDS(table, norm, fc, rms)
  nn::Embedding table{5, 4};
  nn::LayerNorm norm{4};
  nn::Linear fc{4, 3};
  nn::RMSNorm rms{3};
};

nn::GPTOptions small_gpt() {
  return nn::GPTOptions().vocab_size(11).context_length(8).num_layers(2).num_heads(2).d_model(8);
}

nn::BERTOptions small_bert() {
  return nn::BERTOptions().d_model(8).num_heads(2).hidden(12).dropout(0).vocab_size(11).max_length(6).num_layers(2);
}

const Tensor padding = tensor({{{true, true, true, true}}, {{true, true, true, false}}});

// A state's tensors of 0, 1, 2 …
Tensor counted(const Shape& shape) { return arange(shape.numel()).to(float32).reshape(shape); }

}  // namespace

TEST_CASE("layers with PyTorch's names agree with PyTorch's", "[golden][weights]") {
  Basic basic;
  check_model("basic", basic, nn::torch_names(basic), [&](const In& in) { return Result{basic(in("ids")), {}}; });

  nn::TransformerLayerOptions o = small();
  o.eps(1e-3);
  for (const bool first : {false, true}) {
    o.norm_first(first).final_norm(!first);  // both as they are not by default
    o.activation(first ? nn::Activation::relu : nn::Activation::gelu);
    nn::TransformerEncoder encoder(o, 2);
    check_model(first ? "encoder_first" : "encoder", encoder, nn::torch_names(encoder), [&](const In& in) {
      const auto masks = AttentionTerms(in("mask")).bias(in("bias"));
      nn::TransformerWeights weights;
      nn::AttentionContext context(masks);
      context.weights = &weights.self;
      const Tensor y = encoder(in("x"), context);
      return Result{y, weights.self};
    });
  }

  o = small();
  o.eps(1e-3).final_norm(true).bias(false);
  nn::TransformerDecoder decoder(o, 2);
  check_model("decoder", decoder, nn::torch_names(decoder), [&](const In& in) {
    const auto masks =
        nn::DecoderTerms().self(AttentionTerms().bias(in("bias"))).memory(AttentionTerms().bias(in("memory_bias")));
    nn::TransformerWeights w;
    const Tensor y = decoder.forward(in("x"), in("memory"), masks, &w);
    return Result{y, {w.self[0], w.cross[0], w.self[1], w.cross[1]}};
  });
}

TEST_CASE("nn.Transformer within a model agrees with PyTorch's", "[golden][weights]") {
  nn::TransformerOptions o;
  static_cast<nn::TransformerLayerOptions&>(o) = small();
  o.source_vocab(7).target_vocab(6).max_length(5).num_encoder_layers(2).num_decoder_layers(2).final_norm(true);
  nn::Transformer model(o);
  nn::NameMap map{nn::rename("transformer.encoder.*", "encoder.*"), nn::rename("transformer.decoder.*", "decoder.*")};
  for (const nn::NameRule& rule : nn::torch_names(model)) map.push_back(rule);
  check_model("seq2seq", model, map, [&](const In& in) {
    nn::TransformerWeights w, of_encoder;
    const Tensor y = model.forward(in("source"), in("target"), padding, &w);
    const Tensor at = nn::sinusoidal_positions(4, 8).to(y.dtype());
    nn::AttentionContext context(padding);
    context.weights = &of_encoder.self;
    model.encoder(model.source_embedding(in("source")) * std::sqrt(8.) + at, context);
    return Result{y, {of_encoder.self[0], of_encoder.self[1], w.self[0], w.cross[0], w.self[1], w.cross[1]}};
  });
}

TEST_CASE("GPT-2, nanoGPT and BERT by their names", "[golden][weights]") {
  nn::GPT gpt(small_gpt());
  const auto attention_of = [](nn::GPT& model, const Tensor& ids) {
    std::vector<Tensor> weights;
    Tensor x = model.wte(ids) + (*model.wpe)(arange(ids.size(1)));
    for (nn::SequenceLayer& block : model.h) {
      const Tensor qkv = block.layer<nn::Linear>("attn.qkv")(block.layer<nn::LayerNorm>("ln_1")(x));
      const std::vector<Tensor> parts = chunk(qkv, 3, -1);
      weights.push_back(attend(heads_last(parts[0], 2), heads_last(parts[1]), heads_last(parts[2]),
                               AttentionOptions().causal().weights())
                            .weights);
      x = block(x);
    }
    return weights;
  };
  check_model("gpt2", gpt, nn::gpt2_names(gpt), [&](const In& in) {
    return Result{gpt(in("ids")), attention_of(gpt, in("ids"))};
  });

  nn::GPTOptions o = small_gpt();
  o.activation(nn::Activation::gelu);
  nn::GPT nano(o);
  check_model("nanogpt", nano, nn::nanogpt_names(nano), [&](const In& in) {
    return Result{nano(in("ids")), attention_of(nano, in("ids"))};
  });

  nn::BERT bert(small_bert());
  check_model("bert", bert, nn::bert_names(bert), [&](const In& in) {
    nn::TransformerWeights w;
    const Tensor y = bert.forward(in("ids"), padding, in("segments"), &w);
    return Result{y, w.self};
  });
}

TEST_CASE("names with and without what wrappers put before them", "[weights]") {
  nn::GPT gpt(small_gpt());
  StateDict bare, compiled;
  for (const auto& [name, tensor] : under(all_cases(), "gpt2/state/"))
    bare.emplace_back(name.substr(std::string("transformer.").size()), tensor);
  bare.emplace_back("h.0.attn.bias", ones({1, 1, 8, 8}));  // as in the first files of GPT-2
  nn::load_weights(gpt, bare, nn::gpt2_names(gpt));
  CHECK(max_difference(gpt.layer<nn::Linear>("h.1.mlp.fc").weight, at(bare, "h.1.mlp.c_fc.weight").transpose()) < 1e-6);

  for (const auto& [name, tensor] : under(all_cases(), "nanogpt/state/"))
    compiled.emplace_back("_orig_mod." + name, tensor);
  nn::GPT nano(small_gpt().activation(nn::Activation::gelu));
  nn::load_weights(nano, compiled, nn::nanogpt_names(nano));
  CHECK(contains(nn::to_theirs(nano.state_dict(), nn::nanogpt_names(nano)), "transformer.h.0.attn.c_attn.weight"));

  nn::BERT bert(small_bert());
  StateDict headed = {{"cls.predictions.bias", ones({11})}, {"bert.embeddings.position_ids", ones({1, 6}, int64)}};
  for (const auto& [name, tensor] : under(all_cases(), "bert/state/")) headed.emplace_back("bert." + name, tensor);
  nn::load_weights(bert, headed, nn::bert_names(bert));
}

TEST_CASE("options that the other library's models lack are refused by name", "[weights]") {
  const auto llama = nn::GPTOptions(small_gpt())
                         .positions(nn::Positions::rotary)
                         .norm(nn::Norm::rms)
                         .activation(nn::Activation::swiglu)
                         .bias(false);
  const auto nano = nn::GPTOptions(small_gpt()).activation(nn::Activation::gelu);
  const auto of_gpt = [](nn::NameMap (*names)(const nn::GPT&), const nn::GPTOptions& o, const std::string& text) {
    CHECK_THROWS_WITH(names(nn::GPT(o)), Catch::Matchers::Equals(text + "; make the model with it"));
  };
  using nn::GPTOptions;
  nn::llama_names(nn::GPT(llama));
  // As Mistral, Qwen 2 and Qwen 3, and with the caps of Gemma 2.
  nn::llama_names(nn::GPT(GPTOptions(llama).window(4).qkv_bias(true).qk_norm(true).logit_cap(30).num_kv_heads(1)));
  const std::string of_llama = "[llama_names] ";
  for (const auto& [o, text] : std::vector<std::pair<GPTOptions, std::string>>{
           {GPTOptions(llama).rotary_layout(RotaryLayout::interleaved),
            "rotary_layout is interleaved: Llama's weights need half_split"},
           {GPTOptions(llama).rotary(nn::RotaryTableOptions().features(2)),
            "rotary.features is 2: Llama's weights need 0"},
           {GPTOptions(llama).positions(nn::Positions::alibi), "positions is alibi: Llama's weights need rotary"},
           {GPTOptions(llama).norm(nn::Norm::layer), "norm is layer: Llama's weights need rms"},
           {GPTOptions(llama).norm_place(nn::NormPlace::both), "norm_place is both: Llama's weights need before"},
           {GPTOptions(llama).activation(nn::Activation::gelu), "activation is gelu: Llama's weights need swiglu"},
           {GPTOptions(llama).head_gates(true), "head_gates is true: Llama's weights need false"},
           {GPTOptions(llama).value_embeddings(true), "value_embeddings is true: Llama's weights need false"}})
    of_gpt(nn::llama_names, o, of_llama + text);
  for (const auto& [o, text] : std::vector<std::pair<GPTOptions, std::string>>{
           {GPTOptions(nano).positions(nn::Positions::rotary), "positions is rotary: # need learned"},
           {GPTOptions(nano).norm(nn::Norm::rms), "norm is rms: # need layer"},
           {GPTOptions(nano).norm_place(nn::NormPlace::after), "norm_place is after: # need before"},
           {GPTOptions(nano).num_kv_heads(1), "num_kv_heads is 1: # need 2"},
           {GPTOptions(nano).head_size(8), "head_size is 8: # need 4"},
           {GPTOptions(nano).qkv_bias(false), "qkv_bias is false: # need true"},
           {GPTOptions(nano).qk_norm(true), "qk_norm is true: # need false"},
           {GPTOptions(nano).window(3), "window is 3: # need 0"},
           {GPTOptions(nano).windows({3, 0}), "windows is {3, 0}: # need {}"},
           {GPTOptions(nano).logit_cap(30), "logit_cap is 30: # need 0"},
           {GPTOptions(nano).attention_logit_cap(30), "attention_logit_cap is 30: # need 0"},
           {GPTOptions(nano).head_gates(true), "head_gates is true: # need false"},
           {GPTOptions(nano).value_embeddings(true), "value_embeddings is true: # need false"}}) {
    const auto with = [&, &text = text](const std::string& models) {
      std::string said = text;
      return said.replace(said.find('#'), 1, models);
    };
    of_gpt(nn::gpt2_names, o, "[gpt2_names] " + with("GPT-2's weights"));
    of_gpt(nn::nanogpt_names, o, "[nanogpt_names] " + with("nanoGPT's weights"));
  }
  of_gpt(nn::gpt2_names, GPTOptions(nano).activation(nn::Activation::geglu),
         "[gpt2_names] activation is geglu: GPT-2's weights need gelu_tanh");
  of_gpt(nn::gpt2_names, GPTOptions(nano).bias(false), "[gpt2_names] bias is false: GPT-2's weights need true");
  nn::nanogpt_names(nn::GPT(GPTOptions(nano).bias(false)));
  of_gpt(nn::nanogpt_names, small_gpt(), "[nanogpt_names] activation is gelu_tanh: nanoGPT's weights need gelu");
  of_gpt(nn::nanogpt_names, GPTOptions(nano).norm_eps(1e-6),
         "[nanogpt_names] norm_eps is 1e-06: nanoGPT's weights need 1e-05");
  for (const auto& [o, option, value] : std::vector<std::tuple<nn::BERTOptions, std::string, std::string>>{
           {nn::BERTOptions(small_bert()).norm_first(true), "norm_first", "true"},
           {nn::BERTOptions(small_bert()).final_norm(true), "final_norm", "true"},
           {nn::BERTOptions(small_bert()).bias(false), "bias", "false"},
           {nn::BERTOptions(small_bert()).num_kv_heads(1), "num_kv_heads", "1"},
           {nn::BERTOptions(small_bert()).activation(nn::Activation::swiglu), "activation", "swiglu"}})
    CHECK_THROWS_WITH(nn::bert_names(nn::BERT(o)),
                      Contains("[bert_names] " + option + " is " + value + ": BERT's weights need"));
}

TEST_CASE("each step of a map, both ways", "[weights]") {
  using namespace nn;
  const NameMap map{prefix("m."),
                    strip("wrapped."),
                    alias("*.x.old", "*.x.w"),
                    drop("*.mask"),
                    rename("a.*.x.*", "b.*.y.*"),
                    transpose("t.*", "t.*"),
                    split("qkv.*", {"q.*", "k.*", "v.*"}, {2, 1, 1}),
                    join({"up.*", "gate.*"}, "both.*")};
  const StateDict theirs = {{"m.a.0.x.w", counted({2})},   {"m.t.w", counted({2, 3})}, {"m.qkv.w", counted({4, 2})},
                            {"m.gate.w", counted({1, 2})}, {"m.up.w", ones({1, 2})},   {"m.other", counted({1})}};
  StateDict with_more = theirs;
  with_more.emplace_back("m.h.0.mask", ones({2}));
  with_more[0].first = "m.wrapped.a.0.x.old";
  const StateDict ours = to_ours(with_more, map);
  CHECK(ours.size() == 7);
  CHECK(equal(at(ours, "b.0.y.w"), counted({2})));
  CHECK(equal(at(ours, "t.w"), counted({2, 3}).transpose()));
  CHECK(equal(at(ours, "q.w"), tensor({{0., 1.}, {2., 3.}})));
  CHECK(equal(at(ours, "k.w"), tensor({{4., 5.}})));
  CHECK(equal(at(ours, "v.w"), tensor({{6., 7.}})));
  CHECK(equal(at(ours, "both.w"), tensor({{1., 1.}, {0., 1.}})));
  const StateDict back = to_theirs(ours, map);
  CHECK(back.size() == theirs.size());
  for (const auto& [name, tensor] : theirs) {
    INFO(name);
    CHECK(same_bits(at(back, name), tensor));
  }
}

TEST_CASE("what a map can't do is an Error with the name", "[weights]") {
  using namespace nn;
  const auto fails = [](const NameMap& map, const StateDict& state, const std::string& message) {
    CHECK_THROWS_WITH(to_ours(state, map), Contains(message));
  };
  fails({transpose("w", "w")}, {{"w", ones({3})}}, "[NameMap] w has shape [3]: what is transposed must have two axes");
  fails({split("w", {"a", "b"})}, {{"w", ones({3, 2})}}, "w has shape [3, 2]: its first axis must be cut into 2 equal");
  fails({split("w", {"a", "b"}, {1, 1})}, {{"w", ones({3})}}, "2 parts of the sizes given");
  fails({split("w", {"a", "b"})}, {{"w", {}}}, "w is undefined");
  fails({join({"a", "b"}, "w")}, {{"a", ones({3})}}, "a is there, but b is not: both are parts of w");
  fails({join({"a", "b"}, "w")}, {{"a", ones({3})}, {"b", ones({4})}}, "b has shape [4] float32, a [3] float32");
  CHECK_THROWS_WITH(rename("a.*", "a"), Contains("'a.*' and 'a': both must have the same number of *"));
  CHECK_THROWS_WITH(split("a", {}), Contains("split into nothing"));
  CHECK_THROWS_WITH(join({}, "a"), Contains("made of nothing"));
  CHECK_THROWS_WITH(split("a", {"b", "c"}, {1}), Contains("2 parts and 1 sizes"));

  MultiHeadAttention attention(8, 2);
  StateDict state = to_theirs(attention.state_dict(), torch_names(attention));
  state.emplace_back("bias_k", ones({1, 1, 8}));
  CHECK_THROWS_WITH(load_weights(attention, state, torch_names(attention)),
                    Contains("'bias_k' has no counterpart here: it comes of add_bias_kv"));
  CHECK_THROWS_WITH(torch_names(MultiHeadAttention(8, 2, MultiHeadAttentionOptions().num_kv_heads(1))),
                    Contains("num_kv_heads is 1, num_heads is 2"));
  TransformerLayerOptions o = small();
  o.activation(Activation::swiglu);
  CHECK_THROWS_WITH(torch_names(TransformerEncoder(o, 1)), Contains("swiglu"));
}

TEST_CASE("loading says what is wrong, and pairs names that are alike", "[weights]") {
  nn::MultiHeadAttention attention(8, 2, 0.0);
  const nn::NameMap map = nn::torch_names(attention);
  StateDict state = nn::to_theirs(attention.state_dict(), map);
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  const Tensor before = attention.w_q.weight.detach().clone();
  state[0].second = ones({12, 8});  // in_proj_weight
  state[2].first = "out_proj.wieght";
  state.emplace_back("rotary", ones({3}));
  CHECK_THROWS_WITH(
      nn::load_weights(attention, state, map),
      "[load_weights] the state does not fit this MultiHeadAttention; nothing was loaded:\n"
      "  missing: w_o.weight [8, 8]\n"
      "  unexpected: w_o.wieght [8, 8], rotary [3]\n"
      "  perhaps: w_o.wieght for w_o.weight\n"
      "  misshapen: w_q.weight is [4, 8], here [8, 8], w_k.weight is [4, 8], here [8, 8], w_v.weight is [4, 8], here "
      "[8, 8]");
  CHECK(same_bits(attention.w_q.weight.detach(), before));

  at(state, "out_proj.bias").fill_(7);
  const nn::LoadReport report = nn::load_fitting_weights(attention, state, map);
  CHECK(report.missing == std::vector<std::string>{"w_o.weight"});
  CHECK(report.unexpected == std::vector<std::string>{"w_o.wieght", "rotary"});
  CHECK(report.misfitting == std::vector<std::string>{"w_q.weight", "w_k.weight", "w_v.weight"});
  CHECK(same_bits(attention.w_q.weight.detach(), before));
  CHECK(equal(attention.w_o.bias.detach(), full({8}, 7)));
}

TEST_CASE("weights of which none fits are refused, also by load_fitting_weights", "[weights]") {
  // https://github.com/pytorch/examples/issues/1029: a prefix before all names, and strict=False.
  nn::Linear layer(3, 2);
  const Tensor before = layer.weight.detach().clone();
  CHECK_THROWS_WITH(nn::load_fitting_weights(layer, {{"model.weight", ones({2, 3})}, {"model.bias", ones({2})}}),
                    "[load_fitting_weights] no tensor of the state fits this Linear; nothing was loaded:\n"
                    "  missing: weight [2, 3], bias [2]\n"
                    "  unexpected: model.weight [2, 3], model.bias [2]\n"
                    "  every missing name was given with the prefix 'model.': load_from_checkpoint() loads a part of a "
                    "checkpoint, and load_weights() with {nn::strip(\"model.\")} removes the prefix");
  CHECK_THROWS_WITH(nn::load_fitting_weights(layer, StateDict()), Contains("no tensor of the state fits this Linear"));
  CHECK_THROWS_WITH(nn::load_fitting_weights(layer, {{"weight", ones({3, 2})}}),
                    Contains("misshapen: weight is [3, 2]"));
  CHECK(same_bits(layer.weight.detach(), before));
  nn::Dropout none;  // has nothing to load
  CHECK(nn::load_fitting_weights(none, {{"weight", ones({2})}}).unexpected == std::vector<std::string>{"weight"});
}

TEST_CASE("of tied parameters one is enough, and both must be equal", "[weights]") {
  nn::GPT gpt(small_gpt());
  StateDict state;
  for (const auto& [name, tensor] : gpt.state_dict()) state.emplace_back(name, ones(tensor.shape()));
  gpt.load_state_dict(state);
  CHECK(equal(gpt.head.weight.detach(), ones({11, 8})));
  for (const char* left_out : {"head.weight", "wte.weight"}) {
    StateDict less;
    for (const auto& [name, tensor] : state)
      if (name != left_out) less.emplace_back(name, tensor * 2);
    gpt.load_state_dict(less);
    CHECK(equal(gpt.wte.weight.detach(), full({11, 8}, 2)));
  }
  at(state, "head.weight").fill_(3);
  CHECK_THROWS_WITH(gpt.load_state_dict(state),
                    Contains("head.weight and wte.weight differ, here they are one tensor"));
  nn::GPTOptions untied = small_gpt();
  untied.tie_weights(false);
  nn::GPT other(untied);
  CHECK_THROWS_WITH(nn::load_weights(other, under(all_cases(), "gpt2/state/"), nn::gpt2_names(other)),
                    Contains("missing: head.weight"));
}

TEST_CASE("int8 and parametrised weights are not saved under others' names, which have none for them", "[weights]") {
  const Directory d;
  const auto o = nn::GPTOptions().vocab_size(7).context_length(5).num_layers(1).num_heads(2).d_model(8);
  nn::TransformerEncoder encoder(small(), 1);
  const auto refused = [&](nn::Layer& model, const nn::NameMap& map, const std::string& why) {
    for (const char* name : {"x.safetensors", "x.npz"}) {
      CHECK_THROWS_WITH(nn::save_weights(d.file(name), model, map), Contains("[save_weights]") && Contains(why));
      CHECK_FALSE(std::filesystem::exists(d.file(name)));
    }
  };
  {
    nn::GPT gpt(o);
    nn::add_lora(gpt);
    refused(gpt, nn::gpt2_names(gpt),
            "h.0.attn.qkv.weight is parametrised, which the names of the map can't say: merge_lora()");
    nn::merge_lora(gpt);
    nn::save_weights(d.file("merged"), gpt, nn::gpt2_names(gpt));
    CHECK(at(load_safetensors(d.file("merged")).tensors, "transformer.h.0.attn.c_attn.weight").shape() == Shape{8, 24});
  }
  {
    nn::GPT gpt(o), same(o);
    nn::quantize_(gpt), nn::quantize_(same);
    refused(gpt, nn::gpt2_names(gpt),
            "wte.weight is quantised, which the names of the map can't say: remove_parametrization()");
    nn::save_weights(d.file("int8"), gpt);  // under their own names they are
    nn::load_weights(same, d.file("int8"));
    for (const auto& [name, x] : gpt.state_dict()) CHECK(same_bits(at(same.state_dict(), name), x));
  }
  nn::quantize_(encoder);
  refused(encoder, nn::torch_names(encoder), "layers.0.self_attn.w_q.weight is quantised");
}

TEST_CASE("a file is loaded one tensor at a time, and what is written is read back", "[weights]") {
  const Directory d;
  nn::TransformerLayerOptions o = small();
  o.d_model(64).hidden(256);
  nn::TransformerEncoder from(o, 4), to(o, 4);
  for (const char* name : {"x.safetensors", "x.npz"}) {
    nn::save_weights(d.file(name), from, nn::torch_names(from));
    for (nn::Parameter* p :
         {&to.layer<nn::Linear>("layers.3.mlp.fc").weight, &to.layer<nn::Linear>("layers.0.self_attn.w_k").weight})
      nn::init::zeros_(*p);
    nn::load_weights(to, d.file(name), nn::torch_names(to));
    for (const auto& [parameter, tensor] : from.state_dict()) CHECK(same_bits(at(to.state_dict(), parameter), tensor));
  }
  CHECK(load_safetensors(d.file("x.safetensors")).tensors.size() == load_npz(d.file("x.npz")).size());

  empty_cache();
  const MemoryStats before = memory_stats();
  nn::load_weights(to, d.file("x.safetensors"), nn::torch_names(to));
  const MemoryStats after = memory_stats();
  CHECK(after.cached_bytes - before.cached_bytes < to.num_parameters());  // a quarter of the layer's bytes
}

TEST_CASE("a file's own type is told where it does not fit", "[weights]") {
  using namespace nn;
  const auto told = [](Layer& layer, const std::string& path, const NameMap& map, const std::string& message) {
    INFO(path);
    CHECK_THROWS_WITH(load_weights(layer, path, map), Contains(message));
  };
  Linear layer(30, 20);
  told(layer, FIT_GOLDEN_DIR "/numpy_compressed.npz", {rename("a", "weight"), drop("c")},
       "weight is int32, here float32");
  const Directory d;
  const auto file = [&](const std::string& dtype, int bytes) {
    std::string header =
        "{\"w\":{\"dtype\":\"" + dtype + "\",\"shape\":[2,1],\"data_offsets\":[0," + std::to_string(2 * bytes) + "]}}";
    header.resize(80, ' ');
    return put(d.file(dtype),
               std::string("\x50\0\0\0\0\0\0\0", 8) + header + std::string(static_cast<std::size_t>(2 * bytes), '\1'));
  };
  Linear small(1, 2), one(1, 1);
  told(small, file("I32", 4), {rename("w", "weight")}, "weight is int32, here float32");
  told(small, file("U8", 1), {rename("w", "weight")}, "weight is uint8, here float32");
  told(small, file("I64", 8), {rename("w", "weight")}, "weight is int64, here float32");
  told(one, file("U8", 1), {split("w", {"weight", "bias"})}, "weight is uint8, here float32");
  struct Counts final : Layer {
    FIT_FIELDS_ONLY(w)
    Buffer w{zeros({2, 1}, int64)};
  } counts;
  told(counts, file("F16", 2), {}, "w is float16, here int64");
  load_weights(counts, file("U8", 1));
  CHECK(equal(counts.w, ones({2, 1}, int64)));
}

TEST_CASE("looking up by name and by prefix", "[weights]") {
  const StateDict state = {{"encoder.w", ones({1})}, {"encoder.b", ones({2})}, {"encoders", ones({3})}};
  CHECK(at(state, "encoder.b").numel() == 2);
  CHECK_THROWS_WITH(at(state, "encoder.c"),
                    Contains("there is no 'encoder.c' among the 3") && Contains("most similar"));
  CHECK_THROWS_WITH(at(state, "zzz"), !Contains("most similar"));
  CHECK(contains(state, "encoders"));
  CHECK_FALSE(contains(state, "encoder"));
  const StateDict below = under(state, "encoder.");
  REQUIRE(below.size() == 2);
  CHECK(below[1].first == "b");
}

TEST_CASE("loading pairs names of one shape only, and tells of names behind a prefix", "[weights]") {
  nn::Linear layer(2, 3);
  CHECK_THROWS_WITH(nn::load_weights(layer, {{"weights", ones({5, 5})}, {"biases", ones({3})}}),
                    Contains("perhaps: biases for bias") && !Contains("weights for"));
  CHECK_THROWS_WITH(nn::load_weights(layer, {{"weights", ones({5, 5})}}), !Contains("perhaps"));
  StateDict behind;
  for (const auto& [name, x] : layer.state_dict()) behind.emplace_back("model." + name, x);
  behind.emplace_back("generator.seed_and_calls", tensor({1, 2}));
  CHECK_THROWS_WITH(
      layer.load_state_dict(behind),
      Contains("every missing name was given with the prefix 'model.': load_from_checkpoint() loads a part of a "
               "checkpoint, and load_weights() with {nn::strip(\"model.\")} removes the prefix") &&
          !Contains("perhaps"));
  behind.pop_back();
  CHECK_NOTHROW(nn::load_weights(layer, behind, {nn::strip("model.")}));
}

}  // namespace fit::test::weights_test
