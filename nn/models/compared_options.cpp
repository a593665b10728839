#include "models/compared_options.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "layers/layer_options.hpp"
#include "models/gpt_options.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// Without what the kind of scaling does not read.
RotaryTableOptions canonical(const RotaryTableOptions& r) {
  RotaryTableOptions o;
  o.base(r.base()).features(r.features());
  if (r.scaling() == RotaryScaling::none) return o;
  o.scaling(r.scaling()).factor(r.factor());
  if (r.scaling() == RotaryScaling::linear || r.scaling() == RotaryScaling::ntk) return o;
  o.original_length(r.original_length()).beta_slow(r.beta_slow()).beta_fast(beta_fast(r));
  if (r.scaling() == RotaryScaling::llama3) return o;
  o.attention_factor(r.attention_factor()).mscale(r.mscale()).mscale_all_dim(r.mscale_all_dim());
  return o.truncate(r.truncate());
}

}  // namespace

bool same_angles(const RotaryTableOptions& a, const RotaryTableOptions& b) {
  return option_list(GPTOptions().rotary(canonical(a))) == option_list(GPTOptions().rotary(canonical(b)));
}

namespace {

GPTOptions canonical(const GPTOptions& given) {
  GPTOptions o = with_sizes(given);
  o.qkv_bias(o.qkv_bias().value_or(o.bias())).checkpoint_blocks(false);
  const std::vector<std::int64_t> windows = windows_of(o);
  const bool same = std::all_of(windows.begin(), windows.end(), [&](std::int64_t w) { return w == windows[0]; });
  o.window(same && !windows.empty() ? windows[0] : 0).windows(same ? std::vector<std::int64_t>() : windows);
  o.rotary(canonical(o.rotary()));
  if (o.local_rotary()) o.local_rotary(canonical(*o.local_rotary()));
  if (o.positions() != Positions::rotary)
    o.rotary({}).local_rotary(std::nullopt).rotary_features(0).rotary_layout(RotaryLayout::half_split);
  if (!has_window(o) || (o.local_rotary() && same_angles(*o.local_rotary(), o.rotary()))) o.local_rotary(std::nullopt);
  if (o.rotary_features() == o.head_size()) o.rotary_features(0);
  if (!o.qk_norm()) o.qk_norm_across_heads(false);
  const double usual = 1 / std::sqrt(static_cast<double>(o.head_size()));
  if (o.attention_scale() && std::abs(*o.attention_scale() - usual) < 1e-12 * usual) o.attention_scale(std::nullopt);
  return o;
}

}  // namespace

OptionList listed(const GPTOptions& o) { return option_list(canonical(o)); }

OptionList listed(const BERTOptions& given) {
  BERTOptions o = with_sizes(given);
  return option_list(o.final_norm(o.final_norm().value_or(o.norm_first())));
}

template <class Options>
std::vector<Difference> differences(const Options& o, const Options& other) {
  std::vector<Difference> all;
  const OptionList list = listed(other);
  const Strings there(list.begin(), list.end());
  for (const auto& [name, value] : listed(o))  // a table of angles is listed only where there is one
    if (const auto found = there.find(name); found != there.end() && found->second != value)
      all.push_back({name, value, found->second});
  return all;
}

GPTOptions with_sizes_of(const GPTOptions& o) {
  GPTOptions sizes;
  sizes.vocab_size(o.vocab_size()).context_length(o.context_length()).num_layers(o.num_layers());
  sizes.num_heads(o.num_heads()).d_model(o.d_model()).hidden(o.hidden());
  return sizes.dropout(o.dropout()).norm_eps(o.norm_eps()).tie_weights(o.tie_weights());
}

template <class Options>
void expect_options(const char* op, const char* models, const Options& o, const Options& like) {
  for (const Difference& d : differences(o, like))
    check::fail(op, d.name, " is ", d.value, ": ", models, " need ", d.other, "; make the model with it");
}

#define FIT_COMPARED(Options)                                                           \
  template std::vector<Difference> differences(const Options& o, const Options& other); \
  template void expect_options(const char*, const char*, const Options& o, const Options&);
FIT_COMPARED(GPTOptions)
FIT_COMPARED(BERTOptions)
#undef FIT_COMPARED

}  // namespace fit::nn
