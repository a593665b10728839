#include <array>
#include <type_traits>
#include <utility>

#include "kernels/copy.hpp"
#include "kernels/gather.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/variants.hpp"

// Kernels that move elements, each against plain loops: copy.hpp, gather.hpp. Moves are exact, and sums are added in
// the order of the list, so that they have the bits of plain loops.
namespace fit::test::copy_kernels_test {
namespace {

using kernels::Strides;

template <class T>
GuardedBuffer<T> counted(std::int64_t n, std::int64_t offset = 1) {
  GuardedBuffer<T> room(n, offset);
  for (std::int64_t i = 0; i < n; ++i) room[i] = static_cast<T>(i);
  return room;
}

std::int64_t pick(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

// Calls f(index) for every index below `sizes`, the last axis fastest.
template <class F>
void each_index(const Shape& sizes, const F& f) {
  std::array<std::int64_t, Shape::max_rank> index{};
  for (std::int64_t i = 0; i < sizes.numel(); ++i) {
    std::int64_t rest = i;
    for (int a = sizes.rank() - 1; a >= 0; --a) {
      index[static_cast<std::size_t>(a)] = rest % sizes[a];
      rest /= sizes[a];
    }
    f(index);
  }
}

std::int64_t dot(const Shape& sizes, const std::array<std::int64_t, Shape::max_rank>& index, const Strides& strides) {
  std::int64_t at = 0;
  for (int a = 0; a < sizes.rank(); ++a)
    at += index[static_cast<std::size_t>(a)] * strides[static_cast<std::size_t>(a)];
  return at;
}

// Where an array with these strides begins in memory that it fits into from 0 on, and how much that is.
struct Extent {
  std::int64_t begin = 0, size = 1;
  Extent(const Shape& sizes, const Strides& strides) {
    for (int a = 0; a < sizes.rank(); ++a) {
      const std::int64_t reach = (sizes[a] - 1) * strides[static_cast<std::size_t>(a)];
      if (reach < 0) begin -= reach;
      size += std::abs(reach);
    }
  }
};

template <class W>
void check_copy(const Shape& sizes, const Strides& sy, const Strides& sx) {
  INFO(sizes << " of " << sizeof(W) << " bytes");
  for (int a = 0; a < sizes.rank(); ++a)
    UNSCOPED_INFO("strides " << sy[static_cast<std::size_t>(a)] << ", " << sx[static_cast<std::size_t>(a)]);
  const Extent ey(sizes, sy), ex(sizes, sx);
  GuardedBuffer<W> x = counted<W>(ex.size), y(ey.size, 3);
  kernels::copy(sizes, sizeof(W), y.data() + ey.begin, sy, x.data() + ex.begin, sx);
  bool right = y.guards_intact();
  std::vector<bool> written(static_cast<std::size_t>(ey.size));
  each_index(sizes, [&](const auto& index) {
    const std::int64_t to = ey.begin + dot(sizes, index, sy);
    right = right && y[to] == x[ex.begin + dot(sizes, index, sx)];
    written[static_cast<std::size_t>(to)] = true;
  });
  for (std::int64_t i = 0; i < ey.size; ++i) right = right && (written[static_cast<std::size_t>(i)] || y.untouched(i));
  CHECK(right);
}

// Strides of an array whose axes lie in memory in any order, some backwards and with room between.
Strides any_strides(const Shape& sizes, bool repeats, std::mt19937_64& random) {
  std::vector<int> order;
  for (int a = 0; a < sizes.rank(); ++a) order.push_back(a);
  for (std::size_t i = order.size(); i > 1; --i)
    if (random() % 2) std::swap(order[i - 1], order[random() % i]);
  Strides s{};
  std::int64_t step = random() % 4 == 0 ? 2 : 1;
  for (std::size_t i = order.size(); i > 0; --i) {
    const int a = order[i - 1];
    const bool repeated = repeats && random() % 4 == 0;
    s[static_cast<std::size_t>(a)] = repeated ? 0 : random() % 5 == 0 ? -step : step;
    if (!repeated) step = step * sizes[a] + (random() % 4 == 0 ? 1 : 0);
  }
  return s;
}

template <class W>
void check_copies() {
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t rank = pick(random, 0, 5); rank > 0; --rank) sizes.push_back(pick(random, 1, 6));
    if (i % 10 == 0 && !sizes.empty()) sizes[random() % sizes.size()] = pick(random, 0, 70);
    const Shape shape(sizes.data(), static_cast<int>(sizes.size()));
    check_copy<W>(shape, any_strides(shape, false, random), any_strides(shape, true, random));
  }
  // Transpositions of more than a tile, and runs that several threads share.
  for (const auto& [n, m] :
       {std::pair<std::int64_t, std::int64_t>{257, 33}, {33, 257}, {3, 1030}, {1030, 3}, {600, 601}})
    check_copy<W>({2, n, m}, Strides{n * m, m, 1}, Strides{n * m + 1, 1, n});
  check_copy<W>({400007}, Strides{1}, Strides{1});
  check_copy<W>({400007}, Strides{1}, Strides{0});
  check_copy<W>({200007}, Strides{2}, Strides{-3});
  check_copy<W>({4001, 101}, Strides{103, 1}, Strides{101, 1});
  // Few words in a row, backwards and in steps, and rows of a transposition that lie pages apart.
  for (std::int64_t n = 1; n < 20; ++n) check_copy<W>({3, 5, n}, Strides{7 * n, n + 1, 1}, Strides{6 * n, n, 1});
  for (const std::int64_t n : {3, 17, 65, 259})
    for (const std::int64_t step : {-2, -1, 2, 3}) check_copy<W>({3, n}, Strides{n, 1}, Strides{3 * n, step});
  for (const std::int64_t rows : {5, 16, 40, 67}) {
    check_copy<W>({70, rows}, Strides{4096, 1}, Strides{1, 71});
    check_copy<W>({2, 35, rows}, Strides{36 * 4096, 4096, 1}, Strides{71 * 70, 1, 71});
  }
}

// ---- gather -----------------------------------------------------------------------------------------------------

template <class T>
GuardedBuffer<T> numbers(std::int64_t n, std::mt19937_64& random) {
  GuardedBuffer<T> room(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t whole = pick(random, -1000, 1000);
    room[i] = std::is_floating_point_v<T> ? static_cast<T>(static_cast<double>(whole) / 7) : static_cast<T>(whole);
  }
  return room;
}

GuardedBuffer<std::int64_t> ids_below(std::int64_t limit, std::int64_t n, std::mt19937_64& random) {
  GuardedBuffer<std::int64_t> ids(n);
  for (std::int64_t i = 0; i < n; ++i) ids[i] = pick(random, 0, limit - 1);
  return ids;
}

// Rows along the middle axis of [outer, n, inner].
template <class T>
void check_row_moves(std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t count, std::int64_t skip) {
  INFO(outer << " x " << n << " x " << inner << ", " << count << " ids, skip " << skip << ", " << sizeof(T)
             << " bytes");
  std::mt19937_64 random(static_cast<std::uint64_t>(n + inner));
  const Shape whole{outer, n, inner};
  const kernels::AxisView axis(whole, 1);
  GuardedBuffer<std::int64_t> ids = ids_below(n, count, random);
  GuardedBuffer<T> x = numbers<T>(whole.numel(), random), y(outer * count * inner, 3);
  kernels::gather_rows(y.data(), x.data(), ids.data(), count, axis, sizeof(T), skip);
  GuardedBuffer<T> sums = numbers<T>(whole.numel(), random);
  std::vector<T> expected = sums.values();
  GuardedBuffer<T> terms = numbers<T>(outer * count * inner, random);
  kernels::scatter_rows_add(sums.data(), terms.data(), ids.data(), count, axis, skip);
  bool gathered = y.guards_intact();
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t k = 0; k < inner; ++k) {
        const std::int64_t part = (o * count + i) * inner + k, at = (o * n + ids[i]) * inner + k;
        gathered = gathered && y[part] == (ids[i] == skip ? T(0) : x[at]);
        T& sum = expected[static_cast<std::size_t>(at)];
        if (ids[i] != skip) sum = static_cast<T>(sum + terms[part]);
      }
  CHECK(gathered);
  CHECK(sums.values() == expected);
  CHECK(sums.guards_intact());
}

// gather and scatter_add of ids of any smaller shape.
template <class T>
void check_element_moves(const Shape& ids_shape, const Shape& whole, int axis) {
  INFO("ids " << ids_shape << " along axis " << axis << " of " << whole << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(9);
  GuardedBuffer<std::int64_t> ids = ids_below(whole[axis], ids_shape.numel(), random);
  GuardedBuffer<T> x = numbers<T>(whole.numel(), random), y(ids_shape.numel(), 3);
  kernels::gather(y.data(), x.data(), ids.data(), ids_shape, whole, axis, sizeof(T));
  GuardedBuffer<T> sums = numbers<T>(whole.numel(), random), terms = numbers<T>(ids_shape.numel(), random);
  std::vector<T> expected = sums.values(), high = expected, low = expected;
  GuardedBuffer<T> highest(whole.numel()), lowest(whole.numel());
  std::copy(expected.begin(), expected.end(), highest.data());
  std::copy(expected.begin(), expected.end(), lowest.data());
  kernels::scatter_add(sums.data(), terms.data(), ids.data(), ids_shape, whole, axis);
  kernels::scatter_max(highest.data(), terms.data(), ids.data(), ids_shape, whole, axis);
  kernels::scatter_min(lowest.data(), terms.data(), ids.data(), ids_shape, whole, axis);
  bool gathered = y.guards_intact();
  const Strides steps = kernels::row_major(whole);
  std::int64_t i = 0;
  each_index(ids_shape, [&](auto index) {
    index[static_cast<std::size_t>(axis)] = ids[i];
    const std::int64_t at = dot(whole, index, steps);
    gathered = gathered && y[i] == x[at];
    const auto place = static_cast<std::size_t>(at);
    expected[place] = static_cast<T>(expected[place] + terms[i]);
    high[place] = std::max(high[place], terms[i]);
    low[place] = std::min(low[place], terms[i++]);
  });
  CHECK(gathered);
  CHECK(sums.values() == expected);
  CHECK(highest.values() == high);
  CHECK(lowest.values() == low);
  CHECK(sums.guards_intact());
}

template <class T>
void check_gathers() {
  for (const std::int64_t outer : {1, 3})
    for (const std::int64_t inner : {1, 3, 7, 15, 16, 17, 33, 257})
      for (const std::int64_t count : {0, 1, 3, 33})
        for (const std::int64_t skip : {-1, 1}) check_row_moves<T>(outer, 5, inner, count, skip);
  check_row_moves<T>(2, 300, 257, 400, 7);  // shared among threads
  check_row_moves<T>(1, 1000, 1, 40000, -1);
  for (int axis = 0; axis < 3; ++axis) {
    check_element_moves<T>({3, 7, 5}, {3, 7, 5}, axis);
    check_element_moves<T>({2, 3, 1}, {4, 5, 6}, axis);
    check_element_moves<T>({1, 4, 3}, {3, 5, 3}, axis);
    check_element_moves<T>({33, 40, 33}, {33, 41, 35}, axis);
  }
  check_element_moves<T>({257}, {7}, 0);
  for (const int axis : {0, 1}) check_element_moves<T>({3, 2500}, {4, 2600}, axis);  // rows of several pieces
  check_element_moves<T>({0, 3}, {2, 3}, 0);
  check_element_moves<T>({2, 3, 2, 3}, {3, 3, 4, 5}, 2);
}

// Bits: the numbers in words W. sx and sy: steps from one number to the next, 0 or 1.
template <class W, class Bits>
void check_choice(std::int64_t n, int sx, int sy) {
  INFO(n << " of " << sizeof(W) << " bytes, steps " << sx << ", " << sy);
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  GuardedBuffer<Bits> x(sx ? n : 1, 1), y(sy ? n : 1, 3), z(n, 5);
  for (GuardedBuffer<Bits>* room : {&x, &y})
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(room->values().size()); ++i)
      (*room)[i] = static_cast<Bits>(random());
  GuardedBuffer<bool> c(n);
  for (std::int64_t i = 0; i < n; ++i) c[i] = random() % 2;
  const auto words = [](auto& room) { return reinterpret_cast<W*>(room.data()); };
  FIT_KERNELS(kernels::copy_table, W).choose(words(z), c.data(), words(x), words(y), n, sx, sy);
  CHECK(z.guards_intact());
  for (std::int64_t i = 0; i < n; ++i)
    if (z[i] != (c[i] ? x[sx * i] : y[sy * i])) FAIL_CHECK("element " << i);
}

template <class W, class Bits>
void check_choices() {
  for (const std::int64_t n : {1, 2, 7, 15, 16, 31, 33, 64, 257})
    for (const int sx : {0, 1})
      for (const int sy : {0, 1}) check_choice<W, Bits>(n, sx, sy);
}

}  // namespace

TEST_CASE("choices between two arrays are those of plain loops", "[kernels]") {
  each_isa([] {
    check_choices<kernels::Byte, std::uint8_t>();
    check_choices<kernels::Word2, std::uint16_t>();
    check_choices<kernels::Word4, std::uint32_t>();
    check_choices<kernels::Word8, std::uint64_t>();
  });
}

TEST_CASE("copies between any two layouts are those of plain loops", "[kernels]") {
  each_isa([] {
    check_copies<kernels::Byte>();
    check_copies<std::uint32_t>();
    check_copies<std::uint64_t>();
  });
  const Strides s = kernels::row_major({3, 1, 4, 5});
  CHECK((s[0] == 20 && s[1] == 20 && s[2] == 5 && s[3] == 1));
}

TEST_CASE("bytes are copied and cleared, and no others", "[kernels]") {
  for (const std::int64_t n : {0, 1, 3, 7, 33, 257, 1 << 17, 1000003}) {
    INFO(n << " bytes");
    GuardedBuffer<unsigned char> x = counted<unsigned char>(n), y(n, 3);
    kernels::copy(y.data(), x.data(), n);
    CHECK(y.values() == x.values());
    CHECK(y.guards_intact());
    kernels::zero(y.data(), n);
    CHECK(y.values() == std::vector<unsigned char>(static_cast<std::size_t>(n)));
    CHECK(y.guards_intact());
  }
}

TEST_CASE("gathered and scattered elements are those of plain loops, to the bit", "[kernels]") {
  each_isa([] {
    check_gathers<std::int64_t>();
    check_gathers<float>();
    check_gathers<double>();
  });
  std::mt19937_64 random(1);
  GuardedBuffer<std::int64_t> ids = ids_below(5, 33, random);
  GuardedBuffer<unsigned char> x = counted<unsigned char>(5 * 7), y(33 * 7, 3);
  kernels::gather_rows(y.data(), x.data(), ids.data(), 33, kernels::AxisView({5, 7}, 0), 1, 2);
  for (std::int64_t i = 0; i < 33 * 7; ++i) CHECK(y[i] == (ids[i / 7] == 2 ? 0 : x[ids[i / 7] * 7 + i % 7]));
}

}  // namespace fit::test::copy_kernels_test
