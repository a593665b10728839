#include "lens/other_names.hpp"

#include "common/pattern.hpp"

namespace fit::nn {

// docs/lens.md has the same table.
std::string our_value_name(const std::string& theirs) {
  static constexpr const char* pairs[][2] = {
      {"hook_embed", "wte.out"},
      {"hook_pos_embed", "wpe.out"},
      {"ln_final.hook_scale", "ln_f.scale"},
      {"ln_final.hook_normalized", "ln_f.out"},
      {"blocks.*.hook_resid_pre", "h.*.resid_pre"},
      {"blocks.*.hook_resid_mid", "h.*.resid_mid"},
      {"blocks.*.hook_resid_post", "h.*.resid_post"},
      {"blocks.*.hook_attn_out", "h.*.attn.out"},
      {"blocks.*.hook_mlp_out", "h.*.mlp.out"},
      {"blocks.*.ln1.hook_scale", "h.*.ln_1.scale"},
      {"blocks.*.ln1.hook_normalized", "h.*.ln_1.out"},
      {"blocks.*.ln2.hook_scale", "h.*.ln_2.scale"},
      {"blocks.*.ln2.hook_normalized", "h.*.ln_2.out"},
      {"blocks.*.attn.hook_rot_q", "h.*.attn.q"},
      {"blocks.*.attn.hook_rot_k", "h.*.attn.k"},
      {"blocks.*.attn.hook_q", "h.*.attn.q"},
      {"blocks.*.attn.hook_k", "h.*.attn.k"},
      {"blocks.*.attn.hook_v", "h.*.attn.v"},
      {"blocks.*.attn.hook_attn_scores", "h.*.attn.scores"},
      {"blocks.*.attn.hook_pattern", "h.*.attn.weights"},
      {"blocks.*.attn.hook_z", "h.*.attn.z"},
      {"blocks.*.attn.hook_result", "h.*.attn.head_out"},
      {"blocks.*.mlp.hook_pre", "h.*.mlp.pre"},
      {"blocks.*.mlp.hook_post", "h.*.mlp.post"},
  };
  for (const auto& [their_pattern, our_pattern] : pairs)
    if (const auto letters = match(their_pattern, theirs)) {
      std::string ours = our_pattern;
      if (!letters->empty()) ours.replace(ours.find('*'), 1, letters->front());
      return ours;
    }
  return "";
}

}  // namespace fit::nn
