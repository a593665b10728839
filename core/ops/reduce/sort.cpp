// sort, argsort and topk; elements by their rank.
#include <algorithm>
#include <cstring>

#include "base/scratch.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/key_counts.hpp"
#include "ops/index/axis_slices.hpp"
#include "ops/index/scatter.hpp"
#include "ops/reduce/ranked.hpp"
#include "tensor/check.hpp"
#include "tensor/convert.hpp"

namespace fit {
namespace {

// Numbers are compared in the type in which kernels compute.
template <class T>
AccT<T> number(T v) {
  return static_cast<AccT<T>>(v);
}

// An unsigned key with the order of the elements: -0 equals 0, NaN is last. Reversed if `descending`. Without a branch,
// loops of it are vectorised.
template <class T>
auto key_of(T v, bool descending) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<std::uint32_t>(v != descending);
  } else {
    using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Key sign = Key{1} << (8 * sizeof(T) - 1);
    Key bits;
    if constexpr (is_floating_element<T>) {
      const T unsigned_zero = v + T(0);
      std::memcpy(&bits, &unsigned_zero, sizeof bits);
      bits ^= (Key{0} - (bits >> (8 * sizeof(T) - 1))) | sign;
      bits |= Key{0} - static_cast<Key>(v != v);  // NOLINT(misc-redundant-expression)
    } else {
      bits = static_cast<Key>(v) ^ sign;
    }
    return bits ^ (Key{0} - static_cast<Key>(descending));
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
void sort_items(Item* items, std::int64_t n) {
  Item* const other = items + n;
  if (n < 128) return std::sort(items, items + n);
  n < 8192 ? sort_by_digits<8>(items, other, n) : sort_by_digits<11>(items, other, n);
}

template <class Item>
using KeyIn = decltype(key_in(Item{}));
template <class Item>
constexpr std::int64_t max_few = 512 / sizeof(KeyIn<Item>);

// Sorts a few items by their keys, stable; item_at(i) has keys[i]. Each goes to the place that is the number of keys
// below its own, or behind its equals: n^2 comparisons of whole vectors take less time than n log n that are guessed
// wrong.
template <class Item, class ItemAt>
void sort_few(Item* sorted, KeyIn<Item> (&keys)[max_few<Item>], std::int64_t n, const ItemAt& item_at) {
  KeyIn<Item> below[max_few<Item>];
  unsigned char equals[max_few<Item>] = {};
  std::fill(keys + n, keys + (n + kernels::key_group - 1) / kernels::key_group * kernels::key_group, KeyIn<Item>{0});
  FIT_KERNELS(kernels::key_counts_table, KeyIn<Item>).less(below, keys, n);
  for (std::int64_t i = 0; i < n; ++i) sorted[below[i] + equals[below[i]]++] = item_at(i);
}
template <class Item>
void sort_few(Item* items, std::int64_t n) {
  KeyIn<Item> keys[max_few<Item>];
  Item given[max_few<Item>];
  std::copy_n(items, n, given);
  for (std::int64_t i = 0; i < n; ++i) keys[i] = key_in(given[i]);
  sort_few(items, keys, n, [&](std::int64_t i) { return given[i]; });
}
template <class Item, class T>
void sort_few(Item* items, const T* x, std::int64_t n, bool descending) {
  KeyIn<Item> keys[max_few<Item>];
  for (std::int64_t i = 0; i < n; ++i) keys[i] = key_of(number(x[i]), descending);
  sort_few(items, keys, n, [&](std::int64_t i) { return item<Item>(keys[i], i); });
}

template <class Item, class T>
void read_items(Item* items, const T* x, std::int64_t n, bool descending) {
  for (std::int64_t i = 0; i < n; ++i) items[i] = item<Item>(key_of(number(x[i]), descending), i);
}

// Moves the first k items of a slice in sorted order to the front of `items`, which has capacity capacity_for(k). For a
// slice that is_long() for k.
std::int64_t capacity_for(std::int64_t k) { return std::max<std::int64_t>(4 * k, 32); }
bool is_long(std::int64_t n, std::int64_t k) { return n > 64 && k <= (n - 1) / 8; }  // n > 2 capacity_for(k)
template <class Item, class T>
void select_items(Item* items, const T* x, std::int64_t n, std::int64_t k, bool descending) {
  // Collects candidates. When the buffer is full, keeps the best k; later elements that are not better than the worst
  // of them are skipped, a block at a time.
  constexpr std::int64_t block = 16;
  const std::int64_t capacity = capacity_for(k);
  const bool few = capacity <= max_few<Item>;
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
    few ? sort_few(items, count) : std::nth_element(items, items + k - 1, items + count);
    count = k;
    worst = x[id_in(items[k - 1])];
    full = true;
  }
  few ? sort_few(items, count) : std::partial_sort(items, items + k, items + count);
}

// Beside an empty axis, n may be any number.
std::int64_t twice(std::int64_t n) { return 2 * std::min(n, std::int64_t{1} << 60); }

// The first k items of a slice, sorted. `items` has room for items_for(n, k).
std::int64_t items_for(std::int64_t n, std::int64_t k) { return is_long(n, k) ? capacity_for(k) : twice(n); }
template <class Item, class T>
void first_items(Item* items, const T* x, std::int64_t n, std::int64_t k, bool descending) {
  if (is_long(n, k)) return select_items(items, x, n, k, descending);
  if (n <= max_few<Item>) return sort_few(items, x, n, descending);
  read_items(items, x, n, descending);
  sort_items(items, n);
}

// The items of ranks `first` … first + k - 1, k = 1 or 2, of n items whose ids ascend; `items` has room for 2 n. Items
// of a sorted sample bound the wanted ones: what is not between these is left out, until few are left.
template <class Item>
Item* select_ranks(Item* items, std::int64_t n, std::int64_t first, std::int64_t k) {
  constexpr std::int64_t size = 64, margin = 12;  // three standard deviations of a rank in the sample
  for (Item* other = items + n; n > max_few<Item>; std::swap(items, other)) {
    Item sample[size];
    for (std::int64_t i = 0; i < size; ++i) sample[i] = items[i * n / size];
    sort_few(sample, size);
    const std::int64_t low = first * size / n - margin, high = (first + k - 1) * size / n + margin;
    const Item least = low < 0 ? item<Item>(0, 0) : sample[low], most = high < size ? sample[high] : item<Item>(~0, -1);
    std::int64_t below = 0, between = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      other[between] = items[i];
      below += items[i] < least;
      between += !(items[i] < least) && !(most < items[i]);
    }
    if (first < below || first + k > below + between || between > n / 4 * 3) {  // an odd sample
      std::nth_element(items, items + first, items + n);
      if (k > 1) std::iter_swap(items + first + 1, std::min_element(items + first + 1, items + n));
      return items + first;
    }
    n = between;
    first -= below;
  }
  sort_few(items, n);
  return items + first;
}

// The index of the last NaN; -1 if there is none.
template <class T>
std::int64_t last_nan(const T* x, std::int64_t n) {
  const auto is_nan = [x](std::int64_t i) {
    const auto v = number(x[i]);
    return v != v;  // NOLINT(misc-redundant-expression)
  };
  int any = 0;
  for (std::int64_t i = 0; i < n; ++i) any |= is_nan(i);
  while (any && !is_nan(n - 1)) --n;
  return any ? n - 1 : -1;
}

// The items of ranks `first` … first + k - 1 of a slice. All are the last, a NaN, if the slice has NaN.
template <class Item, class T>
const Item* ranked_items(Item* items, const T* x, std::int64_t n, std::int64_t first, std::int64_t k) {
  if (const std::int64_t id = last_nan(x, n); id >= 0) {
    std::fill_n(items, k, item<Item>(0, id));
    return items;
  }
  if (n <= max_few<Item>) {
    sort_few(items, x, n, false);
    return items + first;
  }
  read_items(items, x, n, false);
  return select_ranks(items, n, first, k);
}

// Writes k elements for each slice of x along an axis, [outer, k, inner], and their indices. choose(items, slice)
// returns their items; `items` has room for `room`.
template <class Item, class T, class Choose>
void each_slice(T* values, std::int64_t* ids, const T* x, const kernels::AxisView& a, std::int64_t k, std::int64_t room,
                const Choose& choose) {
  const std::int64_t grain = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(1, a.n));
  parallel_for(a.outer * a.inner, grain, [&](std::int64_t line, std::int64_t end) {
    const kernels::Scratch<Item> items(room);
    const kernels::Scratch<T> side(a.inner > 1 ? a.n : 1);
    for (; line < end; ++line) {
      const std::int64_t o = line / a.inner, c = line % a.inner;
      const T* row = x + o * a.n * a.inner + c;
      if (a.inner > 1) {
        for (std::int64_t i = 0; i < a.n; ++i) side.get()[i] = row[i * a.inner];
        row = side.get();
      }
      const Item* const chosen = choose(items.get(), row);
      for (std::int64_t i = 0; i < k; ++i) {
        const std::int64_t id = id_in(chosen[i]);
        values[(o * k + i) * a.inner + c] = row[id];
        ids[(o * k + i) * a.inner + c] = id;
      }
    }
  });
}

// {values, ids} of k elements of each slice; choose(items, slice, n) returns their items.
template <class Choose>
std::pair<Tensor, Tensor> chosen(const char* op, const Tensor& x, int axis, std::int64_t k, std::int64_t room,
                                 const Choose& choose) {
  const Shape shape = x.shape().with(axis, k);
  std::vector<Tensor> y{Tensor::empty(shape, x.dtype()), Tensor::empty(shape, int64)};
  const kernels::AxisView slices(x.shape(), axis);
  if (shape.numel() > 0)
    dispatch(x.dtype(), [&](auto kind) {
      using T = decltype(kind);
      using Item = std::conditional_t<sizeof(key_of(number(T{}), false)) == 4, std::uint64_t, Wide>;
      const auto run = [&](auto item) {
        using Item = decltype(item);
        each_slice<Item>(y[0].fresh<T>(), y[1].fresh<std::int64_t>(), x.data<T>().data(), slices, k, room,
                         [&](Item* items, const T* slice) { return choose(items, slice, slices.n); });
      };
      slices.n < INT32_MAX ? run(Item{}) : run(Wide{});
    });
  record(op, {x}, y, keep::saved(y[1]), [axis](Backward& b) { give_scattered(b, axis, b.saved(0), b.dy()); });
  return {y[0], y[1]};
}

std::pair<Tensor, Tensor> sorted(const char* op, const Tensor& x, std::int64_t k, int axis, bool descending) {
  return chosen(op, x, axis, k, items_for(x.shape()[axis], k), [=](auto* items, const auto* slice, std::int64_t n) {
    first_items(items, slice, n, k, descending);
    return items;
  });
}

}  // namespace

std::pair<Tensor, Tensor> detail::ranked(const char* op, const Tensor& x, int axis, std::int64_t first,
                                         std::int64_t k) {
  return chosen(op, x, axis, k, twice(x.shape()[axis]), [=](auto* items, const auto* slice, std::int64_t n) {
    return ranked_items(items, slice, n, first, k);
  });
}

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
