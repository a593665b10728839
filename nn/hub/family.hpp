#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/config.hpp"
#include "fit/nn/models/bert.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/weights/weights.hpp"
#include "models/saved_options.hpp"

// A family of models of transformers is a table: which keys of config.json are which options, and the names of the
// weights. The same table reads and writes.
namespace fit::nn::hub {

using io::Config;
using io::Json;

/// The end of the message about a key that is not known.
inline constexpr const char* ignore_advice =
    ". To load the model all the same, give the key to PretrainedOptions().ignored_keys()";

/// One or more keys of config.json and the options that they mean.
template <class Options>
struct Entry {
  std::function<void(const Config&, Options&)> read;
  std::function<void(const Options&, Json&)> write;
};

template <class Options>
struct Family {
  const char* model_type;    ///< config.json's
  const char* architecture;  ///< the class of transformers with this model; null if it has none
  Options preset;            ///< what all models of the family have
  std::vector<Entry<Options>> entries;
  NameMap (*names)(const Options&);
};

using GPTFamily = Family<GPTOptions>;
using BERTFamily = Family<BERTOptions>;
/// The families, the usual ones first: a model is saved as the first one that has its options.
const std::vector<GPTFamily>& gpt_families();
/// The models of TransformerLens, whose config.json has no model_type.
GPTFamily transformer_lens();
inline constexpr const char* transformer_lens_type = "transformer_lens";
/// The type that a config.json says.
std::string model_type(const Config& config);
const std::vector<BERTFamily>& bert_families();

/// The getter and the setter of an option.
template <class Options, class T>
struct Access {
  T (*get)(const Options&);
  void (*set)(Options&, T);
};
/// FIT_HUB_OPTION(GPTOptions, std::int64_t, d_model)
#define FIT_HUB_OPTION(Options, T, name)                                                       \
  Access<Options, T> {                                                                         \
    [](const Options& o) -> T { return o.name(); }, [](Options& o, T value) { o.name(value); } \
  }

inline void get(const Config& c, const char* key, const Json& absent, std::int64_t& to) { to = c.integer(key, absent); }
inline void get(const Config& c, const char* key, const Json& absent, double& to) { to = c.number(key, absent); }
inline void get(const Config& c, const char* key, const Json& absent, bool& to) { to = c.boolean(key, absent); }

/// A key that is an option. `absent` is the value of a config without the key; null: it must be there.
template <class Options, class T>
Entry<Options> entry(const char* key, Access<Options, T> option, const Json& absent = {}) {
  return {[=](const Config& c, Options& o) {
            T value;
            get(c, key, absent, value);
            option.set(o, value);
          },
          [=](const Options& o, Json& json) { json[key] = option.get(o); }};
}

/// The same for an option whose 0 stands for null.
template <class Options, class T>
Entry<Options> entry_or_null(const char* key, Access<Options, T> option, const Json& absent = {}) {
  return {[=](const Config& c, Options& o) {
            T value = 0;
            if (c.has(key) || !(c.contains(key) || absent.is_null())) get(c, key, absent, value);
            option.set(o, value);
          },
          [=](const Options& o, Json& json) { json[key] = option.get(o) == 0 ? Json() : Json(option.get(o)); }};
}

/// The keys of the sizes that all models have, and the entries behind them, some of which read these sizes.
template <class Options>
std::vector<Entry<Options>> sizes(const char* vocab_size, const Entry<Options>& length, const char* num_layers,
                                  const char* num_heads, const char* d_model, const std::vector<Entry<Options>>& more) {
  std::vector<Entry<Options>> all = {entry(vocab_size, FIT_HUB_OPTION(Options, std::int64_t, vocab_size)), length,
                                     entry(num_layers, FIT_HUB_OPTION(Options, std::int64_t, num_layers)),
                                     entry(num_heads, FIT_HUB_OPTION(Options, std::int64_t, num_heads)),
                                     entry(d_model, FIT_HUB_OPTION(Options, std::int64_t, d_model))};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// A key whose only value here is this one, or null.
template <class Options>
Entry<Options> fixed(const char* key, const Json& only) {
  return {[=](const Config& c, Options&) {
            if (c.has(key) && c.value(key) != only)
              c.fail(key, " is ", io::shown(c.value(key).dump()), ": only ", only.dump(), " can be computed here");
          },
          [=](const Options&, Json& json) { json[key] = only; }};
}

/// Keys that change nothing here, in this family.
template <class Options>
Entry<Options> harmless(const std::vector<const char*>& keys) {
  return {[keys](const Config& c, Options&) { c.ignore({keys.begin(), keys.end()}); }, [](const Options&, Json&) {}};
}

/// The probabilities of dropout. Here there is one, for training alone: 0 unless all are equal. An absent key is 0.
template <class Options>
Entry<Options> dropout(const std::vector<const char*>& keys) {
  return {[keys](const Config& c, Options& o) {
            const double first = c.number(keys[0], 0.);
            bool equal = true;
            for (const char* const key : keys) equal = c.number(key, 0.) == first && equal;
            o.dropout(equal ? first : 0);
          },
          [keys](const Options& o, Json& json) {
            for (const char* const key : keys) json[key] = o.dropout();
          }};
}

/// The activation of a layer without a gate, and of one with a gate.
template <class Options>
Entry<Options> activation(const char* key, const char* absent = nullptr);
extern template Entry<GPTOptions> activation(const char*, const char*);
extern template Entry<BERTOptions> activation(const char*, const char*);
Entry<GPTOptions> gated_activation(const char* key, const char* absent);
/// The same in a family for which a name is read as another activation.
Entry<GPTOptions> activation_named(const char* key, const char* name, Activation activation, Entry<GPTOptions> others);

/// The eps of all norms. It can't be 0, which stands for a default in GPTOptions.
Entry<GPTOptions> norm_eps(const char* key, double absent = 1e-5);
/// head_dim; if it is absent, this one, or d_model / num_heads if 0.
Entry<GPTOptions> head_size(std::int64_t absent = 0);
/// The base and the scaling of rotary positions, in the forms of transformers 4 and 5.
Entry<GPTOptions> rotary(double base);
/// The same if only a part of each head rotates: the keys of the part and of the base, and their values if absent.
/// `scales`: whether transformers opens such a model with scaling.
Entry<GPTOptions> part_rotary(const char* part_key, double part, const char* base_key, double base, bool scales = true);
/// The keys of Gemma 3, whose layers with a window have a table of their own.
Entry<GPTOptions> rotary_by_layer(double base, double local_base);
/// Windows: sliding_window of all layers; as `layer_types` says; of the layers from max_window_layers on (Qwen 2).
/// `absent`: that of a config without the key; null is no window.
Entry<GPTOptions> one_window(std::int64_t absent);
/// `full_every`: without layer_types, every n-th layer has no window.
Entry<GPTOptions> windows_by_layer(std::int64_t full_every);
Entry<GPTOptions> windows_of_last_layers();
/// attention_types and window_size of GPT-Neo.
Entry<GPTOptions> windows_by_type();

/// The path of a file of a folder.
std::string in_folder(const std::string& folder, const char* name);

inline constexpr std::int64_t most_layers = 100'000;

/// The options that config.json asks for. Throws FileError, with the key, for what the family does not know.
template <class Options>
Options options_of(const Family<Options>& family, const Config& config) {
  Options o = family.preset;
  for (const Entry<Options>& entry : family.entries) entry.read(config, o);
  if (o.num_layers() < 0 || o.num_layers() > most_layers)
    config.fail("model_type", " '", family.model_type, "' with ", o.num_layers(), " layers: 0 … ", most_layers,
                " can be");
  return o;
}

/// Keys that change nothing here, in all families.
const std::vector<std::string>& harmless_keys();

}  // namespace fit::nn::hub
