#pragma once
#include "base/acc_type.hpp"
#include "base/scratch.hpp"
#include "kernels/convert.hpp"

// Kernels compute in W = AccT<T>. This is the one way from a narrow T in memory to them and back: operations and
// kernels know W alone.
namespace fit::kernels {

/// A row of numbers in W: those in memory or, of a narrow T, copies in a buffer.
///
///     WideRow<T> row(n);
///     kernel(row.target(y), row.read(x, n), n);  // both may be the buffer
///     row.store(y, n);
template <class T, class Memory = Scratch<AccT<T>>>
class WideRow {
 public:
  using W = AccT<T>;
  /// For up to `capacity` numbers.
  explicit WideRow(std::int64_t capacity) : memory_(capacity) {}

  /// n numbers from x on.
  const W* read(const T* x, std::int64_t n) { return read(x, 1, n, n); }
  /// Rows of n numbers, `step` apart in x, one after the other.
  const W* read(const T* x, std::int64_t rows, std::int64_t n, std::int64_t step) {
    if constexpr (narrow<T>) {
      for (std::int64_t i = 0; i < rows; ++i) widen(memory_.get() + i * n, x + i * step, n);
      return memory_.get();
    } else {
      return x;
    }
  }
  /// Where a kernel writes the numbers of y.
  W* target([[maybe_unused]] T* y) {
    if constexpr (narrow<T>)
      return memory_.get();
    else
      return y;
  }
  /// Puts n numbers, written to target(y), into y.
  void store([[maybe_unused]] T* y, [[maybe_unused]] std::int64_t n) {
    if constexpr (narrow<T>) round(y, memory_.get(), n);
  }

 private:
  struct None {
    explicit None(std::int64_t) {}
  };
  std::conditional_t<narrow<T>, Memory, None> memory_;
};

/// The same on the stack. Blocks of wide_block numbers of three operands stay in the L1 cache.
constexpr std::int64_t wide_block = 512;
template <class W, std::int64_t capacity>
struct StackMemory {
  explicit StackMemory(std::int64_t) {}
  W* get() { return numbers; }
  W numbers[capacity];
};
template <class T, std::int64_t capacity = wide_block>
struct WideBlock : WideRow<T, StackMemory<AccT<T>, capacity>> {
  WideBlock() : WideRow<T, StackMemory<AccT<T>, capacity>>(capacity) {}
};
/// How many of n numbers are processed together: all, or a block if one of T is narrow.
template <class... T>
constexpr std::int64_t block_length(std::int64_t n) {
  return (narrow<T> || ...) && n > wide_block ? wide_block : n;
}

}  // namespace fit::kernels
