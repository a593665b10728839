#pragma once
#include <atomic>
#include <cstdint>

#include "fit/detail/random_key.hpp"
#include "fit/tensor/tensor.hpp"

/// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): element i of call c under seed s depends on (s,
/// c, i) only. They don't depend on the number of threads, and the same key gives the same numbers again.
namespace fit {

class Generator;

namespace detail {
[[gnu::visibility("default")]] inline std::atomic<std::uint64_t> tapes_made{0};

/// Replaces the generators' keys on this thread: a computation that is repeated draws the same numbers again.
class DrawTape {
 public:
  virtual RandomKey next(Generator& g) = 0;
  /// What set_state() of a generator does while the tape is used. Returns false if the generator changes as usual.
  virtual bool set_state(Generator& g, const RandomKey& state) = 0;

  const std::uint64_t number = tapes_made.fetch_add(1, std::memory_order_relaxed) + 1;

 protected:
  DrawTape() = default;
  ~DrawTape() = default;
};
[[gnu::visibility("default")]] inline thread_local DrawTape* draw_tape = nullptr;
}  // namespace detail

/// A seed and a count of calls. Several threads may draw from one generator; the order of their calls is then random.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  Generator(const Generator& o) : seed_(o.seed()), calls_(o.calls()), made_under_(o.made_under_) {}
  Generator& operator=(const Generator& o) {
    set_state(o.seed(), o.calls());
    return *this;
  }
  std::uint64_t seed() const { return seed_.load(std::memory_order_relaxed); }
  /// The number of calls so far. set_state() restores it.
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  /// Sets both.
  void set_state(std::uint64_t seed, std::uint64_t calls) {
    if (detail::draw_tape && detail::draw_tape->set_state(*this, {seed, calls})) return;
    seed_.store(seed, std::memory_order_relaxed);
    calls_.store(calls, std::memory_order_relaxed);
  }
  /// The key of the next call.
  detail::RandomKey next() { return detail::draw_tape ? detail::draw_tape->next(*this) : next_of_own(); }
  /// The same without the tape.
  detail::RandomKey next_of_own() { return {seed(), calls_.fetch_add(1, std::memory_order_relaxed)}; }
  /// Whether it was made while this tape was used, or one inside of it.
  bool made_under(const detail::DrawTape& tape) const { return made_under_ >= tape.number; }

 private:
  std::atomic<std::uint64_t> seed_, calls_{0};
  std::uint64_t made_under_ = detail::draw_tape ? detail::draw_tape->number : 0;
};

/// The default of all functions with a generator.
Generator& default_generator();
/// Restarts the default generator. The same seed gives the same results, for any number of threads.
void manual_seed(std::uint64_t seed);

/// Uniform in [0, 1).
Tensor rand(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
Tensor rand(const Shape& shape, Generator& g);
/// Normal with mean 0 and standard deviation 1 (Box-Muller).
Tensor randn(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
Tensor randn(const Shape& shape, Generator& g);
/// Integers in low … high - 1, int64.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& g = default_generator());
/// 1 with probability p, else 0; boolean.
Tensor bernoulli(double p, const Shape& shape, Generator& g = default_generator());
/// 1 with probability p, else 0, for each element of p (floating): p's shape and type, without a gradient.
Tensor bernoulli(const Tensor& p, Generator& g = default_generator());
/// 0 … n - 1 in random order, int64.
Tensor randperm(std::int64_t n, Generator& g = default_generator());
/// rand() and randn() with x's shape and type.
Tensor rand_like(const Tensor& x, Generator& g = default_generator());
Tensor randn_like(const Tensor& x, Generator& g = default_generator());
/// Whether multinomial() may draw the same id again.
enum class Replacement : bool { no, yes };
/// Draws `count` ids from each row of weights [C] or [N, C] (floating, not negative, any sum) with probabilities
/// proportional to the weights: int64 [count] or [N, count]. Throws Error if a row has too few nonzero weights.
Tensor multinomial(const Tensor& weights, std::int64_t count, Replacement replacement = Replacement::no,
                   Generator& g = default_generator());

namespace detail {
/// Four 32-bit words for block `index` of call `call`.
struct Philox {
  std::uint32_t word[4];
};
Philox philox(std::uint64_t seed, std::uint64_t call, std::uint64_t index);

/// Overwrites x with low + (high - low) rand(), or mean + std randn(), without a temporary.
void fill_uniform(const char* op, Tensor& x, double low, double high, Generator& g);
void fill_normal(const char* op, Tensor& x, double mean, double std, Generator& g);
}  // namespace detail

}  // namespace fit
