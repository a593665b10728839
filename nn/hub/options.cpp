#include <algorithm>
#include <cmath>
#include <sstream>

#include "hub/family.hpp"

// Options in one form, to find the family that has them.
namespace fit::nn::hub {
namespace {

using Listed = std::vector<std::pair<std::string, std::string>>;

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) {
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}
std::string text_of(Positions p) { return name_of(p); }
std::string text_of(Activation a) { return name_of(a); }
std::string text_of(Norm n) { return n == Norm::layer ? "layer" : "rms"; }
std::string text_of(NormPlace p) {
  return p == NormPlace::before ? "before" : p == NormPlace::after ? "after" : "both";
}
std::string text_of(RotaryLayout l) { return l == RotaryLayout::half_split ? "half_split" : "interleaved"; }
template <class T>
std::string text_of(const std::vector<T>& all) {
  std::string text;
  for (const T& one : all) text += (text.empty() ? "{" : ", ") + text_of(one);
  return text.empty() ? "{}" : text + "}";
}
std::string text_of(const RotaryTableOptions& r);
template <class T>
std::string text_of(const std::optional<T>& x) {
  return x ? text_of(*x) : "the default";
}

std::string text_of(const RotaryTableOptions& r) {
  std::string text = "base " + text_of(r.base());
  if (r.features() != 0) text += ", features " + text_of(r.features());
  if (r.scaling() == RotaryScaling::none) return text;
  static constexpr const char* names[] = {"none", "linear", "ntk", "yarn", "llama3"};
  text += std::string(", scaling ") + names[static_cast<int>(r.scaling())] + ", factor " + text_of(r.factor());
  if (r.scaling() == RotaryScaling::linear || r.scaling() == RotaryScaling::ntk) return text;
  const double fast = r.beta_fast().value_or(r.scaling() == RotaryScaling::llama3 ? 4 : 32);
  text += ", original_length " + text_of(r.original_length()) + ", beta_fast " + text_of(fast) + ", beta_slow " +
          text_of(r.beta_slow());
  if (r.scaling() == RotaryScaling::llama3) return text;
  return text + ", attention_factor " + text_of(r.attention_factor()) + ", mscale " + text_of(r.mscale()) +
         ", mscale_all_dim " + text_of(r.mscale_all_dim()) + ", truncate " + text_of(r.truncate());
}

}  // namespace

GPTOptions canonical(GPTOptions o) {
  if (o.num_kv_heads() == 0) o.num_kv_heads(o.num_heads());
  if (o.hidden() == 0) o.hidden(4 * o.d_model());
  if (o.head_size() == 0 && o.num_heads() > 0) o.head_size(o.d_model() / o.num_heads());
  o.qkv_bias(o.qkv_bias().value_or(o.bias())).checkpoint_blocks(false);
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < o.num_layers(); ++i)
    windows.push_back(o.windows().empty() ? o.window() : o.windows()[static_cast<std::size_t>(i) % o.windows().size()]);
  const bool same = std::all_of(windows.begin(), windows.end(), [&](std::int64_t w) { return w == windows[0]; });
  o.window(same && !windows.empty() ? windows[0] : 0).windows(same ? std::vector<std::int64_t>() : windows);
  const bool local = o.window() > 0 || !o.windows().empty();
  if (o.positions() != Positions::rotary)
    o.rotary({}).local_rotary(std::nullopt).rotary_features(0).rotary_layout(RotaryLayout::half_split);
  if (!local || (o.local_rotary() && text_of(*o.local_rotary()) == text_of(o.rotary()))) o.local_rotary(std::nullopt);
  if (o.rotary_features() == o.head_size()) o.rotary_features(0);
  if (!o.qk_norm()) o.qk_norm_across_heads(false);
  const double usual = 1 / std::sqrt(static_cast<double>(o.head_size()));
  if (o.attention_scale() && std::abs(*o.attention_scale() - usual) < 1e-12 * usual) o.attention_scale(std::nullopt);
  return o;
}

#define FIT_LISTED(name) \
  { #name, text_of(o.name()) }

Listed listed(const GPTOptions& given) {
  const GPTOptions o = canonical(given);
  return {FIT_LISTED(vocab_size),
          FIT_LISTED(context_length),
          FIT_LISTED(num_layers),
          FIT_LISTED(num_heads),
          FIT_LISTED(d_model),
          FIT_LISTED(dropout),
          FIT_LISTED(bias),
          FIT_LISTED(num_kv_heads),
          FIT_LISTED(positions),
          FIT_LISTED(tie_weights),
          FIT_LISTED(hidden),
          FIT_LISTED(activation),
          FIT_LISTED(rotary_layout),
          FIT_LISTED(rotary),
          FIT_LISTED(local_rotary),
          FIT_LISTED(rotary_features),
          FIT_LISTED(window),
          FIT_LISTED(windows),
          FIT_LISTED(head_size),
          FIT_LISTED(qkv_bias),
          FIT_LISTED(norm),
          FIT_LISTED(norm_eps),
          FIT_LISTED(norm_place),
          FIT_LISTED(qk_norm),
          FIT_LISTED(qk_norm_across_heads),
          FIT_LISTED(parallel),
          FIT_LISTED(embedding_scale),
          FIT_LISTED(attention_scale),
          FIT_LISTED(head_gates),
          FIT_LISTED(value_embeddings),
          FIT_LISTED(logit_cap),
          FIT_LISTED(attention_logit_cap),
          FIT_LISTED(checkpoint_blocks)};
}

Listed listed(const BERTOptions& given) {
  BERTOptions o = given;
  if (o.num_kv_heads() == 0) o.num_kv_heads(o.num_heads());
  if (o.hidden() == 0) o.hidden(4 * o.d_model());
  o.final_norm(o.final_norm().value_or(o.norm_first()));
  return {FIT_LISTED(d_model),      FIT_LISTED(num_heads),  FIT_LISTED(hidden),     FIT_LISTED(dropout),
          FIT_LISTED(activation),   FIT_LISTED(norm_first), FIT_LISTED(bias),       FIT_LISTED(num_kv_heads),
          FIT_LISTED(eps),          FIT_LISTED(final_norm), FIT_LISTED(vocab_size), FIT_LISTED(max_length),
          FIT_LISTED(num_segments), FIT_LISTED(num_layers)};
}

#undef FIT_LISTED

}  // namespace fit::nn::hub
