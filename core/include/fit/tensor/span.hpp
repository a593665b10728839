#pragma once
#include <cstdint>

/// The elements of a tensor as a range.
namespace fit {

/// A contiguous range of elements (the needed part of C++20's std::span).
template <class T>
class Span {
 public:
  Span(T* data, std::int64_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  /// Element i. Compiled with _GLIBCXX_ASSERTIONS, an index out of range ends the program, as for std::vector.
  T& operator[](std::int64_t i) const {
#if defined(_GLIBCXX_ASSERTIONS) && defined(__GLIBCXX__)
    __glibcxx_assert(i >= 0 && i < size_);
#endif
    return data_[i];
  }

 private:
  T* data_;
  std::int64_t size_;
};

}  // namespace fit
