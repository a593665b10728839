#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/nn/attention/kv_cache.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Positions and masks of one's own with a cache, and values of another width than keys.
namespace fit::test::token_tree_test {
namespace {

using Places = std::vector<std::int64_t>;

// Large weights, so that positions matter; in double precision.
nn::GPT lively(nn::Positions positions, std::int64_t window = 0) {
  manual_seed(5);
  nn::GPT gpt(nn::GPTOptions()
                  .vocab_size(13)
                  .context_length(12)
                  .num_layers(2)
                  .num_heads(4)
                  .num_kv_heads(2)
                  .d_model(24)
                  .positions(positions)
                  .window(window));
  gpt.to(float64);
  const NoGrad no_grad;
  for (Tensor p : gpt.parameters()) p.add_(randn(p.shape(), float64) * 0.3);
  return gpt;
}

Tensor drawn_ids(std::int64_t B, std::int64_t T, std::uint64_t seed) {
  Generator g(seed);
  return randint(0, 13, {B, T}, g);
}

constexpr auto without_windows = {nn::Positions::none, nn::Positions::learned, nn::Positions::sinusoidal,
                                  nn::Positions::rotary};

const Places parents{-1, 0, 0, 1, -1, 4, 2, 3};

// The tokens from the root of the tree to token i.
Places branch(std::int64_t i) {
  Places path;
  for (; i >= 0; i = parents[static_cast<std::size_t>(i)]) path.insert(path.begin(), i);
  return path;
}

// Positions and mask of a tree of proposed tokens behind `length` positions: as in docs/recipes/model_recipes.md.
struct Tree {
  Tree(const Places& parents, std::int64_t length) {
    const auto T = static_cast<std::int64_t>(parents.size());
    Tensor branches = eye(T);
    for (std::int64_t i = 0; i < T; ++i)
      if (const std::int64_t parent = parents[static_cast<std::size_t>(i)]; parent >= 0)
        branches[i] += branches[parent];
    mask = cat({ones({T, length}), branches}, 1);
    positions = sum(branches, -1).to(int64) + (length - 1);
  }
  Tensor positions, mask;
};

Tensor columns(const Tensor& ids, const Places& places) {
  return index_select(ids, 1, tensor(places, {static_cast<std::int64_t>(places.size())}));
}

}  // namespace

TEST_CASE("a tree of tokens in one call gives what each branch gives alone", "[cache]") {
  const Tensor prompt = drawn_ids(2, 4, 1), proposed = drawn_ids(2, 8, 2), next = drawn_ids(2, 1, 3);
  for (const nn::Positions positions : without_windows) {
    INFO(name_of(positions));
    const nn::GPT gpt = lively(positions);
    nn::KVCache cache = gpt.make_cache(2, 13);
    const Tensor first = gpt(prompt, cache);
    const Tree tree(parents, 4);
    const Tensor logits = gpt(proposed, cache, tree.positions, tree.mask);
    for (std::int64_t i = 0; i < 8; ++i) {
      INFO("token " << i);
      const Tensor alone = gpt(cat({prompt, columns(proposed, branch(i))}, 1));
      CHECK(max_difference(slice(logits, 1, i, i + 1), slice(alone, 1, alone.size(1) - 1, alone.size(1))) < 1e-12);
    }
    cache.keep(4, {0, 2, 6});
    CHECK(cache.length() == 7);
    const Tensor whole = gpt(cat({prompt, columns(proposed, {0, 2, 6}), next}, 1));
    CHECK(max_difference(gpt(next, cache), slice(whole, 1, 7, 8)) < 1e-12);
    CHECK(max_difference(first, slice(whole, 1, 0, 4)) < 1e-12);
  }
}

TEST_CASE("a tree may follow rows of unequal length, and be wider than the context", "[cache]") {
  const Tensor prompt = drawn_ids(2, 5, 1), proposed = drawn_ids(2, 12, 2);
  const Places wide{-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  for (const nn::Positions positions : without_windows) {
    INFO(name_of(positions));
    const nn::GPT gpt = lively(positions);
    nn::KVCache cache = gpt.make_cache(2, 17);
    cache.set_padding({3, 0});
    gpt(prompt, cache);
    const Tree tree(wide, 5);
    const Tensor each = tree.positions - tensor({{3}, {0}});
    const Tensor logits = gpt(proposed, cache, each, tree.mask);
    for (std::int64_t row = 0; row < 2; ++row)
      for (std::int64_t i = 1; i < 12; ++i) {
        const auto of_row = [&](const Tensor& x) { return slice(x, 0, row, row + 1); };
        const Tensor known = slice(of_row(prompt), 1, row == 0 ? 3 : 0, 5);
        const Tensor alone = gpt(cat({known, columns(of_row(proposed), {0, i})}, 1));
        CHECK(max_difference(logits[{row, i}], alone[{0, -1}]) < 1e-12);
      }
  }
}

TEST_CASE("a mask of one's own combines with causality and padding", "[cache]") {
  const nn::GPT gpt = lively(nn::Positions::none);
  const Tensor ids = drawn_ids(2, 6, 1), mask = gt(arange(6), 1);  // without the first two tokens
  nn::KVCache cache = gpt.make_cache(2), padded = gpt.make_cache(2);
  const Tensor all = reshape(mask, {1, 6});
  const Tensor logits = gpt(ids, cache, Tensor(), all);
  CHECK(max_difference(slice(logits, 1, 2, 6), gpt(slice(ids, 1, 2, 6))) < 1e-12);
  padded.set_padding({1, 2});
  CHECK(max_difference(slice(gpt(ids, padded, Tensor(), all), 1, 2, 6), slice(logits, 1, 2, 6)) < 1e-12);
  CHECK_THROWS_WITH(gpt(ids, padded, Tensor(), all), Catch::Contains("12"));
}

TEST_CASE("errors of trees, positions and kept places", "[cache]") {
  using Catch::Contains;
  const nn::GPT gpt = lively(nn::Positions::rotary);
  const Tensor ids = drawn_ids(2, 3, 1);
  nn::KVCache cache = gpt.make_cache(2);
  gpt(ids, cache);
  const auto refused = [&](const Tensor& positions, const Tensor& mask, const char* rule) {
    INFO(rule);
    CHECK_THROWS_WITH(gpt(ids, cache, positions, mask), Contains(rule));
    CHECK(cache.length() == 3);
  };
  refused(tensor({3, 4}), {}, "positions is [2], ids is [2, 3]: positions must be [T] or [B, T]");
  refused(tensor({3, 4, 12}), {}, "a position is 12: it must be in 0 … context_length - 1, 11");
  refused(tensor({-1, 4, 5}), {}, "a position is -1");
  refused(tensor({3., 4., 5.}), {}, "positions is float32: it must be int64");
  refused({}, ones({3, 5}), "the mask is [3, 5]");
  for (const bool window : {false, true}) {
    const nn::GPT other = lively(window ? nn::Positions::rotary : nn::Positions::alibi, window ? 3 : 0);
    nn::KVCache own = other.make_cache(2);
    CHECK_THROWS_WITH(other(ids, own, arange(3)), Contains(window ? "a window, which counts" : "ALiBi, which counts"));
    CHECK(max_difference(other(ids, own, Tensor(), ones({3, 3})), other(ids)) < 1e-12);
  }
  CHECK_THROWS_WITH(cache.keep(4, {}), Contains("length is 4: it must be in 0 … 3"));
  CHECK_THROWS_WITH(cache.keep(1, {1, 1}), Contains("place 1 is 1: places must increase, and be in 0 … 1"));
  CHECK_THROWS_WITH(cache.keep(1, {0, 2}), Contains("place 1 is 2"));
  CHECK_THROWS_WITH(cache.keep(1, {-1}), Contains("place 0 is -1"));
  CHECK(cache.length() == 3);
}

TEST_CASE("values may have another width than keys in a cache", "[cache]") {
  Generator g(4);
  const Tensor q = randn({2, 5, 12}, float64, g), k = randn({2, 5, 6}, float64, g), v = randn({2, 5, 10}, float64, g);
  const auto o = AttentionOptions().causal();
  const Tensor all = multi_head_attention(q, k, v, 4, o);  // 2 heads of keys [3] and values [5]
  nn::KVCache cache({{2, 3, 5}}, 2, 6, float64);
  CHECK(cache[0].keys.shape() == Shape{2, 2, 6, 3});
  CHECK(cache[0].values.shape() == Shape{2, 2, 6, 5});
  std::vector<Tensor> parts;
  for (const auto& [from, to] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 2}, {2, 3}, {3, 5}}) {
    const auto at = [from = from, to = to](const Tensor& x) { return slice(x, 1, from, to); };
    parts.push_back(cached_attention(at(q), at(k), at(v), cache[0].keys, cache[0].values, from, 4, o));
  }
  CHECK(max_difference(cat(parts, 1), all) < 1e-13);
  CHECK_THROWS_WITH(cached_attention(q, k, k, cache[0].keys, cache[0].values, 0, 4, o),
                    Catch::Contains("values [B, Hkv, Tmax, Dv] is [2, 2, 6, 5]"));
  CHECK_THROWS_WITH(nn::KVCache({{2, 3, -5}}, 2, 6), Catch::Contains("value_size -5"));
  CHECK_THROWS_WITH(cache.check_fits("X", {{2, 3}}, 2, float64), Catch::Contains("values of 5, float64, the model has "
                                                                                 "2 of 3, values of 3"));
}

TEST_CASE("documents packed in one row give what each gives alone", "[cache]") {
  const Tensor ids = drawn_ids(2, 14, 1), documents = tensor({0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  const Tensor places = tensor({0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7});
  const auto rows = [](const Tensor& x) { return broadcast_to(x, {2, 14}); };
  for (const nn::Positions positions : {nn::Positions::none, nn::Positions::learned, nn::Positions::sinusoidal,
                                        nn::Positions::rotary, nn::Positions::alibi})
    for (const std::int64_t window : {0, 3}) {
      INFO(name_of(positions) << " window " << window);
      const nn::GPT gpt = lively(positions, window);
      const Tensor packed = gpt(ids, rows(documents), rows(places));
      for (const auto& [from, to] : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 5}, {5, 6}, {6, 14}})
        CHECK(max_difference(slice(packed, 1, from, to), gpt(slice(ids, 1, from, to))) < 1e-12);
    }
  const nn::GPT gpt = lively(nn::Positions::rotary, 0);
  CHECK_THROWS_WITH(gpt(ids, zeros({2, 20}, int64), rows(places)),
                    Catch::Contains("documents is [2, 20], ids is [2, 14]: documents must be [T] or [B, T]"));
  CHECK_THROWS_WITH(gpt(ids, rows(documents).to(float32), rows(places)), Catch::Contains("documents is float32"));
  CHECK_THROWS_WITH(gpt(Tensor(), documents, places), Catch::Contains("ids is undefined"));
}

}  // namespace fit::test::token_tree_test
