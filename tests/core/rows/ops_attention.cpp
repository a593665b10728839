#include "fit/attention/attention.hpp"
#include "support/tables/op_table.hpp"

namespace fit::test {

namespace {

AttentionOptions options(const Tensor& mask, bool causal = false) {
  return AttentionOptions().mask(mask).causal(causal);
}

// The middle row sees nothing.
Tensor mask_with_empty_row() {
  return tensor({{true, false, true, true}, {false, false, false, false}, {false, true, false, true}});
}

std::vector<Tensor> output_and_weights(const AttentionResult& r) { return {r.output, r.weights}; }

}  // namespace

static std::vector<OpRow> attention_rows() {
  const char* const op = "scaled_dot_product_attention";
  return {
      OpRow(op, [](const auto& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); })
          .on({{2, 3}, {4, 3}, {4, 2}})
          .on({{2, 3, 2}, {2, 2, 2}, {2, 2, 3}})
          .on({{2, 2, 2, 3}, {2, 2, 3, 3}, {2, 2, 3, 1}})
          .on({{1, 4, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}})  // grouped heads
          .on({{1, 1}, {1, 1}, {1, 1}})
          .on({{0, 2, 3}, {0, 2, 3}, {0, 2, 3}})
          .on({{2, 3}, {0, 3}, {0, 2}})
          .rounds_weights()
          .large({{2, 3, 70, 16}, {2, 3, 65, 16}, {2, 3, 65, 16}})
          .bad("q and k must have equally many features",
               [] {
                 scaled_dot_product_attention(zeros({2, 3}), zeros({2, 4}), zeros({2, 3}));
               }),
      OpRow("attend", "causal, fewer queries than keys, and more",
            [](const auto& in) { return output_and_weights(attend(in[0], in[1], in[2], options({}, true).weights())); })
          .on({{2, 3, 2}, {2, 4, 2}, {2, 4, 3}})
          .on({{4, 2}, {2, 2}, {2, 2}})
          .rounds_weights()
          .large({{1, 2, 130, 8}, {1, 2, 130, 8}, {1, 2, 130, 8}}),
      OpRow("attend", "with a mask, a bias, weights and a row that sees nothing",
            [](const auto& in) {
              AttentionOptions o = options(mask_with_empty_row());
              o.bias(in[3]).temperature(1.5);
              return output_and_weights(attend(in[0], in[1], in[2], AttentionOptions(o).weights()));
            })
          .on({{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {3, 4}})
          .on({{2, 3, 2}, {2, 4, 2}, {2, 4, 3}, {2, 1, 4}})
          .on({{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {1, 2, 3, 4}})
          .optional(3),
      OpRow(op, "with a bias",
            [](const auto& in) {
              return scaled_dot_product_attention(in[0], in[1], in[2], AttentionOptions().bias(in[3]));
            })
          .on({{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {3, 4}})
          .on({{2, 2, 3, 2}, {2, 1, 4, 2}, {2, 1, 4, 3}, {1, 2, 1, 4}})
          .rounds_weights()
          .large({{2, 3, 70, 8}, {2, 3, 65, 8}, {2, 3, 65, 8}, {1, 3, 70, 65}})
          .optional(3)
          .large({{2, 3, 70, 8}, {2, 3, 65, 8}, {2, 3, 65, 8}, {70, 65}}),
      OpRow("attend", "with dropout, scaled",
            [](const auto& in) {
              Generator g(5);
              return output_and_weights(
                  attend(in[0], in[1], in[2], AttentionOptions().dropout(0.4).scale(0.7).generator(&g).weights()));
            })
          .on({{2, 3, 2}, {2, 4, 2}, {2, 4, 3}}),
      OpRow("attend", "with a sink, lse and weights",
            [](const auto& in) {
              const AttentionOptions o = options(mask_with_empty_row(), true).sink(in[3]).lse().weights();
              const AttentionResult r = attend(heads_first(in[0]), heads_first(in[1]), heads_first(in[2]), o);
              return std::vector<Tensor>{r.output, r.weights, r.lse};
            })
          .on({{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {2}})
          .on({{1, 4, 3, 2}, {1, 2, 4, 2}, {1, 2, 4, 3}, {4}})
          .optional(3)
          .except("bfloat16", "lse is float32")
          .except("NaN", "lse of a fully masked row is -inf, or its sink")
          .bad("sink has shape [3]: it must be [2]",
               [] {
                 const Tensor x = zeros({1, 2, 3, 4});
                 attend(heads_first(x), heads_first(x), heads_first(x), AttentionOptions().sink(zeros({3})));
               }),
      OpRow("scaled_dot_product_attention", "with a sink, a window and dropout",
            [](const auto& in) {
              Generator g(5);
              const auto o = AttentionOptions().causal().window(40).sink(in[3]).dropout(0.3).generator(&g);
              return scaled_dot_product_attention(in[0], in[1], in[2], o);
            })
          .on({{2, 2, 3, 2}, {2, 2, 3, 2}, {2, 2, 3, 3}, {2}})
          .rounds_weights()
          .large({{2, 3, 130, 8}, {2, 3, 130, 8}, {2, 3, 130, 8}, {3}})
          .optional(3),
      OpRow("scaled_dot_product_attention", "with an expression of pairs",
            [](const auto& in) {
              const AttentionMask mask = document_mask(tensor({0, 0, 1, 1})) | AttentionMask([](At at) {
                                           return (at.query + 2 * at.key + at.head) % 3 == 1;
                                         });
              return scaled_dot_product_attention(in[0], in[1], in[2], AttentionOptions().causal().attends(mask));
            })
          .on({{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}})
          .on({{1, 4, 4, 2}, {1, 2, 4, 2}, {1, 2, 4, 2}})
          .on({{4, 2}, {4, 2}, {4, 2}})
          .rounds_weights()
          .bad("index 0 of the table [3] may reach 3",
               [] {
                 const Tensor x = zeros({4, 2});
                 scaled_dot_product_attention(x, x, x, AttentionOptions().attends(document_mask(zeros({3}, int64))));
               }),
      OpRow("scaled_dot_product_attention", "with a function of the scores",
            [](const auto& in) {
              const ScoreFunction f = [&](Score s, At at) {
                return 2 * tanh(s / 2) + in[3][at.head][at.key - at.query + 4];
              };
              return scaled_dot_product_attention(in[0], in[1], in[2], AttentionOptions().causal().score(f));
            })
          .on({{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {2, 8}})
          .on({{1, 4, 4, 2}, {1, 2, 4, 2}, {1, 2, 4, 2}, {4, 8}})
          .rounds_weights()
          .bad("index 1 of the table [2, 4] may reach 5",
               [] {
                 const Tensor x = zeros({1, 2, 6, 2}), table = zeros({2, 4});
                 scaled_dot_product_attention(
                     x, x, x, AttentionOptions().score([&](Score s, At at) { return s + table[at.head][at.key]; }));
               }),
      OpRow("merge_attention",
            [](const auto& in) {
              const AttentionResult r = merge_attention({{in[0], {}, in[1]}, {in[2], {}, in[3]}});
              return std::vector<Tensor>{r.output, r.lse};
            })
          .on({{2, 2, 3, 2}, {2, 2, 3}, {2, 2, 3, 2}, {2, 2, 3}})
          .on({{2, 3, 4}, {2, 2, 3}, {2, 3, 4}, {2, 2, 3}})  // heads last
          .on({{3, 2}, {3}, {3, 2}, {3}})
          .on({{0, 2}, {0}, {0, 2}, {0}})
          .except("bfloat16", "it is made of operations, which round one by one")
          .bad("there are no parts", [] { merge_attention({}); })
          .bad("lse of part 0 is undefined: give it, by attend() with AttentionOptions().lse()",
               [] {
                 merge_attention({{zeros({2, 3}), {}, {}}});
               })
          .bad("lse of part 1 has shape [3]: it must be [2]",
               [] {
                 merge_attention({{zeros({2, 3}), {}, zeros({2})}, {zeros({2, 3}), {}, zeros({3})}});
               })
          .bad("output is [2, 3], lse is [4]",
               [] {
                 merge_attention({{zeros({2, 3}), {}, zeros({4})}});
               }),
      OpRow("multi_head_attention", [](const auto& in) { return multi_head_attention(in[0], in[1], in[2], 2); })
          .on({{2, 3, 4}, {2, 2, 4}, {2, 2, 6}})
          .on({{1, 2, 4}, {1, 3, 2}, {1, 3, 3}})  // grouped heads
          .rounds_weights()
          .large({{2, 70, 32}, {2, 65, 32}, {2, 65, 32}})
          .bad("num_heads 3",
               [] {
                 multi_head_attention(zeros({1, 2, 4}), zeros({1, 2, 4}), zeros({1, 2, 4}), 3);
               }),
      OpRow("packed_self_attention", [](const auto& in) { return packed_self_attention(in[0], 2); })
          .on({{2, 3, 12}})
          .on({{1, 1, 6}})
          .on({{0, 3, 6}})
          .rounds_weights()
          .large({{2, 70, 48}})
          .bad("qkv is [2, 3, 8], num_heads 2, num_kv_heads 2: qkv must be [B, S, (num_heads + 2 num_kv_heads) D]",
               [] {
                 packed_self_attention(zeros({2, 3, 8}), 2);
               })
          .bad("num_kv_heads must divide num_heads",
               [] {
                 packed_self_attention(zeros({2, 3, 7}), 3, {}, 2);
               })
          .bad("qkv is [3, 6]",
               [] {
                 packed_self_attention(zeros({3, 6}), 2);
               })
          .bad("num_heads 0",
               [] {
                 packed_self_attention(zeros({2, 3, 6}), 0);
               })
          .bad("qkv is int64",
               [] {
                 packed_self_attention(zeros({2, 3, 6}, int64), 2);
               }),
      OpRow("packed_self_attention", "causal, grouped heads, with a mask, a bias and dropout",
            [](const auto& in) {
              Generator g(5);
              AttentionOptions o = options(tensor({{true, true, false, true}}), true);
              o.bias(in[1]).dropout(0.3).generator(&g);
              return packed_self_attention(in[0], 4, o, 2);
            })
          .on({{2, 4, 16}, {4, 4}})
          .on({{1, 4, 8}, {1, 4, 4, 4}})
          .optional(1),
      OpRow("attend", "keys and values are parts of one tensor, with weights",
            [](const auto& in) {
              const AttentionOptions o = options({}, true).weights();
              return output_and_weights(attend(heads_last(in[0], 4), part(in[1], 1, 2, 2), part(in[1], 6, 2, 3), o));
            })
          .on({{2, 3, 8}, {2, 4, 13}})  // features 0, 5 and 12 are of no part
          .on({{1, 2, 8}, {1, 2, 12}})
          .rounds_weights()
          .bad("parts of one tensor must not overlap",
               [] {
                 const Tensor x = zeros({1, 2, 12});
                 attend(part(x, 0, 2, 2), part(x, 3, 2, 2), part(x, 8, 2, 2));
               })
          .bad("parts of one tensor must not overlap",
               [] {
                 const Tensor x = zeros({1, 2, 4});
                 attend(part(x, 0, 2, 2), part(x, 0, 2, 2), part(x, 0, 2, 2));
               })
          .bad("a part must lie within the last axis",
               [] {
                 const Tensor x = zeros({1, 2, 12});
                 attend(part(x, 0, 2, 2), part(x, 4, 2, 2), part(x, 9, 2, 2));
               })
          .bad("a part must lie within the last axis",
               [] {
                 const Tensor x = zeros({1, 2, 12});
                 attend(part(x, -1, 2, 2), part(x, 4, 2, 2), part(x, 8, 2, 2));
               })
          .bad("all must have their heads first, or all last",
               [] {
                 const Tensor x = zeros({1, 2, 4});
                 attend(heads_first(x), heads_last(x), heads_last(x));
               }),
      OpRow("attend", "heads last, causal, with a mask and weights",
            [](const auto& in) {
              return output_and_weights(attend(heads_last(in[0], 2), heads_last(in[1]), heads_last(in[2]),
                                               options(mask_with_empty_row().to(float32), true).weights()));
            })
          .on({{2, 3, 4}, {2, 4, 4}, {2, 4, 2}}),
  };
}
static const RegisterOps attention(attention_rows);

}  // namespace fit::test
