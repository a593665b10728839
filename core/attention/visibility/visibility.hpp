#pragma once
#include <cstdint>

// Which query attends to which key. Nothing else states this rule.
namespace fit::kernels {

/// Matrices [B, H, S, D] in memory: element (b, h, s, d) is data[b batch + h head + s row + d]. So they may lie as
/// [B, H, S, D], as [B, S, H, D] or as a part of [B, S, F]. A stride of 0 repeats.
template <class T>
struct HeadView {
  T* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  T* at(std::int64_t b, std::int64_t h, std::int64_t s) const { return data + b * batch + h * head + s * row; }
};

/// Keys, queries or elements of the batch first … end - 1.
struct Interval {
  std::int64_t first = 0, end = 0;
};

/// The part of a tile (some queries, some keys) whose pairs attend.
enum class TileState { empty, partial, full };

/// Queries and keys of a tile.
constexpr std::int64_t tile_size = 64;

/// Query i attends to key j if j lies in range(i) and the bit of the pair is set. Query i stands at key place(i): the
/// last query at the last key.
struct Visibility {
  std::int64_t Sq = 0, Sk = 0;
  bool causal = false;      // no key after place(i)
  std::int64_t window = 0;  // no key at a distance of `window` or more from place(i); 0: no window
  // What masks and expressions allow (plan.hpp makes it), [B, H, blocks of queries, blocks of keys]: empty_tile,
  // full_tile, or the number of a tile in `bits`. Data null: neither restricts the pairs.
  HeadView<const std::int64_t> tiles = {};
  const std::uint64_t* bits = nullptr;  // [tiles, queries of a tile]: bit j says whether the query attends to key j

  static constexpr std::int64_t empty_tile = -1, full_tile = -2;

  // Kernels of all instruction sets inline these functions (kernels/simd/isa.hpp).
  [[gnu::always_inline]] std::int64_t place(std::int64_t i) const { return i + Sk - Sq; }
  /// The numbers key - place(i) of the pairs that causality and the window allow.
  Interval distances() const {
    return {window > 0 && window < Sk ? 1 - window : 1 - Sk, causal ? 1 : window > 0 && window < Sq ? window : Sq};
  }
  /// The keys that causality and the window allow for query i. Both bounds grow with i.
  [[gnu::always_inline]] Interval range(std::int64_t i) const {
    const std::int64_t next = place(i) + 1;
    const std::int64_t end = causal ? next : window > 0 && window <= Sk - next ? next + window - 1 : Sk;
    return {window > 0 && next > window ? next - window : 0, inside(end, Sk)};
  }
  /// The keys that causality and the window allow for any query of an interval that is not empty.
  [[gnu::always_inline]] Interval keys_of(Interval queries) const {
    return {range(queries.first).first, range(queries.end - 1).end};
  }
  /// The queries for which causality and the window allow any key of an interval that is not empty.
  [[gnu::always_inline]] Interval queries_of(Interval keys) const {
    // The queries that stand at the first and the last key.
    const std::int64_t first = keys.first - place(0), last = keys.end - 1 - place(0);
    return {causal                          ? inside(first, Sq)
            : window > 0 && window <= first ? inside(first - window + 1, Sq)
                                            : 0,
            window > 0 && window < Sq - last ? inside(last + window, Sq) : Sq};
  }
  /// The tile of a pair, if there are tiles.
  [[gnu::always_inline]] std::int64_t tile_of(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return tiles.at(b, h, i / tile_size)[j / tile_size];
  }
  /// Whether no pair of the tile of a pair attends, by its number alone.
  [[gnu::always_inline]] bool skips(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return tiles.data && tile_of(b, h, i, j) == empty_tile;
  }
  /// The keys of the tile of key j to which query i attends, as bits.
  [[gnu::always_inline]] std::uint64_t row(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const Interval keys = range(i);
    const std::int64_t first = j / tile_size * tile_size;
    const std::uint64_t left = bits_below(keys.end - first) & ~bits_below(keys.first - first);
    if (!tiles.data) return left;
    const std::int64_t t = tile_of(b, h, i, j);
    return t == full_tile ? left : t == empty_tile ? 0 : left & bits[t * tile_size + i % tile_size];
  }
  [[gnu::always_inline]] bool attends(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return row(b, h, i, j) >> (j % tile_size) & 1;
  }

  /// Whether some pair may not attend.
  bool restricts() const { return causal || window > 0 || tiles.data; }
  /// How many pairs causality and the window allow, for one head.
  std::int64_t pairs() const;
  /// The part of some queries and keys that attends.
  TileState state(std::int64_t b, std::int64_t h, Interval queries, Interval keys) const;

  /// The lowest n bits; none for n < 0, all for n > 63.
  [[gnu::always_inline]] static std::uint64_t bits_below(std::int64_t n) {
    return n <= 0 ? 0 : n >= tile_size ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
  }

 private:
  [[gnu::always_inline]] static std::int64_t inside(std::int64_t n, std::int64_t size) {
    return n < 0 ? 0 : n > size ? size : n;
  }
};

}  // namespace fit::kernels
