#pragma once
#include <cstdint>
#include <string>

#include "fit/attention/attention.hpp"

/// Explains a mask in words and as a small picture, to find a wrong mask before the training.
///
///     std::cout << explain(mask);
///     std::cout << explain(options, 6, 6);   // mask, expression, causal and window together, for 6 queries and 6 keys
///     std::cout << explain_padding(ids, 0);
///
/// The text says which keys each query attends to. It names fully masked queries and the reason. It warns if a mask
/// looks inverted (in PyTorch's nn.MultiheadAttention true = masked).
namespace fit {

/// Explains attention with these options for the given numbers of queries and keys. Draws at most four different cases
/// of batch and heads. Throws Error for options that attention refuses.
std::string explain(const AttentionOptions& options, std::int64_t queries, std::int64_t keys);

/// Explains a mask of any shape that AttentionOptions::mask may have. A mask that is the same for all queries is shown
/// with as many queries as keys.
std::string explain(const Tensor& mask);

/// Explains create_padding_mask(ids, pad_token_id) in self-attention. ids is (B, S), int64.
std::string explain_padding(const Tensor& ids, std::int64_t pad_token_id = 0);

}  // namespace fit
