
#include "attention/plan.hpp"
#include "fit/base/memory.hpp"
#include "fit/detail/function_ref.hpp"
#include "support/callable.hpp"
#include "support/oracles/attention_problem.hpp"
#include "support/variants.hpp"

// Masks as expressions: their makers, their tiles, and attention with them.
namespace fit::test::attention_masks_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

using Pair = Callable<bool(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j)>;

// The mask (B, H, Sq, Sk) by a loop. Queries are given by their place among the keys.
Tensor by_loop(std::int64_t B, std::int64_t H, std::int64_t Sq, std::int64_t Sk, const Pair& attends) {
  std::vector<bool> all;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < Sq; ++i)
        for (std::int64_t j = 0; j < Sk; ++j) all.push_back(attends(b, h, i + Sk - Sq, j));
  return tensor(all, {B, H, Sq, Sk});
}

void check_mask(const char* name, const AttentionMask& mask, const Pair& attends) {
  for (const std::int64_t Sq : {5, 9}) {
    INFO(name << ", " << Sq << " queries: " << mask.str());
    const Tensor all = broadcast_to(to_tensor(mask, 2, 3, Sq, 9), {2, 3, Sq, 9});
    CHECK(equal(all, by_loop(2, 3, Sq, 9, attends)));
  }
}

// Ids of documents of this size.
Tensor documents_of(std::int64_t size, std::int64_t T) { return floor(arange(T).to(float64) / double(size)).to(int64); }

struct Named {
  const char* name;
  AttentionMask mask;
};

// Masks for B = 2, H = 2 and T keys.
std::vector<Named> masks_of(std::int64_t T) {
  const Tensor ids = documents_of(90, T), each = stack({ids, documents_of(37, T)});
  const Tensor marked = arange(T) % 50 == 3;
  Generator g(5);
  const std::int64_t blocks = (T + 31) / 32;
  const Tensor pattern = rand({2, blocks, blocks}, float32, g) > 0.6;
  return {{"documents", document_mask(ids)},
          {"documents of each element", document_mask(each)},
          {"window", sliding_window_mask(70)},
          {"window and global tokens", sliding_window_mask(20) | global_tokens(3)},
          {"window and marked tokens", sliding_window_mask(20) | global_tokens(marked)},
          {"prefix", prefix_mask(100)},
          {"prefixes", prefix_mask(tensor({10, 77}))},
          {"blocks", block_mask(pattern[0], 32)},
          {"blocks of each head", block_mask(pattern, 32)},
          {"documents without their first key",
           document_mask(ids) & ~AttentionMask([](At at) { return at.key % 90 == 0; })},
          {"every third key", [](At at) { return at.key % 3 == 1; }},
          {"by batch and head", [](At at) { return (at.key + at.query + at.head + 2 * at.batch) % 5 != 0; }},
          {"nothing", [](At) { return false; }},
          {"all", [](At) { return true; }}};
}

}  // namespace

TEST_CASE("attention masks mean what their formulas say", "[attention]") {
  const Tensor ids = tensor({0, 0, 0, 1, 1, 2, 2, 2, 0}), each = stack({ids, tensor({4, 4, 4, 4, 1, 1, 1, 1, 1})});
  const auto id = [&](std::int64_t t) { return ids[t].item<std::int64_t>(); };
  check_mask("causal", causal_mask(), [](auto, auto, auto i, auto j) { return j <= i; });
  check_mask("window", sliding_window_mask(3), [](auto, auto, auto i, auto j) { return std::abs(i - j) < 3; });
  check_mask("global", global_tokens(2), [](auto, auto, auto i, auto j) { return i < 2 || j < 2; });
  check_mask("marked", global_tokens(ids == 1), [&](auto, auto, auto i, auto j) { return id(i) == 1 || id(j) == 1; });
  check_mask("prefix", prefix_mask(4), [](auto, auto, auto i, auto j) { return j < 4 || j <= i; });
  check_mask("prefixes", prefix_mask(tensor({4, 1})),
             [](auto b, auto, auto i, auto j) { return j < (b == 0 ? 4 : 1) || j <= i; });
  check_mask("documents", document_mask(ids), [&](auto, auto, auto i, auto j) { return id(i) == id(j); });
  check_mask("documents of each", document_mask(each), [&](auto b, auto, auto i, auto j) {
    return each[{b, i}].template item<std::int64_t>() == each[{b, j}].template item<std::int64_t>();
  });
  const auto parts = [](std::int64_t t) { return t < 2 ? 0 : t < 3 ? 1 : 2; };
  const Pair in_part = [&](auto, auto, auto i, auto j) { return parts(i) == parts(j); };
  check_mask("offsets", document_mask_from_offsets(tensor({0, 2, 3, 9})), in_part);
  check_mask("lengths", document_mask_from_lengths(tensor({2, 1, 6})), in_part);
  const Tensor blocks = tensor({{true, false, true}, {false, true, false}, {true, true, false}});
  const auto block = [&](std::int64_t q, std::int64_t k) { return blocks[{q, k}].item<bool>(); };
  const Tensor all = broadcast_to(to_tensor(block_mask(blocks, 4), 1, 1, 9, 9), {1, 1, 9, 9});
  CHECK(equal(all, by_loop(1, 1, 9, 9, [&](auto, auto, auto i, auto j) { return block(i / 4, j / 4); })));
  check_mask("and, or, not", (causal_mask() & ~global_tokens(2)) | AttentionMask([](At at) { return at.head == 1; }),
             [](auto, auto h, auto i, auto j) { return (j <= i && i >= 2 && j >= 2) || h == 1; });
  CHECK((AttentionMask() & causal_mask()).str() == causal_mask().str());
  CHECK_FALSE((AttentionMask() | causal_mask()).defined());
}

TEST_CASE("attention with an expression agrees with plain loops", "[attention]") {
  const AttentionSizes sizes[] = {{2, 2, 150, 150, 5, 5}, {2, 2, 70, 220, 3, 4}};
  unsigned seed = 0;
  for (const AttentionSizes& n : sizes)
    for (const auto& [name, mask] : masks_of(n.Sk)) {
      ++seed;
      INFO(name << ' ' << n << " seed " << seed);
      Problem p(n, seed % 2 ? float64 : float32, seed);
      const double tolerance = p.dtype == float64 ? 1e-11 : 1e-4;
      p.options.attends(mask).causal(seed % 3 == 0);
      if (seed % 4 == 0) p.options.window(100);
      if (seed % 5 == 0) p.options.mask(p.draw_mask({n.B, 1, n.Sk}));
      if (seed % 5 == 1) p.options.mask(p.draw_mask({n.Sq, n.Sk}));
      if (seed % 7 == 0) p.options.dropout(0.3);
      if (seed % 3 == 1) p.options.sink(p.draw({n.H}));
      if (seed % 6 == 0) p.options.bias(p.draw({1, n.H, 1, n.Sk}));
      check_problem_on_each_isa(p, tolerance);
      check_threads([&] { return run(p, Form::heads_last, false).dk; });
      check_threads([&] { return run(p, Form::heads_first, false).dq; });
      // A NaN shows where it is visible, and nowhere else.
      p.k[{0, 0, n.Sk - 1}] = nan;
      p.v[{0, 0, 0}] = nan;
      check_problem(p, tolerance);
    }
}

TEST_CASE("attention with an expression has the bits of attention with its mask", "[attention][bfloat16]") {
  each_bfloat16_isa([] {
    for (const auto& [name, mask] : masks_of(150))
      for (const bool causal : {false, true})
        for (const DType dtype : {float32, bfloat16}) {
          INFO(name << " causal " << causal << ' ' << dtype);
          Problem p({2, 2, 150, 150, 16, 16}, float32, 3);
          for (Tensor* const x : {&p.q, &p.k, &p.v, &p.d_output}) *x = x->to(dtype);
          p.options.causal(causal).attends(mask);
          const Results by_expression = run(p, Form::heads_first, false);
          p.options.attends({}).mask(to_tensor(mask, 2, 2, 150, 150));
          const Results by_mask = run(p, Form::heads_first, false);
          CHECK(same_bits(by_expression.output, by_mask.output));
          CHECK(same_bits(by_expression.dq, by_mask.dq));
          CHECK(same_bits(by_expression.dk, by_mask.dk));
          CHECK(same_bits(by_expression.dv, by_mask.dv));
        }
  });
}

TEST_CASE("packed documents give what each gives alone", "[attention]") {
  Generator g(3);
  const std::vector<std::int64_t> lengths{70, 1, 130, 64};
  const Tensor q = randn({1, 265, 32}, float64, g), k = randn({1, 265, 16}, float64, g),
               v = randn({1, 265, 16}, float64, g);
  for (const bool causal : {false, true}) {
    const auto o = AttentionOptions().causal(causal);
    const Tensor together =
        multi_head_attention(q, k, v, 4, AttentionOptions(o).attends(document_mask_from_lengths(tensor(lengths, {4}))));
    std::vector<Tensor> alone;
    std::int64_t from = 0;
    for (const std::int64_t n : lengths) {
      const auto part = [&](const Tensor& x) { return slice(x, 1, from, from + n); };
      alone.push_back(multi_head_attention(part(q), part(k), part(v), 4, o));
      from += n;
    }
    CHECK(max_difference(together, cat(alone, 1)) < 1e-13);
  }
}

TEST_CASE("an expression that leaves no pair gives zeros, and passes no gradient", "[attention]") {
  const Tensor q = randn({2, 2, 70, 8}).requires_grad_(), k = full({2, 2, 70, 8}, nan).requires_grad_();
  const auto o = AttentionOptions().attends([](At at) { return at.key > at.query; }).causal().lse();
  const AttentionResult r = attend(heads_first(q), heads_first(k), heads_first(k), o);
  CHECK(same_bits(r.output, zeros({2, 2, 70, 8})));
  CHECK(equal(r.lse, full({2, 2, 70}, -INFINITY)));
  for (const Tensor& d : grad({r.output}, {q, k}, {ones_like(r.output)})) CHECK(same_bits(d, zeros({2, 2, 70, 8})));
}

TEST_CASE("an expression is asked for whole tiles, and takes no memory of the scores' size", "[attention]") {
  const auto plan = [](const AttentionMask& mask, std::int64_t T, bool causal) {
    const detail::Expression e(mask.node(), 0);
    return detail::plan_tiles("test", kernels::Visibility{T, T, causal}, 1, 1, {}, e);
  };
  const auto count = [](const detail::TilePlan& p, std::int64_t state) {
    return sum((p.tiles == state).to(int64)).item<std::int64_t>();
  };
  using kernels::Visibility;
  const detail::TilePlan documents = plan(document_mask(documents_of(128, 512)), 512, false);
  CHECK(documents.bits.size(0) == 0);
  CHECK(count(documents, Visibility::full_tile) == 4 * 2 * 2);
  CHECK(count(documents, Visibility::empty_tile) == 64 - 16);
  const detail::TilePlan window = plan(sliding_window_mask(65), 512, true);
  CHECK(count(window, Visibility::full_tile) == 8);  // on the diagonal, where causality does the rest
  CHECK(count(window, Visibility::empty_tile) == 64 - 15);
  CHECK(window.bits.size(0) == 1);  // one pattern below it
  CHECK(plan([](At at) { return at.key < 100; }, 512, false).tiles.shape() == Shape{1, 1, 1, 8});

  const auto footprint = [](std::int64_t T) {
    Problem p({1, 2, T, T, 16, 16}, float32);
    Tensor q = p.q.clone().requires_grad_();
    p.d_weights = {};
    const auto o = AttentionOptions().causal().attends(document_mask(documents_of(100, T)));
    empty_cache();
    const MemoryStats before = memory_stats();
    sum(scaled_dot_product_attention(q, p.k, p.v, o)).backward();
    const MemoryStats after = memory_stats();
    return after.live_bytes + after.cached_bytes - before.live_bytes - before.cached_bytes;
  };
  const std::int64_t shorter = footprint(1024), longer = footprint(2048);
  CHECK(longer < shorter * 5 / 2);
  CHECK(longer < 2048 * 2048);  // a mask
}

TEST_CASE("an observer of attention with an expression sees no operation of its tiles", "[attention]") {
  struct Names final : Observer {
    void op_recorded(const OpEvent& e) override { ops.emplace_back(e.op); }
    std::vector<std::string> ops;
  } names;
  const Tensor q = randn({1, 2, 70, 8}).requires_grad_();
  const auto o = AttentionOptions().attends([](At at) { return at.key % 3 == 1 || at.query % 7 == 2; });
  const Observe watching(names);
  scaled_dot_product_attention(q, q, q, o);
  CHECK(names.ops == std::vector<std::string>{"attention"});
}

TEST_CASE("errors of masks as expressions", "[attention]") {
  using Catch::Contains;
  const auto refused = [](FunctionRef<AttentionMask()> make, const char* rule) {
    INFO(rule);
    CHECK_THROWS_WITH(make(), Contains(rule));
  };
  refused([] { return document_mask(zeros({3})); }, "ids is float32: it must be int64");
  refused([] { return document_mask(zeros({1, 2, 3}, int64)); }, "ids is [1, 2, 3]: it must be (T) or (B, T)");
  refused([] { return document_mask_from_offsets(tensor({0})); }, "it must be [documents + 1]");
  refused([] { return document_mask_from_offsets(tensor({1, 4})); }, "the first offset is 1: it must be 0");
  refused(
      [] {
        return document_mask_from_offsets(tensor({0, 4, 3}));
      },
      "offset 2 is 3 after 4: offsets must not decrease");
  refused([] { return document_mask_from_offsets(tensor({0, 4, 4})); }, "document 1 has 0 tokens");
  refused([] { return document_mask_from_lengths(tensor({2, 0})); }, "document 1 has 0 tokens");
  refused([] { return document_mask_from_lengths(tensor({2, -1})); }, "document 1 has -1 tokens");
  refused([] { return document_mask_from_lengths(zeros({0}, int64)); }, "at least one document");
  refused([] { return sliding_window_mask(0); }, "n is 0: it must be positive");
  refused([] { return global_tokens(-1); }, "n is -1");
  refused([] { return global_tokens(arange(3)); }, "tokens is int64: it must be boolean");
  refused([] { return prefix_mask(-1); }, "length is -1");
  refused([] { return prefix_mask(tensor({2, -1})); }, "a length is -1");
  refused([] { return prefix_mask(ones({2, 1}, int64)); }, "length is [2, 1]: it must be (B)");
  refused([] { return block_mask(ones({3}, boolean), 4); }, "blocks is [3]");
  refused([] { return block_mask(ones({3, 3}, boolean), 0); }, "block_size is 0");
  CHECK_THROWS_WITH(to_tensor(AttentionMask(), 1, 1, 2, 2), Contains("mask is undefined"));
  CHECK_THROWS_WITH(to_tensor(causal_mask(), 1, 1, -2, 2), Contains("none may be negative"));
  const Tensor x = zeros({2, 3, 6, 4});
  const auto of = [&](const AttentionMask& mask) {
    return scaled_dot_product_attention(x, x, x, AttentionOptions().attends(mask));
  };
  CHECK_THROWS_WITH(of(document_mask(zeros({5}, int64))),
                    Contains("[scaled_dot_product_attention]") && Contains("table [5]") && Contains("may reach 5 by"));
  CHECK_THROWS_WITH(of(document_mask(zeros({1, 6}, int64))), Contains("table [1, 6]") && Contains("may reach 1 by"));
  CHECK_THROWS_WITH(of(block_mask(ones({2, 2}, boolean), 2)), Contains("may reach 2 by"));
  CHECK_NOTHROW(of(document_mask(zeros({9}, int64))));  // longer than needed
  for (const AttentionMask& larger : {document_mask(zeros({3, 6}, int64)), prefix_mask(tensor({1, 2, 3}))})
    CHECK_THROWS_WITH(of(larger),
                      Contains("axis 0 of the table [3") && Contains("is that of the batch, which has 2 here"));
  // An index that causality keeps inside its table is no error.
  const Tensor back = ones({6}, boolean);
  const auto o = AttentionOptions().attends([&](At at) { return back[at.query - at.key]; });
  CHECK_NOTHROW(scaled_dot_product_attention(x, x, x, AttentionOptions(o).causal()));
  CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, o), Contains("may reach -5 by"));
}

}  // namespace fit::test::attention_masks_test
