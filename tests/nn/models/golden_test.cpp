#include "support/oracles/golden.hpp"

#include "fit/attention/attention.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Layers, losses, optimisers and attention against PyTorch's values and gradients, in both precisions.
namespace fit::test::golden_test {
namespace {

using Values = std::vector<Tensor>;
using Names = std::vector<std::string>;

// A layer that was given PyTorch's parameters, its output y and the gradients of its input x and parameters.
void check_layer(const std::string& name, nn::UnaryLayer&& layer) {
  const Golden golden(name);
  INFO(name);
  for (const DType dtype : {float64, float32}) {
    layer.to(dtype);
    nn::StateDict state;
    for (const auto& [field, parameter] : layer.named_parameters()) state.emplace_back(field, golden(field));
    layer.load_state_dict(state);
    const Tensor x = golden.has("ids") ? golden("ids") : leaf_of(golden, "x", dtype);
    const Tensor y = layer(x);
    check_close("y", y, golden("y"), dtype);
    y.backward(golden("d_y"));
    if (x.requires_grad()) check_close("gradient of x", x.grad(), golden("d_x"), dtype);
    for (const auto& [field, parameter] : layer.named_parameters())
      check_close("gradient of " + field, parameter.grad(), golden("d_" + field), dtype);
  }
}

// The path of a parameter over the stored gradients; five times the same, for whole vectors and what is left of one.
template <class Optimizer, class Options>
void check_optimizer(const std::string& name, const Options& options) {
  INFO(name);
  const Golden given("optimisers"), expected("optimisers/" + name);
  const auto five_times = [](const Tensor& x) { return broadcast_to(x, Shape{5, x.size(0)}); };
  for (const DType dtype : {float64, float32}) {
    Tensor parameter = five_times(given("start").to(dtype)).requires_grad_();
    const Tensor gradients = given("gradients").to(dtype), path = expected("path");
    Optimizer optimizer({parameter}, options);
    for (std::int64_t step = 0; step < gradients.size(0); ++step) {
      parameter.set_grad(five_times(index(gradients, {step})));
      optimizer.step();
      check_close("step " + std::to_string(step), parameter, five_times(index(path, {step})), dtype);
    }
  }
}

Tensor below_each_other(const Tensor& q, const Tensor& k, const Tensor& v) { return cat({q, k, v}, 0); }

// nn.MultiheadAttention's parameters in our layer, its output, weights per head, and all gradients.
void check_multihead(const std::string& name, nn::MultiHeadAttentionOptions options, bool as_mask = false) {
  const Golden golden("mha/" + name);
  INFO("mha/" << name);
  constexpr int width = 8, heads = 2;
  const bool own_widths = golden.has("q_proj_weight");
  options.dropout(0).bias(golden.has("in_proj_bias"));
  for (const DType dtype : {float64, float32}) {
    nn::MultiHeadAttention layer(width, heads, options);
    layer.to(dtype);
    nn::StateDict theirs;
    for (const char* name : {"in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"})
      if (golden.has(name)) theirs.emplace_back(name, golden(name));
    for (const std::string kind : {"weight", "bias"})
      if (golden.has("out_proj_" + kind)) theirs.emplace_back("out_proj." + kind, golden("out_proj_" + kind));
    nn::load_weights(layer, theirs, nn::torch_names(layer));
    const bool self = !golden.has("key");
    const Tensor query = leaf_of(golden, "query", dtype), key = self ? query : leaf_of(golden, "key", dtype),
                 value = self ? query : leaf_of(golden, "value", dtype);
    MaskAndBias hidden;
    Tensor added;
    if (golden.has("key_padding_mask"))
      hidden = mask_from_torch(golden("key_padding_mask"), TorchMask::key_padding);
    else if (golden.has("d_attn_mask"))
      hidden = mask_from_torch(added = leaf_of(golden, "attn_mask", dtype), TorchMask::multihead, heads);
    else if (golden.has("attn_mask") && as_mask)
      hidden = mask_from_torch(golden("attn_mask"), TorchMask::multihead, heads);

    const auto masks = AttentionTerms(hidden.mask).bias(hidden.bias);
    const auto [y, weights] = layer(query, key, value, masks, nn::return_attention);
    check_close("y", y, golden("y"), dtype);
    check_close("weights", weights, golden("weights"), dtype);
    CHECK(same_bits(layer(query, key, value, masks), y));
    (sum(y * golden("d_y")) + sum(weights * golden("d_weights"))).backward();

    const auto check_gradient = [&](const std::string& of, const Tensor& g) {
      check_close("gradient of " + of, g, golden("d_" + of), dtype);
    };
    check_gradient("query", query.grad());
    if (!self) check_gradient("key", key.grad());
    if (!self) check_gradient("value", value.grad());
    if (added.defined()) check_gradient("attn_mask", added.grad());
    const nn::Linear &q = layer.w_q, &k = layer.w_k, &v = layer.w_v;
    check_gradient("out_proj_weight", layer.w_o.weight.grad());
    if (options.bias()) {
      check_gradient("out_proj_bias", layer.w_o.bias.grad());
      check_gradient("in_proj_bias", below_each_other(q.bias.grad(), k.bias.grad(), v.bias.grad()));
    }
    if (own_widths) {
      check_gradient("q_proj_weight", q.weight.grad());
      check_gradient("k_proj_weight", k.weight.grad());
      check_gradient("v_proj_weight", v.weight.grad());
    } else {
      check_gradient("in_proj_weight", below_each_other(q.weight.grad(), k.weight.grad(), v.weight.grad()));
    }
  }
}

void check_sdpa(const std::string& name, const AttentionOptions& given = {}) {
  const Golden golden("sdpa/" + name);
  const bool learned = golden.has("d_mask");
  check_function("sdpa/" + name, learned ? Names{"q", "k", "v", "mask"} : Names{"q", "k", "v"}, [&](const Values& in) {
    AttentionOptions options = given;
    if (golden.has("mask")) {
      const MaskAndBias both = mask_from_torch(learned ? in[3] : golden("mask"), TorchMask::sdpa);
      options.mask(both.mask).bias(both.bias);
    }
    return scaled_dot_product_attention(in[0], in[1], in[2], options);
  });
}

}  // namespace

TEST_CASE("layers agree with PyTorch", "[golden]") {
  check_layer("linear", nn::Linear(4, 6));
  check_layer("layer_norm", nn::LayerNorm(7));
  check_layer("rms_norm", nn::RMSNorm(7));
  check_layer("embedding", nn::Embedding(6, 3, 2));
  check_layer("gelu_exact", nn::GELU());
  check_layer("gelu_tanh", nn::GELU(Gelu::tanh));
  check_layer("silu", nn::SiLU());
  check_layer("softmax", nn::Softmax());
  check_layer("softmax_axis0", nn::Softmax(0));
  check_layer("log_softmax", nn::LogSoftmax());
}

TEST_CASE("scatter_reduce, segment_softmax, glu and lstsq agree with PyTorch", "[golden]") {
  const Tensor ids = Golden("scatter_reduce/sum_joined")("ids");
  for (const auto& [name, reduce] : {std::pair("sum", Reduce::sum), std::pair("mean", Reduce::mean),
                                     std::pair("amax", Reduce::amax), std::pair("amin", Reduce::amin)}) {
    const auto check = [&, reduce = reduce, name = std::string(name)](const char* kind, const Tensor& ids,
                                                                      IncludeSelf include_self) {
      check_function("scatter_reduce/" + name + '_' + kind, {"x", "src"},
                     [&](const Values& in) { return scatter_reduce(in[0], 1, ids, in[1], reduce, include_self); });
    };
    check("joined", ids, IncludeSelf::yes);
    check("replaced", ids, IncludeSelf::no);
    if (reduce == Reduce::amax || reduce == Reduce::amin) check("ties", tensor({{0, 1, 0, 1}}), IncludeSelf::yes);
  }
  check_function("segment_softmax", {"x"},
                 [](const Values& in) { return segment_softmax(in[0], Golden("segment_softmax")("ids")); });
  check_function("glu", {"x"}, [](const Values& in) { return glu(in[0], 1); });
  for (const std::string shape : {"tall", "wide", "square"}) {
    const Golden golden("lstsq/" + shape);
    INFO(shape);
    const Tensor a = leaf_of(golden, "a", float64), b = leaf_of(golden, "b", float64), y = lstsq(a, b);
    y.backward(golden("d_y"));
    // Their driver is another one: rounding is multiplied by the condition of a.
    CHECK(max_difference(y, golden("y")) < 1e-11);
    CHECK(max_difference(a.grad(), golden("d_a")) < 1e-10);
    CHECK(max_difference(b.grad(), golden("d_b")) < 1e-11);
  }
}

TEST_CASE("losses agree with PyTorch", "[golden]") {
  const std::pair<std::string, nn::Reduction> reductions[] = {
      {"mean", nn::Reduction::mean}, {"sum", nn::Reduction::sum}, {"none", nn::Reduction::none}};
  for (const auto& [suffix, reduction] : reductions) {
    const auto r = reduction;
    check_function("mse_" + suffix, {"x", "target"}, [r](const Values& in) { return nn::mse_loss(in[0], in[1], r); });
    for (const std::string& name : {"cross_entropy_" + suffix, "cross_entropy_ignored_" + suffix})
      check_function(name, {"x"}, [r, name](const Values& in) {
        return nn::cross_entropy(in[0], Golden(name)("ids"), nn::CrossEntropyOptions().reduction(r).ignore_index(-1));
      });
  }
  check_function("cross_entropy_batch", {"x"},
                 [](const Values& in) { return nn::cross_entropy(in[0], Golden("cross_entropy_batch")("ids")); });
}

TEST_CASE("losses with all options agree with PyTorch", "[golden]") {
  using namespace nn;
  const Golden given("losses");
  const Tensor ids = given("ids"), some = given("some"), yes = given("yes"), pair = given("pair");
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const std::string suffix = r == Reduction::mean ? "_mean" : r == Reduction::sum ? "_sum" : "_none";
    // One tensor that wants a gradient, or two.
    const auto of_x = [&](const std::string& name, const auto& f) {
      check_function("losses/" + name + suffix, {"x"}, [&](const Values& in) { return f(in[0]); });
    };
    const auto of_both = [&](const std::string& name, const auto& f) {
      check_function("losses/" + name + suffix, {"x", "target"}, [&](const Values& in) { return f(in[0], in[1]); });
    };
    auto weighted = CrossEntropyOptions().ignore_index(-1).weight(given("weight"));
    auto smooth = CrossEntropyOptions().label_smoothing(0.2);
    weighted.reduction(r), smooth.reduction(r);
    CrossEntropyOptions all = weighted;
    all.label_smoothing(0.2);
    of_x("cross_entropy_weighted", [&](const Tensor& x) { return cross_entropy(x, some, weighted); });
    of_x("cross_entropy_smooth", [&](const Tensor& x) { return cross_entropy(x, ids, smooth); });
    of_x("cross_entropy_smooth_weighted", [&](const Tensor& x) { return cross_entropy(x, some, all); });
    of_both("cross_entropy_soft",
            [&](const Tensor& x, const Tensor& t) { return cross_entropy(x, t, CrossEntropyOptions().reduction(r)); });
    of_both("cross_entropy_soft_weighted", [&](const Tensor& x, const Tensor& t) { return cross_entropy(x, t, all); });
    of_x("nll", [&](const Tensor& x) { return nll_loss(x, ids, NLLOptions().reduction(r)); });
    of_x("nll_weighted", [&](const Tensor& x) {
      return nll_loss(x, some, NLLOptions().ignore_index(-1).reduction(r).weight(weighted.weight()));
    });

    const Tensor positive = given("positive");
    of_both("bce",
            [&](const Tensor& x, const Tensor& t) { return binary_cross_entropy(x, t, BCEOptions().reduction(r)); });
    of_x("bce_sure",
         [&](const Tensor& x) { return binary_cross_entropy(x, yes.to(x.dtype()), BCEOptions().reduction(r)); });
    of_x("bce_weighted", [&](const Tensor& x) {
      return binary_cross_entropy(x, yes.to(x.dtype()), BCEOptions().weight(positive).reduction(r));
    });
    of_both("bce_logits", [&](const Tensor& x, const Tensor& t) {
      return binary_cross_entropy_with_logits(x, t, BCEWithLogitsOptions().reduction(r));
    });
    of_both("bce_logits_weighted", [&](const Tensor& x, const Tensor& t) {
      return binary_cross_entropy_with_logits(
          x, t, BCEWithLogitsOptions().weight(positive).pos_weight(positive + 1).reduction(r));
    });
    of_x("focal", [&](const Tensor& x) {
      return focal_loss(x, yes.to(x.dtype()), FocalOptions().alpha(0.25).gamma(2).reduction(r));
    });
    of_x("focal_flat", [&](const Tensor& x) {
      return focal_loss(x, yes.to(x.dtype()), FocalOptions().alpha(0.6).gamma(0.5).reduction(r));
    });

    for (const std::string var : {"full", "one"})
      check_function("gaussian_nll/" + var + suffix, {"x", "target", "var"}, [&](const Values& in) {
        return gaussian_nll_loss(in[0], in[1], in[2], GaussianNLLOptions().full(var == "one").eps(0.05).reduction(r));
      });
    of_both("l1", [&](const Tensor& x, const Tensor& t) { return l1_loss(x, t, r); });
    of_both("smooth_l1", [&](const Tensor& x, const Tensor& t) {
      return smooth_l1_loss(x, t, SmoothL1Options().beta(1).reduction(r));
    });
    of_both("smooth_l1_narrow", [&](const Tensor& x, const Tensor& t) {
      return smooth_l1_loss(x, t, SmoothL1Options().beta(0.25).reduction(r));
    });
    of_both("huber",
            [&](const Tensor& x, const Tensor& t) { return huber_loss(x, t, HuberOptions().delta(1).reduction(r)); });
    of_both("huber_narrow", [&](const Tensor& x, const Tensor& t) {
      return huber_loss(x, t, HuberOptions().delta(0.25).reduction(r));
    });
    of_both("kl_div", [&](const Tensor& x, const Tensor& t) {
      return kl_div(x, t, KLDivOptions().log_target(false).reduction(r));
    });
    of_both("kl_div_log",
            [&](const Tensor& x, const Tensor& t) { return kl_div(x, t, KLDivOptions().log_target().reduction(r)); });
    of_both("cosine_embedding", [&](const Tensor& x, const Tensor& t) {
      return cosine_embedding_loss(x, t, pair, CosineEmbeddingOptions().margin(0).reduction(r));
    });
    of_both("cosine_embedding_margin", [&](const Tensor& x, const Tensor& t) {
      return cosine_embedding_loss(x, t, pair, CosineEmbeddingOptions().margin(0.2).reduction(r));
    });
  }
}

TEST_CASE("optimisers follow PyTorch's path", "[golden]") {
  using namespace optim;
  check_optimizer<SGD>("sgd", SGDOptions().lr(0.05));
  check_optimizer<SGD>("sgd_momentum", SGDOptions().lr(0.05).momentum(0.9));
  check_optimizer<SGD>("sgd_nesterov", SGDOptions().lr(0.05).momentum(0.9).dampening(0).weight_decay(0.1).nesterov());
  check_optimizer<SGD>("sgd_dampened", SGDOptions().lr(0.05).momentum(0.9).dampening(0.5));
  check_optimizer<Adam>("adam", AdamOptions().lr(0.05));
  check_optimizer<Adam>("adam_decay",
                        AdamOptions().lr(0.05).beta1(0.8).beta2(0.95).eps(1e-8).weight_decay(0.1).amsgrad());
  check_optimizer<AdamW>("adamw", AdamWOptions().lr(0.05));
  check_optimizer<AdamW>("adamw_decay", AdamWOptions().lr(0.05).beta1(0.8).beta2(0.95).eps(1e-6).weight_decay(0.1));
  check_optimizer<AdamW>("adamw_amsgrad",
                         AdamWOptions().lr(0.05).beta1(0.8).beta2(0.95).eps(1e-8).weight_decay(0.01).amsgrad());
  check_optimizer<NAdam>("nadam", NAdamOptions().lr(0.05));
  check_optimizer<NAdam>(
      "nadam_decay", NAdamOptions().lr(0.05).beta1(0.8).beta2(0.95).eps(1e-6).weight_decay(0.1).momentum_decay(0.02));
  check_optimizer<NAdam>("nadam_decoupled", NAdamOptions()
                                                .lr(0.05)
                                                .beta1(0.9)
                                                .beta2(0.999)
                                                .eps(1e-8)
                                                .weight_decay(0.1)
                                                .momentum_decay(4e-3)
                                                .decoupled_weight_decay());
  check_optimizer<RAdam>("radam", RAdamOptions().lr(0.05));
  check_optimizer<RAdam>("radam_decay", RAdamOptions().lr(0.05).beta1(0.8).beta2(0.95).eps(1e-3).weight_decay(0.1));
  check_optimizer<RAdam>(
      "radam_decoupled",
      RAdamOptions().lr(0.05).beta1(0.9).beta2(0.999).eps(1e-8).weight_decay(0.1).decoupled_weight_decay());
  check_optimizer<Adamax>("adamax", AdamaxOptions().lr(0.05));
  check_optimizer<Adamax>("adamax_decay", AdamaxOptions().lr(0.05).beta1(0.8).beta2(0.95).eps(1e-3).weight_decay(0.1));
  check_optimizer<RMSprop>("rmsprop", RMSpropOptions().lr(0.05));
  check_optimizer<RMSprop>("rmsprop_momentum",
                           RMSpropOptions().lr(0.01).alpha(0.9).eps(1e-6).weight_decay(0).momentum(0.8));
  check_optimizer<RMSprop>("rmsprop_centered",
                           RMSpropOptions().lr(0.01).alpha(0.99).eps(1e-8).weight_decay(0).momentum(0).centered());
  check_optimizer<RMSprop>("rmsprop_all",
                           RMSpropOptions().lr(0.01).alpha(0.9).eps(1e-8).weight_decay(0.1).momentum(0.8).centered());
  check_optimizer<Adagrad>("adagrad", AdagradOptions().lr(0.05));
  check_optimizer<Adagrad>(
      "adagrad_decay",
      AdagradOptions().lr(0.05).lr_decay(0.1).weight_decay(0.1).initial_accumulator_value(0.5).eps(1e-3));
}

TEST_CASE("multi-head attention agrees with nn.MultiheadAttention", "[golden]") {
  const auto causal = nn::MultiHeadAttentionOptions().causal();
  const auto widths = nn::MultiHeadAttentionOptions().kdim(6).vdim(10);
  check_multihead("self", {});
  check_multihead("cross", {});
  check_multihead("without_bias", {});
  check_multihead("padding", {});
  check_multihead("causal", causal);
  check_multihead("causal", {}, true);
  check_multihead("causal_padding", causal);
  check_multihead("kdim_vdim", widths);
  check_multihead("mask_per_head", {}, true);
  check_multihead("bias_per_head", {});
}

TEST_CASE("scaled_dot_product_attention agrees with PyTorch's", "[golden]") {
  const auto causal = AttentionOptions().causal();
  const auto scaled = AttentionOptions().scale(0.3);
  check_sdpa("plain");
  check_sdpa("other_value_width");
  check_sdpa("scale", scaled);
  check_sdpa("bool_mask");
  check_sdpa("bool_mask_batch");
  check_sdpa("float_mask");
  check_sdpa("float_mask_full");
  check_sdpa("float_mask_heads");
  check_sdpa("causal", causal);
  check_sdpa("grouped");
  check_sdpa("three_axes");
}

}  // namespace fit::test::golden_test
