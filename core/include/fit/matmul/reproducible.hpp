#pragma once
#include "fit/detail/scoped.hpp"
#include "fit/detail/thread_state.hpp"

namespace fit {

/// Whether the mode Reproducible is on, on this thread.
inline bool reproducible() { return detail::thread_state.reproducible; }

/// A guard: while it lives, results of this thread do not depend on the company in which they are computed, nor on the
/// processor. This holds for float32, bfloat16 and int8 weights:
/// - In evaluation, the result of a sequence is the same to the bit alone and in any batch, at any place in the batch,
///   with any masked padding behind it, and with keys from a cache as with all of them.
/// - Products of bfloat16 and int8 are added in float32 in one order, also where the processor has instructions for
///   them, which round otherwise (AVX512-BF16, VNNI, AMX). Those of float32 and float64 are so always.
///
///     const Reproducible mode;
///     const Tensor one = gpt(ids[0].unsqueeze(0));  // equals the first row of gpt(ids)
///
/// Without it, matrix products and attention add in another order for few rows. The mode adds always in the order for
/// many rows. So that a few rows take little longer, linear() keeps a copy of a weight that it reads again, in that
/// order (docs/performance.md has the cost).
/// Numbers that are not finite are excepted: they may change the last digits of the queries beside them.
class Reproducible : public detail::Scoped<bool> {
 public:
  [[nodiscard]] Reproducible() : Scoped(detail::thread_state.reproducible, true) {}
};

}  // namespace fit
