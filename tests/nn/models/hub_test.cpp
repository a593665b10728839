// Folders in the layout of the Hugging Face Hub, beside transformers' own answers (tests/golden/hub.py).
#include "fit/nn/hub/hub.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "fit/io/safetensors.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/fine_tune.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "hub/family.hpp"
#include "models/compared_options.hpp"
#include "nn/models/hub_folders.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::hub_test {
namespace {

using Catch::Matchers::Contains;

template <class Options>
const nn::hub::Family<Options>& family(const std::vector<nn::hub::Family<Options>>& all, const std::string& type) {
  for (const auto& one : all)
    if (one.model_type == type) return one;
  throw std::logic_error(type);
}

// The gradients under their names. A map that adds a number to a weight adds it to the gradient, too: zeros show it.
StateDict their_gradients(const nn::Layer& model, const nn::NameMap& names) {
  StateDict gradients, zero;
  std::set<const void*> seen;
  for (const auto& [key, p] : model.named_parameters())
    if (seen.insert(p.raw()).second) gradients.emplace_back(key, p.grad()), zero.emplace_back(key, zeros(p.shape()));
  StateDict theirs = nn::to_theirs(gradients, names);
  const StateDict offset = nn::to_theirs(zero, names);
  for (auto& [key, g] : theirs) g = g - at(offset, key);
  return theirs;
}

void check_gradients(const StateDict& expected, const StateDict& theirs) {
  int seen = 0;
  for (const auto& [key, g] : expected) {
    if (key.rfind("gradient/", 0) != 0) continue;
    INFO(key);
    CHECK(max_difference(at(theirs, key.substr(9)), g) < 1e-4 * std::max(1., max(abs(g)).item()));
    ++seen;
  }
  CHECK(seen > 10);
}

void check_decoder(const std::string& name) {
  INFO(name);
  const StateDict expected = load_safetensors(folder(name) + "/expected.safetensors").tensors;
  const nn::Pretrained opened = nn::load_pretrained(folder(name));
  nn::GPT& gpt = opened.gpt();
  const Tensor ids = at(expected, "ids"), logits = at(expected, "logits");
  CHECK(max_difference(gpt(ids), logits) < 1e-4 * std::max(1., max(abs(logits)).item()));
  gpt.loss(ids[{range(), range(0, -1)}], ids[{range(), range(1)}]).backward();
  check_gradients(expected, their_gradients(gpt, family(nn::hub::gpt_families(), opened.family).names(gpt.options())));
  const nn::Tokens text = at(expected, "generated").flatten().to_vector<std::int64_t>();
  const nn::Tokens prompt(text.begin(), text.begin() + 5), rest(text.begin() + 5, text.end());
  REQUIRE(rest.size() == 32);
  CHECK(nn::generate(gpt, {prompt}, nn::GenerateOptions(opened.generation).max_new_tokens(32))[0] == rest);
}

void check_encoder(const std::string& name) {
  INFO(name);
  const StateDict expected = load_safetensors(folder(name) + "/expected.safetensors").tensors;
  const nn::Pretrained opened = nn::load_pretrained(folder(name));
  nn::BERT& bert = opened.bert();
  const Tensor mask = at(expected, "mask"), vectors = at(expected, "vectors");
  const Tensor real = mask.unsqueeze(-1).to(float32);
  const Tensor y = bert(at(expected, "ids"), mask.unsqueeze(1));
  CHECK(max_difference(y * real, vectors * real) < 1e-4 * max(abs(vectors)).item());
  Tensor factors = arange(16).to(float32) * (2. / 15) - 1;
  sum(y * real * factors).backward();
  check_gradients(expected,
                  their_gradients(bert, family(nn::hub::bert_families(), opened.family).names(bert.options())));
}

}  // namespace

TEST_CASE("decoders of the Hub have transformers' logits, gradients and texts", "[golden][hub]") {
  for (const char* name :
       {"gpt2", "gpt_neo", "gpt_neox", "gpt_neox_sequential", "llama", "llama3", "mistral", "qwen2", "qwen3", "olmo2",
        "phi", "phi3", "phi3_head_dim", "gemma", "gemma2", "gemma3", "gemma3_legacy"})
    check_decoder(name);
}

TEST_CASE("models of TransformerLens have its logits, gradients and texts", "[golden][hub]") {
  for (const char* name : {"lens_attn_only", "lens_attn_only_norms", "lens_solu", "lens_folded"}) check_decoder(name);
  const nn::Pretrained opened = nn::load_pretrained(folder("lens_attn_only"));
  CHECK(opened.family == "transformer_lens");
  CHECK(opened.gpt().ln_f == nullptr);
  CHECK(opened.gpt().h.size() == 2);
}

TEST_CASE("encoders of the Hub have transformers' vectors and gradients", "[golden][hub]") {
  for (const char* name : {"bert", "roberta", "distilbert"}) check_encoder(name);
}

TEST_CASE("all-MiniLM-L6-v2 opens by one call, as by its parts", "[hub]") {
  const std::string minilm = FIT_MINILM_DIR;
  if (!std::filesystem::exists(minilm + "/config.json")) {
    WARN("skipped: " << minilm << "/config.json is not there; examples/run sentence_similarity downloads it");
    return;
  }
  const nn::Pretrained opened = nn::load_pretrained(minilm);
  auto o = nn::BERTOptions().vocab_size(30522).max_length(512).num_layers(6).num_heads(12);
  nn::BERT parts(o.d_model(384).hidden(1536));
  nn::load_weights(parts, minilm + "/model.safetensors", nn::bert_names(parts));
  parts.eval();
  const std::string text = "A man is eating food, \xC3\xA9";
  const Tensor ids = opened.tokenizer->encode(text).unsqueeze(0);
  CHECK(same_bits(ids, text::WordPieces::load(minilm + "/vocab.txt").encode(text).unsqueeze(0)));
  CHECK(same_bits(opened.bert()(ids), parts(ids)));
}

TEST_CASE("a model that was opened is written with the same config and weights", "[hub]") {
  const Directory where;
  for (const auto& entry : std::filesystem::directory_iterator(folder(""))) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    const nn::Pretrained opened = nn::load_pretrained(folder(name));
    nn::save_pretrained(where.file(name), opened);
    const nn::Pretrained again = nn::load_pretrained(where.file(name));
    CHECK(again.generation.stop_tokens() == opened.generation.stop_tokens());
    CHECK(again.generation.temperature() == opened.generation.temperature());
    CHECK(again.family == opened.family);
    const Tensor ids = at(load_safetensors(folder(name) + "/expected.safetensors").tensors, "ids");
    if (auto* const bert = dynamic_cast<nn::BERT*>(opened.model.get())) {
      CHECK(max_difference(again.bert()(ids), (*bert)(ids)) < 1e-5);
      continue;
    }
    CHECK(max_difference(again.gpt()(ids), opened.gpt()(ids)) < 1e-5);
    CHECK(nn::listed(again.gpt().options()) == nn::listed(opened.gpt().options()));
  }
}

TEST_CASE("a config that asks for what no model here computes names the key", "[hub]") {
  const Directory where;
  const auto refuses = [&](const std::string& name, const std::string& from, const std::string& to,
                           const std::string& why) {
    INFO(to);
    const std::string copy = changed(where, name, "config.json", from, to);
    CHECK_THROWS_AS(nn::load_pretrained(copy), FileError);
    CHECK_THROWS_WITH(nn::load_pretrained(copy), Contains("config.json: " + why));
  };
  refuses("llama", "\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2}",
          "rope_scaling.rope_type is 'dynamic': only default, linear, yarn and llama3");
  refuses("llama", "\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2, \"new\": 1}",
          "rope_scaling.new is 1: this key is not known here");
  refuses("llama", "\"rope_interleaved\": false", "\"rope_interleaved\": true", "rope_interleaved is true");
  refuses("llama", "\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true: only false can be computed here");
  refuses("llama", "\"silu\"", "\"tanh\"", "hidden_act is 'tanh': there is no such activation here with a gate");
  refuses("llama", "\"use_cache\"", "\"new_key\": {\"a\": 1}, \"use_cache\"", "new_key is {\"a\":1}");
  refuses("llama", "\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "num_attention_heads is 0");
  refuses("llama", "\"hidden_size\": 16", "\"hidden_size\": \"16\"", "hidden_size is \"16\": expected a whole number");
  refuses("llama", "\"hidden_size\": 16,", "", "hidden_size is missing");
  refuses("llama", "\"model_type\": \"llama\"", "\"model_type\": \"mamba\"",
          "model_type is 'mamba': the families here are gpt2");
  refuses("gpt2", "\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true",
          "scale_attn_by_inverse_layer_idx is true");
  refuses("gemma3", "\"full_attention\"\n", "\"chunked_attention\"\n", "layer_types has");
  refuses("gpt_neox", "\"attention_bias\": true", "\"attention_bias\": false", "attention_bias is false");
  refuses("gpt_neox_sequential", "\"rotary_pct\": 0.5", "\"rotary_pct\": 0.25",
          "rotary_pct is 0.25: 1 of the 4 features of a head would rotate");
  refuses("phi", "\"qk_layernorm\": false", "\"qk_layernorm\": true", "qk_layernorm is true");
  refuses("lens_solu", "\"solu_ln\"", "\"solu\"", "act_fn is 'solu': there is no such activation here");
  refuses("lens_solu", "\"LN\"", "\"LNPre\"", "act_fn is 'solu_ln': it can be computed with the normalization_type LN");
  refuses("lens_solu", "\"LN\"", "\"RMSPre\"", "normalization is \"RMSPre\": only LN, LNPre, RMS and null");
  refuses("lens_solu", "\"shortformer_pos\": false", "\"shortformer_pos\": true", "shortformer_pos is true");
  refuses("lens_solu", "\"seed\"", "\"new_key\": 1, \"seed\"", "new_key is 1: this key is not known here");
  refuses("lens_folded", "\"d_vocab_out\": 40", "\"d_vocab_out\": 41", "d_vocab_out is 41, d_vocab 40");
  refuses("lens_folded", "\"attn_scale\": 2", "\"attn_scale\": -2", "attn_scale is -2.4");
  // A key that the caller knows to be harmless.
  const std::string copy = changed(where, "llama", "config.json", "\"use_cache\"", "\"new_key\": 1, \"use_cache\"");
  CHECK(nn::load_pretrained(copy, nn::PretrainedOptions().ignored_keys({"new_key"})).family == "llama");
}

TEST_CASE("a key that a config leaves out, or that transformers reads otherwise, means what it means there", "[hub]") {
  const Directory where;
  const auto options = [&](const std::string& name, const std::string& from, const std::string& to) {
    INFO(name << ": " << from);
    return nn::load_pretrained(changed(where, name, "config.json", from, to)).gpt().options();
  };
  const auto largest_window = [](const nn::GPTOptions& o) {
    return o.windows().empty() ? o.window() : *std::max_element(o.windows().begin(), o.windows().end());
  };
  CHECK(options("gemma", "\"gelu_pytorch_tanh\"", "\"gelu\"").activation() == nn::Activation::geglu_tanh);
  CHECK(options("gemma2", "\"final_logit_softcapping\": 30.0,", "").logit_cap() == 30);
  CHECK(options("gemma2", "\"final_logit_softcapping\": 30.0", "\"final_logit_softcapping\": null").logit_cap() == 0);
  CHECK(options("gemma2", "\"attn_logit_softcapping\": 50.0,", "").attention_logit_cap() == 50);
  CHECK(
      options("gemma3", "\"attn_logit_softcapping\": null", "\"attn_logit_softcapping\": 2.0").attention_logit_cap() ==
      0);
  for (const auto& [name, key] : {std::pair("gemma2", "\"sliding_window\": 5,"),
                                  {"gemma3", "\"sliding_window\": 5,"},
                                  {"mistral", "\"sliding_window\": 6,"},
                                  {"qwen2", "\"sliding_window\": 4,"}})
    CHECK(largest_window(options(name, key, "")) == 4096);
  CHECK(largest_window(options("mistral", "\"sliding_window\": 6", "\"sliding_window\": null")) == 0);
  CHECK(largest_window(options("phi3", "\"sliding_window\": 7,", "")) == 0);
  const std::string types = get(folder("qwen2") + "/config.json");
  const std::size_t list = types.find("\"layer_types\""), end = types.find("],", list) + 2;
  const std::string copy = changed(where, "qwen2", "config.json", types.substr(list, end - list), "");
  CHECK(nn::load_pretrained(copy).gpt().options().windows() == std::vector<std::int64_t>{0, 4});
  const std::string text = get(copy + "/config.json"), first = "\"max_window_layers\": 1,";
  put(copy + "/config.json", std::string(text).replace(text.find(first), first.size(), ""));  // 28, beyond all layers
  CHECK(largest_window(nn::load_pretrained(copy).gpt().options()) == 0);
  const std::string layers = changed(where, "gpt_neo", "config.json", "\"global\"", "\"local\"");
  CHECK_THROWS_WITH(nn::load_pretrained(layers), Contains("attention_layers is [\"local\",\"local\"]"));
  const std::string least = changed(where, "llama", "generation_config.json", "{", "{\"min_length\": 9,");
  CHECK_THROWS_WITH(nn::load_pretrained(least), Contains("generation_config.json: min_length is 9"));
  CHECK_THROWS_WITH(nn::load_pretrained(folder("gpt2"), nn::PretrainedOptions().context_length(9)),
                    Contains("PretrainedOptions().context_length is 9: the weights have 48 learned positions"));
}

TEST_CASE("what is written can be read by transformers where an option stands for another", "[hub]") {
  const Directory where;
  const auto config = [&](const auto& model) {
    nn::save_pretrained(where.file("out"), model);
    return get(where.file("out") + "/config.json");
  };
  const nn::BERT bert(nn::BERTOptions().vocab_size(9).max_length(8).num_layers(1).num_heads(2).d_model(8));
  CHECK_THAT(config(bert), Contains("\"intermediate_size\": 32"));
  const nn::Pretrained gemma = nn::load_pretrained(folder("gemma2"));
  const nn::GPT whole(nn::GPTOptions(gemma.gpt().options()).windows({}).window(0));
  CHECK_THAT(config(whole), Contains("\"model_type\": \"gemma2\"") && Contains("\"sliding_window\": 4096"));
  const nn::Pretrained local = nn::load_pretrained(folder("gemma3"));
  CHECK_THAT(config(local.gpt()), Contains("\"model_type\": \"gemma3_text\""));
}

TEST_CASE("a model whose options no family has is not written", "[hub]") {
  const Directory where;
  const auto o = nn::GPTOptions().vocab_size(9).context_length(8).num_layers(2).num_heads(2).d_model(8);
  const auto refuses = [&](const nn::GPTOptions& options, const std::string& why) {
    INFO(why);
    CHECK_THROWS_WITH(
        nn::save_pretrained(where.file("out"), nn::GPT(options)),
        Contains("[save_pretrained] no family of transformers has these options; the nearest is ") && Contains(why));
    CHECK_FALSE(std::filesystem::exists(where.file("out")));
  };
  using nn::GPTOptions;
  refuses(GPTOptions(o).head_gates(true), "gpt2: head_gates is true, not false");
  refuses(GPTOptions(o).value_embeddings(true), "gpt2: value_embeddings is true, not false");
  refuses(GPTOptions(o).logit_cap(15), "gpt2: logit_cap is 15, not 0");
  refuses(GPTOptions(o).positions(nn::Positions::alibi), "gpt2: positions is alibi, not learned");
  refuses(GPTOptions(o).attention_only(true), "gpt2: attention_only is true, not false");
  refuses(GPTOptions(o).windows({3, 0}), "windows is {3, 0}, not {}");
  refuses(GPTOptions(o).activation(nn::Activation::solu), "activation is ");
  refuses(GPTOptions(o).positions(nn::Positions::rotary).window(3).local_rotary(nn::RotaryTableOptions().base(5)),
          "local_rotary is ");
  const text::Tokenizer bytes = text::Tokenizer::train("a b", text::TokenizerOptions().vocab_size(256));
  CHECK_THROWS_WITH(nn::save_pretrained(where.file("out"), nn::GPT(o), &bytes),
                    Contains("the tokenizer has 256 tokens, the model 9"));
  nn::GPT lora(o);
  nn::add_lora(lora);
  CHECK_THROWS_WITH(nn::save_pretrained(where.file("out"), lora), Contains("merge_lora()"));
}

TEST_CASE("damaged folders are refused with a FileError", "[hub]") {
  const Directory where;
  const std::string copy = where.file("llama3");
  std::filesystem::copy(folder("llama3"), copy);
  for (const std::string file :
       {"config.json", "model.safetensors.index.json", "model-00002-of-00003.safetensors", "generation_config.json"}) {
    const std::string whole = get(folder("llama3") + '/' + file);
    for (std::size_t cut = 0; cut < whole.size(); cut += 1 + whole.size() / 97) {
      if (whole.find_first_not_of(" \n}", cut) == std::string::npos) continue;
      INFO(file << ", cut at " << cut);
      put(copy + '/' + file, whole.substr(0, cut));
      CHECK_THROWS_AS(nn::load_pretrained(copy), FileError);
    }
    put(copy + '/' + file, whole);
  }
  const std::string larger = changed(where, "llama", "config.json", "\"hidden_size\": 16", "\"hidden_size\": 32");
  CHECK_THROWS_WITH(nn::load_pretrained(larger), Contains("llama") && Contains("misshapen"));
  const std::string missing =
      changed(where, "llama", "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  CHECK_THROWS_WITH(nn::load_pretrained(missing), Contains("missing: h.2.ln_1.weight"));
  for (const auto& [from, to] : {std::pair("\"vocab_size\": 40", "\"vocab_size\": 4000000000000"),
                                 {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 90000"},
                                 {"\"num_attention_heads\": 4", "\"num_attention_heads\": 100000000"},
                                 {"\"intermediate_size\": 24", "\"intermediate_size\": 9000000000000000000"}}) {
    const std::string huge = changed(where, "llama", "config.json", from, to);
    CHECK_THROWS_WITH(nn::load_pretrained(huge), Contains("config.json: model_type 'llama' with these sizes has"));
  }
  const std::string exact = changed(where, "llama", "config.json", "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0");
  CHECK_THROWS_WITH(nn::load_pretrained(exact), Contains("rms_norm_eps is 0: it must be positive"));
  const std::string far = changed(where, "llama", "config.json", "\"max_position_embeddings\": 48",
                                  "\"max_position_embeddings\": 2000000000");
  CHECK_THROWS_WITH(nn::load_pretrained(far), Contains("max_position_embeddings is 2000000000: the table of angles"));
  CHECK(nn::load_pretrained(far, nn::PretrainedOptions().context_length(8)).gpt().options().context_length() == 8);
  for (const char* const shard :
       {"model.safetensors.index.json", "model-00009.safetensors", "../llama/model.safetensors"})
    CHECK_THROWS_AS(nn::load_pretrained(changed(where, "llama3", "model.safetensors.index.json",
                                                "model-00001-of-00003.safetensors", shard)),
                    FileError);
  const std::string token = changed(where, "llama", "generation_config.json", "{", "{\"eos_token_id\": 40,");
  CHECK_THROWS_WITH(nn::load_pretrained(token),
                    Contains("generation_config.json: eos_token_id is 40: the ids of tokens are 0") &&
                        Contains("give the key to PretrainedOptions().ignored_keys()"));
  std::filesystem::remove(token + "/model.safetensors");
  CHECK_THROWS_WITH(nn::load_pretrained(token), Contains("there is neither model.safetensors"));
  CHECK_THROWS_WITH(nn::load_pretrained(where.file("nowhere")), Contains("config.json: there is no such file"));
}

TEST_CASE("large weights are mapped, and their changes stay in memory", "[hub]") {
  const Directory where;
  manual_seed(2);
  const auto o = nn::GPTOptions().vocab_size(300).context_length(8).num_layers(1).num_heads(2).d_model(64);
  nn::GPT gpt(o);
  gpt.eval();
  nn::save_pretrained(where.file("m"), gpt);
  const std::string file = where.file("m") + "/model.safetensors", bytes = get(file);
  const Tensor ids = arange(8).unsqueeze(0);
  const nn::Pretrained opened = nn::load_pretrained(where.file("m"));
  CHECK(same_bits(opened.gpt()(ids), gpt(ids)));
  CHECK(opened.gpt().head.weight.raw() == opened.gpt().wte.weight.raw());
  CHECK(opened.gpt().wte.weight.requires_grad());
  opened.gpt().loss(ids, ids).backward();
  const NoGrad no_grad;
  for (const Tensor& p : opened.gpt().parameters()) Tensor(p).add_(p.grad());
  CHECK(get(file) == bytes);
  const Tensor changed = opened.gpt()(ids);
  CHECK_FALSE(same_bits(changed, gpt(ids)));
  nn::save_pretrained(where.file("m"), opened);  // a new file with this name
  CHECK(same_bits(opened.gpt()(ids), changed));
  CHECK(same_bits(nn::load_pretrained(where.file("m")).gpt()(ids), changed));
}

TEST_CASE("the options of load_pretrained()", "[hub]") {
  const auto o = nn::PretrainedOptions().dtype(bfloat16).context_length(9);
  const nn::Pretrained opened = nn::load_pretrained(folder("mistral"), o);
  CHECK(opened.gpt().wte.weight.dtype() == bfloat16);
  CHECK(opened.gpt().options().context_length() == 9);
  CHECK_FALSE(opened.gpt().training());
  CHECK(opened.family == "mistral");
  CHECK_THROWS_WITH(opened.bert(), Contains("bert() of a GPT ('mistral')"));
  CHECK_THROWS_WITH(nn::load_pretrained(folder("mistral"), nn::PretrainedOptions().dtype(int64)),
                    Contains("dtype is int64"));
}

// What tests/checks/exchange/transformers.sh reads: each family as it is written here, and its logits.
TEST_CASE("models for transformers", "[.transformers]") {
  const char* const out = std::getenv("FIT_SAVED_FOLDER");
  if (!out) {
    SUCCEED("it writes for that check alone");
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder(""))) {
    const std::string name = entry.path().filename().string();
    nn::Pretrained opened = nn::load_pretrained(folder(name));
    if (opened.family == nn::hub::transformer_lens_type) continue;
    if (name == "gpt2") opened.tokenizer = text::Tokenizer::load(FIT_GOLDEN_DIR "/tokenizers/gpt2.json");
    const std::string to = std::string(out) + '/' + name;
    nn::save_pretrained(to, opened);
    // The row without padding: RoBERTa's positions count no padding.
    const Tensor ids = slice(at(load_safetensors(folder(name) + "/expected.safetensors").tensors, "ids"), 0, 0, 1);
    auto* const bert = dynamic_cast<nn::BERT*>(opened.model.get());
    StateDict expected = {{"ids", ids}, {"y", (bert ? (*bert)(ids) : opened.gpt()(ids)).detach()}};
    if (opened.tokenizer) expected.emplace_back("text_ids", opened.tokenizer->encode("Don't go, 12 caf\xC3\xA9s!"));
    save_safetensors(to + "/expected.safetensors", expected);
    if (bert) continue;
    nn::add_lora(opened.gpt(), nn::LoraOptions().rank(2).layers({"h.*"}));
    for (auto& [key, x] : nn::lora_state_dict(opened.gpt()))
      if (x.rank() == 2) nn::init::normal_(x, 0, 0.1);
    nn::save_adapter(to + "/adapter", opened);
    save_safetensors(to + "/adapter/expected.safetensors", {{"y", opened.gpt()(ids).detach()}});
  }
}

}  // namespace fit::test::hub_test
