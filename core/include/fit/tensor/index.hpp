#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <vector>

/// The indices of x[{...}]: numbers, ranges, lists, new axes.
namespace fit {

class Tensor;

/// A slice of one axis: every `step`-th element from start up to stop (not included), as in Python. Negative bounds
/// count from the end. Bounds beyond the end are clamped. A negative step reverses the order.
struct Range {
  static constexpr std::int64_t none = INT64_MIN;
  std::int64_t start = none, stop = none, step = 1;
};
/// range(): all elements. range(2): all from index 2. range(2, -1): from index 2 up to the last but one.
inline Range range(std::int64_t start = Range::none, std::int64_t stop = Range::none, std::int64_t step = 1) {
  return {start, stop, step};
}

/// One entry of x[{...}]: a number (removes the axis), a range(), a list of numbers or an int64 tensor [N], `ellipsis`
/// (all remaining axes) or `newaxis` (a new axis of size 1). Negative numbers, also in a list, count from the end. They
/// must be valid indices; the bounds of a range are clamped. Lists have one length, and are read in pairs, as in NumPy:
/// element i of their common axis is that of entry i of each. It stands at the place of the first list if lists stand
/// side by side, else at the front.
///
///     x[{0, range(1, -1)}]   x[{ellipsis, range(Range::none, Range::none, -1)}]   x[{{2, 0, 2}}]   x[{newaxis}]
///     logits[{arange(N), targets}]   // [N]: logits[i][targets[i]]
class Index {
 public:
  enum class Kind : std::uint8_t { number, range, list, ellipsis, newaxis };
  Index() = delete;  // x[{{}, 0}] does not compile: use range()
  template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  Index(T i) : kind(Kind::number), number(static_cast<std::int64_t>(i)) {}
  Index(Range r) : kind(Kind::range), span(r) {}
  Index(std::vector<std::int64_t> l);
  Index(std::initializer_list<std::int64_t> l);
  /// The numbers of an int64 tensor [N], or those where a boolean mask of the axis is true; as the only entry, as in
  /// x[ids] and x[mask].
  Index(const Tensor& ids);
  explicit Index(Kind k) : kind(k) {}

  Kind kind;
  std::int64_t number = 0;
  Range span;
  std::vector<std::int64_t> list;
  std::shared_ptr<const Tensor> ids;  ///< of a list; null if it was given as numbers
};
/// The type of i in x[i] without braces: an integer, a range, newaxis. A template, so that x[{0}] is a list with one
/// number.
template <class I>
using IsIndex = std::enable_if_t<(std::is_integral_v<I> && !std::is_same_v<I, bool>) || std::is_same_v<I, Range> ||
                                 std::is_same_v<I, Index>>;
/// All remaining axes, and a new axis of size 1.
inline const Index ellipsis{Index::Kind::ellipsis};
inline const Index newaxis{Index::Kind::newaxis};

}  // namespace fit
