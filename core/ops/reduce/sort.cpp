// sort, argsort and topk.
#include <algorithm>
#include <cstring>
#include <memory>

#include "fit/threads/parallel.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/index/scatter.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"

namespace fit {
namespace {

// Numbers are compared in the type in which kernels compute.
template <class T>
AccT<T> number(T v) {
  return static_cast<AccT<T>>(v);
}

// An unsigned key with the order of the elements: -0 equals 0, NaN is last. Reversed if `descending`.
template <class T>
auto key_of(T v, bool descending) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<std::uint32_t>(v != descending);
  } else {
    using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Key sign = Key{1} << (8 * sizeof(T) - 1);
    Key bits;
    if constexpr (is_floating_element<T>) {
      v = v == 0 ? T(0) : v;
      std::memcpy(&bits, &v, sizeof bits);
      bits = v != v ? ~Key{0} : bits & sign ? ~bits : bits | sign;
    } else {
      bits = static_cast<Key>(v) ^ sign;
    }
    return descending ? static_cast<Key>(~bits) : bits;
  }
}

// An element's key and index. If both have 32 bits, they share one 64-bit number.
struct Wide {
  std::uint64_t key, id;
  bool operator<(const Wide& o) const { return key != o.key ? key < o.key : id < o.id; }
};
template <class Item>
Item item(std::uint64_t key, std::int64_t id) {
  if constexpr (std::is_same_v<Item, Wide>)
    return {key, static_cast<std::uint64_t>(id)};
  else
    return key << 32 | static_cast<std::uint64_t>(id);
}
std::uint32_t key_in(std::uint64_t item) { return static_cast<std::uint32_t>(item >> 32); }
std::uint64_t key_in(const Wide& item) { return item.key; }
std::int64_t id_in(std::uint64_t item) { return static_cast<std::int64_t>(item & UINT32_MAX); }
std::int64_t id_in(const Wide& item) { return static_cast<std::int64_t>(item.id); }

// Radix sort by keys, from the least significant digit; stable. The ids must ascend. `other` is a buffer for n items.
template <int bits, class Item>
void sort_by_digits(Item* items, Item* other, std::int64_t n) {
  using Key = decltype(key_in(*items));
  constexpr int digits = (8 * sizeof(Key) + bits - 1) / bits;
  constexpr std::size_t values = std::size_t{1} << bits;
  const auto digit = [](const Item& it, int d) { return static_cast<std::size_t>(key_in(it) >> (d * bits)) % values; };
  std::vector<std::int64_t> counts(digits * values);
  for (std::int64_t i = 0; i < n; ++i)
    for (int d = 0; d < digits; ++d) ++counts[static_cast<std::size_t>(d) * values + digit(items[i], d)];
  Item *from = items, *to = other;
  for (int d = 0; d < digits; ++d) {
    std::int64_t* const place = counts.data() + static_cast<std::size_t>(d) * values;
    if (place[digit(from[0], d)] == n) continue;  // all items have this digit
    std::int64_t sum = 0;
    for (std::size_t v = 0; v < values; ++v) sum += std::exchange(place[v], sum);
    for (std::int64_t i = 0; i < n; ++i) to[place[digit(from[i], d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
}
template <class Item>
void sort_items(Item* items, Item* other, std::int64_t n) {
  if (n < 128) return std::sort(items, items + n);
  n < 8192 ? sort_by_digits<8>(items, other, n) : sort_by_digits<11>(items, other, n);
}

// Moves the first k items of a slice in sorted order to the front of `items`, which has capacity capacity_for(k).
std::int64_t capacity_for(std::int64_t k) { return std::max<std::int64_t>(4 * k, 512); }
template <class Item, class T>
void select_items(Item* items, const T* x, std::int64_t n, std::int64_t k, bool descending) {
  // Collects candidates. When the buffer is full, keeps the best k; later elements that are not better than the worst
  // of them are skipped, a block at a time.
  constexpr std::int64_t block = 64;
  const std::int64_t capacity = capacity_for(k);
  const auto ahead = [descending](T u, T v) {  // also true for NaN, which the keys order
    return descending ? !(number(u) <= number(v)) : !(number(u) >= number(v));
  };
  std::int64_t count = 0;
  T worst{};
  bool full = false;
  for (std::int64_t i = 0; i < n; i += block) {
    const std::int64_t end = std::min(n, i + block);
    int any = !full;  // int, because loops of bool are not vectorised
    for (std::int64_t l = i; full && l < end; ++l) any |= ahead(x[l], worst);
    if (!any) continue;
    for (std::int64_t l = i; l < end; ++l)
      if (!full || ahead(x[l], worst)) items[count++] = item<Item>(key_of(number(x[l]), descending), l);
    if (count + block <= capacity) continue;
    std::nth_element(items, items + k - 1, items + count);
    count = k;
    worst = x[id_in(items[k - 1])];
    full = true;
  }
  std::partial_sort(items, items + k, items + count);
}

// The first k elements of each slice along an axis, sorted: NaN is the largest, and equal elements keep their order.
template <class Item, class T>
void sort_slices(T* values, std::int64_t* ids, const T* x, const kernels::AxisView& a, std::int64_t k,
                 bool descending) {
  const std::int64_t grain = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, a.n));
  const bool few = k < a.n / 8;
  parallel_for(a.outer * a.inner, grain, [&](std::int64_t line, std::int64_t end) {
    std::vector<Item> items(static_cast<std::size_t>(few ? capacity_for(k) : 2 * a.n));
    const std::unique_ptr<T[]> side(a.inner > 1 ? new T[static_cast<std::size_t>(a.n)] : nullptr);
    for (; line < end; ++line) {
      const std::int64_t o = line / a.inner, c = line % a.inner;
      const T* row = x + o * a.n * a.inner + c;
      if (side) {
        for (std::int64_t i = 0; i < a.n; ++i) side[static_cast<std::size_t>(i)] = row[i * a.inner];
        row = side.get();
      }
      if (few) {
        select_items(items.data(), row, a.n, k, descending);
      } else {
        for (std::int64_t i = 0; i < a.n; ++i)
          items[static_cast<std::size_t>(i)] = item<Item>(key_of(number(row[i]), descending), i);
        sort_items(items.data(), items.data() + a.n, a.n);
      }
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t id = id_in(items[static_cast<std::size_t>(i)]);
        values[(o * k + i) * a.inner + c] = row[id];
        ids[(o * k + i) * a.inner + c] = id;
      }
    }
  });
}

std::pair<Tensor, Tensor> sorted(const char* op, const Tensor& x, std::int64_t k, int axis, bool descending) {
  const Shape shape = x.shape().with(axis, k);
  std::vector<Tensor> y{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, int64)};
  if (shape.numel() > 0)
    dispatch(x.dtype(), [&](auto kind) {
      using T = decltype(kind);
      const kernels::AxisView slices(x.shape(), axis);
      using Item = std::conditional_t<sizeof(key_of(number(T{}), false)) == 4, std::uint64_t, Wide>;
      const auto sort = slices.n < INT32_MAX ? sort_slices<Item, T> : sort_slices<Wide, T>;
      sort(y[0].fresh<T>(), y[1].fresh<std::int64_t>(), x.data<T>().data(), slices, k, descending);
    });
  record(op, {x}, y, keep::saved(y[1]), [axis](Backward& b) { give_scattered(b, axis, b.saved(0), b.dy()); });
  return {y[0], y[1]};
}

}  // namespace

std::pair<Tensor, Tensor> sort(const Tensor& x, int axis, SortOrder order) {
  axis = slice_axis("sort", x, axis);
  if (x.rank() == 0) return {x.clone(), zeros({}, int64)};
  return sorted("sort", x, x.shape()[axis], axis, order == descending);
}

Tensor argsort(const Tensor& x, int axis, SortOrder order) {
  axis = slice_axis("argsort", x, axis);
  return sort(x.detach(), axis, order).second;
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis, Extremes which) {
  axis = slice_axis("topk", x, axis);
  const std::int64_t most = x.rank() == 0 ? 1 : x.shape()[axis];
  if (k < 0 || k > most)
    check::fail("topk", "k is ", k, ": axis ", axis, " of shape ", x.shape(), " allows 0 … ", most);
  if (x.rank() == 0 && k == 1) return sort(x);
  return sorted("topk", x.rank() == 0 ? reshape(x, {1}) : x, k, axis, which == Extremes::largest);
}

}  // namespace fit
