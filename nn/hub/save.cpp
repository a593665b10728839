#include <map>
#include <optional>
#include <set>

#include "base/joined.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/hub/hub.hpp"
#include "hub/family.hpp"
#include "io/atomic_file.hpp"
#include "models/compared_options.hpp"
#include "models/gpt_options.hpp"
#include "tensor/check.hpp"
#include "weights/steps.hpp"

namespace fit::nn {
namespace {

using hub::in_folder;
using hub::Json;
constexpr const char* save_op = "save_pretrained";

// The options that a family reads back from its config, and none if it can't read it.
template <class Options>
std::optional<Options> read_back(const hub::Family<Options>& family, const Json& config) {
  try {
    return hub::options_of(family, io::Config(save_op, "config.json", config));
  } catch (const FileError&) {
    return {};
  }
}

template <class Options>
Json config_of(const hub::Family<Options>& family, const Options& o) {
  Json config{{"model_type", family.model_type}, {"dtype", "float32"}};
  if (family.architecture) config["architectures"] = Json::array({family.architecture});
  // Otherwise transformers takes the ids of the family's first model, which can lie beyond this vocabulary.
  for (const char* const token : {"bos_token_id", "eos_token_id", "pad_token_id"}) config[token] = nullptr;
  const Options whole = with_sizes(o);
  for (const auto& entry : family.entries) entry.write(whole, config);
  return config;
}

// The family whose config is read back as these options, and that config: `first` if it is one. Throws Error if there
// is none.
template <class Options>
std::pair<const hub::Family<Options>*, Json> family_of(const std::vector<hub::Family<Options>>& families,
                                                       const Options& o, const std::string& first) {
  std::vector<const hub::Family<Options>*> order;
  for (const hub::Family<Options>& family : families)
    if (family.model_type == first)
      order.insert(order.begin(), &family);
    else if (family.architecture)
      order.push_back(&family);
  const hub::Family<Options>* nearest = nullptr;
  std::vector<Difference> fewest;
  for (const hub::Family<Options>* const family : order) {
    Json config = config_of(*family, o);
    const std::optional<Options> read = read_back(*family, config);
    if (!read) continue;
    std::vector<Difference> differ = differences(o, *read);
    if (differ.empty()) return {family, std::move(config)};
    if (nearest && (nearest->model_type == first || differ.size() >= fewest.size())) continue;
    nearest = family;
    fewest = std::move(differ);
  }
  if (!nearest)
    check::fail(save_op, "no family of transformers has these options; save_safetensors() writes any model");
  std::string list;
  for (const Difference& d : fewest)
    list += joined(list.empty() ? "" : "; ", d.name, " is ", d.value, ", not ", d.other);
  check::fail(save_op, "no family of transformers has these options; the nearest is ", nearest->model_type, ": ", list,
              ". save_safetensors() writes any model");
}

// Without the second name of a tensor that has two.
StateDict once(const StateDict& state) {
  StateDict all;
  std::set<const void*> seen;
  for (const auto& [name, x] : state)
    if (x.numel() == 0 || seen.insert(x.raw()).second) all.emplace_back(name, x);
  return all;
}

template <class Model, class Options>
void save(const std::string& folder, const Model& model, const std::vector<hub::Family<Options>>& families,
          const text::Tokenizer* tokenizer, const std::string& first_family = {}, const Json& tokens = Json::object()) {
  check_plain_weights(save_op, model);
  auto [family, config] = family_of(families, model.options(), first_family);
  const StateDict state = once(model.state_dict());
  for (const auto& [key, id] : tokens.items()) config[key] = id;
  if (!state.empty()) config["dtype"] = name_of(state[0].second.dtype());
  io::make_folder(save_op, folder);
  save_safetensors(in_folder(folder, "model.safetensors"), to_theirs(state, family->names(model.options())),
                   {{"format", "pt"}});
  io::write_file(save_op, in_folder(folder, "config.json"), config.dump(2) + '\n');
  if (!tokenizer) return;
  tokenizer->save(in_folder(folder, "tokenizer.json"));
  io::write_file(save_op, in_folder(folder, "tokenizer_config.json"),
                 Json{{"tokenizer_class", "PreTrainedTokenizerFast"}}.dump(2) + '\n');
}

// The ids of tokens that were opened.
Json tokens_json(const Pretrained& opened) {
  Json json = Json::object();
  if (opened.bos_token) json["bos_token_id"] = *opened.bos_token;
  if (opened.pad_token) json["pad_token_id"] = *opened.pad_token;
  const Tokens& stop = opened.generation.stop_tokens();
  if (!stop.empty()) json["eos_token_id"] = stop.size() == 1 ? Json(stop[0]) : Json(stop);
  return json;
}

Json generation_json(const Pretrained& opened) {
  const GenerateOptions& o = opened.generation;
  Json json = tokens_json(opened);
  json["do_sample"] = o.temperature() > 0, json["repetition_penalty"] = o.repetition_penalty();
  if (o.temperature() > 0) json["temperature"] = o.temperature(), json["top_k"] = o.top_k(), json["top_p"] = o.top_p();
  if (o.temperature() > 0 && o.min_p() > 0) json["min_p"] = o.min_p();
  if (o.max_new_tokens() != GenerateOptions().max_new_tokens()) json["max_new_tokens"] = o.max_new_tokens();
  return json;
}

// Not for a folder that was opened, which may have a larger tokenizer already.
void check_tokenizer(const text::Tokenizer* tokenizer, std::int64_t vocab_size) {
  if (tokenizer && tokenizer->size() > vocab_size)
    check::fail(save_op, "the tokenizer has ", tokenizer->size(), " tokens, the model ", vocab_size,
                ": the model must have as many");
}

}  // namespace

void save_pretrained(const std::string& folder, const GPT& model, const text::Tokenizer* tokenizer) {
  check_tokenizer(tokenizer, model.options().vocab_size());
  save(folder, model, hub::gpt_families(), tokenizer);
}

void save_pretrained(const std::string& folder, const BERT& model, const text::Tokenizer* tokenizer) {
  check_tokenizer(tokenizer, model.options().vocab_size());
  save(folder, model, hub::bert_families(), tokenizer);
}

void save_pretrained(const std::string& folder, const Pretrained& opened) {
  const text::Tokenizer* const tokenizer = opened.tokenizer ? &*opened.tokenizer : nullptr;
  const auto write = [&](const char* name, const std::string& text) {
    io::write_file(save_op, in_folder(folder, name), text);
  };
  const auto* const encoder = dynamic_cast<const BERT*>(opened.model.get());
  if (encoder)
    save(folder, *encoder, hub::bert_families(), tokenizer, opened.family, tokens_json(opened));
  else
    save(folder, opened.gpt(), hub::gpt_families(), tokenizer, opened.family, tokens_json(opened));
  if (!opened.tokenizer.file().empty()) write("tokenizer.json", opened.tokenizer.file());
  if (!opened.chat.file().empty()) write("chat_template.jinja", opened.chat.file());
  if (!opened.tokenizer_config.empty()) write("tokenizer_config.json", opened.tokenizer_config);
  if (opened.chat) write("chat_template.jinja", opened.chat->source());
  if (!encoder) write("generation_config.json", generation_json(opened).dump(2) + '\n');
}

}  // namespace fit::nn
