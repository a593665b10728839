#pragma once
#include <cstdint>
#include <map>

#include "fit/detail/scoped.hpp"
#include "fit/tensor/random.hpp"

namespace fit {

/// A guard: while it lives, random numbers of this thread depend only on (key, a, b) and on the draws since the guard
/// was made; those of another generator than the default one on its seed, too. So they are the same on any thread, and
/// no generator changes. Generators that are made or seeded meanwhile give their own numbers.
class KeyedDraws final : public detail::DrawTape {
 public:
  KeyedDraws(std::uint64_t key, std::uint64_t a, std::uint64_t b) : key_(key) {
    const detail::Philox words = detail::philox(key, a, b);
    // The upper half of the call numbers: generators count from 0.
    next_ = (std::uint64_t{words.word[0]} << 32 | words.word[1]) | std::uint64_t{1} << 63;
  }

  detail::RandomKey next(Generator& g) override {
    if (g.made_under(*this)) return g.next_of_own();
    if (const auto found = seeded_.find(&g); found != seeded_.end()) return {found->second.seed, found->second.call++};
    return {&g == &default_generator() ? key_ : g.seed(), next_++};
  }
  bool set_state(Generator& g, const detail::RandomKey& state) override {
    if (g.made_under(*this)) return false;
    seeded_[&g] = state;
    return true;
  }

 private:
  const std::uint64_t key_;
  std::map<const Generator*, detail::RandomKey> seeded_;  // since the guard was made
  const detail::Scoped<DrawTape*> drawing_{detail::draw_tape, this};
  std::uint64_t next_;
};

}  // namespace fit
