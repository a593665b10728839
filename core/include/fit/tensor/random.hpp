#pragma once
#include <cstdint>

#include "fit/detail/atomic.hpp"
#include "fit/tensor/tensor.hpp"

/// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): element i of call c under seed s depends on (s,
/// c, i) only. They don't depend on the number of threads, and the same key gives the same numbers again.
namespace fit {

class Generator;

namespace detail {
/// Replaces the generators' counts on this thread: a computation that is repeated draws the same numbers again.
class DrawTape {
 public:
  virtual std::uint64_t next_call(Generator& g) = 0;

 protected:
  ~DrawTape() = default;
};
[[gnu::visibility("default")]] inline thread_local DrawTape* draw_tape = nullptr;
}  // namespace detail

/// A seed and a count of calls. Several threads may draw from one generator; the order of their calls is then random.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  Generator(const Generator& o) : seed_(o.seed()), calls_(o.calls()) {}
  Generator& operator=(const Generator& o) {
    set_state(o.seed(), o.calls());
    return *this;
  }
  std::uint64_t seed() const { return seed_.load(std::memory_order_relaxed); }
  /// The number of calls so far. set_state() restores it.
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  /// Sets both.
  void set_state(std::uint64_t seed, std::uint64_t calls) {
    seed_.store(seed, std::memory_order_relaxed);
    calls_.store(calls, std::memory_order_relaxed);
  }
  /// The key of the next call.
  std::uint64_t next_call() {
    return detail::draw_tape ? detail::draw_tape->next_call(*this) : calls_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  detail::Atomic<std::uint64_t> seed_, calls_{0};
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
