#include "models/saved_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/affixes.hpp"
#include "base/from_chars.hpp"
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
// A number, written as in every locale.
template <class Number>
bool parse_number(const std::string& s, Number& v) {
  const auto [end, error] = from_chars(s.data(), s.data() + s.size(), v);
  return error == std::errc() && end == s.data() + s.size();
}
bool parse(const std::string& s, std::int64_t& v) { return parse_number(s, v); }
bool parse(const std::string& s, double& v) { return parse_number(s, v); }

// The fewest digits, of 15 and 17, that are this number.
std::string text(double v) {
  const auto digits = [&](int precision) {
    char all[32];
    return std::string(all, std::to_chars(all, all + sizeof all, v, std::chars_format::general, precision).ptr);
  };
  double read = 0;
  return parse(digits(15), read) && read == v ? digits(15) : digits(17);
}

std::string text(const std::vector<std::int64_t>& list) {
  std::string all;
  for (const std::int64_t v : list) all += (all.empty() ? "" : ", ") + text(v);
  return '{' + all + '}';
}
bool parse(const std::string& s, std::vector<std::int64_t>& list) {
  if (s.size() < 2 || s.front() != '{' || s.back() != '}') return false;
  for (std::size_t at = 1; at + 1 < s.size();) {
    const std::size_t end = std::min(s.find(", ", at), s.size() - 1);
    std::int64_t v = 0;
    if (!parse(s.substr(at, end - at), v)) return false;
    list.push_back(v);
    at = end + 2;
  }
  return true;
}

// The names of each enumeration, in its order.
template <class E>
std::vector<const char*> names_up_to(E last) {
  std::vector<const char*> all;
  for (int i = 0; i <= static_cast<int>(last); ++i) all.push_back(name_of(static_cast<E>(i)));
  return all;
}
auto names(Positions) { return names_up_to(Positions::alibi); }
auto names(Activation) { return names_up_to(Activation::solu); }
auto names(RotaryLayout) { return std::array{"interleaved", "half_split"}; }
auto names(RotaryScaling) { return std::array{"none", "linear", "ntk", "yarn", "llama3"}; }
auto names(Norm) { return std::array{"layer", "rms", "none"}; }
auto names(NormPlace) { return std::array{"before", "after", "both"}; }

template <class E, class = std::enable_if_t<std::is_enum_v<E>>>
std::string text(E v) {
  return names(v).at(static_cast<std::size_t>(v));
}
template <class E, class = std::enable_if_t<std::is_enum_v<E>>>
bool parse(const std::string& s, E& v) {
  const auto all = names(E());
  const auto found = std::find(all.begin(), all.end(), s);
  if (found == all.end()) return false;
  v = static_cast<E>(found - all.begin());
  return true;
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

template <class F>
void each_option(RotaryTableOptions& o, const F& f) {
  FIT_SAVED(base), FIT_SAVED(features), FIT_SAVED(scaling), FIT_SAVED(factor), FIT_SAVED(original_length);
  FIT_SAVED(beta_fast), FIT_SAVED(beta_slow), FIT_SAVED(attention_factor), FIT_SAVED(mscale);
  FIT_SAVED(mscale_all_dim), FIT_SAVED(truncate);
}

// The options of a table of angles, as "rotary.base"; `give` takes the changed table.
template <class F, class Give>
void each_option_of_rotary(const std::string& name, RotaryTableOptions table, const F& f, const Give& give) {
  each_option(table, [&](const char* option, const auto& value, const auto& set) {
    f(name + '.' + option, value, [&](const auto& changed) { set(changed), give(table); });
  });
}

template <class F>
void each_option(GPTOptions& o, const F& f) {
  FIT_SAVED(vocab_size), FIT_SAVED(context_length), FIT_SAVED(num_layers), FIT_SAVED(num_heads), FIT_SAVED(d_model);
  FIT_SAVED(dropout), FIT_SAVED(bias), FIT_SAVED(num_kv_heads), FIT_SAVED(positions), FIT_SAVED(tie_weights);
  FIT_SAVED(hidden), FIT_SAVED(activation), FIT_SAVED(rotary_layout), FIT_SAVED(window), FIT_SAVED(windows);
  FIT_SAVED(head_size), FIT_SAVED(qkv_bias), FIT_SAVED(norm), FIT_SAVED(norm_eps), FIT_SAVED(norm_place);
  FIT_SAVED(qk_norm), FIT_SAVED(qk_norm_across_heads), FIT_SAVED(parallel), FIT_SAVED(embedding_scale);
  FIT_SAVED(attention_scale), FIT_SAVED(head_gates), FIT_SAVED(value_embeddings), FIT_SAVED(logit_cap);
  FIT_SAVED(attention_logit_cap), FIT_SAVED(rotary_features), FIT_SAVED(norm_weights), FIT_SAVED(shared_norm);
  FIT_SAVED(attention_only), FIT_SAVED(head_bias);
  each_option_of_rotary("rotary", o.rotary(), f, [&o](const RotaryTableOptions& table) { o.rotary(table); });
  f("local_rotary", o.local_rotary().has_value(),
    [&o](bool given) { o.local_rotary(given ? std::optional(o.rotary()) : std::nullopt); });
  if (o.local_rotary())
    each_option_of_rotary("local_rotary", *o.local_rotary(), f,
                          [&o](const RotaryTableOptions& table) { o.local_rotary(table); });
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

template <class Options>
OptionList list_of(Options o) {
  OptionList all;
  each_option(o, [&](const std::string& name, const auto& value, const auto&) { all.emplace_back(name, text(value)); });
  return all;
}

}  // namespace

OptionList option_list(const GPTOptions& o) { return list_of(o); }
OptionList option_list(const BERTOptions& o) { return list_of(o); }

Strings saved_options(const Layer& layer, const std::string& part) {
  const auto key = [](const std::string& path, const std::string& name) {
    return options_prefix + joined_path(path, name);
  };
  Strings all;
  // Whether a layer above this path, which comes first, says this option for those in it.
  const auto is_said_above = [&](std::string path, const std::string& name) {
    while (!path.empty()) {
      path.resize(path.find('.') == std::string::npos ? 0 : path.rfind('.'));
      if (all.count(key(path, name)) > 0) return true;
    }
    return false;
  };
  for (const auto& [path, sublayer] : layer.named_layers<Layer>()) {
    const std::string at = joined_path(part, path);
    for (const auto& [name, value] : sublayer->saved_options())
      if (!is_said_above(at, name)) all[key(at, name)] = value;
  }
  return all;
}

std::string differing_options(const Layer& layer, const Strings& metadata, const std::string& part) {
  std::string list;
  for (const auto& [key, here] : saved_options(layer, part)) {
    const std::string name = key.substr(options_prefix.size());
    const auto there = metadata.find(key);
    const bool free = ends_with(name, "dropout");
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
  each_option(o, [&](const std::string& name, const auto& value, const auto& set) {
    const auto found = metadata.find(before + name);
    if (found == metadata.end()) return;
    std::decay_t<decltype(value)> parsed{};
    if (!parse(found->second, parsed)) check::fail(op, file, ": the option ", name, " is '", found->second, "'");
    set(parsed);
  });
  return o;
}

}  // namespace fit::nn
