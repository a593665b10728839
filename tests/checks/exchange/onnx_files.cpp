// onnx_files DIR: writes models as ONNX, with inputs and outputs beside them: NAME.npz is the sample of save_onnx(),
// NAME.other.npz the same with other sizes of the free axes. Checks what save_onnx() refuses.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "fit/fit.hpp"
#include "fit/onnx.hpp"

using namespace fit;

namespace {

std::string folder;
int failures = 0;

void require(bool right, const std::string& what) {
  if (right) return;
  std::cerr << "wrong: " << what << "\n";
  ++failures;
}

using Inputs = std::vector<Tensor>;
using Call = std::function<Tensor(const Inputs&)>;

void save_values(const std::string& path, const Inputs& inputs, const Call& call) {
  StateDict all;
  for (std::size_t i = 0; i < inputs.size(); ++i) all.emplace_back("input_" + std::to_string(i), inputs[i]);
  all.emplace_back("output", call(inputs).detach());
  save_npz(path, all);
}

// Writes a model with either version of ONNX's operations. `free`: how many axes are free, which the second set of
// inputs uses.
void write(const std::string& name, const nn::Layer& model, const Inputs& inputs, const Call& call, std::size_t free,
           const Inputs& other = {}) {
  for (const std::int64_t opset : {17, 23}) {
    const std::string path = folder + '/' + name + '_' + std::to_string(opset);
    const nn::ONNXInfo info =
        nn::save_onnx(path + ".onnx", model, inputs, call, nn::SaveONNXOptions().sample(path + ".npz").opset(opset));
    std::string fixed;
    for (const std::string& why : info.fixed_axes) fixed += "\n  " + why;
    require(info.free_axes.size() == free,
            path + ": " + std::to_string(info.free_axes.size()) + " free axes, not " + std::to_string(free) + fixed);
    if (!other.empty()) save_values(path + ".other.npz", other, call);
  }
}

const nn::Dropout& nothing() {  // the model of a run that is operations alone
  static const nn::Dropout layer = [] {
    nn::Dropout d(0);
    d.eval();
    return d;
  }();
  return layer;
}

// An operation on x [3, 4], with two free axes unless it says so.
void op(const std::string& name, const std::function<Tensor(const Tensor&)>& f, std::size_t free = 2) {
  manual_seed(4);
  const Tensor x = randn({3, 4}), larger = randn({free > 0 ? 5 : 3, free > 1 ? 6 : 4});
  write("op_" + name, nothing(), {x}, [&](const Inputs& in) { return f(in[0]); }, free, {larger});
}

void ops() {
  const Tensor row = tensor({1., -2., 0.5, 3.}).to(float32);
  const auto positive = [](const Tensor& x) { return abs(x) + 0.1; };
  op("add", [](const Tensor& x) { return x + x * 0.5; });
  op("numbers", [](const Tensor& x) { return 2 / (3 - (x + 1) / 4) - x; });
  op(
      "constant", [&](const Tensor& x) { return x * row; }, 1);
  op("pow", [&](const Tensor& x) { return pow(positive(x), 1.5) + pow(positive(x), x) + square(x); });
  op("max_min", [](const Tensor& x) { return maximum(x, x * 2) + minimum(x, x * x); });
  op("exp_log",
     [&](const Tensor& x) { return exp(x) + log(positive(x)) + log1p(positive(x)) + log2(positive(x)) + expm1(x); });
  op("roots", [&](const Tensor& x) { return sqrt(positive(x)) + rsqrt(positive(x)) + reciprocal(positive(x)); });
  op("angles", [](const Tensor& x) {
    return sin(x) + cos(x) + tan(x * 0.3) + tanh(x) + asin(tanh(x)) + acos(tanh(x)) + atan(x);
  });
  op("activations", [](const Tensor& x) {
    return relu(x) + sigmoid(x) + silu(x) + softplus(x) + log_sigmoid(x) + leaky_relu(x, 0.2) + elu(x, 1.3);
  });
  op("hyperbolic", [&](const Tensor& x) {
    return sinh(x) + cosh(x) + asinh(x) + acosh(1 + positive(x)) + atanh(tanh(x)) + log10(positive(x));
  });
  op("more_activations", [](const Tensor& x) {
    return selu(x) + celu(x, 0.7) + mish(x) + softsign(x) + softplus(x, 2) + prelu(x, full({1}, 0.2));
  });
  op("hard",
     [](const Tensor& x) { return hardtanh(x) + 2 * hardsigmoid(4 * x) + 4 * hardswish(3 * x) + 8 * relu6(5 * x); });
  op(
      "cumsum_exclusive", [](const Tensor& x) { return cumsum(x, 1, CumulativeOptions().reverse().exclusive()); }, 1);
  op("gelu", [](const Tensor& x) { return gelu(x) + gelu(x, Gelu::tanh) * 2 + erf(x); });
  op("steps",
     [](const Tensor& x) { return floor(x) + 2 * ceil(x) + 4 * round(x) + 8 * trunc(x) + 16 * sign(x) + abs(neg(x)); });
  op("clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.7) + clamp_min(x, 0.1); });
  op("sum", [](const Tensor& x) { return sum(x, 1, keepdims) + sum(x) + mean(x, 0); });
  op("extremes", [](const Tensor& x) {
    return max(x, 1, keepdims) + amax(x, {0, 1}) + min(x, 0) + amin(x, 0, keepdims);
  });
  op("variance", [](const Tensor& x) {
    return var(x, 1, Correction{0}, keepdims) + var(x, 1, Correction{1}, keepdims) +
           fit::std(x, 1, Correction{1}, keepdims);
  });
  op("logsumexp", [](const Tensor& x) { return logsumexp(x, 1, keepdims) + logsumexp(x, {0, 1}); });
  op("cumsum", [](const Tensor& x) { return cumsum(x, 1); });
  op("softmax", [](const Tensor& x) { return softmax(x, 1) + log_softmax(x, 0); });
  op(
      "layer_norm", [&](const Tensor& x) { return layer_norm(x, row, {}, 1e-5) + layer_norm(x, {}, {}, 1e-3); }, 1);
  op("rms_norm", [](const Tensor& x) { return rms_norm(x, {}, 1e-6); });
  op("matmul", [](const Tensor& x) { return matmul(matmul(x, Transpose::no, x, Transpose::yes), x); });
  op("transpose", [](const Tensor& x) { return transpose(x, 0, 1) * 2; });
  op("reshape", [](const Tensor& x) { return squeeze(unsqueeze(x, 1), 1) + reshape(x, x.shape()); });
  op("flatten", [](const Tensor& x) { return flatten(x) * 2; });
  op("permute", [](const Tensor& x) { return permute(unsqueeze(x, 0), {2, 0, 1}); });
  op("broadcast", [](const Tensor& x) { return broadcast_to(unsqueeze(x, 0), x.shape().inserted(0, 3)); });
  op("cat", [](const Tensor& x) { return cat({x, x * 2, x}, 1) + cat({x, x, x}, 1); });
  op("slice", [](const Tensor& x) { return x[{range(), range(1, 3)}] + x[{range(), 0}].unsqueeze(1); });
  op(
      "slice_steps",
      [](const Tensor& x) {
        return x[{range(0, 3, 2), range(3, Range::none, -1)}];
      },
      0);
  op(
      "split",
      [](const Tensor& x) {
        return split(x, std::vector<std::int64_t>{1, x.size(1) - 1}, 1)[1] * 2;
      },
      1);
  op("triangles", [](const Tensor& x) { return tril(x) + 2 * triu(x, 1); });
  op("index_select", [](const Tensor& x) { return index_select(x, 1, tensor({2, 0, 2})); });
  op("to", [](const Tensor& x) { return x.to(float64) * 1.5; });
  op("products", [&](const Tensor& x) { return prod(x, 1, keepdims) + norm(x, 2, 1, keepdims) + norm(x, 1, 0); });
  op("cdist", [](const Tensor& x) { return cdist(x, x * 2 + 1); });
  op("flip", [](const Tensor& x) { return flip(x, {0, 1}) + 2 * flip(x, {1}); });
  op("roll", [](const Tensor& x) { return roll(x, 1, 1) + 2 * roll(x, -1, 0) + 4 * roll(x, 0, 1); });
  op("pad", [](const Tensor& x) {
    return pad(x, {1, 2, 0, 1}, PadMode::constant, 0.5) + pad(pad(x, {3, -1}), {0, 1, 2, -1});
  });
  op("loss", [](const Tensor& x) { return nn::mse_loss(x, x * 0); });
  op("near_0", [](const Tensor& x) { return 1e6 * (log1p(x * 1e-6) + expm1(x * 1e-6)); });
  op("near_0_double", [](const Tensor& x) {
    const Tensor small = x.to(float64) * 1e-9;
    return 1e9 * (log1p(small) + expm1(small));
  });
  op("far_from_0", [](const Tensor& x) { return log1p(abs(x) * 1e30) + expm1(x * 3) + expm1(-200 * abs(x)); });
  op("norm_of_number", [](const Tensor& x) { return norm(sum(-abs(x))) + x; });
  op("layer_norm_of_free_axis", [](const Tensor& x) { return layer_norm(x, {}, {}, 1e-3); });
}

// A number that depends on the size of an axis: the axis is fixed.
void sizes() {
  op(
      "by_size", [](const Tensor& x) { return sum(x, 1, keepdims) / static_cast<double>(x.size(1)); }, 1);
  op(
      "power_of_size", [](const Tensor& x) { return pow(abs(x), static_cast<double>(x.size(1))); }, 1);
  op(
      "clamp_by_size", [](const Tensor& x) { return clamp(x, -1, 1. / static_cast<double>(x.size(1))); }, 1);
  op(
      "diagonal_by_size", [](const Tensor& x) { return tril(x, x.size(1) - 3); }, 1);
  op(
      "no_number",
      [](const Tensor& x) {
        return where(tensor({true, true, true, true}), x, std::nan(""));
      },
      1);
  // Two sizes alone are not enough.
  op(
      "first_six",
      [](const Tensor& x) {
        return x[{range(), range(0, 6)}] * 2;
      },
      1);
  op(
      "every_second",
      [](const Tensor& x) {
        return x[{range(), range(0, Range::none, 2)}] * 2;
      },
      1);
  op(
      "counted_to_five",
      [](const Tensor& x) { return index_select(x, 1, minimum(arange(x.size(1)), full({}, 5, int64))); }, 1);
  op(
      "kind_by_size", [](const Tensor& x) { return x.size(1) > 9 ? tril(x) : x * 1; }, 1);
  op(
      "joined_by_size",
      [](const Tensor& x) {
        return cat({x, zeros({x.size(0), x.size(1) / 6})}, 1);
      },
      0);
  op(
      "operand_by_size",
      [](const Tensor& x) {
        const Tensor a = x * 2, b = x * 3;
        return (x.size(1) > 9 ? a : b) + 1;
      },
      1);
  const Call turned = [](const Inputs& in) { return rotary(in[0], nn::rotary_table(in[0].size(1), 4)); };
  write("op_table_by_size", nothing(), {randn({2, 5, 4})}, turned, 2, {randn({3, 9, 4})});
  const Call one = [](const Inputs& in) { return slice(in[0], 1, 0, 1) * 2; };
  write("op_first_one", nothing(), {randn({3, 1})}, one, 2, {randn({5, 6})});
}

struct Named final : nn::UnaryLayer {  // a parameter with a name that values of a file have
  Tensor forward(const Tensor& x) const override { return relu(x * 2) * value_1 + 1; }
  FIT_FIELDS_ONLY(value_1)
  nn::Parameter value_1{ones({1})};
};

void inputs() {
  const Tensor x = randn({3, 4});
  const Call difference = [](const Inputs& in) { return in[0] * 2 - in[1]; };
  write("inputs_equal", nothing(), {x, x}, difference, 2, {randn({5, 6}), randn({5, 6})});
  write("inputs_shared", nothing(), {x, x.alias(x.shape())}, difference, 2, {randn({5, 6}), randn({5, 6})});
  nn::BERT bert(nn::BERTOptions().vocab_size(11).max_length(16).num_layers(1).num_heads(2).d_model(8));
  bert.eval();
  const Call masked = [&](const Inputs& in) { return bert(in[0], in[1]); };
  write("inputs_mask", bert, {randint(1, 11, {2, 6}), ones({2, 1, 6}, boolean)}, masked, 2,
        {randint(1, 11, {3, 9}), ones({3, 1, 9}, boolean)});
  write("inputs_padding_mask", bert, {randint(1, 11, {2, 6}), ones({2, 1, 1, 6}, boolean)}, masked, 2,
        {randint(1, 11, {3, 9}), ones({3, 1, 1, 9}, boolean)});
  write("inputs_square_mask", bert, {randint(1, 11, {2, 6}), ones({2, 6, 6}, boolean)}, masked, 2,
        {randint(1, 11, {3, 9}), ones({3, 9, 9}, boolean)});
  Named named;
  named.eval();
  write("inputs_value_1", named, {x}, [&](const Inputs& in) { return named(in[0]); }, 2, {randn({5, 6})});
  manual_seed(3);
  const Tensor next = rand({4});
  manual_seed(3);
  nn::save_onnx(folder + "/inputs_names.onnx", nothing(), {x}, nn::SaveONNXOptions().input_names({"value_1"}));
  require(equal(next, rand({4})), "save_onnx() draws from the default generator");
}

template <class Model>
void layer(const std::string& name, Model model, const Tensor& x, std::size_t free, const Tensor& other) {
  model.eval();
  write("layer_" + name, model, {x}, [&](const Inputs& in) { return model(in[0]); }, free, {other});
}

struct VisionTransformer final : nn::UnaryLayer {  // images [B, 8, 8] -> [B, 3]
  Tensor forward(const Tensor& x) const override {
    const Tensor parts = permute(reshape(x, {-1, 4, 2, 4, 2}), {0, 1, 3, 2, 4});  // 16 patches of 2 x 2
    return out(mean(encoder(patch(reshape(parts, {-1, 16, 4})) + place.weight), 1));
  }
  FIT_FIELDS_ONLY(patch, place, encoder, out)
  nn::Linear patch{4, 8};
  nn::Embedding place{16, 8};
  nn::TransformerEncoder encoder{nn::TransformerLayerOptions().d_model(8).num_heads(2).hidden(16), 2};
  nn::Linear out{8, 3};
};

void layers() {
  manual_seed(6);
  const Tensor x = randn({2, 5, 8}), other = randn({3, 7, 8});
  layer("linear", nn::Linear(8, 3), x, 2, other);
  layer("norms", nn::Sequential{nn::LayerNorm(8), nn::RMSNorm(8), nn::Linear(8, 8)}, x, 2, other);
  layer("feed_forward", nn::FeedForward(8, 16), x, 2, other);
  layer("swiglu", nn::FeedForward(8, 16, nn::FeedForwardOptions().activation(nn::Activation::swiglu)), x, 2, other);
  layer("self_attention", nn::SelfAttention(8, 2), x, 2, other);
  layer("causal", nn::CausalSelfAttention(8, 2), x, 2, other);
  layer("encoder", nn::TransformerEncoder(nn::TransformerLayerOptions().d_model(8).num_heads(2).hidden(16), 2), x, 2,
        other);
  const Tensor images = randn({2, 4, 9, 8}), more_images = randn({3, 4, 9, 8}), signals = randn({2, 4, 9});
  layer("conv1d", nn::Conv1d(4, 6, 3, ConvOptions().stride(2).padding(1)), signals, 1, randn({5, 4, 9}));
  layer("conv2d", nn::Conv2d(4, 6, 3, ConvOptions().stride({2, 1}).padding({1, 2}).groups(2)), images, 1, more_images);
  const auto up = ConvOptions().stride({2, 3}).padding({1, 2}).output_padding({1, 0}).groups(2);
  layer("conv_transpose1d", nn::ConvTranspose1d(4, 6, 3, ConvOptions().stride(2).dilation(2)), signals, 1,
        randn({5, 4, 9}));
  layer("conv_transpose2d", nn::ConvTranspose2d(4, 6, 3, up), images, 1, more_images);
  const auto larger = InterpolateOptions().scale_factor(1.5).mode(Interpolation::linear);
  layer("larger", nn::Upsample(larger), images, 1, more_images);
  layer("larger_signals", nn::Upsample(InterpolateOptions().size(13)), signals, 2, randn({5, 3, 9}));
  layer("shuffled", nn::Sequential{nn::PixelShuffle(2), nn::PixelUnshuffle(1)}, images, 1, more_images);
  layer("dilated", nn::Conv2d(4, 6, 2, ConvOptions().dilation(2)), images, 1, more_images);
  const auto pools = [](const Inputs& in) {
    return avg_pool2d(max_pool2d(in[0], 3, PoolOptions().stride(1).padding(1)), 2);
  };
  write("layer_pools", nothing(), {images}, pools, 1, {more_images});
  const auto pools_1d = [](const Inputs& in) {
    return avg_pool1d(max_pool1d(in[0], 2), 3, PoolOptions().stride(1).padding(1));
  };
  write("layer_pools_1d", nothing(), {signals}, pools_1d, 2, {randn({5, 3, 9})});
  layer("image_net",
        nn::Sequential{nn::Conv2d(4, 6, 3), nn::BatchNorm(6), nn::ReLU(), nn::GroupNorm(2, 6), nn::Flatten(),
                       nn::Linear(6 * 7 * 6, 3)},
        images, 1, more_images);
  const auto batch = [](const Inputs& in) { return group_norm(batch_norm(glu(in[0], 1), {}, {}), 2); };
  write("layer_batch_norm", nothing(), {images}, batch, 1, {more_images});
  layer("lstm", nn::LSTM(8, 6, nn::RecurrentOptions().num_layers(2)), x, 2, other);
  layer("gru", nn::GRU(8, 6), x, 2, other);
  layer("rnn", nn::RNN(8, 6), x, 2, other);
  layer("gru_both", nn::GRU(8, 6, nn::RecurrentOptions().bidirectional(true).bias(false)), x, 2, other);
  layer("vision", VisionTransformer(), randn({2, 8, 8}), 1, randn({5, 8, 8}));
  layer("embedding", nn::Embedding(11, 8), randint(0, 11, {2, 5}), 2, randint(0, 11, {4, 3}));
}

nn::GPTOptions small() {
  return nn::GPTOptions().vocab_size(13).context_length(12).num_layers(2).num_heads(4).d_model(16);
}

// A model that decodes step by step, and its logits of whole sequences.
void with_cache(const std::string& name, const nn::GPT& model, const Tensor& ids) {
  const std::string path = folder + "/cache_" + name;
  const nn::ONNXInfo info =
      nn::save_onnx_with_cache(path + ".onnx", model, nn::SaveONNXOptions().sample(path + ".npz").opset(23));
  std::string all;
  for (const nn::ONNXAxis& axis : info.free_axes) all += axis.name + ' ';
  for (const std::string& why : info.fixed_axes) all += "\n  " + why;
  require(all == "batch sequence past ", path + ": the free axes are " + all);
  save_npz(path + ".whole.npz", {{"ids", ids}, {"logits", model(ids)}});
}

void gpts() {
  manual_seed(7);
  const Tensor ids = randint(0, 13, {2, 6}), other = randint(0, 13, {3, 9});
  const auto gpt = [&](const std::string& name, const nn::GPTOptions& o) {
    nn::GPT model(o);
    model.eval();
    const NoGrad no_grad;
    for (const Tensor& p : model.parameters()) Tensor(p).add_(0.1 * randn(p.shape()));
    write("gpt_" + name, model, {ids}, [&](const Inputs& in) { return model(in[0]); }, 2, {other});
    with_cache(name, model, other);
  };
  gpt("learned", small());
  gpt("window", small().window(3));
  gpt("long_window", small().window(7));  // longer than the example
  gpt("alibi", small().positions(nn::Positions::alibi));
  gpt("sinusoidal", small().positions(nn::Positions::sinusoidal));
  const auto llama = small()
                         .num_kv_heads(2)
                         .bias(false)
                         .positions(nn::Positions::rotary)
                         .norm(nn::Norm::rms)
                         .activation(nn::Activation::swiglu);
  gpt("llama", llama);
  gpt("qwen3", nn::GPTOptions(llama).qk_norm().logit_cap(20));
  gpt("part_rotary", nn::GPTOptions(llama).head_size(6).rotary_features(4));  // as Phi 3
  gpt("neox", small().positions(nn::Positions::rotary).rotary_features(2).parallel(true));
  gpt("part_interleaved",
      nn::GPTOptions(llama).head_size(6).rotary_features(4).rotary_layout(RotaryLayout::interleaved));
  gpt("interleaved", nn::GPTOptions(llama).rotary_layout(RotaryLayout::interleaved));
}

struct Own final : nn::Layer {  // a layer of a user, of two inputs
  Tensor forward(const Tensor& a, const Tensor& b) const {
    return out(relu(left(a)) * sigmoid(right(b))) + mean(b, 1, keepdims);
  }
  FIT_FIELDS(left, right, out)
  nn::Linear left{4, 6}, right{3, 6}, out{6, 1};
};

struct Marked final : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return inner(x); }
  FIT_FIELDS_ONLY(inner)
  struct Inner final : nn::UnaryLayer {
    Tensor forward(const Tensor& x) const override { return sum(svd(x).s); }
    FIT_FIELDS_ONLY(weight)
    nn::Linear weight{1, 1};
  } inner;
};

void refuse(const std::string& what, const std::function<void(const std::string&)>& save,
            std::initializer_list<const char*> words) {
  const std::string path = folder + "/refused.onnx";
  try {
    save(path);
    require(false, what + " is written");
  } catch (const Error& error) {
    for (const char* word : words)
      require(std::string(error.what()).find(word) != std::string::npos, what + ": " + error.what());
  }
  require(!std::filesystem::exists(path), what + " leaves a file");
}

void refusals() {
  const Tensor x = randn({3, 4});
  refuse("training", [&](const std::string& p) { nn::save_onnx(p, nn::Linear(4, 2), {x}); }, {"training mode"});
  nn::Linear linear(4, 2);
  linear.eval();
  refuse("autocast",
         [&](const std::string& p) {
           const Autocast lower(bfloat16);
           nn::save_onnx(p, linear, {x});
         },
         {"Autocast is active"});
  Marked marked;
  marked.eval();
  refuse("svd", [&](const std::string& p) { nn::save_onnx(p, marked, {x}); },
         {"operation svd in inner", "no ONNX form"});
  const auto run = [&](const std::function<Tensor(const Tensor&)>& f) {
    return [f](const std::string& p) {
      nn::save_onnx(p, nothing(), {randn({3, 4})}, [&](const Inputs& in) { return f(in[0]); });
    };
  };
  refuse("a condition", run([](const Tensor& x) { return where(gt(x, 0), x, 0); }),
         {"operation where", "computed from the inputs"});
  const auto positive = [](const std::function<Tensor(const Tensor&)>& f) {
    return [f](const std::string& p) {
      nn::save_onnx(p, nothing(), {rand({3, 4}) + 1}, [&](const Inputs& in) { return f(in[0]); });
    };
  };
  refuse("a condition that holds", positive([](const Tensor& x) { return where(gt(x, 0), x * 2, x); }),
         {"operation where", "computed from the inputs"});
  refuse("an operand", positive([](const Tensor& x) {
           const Tensor a = x * 2, b = x * 3;
           return (min(x).item() > 0 ? a : b) + 1;
         }),
         {"other operations with other values"});
  refuse("a quotient", run([](const Tensor& x) { return x / max(abs(x)).item(); }),
         {"operation div has other = ", "values of the inputs"});
  refuse("limits", run([](const Tensor& x) { return clamp(x, -1, max(x).item()); }), {"operation clamp has high = "});
  refuse("a filling", run([](const Tensor& x) {
           return where(tensor({true, true, false, true}), x, min(x).item());
         }),
         {"operation where has other = "});
  refuse("ids", run([](const Tensor& x) { return index_select(x, 1, argmax(x, 1)) * 2; }),
         {"index_select", "computed from the inputs"});
  refuse("an equality that no run meets", run([](const Tensor& x) { return where(x == 0, 1, x); }),
         {"operation where", "[3, 4] of boolean", "computed from the inputs"});
  refuse("a test for NaN", run([](const Tensor& x) { return masked_fill(x * 2, isnan(x * 2), 0); }),
         {"operation masked_fill", "computed from the inputs"});
  refuse("all finite", run([](const Tensor& x) { return x * all(isfinite(x), 1, keepdims).to(float32); }),
         {"operation to", "[3, 1] of boolean", "computed from the inputs"});
  refuse("two conditions", run([](const Tensor& x) { return where(!(x < 1e9 && x != 0.25), 0, x); }),
         {"operation where", "computed from the inputs"});
  refuse("bfloat16", run([](const Tensor& x) { return (x.to(bfloat16) * 2).to(float32); }), {"bfloat16"});
  refuse("no run", run([](const Tensor&) { return ones({2}); }), {"output was not computed"});
  refuse("no inputs",
         [&](const std::string& p) { nn::save_onnx(p, nothing(), Inputs{}, [](const Inputs&) { return ones({1}); }); },
         {"no example inputs"});
}

void refused_names() {
  const nn::Linear linear = [] {
    nn::Linear l(4, 2);
    l.eval();
    return l;
  }();
  const auto named = [&](const std::vector<std::string>& in, const std::vector<std::string>& out) {
    return [&linear, in, out](const std::string& p) {
      const auto run = [&](const Inputs& x) { return std::vector<Tensor>(out.size(), linear(x[0] + x[1])); };
      nn::save_onnx(p, linear, {randn({3, 4}), randn({3, 4})}, run,
                    nn::SaveONNXOptions().input_names(in).output_names(out));
    };
  };
  refuse("equal inputs", named({"x", "x"}, {"y"}), {"input 0 and input 1 have the name x"});
  refuse("equal results", named({"a", "b"}, {"y", "y"}), {"result 0 and result 1 have the name y"});
  refuse("an input as a result", named({"a", "y"}, {"y"}), {"input 1 and result 0 have the name y"});
  refuse("an input as a weight", named({"a", "weight"}, {"y"}), {"input 1 and a tensor of the model", "weight"});
  refuse("an empty name", named({"a", ""}, {"y"}), {"name of input 1 is empty"});
  refuse("no results", named({"a", "b"}, {}), {"no result"});
}

void refused_masks() {
  nn::BERT bert(nn::BERTOptions().vocab_size(11).max_length(16).num_layers(1).num_heads(2).d_model(8));
  bert.eval();
  const Tensor ids = ones({2, 6}, int64), mask = tensor({{{1, 1, 1, 1, 1, 1}}, {{1, 1, 1, 0, 0, 0}}}).to(boolean);
  refuse("padding",
         [&](const std::string& p) {
           nn::save_onnx(p, bert, {ids, mask});
         },
         {"mask with padding", "true everywhere"});
  const auto of_ids = [&](const Inputs& in) { return bert(in[0], create_padding_mask(in[0], 0)); };
  refuse("padding of ids", [&](const std::string& p) { nn::save_onnx(p, bert, {ids}, of_ids); },
         {"operation attention", "[2, 1, 6] of boolean", "computed from the inputs"});
  const auto of_others = [&](const Inputs& in) { return bert(in[0], create_padding_mask(in[0], 10)); };
  refuse("padding by an id that the example lacks",
         [&](const std::string& p) { nn::save_onnx(p, bert, {ids}, of_others); },
         {"operation attention", "[2, 1, 6] of boolean", "computed from the inputs"});
  const auto mean_of_tokens = [&](const Inputs& in) {
    const Tensor weights = unsqueeze((in[0] != 10).to(float32), -1);
    return sum(bert(in[0]) * weights, 1) / sum(weights, 1);
  };
  refuse("a mean without padding", [&](const std::string& p) { nn::save_onnx(p, bert, {ids}, mean_of_tokens); },
         {"operation to", "[2, 6] of boolean", "computed from the inputs"});
  const auto turned = [](const Inputs& in) { return where(logical_not(in[1]), in[0], 0); };
  refuse("a turned mask",
         [&](const std::string& p) {
           nn::save_onnx(p, nothing(), {randn({2, 6}), ones({2, 6}, boolean)}, turned);
         },
         {"operation where", "computed from the inputs"});
  const Tensor all = ones({2, 1, 1, 6}, boolean);
  const Call reshaped = [&](const Inputs& in) { return bert(in[0], in[1].reshape({-1, 1, in[1].size(3)})); };
  refuse("a reshaped mask",
         [&](const std::string& p) {
           nn::save_onnx(p, bert, {ids, all}, reshaped);
         },
         {"operation attention", "[2, 1, 6] of boolean", "computed from the inputs"});
  nn::BERT one(nn::BERTOptions().vocab_size(11).max_length(16).num_layers(1).num_heads(2).d_model(8).num_segments(1));
  one.eval();
  const Call of_one = [&](const Inputs& in) { return one(in[0], in[1].reshape({-1, 1, in[1].size(3)}), in[2]); };
  refuse("a reshaped mask beside the only segment",  // another number of a segment is an Error
         [&](const std::string& p) {
           nn::save_onnx(p, one, {ids, all, zeros({2, 6}, int64)}, of_one);
         },
         {"operation attention", "[2, 1, 6] of boolean", "computed from the inputs"});
  const Call pooled = [&](const Inputs& in) {
    const Tensor weights = in[1].reshape({in[1].size(0), -1, 1}).to(float32);
    return sum(bert(in[0], in[1]) * weights, 1) / sum(weights, 1);
  };
  refuse("a mean by a mask",
         [&](const std::string& p) {
           nn::save_onnx(p, bert, {ids, all}, pooled);
         },
         {"operation to", "[2, 6, 1] of boolean", "computed from the inputs"});
  nn::quantize_(bert);
  refuse("int8", [&](const std::string& p) { nn::save_onnx(p, bert, {ids}); }, {"quantised", "int8"});
}

}  // namespace

int main(int, char** argv) {
  folder = argv[1];
  ops();
  sizes();
  inputs();
  layers();
  gpts();
  manual_seed(8);
  Own own;
  own.eval();
  const nn::ONNXInfo info = nn::save_onnx(
      folder + "/own.onnx", own, {randn({2, 4}), randn({2, 3})},
      nn::SaveONNXOptions().input_names({"left", "right"}).output_name("score").sample(folder + "/own.npz"));
  require(info.inputs == std::vector<std::string>{"left: float32 [batch, 4]", "right: float32 [batch, 3]"},
          info.inputs[0]);
  require(info.outputs == std::vector<std::string>{"score: float32 [batch, 1]"}, info.outputs[0]);
  refusals();
  refused_names();
  refused_masks();
  return failures > 0;
}
