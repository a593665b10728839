#include "fit/nn/weights/gguf.hpp"

#include <cstring>
#include <filesystem>

#include "fit/base/memory.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/ops/ops.hpp"
#include "io/gguf.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"
#include "weights/maps.hpp"

// Models in llama.cpp's files. check.gguf_files lets the gguf package read them.
namespace fit::test::gguf_test {
namespace {

using Catch::Matchers::Contains;

nn::GPTOptions small(const char* family) {
  return nn::family_options(family).vocab_size(260).context_length(8).num_layers(2).num_heads(2).d_model(32);
}
nn::GPTOptions gpt2() { return small("gpt2"); }
nn::GPTOptions llama() { return small("llama").num_heads(4).num_kv_heads(2).hidden(64).norm_eps(1e-6); }

// All architectures.
std::vector<std::pair<std::string, nn::GPTOptions>> architectures() {
  return {{"gpt2", gpt2()},
          {"gpt2", gpt2().tie_weights(false)},
          {"llama", llama()},
          {"llama", llama().tie_weights(true).head_size(6).rotary(
                        nn::RotaryTableOptions().base(5000).scaling(nn::RotaryScaling::linear).factor(4))},
          {"qwen2", llama().qkv_bias(true)},
          {"qwen3", llama().qk_norm()}};
}

void shake(nn::GPT& model) {  // biases and norms differ from their initial values, too
  manual_seed(5);
  const NoGrad no_grad;
  for (const Tensor& p : model.parameters()) Tensor(p).add_(0.1 * randn(p.shape()));
}

const io::GGUFValue& value_of(const io::GGUFFile& file, const std::string& key) {
  for (const auto& [name, value] : file.keys)
    if (name == key) return value;
  FAIL("no key " << key);
  throw 0;
}

std::string error_of(const std::string& path) {
  try {
    nn::load_gguf(path);
  } catch (const FileError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("gguf: a model comes back with the same bits", "[gguf]") {
  const Directory d;
  for (const auto& [architecture, options] : architectures()) {
    INFO(architecture);
    nn::GPT model(options);
    shake(model);
    nn::save_gguf(d.file("model.gguf"), model, {}, nn::SaveGGUFOptions().name("A name"));
    nn::GGUFModel read = nn::load_gguf(d.file("model.gguf"));
    CHECK(read.name == "A name");
    CHECK(read.tokenizer.tokens.empty());
    const StateDict mine = model.state_dict(), theirs = read.model.state_dict();
    REQUIRE(mine.size() == theirs.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      INFO(mine[i].first);
      CHECK(mine[i].first == theirs[i].first);
      CHECK(same_bits(mine[i].second.detach(), theirs[i].second.detach()));
    }
    const Tensor ids = randint(0, 260, {2, 8});
    model.eval(), read.model.eval();
    CHECK(same_bits(model(ids).detach(), read.model(ids).detach()));
    const io::GGUFFile file = io::open_gguf("test", d.file("model.gguf"));
    CHECK(std::get<std::string>(value_of(file, "general.architecture")) == architecture);
    CHECK(std::get<std::int64_t>(value_of(file, architecture + ".block_count")) == 2);
    CHECK(std::get<std::int64_t>(value_of(file, architecture + ".attention.head_count")) == options.num_heads());
  }
}

TEST_CASE("gguf: float16, bfloat16 and Q8_0 round each element as they say", "[gguf]") {
  const Directory d;
  nn::GPT model(gpt2());
  shake(model);
  const Tensor w = model.wte.weight.detach();
  const auto read = [&](nn::GGUFType type) {
    nn::save_gguf(d.file("m.gguf"), model, {}, nn::SaveGGUFOptions().type(type));
    nn::GGUFModel m = nn::load_gguf(d.file("m.gguf"));
    CHECK(same_bits(m.model.ln_f->parameters()[0].detach(), model.ln_f->parameters()[0].detach()));
    return m;
  };
  CHECK(same_bits(read(nn::GGUFType::bfloat16).model.wte.weight.detach(), w.to(bfloat16).to(float32)));
  CHECK(max_difference(read(nn::GGUFType::float16).model.wte.weight.detach(), w) <= max(abs(w)).item() * 0x1p-11);
  nn::GGUFModel q8 = read(nn::GGUFType::q8_0);
  const Tensor back = q8.model.wte.weight.detach();  // a row is a block of 32
  // half a scale, and the rounding of the scale itself
  CHECK(all(le(abs(back - w), max(abs(w), 1, keepdims) / 127 * (0.5 + 127 * 0x1p-11))).item<bool>());
  CHECK_FALSE(same_bits(back, w));
  // int8 weights of the same groups are those of the file.
  nn::quantize_(q8.model, nn::Int8WeightOnlyOptions().group_size(32));
  CHECK(max_difference(q8.model.wte.weight.value(), back) < 1e-7);
}

TEST_CASE("gguf: a number that the type can't hold is an Error", "[gguf]") {
  const Directory d;
  nn::GPT model(gpt2());
  const auto refused = [&](double largest, nn::GGUFType type, const char* why) {
    const NoGrad no_grad;
    model.wte.weight[{0, 0}] = largest;
    CHECK_THROWS_WITH(nn::save_gguf(d.file("m.gguf"), model, {}, nn::SaveGGUFOptions().type(type)), Contains(why));
  };
  refused(7e4, nn::GGUFType::float16, "holds a number above 65504, which F16 lacks");
  refused(3e7, nn::GGUFType::q8_0, "which Q8_0 lacks: take another type");
}

TEST_CASE("gguf: tokens go along", "[gguf]") {
  const Directory d;
  const text::BytePairVocabulary pairs({{'t', 'h'}, {256, 'e'}, {' ', 257}, {0xC3, 0xA9}});
  const nn::GGUFTokenizer tokenizer = nn::gguf_tokenizer(pairs);
  CHECK(tokenizer.tokens.at(258) == "\xC4\xA0the");  // U+0120 stands for a space
  CHECK(tokenizer.merges == std::vector<std::string>{"t h", "th e", "\xC4\xA0 the", "\xC3\x83 \xC2\xA9"});
  nn::GPT model(gpt2());
  nn::save_gguf(d.file("m.gguf"), model, tokenizer);
  const nn::GGUFTokenizer back = nn::load_gguf(d.file("m.gguf")).tokenizer;
  CHECK(back.model == "gpt2");
  CHECK(back.pre == "gpt-2");
  CHECK(back.tokens == tokenizer.tokens);
  CHECK(back.merges == tokenizer.merges);
  CHECK(back.types == tokenizer.types);
  nn::GPT other(gpt2().vocab_size(261));
  CHECK_THROWS_WITH(nn::save_gguf(d.file("n.gguf"), other, tokenizer), Contains("260 tokens, the model 261"));
  nn::GGUFTokenizer wrong = tokenizer;
  wrong.eos = 260;
  CHECK_THROWS_WITH(nn::save_gguf(d.file("n.gguf"), model, wrong), Contains("special token of the tokenizer is 260"));
  CHECK_FALSE(std::filesystem::exists(d.file("n.gguf")));
}

TEST_CASE("gguf: an option that llama.cpp lacks is an Error that names it", "[gguf]") {
  const Directory d;
  const auto refused = [&](const nn::GPTOptions& options, const std::string& option) {
    INFO(option);
    const nn::GPT model(options);
    CHECK_THROWS_WITH(nn::save_gguf(d.file("m.gguf"), model),
                      Contains("[save_gguf] " + option + ": llama.cpp's models need"));
    CHECK_FALSE(std::filesystem::exists(d.file("m.gguf")));
  };
  refused(gpt2().positions(nn::Positions::alibi), "positions is alibi");
  refused(gpt2().window(4), "window is 4");
  refused(gpt2().windows({4, 0}), "windows is {4, 0}");
  refused(gpt2().logit_cap(30), "logit_cap is 30");
  refused(gpt2().attention_logit_cap(30), "attention_logit_cap is 30");
  refused(gpt2().activation(nn::Activation::relu), "activation is relu");
  refused(gpt2().bias(false), "bias is false");
  refused(gpt2().norm(nn::Norm::rms), "norm is rms");
  refused(llama().activation(nn::Activation::geglu), "activation is geglu");
  refused(llama().bias(true), "bias is true");
  refused(llama().qk_norm().qkv_bias(true), "qkv_bias is true");
  refused(llama().norm_place(nn::NormPlace::both), "norm_place is both");
  refused(llama().rotary_layout(RotaryLayout::interleaved), "rotary_layout is interleaved");
  refused(llama().rotary(nn::RotaryTableOptions().scaling(nn::RotaryScaling::ntk).factor(2)), "rotary.scaling is ntk");
  nn::GPT model(gpt2());
  nn::quantize_(model);
  CHECK_THROWS_WITH(nn::save_gguf(d.file("m.gguf"), model), Contains("is quantised"));
  nn::GPT infinite(gpt2());
  {
    const NoGrad no_grad;
    infinite.wte.weight.edit<float>()[3] = INFINITY;
  }
  CHECK_THROWS_WITH(nn::save_gguf(d.file("m.gguf"), infinite, {}, nn::SaveGGUFOptions().type(nn::GGUFType::q8_0)),
                    Contains("token_embd.weight holds NaN or infinity"));
}

TEST_CASE("gguf: a file that is cut anywhere is an Error", "[gguf]") {
  const Directory d;
  nn::GPT model(llama().vocab_size(4).d_model(8).num_layers(1).hidden(8));
  nn::save_gguf(d.file("m.gguf"), model);
  const std::string all = get(d.file("m.gguf"));
  REQUIRE(nn::load_gguf(d.file("m.gguf")).model.options().d_model() == 8);
  std::int64_t last = 0;  // cut in the padding after the last tensor, nothing is missing
  for (std::size_t size = 0; size < all.size(); ++size) {
    const std::string error = error_of(put(d.file("cut.gguf"), all.substr(0, size)));
    if (error == "no error") {
      last = static_cast<std::int64_t>(size);
      break;
    }
    if (error.find("[load_gguf] " + d.file("cut.gguf")) != 0) FAIL_CHECK("cut at " << size << ": " << error);
  }
  CHECK((last == 0 || last > static_cast<std::int64_t>(all.size()) - 32));
}

TEST_CASE("gguf: a damaged or hostile file is an Error that names the key or tensor", "[gguf]") {
  const Directory d;
  nn::GPT model(llama().vocab_size(4).d_model(8).num_layers(1).hidden(8));
  nn::save_gguf(d.file("m.gguf"), model);
  const std::string good = get(d.file("m.gguf"));
  const auto changed = [&](const std::string& after, std::int64_t skip, std::uint64_t value, std::size_t bytes) {
    std::string all = good;
    const std::size_t at = all.find(after);
    REQUIRE(at != all.npos);
    std::memcpy(all.data() + static_cast<std::int64_t>(at + after.size()) + skip, &value, bytes);
    return error_of(put(d.file("bad.gguf"), all));
  };
  constexpr std::uint64_t huge = ~std::uint64_t{0};
  CHECK_THAT(changed("GGUF", 0, 1, 4), Contains("the version is 1"));
  CHECK_THAT(changed("GGUF", 4, huge, 8), Contains("the number of tensors is 18446744073709551615"));
  CHECK_THAT(changed("GGUF", 12, 1u << 30, 8), Contains("the number of keys is 1073741824"));
  CHECK_THAT(changed("general.architecture", -28, huge, 8), Contains("key 0: the length of a text"));
  CHECK_THAT(changed("general.architecture", 0, 99, 4), Contains("key 'general.architecture' has the type 99"));
  CHECK_THAT(changed("general.architecture", 4, huge, 8), Contains("key 'general.architecture': the length"));
  CHECK_THAT(changed("general.architecture", 12, 'L', 1), Contains("'Llama': gpt2, llama, qwen2 and qwen3"));
  CHECK_THAT(changed("llama.block_count", 4, 0x7fffffff, 4), Contains("llama.block_count' is 2147483647"));
  CHECK_THAT(changed("llama.block_count", 4, 0, 4), Contains("key 'llama.block_count' is 0"));
  CHECK_THAT(changed("llama.block_count", 4, 2, 4), Contains("tensor 'blk.1.ffn_up.weight' is missing"));
  CHECK_THAT(changed("llama.embedding_length", 4, 1 << 20, 4), Contains("tensor 'token_embd.weight' has shape [4, 8]"));
  CHECK_THAT(changed("llama.attention.head_count_kv", 4, 0, 4), Contains("head_count_kv"));
  CHECK_THAT(changed("llama.attention.key_length", 4, 0x7ffffffe, 4), Contains("key 'llama.attention.value_length'"));
  CHECK_THAT(changed("llama.attention.layer_norm_rms_epsilon", 4, 0, 4), Contains("layer_norm_rms_epsilon' is 0"));
  CHECK_THAT(changed("llama.rope.freq_base", 0, 4, 4), Contains("key 'llama.rope.freq_base' has another type"));
  CHECK_THAT(changed("llama.context_lengt", 0, 'x', 1), Contains("key 'llama.context_length' is missing"));
  CHECK_THAT(changed("token_embd.weight", 0, 9, 4), Contains("tensor 'token_embd.weight' has 9 axes"));
  CHECK_THAT(changed("token_embd.weight", 4, huge, 8),
             Contains("tensor 'token_embd.weight': size 0 is 1844674407370955"));
  CHECK_THAT(changed("token_embd.weight", 4, 1u << 30, 8), Contains("tensor 'token_embd.weight' ends at byte"));
  CHECK_THAT(changed("token_embd.weight", 20, 77, 4), Contains("tensor 'token_embd.weight' has ggml's type 77"));
  CHECK_THAT(changed("token_embd.weight", 20, 8, 4), Contains("has rows of 8 elements: blocks of Q8_0 have 32"));
  CHECK_THAT(changed("token_embd.weight", 24, 64, 8), Contains("tensor 'token_embd.weight' begins at byte 64"));
  CHECK_THAT(changed("output_norm.weigh", 0, 'x', 1), Contains("output_norm"));
  std::string twice = good;
  twice.replace(twice.find("general.file_type"), 17, "llama.block_count");
  CHECK_THAT(error_of(put(d.file("bad.gguf"), twice)), Contains("key 'llama.block_count' is there twice"));
  twice = good;
  twice.replace(twice.find("blk.0.attn_k.weight"), 19, "blk.0.attn_q.weight");
  CHECK_THAT(error_of(put(d.file("bad.gguf"), twice)), Contains("tensor 'blk.0.attn_q.weight' is there twice"));
  CHECK_THAT(error_of(d.file("none")), Contains("there is no such file"));
}

namespace {

// Another file with more keys and tensors.
std::string with(const Directory& d, const io::GGUFKeys& more, const std::vector<io::GGUFTensor>& also = {}) {
  const io::GGUFFile file = io::open_gguf("test", d.file("m.gguf"));
  io::GGUFKeys keys = file.keys;
  keys.insert(keys.end(), more.begin(), more.end());
  std::vector<io::GGUFTensor> tensors = also;
  for (const io::Stored& x : file.tensors) tensors.push_back({x.name, x.read(), io::find_ggml_type("F32")});
  io::write_gguf("test", d.file("n.gguf"), keys, tensors);
  return d.file("n.gguf");
}

}  // namespace

TEST_CASE("gguf: scaling of rotary positions has llama.cpp's defaults, and no key is left aside", "[gguf]") {
  const Directory d;
  nn::save_gguf(d.file("m.gguf"), nn::GPT(llama().vocab_size(4).d_model(8).num_layers(1).hidden(8)));
  for (const char* const key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    const auto rotary = nn::load_gguf(with(d, {{key, 4.}})).model.options().rotary();
    CHECK(rotary.scaling() == nn::RotaryScaling::linear);
    CHECK(rotary.factor() == 4);
  }
  CHECK(nn::load_gguf(with(d, {{"llama.rope.scaling.type", std::string("none")}, {"llama.rope.scaling.factor", 4.}}))
            .model.options()
            .rotary()
            .scaling() == nn::RotaryScaling::none);
  CHECK_THAT(error_of(with(d, {{"llama.rope.scaling.type", std::string("linear")}})),
             Contains("scaling.factor' is missing"));
  CHECK_THAT(error_of(with(d, {{"llama.attention.other", std::int64_t{5}}})),
             Contains("key 'llama.attention.other' is not known here"));
  CHECK_NOTHROW(nn::load_gguf(with(d, {{"llama.attention.other", std::int64_t{0}}})));
}

TEST_CASE("gguf: the window of a llama is read", "[gguf]") {
  const Directory d;
  nn::save_gguf(d.file("m.gguf"), nn::GPT(llama().vocab_size(4).d_model(8).num_layers(1).hidden(8)));
  CHECK(nn::load_gguf(with(d, {{"llama.attention.sliding_window", std::int64_t{5}}})).model.options().window() == 5);
  CHECK(nn::load_gguf(with(d, {{"llama.attention.sliding_window", std::int64_t{0}}})).model.options().window() == 0);
}

TEST_CASE("gguf: the divisors of angles of Llama 3.1 and 3.2 are their scaling", "[gguf]") {
  const Directory d;
  const nn::GPTOptions o = llama().vocab_size(4).d_model(32).num_layers(1).hidden(8).rotary(
      nn::RotaryTableOptions().base(500000));  // heads of 8 features
  nn::save_gguf(d.file("m.gguf"), nn::GPT(o));
  const auto read = [&](const Tensor& divisors, const io::GGUFKeys& more = {}) {
    return with(d, more, {{"rope_freqs.weight", divisors, io::find_ggml_type("F32")}});
  };
  // transformers: ROPE_INIT_FUNCTIONS["llama3"] with low_freq_factor 1, high_freq_factor 4, original length 8192
  for (const auto& [factor, middle] : {std::pair(8., 2.6945302486419678), {32., 3.292262554168701}}) {
    const auto rotary = nn::load_gguf(read(tensor({1., 1., middle, factor}, float32))).model.options().rotary();
    CHECK(rotary.scaling() == nn::RotaryScaling::llama3);
    CHECK(rotary.factor() == factor);
    CHECK(rotary.original_length() == 8192);
    CHECK(rotary.base() == 500000);
  }
  CHECK(nn::load_gguf(read(ones({4}))).model.options().rotary().scaling() == nn::RotaryScaling::none);
  CHECK_THAT(error_of(read(tensor({1., 1., 2.5, 8.}, float32))),
             Contains("tensor 'rope_freqs.weight' holds other divisors than the scaling llama3") &&
                 Contains("safetensors") && Contains("load_pretrained()"));
  CHECK_THAT(error_of(read(tensor({1., 1., NAN, 8.}, float32))), Contains("holds other divisors"));
  CHECK_THAT(error_of(read(ones({3}))), Contains("tensor 'rope_freqs.weight' has shape [3]: expected [4]"));
  CHECK_THAT(error_of(read(tensor({1., 1., 2.6945302486419678, 8.}, float32), {{"llama.rope.scaling.factor", 2.}})),
             Contains("beside the scaling of the keys"));
}

TEST_CASE("gguf: a number that its key can't hold is an error", "[gguf]") {
  const Directory d;
  const auto refuses = [&](const io::GGUFValue& value, const std::string& why) {
    CHECK_THROWS_WITH(io::write_gguf("save", d.file("model.gguf"), {{"a.key", value}}, {}),
                      Contains("[save] key 'a.key' has the value " + why));
    CHECK(std::filesystem::is_empty(d.path));
  };
  refuses(std::int64_t{1} << 32, "4294967296: the file holds 0 … 4294967295");
  refuses(std::int64_t{-1}, "-1: the file holds 0 … ");
  refuses(std::vector<std::int64_t>{1, std::int64_t{1} << 31}, "2147483648: ");
  refuses(1e39, "1e+39: ");
  refuses(std::vector<double>{-1e300}, "-1e+300: ");
  nn::GPT model(gpt2());
  nn::GGUFTokenizer tokens;
  tokens.model = "gpt2", tokens.tokens.assign(260, "a"), tokens.types.assign(260, std::int64_t{1} << 40);
  CHECK_THROWS_WITH(nn::save_gguf(d.file("model.gguf"), model, tokens), Contains("key 'tokenizer.ggml.token_type'"));
}

}  // namespace fit::test::gguf_test
