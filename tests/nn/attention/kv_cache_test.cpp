#include "fit/nn/attention/kv_cache.hpp"

#include <limits>
#include <type_traits>

#include "fit/attention/attention.hpp"
#include "fit/base/memory.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/layer/forward_hooks.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::kv_cache_test {
namespace {

using Catch::Matchers::Contains;

nn::GPTOptions small(nn::Positions positions = nn::Positions::learned) {
  return nn::GPTOptions().vocab_size(13).context_length(12).num_layers(3).num_heads(4).d_model(24).positions(positions);
}

// Large weights, so that positions matter; in double precision.
nn::GPT lively(const nn::GPTOptions& o) {
  manual_seed(5);
  nn::GPT gpt(o);
  gpt.to(float64);
  const NoGrad no_grad;
  for (Tensor p : gpt.parameters()) p.add_(randn(p.shape(), float64) * 0.3);
  return gpt;
}

Tensor ids_of(std::int64_t B, std::int64_t T) {
  Generator g(8);
  return randint(0, 13, {B, T}, g);
}

// The whole at once, and in pieces of these lengths.
void check_pieces(const nn::GPT& gpt, const std::vector<std::int64_t>& lengths) {
  const Tensor ids = ids_of(2, 12), whole = gpt(ids);
  nn::KVCache cache = gpt.make_cache(2);
  std::vector<Tensor> logits;
  for (const std::int64_t n : lengths) logits.push_back(gpt(slice(ids, 1, cache.length(), cache.length() + n), cache));
  CHECK(max_difference(cat(logits, 1), whole) < 1e-12);
}

}  // namespace

TEST_CASE("to make a cache is no call of a layer", "[cache]") {
  nn::GPT gpt = lively(small());
  int calls = 0;
  const auto hook = nn::register_forward_hook(gpt.wte, [&](const nn::Layer&, const Tensor&) { ++calls; });
  nn::KVCache cache = gpt.make_cache(1);
  CHECK(calls == 0);
  gpt(ids_of(1, 3), cache);
  CHECK(calls == 1);
}

TEST_CASE("with a cache, a GPT gives what it gives without", "[cache]") {
  for (const nn::Positions positions : {nn::Positions::none, nn::Positions::learned, nn::Positions::sinusoidal,
                                        nn::Positions::rotary, nn::Positions::alibi})
    for (const std::int64_t kv_heads : {4, 2, 1})
      for (const std::int64_t window : {0, 1, 3, 20}) {
        nn::GPTOptions o = small(positions);
        o.num_kv_heads(kv_heads).window(window).rotary_layout(kv_heads == 2 ? RotaryLayout::interleaved
                                                                            : RotaryLayout::half_split);
        INFO(name_of(positions) << ", " << kv_heads << " heads of keys, window " << window);
        const nn::GPT gpt = lively(o);
        check_pieces(gpt, {12});
        check_pieces(gpt, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
        check_pieces(gpt, {5, 4, 1, 1, 1});
        check_pieces(gpt, {1, 7, 0, 1, 3});
      }
}

TEST_CASE("with a cache, a GPT of each option gives what it gives without", "[cache]") {
  const auto check = [](const char* name, const nn::GPTOptions& o) {
    INFO(name);
    const nn::GPT gpt = lively(o);
    check_pieces(gpt, {12});
    check_pieces(gpt, {5, 4, 1, 1, 1});
  };
  const nn::GPTOptions o = small(nn::Positions::rotary);
  const auto table = nn::RotaryTableOptions();
  check("RMSNorm", nn::GPTOptions(o).norm(nn::Norm::rms));
  check("norms after", nn::GPTOptions(o).norm_place(nn::NormPlace::after));
  check("norms before and after", nn::GPTOptions(o).norm_place(nn::NormPlace::both));
  check("qk_norm", nn::GPTOptions(o).qk_norm().num_kv_heads(2));
  check("part of a head", nn::GPTOptions(o).rotary(nn::RotaryTableOptions(table).features(2)));
  check("ntk", nn::GPTOptions(o).rotary(nn::RotaryTableOptions(table).scaling(nn::RotaryScaling::ntk).factor(2)));
  check("windows", nn::GPTOptions(o).windows({2, 0, 5}));
  check("gates", nn::GPTOptions(o).head_gates());
  check("value embeddings", nn::GPTOptions(o).value_embeddings().num_kv_heads(2));
  check("logit cap", nn::GPTOptions(o).logit_cap(2));
  check("attention logit cap", nn::GPTOptions(o).attention_logit_cap(0.5).num_kv_heads(2));
  check("head size", nn::GPTOptions(o).head_size(6));
}

TEST_CASE("with keys and values as tensors, a GPT gives what it gives without, and gradients", "[cache]") {
  manual_seed(3);
  const auto o = nn::GPTOptions().vocab_size(11).context_length(9).num_layers(2).num_heads(4).d_model(16);
  const Tensor ids = randint(0, 11, {2, 7});
  for (const nn::GPTOptions& options :
       {o, nn::GPTOptions(o).positions(nn::Positions::rotary).num_kv_heads(2).window(3),
        nn::GPTOptions(o).positions(nn::Positions::alibi), nn::GPTOptions(o).positions(nn::Positions::sinusoidal)}) {
    INFO(name_of(options.positions()));
    nn::GPT gpt(options);
    gpt.eval();
    std::vector<nn::KVCache::Layer> past(2);
    const Shape none{2, gpt.options().num_kv_heads(), 0, 4};
    for (nn::KVCache::Layer& layer : past) layer = {zeros(none), zeros(none)};
    std::vector<Tensor> parts;
    for (const auto& [begin, end] : {std::pair(0, 4), {4, 5}, {5, 7}})
      parts.push_back(gpt.forward(ids[{range(), range(begin, end)}], past));
    CHECK(past[1].values.shape() == none.with(2, 7));
    const Tensor all = cat(parts, 1), whole = gpt(ids);
    CHECK(max_difference(all, whole) < 1e-5);
    const std::vector<Tensor> weights{gpt.wte.weight};
    CHECK(max_difference(grad({sum(all * all)}, weights)[0], grad({sum(whole * whole)}, weights)[0]) < 1e-4);
    const std::vector<nn::KVCache::Layer> before = past;
    CHECK_THROWS_WITH(gpt.forward(ids, past), Contains("context_length, 9"));
    CHECK(past[0].keys.impl() == before[0].keys.impl());
    past[1].keys = zeros({2, 1, 7, 4});
    CHECK_THROWS_WITH(gpt.forward(ids, past), Contains("keys of past"));
    past.pop_back();
    CHECK_THROWS_WITH(gpt.forward(ids, past), Contains("past has 1 layers, the model 2"));
  }
}

TEST_CASE("positions matter in each of their kinds", "[cache]") {
  for (const nn::Positions positions :
       {nn::Positions::learned, nn::Positions::sinusoidal, nn::Positions::rotary, nn::Positions::alibi}) {
    INFO(name_of(positions));
    // Without positions the last token would see the same set of tokens before it.
    const nn::GPT gpt = lively(small(positions));
    const Tensor a = gpt(tensor({{1, 2, 5}})), b = gpt(tensor({{2, 1, 5}}));
    CHECK(max_difference(a[{0, 2}], b[{0, 2}]) > 1e-4);
  }
  nn::GPTOptions one = small(nn::Positions::none);
  one.num_layers(1);
  const nn::GPT gpt = lively(one);
  CHECK(max_difference(gpt(tensor({{1, 2, 5}}))[{0, 2}], gpt(tensor({{2, 1, 5}}))[{0, 2}]) < 1e-12);
}

TEST_CASE("rows of unequal length go side by side in a cache", "[cache]") {
  for (const nn::Positions positions : {nn::Positions::none, nn::Positions::learned, nn::Positions::sinusoidal,
                                        nn::Positions::rotary, nn::Positions::alibi}) {
    INFO(name_of(positions));
    nn::GPTOptions o = small(positions);
    o.window(3);
    const nn::GPT gpt = lively(o);
    nn::KVCache cache = gpt.make_cache(2);
    cache.set_padding({3, 0});
    const Tensor prompt = tensor({{12, 12, 12, 1, 2}, {3, 4, 5, 6, 7}});
    const Tensor first = gpt.forward_last(prompt, cache), second = gpt.forward_last(tensor({{8}, {9}}), cache);
    CHECK(max_difference(first[0], gpt(tensor({{1, 2}}))[{0, 1}]) < 1e-12);
    CHECK(max_difference(second[0], gpt(tensor({{1, 2, 8}}))[{0, 2}]) < 1e-12);
    CHECK(max_difference(second[1], gpt(tensor({{3, 4, 5, 6, 7, 9}}))[{0, 5}]) < 1e-12);
  }
}

TEST_CASE("a causal attention layer goes on with a cache", "[cache]") {
  manual_seed(6);
  nn::CausalSelfAttention layer(8, 2, 0.0);
  layer.to(float64);
  const Tensor x = randn({2, 5, 8}, float64),
               mask = tensor({{{false, true, true, true, true}}, {{true, true, true, true, true}}});
  nn::KVCache cache({{2, 4}}, 2, 5, float64);
  const auto next = [&](std::int64_t begin, std::int64_t end) {
    nn::AttentionContext context(slice(mask, 2, 0, end));
    context.cache = cache.past(0);
    const Tensor y = layer(slice(x, 1, begin, end), context);
    cache.advance(end - begin);
    return y;
  };
  const Tensor first = next(0, 3), rest = next(3, 5);
  CHECK_FALSE(rest.requires_grad());
  const nn::KVCache& read = cache;
  CHECK(read[0].keys.raw() == cache[0].keys.raw());
  CHECK_THROWS_WITH(read[1], Catch::Contains("there is no layer 1: there are 1"));
  CHECK(max_difference(cat({first, rest}, 1), layer(x, mask)) < 1e-13);
}

static_assert(!std::is_copy_constructible_v<nn::KVCache> && !std::is_copy_assignable_v<nn::KVCache>);
static_assert(!std::is_copy_constructible_v<nn::DecoderCache>);

TEST_CASE("a cache forgets, and its rows can be chosen anew", "[cache]") {
  const nn::GPT gpt = lively(small());
  nn::KVCache cache = gpt.make_cache(2);
  gpt(tensor({{1, 2, 3}, {4, 5, 6}}), cache);
  cache.truncate(2);
  cache.select({1, 1, 0});
  CHECK(cache.batch() == 3);
  const Tensor next = gpt.forward_last(tensor({{7}, {8}, {9}}), cache);
  CHECK(max_difference(next[0], gpt(tensor({{4, 5, 7}}))[{0, 2}]) < 1e-12);
  CHECK(max_difference(next[1], gpt(tensor({{4, 5, 8}}))[{0, 2}]) < 1e-12);
  CHECK(max_difference(next[2], gpt(tensor({{1, 2, 9}}))[{0, 2}]) < 1e-12);
}

TEST_CASE("one more token takes no memory but what was there", "[cache]") {
  const nn::GPT gpt(small(nn::Positions::rotary));
  nn::KVCache cache = gpt.make_cache(1);
  const Tensor token = tensor({{3}});
  for (int i = 0; i < 3; ++i) gpt.forward_last(token, cache);
  const auto before = memory_stats();
  for (int i = 0; i < 9; ++i) gpt.forward_last(token, cache);
  CHECK(memory_stats().system_allocs == before.system_allocs);
  CHECK_FALSE(gpt.forward_last(token, cache = gpt.make_cache(1)).requires_grad());
}

TEST_CASE("what is not finite shows in a cache, but not from under a mask", "[cache]") {
  Generator g(6);
  Tensor keys = Tensor::empty({1, 1, 4, 2}), values = Tensor::empty({1, 1, 4, 2});
  Tensor qkv = randn({1, 3, 6}, float32, g);
  qkv[{0, 0, range(2, 6)}] = std::numeric_limits<float>::quiet_NaN();
  const auto o = AttentionOptions().causal().mask(tensor({{false, true, true}}));
  const Tensor y = cached_self_attention(qkv, keys, values, 0, 1, o);
  CHECK(test::values(y) == test::values(packed_self_attention(qkv, 1, o)));
}

TEST_CASE("attention with a cache gives weights, too, of all keys, and the same output", "[cache]") {
  Generator g(8);
  for (const std::int64_t window : {0, 3}) {
    const Tensor qkv = randn({2, 7, 24}, float64, g);
    const auto o = AttentionOptions().causal().window(window);
    const auto [q, k, v] = packed_heads(qkv, 4, 1);
    const AttentionResult all = attend(q, k, v, AttentionOptions(o).weights());
    Tensor keys = zeros({2, 1, 9, 4}, float64), values = zeros({2, 1, 9, 4}, float64);
    for (std::int64_t length = 0; length < 7; length += length == 0 ? 4 : 1) {
      const std::int64_t S = length == 0 ? 4 : 1;
      Tensor other_keys = keys.clone(), other_values = values.clone();
      const AttentionCache cache{keys, values, length};
      const Tensor next = slice(qkv, 1, length, length + S);
      const auto [nq, nk, nv] = packed_heads(next, 4, 1);
      const AttentionResult r = attend(nq, nk, nv, AttentionOptions(o).weights().cache(cache));
      CHECK(r.weights.shape() == Shape{2, 4, S, length + S});
      CHECK(max_difference(r.weights, slice(slice(all.weights, 2, length, length + S), 3, 0, length + S)) < 1e-14);
      CHECK(max_difference(r.output, slice(all.output, 1, length, length + S)) < 1e-14);
      CHECK(same_bits(cached_self_attention(next, other_keys, other_values, length, 4, o), r.output));
    }
  }
}

TEST_CASE("a cache's errors", "[cache]") {
  using Catch::Contains;
  const nn::GPT gpt = lively(small());
  nn::KVCache cache = gpt.make_cache(1);
  gpt(zeros({1, 11}, int64), cache);
  CHECK_THROWS_WITH(gpt(zeros({1, 2}, int64), cache),
                    Contains("behind 11 positions") && Contains("context_length, 12"));
  CHECK(cache.length() == 11);
  CHECK_THROWS_WITH(gpt(zeros({2, 1}, int64), cache), Contains("the cache has batch 1"));
  nn::KVCache shallow({{4, 6}}, 1, 12, float64);
  CHECK_THROWS_WITH(gpt(zeros({1, 2}, int64), shallow), Contains("the cache has 1 layers, the model 3"));
  CHECK(shallow.length() == 0);
  nn::KVCache less = gpt.make_cache(1, 3);
  CHECK_THROWS_WITH(gpt(zeros({1, 4}, int64), less), Contains("there is room for 3"));
  CHECK_THROWS_WITH(gpt.forward_last(zeros({1, 0}, int64), less), Contains("T > 0"));
  CHECK_THROWS_WITH(cache.truncate(12), Contains("length is 12: it must be in 0 … 11"));
  CHECK_THROWS_WITH(cache.select({1}), Contains("row 1 of 1"));
  CHECK_THROWS_WITH(cache.set_padding({0}), Contains("the padding comes before the first"));
  CHECK_THROWS_WITH(less.set_padding({0, 1}), Contains("one for each of the 1 rows"));
  CHECK_THROWS_WITH(less.set_padding({4}), Contains("it must be in 0 … 3"));
  CHECK_THROWS_WITH(nn::KVCache({{1, 1}}, -1, 1), Contains("none may be negative"));
  CHECK_THROWS_WITH(nn::KVCache({{1, 1}}, 1, 1, int64), Contains("dtype is int64"));
  CHECK_THROWS_WITH(less.advance(INT64_MAX), Contains("there is room for 3"));
  CHECK_THROWS_WITH(cache.advance(INT64_MAX), Contains("it holds 11 positions, and 9223372036854775807 more"));
  CHECK_THROWS_WITH(cache.positions(INT64_MAX), Contains("there is room for 12"));
  CHECK_THROWS_WITH(cache.mask(13), Contains("keys is 13: it must be in 0 … 12"));
  CHECK_THROWS_WITH(cache[3], Contains("there is no layer 3: there are 3"));
  nn::KVCache narrow({{4, 5}, {4, 5}, {4, 5}}, 1, 12, float64), single({{4, 6}, {4, 6}, {4, 6}}, 1, 12);
  CHECK_THROWS_WITH(gpt(zeros({1, 1}, int64), narrow), Contains("the cache is for 4 heads of 5 features, values of 5, "
                                                                "float64, the model has 4 of 6, values of 6, float64"));
  CHECK_THROWS_WITH(gpt(zeros({1, 1}, int64), single), Contains("4 heads of 6 features, values of 6, float32"));
  CHECK_THROWS_WITH(gpt.forward_last(Tensor(), less), Contains("[GPT] ids is undefined"));
  Tensor keys = zeros({1, 2, 4, 3}), values = zeros({1, 2, 4, 3});
  CHECK_THROWS_WITH(cached_self_attention(zeros({1, 1, 12}), keys, values, 0, 2),
                    Contains("qkv must be [B, S, (num_heads + 2 Hkv) D]"));
  CHECK_THROWS_WITH(cached_self_attention(zeros({1, 2, 18}), keys, values, 3, 2),
                    Contains("length is 3, S is 2: length + S must be at most Tmax, 4"));
  CHECK_THROWS_WITH(cached_self_attention(zeros({1, 2, 18}, float64), keys, values, 0, 2),
                    Contains("both must have one type"));
}

TEST_CASE("attention with a cache refuses before it writes", "[cache]") {
  using Catch::Contains;
  Tensor keys = zeros({1, 2, 4, 3}), values = zeros({1, 2, 4, 3}), qkv = ones({1, 1, 18});
  const auto refused = [&](Tensor& k, Tensor& v, std::int64_t length, const AttentionOptions& o, const char* rule) {
    INFO(rule);
    const auto version = k.version();
    CHECK_THROWS_WITH(cached_self_attention(qkv, k, v, length, 2, o),
                      Contains("[cached_self_attention]") && Contains(rule));
    const Tensor part = ones({1, 1, 6});
    CHECK_THROWS_WITH(cached_attention(part, part, part, k, v, length, 2, o),
                      Contains("[cached_attention]") && Contains(rule));
    CHECK(k.version() == version);
    CHECK(sum(abs(keys) + abs(values)).item() == 0);
  };
  refused(keys, values, -1, {}, "length is -1: it must not be negative");
  refused(keys, values, 4, {}, "length is 4, S is 1: length + S must be at most Tmax, 4");
  refused(keys, values, std::numeric_limits<std::int64_t>::max(), {}, "must be at most Tmax, 4");
  refused(keys, values, 0, AttentionOptions().dropout(2), "dropout is 2");
  refused(keys, values, 0, AttentionOptions().window(-1), "window is -1");
  refused(keys, values, 0, AttentionOptions().temperature(0), "temperature is 0");
  refused(keys, values, 0, AttentionOptions().scale(1e300), "finite in float32");
  refused(keys, values, 0, AttentionOptions().mask(ones({3, 3})), "the mask is [3, 3]");
  refused(keys, values, 0, AttentionOptions().mask(full({1, 1}, 2)), "it must hold 1");
  refused(keys, values, 0, AttentionOptions().alibi(ones({3})), "alibi has shape [3]");
  refused(keys, keys, 0, {}, "keys and values share their memory");
  Tensor four = zeros({1, 2, 1, 3}), three = reshape(four, {1, 1, 6});
  CHECK_THROWS_WITH(cached_attention(three, three, three, four, values, 0, 2),
                    Contains("they must be [B, Hkv, Tmax, D] and [B, Hkv, Tmax, Dv]"));
  Tensor other = zeros({1, 2, 1, 3});
  CHECK_THROWS_WITH(cached_attention(three, three, three, four, other, 0, 2), Contains("the input and keys share"));
  CHECK_THROWS_WITH(cached_attention(ones({1, 1, 6}), ones({1, 1, 3}), ones({1, 1, 6}), keys, values, 0, 2),
                    Contains("k is [1, 1, 3]"));
  CHECK_THROWS_WITH(cached_attention(ones({6}), ones({6}), ones({6}), keys, values, 0, 2), Contains("q is [6]"));
}

}  // namespace fit::test::kv_cache_test
