#include "fit/base/shape.hpp"

#include <ostream>

#include "fit/base/error.hpp"

namespace fit {
namespace {
std::string listing(const std::int64_t* sizes, int rank) {
  std::string s = "[";
  for (int i = 0; i < rank; ++i) s += (i ? ", " : "") + std::to_string(sizes[i]);
  return s + "]";
}
}  // namespace

const char* name_of(DType t) {
  static constexpr const char* names[] = {"boolean", "int8", "int64", "bfloat16", "float32", "float64"};
  return names[static_cast<int>(t)];  // in the order of DType
}

std::ostream& operator<<(std::ostream& out, DType t) { return out << name_of(t); }

Shape::Shape(const std::int64_t* sizes, int rank) : rank_(rank) {
  if (rank > max_rank)
    throw Error("[shape] " + std::to_string(rank) + " axes: there can be at most " + std::to_string(max_rank));
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    sizes_[i] = sizes[i];
    if (sizes[i] < 0) throw Error("[shape] " + listing(sizes, rank) + ": a size can't be negative");
    // The product of the sizes other than 0 must fit, so that no stride can overflow either.
    if (sizes[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(numel_, sizes[i], &numel_) || numel_ > std::int64_t{1} << 62)
      throw Error("[shape] " + listing(sizes, rank) + ": more elements than can be counted");
  }
  if (empty) numel_ = 0;
}

Shape Shape::with(int axis, std::int64_t size) const {
  std::int64_t s[max_rank];
  for (int i = 0; i < rank_; ++i) s[i] = i == axis ? size : sizes_[i];
  return Shape(s, rank_);
}

Shape Shape::inserted(int axis, std::int64_t size) const {
  std::int64_t s[max_rank + 1];
  for (int i = 0, j = 0; i <= rank_; ++i) s[i] = i == axis ? size : sizes_[j++];
  return Shape(s, rank_ + 1);
}

Shape Shape::erased(int axis) const {
  std::int64_t s[max_rank];
  for (int i = 0, j = 0; i < rank_; ++i)
    if (i != axis) s[j++] = sizes_[i];
  return Shape(s, rank_ - 1);
}

std::string Shape::str() const { return listing(sizes_, rank_); }

std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.str(); }

}  // namespace fit
