#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "fit/attention.hpp"

/// What a mask does, in words and as a small picture, before any training is wasted on the wrong one.
///
///     std::cout << explain(mask);
///     std::cout << explain(options, 6, 6);   // the mask, causal and window together, for 6 queries and 6 keys
///     std::cout << explain_padding(ids, 0);
///
/// It says which queries see which keys, names those that see nothing and what keeps them from it, and says when a mask
/// looks as if it meant the opposite (PyTorch's masks of nn.MultiheadAttention: true = hide).
namespace fit {

/// Attention with these options of `queries` to `keys`. At most four different cases of the batch and the heads are
/// drawn. Throws Error for what attention itself refuses.
std::string explain(const AttentionOptions& options, std::int64_t queries, std::int64_t keys);

/// A mask of any of the shapes that AttentionOptions::mask may have. One that is the same for all queries is shown for
/// as many as there are keys.
std::string explain(const Tensor& mask);

/// What create_padding_mask(ids, pad_token_id) hides in self-attention. ids is (B, S), int64.
std::string explain_padding(const Tensor& ids, std::int64_t pad_token_id = 0);

}  // namespace fit
