#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "fit/nn/models/gpt.hpp"

// What the options of a GPT mean, and the sizes of other models, for all who ask.
namespace fit::nn {

/// The options with the sizes that a 0 stands for.
template <class Options>
Options with_sizes(Options o) {
  if (o.num_kv_heads() == 0) o.num_kv_heads(o.num_heads());
  if (o.hidden() == 0) o.hidden(4 * o.d_model());
  if constexpr (std::is_same_v<Options, GPTOptions>)
    if (o.head_size() == 0 && o.num_heads() > 0) o.head_size(o.d_model() / o.num_heads());
  return o;
}

/// The window of each layer; 0: all keys.
inline std::vector<std::int64_t> windows_of(const GPTOptions& o) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < o.num_layers(); ++i)
    all.push_back(o.windows().empty() ? o.window() : o.windows()[static_cast<std::size_t>(i) % o.windows().size()]);
  return all;
}

inline bool has_window(const GPTOptions& o) {
  return o.window() > 0 || std::any_of(o.windows().begin(), o.windows().end(), [](auto w) { return w > 0; });
}

}  // namespace fit::nn
