#include "fit/backward/gradcheck.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/attention/attention_recorder.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::attention_layers_test {
namespace {

Tensor random(const Shape& shape, unsigned seed = 1, DType dtype = float32) {
  std::mt19937_64 engine(seed);
  return random_tensor(shape, domain::real, engine, dtype);
}

// sin(phase + 0.7 i) for element i.
Tensor wave(double phase, const Shape& shape) {
  Tensor x = Tensor::empty(shape, float64);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.fresh<double>()[i] = std::sin(phase + 0.7 * static_cast<double>(i));
  return x;
}

double magnitude(const Tensor& x) { return x.defined() ? sum(abs(x)).item() : 0; }

}  // namespace

// ---- against PyTorch ----------------------------------------------------------------------------------------------

TEST_CASE("MultiHeadAttention agrees with PyTorch's nn.MultiheadAttention, weights and gradients too") {
  // PyTorch 2.13, with wave(phase, *shape) as above:
  //   m = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)
  //   m.in_proj_weight, m.in_proj_bias, m.out_proj.weight, m.out_proj.bias =
  //       wave(0, 12, 4), wave(1, 12), wave(2, 4, 4), wave(3, 4)
  //   q, kv, pad = wave(4, 2, 2, 4), wave(5, 2, 3, 4), torch.tensor([[False, False, True], [False] * 3])
  //   y, w = m(q, kv, kv, key_padding_mask=pad, average_attn_weights=False)
  //   (y * wave(6, 2, 2, 4)).sum().backward()
  const std::vector<double> y{-1.42722020, 0.23561127,  -0.82570517, -1.92850784, -0.40505141, -0.87064149,
                              0.23679818,  -2.82448386, -1.46144137, 0.29856495,  -0.91011673, -1.83239262,
                              1.44667046,  -2.56754632, 1.58279958,  -3.66404422},
      w{0.00122741, 0.99877259, 0.00000000, 0.99973762, 0.00026238, 0.00000000, 0.86198950, 0.13801050,
        0.00000000, 0.96745066, 0.03254934, 0.00000000, 0.94851531, 0.00037757, 0.05110712, 0.00257308,
        0.94761634, 0.04981058, 0.60318627, 0.01195132, 0.38486241, 0.00004564, 0.99978002, 0.00017433},
      dq{-0.20465186, -0.03843833, 0.14585336,  0.26154793,  0.07514743,  0.01390381, -0.05387898, -0.09632165,
         0.00754602,  -0.00321028, -0.01245674, -0.01584460, -0.02453462, 0.04007872, 0.08584241,  0.09123307},
      dkv{-0.19089816, -0.25496468, -0.19911733, -0.04962198, 0.19592684, 0.17342541, 0.06935930, -0.06732758,
          0.00000000,  0.00000000,  0.00000000,  0.00000000,  0.06906257, 0.24937024, 0.31239518, 0.22849579,
          -0.13409898, -0.46597807, -0.57870039, -0.41925088, 0.07631043, 0.21945989, 0.25939393, 0.17733095},
      dw_o{4.28897133,  -2.77491172, 2.87838089,  -0.87945421, 1.44733823,  -0.79000272, 1.69947560,  -0.03608878,
           -2.07500065, 1.56645691,  -0.27871963, 0.82424977,  -4.62143430, 3.18618737,  -2.12582866, 1.29693077},
      dq_bias{0.01304518, -0.05890805, 0.12116443, -0.05882580},
      dv_bias{0.14304164, 0.04953461, -0.06726931, -0.15243543};
  nn::MultiHeadAttention mha(4, 2);
  mha.to(float64);
  nn::load_weights(mha,
                   {{"in_proj_weight", wave(0, {12, 4})},
                    {"in_proj_bias", wave(1, {12})},
                    {"out_proj.weight", wave(2, {4, 4})},
                    {"out_proj.bias", wave(3, {4})}},
                   nn::torch_names(mha));
  mha.eval();
  Tensor q = wave(4, {2, 2, 4}).requires_grad_(), kv = wave(5, {2, 3, 4}).requires_grad_();
  const Tensor hide = tensor({{false, false, true}, {false, false, false}});
  const Tensor mask = mask_from_torch(hide, TorchMask::key_padding).mask;
  const auto [output, weights] = mha(q, kv, kv, mask, nn::return_attention);
  sum(output * wave(6, {2, 2, 4})).backward();
  CHECK(max_difference(output, tensor(y, {2, 2, 4})) < 1e-8);
  CHECK(max_difference(weights, tensor(w, {2, 2, 2, 3})) < 1e-8);
  CHECK(max_difference(q.grad(), tensor(dq, {2, 2, 4})) < 1e-8);
  CHECK(max_difference(kv.grad(), tensor(dkv, {2, 3, 4})) < 1e-8);
  CHECK(max_difference(mha.w_o.weight.grad(), tensor(dw_o, {4, 4})) < 1e-8);
  CHECK(max_difference(mha.w_q.bias.grad(), tensor(dq_bias, {4})) < 1e-8);
  CHECK(max_difference(mha.w_v.bias.grad(), tensor(dv_bias, {4})) < 1e-8);
}

// ---- what was broken elsewhere ------------------------------------------------------------------------------------

TEST_CASE("the graph is whole: the input and every parameter get a gradient, and w_k.bias's is zero") {
  for (const bool weights : {false, true}) {
    nn::SelfAttention layer(8, 2, 0.0);
    Tensor x = random({3, 5, 8}).requires_grad_();
    Tensor loss;
    if (weights) {
      const auto [y, w] = layer(x, nn::return_attention);
      loss = sum(y * random({3, 5, 8}, 2)) + sum(w * random({3, 2, 5, 5}, 3));
    } else {
      loss = sum(layer(x) * random({3, 5, 8}, 2));
    }
    loss.backward();
    CHECK(magnitude(x.grad()) > 0.1);
    const nn::StateDict parameters = layer.named_parameters();
    CHECK(parameters.size() == 8);
    for (const auto& [name, p] : parameters) {
      INFO(name);
      REQUIRE(p.has_grad());
      if (name == "multihead_attn.w_k.bias")
        CHECK(magnitude(p.grad()) < 1e-4);  // softmax ignores a shift of all scores of a row
      else
        CHECK(magnitude(p.grad()) > 0.05);
    }
  }
}

TEST_CASE("masks of shape (1, S, S) and (B, 1, S) work at any number of batches and heads") {
  nn::MultiHeadAttention mha(8, 4, 0.0);
  const Tensor x = random({3, 5, 8}),
               padding = create_padding_mask(tensor({{1, 2, 3, 0, 0}, {1, 1, 1, 1, 1}, {4, 0, 0, 0, 0}}));
  const auto [causal, causal_weights] = mha(x, x, x, create_look_ahead_mask(5), nn::return_attention);
  CHECK(causal_weights.shape() == Shape{3, 4, 5, 5});
  CHECK(magnitude(triu(causal_weights, 1)) == 0);
  CHECK(max_difference(sum(causal_weights, -1), ones({3, 4, 5})) < 1e-6);
  const auto [padded, weights] = mha(x, x, x, padding, nn::return_attention);
  CHECK(magnitude(weights[{0, ellipsis, range(3)}]) == 0);
  CHECK(magnitude(weights[{2, ellipsis, range(1)}]) == 0);
  CHECK(max_difference(sum(weights, -1), ones({3, 4, 5})) < 1e-6);
  // The second has no padding: as if it were alone.
  CHECK(max_difference(padded[{range(1, 2)}], mha(x[{range(1, 2)}], x[{range(1, 2)}], x[{range(1, 2)}])) < 1e-5);
}

TEST_CASE("CausalSelfAttention: the future has no effect, and a padding mask combines with it") {
  nn::CausalSelfAttention layer(8, 2, 0.0);
  const Tensor x = random({2, 6, 8});
  Tensor changed = x.clone();
  changed[{range(), range(4)}] = random({2, 2, 8}, 9);
  for (const Tensor& mask : {Tensor(), create_padding_mask(tensor({{0, 1, 1, 1, 1, 1}, {1, 1, 1, 0, 1, 1}}))}) {
    const auto [y, w] = layer(x, mask, nn::return_attention);
    CHECK(same_bits(slice(y, 1, 0, 4), slice(layer(changed, mask), 1, 0, 4)));
    CHECK_FALSE(same_bits(y, layer(changed, mask)));
    CHECK(magnitude(triu(w, 1)) == 0);
    if (mask.defined()) {
      CHECK(magnitude(w[{0, range(), range(), 0}]) == 0);
      CHECK(magnitude(w[{1, range(), range(), 3}]) == 0);
      CHECK(magnitude(w[{0, range(), 0}]) == 0);  // its only token is padding
    }
  }
  // The same as the flag, in an option or in the call.
  nn::MultiHeadAttention always(8, 2, nn::MultiHeadAttentionOptions().causal());
  always.load_state_dict(layer.multihead_attn.state_dict());
  always.eval();
  layer.eval();
  CHECK(same_bits(always(x, x, x), layer(x)));
  CHECK(same_bits(layer.multihead_attn(x, x, x, AttentionTerms().causal()), layer(x)));
}

TEST_CASE("CrossAttention takes keys of another length") {
  nn::CrossAttention layer(8, 2, 0.0);
  Tensor x = random({2, 5, 8}).requires_grad_(), memory = random({2, 8, 8}, 2).requires_grad_();
  const auto [y, w] = layer(x, memory, nn::return_attention);
  CHECK(y.shape() == Shape{2, 5, 8});
  CHECK(w.shape() == Shape{2, 2, 5, 8});
  CHECK(max_difference(sum(w, -1), ones({2, 2, 5})) < 1e-6);
  sum(y * random({2, 5, 8}, 3)).backward();
  CHECK(magnitude(x.grad()) > 0.1);
  CHECK(magnitude(memory.grad()) > 0.1);
  // Hiding all but three keys is the same as having three.
  const Tensor mask = tensor({{1, 1, 1, 0, 0, 0, 0, 0}});
  CHECK(max_difference(layer(x, memory, mask), layer(x, slice(memory, 1, 0, 3))) < 1e-5);
}

TEST_CASE("cross-attention to itself is self-attention") {
  nn::SelfAttention self(8, 2, 0.0);
  nn::CrossAttention cross(8, 2, 0.0);
  cross.load_state_dict(self.state_dict());
  const Tensor x = random({2, 5, 8});
  CHECK(same_bits(self(x), cross(x, x)));
}

TEST_CASE("train and eval reach the dropout of the attention") {
  nn::SelfAttention layer(8, 2, 0.5);
  const Tensor x = random({2, 5, 8});
  CHECK(layer.multihead_attn.attention.training());
  CHECK_FALSE(same_bits(layer(x), layer(x)));
  manual_seed(3);
  const Tensor first = layer(x);
  manual_seed(3);
  CHECK(same_bits(layer(x), first));
  layer.eval();
  CHECK_FALSE(layer.multihead_attn.attention.training());
  CHECK(same_bits(layer(x), layer(x)));
  nn::SelfAttention sure(8, 2, 0.0);
  sure.load_state_dict(layer.state_dict());
  CHECK(same_bits(sure(x), layer(x)));
  layer.train();
  CHECK_FALSE(same_bits(layer(x), layer(x)));
}

TEST_CASE("the weights are those of each head, before dropout, and the helper reads them") {
  nn::SelfAttention layer(8, 2, 0.5);
  const Tensor x = random({3, 5, 8});
  manual_seed(1);
  const auto [y, w] = layer(x, nn::return_attention);
  manual_seed(1);
  CHECK(same_bits(layer(x), y));  // asking changes nothing
  CHECK(w.shape() == Shape{3, 2, 5, 5});
  CHECK(max_difference(sum(w, -1), ones({3, 2, 5})) < 1e-6);
  layer.eval();
  CHECK(same_bits(layer(x, nn::return_attention).weights, w));
  const AttentionView view = attention_visualization_helper(w, {"the", "cat", "sat", "on", "mats"});
  CHECK(max_difference(view.attention_matrix, mean(w[{0}], 0)) < 1e-7);
}

TEST_CASE("a fully masked row gives the output's bias and no gradient to the rest") {
  nn::MultiHeadAttention mha(8, 2, 0.0);
  Tensor x = random({2, 4, 8}).requires_grad_();
  Tensor mask = ones({2, 4, 4});
  mask[{1, 2}] = 0;
  const auto [y, w] = mha(x, x, x, mask, nn::return_attention);
  CHECK(magnitude(w[{1, range(), 2}]) == 0);
  CHECK(max_difference(y[{1, 2}], mha.w_o.bias) == 0);
  sum(y[{1, 2}] * random({8}, 2)).backward();
  CHECK(magnitude(x.grad()) == 0);
  for (const auto& [name, p] : mha.named_parameters()) {
    INFO(name);
    CHECK((magnitude(p.grad()) > 0) == (name == "w_o.bias"));
  }
}

// ---- options ------------------------------------------------------------------------------------------------------

TEST_CASE("MultiHeadAttention is its heads one by one, side by side") {
  nn::MultiHeadAttention mha(6, 3, 0.0);
  CHECK(mha.d_k() == 2);
  CHECK(mha.num_heads() == 3);
  const Tensor x = random({2, 4, 6}), q = mha.w_q(x), k = mha.w_k(x), v = mha.w_v(x);
  std::vector<Tensor> outputs, weights;
  for (const std::int64_t h : {0, 2, 4}) {
    const auto head = [&](const Tensor& all) { return slice(all, 2, h, h + 2); };
    const auto r = attend(head(q), head(k), head(v), AttentionOptions().weights());
    outputs.push_back(r.output);
    weights.push_back(r.weights);
  }
  const auto [y, w] = mha(x, x, x, nn::return_attention);
  CHECK(max_difference(y, mha.w_o(cat(outputs, 2))) < 1e-5);
  CHECK(max_difference(w, stack(weights, 1)) < 1e-6);
}

TEST_CASE("MultiHeadAttention's options") {
  auto o = nn::MultiHeadAttentionOptions().dropout(0);
  const Tensor x = random({2, 4, 8});
  SECTION("inputs of other features than the output") {
    const nn::SelfAttention attention(8, 4, o.qdim(3).kdim(3).vdim(3));
    const nn::MultiHeadAttention& mha = attention.multihead_attn;
    const Tensor in = random({2, 4, 3});
    const auto heads = [](const Tensor& t) { return heads_last(t, 4); };
    const Tensor z = attend(heads(mha.w_q(in)), heads(mha.w_k(in)), heads(mha.w_v(in))).output;
    CHECK(max_difference(attention(in), mha.w_o(z)) < 1e-6);
    CHECK_THROWS_WITH(attention(x), Catch::Contains("query has shape [2, 4, 8]: it must be (B, S, 3)"));
    CHECK_THROWS_WITH(nn::torch_names(mha), Catch::Contains("qdim is 3, d_model is 8"));
  }
  SECTION("keys and values of other widths, fewer heads for them, no qkv bias") {
    o.kdim(5).vdim(3).num_kv_heads(2).qkv_bias(false);
    nn::MultiHeadAttention mha(8, 4, o);
    CHECK(mha.w_q.weight.shape() == Shape{8, 8});
    CHECK(mha.w_k.weight.shape() == Shape{4, 5});
    CHECK(mha.w_v.weight.shape() == Shape{4, 3});
    CHECK_FALSE(mha.w_q.bias.defined());
    CHECK(mha.w_o.bias.defined());
    const Tensor keys = random({2, 6, 5}), values = random({2, 6, 3});
    const Tensor y = mha(x, keys, values);
    CHECK(y.shape() == Shape{2, 4, 8});
    // The same with the two heads of keys and values written out four times.
    nn::MultiHeadAttentionOptions full = o;
    full.num_kv_heads({});
    nn::MultiHeadAttention wide(8, 4, full);
    nn::StateDict state = mha.state_dict();
    const auto twice = [](const Tensor& weight) {
      const Tensor first = slice(weight, 0, 0, 2), second = slice(weight, 0, 2, 4);
      return cat({first, first, second, second});
    };
    for (auto& [name, value] : state)
      if (name == "w_k.weight" || name == "w_v.weight") value = twice(value);
    wide.load_state_dict(state);
    CHECK(max_difference(wide(x, keys, values), y) < 1e-6);
  }
  SECTION("without any bias") {
    nn::MultiHeadAttention mha(8, 2, 0.0, false);
    CHECK(mha.parameters().size() == 4);
    CHECK(mha.num_parameters() == 4 * 64);
  }
  SECTION("temperature and scale") {
    nn::MultiHeadAttention usual(8, 2, o);
    const auto with = [&](double temperature, std::optional<double> scale) {
      nn::MultiHeadAttentionOptions other = o;
      other.temperature(temperature).scale(scale);
      nn::MultiHeadAttention mha(8, 2, other);
      mha.load_state_dict(usual.state_dict());
      return mha(x, x, x);
    };
    CHECK(max_difference(with(2, {}), with(1, 0.25)) < 1e-6);  // 1 / (sqrt(4) 2)
    CHECK(max_difference(with(1, 0.5), usual(x, x, x)) == 0);
    CHECK(max_difference(with(2, {}), usual(x, x, x)) > 1e-3);
  }
  SECTION("an additive bias that is trained") {
    nn::MultiHeadAttention mha(8, 2, o);
    Tensor bias = random({1, 2, 4, 4}).requires_grad_();
    const Tensor y = mha(x, x, x, AttentionTerms().bias(bias));
    CHECK(max_difference(y, mha(x, x, x)) > 1e-3);
    sum(y * random({2, 4, 8}, 5)).backward();
    CHECK(magnitude(bias.grad()) > 1e-2);
    CHECK(magnitude(sum(bias.grad(), -1)) < 1e-4);  // softmax ignores a shift
  }
}

TEST_CASE("derivatives of MultiHeadAttention against central differences") {
  nn::MultiHeadAttention mha(4, 2, nn::MultiHeadAttentionOptions().dropout(0).num_kv_heads(1));
  mha.to(float64);
  std::vector<Tensor> inputs = mha.parameters();
  inputs.push_back(random({2, 3, 4}, 1, float64).requires_grad_());
  const auto options = GradCheckOptions().order(2);
  const GradReport report = check_gradients(
      [&](const auto& in) -> std::vector<Tensor> {
        const auto [y, w] = mha(in.back(), in.back(), in.back(), create_look_ahead_mask(3), nn::return_attention);
        return {y, w};
      },
      inputs, options);
  INFO(report);
  CHECK(report.ok);
}

TEST_CASE("ScaledDotProductAttention, the layer") {
  nn::ScaledDotProductAttention layer(0.5, 2.0);
  CHECK(layer.dropout() == 0.5);
  CHECK(layer.describe() == "dropout=0.5, temperature=2");
  const Tensor q = random({2, 3, 4}), k = random({2, 5, 4}, 2), v = random({2, 5, 6}, 3);
  const Tensor mask = create_padding_mask(tensor({{1, 1, 0, 0, 0}, {1, 1, 1, 1, 1}}));
  CHECK_FALSE(same_bits(layer(q, k, v), layer(q, k, v)));
  layer.eval();
  const auto expected = attend(q, k, v, AttentionOptions().temperature(2).mask(mask).weights());
  const auto [y, w] = layer(q, k, v, mask, nn::return_attention);
  CHECK(same_bits(y, expected.output));
  CHECK(same_bits(w, expected.weights));
  CHECK(w.shape() == Shape{2, 3, 5});
  CHECK(layer.parameters().empty());
  const nn::ScaledDotProductAttention usual;
  CHECK(usual.dropout() == 0.1);
}

TEST_CASE("names, copies and lists of the attention layers") {
  nn::SelfAttention self(8);
  CHECK(self.multihead_attn.num_heads() == 8);
  CHECK(self.multihead_attn.attention.dropout() == 0.1);
  std::vector<std::string> names;
  for (const auto& [name, p] : self.named_parameters()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"multihead_attn.w_q.weight", "multihead_attn.w_q.bias",
                                          "multihead_attn.w_k.weight", "multihead_attn.w_k.bias",
                                          "multihead_attn.w_v.weight", "multihead_attn.w_v.bias",
                                          "multihead_attn.w_o.weight", "multihead_attn.w_o.bias"});
  names.clear();
  for (const auto& [name, child] : self.multihead_attn.children()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"w_q", "w_k", "w_v", "w_o", "attention"});

  const Tensor x = random({2, 4, 8});
  const auto check_copy = [](const auto& layer, const auto& call) {
    layer.children();
    const auto copy = nn::clone(layer);
    CHECK(same_bits(call(*copy), call(layer)));
    CHECK(copy->str() == layer.str());
  };
  self.eval();
  nn::CrossAttention cross(8, 2);
  cross.eval();
  nn::MultiHeadAttentionOptions options;
  options.causal(true).num_kv_heads(1).scale(0.3).qkv_bias(false);
  nn::CausalSelfAttention causal(8, 2, options);
  causal.eval();
  nn::ScaledDotProductAttention plain(0.2, 3.0, 0.4);
  plain.eval();
  const auto unary = [&](const auto& layer) { return layer(x); };
  check_copy(self, unary);
  check_copy(cross, [&](const auto& layer) { return layer(x, x); });
  check_copy(causal, unary);
  check_copy(plain, [&](const auto& layer) { return layer(x, x, x); });
}

TEST_CASE("errors of the attention layers") {
  const auto contains = [](const char* s) { return Catch::Contains(s); };
  CHECK_THROWS_WITH(nn::MultiHeadAttention(10, 3),
                    contains("d_model is 10, num_heads is 3") && contains("num_heads must divide d_model"));
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, 0), Error);
  CHECK_THROWS_AS(nn::MultiHeadAttention(0, 1), Error);
  CHECK_THROWS_AS(nn::MultiHeadAttention(8, -2), Error);
  CHECK_THROWS_WITH(nn::SelfAttention(10), contains("num_heads is 8"));
  CHECK_THROWS_WITH(nn::MultiHeadAttention(8, 2, 1.5), contains("[MultiHeadAttention] dropout is 1.5"));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(nn::ScaledDotProductAttention(0.1, infinity), contains("temperature is inf"));
  CHECK_THROWS_WITH(nn::ScaledDotProductAttention(0.1, 1, infinity), contains("scale is inf"));
  auto impossible = nn::MultiHeadAttentionOptions().kdim(0);
  CHECK_THROWS_WITH(nn::MultiHeadAttention(8, 2, impossible), contains("[MultiHeadAttention] kdim is 0"));
  impossible.kdim({}).temperature(infinity);
  CHECK_THROWS_WITH(nn::MultiHeadAttention(8, 2, impossible), contains("[MultiHeadAttention] temperature is inf"));
  CHECK_THROWS_WITH(nn::ScaledDotProductAttention(0.1, 0.0), contains("temperature is 0"));
  CHECK_THROWS_WITH(nn::MultiHeadAttention(8, 4, nn::MultiHeadAttentionOptions().num_kv_heads(3)),
                    contains("num_kv_heads is 3, num_heads is 4"));
  nn::MultiHeadAttention mha(8, 2);
  const Tensor x = ones({2, 3, 8});
  CHECK_THROWS_WITH(mha(ones({3, 8}), x, x),
                    contains("[MultiHeadAttention] query has shape [3, 8]: it must be (B, S, 8)"));
  CHECK_THROWS_WITH(mha(x, ones({2, 3, 7}), x), contains("key has shape [2, 3, 7]"));
  CHECK_THROWS_WITH(mha(x, x, ones({2, 3, 9})), contains("value has shape [2, 3, 9]"));
  CHECK_THROWS_WITH(mha(x, ones({1, 3, 8}), ones({1, 3, 8})), contains("one batch size"));
  CHECK_THROWS_WITH(mha(x, x, ones({2, 4, 8})), contains("equally many keys"));
  CHECK_THROWS_WITH(mha(x, x, x, ones({4, 4})),
                    contains("the mask is [4, 4], the scores (B, H, Sq, Sk) are [2, 2, 3, 3]"));
  CHECK_THROWS_WITH(mha(x, x, x, full({3, 3}, -1e9)), contains("it must hold 1 (attend) and 0 (ignore)"));
  CHECK(mha(ones({0, 3, 8}), ones({0, 3, 8}), ones({0, 3, 8})).shape() == Shape{0, 3, 8});
}

TEST_CASE("layers take masks as expressions", "[attention]") {
  manual_seed(2);
  const Tensor x = randn({2, 9, 8}), ids = tensor({0, 0, 0, 1, 1, 1, 1, 2, 2});
  const AttentionMask mask = document_mask(ids);
  const Tensor same = to_tensor(mask, 2, 2, 9, 9);
  for (const bool more_keys : {false, true}) {
    const nn::MultiHeadAttention layer(8, 2, nn::MultiHeadAttentionOptions().dropout(0).add_zero_attn(more_keys));
    CHECK(max_difference(layer(x, x, x, mask), layer(x, x, x, same)) < 1e-6);
  }
  nn::MultiHeadAttention layer(8, 2, 0.0);
  nn::AttentionRecorder recorder(layer);
  layer(x, x, x, mask);
  CHECK(equal(recorder.recording().records().at(0).mask, same[0]));  // as pages draw it
}

}  // namespace fit::test::attention_layers_test
