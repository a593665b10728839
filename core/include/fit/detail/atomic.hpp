#pragma once

// std::memory_order alone: libstdc++'s <atomic> is 2 % of what a file compiles with <fit/fit.hpp>.
#if __has_include(<bits/atomic_base.h>)
#include <bits/atomic_base.h>
#else
#include <atomic>
#endif

namespace fit::detail {

/// The part of std::atomic that public headers need, for integers and pointers.
template <class T>
class Atomic {
 public:
  constexpr Atomic(T value = {}) noexcept : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    return __atomic_load_n(&value_, static_cast<int>(order));
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    __atomic_store_n(&value_, value, static_cast<int>(order));
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return __atomic_exchange_n(&value_, value, static_cast<int>(order));
  }
  bool compare_exchange_strong(T& expected, T value) noexcept {
    return __atomic_compare_exchange_n(&value_, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  T fetch_add(T n, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return __atomic_fetch_add(&value_, n, static_cast<int>(order));
  }
  T fetch_sub(T n, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return __atomic_fetch_sub(&value_, n, static_cast<int>(order));
  }

 private:
  T value_;
};

}  // namespace fit::detail
