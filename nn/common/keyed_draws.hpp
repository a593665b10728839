#pragma once
#include <cstdint>

#include "fit/detail/scoped.hpp"
#include "fit/tensor/random.hpp"

namespace fit {

/// A guard: while it lives, random numbers of this thread depend only on their generator's seed, on (key, a, b), and on
/// the draws since the guard was made. So they are the same on any thread, and no generator's count moves on.
class KeyedDraws final : public detail::DrawTape {
 public:
  KeyedDraws(std::uint64_t key, std::uint64_t a, std::uint64_t b) {
    const detail::Philox words = detail::philox(key, a, b);
    // The upper half of the call numbers: generators count from 0.
    next_ = (std::uint64_t{words.word[0]} << 32 | words.word[1]) | std::uint64_t{1} << 63;
  }

  /// The next key, for any generator.
  std::uint64_t next_call(Generator&) override { return next_++; }

 private:
  const detail::Scoped<DrawTape*> drawing_{detail::draw_tape, this};
  std::uint64_t next_;
};

}  // namespace fit
