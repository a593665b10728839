// Models with int8 weights.
#include "fit/nn/layers/quantize.hpp"

#include <algorithm>

#include "fit/nn.hpp"
#include "nn/models/small_model.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::quantize_test {
using Catch::Contains;

namespace {

nn::GPTOptions gpt_options(bool tied = true) {
  return nn::GPTOptions().vocab_size(23).context_length(16).num_layers(2).num_heads(4).d_model(32).tie_weights(tied);
}

Tensor some_ids(std::int64_t rows, std::int64_t length) {
  Generator g(3);
  return randint(0, 23, {rows, length}, g);
}

nn::Int8WeightOnlyOptions only(const std::vector<std::string>& layers, std::int64_t group_size = 0) {
  return nn::Int8WeightOnlyOptions().layers(layers).group_size(group_size);
}

// A model of floats that computes with what the int8 weights of another stand for.
template <class M>
std::shared_ptr<M> read_back(const M& quantized) {
  const auto wide = nn::clone(quantized);
  for (const auto& [name, linear] : wide->template named_layers<nn::Linear>()) remove_parametrization(linear->weight);
  for (const auto& [name, table] : wide->template named_layers<nn::Embedding>()) remove_parametrization(table->weight);
  return wide;
}

bool has(const StateDict& state, const std::string& name) {
  return std::any_of(state.begin(), state.end(), [&](const auto& x) { return x.first == name; });
}

}  // namespace

TEST_CASE("quantize_: a parameter as products and lookups take it", "[int8]") {
  manual_seed(4);
  nn::Linear linear(12, 5);
  nn::Embedding table(7, 12);
  const Tensor x = randn({3, 12}), ids = tensor({6, 0, 6});
  const auto check = [&](bool matrix) {
    const Weight w = linear.weight.operand();
    CHECK(std::holds_alternative<Int8Matrix>(w) == matrix);
    CHECK(same_bits(fit::linear(x, w, linear.bias), linear(x)));
    CHECK(max_difference(linear(x), fit::linear(x, linear.weight.value(), linear.bias)) < 1e-5);
    CHECK(same_bits(embedding(table.weight.operand(), ids), table(ids)));
    CHECK(same_bits(table(ids), embedding(table.weight.value(), ids)));
  };
  check(false);
  nn::quantize_(linear);
  nn::quantize_(table);
  check(true);
  nn::low_rank(linear.weight, 2);  // something is added to it
  check(false);
}

TEST_CASE("quantize_: a GPT's weights, and a tied head's table once", "[int8]") {
  manual_seed(3);
  nn::GPT gpt(gpt_options());
  const Tensor ids = some_ids(2, 9);
  gpt.loss(ids[{range(), range(0, -1)}], ids[{range(), range(1)}]).backward();  // gradients don't stand in its way
  const Tensor before = gpt(ids).detach();
  const std::vector<std::string> names = nn::quantize_(gpt);
  CHECK(names == std::vector<std::string>{"wte", "wpe", "h.0.attn.qkv", "h.0.attn.proj", "h.0.mlp.fc", "h.0.mlp.proj",
                                          "h.1.attn.qkv", "h.1.attn.proj", "h.1.mlp.fc", "h.1.mlp.proj", "head"});
  const StateDict state = gpt.state_dict();
  CHECK_FALSE(has(state, "wte.weight"));
  CHECK(has(state, "h.0.attn.qkv.weight.int8"));
  CHECK(has(state, "h.0.attn.qkv.weight.scale"));
  CHECK(has(state, "h.0.attn.qkv.bias"));
  const auto find = [&](const std::string& name) {
    for (const auto& [n, x] : state)
      if (n == name) return x;
    return Tensor();
  };
  CHECK(find("wte.weight.int8").raw() == find("head.weight.int8").raw());
  CHECK(find("wte.weight.int8").dtype() == int8);
  CHECK(find("wte.weight.scale").shape() == Shape{23, 1});
  CHECK(gpt.layer<nn::Linear>("h.0.attn.qkv").in_features() == 32);
  CHECK(gpt.layer<nn::Linear>("h.0.attn.qkv").out_features() == 96);
  CHECK(gpt.layer<nn::Linear>("h.0.attn.qkv").weight.frozen());
  CHECK(gpt.num_trainable_parameters() == 0);

  const Tensor after = gpt(ids);
  CHECK(max_difference(after, (*read_back(gpt))(ids)) < 1e-4);
  CHECK(max_difference(after, before) < 0.1 * max(abs(before)).item());
  CHECK(max_difference(after, before) > 0);

  // Token by token, on the weights as they lie, as all at once; and what is written.
  const NoGrad no_grad;
  nn::KVCache cache = gpt.make_cache(2);
  std::vector<Tensor> logits;
  for (std::int64_t t = 0; t < 9; ++t) logits.push_back(gpt(slice(ids, 1, t, t + 1), cache));
  CHECK(max_difference(cat(logits, 1), after) < 1e-4);
  const auto copy = nn::clone(gpt);
  CHECK(same_bits((*copy)(ids), after));
  copy->to(bfloat16);
  CHECK((*copy)(ids).dtype() == bfloat16);
  CHECK(max_difference((*copy)(ids).to(float32), after) < 0.1 * max(abs(before)).item());
  const Autocast on(bfloat16);
  CHECK(max_difference(gpt(ids).to(float32), after) < 0.1 * max(abs(before)).item());
}

TEST_CASE("quantize_: layers by the patterns of their names, and groups", "[int8]") {
  manual_seed(3);
  nn::GPT gpt(gpt_options(false));
  CHECK(nn::quantize_(gpt, only({"h.*.mlp.*"}, 32)) ==
        std::vector<std::string>{"h.0.mlp.fc", "h.0.mlp.proj", "h.1.mlp.fc", "h.1.mlp.proj"});
  CHECK(gpt.layer<nn::Linear>("h.0.mlp.proj").weight.original().dtype() == int8);
  CHECK(gpt.layer<nn::Linear>("h.0.attn.qkv").weight.original().dtype() == float32);
  CHECK(has(gpt.state_dict(), "wte.weight"));
  const Tensor ids = some_ids(2, 9);
  CHECK(max_difference(gpt(ids), (*[&] {
                         const auto wide = nn::clone(gpt);
                         for (auto& block : wide->h)
                           for (const char* name : {"mlp.fc", "mlp.proj"})
                             remove_parametrization(block.layer<nn::Linear>(name).weight);
                         return wide;
                       }())(ids)) < 1e-4);
  for (const auto& [name, x] : gpt.state_dict())
    if (name == "h.0.mlp.proj.weight.scale") CHECK(x.shape() == Shape{32, 4});
  // One of those that share a table is enough.
  nn::GPT tied(gpt_options());
  CHECK(nn::quantize_(tied, only({"head"})) == std::vector<std::string>{"wte", "head"});
  nn::Linear alone(3, 2);
  CHECK(nn::quantize_(alone).size() == 1);
  CHECK(alone.weight.original().dtype() == int8);

  nn::GPT fresh(gpt_options());
  const auto unchanged = [&] {
    return !fresh.layer<nn::Linear>("h.0.attn.qkv").weight.parametrized() && !fresh.wte.weight.parametrized();
  };
  CHECK_THROWS_WITH(nn::quantize_(fresh, only({"hed"})), Contains("nothing is called 'hed'") && Contains("'head'"));
  CHECK_THROWS_WITH(nn::quantize_(fresh, only({"*"}, 5)), Contains("group_size is 5"));
  {
    const NoGrad no_grad;
    fresh.layer<nn::Linear>("h.1.mlp.fc").weight[{2, 3}] = NAN;
  }
  CHECK_THROWS_WITH(nn::quantize_(fresh), Contains("h.1.mlp.fc.weight") && Contains("NaN or an infinity in row 2"));
  CHECK(unchanged());
  nn::LayerNorm norm(3);
  CHECK_THROWS_WITH(nn::quantize_(norm), Contains("LayerNorm has no Linear and no Embedding"));
  CHECK_THROWS_WITH(nn::quantize_(tied), Contains("wte.weight is quantised already"));
  nn::GPT adapted(gpt_options());
  nn::add_lora(adapted);
  CHECK_THROWS_WITH(nn::quantize_(adapted), Contains("merge_lora()"));
}

namespace {
struct Sharing : nn::UnaryLayer {
  Tensor forward(const Tensor& x) const override { return matmul(linear(x), own.value()); }
  FIT_FIELDS(linear, own)
  nn::Linear linear{4, 4};
  nn::Parameter own = linear.weight;
};
}  // namespace

TEST_CASE("quantize_: what others share stays as it is", "[int8]") {
  Sharing model;
  CHECK_THROWS_WITH(nn::quantize_(model), Contains("linear.weight is shared with own"));
  CHECK_FALSE(model.linear.weight.parametrized());
}

TEST_CASE("quantize_: saved and loaded as I8 with scales", "[int8][safetensors]") {
  manual_seed(5);
  const Directory dir;
  const std::string path = dir.file("int8.safetensors"), wide_path = dir.file("float.safetensors");
  nn::GPT gpt(gpt_options());
  nn::save_weights(wide_path, gpt);
  nn::quantize_(gpt, only({"*"}, 32));
  nn::save_weights(path, gpt);
  int of_int8 = 0, of_float = 0;
  for (const auto& [name, x] : load_safetensors(path).tensors)
    if (name.find(".weight.int8") != std::string::npos) {
      ++of_int8;
      CHECK(x.dtype() == int8);
    } else {
      ++of_float;
      CHECK(x.dtype() == float32);
    }
  CHECK(of_int8 == 11);
  CHECK(of_float > 11);
  CHECK(std::filesystem::file_size(path) < std::filesystem::file_size(wide_path) / 2);

  manual_seed(6);
  nn::GPT other(gpt_options()), plain(gpt_options());
  nn::quantize_(other, only({"*"}, 32));
  const Tensor ids = some_ids(2, 9);
  CHECK_FALSE(same_bits(other(ids), gpt(ids)));
  nn::load_weights(other, path);
  CHECK(same_bits(other(ids), gpt(ids)));
  other.load_state_dict(gpt.state_dict());
  CHECK_THROWS_WITH(nn::load_weights(plain, path),
                    Contains("missing: wte.weight") && Contains("nn::quantize_() the model before they are loaded"));
  CHECK_THROWS_WITH(nn::load_weights(other, wide_path), Contains("load those in floating point before"));
  nn::GPT rows(gpt_options());
  nn::quantize_(rows);
  CHECK_THROWS_WITH(nn::load_weights(rows, path), Contains("h.0.mlp.proj.weight.scale is [32, 4], here [32, 1]"));
  CHECK_THROWS_WITH(nn::save_weights(dir.file("x.npz"), gpt), Contains("is int8"));
}

TEST_CASE("quantize_: int8 weights are not trained, what comes before them is", "[int8]") {
  manual_seed(7);
  nn::Linear layer(40, 6);
  nn::quantize_(layer);
  CHECK_THROWS_WITH(optim::AdamW(layer.parameters()), Contains("all parameters are frozen: there is nothing to train"));
  CHECK_THROWS_WITH(layer.weight.unfreeze(), Contains("is int8, which can't be trained: add_lora()"));
  layer.unfreeze();  // the bias
  CHECK(layer.num_trainable_parameters() == 6);
  nn::Linear bare(3, 2, false);
  nn::quantize_(bare);
  CHECK_THROWS_WITH(optim::AdamW(bare.parameters()), Contains("has no parameters: there is nothing to train"));
  CHECK_THROWS_WITH(sum(bare(ones({1, 3}))).backward(), Contains("frozen") || Contains("gradient"));

  Tensor x = rand({2, 40}).requires_grad_();
  sum(layer(x)).backward();
  CHECK(max_difference(x.grad(), matmul(ones({2, 6}), read_back(layer)->weight.detach())) < 1e-5);
  CHECK(layer.bias.has_grad());
  CHECK_THROWS_WITH(layer(ones({2, 3})), Contains("in_features"));
}

TEST_CASE("quantize_: LoRA beside int8 weights", "[int8]") {
  manual_seed(8);
  nn::GPT gpt(gpt_options());
  nn::quantize_(gpt);
  const Tensor ids = some_ids(4, 9), input = ids[{range(), range(0, -1)}], target = ids[{range(), range(1)}];
  const Tensor before = gpt(input).detach();
  const auto table = gpt.layer<nn::Linear>("h.0.attn.qkv").weight.original().clone();
  CHECK(nn::add_lora(gpt, nn::LoraOptions().rank(4).alpha(8).layers({"h.*.attn.*"})).size() == 4);
  CHECK(max_difference(gpt(input).detach(), before) < 1e-4);
  optim::AdamW optimizer(gpt.parameters(), 2e-2);
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const Tensor loss = gpt.loss(input, target);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  CHECK(last < first - 0.3);
  CHECK(equal(gpt.layer<nn::Linear>("h.0.attn.qkv").weight.original(), table));
  const StateDict adapters = nn::lora_state_dict(gpt);
  const Tensor trained = gpt(input).detach();
  nn::GPT other(gpt_options());
  nn::quantize_(other);
  StateDict base;
  for (const auto& [name, value] : gpt.state_dict())
    if (name.find("parametrization") == std::string::npos) base.emplace_back(name, value);
  other.load_state_dict(base);
  nn::load_lora_state_dict(other, adapters);
  CHECK(max_difference(other(input).detach(), trained) < 1e-5);
  nn::merge_lora(gpt);
  CHECK(max_difference(gpt(input).detach(), trained) < 1e-4);
  CHECK(gpt.layer<nn::Linear>("h.0.attn.qkv").weight.original().dtype() == float32);
  CHECK(gpt.layer<nn::Linear>("h.0.mlp.fc").weight.original().dtype() == int8);
}

TEST_CASE("quantize_: activations of 8 bits, with the same files and LoRA beside them", "[int8]") {
  manual_seed(9);
  const Directory dir;
  const std::string path = dir.file("int8.safetensors");
  nn::GPT gpt(gpt_options()), weights_only(gpt_options());
  const Tensor ids = some_ids(2, 9), before = gpt(ids).detach();
  const nn::Int8DynamicActivationInt8WeightOptions rounded;
  CHECK(nn::quantize_(gpt, rounded) == nn::quantize_(weights_only));
  nn::save_weights(path, gpt);
  nn::load_weights(weights_only, path);
  const NoGrad no_grad;
  const Tensor after = gpt(ids), plain = weights_only(ids);
  CHECK_FALSE(same_bits(after, plain));
  CHECK(max_difference(after, before) < 0.1 * max(abs(before)).item());
  CHECK(same_bits(plain, [&] {
    nn::GPT other(gpt_options());
    nn::quantize_(other);
    other.load_state_dict(gpt.state_dict());
    return other(ids);
  }()));
  nn::GPT loaded(gpt_options());
  nn::quantize_(loaded, rounded);
  nn::load_weights(loaded, path);
  CHECK(same_bits(loaded(ids), after));
  CHECK(same_bits((*nn::clone(gpt))(ids), after));
  nn::KVCache cache = gpt.make_cache(2);
  std::vector<Tensor> logits;
  for (std::int64_t t = 0; t < 9; ++t) logits.push_back(gpt(slice(ids, 1, t, t + 1), cache));
  CHECK(max_difference(cat(logits, 1), after) < 0.02 * max(abs(after)).item());
  const auto half = nn::clone(gpt);
  half->to(bfloat16);
  CHECK((*half)(ids).dtype() == bfloat16);
  CHECK(max_difference((*half)(ids).to(float32), after) < 0.1 * max(abs(before)).item());
  // An adapted layer computes its weight, so it reads its input as it is.
  nn::add_lora(gpt);
  nn::add_lora(weights_only);
  CHECK(gpt.num_trainable_parameters() > 0);
  CHECK(max_difference(gpt.layer<nn::Linear>("h.0.mlp.fc")(ones({2, 32})),
                       weights_only.layer<nn::Linear>("h.0.mlp.fc")(ones({2, 32}))) == 0);
  CHECK_THROWS_WITH(nn::quantize_(*nn::clone(loaded), rounded), Contains("wte.weight is quantised already"));
  nn::GPT fresh(gpt_options());
  CHECK_THROWS_WITH(nn::quantize_(fresh, nn::Int8DynamicActivationInt8WeightOptions().group_size(5)),
                    Contains("group_size is 5"));
  CHECK(
      nn::quantize_(fresh, nn::Int8DynamicActivationInt8WeightOptions().group_size(32).layers({"h.*.mlp.*"})).size() ==
      4);
}

TEST_CASE("quantize_: weights of 4 bits, saved, loaded, adapted and refused", "[int8][int4]") {
  manual_seed(10);
  const Directory dir;
  const std::string path = dir.file("int4.safetensors");
  nn::GPT gpt(gpt_options()), rounded(gpt_options()), plain(gpt_options());
  const Tensor ids = some_ids(2, 9), before = gpt(ids).detach();
  CHECK(nn::quantize_(gpt, nn::Int4WeightOnlyOptions()).size() == 11);
  CHECK(nn::quantize_(rounded, nn::Int8DynamicActivationInt4WeightOptions()).size() == 11);
  const auto& qkv = gpt.layer<nn::Linear>("h.0.attn.qkv");
  CHECK(qkv.in_features() == 32);
  CHECK(qkv.out_features() == 96);
  CHECK(qkv.describe() == "in_features=32, out_features=96, bias=true");
  CHECK(gpt.wte.describe().find("embedding_dim=32") != std::string::npos);
  CHECK(has(gpt.state_dict(), "h.0.mlp.proj.weight.int4"));
  CHECK_FALSE(has(gpt.state_dict(), "h.0.mlp.proj.weight.int8"));
  CHECK_THROWS_WITH(qkv(ones({2, 16})), Contains("x is [2, 16], weight is [96, 32]"));
  nn::save_weights(path, gpt);
  nn::load_weights(rounded, path);
  const NoGrad no_grad;
  const Tensor after = gpt(ids);
  CHECK(max_difference(after, (*read_back(gpt))(ids)) < 1e-4);
  CHECK(max_difference(after, before) < 0.5 * max(abs(before)).item());
  CHECK_FALSE(same_bits(rounded(ids), after));
  CHECK(max_difference(rounded(ids), after) < 0.05 * max(abs(before)).item());
  CHECK(same_bits((*nn::clone(gpt))(ids), after));
  CHECK(same_bits((*nn::clone(rounded))(ids), rounded(ids)));
  nn::GPT other(gpt_options());
  nn::quantize_(other, nn::Int4WeightOnlyOptions());
  nn::load_weights(other, path);
  CHECK(same_bits(other(ids), after));
  for (nn::GPT* const model : {&gpt, &rounded}) {
    nn::KVCache cache = model->make_cache(2);
    std::vector<Tensor> logits;
    for (std::int64_t t = 0; t < 9; ++t) logits.push_back((*model)(slice(ids, 1, t, t + 1), cache));
    CHECK(max_difference(cat(logits, 1), (*model)(ids)) < 0.02 * max(abs(after)).item());
    const auto half = nn::clone(*model);
    half->to(bfloat16);
    CHECK(max_difference((*half)(ids).to(float32), after) < 0.1 * max(abs(before)).item());
  }
  CHECK_THROWS_WITH(nn::load_weights(plain, path), Contains("the state holds int4 weights: nn::quantize_() the model"));
  nn::quantize_(plain);
  CHECK_THROWS_WITH(nn::load_weights(plain, path),
                    Contains("the state holds int4 weights") && Contains("options of the file"));
  CHECK_THROWS_WITH(gpt.layer<nn::Linear>("head").weight.unfreeze(),
                    Contains("of shape [23, 32] is int4, which can't"));
  CHECK_THROWS_WITH(nn::quantize_(gpt, nn::Int4WeightOnlyOptions()), Contains("wte.weight is quantised already"));
  nn::add_lora(gpt);
  CHECK(gpt.layer<nn::Linear>("h.0.attn.qkv").in_features() == 32);
  CHECK(max_difference(gpt(ids), after) < 1e-4);
  nn::merge_lora(gpt);
  CHECK(max_difference(gpt(ids), after) < 1e-4);
  // Rows that are no multiple of 32.
  nn::Sequential two(nn::Linear(32, 20), nn::Linear(20, 4));
  CHECK_THROWS_WITH(nn::quantize_(two, nn::Int4WeightOnlyOptions()),
                    Contains("1.weight") && Contains("20 must be a multiple of 32"));
  CHECK_FALSE(two.layer<nn::Linear>("0").weight.parametrized());
  CHECK(nn::quantize_(two, nn::Int4WeightOnlyOptions().layers({"0"})).size() == 1);
}

TEST_CASE("quantize_: a trained model loses little", "[int8]") {
  SmallTraining training(4);
  training.run(60);
  training.model->eval();
  const NoGrad no_grad;
  const auto loss = [](const SmallModel& model) {
    const data::TensorDataset all = small_data();
    double total = 0;
    for (std::int64_t i = 0; i < all.size(); ++i) {
      const data::Example e = all.get(i);
      total += nn::cross_entropy(model(e[0].unsqueeze(0)), e[1].unsqueeze(0)).item();
    }
    return total / static_cast<double>(all.size());
  };
  const auto small = nn::clone(*training.model);
  nn::quantize_(*small);
  const double wide = loss(*training.model), narrow = loss(*small);
  INFO(wide << " and " << narrow);
  CHECK(wide < 2.2);
  CHECK(narrow != wide);
  CHECK(std::abs(narrow - wide) < 0.01);
  for (const std::int64_t group : {0, 32}) {
    const auto rounded = nn::clone(*training.model);
    nn::quantize_(*rounded, nn::Int8DynamicActivationInt8WeightOptions().group_size(group));
    const double both = loss(*rounded);
    INFO("activations, too: " << both);
    CHECK(both != narrow);
    CHECK(std::abs(both - wide) < 0.005 * wide);
  }
}

TEST_CASE("GPT::load makes a model whose weights are quantised as those of the file", "[int8]") {
  const Directory folder;
  const std::string path = folder.file("gpt.safetensors");
  const Tensor ids = some_ids(2, 7);
  const NoGrad no_grad;
  const auto check = [&](bool tied, const auto& quantize, bool in_checkpoint) {
    manual_seed(5);
    nn::GPT gpt(gpt_options(tied));
    quantize(gpt);
    in_checkpoint ? Checkpoint().add("model", gpt).save(path) : nn::save_weights(path, gpt);
    const nn::GPT loaded = nn::GPT::load(path);
    CHECK(same_state(loaded.state_dict(), gpt.state_dict()));
    CHECK(same_bits(loaded(ids), gpt(ids)));
  };
  for (const bool tied : {true, false})
    for (const bool in_checkpoint : {false, true}) {
      check(
          tied, [](nn::GPT& g) { nn::quantize_(g); }, in_checkpoint);
      check(
          tied, [](nn::GPT& g) { nn::quantize_(g, nn::Int4WeightOnlyOptions()); }, in_checkpoint);
      check(
          tied,
          [](nn::GPT& g) {  // three kinds, and float32
            nn::quantize_(g, only({"h.0.*"}, 32));
            nn::quantize_(g, only({"wte"}));
            nn::quantize_(g, nn::Int4WeightOnlyOptions().layers({"h.1.mlp.*"}));
          },
          in_checkpoint);
    }
}

}  // namespace fit::test::quantize_test
