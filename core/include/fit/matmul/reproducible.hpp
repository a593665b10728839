#pragma once
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"

namespace fit {

/// Whether the mode BatchInvariant is on, on this thread.
inline bool batch_invariant() { return detail::thread_state.batch_invariant; }

/// A guard: while it lives, the result of a sequence does not depend on the company in which this thread computes it.
/// In evaluation it is the same to the bit alone and in any batch, at any place in the batch, with any masked padding
/// behind it, and with keys from a cache as with all of them. This holds for float32, bfloat16 and int8 weights:
///
///     const BatchInvariant mode;
///     const Tensor one = gpt(ids[0].unsqueeze(0));  // equals the first row of gpt(ids)
///
/// Without it, matrix products and attention add in another order for few rows. The mode adds always in the order for
/// many rows, so it costs time where there are few (docs/reliability.md). Numbers that are not finite are excepted:
/// they may change the last digits of the queries beside them.
class BatchInvariant : public detail::Scoped<bool> {
 public:
  BatchInvariant() : Scoped(detail::thread_state.batch_invariant, true) {}
};

}  // namespace fit
