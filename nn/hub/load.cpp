#include "common/load.hpp"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "base/affixes.hpp"
#include "common/retype.hpp"
#include "fit/nn/hub/hub.hpp"
#include "fit/nn/layer/init.hpp"
#include "hub/family.hpp"
#include "io/stored.hpp"
#include "layer/list.hpp"
#include "models/oversized.hpp"
#include "tensor/check.hpp"
#include "weights/steps.hpp"

namespace fit::nn {

std::string hub::in_folder(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

namespace {

using hub::in_folder;
using io::Config;
constexpr const char* load_op = "load_pretrained";

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string weights_of(const std::string& folder) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (const std::string path = in_folder(folder, name); is_there(path)) return path;
  throw FileError(std::string("[") + load_op + "] " + folder +
                  ": there is neither model.safetensors nor model.safetensors.index.json" +
                  (is_there(in_folder(folder, "pytorch_model.bin"))
                       ? "; pytorch_model.bin is a pickle, which can run code: save the model again in Python, with "
                         "model.save_pretrained(folder)"
                       : ""));
}

void shorten(GPTOptions& o, const PretrainedOptions& options) {
  const std::int64_t length = options.context_length();
  if (length == 0 || length == o.context_length()) return;
  if (o.positions() == Positions::learned)
    check::fail(load_op, "PretrainedOptions().context_length is ", length, ": the weights have ", o.context_length(),
                " learned positions, which can't be fewer or more");
  o.context_length(length);
}
void shorten(BERTOptions&, const PretrainedOptions&) {}

void check_positions(const Config& config, const GPTOptions& o) {
  if (oversized_positions(o))
    config.fail("max_position_embeddings", " is ", o.context_length(),
                ": the table of angles would be too large; set PretrainedOptions().context_length()");
}
void check_positions(const Config&, const BERTOptions&) {}

// The tensor whose name ends so; null if there is none.
const io::Stored* ending(const std::vector<io::Stored>& tensors, std::initializer_list<const char*> ends) {
  for (const io::Stored& x : tensors)
    for (const char* const end : ends)
      if (ends_with(x.name, end)) return &x;
  return nullptr;
}

// A file of a base model (LlamaModel) has neither a prefix of its layers nor a head: the table of tokens is the head.
// As in transformers 5, a head that differs from the table is not tied to it, whatever the config says: such a file is
// left where an adapter of the head was merged.
void adapt_head(GPTOptions& o, const std::vector<io::Stored>& tensors) {
  const bool base = std::any_of(tensors.begin(), tensors.end(), [](const io::Stored& x) {
    return starts_with(x.name, "layers.") || starts_with(x.name, "h.");
  });
  const io::Stored* const head = ending(tensors, {"lm_head.weight", "embed_out.weight"});
  const io::Stored* const table = ending(tensors, {"embed_tokens.weight", "wte.weight", "embed_in.weight"});
  if (base && !head) o.tie_weights(true).head_bias(false);
  if (o.tie_weights() && head && table) o.tie_weights(same_values(*head, *table));
}
void adapt_head(BERTOptions&, const std::vector<io::Stored>&) {}

template <class Options>
void check_sizes(const Config& config, const char* model_type, const Options& o,
                 const std::vector<io::Stored>& tensors) {
  double elements = 0;
  for (const io::Stored& x : tensors) elements += static_cast<double>(x.shape.numel());
  if (const std::string why = oversized(o, tensors.size(), elements); !why.empty())
    config.fail("model_type", " '", model_type, "' ", why);
  check_positions(config, o);
}

// Gives values that are not drawn another type. Layer::to() would convert them, and so use their memory.
void set_type(Layer& undrawn, DType dtype) {
  each_value(undrawn, [dtype](const std::string&, const Field& field) {
    Tensor& value = field.value();
    if (is_floating(value.dtype()) && value.dtype() != dtype) retype(value, Tensor::empty(value.shape(), dtype));
  });
}

template <class Model, class Options>
std::shared_ptr<Layer> model_of(const hub::Family<Options>& family, const Config& config, const std::string& folder,
                                const PretrainedOptions& options) {
  Options o = hub::options_of(family, config);
  config.check_all_read(hub::ignore_advice);
  shorten(o, options);
  const std::string weights = weights_of(folder);
  const std::vector<io::Stored> tensors = io::open_tensors(weights);
  adapt_head(o, tensors);
  check_sizes(config, family.model_type, o, tensors);
  try {
    const init::Skip undrawn;
    auto model = std::make_shared<Model>(o);
    set_type(*model, options.dtype());
    map_weights(*model, weights, family.names(model->options()));
    model->eval();
    return model;
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(std::string("[") + load_op + "] " + folder + ", " + family.model_type + ": " + e.what());
  }
}

template <class Model, class Options>
bool load_as(const std::vector<hub::Family<Options>>& families, const Config& config, const std::string& folder,
             const PretrainedOptions& options, Pretrained& to, std::string& known) {
  for (const hub::Family<Options>& family : families) {
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
    if (to.family != family.model_type) continue;
    to.model = model_of<Model>(family, config, folder, options);
    return true;
  }
  return false;
}

// ---- generation_config.json ---------------------------------------------------------------------------------------

// A token or a list of tokens.
Tokens tokens_of(const Config& c, const std::string& key, std::int64_t vocab_size) {
  Tokens all;
  const hub::Json& value = c.value(key);
  for (const hub::Json& id : value.is_array() ? value : hub::Json::array({value})) {
    if (id.is_null()) continue;
    if (!id.is_natural() || id.natural() >= static_cast<std::uint64_t>(vocab_size))
      c.fail(key, " is ", io::shown(id.dump()), ": the ids of tokens are 0 … ", vocab_size - 1, hub::ignore_advice);
    all.push_back(id.integer());
  }
  return all;
}

GenerateOptions generation_of(const Config& c, std::int64_t vocab_size) {
  GenerateOptions o;
  o.stop_tokens(tokens_of(c, "eos_token_id", vocab_size));
  o.max_new_tokens(c.integer("max_new_tokens", o.max_new_tokens()));
  const bool samples = c.boolean("do_sample", false);
  o.temperature(samples ? c.number("temperature", 1) : 0);
  o.top_k(samples ? c.integer("top_k", 50) : 0).top_p(samples ? c.number("top_p", 1) : 1);
  o.min_p(samples ? c.number("min_p", 0) : 0);
  o.repetition_penalty(c.number("repetition_penalty", 1));
  if (c.integer("num_beams", 1) != 1) c.fail("num_beams", " is not 1: nn::generate() has no beams for a GPT");
  c.ignore({"temperature", "top_k", "top_p", "min_p", "bos_token_id", "pad_token_id", "max_length",
            "transformers_version", "_from_model_config", "use_cache", "cache_implementation", "decoder_start_token_id",
            "output_attentions", "output_hidden_states", "return_dict_in_generate", "trust_remote_code"});
  for (const char* const key : {"length_penalty", "typical_p", "num_return_sequences", "num_beam_groups",
                                "encoder_repetition_penalty", "guidance_scale"})
    if (c.has(key) && c.value(key) != 1)
      c.fail(key, " is ", io::shown(c.value(key).dump()), ": nn::generate() computes only 1", hub::ignore_advice);
  c.check_all_read(hub::ignore_advice);
  return o;
}

GenerateOptions generation_of(const std::string& folder, const Config& config, const GPT& gpt,
                              const PretrainedOptions& options) {
  const std::string path = in_folder(folder, "generation_config.json");
  const std::int64_t vocab_size = gpt.options().vocab_size();
  if (is_there(path)) return generation_of(Config(load_op, path, options.ignored_keys()), vocab_size);
  GenerateOptions o;
  return o.stop_tokens(tokens_of(config, "eos_token_id", vocab_size)).temperature(0);
}

// ---- what may fail when it is used alone ----------------------------------------------------------------------------

// Of a file that need not be there.
std::string text_of(const std::string& path) { return is_there(path) ? io::InputFile(load_op, path).rest() : ""; }

PretrainedPart<text::Tokenizer> tokenizer_of(const std::string& folder) {
  const std::string path = in_folder(folder, "tokenizer.json");
  try {
    return text::Tokenizer::load(path);
  } catch (const FileError& e) {
    return PretrainedPart<text::Tokenizer>::without(e.what(), text_of(path));
  }
}

PretrainedPart<text::ChatTemplate> chat_of(const std::string& folder) {
  try {
    return text::ChatTemplate::load(folder);
  } catch (const FileError& e) {
    return PretrainedPart<text::ChatTemplate>::without(e.what(), text_of(in_folder(folder, "chat_template.jinja")));
  }
}

std::optional<std::int64_t> token_of(const Config& c, const char* key) {
  const hub::Json& id = c.value(key);
  if (!id.is_integer() || (id.is_natural() && id.natural() > INT64_MAX)) return {};
  return id.integer();
}

template <class Model>
Model& of_class(const std::shared_ptr<Layer>& model, const std::string& family, const char* name) {
  auto* const found = dynamic_cast<Model*>(model.get());
  if (!found)
    check::fail("Pretrained", name, "() of a ", model ? model->name() : "null", " ('", family,
                "'): ask for the class that the family has");
  return *found;
}

}  // namespace

GPT& Pretrained::gpt() const { return of_class<GPT>(model, family, "gpt"); }
BERT& Pretrained::bert() const { return of_class<BERT>(model, family, "bert"); }

Pretrained load_pretrained(const std::string& folder, const PretrainedOptions& options) {
  if (!is_floating(options.dtype()))
    check::fail(load_op, "dtype is ", options.dtype(), ": it must be floating; nn::quantize_() makes int8 weights");
  const Config config(load_op, in_folder(folder, "config.json"), options.ignored_keys());
  config.ignore(hub::harmless_keys());
  Pretrained all;
  all.family = hub::model_type(config);
  std::string known;
  if (load_as<GPT>(hub::gpt_families(), config, folder, options, all, known))
    all.generation = generation_of(folder, config, all.gpt(), options);
  else if (!load_as<BERT>(hub::bert_families(), config, folder, options, all, known))
    config.fail("model_type", " is '", io::shown(all.family), "': the families here are ", known);
  all.bos_token = token_of(config, "bos_token_id"), all.pad_token = token_of(config, "pad_token_id");
  all.tokenizer = tokenizer_of(folder);
  all.tokenizer_config = text_of(in_folder(folder, "tokenizer_config.json"));
  all.chat = chat_of(folder);
  return all;
}

}  // namespace fit::nn
