#pragma once
#include <atomic>
#include <cstdint>

#include "fit/tensor.hpp"

/// Random numbers are counter-based (Philox 4x32-10, Salmon et al. 2011): element i of call c under seed s depends on
/// (s, c, i) alone. Threads don't matter, and what is drawn again with the same key is the same.
namespace fit {

class Generator;

namespace detail {
/// Takes the place of the generators' counts on this thread: what is computed again draws what was drawn before.
class DrawTape {
 public:
  virtual std::uint64_t next_call(Generator& g) = 0;

 protected:
  ~DrawTape() = default;
};
[[gnu::visibility("default")]] inline thread_local DrawTape* draw_tape = nullptr;
}  // namespace detail

/// A seed and a count of calls. Several threads may draw from one; which of them gets which call is then up to chance.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  Generator(const Generator& o) : seed_(o.seed()), calls_(o.calls()) {}
  Generator& operator=(const Generator& o) {
    set_state(o.seed(), o.calls());
    return *this;
  }
  std::uint64_t seed() const { return seed_.load(std::memory_order_relaxed); }
  /// Calls drawn so far; setting it (with the seed) restores a state.
  std::uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  /// Both at once.
  void set_state(std::uint64_t seed, std::uint64_t calls) {
    seed_.store(seed, std::memory_order_relaxed);
    calls_.store(calls, std::memory_order_relaxed);
  }
  /// The key of the next call.
  std::uint64_t next_call() {
    return detail::draw_tape ? detail::draw_tape->next_call(*this) : calls_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> seed_, calls_{0};
};

/// The generator that everything random uses unless it is given another.
Generator& default_generator();
/// Restarts the default generator: the same seed gives the same program run, whatever the number of threads.
void manual_seed(std::uint64_t seed);

/// Uniform in [0, 1).
Tensor rand(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
/// Normal with mean 0 and standard deviation 1 (Box-Muller).
Tensor randn(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
/// Whole numbers in low … high - 1, int64.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& g = default_generator());
/// 1 with probability p, else 0; boolean.
Tensor bernoulli(double p, const Shape& shape, Generator& g = default_generator());
/// 0 … n - 1 in random order, int64.
Tensor randperm(std::int64_t n, Generator& g = default_generator());
/// rand() and randn() of x's shape and type.
Tensor rand_like(const Tensor& x, Generator& g = default_generator());
Tensor randn_like(const Tensor& x, Generator& g = default_generator());
/// Whether multinomial() may draw an id again.
enum class Replacement : bool { no, yes };
/// `count` ids from each row of weights [C] or [N, C] (floating, none negative, any sum), with a chance in proportion
/// to their weight: int64 [count] or [N, count]. Throws Error for a row without enough that are not 0.
Tensor multinomial(const Tensor& weights, std::int64_t count, Replacement replacement = Replacement::no,
                   Generator& g = default_generator());

namespace detail {
/// Four 32-bit words for block `index` of call `call`.
struct Philox {
  std::uint32_t word[4];
};
Philox philox(std::uint64_t seed, std::uint64_t call, std::uint64_t index);

/// Overwrites x with low + (high - low) rand(), or mean + std randn(), drawn where they stay.
void fill_uniform(const char* op, Tensor& x, double low, double high, Generator& g);
void fill_normal(const char* op, Tensor& x, double mean, double std, Generator& g);
}  // namespace detail

}  // namespace fit
