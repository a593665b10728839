#include <algorithm>

#include "hub/family.hpp"
#include "layers/layer_options.hpp"
#include "models/compared_options.hpp"
#include "models/gpt_options.hpp"

namespace fit::nn::hub {
namespace {

struct ActivationName {
  const char* name;
  Activation plain, gated;
};
// The first name of an activation is the one that is written.
const ActivationName activation_names[] = {
    {"gelu", Activation::gelu, Activation::geglu},
    {"gelu_pytorch_tanh", Activation::gelu_tanh, Activation::geglu_tanh},
    {"gelu_new", Activation::gelu_tanh, Activation::geglu_tanh},
    {"gelu_fast", Activation::gelu_tanh, Activation::geglu_tanh},
    {"relu", Activation::relu, Activation::relu},
    {"relu2", Activation::squared_relu, Activation::squared_relu},
    {"silu", Activation::swiglu, Activation::swiglu},
    {"swish", Activation::swiglu, Activation::swiglu},
};

template <class Options>
Entry<Options> activation_entry(const char* key, const Json& absent, Activation ActivationName::*kind, bool gated) {
  return {[=](const Config& c, Options& o) {
            const std::string name = c.text(key, absent);
            for (const ActivationName& a : activation_names)
              if (a.name == name && is_gated(a.*kind) == gated) return void(o.activation(a.*kind));
            c.fail(key, " is '", io::shown(name), "': there is no such activation here",
                   gated ? " with a gate" : " without a gate");
          },
          [=](const Options& o, Json& json) {
            for (const ActivationName& a : activation_names)
              if (a.*kind == o.activation() && is_gated(a.*kind) == gated) return void(json[key] = a.name);
          }};
}

// ---- rotary positions ---------------------------------------------------------------------------------------------

constexpr const char* scaling_names[] = {"default", "linear", nullptr, "yarn",
                                         "llama3"};  // in the order of RotaryScaling

RotaryScaling scaling_of(const Config& c, const std::string& key, const std::string& name) {
  for (int i = 0; i < 5; ++i)
    if (scaling_names[i] && name == scaling_names[i]) return static_cast<RotaryScaling>(i);
  c.fail(key, " is '", io::shown(name), "': only default, linear, yarn and llama3 can be computed here");
}

std::optional<double> optional_number(const Config& c, const std::string& key) {
  if (!c.has(key)) return std::nullopt;
  return c.number(key);
}

// The object rope_scaling or rope_parameters, without the base.
void read_scaling(const Config& outer, const Config& c, RotaryTableOptions& rotary) {
  c.ignore({"finetuned"});  // how the weights came about
  const std::string key = c.has("rope_type") ? "rope_type" : "type";
  if (c.has("type")) rotary.scaling(scaling_of(c, "type", c.text("type")));
  rotary.scaling(scaling_of(c, key, c.text(key, "default")));
  const RotaryScaling scaling = rotary.scaling();
  if (scaling != RotaryScaling::none) rotary.factor(c.number("factor"));
  if (scaling == RotaryScaling::yarn || scaling == RotaryScaling::llama3)
    rotary.original_length(
        c.has("original_max_position_embeddings")
            ? c.integer("original_max_position_embeddings")
            : outer.integer("original_max_position_embeddings", outer.value("max_position_embeddings")));
  if (scaling == RotaryScaling::llama3)
    rotary.beta_slow(c.number("low_freq_factor")).beta_fast(c.number("high_freq_factor"));
  if (scaling != RotaryScaling::yarn) return;
  rotary.beta_slow(c.number("beta_slow", 1)).beta_fast(c.number("beta_fast", 32));
  rotary.attention_factor(optional_number(c, "attention_factor")).truncate(c.boolean("truncate", true));
  const auto mscale = optional_number(c, "mscale"), all_dim = optional_number(c, "mscale_all_dim");
  if (mscale.value_or(0) != 0 && all_dim.value_or(0) != 0)  // transformers uses neither alone
    rotary.mscale(mscale).mscale_all_dim(all_dim);
}

// One set of rotary parameters. Sets the fraction of a head that rotates, if there is one.
RotaryTableOptions read_rotary(const Config& outer, const Config& c, double base, double* fraction) {
  RotaryTableOptions rotary;
  rotary.base(c.number("rope_theta", base));
  if (c.has("partial_rotary_factor")) {
    const double part = c.number("partial_rotary_factor");
    if (!fraction && part != 1) c.fail("partial_rotary_factor", " is ", part, ": only 1 can be computed here");
    if (fraction) *fraction = part;
  }
  read_scaling(outer, c, rotary);
  c.check_all_read(ignore_advice);
  return rotary;
}

void check_same(const Config& c, const char* key, bool same) {
  if (!same)
    c.fail(key, " is ", io::shown(c.value(key).dump()), ", which differs from rope_parameters, ",
           io::shown(c.value("rope_parameters").dump()), ": both must say the same", ignore_advice);
}

// Of a config of transformers 4 or 5, or of both. `key`: that of the base.
RotaryTableOptions read_rotary(const Config& c, const char* key, double base, double* fraction) {
  const double outer = c.number(key, base);
  const auto in = [&](const char* object) { return read_rotary(c, c.object(object), outer, fraction); };
  if (!c.has("rope_parameters")) return c.has("rope_scaling") ? in("rope_scaling") : RotaryTableOptions().base(outer);
  RotaryTableOptions rotary = in("rope_parameters");
  check_same(c, key, !c.has(key) || rotary.base() == outer);
  if (c.has("rope_scaling")) check_same(c, "rope_scaling", same_angles(in("rope_scaling"), rotary));
  return rotary;
}

// The value of rope_scaling; null without scaling.
Json scaling_json(const RotaryTableOptions& rotary) {
  const RotaryScaling scaling = rotary.scaling();
  const char* const name = scaling_names[static_cast<int>(scaling)];
  if (scaling == RotaryScaling::none || !name) return {};
  Json json{{"rope_type", name}, {"factor", rotary.factor()}};
  if (scaling == RotaryScaling::linear) return json;
  json["original_max_position_embeddings"] = rotary.original_length();
  if (scaling == RotaryScaling::llama3) {
    json["low_freq_factor"] = rotary.beta_slow();
    json["high_freq_factor"] = beta_fast(rotary);
    return json;
  }
  json["beta_slow"] = rotary.beta_slow();
  json["beta_fast"] = beta_fast(rotary);
  json["truncate"] = rotary.truncate();
  const auto put = [&](const char* key, const std::optional<double>& x) {
    if (x) json[key] = *x;
  };
  put("attention_factor", rotary.attention_factor());
  put("mscale", rotary.mscale());
  put("mscale_all_dim", rotary.mscale_all_dim());
  return json;
}

// The same with the base, in the form of transformers 5.
Json parameters_json(const RotaryTableOptions& rotary) {
  Json json = scaling_json(rotary);
  if (json.is_null()) json = Json{{"rope_type", "default"}};
  json["rope_theta"] = rotary.base();
  return json;
}

// ---- windows ------------------------------------------------------------------------------------------------------

// sliding_window. `absent`: that of a config without the key; null is no window.
std::int64_t sliding_window(const Config& c, std::int64_t absent) {
  const char* const key = "sliding_window";
  return c.contains(key) && !c.has(key) ? 0 : c.integer(key, absent);
}
constexpr std::int64_t usual_window = 4096;  // of transformers' Qwen and Gemma

// The kinds of the layers: what `key` says, or `is_local` if it is absent.
template <class IsLocal>
std::vector<bool> local_layers(const Config& c, const GPTOptions& o, const IsLocal& is_local) {
  if (o.num_layers() < 0 || o.num_layers() > most_layers) c.fail("num_hidden_layers", " is ", o.num_layers());
  std::vector<bool> local;
  if (!c.has("layer_types")) {
    for (std::int64_t i = 0; i < o.num_layers(); ++i) local.push_back(is_local(i));
    return local;
  }
  const Json& types = c.value("layer_types");
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != o.num_layers())
    c.fail("layer_types", " must be a list with one entry for each layer");
  for (const Json& type : types) {
    if (type != "sliding_attention" && type != "full_attention")
      c.fail("layer_types", " has ", io::shown(type.dump()),
             ": only \"full_attention\" and \"sliding_attention\" can be computed here");
    local.push_back(type == "sliding_attention");
  }
  return local;
}

void set_windows(const std::vector<bool>& local, std::int64_t window, GPTOptions& o) {
  std::vector<std::int64_t> windows;
  for (const bool one : local) windows.push_back(one ? window : 0);
  o.windows(windows);
}

// Writes the kinds of the layers. Returns the window, 0 if there is none.
std::int64_t write_layer_types(const GPTOptions& o, Json& json) {
  json["layer_types"] = Json::array();
  std::int64_t window = 0;
  for (const std::int64_t w : windows_of(o)) {
    json["layer_types"].push_back(w > 0 ? "sliding_attention" : "full_attention");
    window = std::max(window, w);
  }
  return window;
}

Json or_null(std::int64_t window) { return window > 0 ? Json(window) : Json(); }

}  // namespace

template <class Options>
Entry<Options> activation(const char* key, const char* absent) {
  return activation_entry<Options>(key, absent ? Json(absent) : Json(), &ActivationName::plain, false);
}
template Entry<GPTOptions> activation(const char*, const char*);
template Entry<BERTOptions> activation(const char*, const char*);

Entry<GPTOptions> gated_activation(const char* key, const char* absent) {
  return activation_entry<GPTOptions>(key, absent, &ActivationName::gated, true);
}

Entry<GPTOptions> activation_named(const char* key, const char* name, Activation activation, Entry<GPTOptions> others) {
  others.read = [=, read = others.read](const Config& c, GPTOptions& o) {
    c.value(key) == name ? void(o.activation(activation)) : read(c, o);
  };
  return others;
}

Entry<GPTOptions> norm_eps(const char* key, double absent) {
  return {[key, absent](const Config& c, GPTOptions& o) {
            o.norm_eps(c.number(key, absent));
            if (o.norm_eps() == 0) c.fail(key, " is 0: it must be positive");
          },
          [key](const GPTOptions& o, Json& json) { json[key] = o.norm_eps(); }};
}

Entry<GPTOptions> head_size(std::int64_t absent) {
  return {[absent](const Config& c, GPTOptions& o) {
            if (o.num_heads() <= 0) c.fail("num_attention_heads", " is ", o.num_heads(), ": it must be positive");
            o.head_size(c.integer("head_dim", absent > 0 ? absent : o.d_model() / o.num_heads()));
          },
          [](const GPTOptions& o, Json& json) { json["head_dim"] = o.head_size(); }};
}

Entry<GPTOptions> rotary(double base) {
  return {[base](const Config& c, GPTOptions& o) { o.rotary(read_rotary(c, "rope_theta", base, nullptr)); },
          [](const GPTOptions& o, Json& json) {
            json["rope_theta"] = o.rotary().base();
            json["rope_scaling"] = scaling_json(o.rotary());
          }};
}

Entry<GPTOptions> part_rotary(const char* part_key, double absent_part, const char* base_key, double absent_base,
                              bool scales) {
  return {[=](const Config& c, GPTOptions& o) {
            double part = c.number(part_key, absent_part);
            o.rotary(read_rotary(c, base_key, absent_base, &part));
            if (!(part > 0 && part <= 1)) c.fail(part_key, " is ", part, ": it must be in 0 … 1, and not 0");
            if (o.num_heads() <= 0) c.fail("num_attention_heads", " is ", o.num_heads(), ": it must be positive");
            const std::int64_t D = o.head_size() > 0 ? o.head_size() : o.d_model() / o.num_heads();
            const auto features = static_cast<std::int64_t>(static_cast<double>(D) * part);
            if (features < 2 || features % 2 != 0)
              c.fail(part_key, " is ", part, ": ", features, " of the ", D,
                     " features of a head would rotate; only an even number can be computed here");
            o.rotary_features(features);
          },
          [=](const GPTOptions& o, Json& json) {
            const double part = static_cast<double>(o.rotary_features()) / static_cast<double>(o.head_size());
            json[part_key] = o.rotary_features() == 0 ? 1 : part;
            json[base_key] = o.rotary().base();
            if (const Json scaling = scaling_json(o.rotary()); scales && !scaling.is_null())
              json["rope_scaling"] = scaling;
          }};
}

Entry<GPTOptions> rotary_by_layer(double base, double local_base) {
  static const char *const theta = "rope_theta", *const local_theta = "rope_local_base_freq";
  return {[=](const Config& c, GPTOptions& o) {
            const double given = c.number(theta, base), given_local = c.number(local_theta, local_base);
            o.local_rotary(RotaryTableOptions().base(given_local));
            const Json& parameters = c.value("rope_parameters");
            if (!parameters.is_object() || !parameters.contains("full_attention"))
              return void(o.rotary(read_rotary(c, theta, base, nullptr)));
            const Config all = c.object("rope_parameters");
            o.rotary(read_rotary(c, all.object("full_attention"), given, nullptr));
            if (all.has("sliding_attention"))
              o.local_rotary(read_rotary(c, all.object("sliding_attention"), given_local, nullptr));
            all.check_all_read(ignore_advice);
            check_same(c, theta, !c.has(theta) || o.rotary().base() == given);
            check_same(c, local_theta, !c.has(local_theta) || o.local_rotary()->base() == given_local);
            if (c.has("rope_scaling"))
              check_same(c, "rope_scaling",
                         same_angles(read_rotary(c, c.object("rope_scaling"), given, nullptr), o.rotary()));
          },
          [](const GPTOptions& o, Json& json) {
            const RotaryTableOptions local = o.local_rotary().value_or(o.rotary());
            if (local.scaling() == RotaryScaling::none) {  // as transformers 4 reads it, too
              json[theta] = o.rotary().base();
              json[local_theta] = local.base();
              json["rope_scaling"] = scaling_json(o.rotary());
              return;
            }
            json["rope_parameters"] =
                Json{{"full_attention", parameters_json(o.rotary())}, {"sliding_attention", parameters_json(local)}};
          }};
}

Entry<GPTOptions> one_window(std::int64_t absent) {
  return {[absent](const Config& c, GPTOptions& o) { o.window(sliding_window(c, absent)); },
          [](const GPTOptions& o, Json& json) { json["sliding_window"] = or_null(o.window()); }};
}

Entry<GPTOptions> windows_by_layer(std::int64_t full_every) {
  return {[=](const Config& c, GPTOptions& o) {
            std::int64_t every = full_every;
            if (every != 2) every = c.integer("sliding_window_pattern", every);
            c.ignore({"sliding_window_pattern", "_sliding_window_pattern"});  // transformers reads the first alone
            if (every < 1) c.fail("sliding_window_pattern", " is ", every, ": it must be positive");
            const std::int64_t window = sliding_window(c, usual_window);
            if (const std::int64_t other = c.integer("sliding_window_size", window); other != window)
              c.fail("sliding_window_size", " is ", other, ", sliding_window ", window, ": both must be the same",
                     ignore_advice);
            set_windows(local_layers(c, o, [&](std::int64_t i) { return (i + 1) % every != 0; }), window, o);
          },
          [](const GPTOptions& o, Json& json) {
            const std::int64_t window = write_layer_types(o, json);
            json["sliding_window"] = window > 0 ? window : usual_window;  // transformers needs one, even for no layer
          }};
}

Entry<GPTOptions> windows_of_last_layers() {
  return {[](const Config& c, GPTOptions& o) {
            const std::int64_t first = c.integer("max_window_layers", 28);
            const bool uses = c.boolean("use_sliding_window", false);
            set_windows(local_layers(c, o, [&](std::int64_t i) { return uses && i >= first; }),
                        uses ? sliding_window(c, usual_window) : 0, o);
            c.ignore({"sliding_window"});
          },
          [](const GPTOptions& o, Json& json) {
            const std::int64_t window = write_layer_types(o, json);
            json["sliding_window"] = or_null(window);
            json["use_sliding_window"] = window > 0;
            json["max_window_layers"] = 0;
          }};
}

Entry<GPTOptions> windows_by_type() {
  return {[](const Config& c, GPTOptions& o) {
            std::vector<bool> local;
            const Json& groups = c.value("attention_types");
            const auto wrong = [&]() {
              c.fail("attention_types", " is ", io::shown(groups.dump()),
                     ": expected pairs of a list of \"global\" and \"local\", and a number");
            };
            if (!groups.is_array()) wrong();
            for (const Json& group : groups) {
              if (!group.is_array() || group.size() != 2 || !group[0].is_array() || !group[1].is_natural() ||
                  group[1].natural() > most_layers)
                wrong();
              for (std::int64_t n = group[1].integer(); n > 0 && !group[0].empty(); --n)
                for (const Json& type : group[0]) {
                  if ((type != "global" && type != "local") || static_cast<std::int64_t>(local.size()) > most_layers)
                    wrong();
                  local.push_back(type == "local");
                }
            }
            if (static_cast<std::int64_t>(local.size()) != o.num_layers())
              c.fail("attention_types", " names ", local.size(), " layers, num_layers is ", o.num_layers());
            Json layers = Json::array();  // the same, written out
            for (const bool one : local) layers.push_back(one ? "local" : "global");
            if (c.has("attention_layers") && c.value("attention_layers") != layers)
              c.fail("attention_layers", " is ", io::shown(c.value("attention_layers").dump()),
                     ": attention_types says ", io::shown(layers.dump()));
            set_windows(local, c.integer("window_size", 256), o);
          },
          [](const GPTOptions& o, Json& json) {
            Json types = Json::array();
            std::int64_t window = 0;
            for (const std::int64_t w : windows_of(o)) {
              types.push_back(w > 0 ? "local" : "global");
              window = std::max(window, w);
            }
            json["attention_types"] = Json::array({Json::array({types, 1})});
            json["window_size"] = window == 0 ? 256 : window;
          }};
}

}  // namespace fit::nn::hub
