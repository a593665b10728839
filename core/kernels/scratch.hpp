#pragma once
#include <cstdint>

#include "fit/memory.hpp"

namespace fit::kernels {

// Memory for the length of a scope, from the cache of buffers.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : data_(static_cast<T*>(detail::acquire(static_cast<std::size_t>(n) * sizeof(T), capacity_))) {}
  ~Scratch() { detail::release(data_, capacity_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  std::size_t capacity_ = 0;
  T* data_;
};

}  // namespace fit::kernels
