// LoRA adapters in peft's layout, beside peft's own answers (tests/golden/adapters.py).
#include <algorithm>
#include <filesystem>

#include "fit/io/safetensors.hpp"
#include "fit/nn/hub/hub.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/fine_tune.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::adapter_test {
namespace {

using Catch::Matchers::Contains;

std::string hub(const std::string& name) { return std::string(FIT_GOLDEN_DIR "/hub/") + name; }
std::string adapter(const std::string& name) { return std::string(FIT_GOLDEN_DIR "/adapters/") + name; }

Tensor output(const nn::Pretrained& opened, const Tensor& ids) {
  const auto* const bert = dynamic_cast<const nn::BERT*>(opened.model.get());
  return bert ? (*bert)(ids) : opened.gpt()(ids);
}

// Whether the model has no adapter and computes y.
bool unchanged(const nn::Pretrained& opened, const Tensor& ids, const Tensor& y) {
  try {
    nn::lora_state_dict(*opened.model);
    return false;
  } catch (const Error&) {
    return same_bits(output(opened, ids), y);
  }
}

struct Case {
  const char *name, *base;
};
const Case cases[] = {{"llama", "llama"}, {"patterns", "qwen2"}, {"rslora", "gpt2"}, {"gpt_neox", "gpt_neox"},
                      {"bert", "bert"},   {"bert_all", "bert"},  {"head", "qwen2"}};

}  // namespace

TEST_CASE("adapters of peft give peft's values, and are written as they were read", "[golden][hub]") {
  const Directory where;
  for (const auto& [name, base] : cases) {
    INFO(name);
    const StateDict expected = load_safetensors(adapter(name) + "/expected.safetensors").tensors;
    const Tensor ids = at(expected, "ids"), y = at(expected, "y");
    const double size = std::max(1., max(abs(y)).item());
    nn::Pretrained opened = nn::load_pretrained(hub(base)), again = nn::load_pretrained(hub(base));
    CHECK(max_difference(output(opened, ids), y) > 1e-2 * size);
    nn::load_adapter(opened, adapter(name));
    CHECK(max_difference(output(opened, ids), y) < 1e-4 * size);
    nn::save_adapter(where.file(name), opened);
    nn::load_adapter(again, where.file(name));
    CHECK(max_difference(output(again, ids), y) < 1e-4 * size);
    nn::merge_lora(*opened.model);
    CHECK(max_difference(output(opened, ids), y) < 1e-4 * size);
  }
}

TEST_CASE("an adapter that was trained here comes back", "[hub]") {
  const Directory where;
  nn::Pretrained opened = nn::load_pretrained(hub("phi3")), again = nn::load_pretrained(hub("phi3"));
  CHECK_THROWS_WITH(nn::save_adapter(where.file("a"), opened), Contains("has no adapters"));
  nn::add_lora(opened.gpt(), nn::LoraOptions().rank(2).alpha(5).layers({"h.*.attn.qkv", "h.*.mlp.gate", "h.*.mlp.fc"}));
  for (auto& [name, x] : nn::lora_state_dict(opened.gpt()))
    if (x.rank() == 2) nn::init::normal_(x, 0, 0.3);
  const Tensor ids = arange(10).reshape({1, 10});
  nn::save_adapter(where.file("a"), opened);
  nn::load_adapter(again, where.file("a"));
  CHECK(max_difference(output(again, ids), output(opened, ids)) < 1e-4);
}

TEST_CASE("an adapter of GPT-NeoX's head has the name of transformers 5, and opens with the older one, too", "[hub]") {
  const Directory where;
  nn::Pretrained opened = nn::load_pretrained(hub("gpt_neox"));
  nn::add_lora(opened.gpt(), nn::LoraOptions().rank(2).layers({"head"}));
  for (auto& [name, x] : nn::lora_state_dict(opened.gpt()))
    if (x.rank() == 2) nn::init::normal_(x, 0, 0.3);
  const Tensor ids = arange(10).reshape({1, 10});
  nn::save_adapter(where.file("a"), opened);
  const std::string weights = where.file("a") + "/adapter_model.safetensors";
  StateDict tensors = load_safetensors(weights).tensors;
  CHECK(tensors[0].first == "base_model.model.lm_head.lora_A.weight");
  CHECK_THAT(get(where.file("a") + "/adapter_config.json"), Contains("\"lm_head\""));
  for (const char* const name : {"lm_head", "embed_out"}) {
    for (const std::size_t i : {0, 1})
      tensors[i].first = std::string("base_model.model.") + name + (i == 0 ? ".lora_A.weight" : ".lora_B.weight");
    save_safetensors(weights, tensors);
    nn::Pretrained again = nn::load_pretrained(hub("gpt_neox"));
    nn::load_adapter(again, where.file("a"));
    CHECK(max_difference(output(again, ids), output(opened, ids)) < 1e-4);
  }
}

TEST_CASE("what is not a LoRA adapter of the model is refused, and changes nothing", "[hub]") {
  const Directory where;
  const std::string copy = where.file("a");
  std::filesystem::copy(adapter("llama"), copy);
  nn::Pretrained opened = nn::load_pretrained(hub("llama"));
  const Tensor ids = arange(10).reshape({1, 10}), y = output(opened, ids);
  const std::string config = get(copy + "/adapter_config.json"), weights = get(copy + "/adapter_model.safetensors");
  const auto refuses = [&](const std::string& from, const std::string& to, const std::string& why) {
    INFO(to);
    std::string text = config;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    put(copy + "/adapter_config.json", text.replace(at, from.size(), to));
    CHECK_THROWS_AS(nn::load_adapter(opened, copy), FileError);
    CHECK_THROWS_WITH(nn::load_adapter(opened, copy), Contains("adapter_config.json: " + why));
    CHECK(unchanged(opened, ids, y));
  };
  refuses("\"LORA\"", "\"IA3\"", "peft_type is 'IA3': only LORA");
  refuses("\"use_dora\": false", "\"use_dora\": true", "use_dora is true: this key is not known here");
  refuses("\"bias\": \"none\"", "\"bias\": \"all\"", "bias is 'all': only none");
  refuses("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"", "init_lora_weights is \"pissa\"");
  refuses("\"alpha_pattern\": {}", "\"alpha_pattern\": {\".*q\": 2}", "alpha_pattern..*q is a regular expression");
  refuses("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]", "modules_to_save is [\"lm_head\"]");
  for (const std::string& text : {config, weights}) {
    const std::string file = copy + (text == config ? "/adapter_config.json" : "/adapter_model.safetensors");
    for (std::size_t cut = 0; cut + 2 < text.size(); cut += 1 + text.size() / 61) {
      put(file, text.substr(0, cut));
      CHECK_THROWS_AS(nn::load_adapter(opened, copy), FileError);
    }
    put(file, text);
  }
  CHECK(unchanged(opened, ids, y));
  CHECK_THROWS_WITH(nn::load_adapter(opened, adapter("rslora")), Contains("belongs to no Linear of the model"));
  StateDict tensors = load_safetensors(copy + "/adapter_model.safetensors").tensors;
  tensors[0].second = zeros({3, 3});
  save_safetensors(copy + "/adapter_model.safetensors", tensors);
  CHECK_THROWS_AS(nn::load_adapter(opened, copy), FileError);
  tensors.erase(tensors.begin());
  save_safetensors(copy + "/adapter_model.safetensors", tensors);
  CHECK_THROWS_WITH(nn::load_adapter(opened, copy), Contains("has one of lora_A and lora_B alone"));
  CHECK(unchanged(opened, ids, y));
}

}  // namespace fit::test::adapter_test
