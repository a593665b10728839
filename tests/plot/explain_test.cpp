#include "fit/explain.hpp"

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tables/refusals.hpp"

namespace fit::test::explain_test {
using Catch::Matchers::Contains;

TEST_CASE("padding and causal together: the picture, what queries see, and what gets no weight") {
  CHECK(explain(AttentionOptions().causal().mask(tensor({{1, 1, 1, 0}})), 4, 4) ==
        "Attention of 4 queries to 4 keys, causal, mask [1, 4] (true = attend):\n"
        "  0  # . . .\n"
        "  1  # # . .\n"
        "  2  # # # .\n"
        "  3  # # # -\n"
        "  queries go down, keys go right: # seen, . comes later, - shown to no query\n"
        "  Each query sees 1 to 3 keys.\n"
        "  Key 3 gets no weight: no query sees it.\n");
}

TEST_CASE("padding on the left and causal leave queries with nothing, and both are named") {
  auto o = AttentionOptions().causal().mask(create_padding_mask(tensor({{0, 0, 5, 7}})));
  const std::string text = explain(o, 4, 4);
  CHECK_THAT(text, Contains("! Queries 0 and 1 see nothing: weights and output are zero there"));
  CHECK_THAT(text, Contains("causal those that come later: padding on the left does that"));
  CHECK_THAT(text, Contains("Each of the other queries sees 1 to 2 keys."));
  CHECK_THAT(text, Contains("Keys 0 and 1 get no weight"));
  o.causal(false);
  CHECK_THAT(explain(o, 4, 4), !Contains("see nothing"));
}

TEST_CASE("sequences that see the same are told of once") {
  const std::string text = explain_padding(tensor({{5, 3, 0}, {5, 0, 0}, {1, 2, 0}, {0, 0, 0}}));
  CHECK_THAT(text, Contains("\nSequences 1 and 3:\n"));
  CHECK_THAT(text, Contains("\nSequence 2:\n"));
  CHECK_THAT(text, Contains("\nSequence 4:\n"));
  CHECK_THAT(text, Contains("! No query sees any key"));
  CHECK_THAT(text, Contains("The mask alone hides all of their keys."));
  CHECK_THAT(text, !Contains("inverted"));  // the padding of the others is on the right
}

TEST_CASE("more than four cases are not drawn") {
  Tensor mask = ones({6, 1, 8}, boolean);
  for (std::int64_t i = 0; i < 6; ++i) mask[{i, 0, range(i + 2)}] = false;
  CHECK_THAT(explain(mask), Contains("2 more cases are not shown."));
}

TEST_CASE("a mask of PyTorch's polarity looks inverted") {
  const Tensor attn_mask = triu(ones({5, 5}, boolean), 1);  // true = hide the future
  CHECK_THAT(explain(attn_mask), Contains("shows the future and hides the past") && Contains("TorchMask::multihead"));
  CHECK_THAT(explain(logical_not(attn_mask)), !Contains("inverted"));
  const Tensor key_padding = logical_not(create_padding_mask(tensor({{5, 3, 0}, {5, 0, 0}})));
  CHECK_THAT(explain(key_padding), Contains("TorchMask::key_padding"));
  CHECK_THAT(explain(logical_not(key_padding)), !Contains("inverted"));
  // One sequence has no padding: inverted, it is hidden altogether.
  const Tensor full_one = logical_not(create_padding_mask(tensor({{5, 3, 1}, {5, 0, 0}})));
  CHECK_THAT(explain(full_one), Contains("1 sequence is hidden altogether"));
  CHECK_THAT(explain(ones({2, 1, 4}, boolean)), !Contains("inverted"));
}

TEST_CASE("a window, a cache, and more queries than keys") {
  auto o = AttentionOptions().causal().window(2);
  CHECK_THAT(explain(o, 2, 5), Contains("  0  < < # # .\n  1  < < < # #\n") && Contains("Each query sees 2 keys."));
  o.window(0);
  const std::string text = explain(o, 3, 2);
  CHECK_THAT(text, Contains("! Query 0 sees nothing") && Contains("more queries than keys"));
}

TEST_CASE("large masks are drawn in blocks") {
  const std::string text = explain(AttentionOptions().causal(), 100, 100);
  CHECK_THAT(text, Contains("3 at a time (+ some are seen)"));
  CHECK_THAT(text, Contains("\n   3  # + . "));
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    CHECK(end - at <= 120);
  }
}

TEST_CASE("masks for each head are told apart") {
  Tensor mask = ones({1, 2, 3, 3}, boolean);
  mask[{0, 1, 0, 2}] = false;
  const std::string text = explain(mask);
  CHECK_THAT(text, Contains("\nHead 1:\n") && Contains("\nHead 2:\n") && Contains("x hidden by the mask"));
}

TEST_CASE("what hides keys together is named") {
  // The mask hides the keys in the window, the window all others.
  CHECK_THAT(explain(AttentionOptions().window(1).mask(tensor({{1, 1}, {1, 0}})), 2, 2),
             Contains("Query 1 sees nothing") &&
                 Contains("The mask hides the keys within the window, and the window the others."));
  Tensor mask = ones({2, 2, 1, 4}, boolean);  // sequence 2: head 1 sees less than head 2
  mask[{1, 0, 0, range(2)}] = false;
  const std::string both = explain(AttentionOptions().mask(mask), 1, 4);
  CHECK_THAT(both, Contains("Sequence 1 head 1, 1 head 2, 2 head 2:\n") && Contains("Sequence 2 head 1:\n"));
  const std::string list = explain(AttentionOptions().mask(tensor({{1, 0, 1, 0, 1, 0}})), 1, 6);
  CHECK_THAT(list, Contains("Keys 1, 3 and 5 get no weight"));
  CHECK_THAT(explain(AttentionOptions().mask(tensor({{{0, 0, 1}}, {{0, 0, 0}}})), 1, 3),
             Contains("stands at the end of each sequence, and 1 sequence is hidden altogether"));
  CHECK_THAT(explain(AttentionOptions().mask(tensor({{{0, 0, 0}}, {{0, 0, 0}}})), 1, 3),
             Contains("stands at the end of no sequence, and 2 sequences are hidden altogether"));
}

TEST_CASE("explain refuses sizes and masks that don't fit", "[refusals]") {
  const auto with = [](const Tensor& mask, std::int64_t queries = 2, std::int64_t keys = 3) {
    return [=] { return explain(AttentionOptions().mask(mask), queries, keys); };
  };
  check_refused({
      {"0 queries and 3 keys", [] { return explain(AttentionOptions(), 0, 3); }},
      {"2 queries and 0 keys", [] { return explain(AttentionOptions(), 2, 0); }},
      {"window is -1", [] { return explain(AttentionOptions().window(-1), 2, 3); }},
      {"the mask is [3], the scores (B, H, Sq, Sk) are [1, 1, 2, 3]", with(ones({3}))},
      {"the mask is [0, 1, 2, 3]", with(ones({0, 1, 2, 3}))},
      {"the mask is [1, 0, 2, 3]", with(ones({1, 0, 2, 3}))},
      {"the mask is [3, 3]", with(ones({3, 3}))},
      {"the mask is [2, 4]", with(ones({2, 4}))},
      {"the mask of shape [2, 3] has the value 0.5", with(full({2, 3}, 0.5))},
      {"the mask is [3]", [] { return explain(ones({3})); }},
      {"the mask is [1, 1, 1, 1, 3]",
       [] {
         return explain(ones({1, 1, 1, 1, 3}));
       }},
      {"the mask is [0, 3]",
       [] {
         return explain(ones({0, 3}));
       }},
  });
}

TEST_CASE("explain refuses what attention refuses") {
  CHECK_THROWS_WITH(explain(Tensor()), Contains("[explain] mask is undefined"));
  CHECK_THROWS_WITH(explain(ones({3})), Contains("[3]"));
  CHECK_THROWS_WITH(explain(full({2, 2}, 0.5)), Contains("0.5") && Contains("bias"));
  CHECK_THROWS_WITH(explain(AttentionOptions().mask(ones({2, 3}, boolean)), 3, 3), Contains("[2, 3]"));
  CHECK_THROWS_WITH(explain(AttentionOptions(), 0, 3), Contains("0 queries"));
  CHECK_THROWS_WITH(explain_padding(ones({2, 2})), Contains("create_padding_mask"));
}

TEST_CASE("a head that is switched off is no padding") {
  Tensor mask = ones({1, 3, 1, 4}, boolean);
  mask[{0, 1}] = false;
  for (const bool causal : {false, true}) {
    const std::string text = explain(AttentionOptions().causal(causal).mask(mask), 4, 4);
    CHECK_THAT(text, Contains("\nHead 2:\n"));
    CHECK_THAT(text, Contains("! Switched off: the mask hides every key from every query of this head."));
    CHECK_THAT(text, !Contains("padding") && !Contains("No query sees"));
  }
}

TEST_CASE("a function of the scores is told as it is written") {
  const Tensor table = zeros({2, 9});
  const auto o = AttentionOptions().causal().attends(sliding_window_mask(2)).score([&](Score s, At at) {
    return 30 * tanh(s / 30) + table[at.head][at.key - at.query + 4];
  });
  CHECK_THAT(explain(o, 4, 4),
             Contains("4 keys, causal, where query - key < 2 && key - query < 2, scores s replaced by "
                      "30 * tanh(s / 30) + table[2, 9][head][key - query + 4]:\n"));
  CHECK_THROWS_WITH(
      explain(o, 8, 8),
      Contains("index 1 of the table [2, 9] may reach -3 by its bounds: it must be in 0 … 8 for all pairs that "
               "causality and the window allow; limit it with max(index, 0) or min(index, 8)"));
}

TEST_CASE("masks as expressions are told in words", "[attention]") {
  const Tensor ids = tensor({0, 0, 0, 1, 1, 1, 1, 2, 2});
  const std::string text = explain(AttentionOptions().causal().attends(document_mask(ids)), 9, 9);
  CHECK_THAT(text, Contains("causal, where table[9][query] == table[9][key]:"));
  CHECK_THAT(text, Contains("  3  x x x # . . . . ."));
  const Tensor each = stack({ids, zeros({9}, int64)});
  CHECK_THAT(explain(AttentionOptions().attends(document_mask(each)), 9, 9), Contains("Sequence 1:"));
}

}  // namespace fit::test::explain_test
