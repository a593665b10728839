#pragma once
#include <cstdint>

#include "fit/base/memory.hpp"

namespace fit::kernels {

// Memory for the duration of a scope, from the cache of buffers.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : size_(detail::size_class(static_cast<std::size_t>(n) * sizeof(T))),
        data_(static_cast<T*>(detail::acquire(size_))) {}
  ~Scratch() { detail::release(data_, size_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  detail::SizeClass size_;
  T* data_;
};

}  // namespace fit::kernels
