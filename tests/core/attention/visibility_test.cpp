#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "attention/plan.hpp"
#include "fit/tensor/tensor.hpp"
#include "support/catch.hpp"

// Which query attends to which key, against the rule pair by pair.
namespace fit::test::visibility_test {
namespace {

using kernels::Interval;
using kernels::TileState;
using kernels::Visibility;

// j <= i + Sk - Sq if causal, and |i + Sk - Sq - j| < window
bool in_range(const Visibility& v, std::int64_t i, std::int64_t j) {
  const std::int64_t ahead = j - (i + v.Sk - v.Sq);
  return (!v.causal || ahead <= 0) && (v.window == 0 || std::abs(ahead) < v.window);
}

template <class F>
void each_range(const F& f) {
  for (const std::int64_t Sq : {1, 2, 5, 9})
    for (const std::int64_t Sk : {1, 4, 5, 12})
      for (const bool causal : {false, true})
        for (const std::int64_t window : {0, 1, 2, 5, 30}) {
          INFO("Sq " << Sq << ", Sk " << Sk << ", causal " << causal << ", window " << window);
          Visibility v;
          v.Sq = Sq, v.Sk = Sk, v.causal = causal, v.window = window;
          f(v);
        }
}

// Calls f(v with a mask, the mask of a pair) for a mask of B = H = 2 that is broadcast along some axes, and is all true
// or all false in places.
template <class F>
void each_mask(const Visibility& v, const F& f) {
  std::mt19937 random(5);
  for (int axes = 0; axes < 8; ++axes)
    for (const unsigned dense : {0u, 50u, 90u, 100u}) {
      const std::int64_t B = axes & 1 ? 2 : 1, H = axes & 2 ? 2 : 1, S = axes & 4 ? v.Sq : 1;
      Tensor pairs = Tensor::empty({B, H, S, v.Sk}, boolean);
      bool* const data = pairs.fresh<bool>();
      for (std::int64_t i = 0; i < pairs.numel(); ++i) data[i] = random() % 100 < dense;
      const detail::TilePlan plan = detail::plan_tiles("test", v, 2, 2, pairs);
      Visibility masked = v;
      plan.apply(masked);
      INFO("mask [" << B << ", " << H << ", " << S << ", Sk], " << dense << " % true");
      const auto mask = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        return data[(((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * S + (S > 1 ? i : 0)) * v.Sk + j];
      };
      f(masked, mask);
    }
}

}  // namespace

TEST_CASE("a query attends to the keys that causality, the window and the mask leave", "[attention]") {
  each_range([](const Visibility& v) {
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < v.Sq; ++i) {
      const Interval keys = v.range(i);
      for (std::int64_t j = 0; j < v.Sk; ++j) {
        pairs += in_range(v, i, j);
        CHECK((j >= keys.first && j < keys.end) == in_range(v, i, j));
        CHECK(v.attends(0, 0, i, j) == in_range(v, i, j));
      }
      CHECK((keys.first >= 0 && keys.first <= keys.end && keys.end <= v.Sk));
      CHECK(v.place(i) == i + v.Sk - v.Sq);
    }
    CHECK(v.pairs() == pairs);
    CHECK(v.restricts() == (v.causal || v.window > 0));
    each_mask(v, [](const Visibility& m, const auto& mask) {
      CHECK(m.restricts());
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t h = 0; h < 2; ++h)
          for (std::int64_t i = 0; i < m.Sq; ++i)
            for (std::int64_t j = 0; j < m.Sk; ++j)
              if (m.attends(b, h, i, j) != (in_range(m, i, j) && mask(b, h, i, j))) FAIL("pair " << i << ", " << j);
    });
  });
}

TEST_CASE("the keys of some queries, and the queries of some keys, hold every pair that attends", "[attention]") {
  each_range([](const Visibility& v) {
    const auto any = [&](Interval queries, Interval keys) {
      for (std::int64_t i = queries.first; i < queries.end; ++i)
        for (std::int64_t j = keys.first; j < keys.end; ++j)
          if (in_range(v, i, j)) return true;
      return false;
    };
    for (std::int64_t first = 0; first < v.Sq; ++first)
      for (std::int64_t end = first + 1; end <= v.Sq; ++end) {
        const Interval keys = v.keys_of({first, end});
        CHECK_FALSE(any({first, end}, {0, keys.first}));
        CHECK_FALSE(any({first, end}, {keys.end, v.Sk}));
        if (keys.first < keys.end) CHECK(any({first, end}, {keys.first, keys.first + 1}));
        if (keys.first < keys.end) CHECK(any({first, end}, {keys.end - 1, keys.end}));
      }
    for (std::int64_t first = 0; first < v.Sk; ++first)
      for (std::int64_t end = first + 1; end <= v.Sk; ++end) {
        const Interval queries = v.queries_of({first, end});
        CHECK((queries.first >= 0 && queries.end <= v.Sq));
        CHECK_FALSE(any({0, queries.first}, {first, end}));
        CHECK_FALSE(any({queries.end, v.Sq}, {first, end}));
        if (queries.first < queries.end) CHECK(any({queries.first, queries.first + 1}, {first, end}));
        if (queries.first < queries.end) CHECK(any({queries.end - 1, queries.end}, {first, end}));
      }
  });
}

TEST_CASE("the state of a tile says whether none, some or all of its pairs attend", "[attention]") {
  const auto check = [](const Visibility& v, const auto& mask) {
    for (std::int64_t i0 = 0; i0 < v.Sq; i0 += 2)
      for (std::int64_t j0 = 0; j0 < v.Sk; j0 += 3)
        for (std::int64_t size = 1; size <= 4; ++size)
          for (std::int64_t head = 0; head < 4; ++head) {
            const std::int64_t b = head / 2, h = head % 2;
            const Interval queries{i0, std::min(v.Sq, i0 + size)}, keys{j0, std::min(v.Sk, j0 + size)};
            std::int64_t count = 0, all = 0;
            for (std::int64_t i = queries.first; i < queries.end; ++i)
              for (std::int64_t j = keys.first; j < keys.end; ++j, ++all)
                count += in_range(v, i, j) && mask(b, h, i, j);
            const TileState expected = count == 0     ? TileState::empty
                                       : count == all ? TileState::full
                                                      : TileState::partial;
            INFO("tile " << i0 << ", " << j0 << " of size " << size << ", head " << b << ", " << h);
            if (v.state(b, h, queries, keys) != expected) FAIL("it has " << count << " of " << all << " pairs");
          }
    CHECK(v.state(0, 0, {0, 0}, {0, v.Sk}) == TileState::empty);
    CHECK(v.state(0, 0, {0, v.Sq}, {1, 1}) == TileState::empty);
  };
  each_range([&](const Visibility& v) {
    check(v, [](auto...) { return true; });
    each_mask(v, check);
  });
}

TEST_CASE("a table of tiles has the mask's pairs, knows empty and full tiles, and keeps equal tiles once",
          "[attention]") {
  const std::int64_t T = 300, blocks = 5;
  Tensor pairs = Tensor::empty({T, T}, boolean);
  bool* const mask = pairs.fresh<bool>();
  const auto fill = [&](const auto& attends) {
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j < T; ++j) mask[i * T + j] = attends(i, j);
  };
  Visibility v;
  v.Sq = v.Sk = T;
  const auto planned = [&](const auto& check) {
    const detail::TilePlan plan = detail::plan_tiles("test", v, 3, 2, pairs);
    Visibility p = v;
    plan.apply(p);
    std::int64_t most = -1;
    for (std::int64_t i = 0; i < T; ++i)
      for (std::int64_t j = 0; j < T; ++j) {
        const bool attends = mask[i * T + j] && in_range(v, i, j);
        if (p.attends(2, 1, i, j) != attends || (p.row(2, 1, i, j) >> j % 64 & 1) != attends) FAIL(i << ", " << j);
      }
    for (std::int64_t i = 0; i < blocks; ++i)
      for (std::int64_t j = 0; j < blocks; ++j) {
        most = std::max(most, p.tile_of(2, 1, 64 * i, 64 * j));
        check(p, i, j);
      }
    return most + 1;  // kept tiles
  };
  fill([](std::int64_t i, std::int64_t j) { return i / 128 == j / 128; });
  CHECK(planned([](const Visibility& p, std::int64_t i, std::int64_t j) {
          CHECK(p.tile_of(0, 0, 64 * i, 64 * j) == (i / 2 == j / 2 ? Visibility::full_tile : Visibility::empty_tile));
          CHECK(p.skips(0, 0, 64 * i, 64 * j) == (i / 2 != j / 2));
        }) == 0);
  fill([](std::int64_t i, std::int64_t j) { return j % 64 == 3 || i == j; });
  CHECK(planned([](auto...) {}) <= 4);  // on and off the diagonal, and at the two edges
  v.causal = true, v.window = 70;
  fill([](auto...) { return true; });
  CHECK(planned([](const Visibility& p, std::int64_t i, std::int64_t j) {
          CHECK(p.skips(0, 0, 64 * i, 64 * j) == (j > i || j < i - 2));
        }) == 0);
}

TEST_CASE("a window as large as a number can be is no window", "[attention]") {
  Visibility v;
  v.Sq = 7, v.Sk = 3, v.causal = true, v.window = std::numeric_limits<std::int64_t>::max();
  CHECK(v.pairs() == 1 + 2 + 3);
  CHECK((v.queries_of({0, 3}).first == 4 && v.queries_of({0, 3}).end == 7));
}

}  // namespace fit::test::visibility_test
