
#include "fit/attention/attention.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// What attention refuses, how masks are made, and what a picture of weights needs.
namespace fit::test::attention_arguments_test {
namespace {

using Catch::Matchers::Contains;

std::string message_of(FunctionRef<void()> call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

AttentionOptions masked(const Tensor& mask) { return AttentionOptions().mask(mask); }

}  // namespace

TEST_CASE("errors of attention name the argument, the shapes and the rule") {
  const Tensor x = ones({2, 3, 4, 5});
  const auto of = [&](const AttentionOptions& o) {
    return message_of([&] { scaled_dot_product_attention(x, x, x, o); });
  };
  SECTION("masks") {
    for (const Shape& shape : {Shape{5, 4}, Shape{4}, Shape{}, Shape{4, 1}, Shape{3, 4, 4}, Shape{2, 2, 4, 4},
                               Shape{2, 3, 4, 4, 1}, Shape{2, 3, 2, 4}, Shape{0, 4}}) {
      const std::string expected = "[scaled_dot_product_attention] the mask is " + shape.str() +
                                   ", the scores (B, H, Sq, Sk) are [2, 3, 4, 4]: the mask must be (1|Sq, Sk), (B|1, "
                                   "1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk)";
      CHECK(of(masked(ones(shape))) == expected);
      CHECK(of(AttentionOptions().bias(ones(shape))).find("the bias is " + shape.str()) != std::string::npos);
    }
    CHECK(of(masked(ones({2, 4}))).find("; unsqueeze(1) makes (B, 1, Sk) of a mask of padding") != std::string::npos);
    // With as many heads as sequences, three axes of a bias would fit by accident.
    const Tensor square = ones({3, 3, 4, 5}), bias = ones({3, 4, 4});
    const auto biased = [&](const Tensor& b) {
      return message_of([&] { scaled_dot_product_attention(square, square, square, AttentionOptions().bias(b)); });
    };
    CHECK(biased(bias) ==
          "[scaled_dot_product_attention] the bias is [3, 4, 4], the scores (B, H, Sq, Sk) are [3, 3, 4, 4]: the first "
          "of "
          "three axes could be B or H; give four, bias.unsqueeze(0) for one by head, or bias.unsqueeze(1) for one by "
          "sequence");
    for (const Tensor& fine : {bias.unsqueeze(0), bias.unsqueeze(1), ones({1, 4, 4}), ones({4, 4}), ones({1, 4})})
      CHECK(biased(fine) == "nothing was thrown");
    CHECK(of(AttentionOptions().bias(ones({3, 4, 4}))).find("bias.unsqueeze(0) for one by head") != std::string::npos);
    const Tensor one_head = ones({3, 4, 5});
    CHECK_NOTHROW(scaled_dot_product_attention(one_head, one_head, one_head, AttentionOptions().bias(bias)));
    for (const double bad : {-1e9, 0.5, 2.0, nan}) {
      Tensor mask = ones({4, 4});
      mask[{1, 2}] = bad;
      CHECK(of(masked(mask)).find("at element 6: it must hold 1 (attend) and 0 (ignore)") != std::string::npos);
    }
    CHECK(of(masked(ones({4, 4}).requires_grad_())).find("the mask of shape [4, 4] wants a gradient") !=
          std::string::npos);
    const Tensor table = ones({4}).requires_grad_();
    CHECK(of(AttentionOptions().attends([&](At at) {
            return table[at.key] > 0;
          })).find("the table [4] wants a gradient") != std::string::npos);
    CHECK(of(masked(full({4, 4}, 3, int64))).find("has the value 3 at element 0") != std::string::npos);
    CHECK(of(AttentionOptions().bias(ones({4, 4}, boolean)))
              .find("bias is boolean: it must be bfloat16, float32 or float64; a mask holds 0 and 1") !=
          std::string::npos);
  }
  SECTION("numbers") {
    for (const double p : {-0.1, 1.1, nan}) {
      CHECK(of(AttentionOptions().dropout(p)).find("dropout is") != std::string::npos);
    }
    for (const double t : {0.0, -1.0, nan, inf}) {
      CHECK(of(AttentionOptions().temperature(t)).find("temperature is") != std::string::npos);
    }
    auto o = AttentionOptions().scale(nan);
    CHECK(of(o).find("scale is nan") != std::string::npos);
    o.scale(1e300);
    CHECK(of(o).find("scale is 1e+300: it must be finite in float32") != std::string::npos);
    CHECK(all(isfinite(scaled_dot_product_attention(x.to(float64) * 1e-200, x.to(float64), x.to(float64), o)))
              .item<bool>());
    o.scale({}).temperature(1e-300);
    CHECK(of(o).find("temperature is 1e-300: 1 / (sqrt(D) temperature)") != std::string::npos);
    o.temperature(1).window(-1);
    CHECK(of(o).find("window is -1") != std::string::npos);
    o.window(0).alibi(ones({4}));
    CHECK(of(o).find("alibi has shape [4]: it must be [3]") != std::string::npos);
    o.alibi(ones({3}, int64));
    CHECK(of(o).find("alibi is int64") != std::string::npos);
    o.alibi(ones({3}).requires_grad_());
    CHECK(of(o).find("alibi wants a gradient") != std::string::npos);
  }
  SECTION("shapes") {
    const auto shapes = [](const Shape& q, const Shape& k, const Shape& v) {
      return message_of([&] { scaled_dot_product_attention(ones(q), ones(k), ones(v)); });
    };
    CHECK(shapes({3}, {3}, {3}).find("all must be (B, H, S, D), (B, S, D) or (S, D)") != std::string::npos);
    CHECK(shapes({1, 1, 1, 3, 4}, {1, 1, 1, 3, 4}, {1, 1, 1, 3, 4}).find("all must be (B, H, S, D)") !=
          std::string::npos);
    CHECK(shapes({2, 3, 4}, {3, 4}, {3, 4}).find("q is [2, 3, 4], k is [3, 4]") != std::string::npos);
    CHECK(shapes({2, 3, 4}, {1, 3, 4}, {1, 3, 4}).find("one batch size") != std::string::npos);
    CHECK(shapes({3, 4}, {3, 5}, {3, 4}).find("q and k must have equally many features") != std::string::npos);
    CHECK(shapes({3, 4}, {3, 4}, {2, 4}).find("k and v must have equally many keys") != std::string::npos);
    CHECK(shapes({1, 4, 2, 2}, {1, 2, 2, 2}, {1, 4, 2, 2}).find("k and v must have equally many heads") !=
          std::string::npos);
    CHECK(shapes({1, 4, 2, 2}, {1, 3, 2, 2}, {1, 3, 2, 2}).find("heads of k must divide") != std::string::npos);
    CHECK(shapes({1, 4, 2, 2}, {1, 0, 2, 2}, {1, 0, 2, 2}).find("heads of k must divide") != std::string::npos);
    // (B, S, H, D) for (B, H, S, D), of different lengths
    const std::string swapped = "if they are (B, S, H, D), transpose(x, 1, 2) them first";
    CHECK(shapes({2, 7, 4, 8}, {2, 9, 4, 8}, {2, 9, 4, 8}).find(swapped) != std::string::npos);
    CHECK(shapes({2, 7, 4, 8}, {2, 9, 6, 8}, {2, 9, 6, 8}).find(swapped) == std::string::npos);
  }
  SECTION("types") {
    CHECK(message_of([&] { scaled_dot_product_attention(x, x.to(float64), x); }).find("one type") != std::string::npos);
    const Tensor whole = ones({3, 4}, int64);
    CHECK(message_of([&] { scaled_dot_product_attention(whole, whole, whole); }).find("q is int64") !=
          std::string::npos);
  }
  SECTION("heads side by side") {
    const auto shapes = [](const Shape& q, const Shape& k, const Shape& v, std::int64_t heads) {
      return message_of([&] { multi_head_attention(ones(q), ones(k), ones(v), heads); });
    };
    CHECK(shapes({3, 4}, {3, 4}, {3, 4}, 2).find("(B, S, heads * features)") != std::string::npos);
    for (const std::int64_t heads : {3, 0, -1})
      CHECK(shapes({1, 3, 4}, {1, 3, 4}, {1, 3, 4}, heads).find("num_heads " + std::to_string(heads)) !=
            std::string::npos);
    CHECK(shapes({1, 3, 4}, {1, 3, 3}, {1, 3, 4}, 2).find("a multiple of 2") != std::string::npos);
    CHECK(shapes({1, 3, 4}, {1, 3, 0}, {1, 3, 4}, 2).find("a multiple of 2") != std::string::npos);
    CHECK(shapes({1, 3, 4}, {1, 3, 4}, {1, 3, 3}, 2).find("a multiple of 2") != std::string::npos);
    CHECK(shapes({1, 3, 0}, {1, 3, 0}, {1, 3, 0}, 2).find("at least 1") != std::string::npos);
    CHECK(message_of([] {
            packed_self_attention(ones({1, 3, 4}), 0, {}, 1);
          }).find("num_heads 0, num_kv_heads 1") != std::string::npos);
  }
  SECTION("heads without features are no error: there is nothing to give") {
    Tensor keys = zeros({1, 1, 4, 0}), values = zeros({1, 1, 4, 0});
    CHECK(cached_self_attention(zeros({1, 2, 0}), keys, values, 0, 1).shape() == Shape{1, 2, 0});
    CHECK(cached_self_attention(zeros({1, 2, 0}), keys, keys, 0, 1).shape() == Shape{1, 2, 0});  // nothing is shared
    // All scores are 0, so the output is a mean.
    const Tensor q = ones({1, 1, 0});
    values = zeros({1, 1, 4, 2});
    CHECK(equal(cached_attention(q, q, ones({1, 1, 2}), keys, values, 0, 1), ones({1, 1, 2})));
    CHECK(equal(values, tensor({{{{1., 1.}, {0., 0.}, {0., 0.}, {0., 0.}}}})));
    CHECK(equal(cached_attention(q, q, full({1, 1, 2}, 3), keys, values, 1, 1), full({1, 1, 2}, 2)));
    // Without queries there are no weights, and they have their shape.
    Tensor some_keys = zeros({1, 1, 4, 2});
    const AttentionCache cache{some_keys, values, 2};
    const Tensor none = zeros({1, 0, 2});
    const auto o = AttentionOptions().cache(cache).weights(true).lse(true);
    const AttentionResult r = attend(heads_last(none, 1), heads_last(none, 1), heads_last(none, 1), o);
    CHECK(r.weights.shape() == Shape{1, 1, 0, 2});
    CHECK(r.lse.shape() == Shape{1, 1, 0});
  }
}

TEST_CASE("a function that returns the output alone computes nothing in vain", "[attention]") {
  const Tensor x = randn({1, 3, 4}), qkv = randn({1, 3, 12});
  Tensor keys = zeros({1, 2, 4, 2}), values = zeros({1, 2, 4, 2});
  for (const bool lse : {false, true}) {
    const auto o = lse ? AttentionOptions().lse() : AttentionOptions().weights();
    const auto text = [&](const std::string& op) {
      return "[" + op + "] the options ask for " + (lse ? "lse" : "weights") +
             ": this function returns the output alone; attend() takes the same options and returns weights and lse";
    };
    CHECK_THROWS_WITH(scaled_dot_product_attention(x, x, x, o), text("scaled_dot_product_attention"));
    CHECK_THROWS_WITH(multi_head_attention(x, x, x, 2, o), text("multi_head_attention"));
    CHECK_THROWS_WITH(packed_self_attention(qkv, 2, o), text("packed_self_attention"));
    CHECK_THROWS_WITH(cached_attention(x, x, x, keys, values, 0, 2, o), text("cached_attention"));
    CHECK_THROWS_WITH(cached_self_attention(qkv, keys, values, 0, 2, o), text("cached_self_attention"));
  }
  CHECK(equal(keys, zeros({1, 2, 4, 2})));
  const auto both = AttentionOptions().cache(AttentionCache{keys, values, 0});
  CHECK_THROWS_WITH(cached_attention(x, x, x, keys, values, 0, 2, both),
                    "[cached_attention] the options have a cache, and so has the call: give one of them");
  // Tensors have their heads first.
  CHECK(same_bits(attend(x, x, x).output, scaled_dot_product_attention(x, x, x)));
  CHECK_FALSE(attend(x, x, x).weights.defined());
}

TEST_CASE("a mask of padding (B, S) with B = S, and heads in the place of positions, are told") {
  const Tensor q = ones({3, 2, 3, 4}),
               padding = tensor({{true, true, true}, {true, false, false}, {true, true, false}});
  const auto of = [&](const Tensor& mask) {
    return message_of([&] { scaled_dot_product_attention(q, q, q, masked(mask)); });
  };
  CHECK_THAT(of(padding), Contains("its rows look like padding, (B, S); give padding as unsqueeze(mask, 1)"));
  CHECK_THAT(of(padding.to(int64)), Contains("its rows look like padding"));
  CHECK_THAT(of(flip(padding, 1)), Contains("its rows look like padding"));  // on the left
  const std::string fine = "nothing was thrown";
  CHECK(of(unsqueeze(padding, 1)) == fine);
  CHECK(of(unsqueeze(padding, 0)) == fine);
  CHECK(of(create_look_ahead_mask(3)) == fine);
  CHECK(of(triu(ones({3, 3}))) == fine);
  CHECK(of(tensor({{1, 0, 1}, {1, 0, 0}, {1, 0, 0}})) == fine);
  CHECK(of(ones({3, 3}, boolean)) == fine);

  const Tensor last = ones({3, 5, 2, 4}), keys = ones({3, 7, 2, 4});  // (B, S, H, D)
  CHECK_THAT(message_of([&] { scaled_dot_product_attention(last, keys, keys); }),
             Contains("if they are (B, S, H, D), transpose(x, 1, 2) them first"));
  CHECK_THAT(message_of([&] {
               scaled_dot_product_attention(last, last, last, masked(ones({5, 5})));
             }),
             Contains("the number of keys is H: if q, k and v are (B, S, H, D), transpose(x, 1, 2) them first"));
}

TEST_CASE("masks are made") {
  CHECK(equal(create_padding_mask(tensor({{5, 7, 0}, {1, 0, 0}})),
              tensor({{{true, true, false}}, {{true, false, false}}})));
  CHECK(equal(create_padding_mask(tensor({{5, 7, 0}}), 7), tensor({{{true, false, true}}})));
  CHECK(create_padding_mask(zeros({0, 3}, int64)).shape() == Shape{0, 1, 3});
  CHECK(equal(create_look_ahead_mask(3), tensor({{{true, false, false}, {true, true, false}, {true, true, true}}})));
  CHECK(create_look_ahead_mask(0).shape() == Shape{1, 0, 0});
  CHECK_THROWS_WITH(create_padding_mask(ones({2, 3})), Catch::Contains("[create_padding_mask] ids is float32"));
  CHECK_THROWS_WITH(create_padding_mask(ones({3}, int64)), Catch::Contains("ids is [3]: it must be (B, S)"));
  CHECK_THROWS_WITH(create_look_ahead_mask(-1), Catch::Contains("[create_look_ahead_mask] the length is -1"));
}

TEST_CASE("PyTorch's masks become ours") {
  const Tensor hide = tensor({{false, true}, {true, false}});
  const auto mask = [](const Tensor& m, TorchMask kind, std::int64_t heads = 1) {
    const MaskAndBias r = mask_from_torch(m, kind, heads);
    CHECK_FALSE(r.bias.defined());
    return r.mask;
  };
  CHECK(equal(mask(hide, TorchMask::key_padding), tensor({{{{true, false}}}, {{{false, true}}}})));
  CHECK(equal(mask(hide[0], TorchMask::key_padding), tensor({{{{true, false}}}})));
  CHECK(equal(mask(hide, TorchMask::multihead), tensor({{{{true, false}, {false, true}}}})));
  CHECK(equal(mask(hide, TorchMask::sdpa), reshape(hide, Shape{1, 1, 2, 2})));
  const Tensor heads = stack({hide, hide, logical_not(hide), hide});  // B = 2, H = 2
  CHECK(equal(mask(heads, TorchMask::multihead, 2), reshape(logical_not(heads), Shape{2, 2, 2, 2})));
  CHECK(equal(mask(heads, TorchMask::sdpa), reshape(heads, Shape{1, 4, 2, 2})));  // heads, not a batch
  const MaskAndBias added = mask_from_torch(tensor({{0., -1.}}), TorchMask::key_padding);
  CHECK_FALSE(added.mask.defined());
  CHECK(equal(added.bias, tensor({{{{0., -1.}}}})));
  CHECK_THROWS_WITH(mask_from_torch(heads, TorchMask::key_padding), Catch::Contains("it must be (Sk) or (B, Sk)"));
  CHECK_THROWS_WITH(mask_from_torch(heads, TorchMask::multihead, 3), Catch::Contains("(B num_heads, Sq, Sk)"));
  CHECK_THROWS_WITH(mask_from_torch(heads, TorchMask::multihead, 0), Catch::Contains("num_heads 0"));
  CHECK_THROWS_WITH(mask_from_torch(hide[0], TorchMask::sdpa), Catch::Contains("an sdpa mask of shape [2]"));
  CHECK_THROWS_WITH(mask_from_torch(ones({2, 2}, int64), TorchMask::sdpa), Catch::Contains("with .to(boolean)"));
}

TEST_CASE("two masks are combined as attention reads them, though B is H") {
  // Two sequences, two heads: padding hides the last key of the second sequence, for all heads.
  const Tensor padding = create_padding_mask(tensor({{5, 5}, {5, 0}}));
  const Tensor heads = ones({2, 2, 1, 2}, boolean);
  const Tensor both = combine_masks(padding, heads);
  CHECK(equal(both, tensor({{{{true, true}}, {{true, true}}}, {{{true, false}}, {{true, false}}}})));
  CHECK(equal(combine_masks(heads, padding), both));
  CHECK(combine_masks(ones({2, 2}, boolean), padding).shape() == Shape{2, 1, 2, 2});
  CHECK(equal(combine_masks({}, padding), padding));
  CHECK(equal(combine_masks(padding, {}), padding));
  CHECK_FALSE(combine_masks({}, {}).defined());
  CHECK_THROWS_WITH(combine_masks(ones({2}, boolean), heads), Catch::Contains("[combine_masks] a is [2]"));
  CHECK(equal(combine_masks(heads.to(float32), padding.to(int64)), both));
  CHECK_THROWS_WITH(combine_masks(heads, full({2, 2}, 0.5)), Catch::Contains("it must hold 1 (attend) and 0 (ignore)"));
}

TEST_CASE("the visualization helper averages heads and measures entropy") {
  const Tensor w =
      tensor({{{{1., 0.}, {0.5, 0.5}}, {{1., 0.}, {0., 1.}}}, {{{9., 9.}, {9., 9.}}, {{9., 9.}, {9., 9.}}}});
  const AttentionView view = attention_visualization_helper(w, {"a", "b"});
  CHECK(max_difference(view.attention_matrix, tensor({{1., 0.}, {0.25, 0.75}}, float64)) == 0);
  CHECK(view.tokens == std::vector<std::string>{"a", "b"});
  CHECK(view.max_attention == 1);
  CHECK(view.attention_entropy.shape() == Shape{2});
  CHECK(view.attention_entropy.data<double>()[0] == 0);
  CHECK(view.attention_entropy.data<double>()[1] == Approx(0.5623351446));
  const AttentionView three = attention_visualization_helper(w[{0}]), two = attention_visualization_helper(w[{0, 0}]);
  CHECK(max_difference(three.attention_matrix, tensor({{1., 0.}, {0.5, 0.5}}, float64)) == 0);  // the first batch
  CHECK(max_difference(two.attention_matrix, three.attention_matrix) == 0);
  CHECK(two.tokens == std::vector<std::string>{"Token_0", "Token_1"});
  CHECK_THROWS_WITH(attention_visualization_helper(w, {"a"}), Catch::Contains("1 tokens"));
  CHECK_THROWS_WITH(attention_visualization_helper(ones({3})), Catch::Contains("weights is [3]"));
  CHECK_THROWS_WITH(attention_visualization_helper(ones({1, 1, 1, 2, 2})),
                    Catch::Contains("it must be (B, H, Sq, Sk)"));
  CHECK_THROWS_WITH(attention_visualization_helper(ones({0, 2, 3, 3})), Catch::Contains("weights is [0, 2, 3, 3]"));
}

}  // namespace fit::test::attention_arguments_test
