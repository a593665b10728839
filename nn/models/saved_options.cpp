#include "models/saved_options.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "fit/nn/models/bert.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// ---- values as text, and back: parse() returns false for a text that is no value -----------------------------------

std::string text(bool v) { return v ? "true" : "false"; }
bool parse(const std::string& s, bool& v) {
  v = s == "true";
  return v || s == "false";
}

std::string text(std::int64_t v) { return std::to_string(v); }
bool parse(const std::string& s, std::int64_t& v) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  return error == std::errc() && end == s.data() + s.size();
}

std::string text(double v) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.17g", v);
  return digits;
}
bool parse(const std::string& s, double& v) {
  char* end = nullptr;
  v = std::strtod(s.c_str(), &end);
  return !s.empty() && *end == 0;
}

std::string text(const std::vector<std::int64_t>& list) {
  std::string all;
  for (const std::int64_t v : list) all += (all.empty() ? "" : ",") + text(v);
  return all;
}
bool parse(const std::string& s, std::vector<std::int64_t>& list) {
  for (std::size_t at = 0; at < s.size();) {
    const std::size_t comma = std::min(s.find(',', at), s.size());
    std::int64_t v = 0;
    if (!parse(s.substr(at, comma - at), v)) return false;
    list.push_back(v);
    at = comma + 1;
  }
  return true;
}

// The names of an enum's values, in order. `last` fails to compile if a value was added.
template <class E, std::size_t n>
struct Names {
  const char* names[n];
};
template <class E, E last, class... Name>
constexpr auto named(Name... names) {
  static_assert(sizeof...(names) == static_cast<std::size_t>(last) + 1, "each value has a name, in their order");
  return Names<E, sizeof...(names)>{{names...}};
}
template <class E>
constexpr int names_of = 0;
template <>
constexpr auto names_of<Positions> = named<Positions, Positions::alibi>("none", "learned", "sinusoidal", "rotary",
                                                                        "alibi");
template <>
constexpr auto names_of<Activation> = named<Activation, Activation::squared_relu>("relu", "gelu", "gelu_tanh", "swiglu",
                                                                                  "geglu", "squared_relu");
template <>
constexpr auto names_of<RotaryLayout> = named<RotaryLayout, RotaryLayout::half_split>("interleaved", "half_split");
template <>
constexpr auto names_of<RotaryScaling> = named<RotaryScaling, RotaryScaling::llama3>("none", "linear", "ntk", "yarn",
                                                                                     "llama3");
template <>
constexpr auto names_of<Norm> = named<Norm, Norm::rms>("layer", "rms");
template <>
constexpr auto names_of<NormPlace> = named<NormPlace, NormPlace::both>("before", "after", "both");

template <class E, class = std::enable_if_t<std::is_enum_v<E>>>
std::string text(E v) {
  return names_of<E>.names[static_cast<std::size_t>(v)];
}
template <class E, class = std::enable_if_t<std::is_enum_v<E>>>
bool parse(const std::string& s, E& v) {
  std::size_t i = 0;
  for (const char* const name : names_of<E>.names) {
    if (s == name) return v = static_cast<E>(i), true;
    ++i;
  }
  return false;
}

template <class T>
std::string text(const std::optional<T>& v) {
  return v ? text(*v) : "default";
}
template <class T>
bool parse(const std::string& s, std::optional<T>& v) {
  return s == "default" || parse(s, v.emplace());
}

// ---- the lists of options: f(name, value, set) for each -------------------------------------------------------------

#define FIT_SAVED(name) f(#name, o.name(), [&o](const auto& value) { o.name(value); })
#define FIT_SAVED_ROTARY(name)          \
  f("rotary." #name, o.rotary().name(), \
    [&o](const auto& value) { o.rotary(RotaryTableOptions(o.rotary()).name(value)); })

template <class F>
void each_option(GPTOptions& o, const F& f) {
  FIT_SAVED(vocab_size), FIT_SAVED(context_length), FIT_SAVED(num_layers), FIT_SAVED(num_heads), FIT_SAVED(d_model);
  FIT_SAVED(dropout), FIT_SAVED(bias), FIT_SAVED(num_kv_heads), FIT_SAVED(positions), FIT_SAVED(tie_weights);
  FIT_SAVED(hidden), FIT_SAVED(activation), FIT_SAVED(rotary_layout), FIT_SAVED(window), FIT_SAVED(windows);
  FIT_SAVED(head_size), FIT_SAVED(qkv_bias), FIT_SAVED(norm), FIT_SAVED(norm_eps), FIT_SAVED(norm_place);
  FIT_SAVED(qk_norm), FIT_SAVED(head_gates), FIT_SAVED(value_embeddings), FIT_SAVED(logit_cap);
  FIT_SAVED(attention_logit_cap);
  FIT_SAVED_ROTARY(base), FIT_SAVED_ROTARY(features), FIT_SAVED_ROTARY(scaling), FIT_SAVED_ROTARY(factor);
  FIT_SAVED_ROTARY(original_length), FIT_SAVED_ROTARY(beta_fast), FIT_SAVED_ROTARY(beta_slow);
  FIT_SAVED_ROTARY(attention_factor), FIT_SAVED_ROTARY(mscale), FIT_SAVED_ROTARY(mscale_all_dim);
  FIT_SAVED_ROTARY(truncate);
}

template <class F>
void each_option(BERTOptions& o, const F& f) {
  FIT_SAVED(vocab_size), FIT_SAVED(max_length), FIT_SAVED(num_layers), FIT_SAVED(num_segments), FIT_SAVED(d_model);
  FIT_SAVED(num_heads), FIT_SAVED(hidden), FIT_SAVED(dropout), FIT_SAVED(activation), FIT_SAVED(norm_first);
  FIT_SAVED(bias), FIT_SAVED(num_kv_heads), FIT_SAVED(eps), FIT_SAVED(final_norm);
}

const std::string options_prefix = "options.";

std::string joined_path(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + '.' + b;
}

template <class Model>
void add_options(Strings& all, const Layer& layer, const std::string& part) {
  for (const auto& [path, model] : layer.named_layers<Model>()) {
    const std::string at = joined_path(part, path), before = options_prefix + (at.empty() ? at : at + '.');
    auto o = model->options();
    each_option(o, [&](const char* name, const auto& value, const auto&) { all[before + name] = text(value); });
  }
}

}  // namespace

Strings saved_options(const Layer& layer, const std::string& part) {
  Strings all;
  add_options<GPT>(all, layer, part);
  add_options<BERT>(all, layer, part);
  return all;
}

std::string differing_options(const Layer& layer, const Strings& metadata, const std::string& part) {
  std::string list;
  for (const auto& [key, here] : saved_options(layer, part)) {
    const std::string name = key.substr(options_prefix.size());
    const auto there = metadata.find(key);
    const bool free = name.size() >= 7 && name.compare(name.size() - 7, 7, "dropout") == 0;
    if (there == metadata.end() || there->second == here || free) continue;
    list += joined("\n  ", name, " is ", there->second, " in the file, ", here, " here");
  }
  return list;
}

GPTOptions gpt_options(const char* op, const std::string& file, const Strings& metadata, const std::string& part) {
  GPTOptions o;
  const std::string before = options_prefix + (part.empty() ? part : part + '.');
  if (metadata.count(before + "vocab_size") == 0)
    check::fail(op, file,
                " has no options of a GPT: make the model with its GPTOptions, and load the file by load_weights()");
  each_option(o, [&](const char* name, const auto& value, const auto& set) {
    const auto found = metadata.find(before + name);
    if (found == metadata.end()) return;
    std::decay_t<decltype(value)> parsed{};
    if (!parse(found->second, parsed)) check::fail(op, file, ": the option ", name, " is '", found->second, "'");
    set(parsed);
  });
  return o;
}

}  // namespace fit::nn
