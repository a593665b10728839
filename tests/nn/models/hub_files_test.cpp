// Files as they are on the Hub: of older and newer versions of transformers, of base models, with more keys than
// needed.
#include <algorithm>
#include <filesystem>

#include "base/affixes.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/hub/hub.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "hub/family.hpp"
#include "models/compared_options.hpp"
#include "nn/models/hub_folders.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::hub_files_test {
namespace {

using Catch::Matchers::Contains;
using Ignored = std::vector<std::string>;

nn::Pretrained opened(const std::string& folder, const Ignored& ignored = {}) {
  return nn::load_pretrained(folder, nn::PretrainedOptions().ignored_keys(ignored));
}

// A copy of a folder with these keys in front of the others of config.json.
std::string with_keys(const Directory& where, const std::string& name, const std::string& keys) {
  return changed(where, name, "config.json", "{", '{' + keys + ',');
}

// A copy of a folder without a key of config.json, whose value is a number.
std::string without_key(const Directory& where, const std::string& name, const std::string& key) {
  const std::string text = get(folder(name) + "/config.json");
  const std::size_t begin = text.find('"' + key + '"');
  REQUIRE(begin != std::string::npos);
  return changed(where, name, "config.json", text.substr(begin, text.find('\n', begin) - begin), "");
}

// A copy of a folder whose tensors have other names; those without a name are left out.
template <class Name>
std::string with_names(const Directory& where, const std::string& name, const Name& other) {
  const std::string copy = where.file(name);
  std::filesystem::remove_all(copy);
  std::filesystem::copy(folder(name), copy);
  StateDict tensors;
  for (const auto& [key, x] : load_safetensors(copy + "/model.safetensors", keep_bfloat16).tensors)
    if (const std::string its = other(key); !its.empty()) tensors.emplace_back(its, x.clone());
  save_safetensors(copy + "/model.safetensors", tensors);
  return copy;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Tensor ids_of(const std::string& name) {
  return at(load_safetensors(folder(name) + "/expected.safetensors").tensors, "ids");
}

Tensor output(const nn::Pretrained& all, const Tensor& ids) {
  const auto* const bert = dynamic_cast<const nn::BERT*>(all.model.get());
  return bert ? (*bert)(ids) : all.gpt()(ids);
}

bool same_output(const std::string& name, const std::string& copy) {
  const Tensor ids = ids_of(name);
  return same_bits(output(opened(copy), ids), output(opened(folder(name)), ids));
}

nn::OptionList options_in(const std::string& folder, const Ignored& ignored = {}) {
  return nn::listed(opened(folder, ignored).gpt().options());
}

}  // namespace

TEST_CASE("norms of BERT with the names gamma and beta are its weights and biases", "[hub]") {
  const Directory where;
  for (const char* const name : {"bert", "roberta", "distilbert"}) {
    INFO(name);
    int norms = 0;
    const std::string copy = with_names(where, name, [&](const std::string& key) {
      norms += key.find("LayerNorm") != std::string::npos;
      return replaced(replaced(key, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta");
    });
    CHECK(norms >= 2);
    CHECK(same_output(name, copy));
  }
  nn::BERT bert(opened(folder("bert")).bert().options());
  nn::load_weights(bert, where.file("bert") + "/model.safetensors", nn::bert_names(bert));
  const StateDict back = nn::to_theirs(bert.state_dict(), nn::bert_names(bert));
  CHECK(contains(back, "embeddings.LayerNorm.weight"));
  CHECK_FALSE(contains(back, "embeddings.LayerNorm.gamma"));
}

TEST_CASE("keys of well-known configs change nothing", "[hub]") {
  const Directory where;
  const std::pair<const char*, const char*> all[] = {
      {"distilbert", R"("tie_weights_": true)"},
      {"gpt2", R"("_num_labels": 1)"},
      {"bert", R"("_num_labels": 9, "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12,
                  "pooler_num_fc_layers": 3, "pooler_size_per_head": 128, "pooler_type": "first_token_transform")"},
      {"llama", R"("max_sequence_length": 2048)"},
      {"gemma2", R"("sliding_window_size": 5)"}};
  for (const auto& [name, keys] : all) {
    INFO(name);
    CHECK(same_output(name, with_keys(where, name, keys)));
  }
  CHECK_THROWS_WITH(opened(with_keys(where, "gemma2", R"("sliding_window_size": 6)")),
                    Contains("sliding_window_size is 6, sliding_window 5: both must be the same"));
  CHECK(same_output("distilbert", changed(where, "distilbert", "config.json", "\"sinusoidal_pos_embds\": false",
                                          "\"sinusoidal_pos_embds\": true")));
  const std::string fast = changed(where, "gpt2", "config.json", "\"gelu_new\"", "\"gelu_fast\"");
  CHECK(same_output("gpt2", fast));
}

TEST_CASE("several probabilities of dropout are read as none", "[hub]") {
  const Directory where;
  const std::string phi = changed(where, "phi", "config.json", "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.1");
  CHECK(opened(phi).gpt().options().dropout() == 0);
  CHECK(same_output("phi", phi));
  const std::string gpt2 = changed(where, "gpt2", "config.json", "\"attn_pdrop\": 0.1", "\"attn_pdrop\": 0");
  CHECK(opened(gpt2).gpt().options().dropout() == 0);
  CHECK(opened(folder("gpt2")).gpt().options().dropout() == 0.1);
  const std::string bert =
      changed(where, "bert", "config.json", "\"hidden_dropout_prob\": 0.1", "\"hidden_dropout_prob\": 0");
  CHECK(opened(bert).bert().options().dropout() == 0);
}

TEST_CASE("a tokenizer or chat template that can't be used is an Error when it is used", "[hub]") {
  const Directory where;
  const std::string copy = where.file("bert");
  std::filesystem::copy(folder("bert"), copy);
  CHECK_FALSE(opened(copy).tokenizer);
  CHECK_THROWS_AS(*opened(copy).tokenizer, FileError);
  CHECK_THROWS_WITH(*opened(copy).tokenizer, Contains(copy + "/tokenizer.json"));
  CHECK_THROWS_AS(*opened(copy).chat, FileError);
  const std::string tokenizer = R"({"model": {"type": "New"}})", chat = "{% new %}";
  put(copy + "/tokenizer.json", tokenizer);
  put(copy + "/chat_template.jinja", chat);
  const nn::Pretrained all = opened(copy);
  CHECK(all.bert().options().num_layers() == 2);
  CHECK_FALSE(all.tokenizer.has_value());
  CHECK_THROWS_AS(all.tokenizer->size(), FileError);
  CHECK_THROWS_WITH(all.tokenizer->size(), Contains(copy + "/tokenizer.json: "));
  CHECK_FALSE(all.chat);
  CHECK_THROWS_WITH(all.chat->source(), Contains(copy) && Contains("new"));
  nn::save_pretrained(where.file("out"), all);  // transformers may read them
  CHECK(get(where.file("out") + "/tokenizer.json") == tokenizer);
  CHECK(get(where.file("out") + "/chat_template.jinja") == chat);
  std::filesystem::remove(copy + "/chat_template.jinja");
  const std::string config = R"({"chat_template": "{% new %}"})";
  put(copy + "/tokenizer_config.json", config);
  CHECK_THROWS_WITH(opened(copy).chat->source(), Contains(copy) && Contains("new"));
  std::filesystem::remove_all(where.file("out"));
  nn::save_pretrained(where.file("out"), opened(copy));
  CHECK(get(where.file("out") + "/tokenizer_config.json") == config);
  CHECK_FALSE(std::filesystem::exists(where.file("out") + "/chat_template.jinja"));
}

TEST_CASE("files of base models open", "[hub]") {
  const Directory where;
  for (const char* const name : {"llama", "qwen2", "qwen3", "olmo2", "phi", "phi3", "gemma", "gemma2", "gemma3",
                                 "gpt_neox", "gpt_neo", "gpt2"}) {
    INFO(name);
    const auto base = [](const std::string& key) {
      return replaced(replaced(replaced(key, "model.", ""), "gpt_neox.", ""), "transformer.", "");
    };
    CHECK(same_output(name, with_names(where, name, base)));
    const std::string copy = with_names(where, name, [&](const std::string& key) {
      return starts_with(key, "lm_head.") || starts_with(key, "embed_out.") ? "" : base(key);
    });
    const nn::Pretrained all = opened(copy), whole = opened(folder(name));
    CHECK(all.gpt().options().tie_weights());
    CHECK(same_bits(all.gpt().head.weight, all.gpt().wte.weight));
    for (const auto& [key, x] : all.gpt().state_dict())
      if (!starts_with(key, "head.")) CHECK(same_bits(x, at(whole.gpt().state_dict(), key)));
  }
  for (const char* const name : {"gpt2", "gpt_neo"}) {  // also where the config says that the head has its own table
    const std::string copy =
        with_names(where, name, [](const std::string& key) { return replaced(key, "transformer.", ""); });
    put(copy + "/config.json",
        replaced(get(copy + "/config.json"), "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"));
    CHECK(opened(copy).gpt().options().tie_weights());
    CHECK(same_output(name, copy));
  }
  const auto headless = [](const std::string& key) { return key == "lm_head.weight" ? "" : key; };
  CHECK_THROWS_WITH(opened(with_names(where, "qwen2", headless)), Contains("missing: head.weight"));
}

TEST_CASE("a head that differs from the table of tokens is not tied to it, whatever the config says", "[hub]") {
  const Directory where;
  for (const char* const name : {"gemma", "gpt2", "llama", "gpt_neox"}) {
    INFO(name);
    const nn::Pretrained whole = opened(folder(name));
    const bool tied = whole.gpt().options().tie_weights();
    const std::string copy = with_names(where, name, [](const std::string& key) { return key; });
    StateDict tensors = load_safetensors(copy + "/model.safetensors", keep_bfloat16).tensors;
    const std::string head = name == std::string("gpt_neox") ? "embed_out.weight" : "lm_head.weight";
    if (tied) tensors.emplace_back(head, whole.gpt().wte.weight.value().detach().clone());
    if (!tied)
      put(copy + "/config.json",
          replaced(get(copy + "/config.json"), "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"));
    save_safetensors(copy + "/model.safetensors", tensors);
    CHECK(opened(copy).gpt().options().tie_weights() == tied);
    CHECK(same_output(name, copy));
    if (!tied) continue;
    tensors.back().second = 2 * tensors.back().second;
    save_safetensors(copy + "/model.safetensors", tensors);
    const nn::Pretrained other = opened(copy);
    CHECK(!other.gpt().options().tie_weights());
    CHECK(same_bits(other.gpt().head.weight, 2 * whole.gpt().head.weight.value()));
    CHECK(same_bits(other.gpt().wte.weight, whole.gpt().wte.weight));
  }
}

TEST_CASE("a generation_config.json without max_new_tokens generates the default number", "[hub]") {
  const Directory where;
  const std::string copy = changed(where, "llama", "config.json", "{", "{");
  const auto written = [&] {
    nn::save_pretrained(where.file("out"), opened(copy));
    return get(where.file("out") + "/generation_config.json");
  };
  put(copy + "/generation_config.json", "{}");
  const nn::Pretrained all = opened(copy);
  CHECK(nn::generate(all.gpt(), {{1, 2}}, all.generation)[0].size() == 20);
  CHECK_THAT(written(), !Contains("max_new_tokens"));
  put(copy + "/generation_config.json", R"({"max_new_tokens": 3})");
  CHECK(opened(copy).generation.max_new_tokens() == 3);
  CHECK_THAT(written(), Contains("\"max_new_tokens\": 3"));
}

TEST_CASE("a key inside of rope_scaling can be ignored", "[hub]") {
  const Directory where;
  const auto scaled = [&](const std::string& more) {
    return changed(
        where, "llama", "config.json", "\"rope_scaling\": null",
        R"("rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 24)" + more + '}');
  };
  const nn::OptionList plain = options_in(scaled(""));
  CHECK(options_in(scaled(R"(, "finetuned": true)")) == plain);
  const std::string copy = scaled(R"(, "new": 1)");
  CHECK_THROWS_WITH(opened(copy), Contains("rope_scaling.new is 1: this key is not known here") &&
                                      Contains("give the key to PretrainedOptions().ignored_keys()"));
  CHECK(options_in(copy, {"rope_scaling.new"}) == plain);
  CHECK(options_in(copy, {"rope_scaling.new", "not.there"}) == plain);
  CHECK(options_in(copy, {"rope_scaling"}) == options_in(folder("llama")));
  const std::string local =
      changed(where, "gemma3", "config.json", "\"full_attention\": {", "\"full_attention\": {\"new\": 1,");
  CHECK_THROWS_WITH(opened(local), Contains("rope_parameters.full_attention.new is 1"));
  CHECK(options_in(local, {"rope_parameters.full_attention.new"}) == options_in(folder("gemma3")));
}

TEST_CASE("positions in the forms of transformers 4 and 5 at once must be the same", "[hub]") {
  const Directory where;
  const auto both = [&](const std::string& name, const std::string& keys) { return with_keys(where, name, keys); };
  const std::string llama3 = R"("rope_scaling": {"rope_type": "llama3", "factor": 4.0,
      "original_max_position_embeddings": 12, "low_freq_factor": 0.5, "high_freq_factor": 2.0})";
  CHECK(options_in(both("llama3", "\"rope_theta\": 5000.0")) == options_in(folder("llama3")));
  CHECK(options_in(both("llama3", llama3 + ", \"rope_theta\": 5000.0")) == options_in(folder("llama3")));
  CHECK_THROWS_WITH(opened(both("llama3", "\"rope_theta\": 10000.0")),
                    Contains("rope_theta is 10000.0, which differs from rope_parameters") &&
                        Contains("both must say the same") && Contains("ignored_keys()"));
  CHECK(options_in(both("llama3", "\"rope_theta\": 10000.0"), {"rope_theta"}) == options_in(folder("llama3")));
  CHECK_THROWS_WITH(opened(both("llama3", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})")),
                    Contains("rope_scaling is ") && Contains("which differs from rope_parameters"));
  CHECK(options_in(both("phi3", "\"rope_theta\": 10000.0")) == options_in(folder("phi3")));
  CHECK(options_in(both("gemma3", R"("rope_theta": 1000000.0, "rope_local_base_freq": 100.0)")) ==
        options_in(folder("gemma3")));
  CHECK_THROWS_WITH(opened(both("gemma3", "\"rope_local_base_freq\": 10.0")), Contains("rope_local_base_freq is 10"));
}

TEST_CASE("YaRN uses mscale and mscale_all_dim together alone", "[hub]") {
  const Directory where;
  const auto with = [&](const std::string& more) {
    return options_in(changed(where, "qwen3", "config.json", "\"factor\": 2.0", "\"factor\": 2.0" + more));
  };
  CHECK(with(", \"mscale\": 0.7") == options_in(folder("qwen3")));
  CHECK(with(", \"mscale_all_dim\": 0.7") == options_in(folder("qwen3")));
  CHECK(with(", \"mscale\": 0.7, \"mscale_all_dim\": 0") == options_in(folder("qwen3")));
  CHECK(with(", \"mscale\": 0.7, \"mscale_all_dim\": 0.3") != options_in(folder("qwen3")));
}

TEST_CASE("a head whose size the config leaves out has the family's", "[hub]") {
  const Directory where;
  for (const auto& [name, size] : {std::pair("gemma", 256), {"gemma2", 256}, {"gemma3", 256}, {"qwen3", 128}}) {
    INFO(name);
    const std::string copy = without_key(where, name, "head_dim");
    const io::Config config("test", copy + "/config.json");
    for (const nn::hub::GPTFamily& family : nn::hub::gpt_families())
      if (config.text("model_type") == family.model_type)
        CHECK(nn::hub::options_of(family, config).head_size() == size);
  }
  CHECK(opened(without_key(where, "llama", "head_dim")).gpt().options().head_size() == 4);
}

TEST_CASE("scaled rotary positions are written as transformers reads them", "[hub]") {
  const Directory where;
  const auto linear = nn::RotaryTableOptions().scaling(nn::RotaryScaling::linear).factor(2);
  nn::Pretrained phi3 = opened(folder("phi3"));
  phi3.model = std::make_shared<nn::GPT>(nn::GPTOptions(phi3.gpt().options()).rotary(linear));
  CHECK_THROWS_WITH(nn::save_pretrained(where.file("out"), phi3),
                    Contains("the nearest is phi3: rotary.scaling is linear, not none") &&
                        Contains("save_safetensors() writes any model"));
  const std::string copy = changed(where, "gemma3", "config.json", "\"rope_type\": \"default\"",
                                   "\"factor\": 3.0, \"rope_type\": \"linear\"");
  const nn::Pretrained local = opened(copy);
  CHECK(local.gpt().options().local_rotary()->factor() == 3);
  nn::save_pretrained(where.file("local"), local);
  CHECK(options_in(where.file("local")) == options_in(copy));
  CHECK(same_bits(output(opened(where.file("local")), ids_of("gemma3")), output(local, ids_of("gemma3"))));
}

TEST_CASE("the ids of special tokens are written as they were opened", "[hub]") {
  const Directory where;
  std::string copy = changed(where, "llama", "config.json", "\"pad_token_id\": null", "\"pad_token_id\": 7");
  put(copy + "/generation_config.json", R"({"eos_token_id": [3, 4], "length_penalty": 1.0, "typical_p": 1.0,
                                            "num_return_sequences": 1})");
  const nn::Pretrained all = opened(copy);
  CHECK(all.bos_token == 1);
  CHECK(all.pad_token == 7);
  nn::save_pretrained(where.file("out"), all);
  for (const char* const file : {"/config.json", "/generation_config.json"}) {
    const io::Config written("test", where.file("out") + file);
    CHECK(written.integer("bos_token_id") == 1);
    CHECK(written.integer("pad_token_id") == 7);
    CHECK(written.value("eos_token_id").dump() == "[3,4]");
  }
  put(copy + "/generation_config.json", R"({"length_penalty": 2.0})");
  CHECK_THROWS_WITH(opened(copy), Contains("length_penalty is 2.0: nn::generate() computes only 1"));
}

}  // namespace fit::test::hub_files_test
