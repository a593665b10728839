// GPTs as files of llama.cpp: keys are options, and names are those of Hugging Face's models under other names.
#include "fit/nn/weights/gguf.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/affixes.hpp"
#include "common/load.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "io/gguf.hpp"
#include "models/compared_options.hpp"
#include "models/gpt_options.hpp"
#include "tensor/check.hpp"
#include "unicode/byte_characters.hpp"
#include "weights/maps.hpp"
#include "weights/steps.hpp"

namespace fit::nn {
namespace {

constexpr const char *save_op = "save_gguf", *load_op = "load_gguf";
constexpr std::int64_t usual_context = 4096;
// The scaling of Llama 3.1 and 3.2 is a tensor: what the angle of each pair of features is divided by.
constexpr const char* divisors_name = "rope_freqs.weight";

// ---- architectures -------------------------------------------------------------------------------------------------

// The families of family_options() besides gpt2.
constexpr const char* like_llama[] = {"llama", "qwen2", "qwen3"};

// GGUF's names and those of Hugging Face, whose rules know the options that fit.
NameMap gguf_names(const GPT& gpt) {
  const bool gpt2 = gpt.options().positions() == Positions::learned;
  NameMap map;
  const auto rows = [&map](std::initializer_list<std::pair<const char*, const char*>> names) {
    for (const auto& [theirs, other] : names) map.push_back(rename(theirs, other));
  };
  if (gpt2) {
    rows({{"token_embd.weight", "transformer.wte.weight"},
          {"position_embd.weight", "transformer.wpe.weight"},
          {"output_norm.*", "transformer.ln_f.*"},
          {"output.weight", "lm_head.weight"},
          {"blk.*.attn_norm.*", "transformer.h.*.ln_1.*"},
          {"blk.*.ffn_norm.*", "transformer.h.*.ln_2.*"}});
    for (const auto& [theirs, other] :
         std::initializer_list<std::pair<const char*, const char*>>{{"attn_qkv", "attn.c_attn"},
                                                                    {"attn_output", "attn.c_proj"},
                                                                    {"ffn_up", "mlp.c_fc"},
                                                                    {"ffn_down", "mlp.c_proj"}}) {
      map.push_back(
          transpose(std::string("blk.*.") + theirs + ".weight", std::string("transformer.h.*.") + other + ".weight"));
      map.push_back(
          rename(std::string("blk.*.") + theirs + ".bias", std::string("transformer.h.*.") + other + ".bias"));
    }
  } else {
    map.push_back(drop(divisors_name));  // read as an option
    rows({{"token_embd.weight", "model.embed_tokens.weight"},
          {"output_norm.weight", "model.norm.weight"},
          {"output.weight", "lm_head.weight"},
          {"blk.*.attn_norm.weight", "model.layers.*.input_layernorm.weight"},
          {"blk.*.ffn_norm.weight", "model.layers.*.post_attention_layernorm.weight"},
          {"blk.*.attn_q.*", "model.layers.*.self_attn.q_proj.*"},
          {"blk.*.attn_k.*", "model.layers.*.self_attn.k_proj.*"},
          {"blk.*.attn_v.*", "model.layers.*.self_attn.v_proj.*"},
          {"blk.*.attn_q_norm.weight", "model.layers.*.self_attn.q_norm.weight"},
          {"blk.*.attn_k_norm.weight", "model.layers.*.self_attn.k_norm.weight"},
          {"blk.*.attn_output.*", "model.layers.*.self_attn.o_proj.*"},
          {"blk.*.ffn_up.*", "model.layers.*.mlp.up_proj.*"},
          {"blk.*.ffn_gate.*", "model.layers.*.mlp.gate_proj.*"},
          {"blk.*.ffn_down.*", "model.layers.*.mlp.down_proj.*"}});
  }
  for (NameRule& rule : gpt2 ? gpt2_names(gpt) : llama_names(gpt)) map.push_back(std::move(rule));
  return map;
}

// The architecture of a model. What llama.cpp has no key for is an Error.
std::string architecture_of(const GPTOptions& o) {
  const bool gpt2 = o.positions() != Positions::rotary, qkv_bias = o.qkv_bias().value_or(o.bias());
  GPTOptions like = as_gpt2(o).activation(Activation::gelu_tanh);
  if (!gpt2) {
    like = as_llama(o).activation(Activation::swiglu).bias(false).qkv_bias(qkv_bias && !o.qk_norm());
    like.window(0).windows({}).logit_cap(0).attention_logit_cap(0);
    if (o.rotary().scaling() != RotaryScaling::linear)
      like.rotary(RotaryTableOptions(like.rotary()).scaling(RotaryScaling::none));
  }
  expect_options(save_op, "llama.cpp's models", o, like);
  if (gpt2) return "gpt2";
  const auto fits = [&](const char* name) {
    const GPTOptions family = family_options(name);
    return family.qk_norm() == o.qk_norm() && family.qkv_bias() == qkv_bias;
  };
  return *std::find_if(std::begin(like_llama), std::end(like_llama), fits);
}

// llama.cpp rotates neighbours in models of the architecture "llama", and so do the rows of its queries and keys.
enum class To { theirs, ours };
Tensor reordered(const Tensor& x, std::int64_t heads, To to) {
  const std::int64_t rows = x.size(0), half = rows / heads / 2, rest = x.numel() / rows;
  const Tensor parts = to == To::theirs ? reshape(x, {heads, 2, half, rest}) : reshape(x, {heads, half, 2, rest});
  return reshape(transpose(parts, 1, 2), x.shape());
}

// The number of heads of a tensor that is reordered; 0 for others.
std::int64_t reordered_heads(const std::string& architecture, const std::string& name, const GPTOptions& o) {
  if (architecture != "llama") return 0;
  if (name.find(".attn_q.") != std::string::npos) return o.num_heads();
  return name.find(".attn_k.") != std::string::npos ? o.num_kv_heads() : 0;
}

// ---- tokenizers ----------------------------------------------------------------------------------------------------

GGUFTokenizer byte_pairs(const text::Vocabulary& v) {
  GGUFTokenizer t;
  t.model = "gpt2", t.pre = "gpt-2";
  for (std::int64_t id = 0; id < v.size(); ++id) t.tokens.push_back(unicode::characters_of_bytes(v.token(id)));
  t.types.assign(t.tokens.size(), 1);
  return t;
}

io::GGUFKeys keys_of(const GGUFTokenizer& t) {
  if (t.model.empty()) return {};
  io::GGUFKeys keys{{"tokenizer.ggml.model", t.model}};
  const auto add = [&](const char* name, const auto& list) {
    if (!list.empty()) keys.emplace_back(std::string("tokenizer.ggml.") + name, list);
  };
  add("pre", t.pre), add("tokens", t.tokens), add("scores", t.scores), add("token_type", t.types);
  add("merges", t.merges);
  for (const auto& [name, id] :
       {std::pair("bos", t.bos), {"eos", t.eos}, {"unknown", t.unknown}, {"padding", t.padding}})
    if (id) keys.emplace_back(std::string("tokenizer.ggml.") + name + "_token_id", *id);
  return keys;
}

void check_tokenizer(const GGUFTokenizer& t, const GPTOptions& o) {
  const auto vocabulary = static_cast<std::size_t>(o.vocab_size());
  if (t.model.empty()) return;
  for (const auto& [what, size] :
       {std::pair("tokens", t.tokens.size()), {"scores", t.scores.size()}, {"types", t.types.size()}})
    if (size != vocabulary && !(size == 0 && what != std::string("tokens")))
      check::fail(save_op, "the tokenizer has ", size, ' ', what, ", the model ", vocabulary, " tokens");
  for (const auto& id : {t.bos, t.eos, t.unknown, t.padding})
    if (id && (*id < 0 || *id >= o.vocab_size()))
      check::fail(save_op, "a special token of the tokenizer is ", *id, ": it must be in 0 … ", o.vocab_size() - 1);
}

// ---- saving --------------------------------------------------------------------------------------------------------

io::GGUFKeys keys_of(const GPTOptions& o, const std::string& architecture, const SaveGGUFOptions& save) {
  // ggml's numbers of files: ALL_F32, MOSTLY_F16, MOSTLY_BF16, MOSTLY_Q8_0
  constexpr std::int64_t file_types[] = {0, 1, 32, 7};
  io::GGUFKeys keys{{"general.architecture", architecture}};
  const auto add = [&](const char* name, const io::GGUFValue& value) { keys.emplace_back(architecture + name, value); };
  if (!save.name().empty()) keys.emplace_back("general.name", save.name());
  keys.emplace_back("general.file_type", file_types[static_cast<int>(save.type())]);
  if (save.type() == GGUFType::q8_0) keys.emplace_back("general.quantization_version", std::int64_t{2});
  add(".context_length", o.context_length());
  add(".embedding_length", o.d_model());
  add(".block_count", o.num_layers());
  add(".feed_forward_length", o.hidden());
  add(".attention.head_count", o.num_heads());
  if (architecture == "gpt2") {
    add(".attention.layer_norm_epsilon", o.norm_eps());
    return keys;
  }
  add(".vocab_size", o.vocab_size());
  add(".attention.head_count_kv", o.num_kv_heads());
  add(".attention.key_length", o.head_size());
  add(".attention.value_length", o.head_size());
  add(".attention.layer_norm_rms_epsilon", o.norm_eps());
  add(".rope.dimension_count", o.head_size());
  add(".rope.freq_base", o.rotary().base());
  if (o.rotary().scaling() == RotaryScaling::linear)
    add(".rope.scaling.type", std::string("linear")), add(".rope.scaling.factor", o.rotary().factor());
  return keys;
}

const io::GGMLType* type_of(const Tensor& x, GGUFType type) {
  static constexpr const char* names[] = {"F32", "F16", "BF16", "Q8_0"};
  if (x.rank() < 2) return io::find_ggml_type("F32");
  const io::GGMLType* const wanted = io::find_ggml_type(names[static_cast<int>(type)]);
  return x.size(-1) % wanted->block == 0 ? wanted : io::find_ggml_type("F16");
}

// Q8_0 has a scale in float16, the largest magnitude of 32 weights divided by 127, and no NaN.
void check_held(const std::string& name, const Tensor& x, const std::string& type) {
  constexpr double largest_half = 65504;
  if (type == "Q8_0" && !all(isfinite(x)).item<bool>())
    check::fail(save_op, "tensor ", name, " holds NaN or infinity, which Q8_0 lacks");
  const double most = type == "Q8_0" ? 127 * largest_half : type == "F16" ? largest_half : 0;
  if (most > 0 && any((abs(x) > most) && isfinite(x)).item<bool>())
    check::fail(save_op, "tensor ", name, " holds a number above ", most, ", which ", type,
                " lacks: take another type");
}

// ---- loading -------------------------------------------------------------------------------------------------------

class Keys {
 public:
  explicit Keys(const io::GGUFFile& file) : file_(*file.file) {
    for (const auto& [key, value] : file.keys) values_.emplace(key, &value);
  }
  template <class T>
  std::optional<T> find(const std::string& key) const {
    read_.insert(key);
    const auto found = values_.find(key);
    if (found == values_.end()) return {};
    if (const auto* const value = std::get_if<T>(found->second)) return *value;
    file_.fail("key '", key, "' has another type than expected");
  }
  template <class T>
  T get(const std::string& key) const {
    std::optional<T> value = find<T>(key);
    if (!value) file_.fail("key '", key, "' is missing");
    return std::move(*value);
  }
  template <class T>
  T get(const std::string& key, T otherwise) const {
    return find<T>(key).value_or(std::move(otherwise));
  }
  std::int64_t size(const std::string& key) const {
    const auto n = get<std::int64_t>(key);
    if (n < 1 || n > INT32_MAX) file_.fail("key '", key, "' is ", n, ": it must be in 1 … 2147483647");
    return n;
  }
  /// The eps of all norms. It can't be 0, which stands for a default in GPTOptions.
  double norm_eps(const std::string& key) const {
    const auto value = get<double>(key);
    if (value == 0) file_.fail("key '", key, "' is 0: it must be positive");
    return value;
  }
  /// Throws FileError for a key of the architecture that was not read, unless its value is 0.
  void check_all_read(const std::string& architecture) const {
    for (const char* const harmless :
         {".vocab_size", ".tensor_data_layout", ".rope.scaling.original_context_length", ".rope.scaling.finetuned"})
      read_.insert(architecture + harmless);
    for (const auto& [key, value] : values_)
      if (starts_with(key, architecture + '.') && read_.count(key) == 0 && *value != io::GGUFValue(std::int64_t{0}) &&
          *value != io::GGUFValue(0.))
        file_.fail("key '", architecture, '.', io::shown(key.substr(architecture.size() + 1)),
                   "' is not known here, and could change the result");
  }
  const io::InputFile& file() const { return file_; }

 private:
  const io::InputFile& file_;
  std::unordered_map<std::string, const io::GGUFValue*> values_;
  mutable std::unordered_set<std::string> read_;
};

GGUFTokenizer tokenizer_of(const Keys& keys, std::int64_t vocabulary) {
  GGUFTokenizer t;
  const std::string before = "tokenizer.ggml.";
  using Texts = std::vector<std::string>;
  t.model = keys.get(before + "model", std::string());
  if (t.model.empty() || t.model == "none") return {};
  t.pre = keys.get(before + "pre", std::string());
  t.tokens = keys.get<Texts>(before + "tokens");
  t.scores = keys.get(before + "scores", std::vector<double>());
  t.types = keys.get(before + "token_type", std::vector<std::int64_t>());
  t.merges = keys.get(before + "merges", Texts());
  const auto count = static_cast<std::size_t>(vocabulary);
  if (t.tokens.size() != count || (!t.scores.empty() && t.scores.size() != count) ||
      (!t.types.empty() && t.types.size() != count))
    keys.file().fail("keys '", before, "tokens', 'scores' and 'token_type' have ", t.tokens.size(), ", ",
                     t.scores.size(), " and ", t.types.size(), " values: the model has ", vocabulary, " tokens");
  const auto id = [&](const char* name) {
    const auto value = keys.find<std::int64_t>(before + name + "_token_id");
    if (value && (*value < 0 || *value >= vocabulary))
      keys.file().fail("key '", before, name, "_token_id' is ", *value, ": the model has ", vocabulary, " tokens");
    return value;
  };
  t.bos = id("bos"), t.eos = id("eos"), t.unknown = id("unknown"), t.padding = id("padding");
  return t;
}

using Sizes = std::map<std::string, const io::Stored*>;

// llama.cpp's scaling is linear where a factor has no type; older files name the factor scale_linear.
RotaryTableOptions rotary_of(const Keys& keys, const std::string& architecture) {
  const std::string rope = architecture + ".rope.";
  auto rotary = RotaryTableOptions().base(keys.get(rope + "freq_base", 10000.));
  const double factor = keys.get(rope + "scaling.factor", keys.get(rope + "scale_linear", 0.));
  const auto scaling = keys.get(rope + "scaling.type", std::string(factor > 0 ? "linear" : "none"));
  if (scaling == "none") return rotary;
  if (scaling != "linear")
    keys.file().fail("key '", rope, "scaling.type' is '", io::shown(scaling), "': only linear can be read");
  if (factor <= 0) keys.file().fail("key '", rope, "scaling.factor' is missing: linear scaling needs a positive one");
  return rotary.scaling(RotaryScaling::linear).factor(factor);
}

std::vector<double> angles(std::int64_t D, const RotaryTableOptions& rotary) {
  const Tensor sines = rotary_table(2, D, rotary)[{1, range(), 1}];  // at position 1 no angle is above 1
  std::vector<double> all = sines.to_vector<double>();
  for (double& x : all) x = std::asin(x);
  return all;
}

RotaryTableOptions with_divisors(const Keys& keys, const RotaryTableOptions& rotary, const io::Stored& divisors,
                                 std::int64_t D) {
  const auto fail = [&](const auto&... why) { keys.file().fail("tensor '", divisors_name, why...); };
  if (D < 2 || divisors.shape != Shape{D / 2}) fail("' has shape ", divisors.shape, ": expected [", D / 2, ']');
  if (rotary.scaling() != RotaryScaling::none) fail("' is there beside the scaling of the keys: only one can be read");
  const std::vector<double> given = divisors.read().to(float64).to_vector<double>();
  const double factor = *std::max_element(given.begin(), given.end());
  const auto llama3 = RotaryTableOptions(rotary)
                          .scaling(RotaryScaling::llama3)
                          .factor(factor > 0 ? factor : 1)
                          .original_length(8192)
                          .beta_slow(1)
                          .beta_fast(4);
  const std::vector<double> before = angles(D, rotary), after = angles(D, llama3);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!(std::abs(before[i] / after[i] - given[i]) < 1e-3 * given[i]))
      fail(
          "' holds other divisors than the scaling llama3 of Llama 3.1 and 3.2, with low_freq_factor 1, "
          "high_freq_factor 4 and original_max_position_embeddings 8192: only those can be read. "
          "load_pretrained() reads the model's safetensors with each scaling llama3");
  return factor == 1 ? rotary : llama3;
}

// The options of the other architectures than gpt2.
GPTOptions llama_options(const Keys& keys, const std::string& architecture, GPTOptions o, const Sizes& tensors,
                         const LoadGGUFOptions& load) {
  const auto key = [&](const char* name) { return architecture + name; };
  const std::int64_t usual = std::min(o.context_length(), usual_context), head = o.d_model() / o.num_heads();
  o.context_length(load.context_length().value_or(usual));
  o.norm_eps(keys.norm_eps(key(".attention.layer_norm_rms_epsilon")));
  o.num_kv_heads(keys.get(key(".attention.head_count_kv"), o.num_heads()));
  o.head_size(keys.get(key(".attention.key_length"), head));
  for (const char* const size : {".attention.value_length", ".rope.dimension_count"})
    if (const auto given = keys.get(key(size), o.head_size()); given != o.head_size())
      keys.file().fail("key '", key(size), "' is ", given, ": it must be the size of a head, ", o.head_size());
  if (architecture == "llama") o.window(keys.get(key(".attention.sliding_window"), std::int64_t{0}));  // Mistral
  const RotaryTableOptions rotary = rotary_of(keys, architecture);
  const auto divisors = tensors.find(divisors_name);
  return o.rotary(divisors == tensors.end() ? rotary : with_divisors(keys, rotary, *divisors->second, o.head_size()));
}

GPTOptions options_of(const Keys& keys, const std::string& architecture, const Sizes& tensors,
                      const LoadGGUFOptions& load) {
  const auto key = [&](const char* name) { return architecture + name; };
  const auto table = tensors.find("token_embd.weight");
  if (table == tensors.end() || table->second->shape.rank() != 2)
    keys.file().fail("tensor 'token_embd.weight' is missing, or has not two axes");
  auto o = family_options(architecture)
               .vocab_size(table->second->shape[0])
               .context_length(keys.size(key(".context_length")))
               .d_model(keys.size(key(".embedding_length")))
               .num_layers(keys.size(key(".block_count")))
               .hidden(keys.size(key(".feed_forward_length")))
               .num_heads(keys.size(key(".attention.head_count")))
               .tie_weights(tensors.count("output.weight") == 0);
  if (architecture != "gpt2") return llama_options(keys, architecture, o, tensors, load);
  o.num_kv_heads(o.num_heads()).head_size(o.d_model() / o.num_heads());
  return o.norm_eps(keys.norm_eps(key(".attention.layer_norm_epsilon")));
}

// The shapes that the options ask for, in the file's names. They are compared before a model is made: so no key makes
// memory that the file's tensors don't fill.
void check_sizes(const Keys& keys, const std::string& architecture, const GPTOptions& o, const Sizes& tensors) {
  const auto expect = [&](const std::string& name, const Shape& shape) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) keys.file().fail("tensor '", name, "' is missing");
    if (found->second->shape != shape)
      keys.file().fail("tensor '", name, "' has shape ", found->second->shape, ": the keys ask for ", shape);
  };
  const std::int64_t C = o.d_model(), D = o.head_size();
  if (o.num_layers() > static_cast<std::int64_t>(tensors.size()))
    keys.file().fail("key '", architecture, ".block_count' is ", o.num_layers(), ", but there are ", tensors.size(),
                     " tensors");
  expect("token_embd.weight", {o.vocab_size(), C});
  if (!o.tie_weights()) expect("output.weight", {o.vocab_size(), C});
  if (architecture == "gpt2") expect("position_embd.weight", {o.context_length(), C});
  for (std::int64_t i = 0; i < o.num_layers(); ++i) {
    const std::string block = "blk." + std::to_string(i) + '.';
    expect(block + "ffn_up.weight", {o.hidden(), C});
    expect(block + "ffn_down.weight", {C, o.hidden()});
    if (architecture == "gpt2") {
      expect(block + "attn_qkv.weight", {3 * C, C});
      continue;
    }
    expect(block + "ffn_gate.weight", {o.hidden(), C});
    if (o.num_kv_heads() < 1 || D < 1 || o.num_kv_heads() > C * o.num_heads() || D > INT32_MAX)
      keys.file().fail("keys '", architecture, ".attention.head_count_kv' and 'key_length' are ", o.num_kv_heads(),
                       " and ", D, ": both must be positive");
    expect(block + "attn_q.weight", {o.num_heads() * D, C});
    expect(block + "attn_k.weight", {o.num_kv_heads() * D, C});
  }
}

}  // namespace

GGUFTokenizer gguf_tokenizer(const text::GPT2Vocabulary& v) {
  GGUFTokenizer t = byte_pairs(v);
  for (const auto& merge : v.merges())
    t.merges.push_back(t.tokens[static_cast<std::size_t>(merge.first)] + ' ' +
                       t.tokens[static_cast<std::size_t>(merge.second)]);
  if (const std::int64_t end = v.end_of_text(); end >= 0) {
    const auto at = static_cast<std::size_t>(end);
    t.tokens[at] = v.token(end), t.types[at] = 3;
    t.bos = t.eos = end;
  }
  return t;
}

GGUFTokenizer gguf_tokenizer(const text::BytePairVocabulary& v) {
  GGUFTokenizer t = byte_pairs(v);
  for (const auto& [first, second] : v.merges())
    t.merges.push_back(t.tokens[static_cast<std::size_t>(first)] + ' ' + t.tokens[static_cast<std::size_t>(second)]);
  return t;
}

void save_gguf(const std::string& path, const GPT& model, const GGUFTokenizer& tokenizer, const SaveGGUFOptions& save) {
  const GPTOptions& o = model.options();
  check_plain_weights(save_op, model);
  const std::string architecture = architecture_of(o);
  check_tokenizer(tokenizer, o);
  io::GGUFKeys keys = keys_of(o, architecture, save);
  for (auto& key : keys_of(tokenizer)) keys.push_back(std::move(key));
  std::vector<io::GGUFTensor> tensors;
  for (const auto& [name, x] : to_theirs(model.state_dict(), gguf_names(model))) {
    if (o.tie_weights() && name == "output.weight") continue;
    const std::int64_t heads = reordered_heads(architecture, name, o);
    const Tensor values = heads > 0 ? reordered(x.detach(), heads, To::theirs) : x.detach();
    const io::GGMLType* const type = type_of(values, save.type());
    check_held(name, values, type->name);
    tensors.push_back({name, values, type});
  }
  io::write_gguf(save_op, path, keys, tensors);
}

GGUFModel load_gguf(const std::string& path, const LoadGGUFOptions& load) {
  io::GGUFFile file = io::open_gguf(load_op, path);
  const Keys keys(file);
  const auto architecture = keys.get<std::string>("general.architecture");
  if (architecture != "gpt2" &&
      std::find(std::begin(like_llama), std::end(like_llama), architecture) == std::end(like_llama))
    file.file->fail("key 'general.architecture' is '", io::shown(architecture),
                    "': gpt2, llama, qwen2 and qwen3 can be read");
  Sizes tensors;
  for (const io::Stored& x : file.tensors) tensors.emplace(x.name, &x);
  try {
    const GPTOptions o = options_of(keys, architecture, tensors, load);
    if (!keys.get(architecture + ".attention.causal", true))
      file.file->fail("key '", architecture, ".attention.causal' is false: a GPT is causal");
    keys.check_all_read(architecture);
    check_sizes(keys, architecture, o, tensors);
    const init::Skip undrawn;
    GPT model(o);
    for (io::Stored& x : file.tensors)
      if (const std::int64_t heads = reordered_heads(architecture, x.name, o); heads > 0)
        x.read = [read = x.read, heads] { return reordered(read(), heads, To::ours); };
    GGUFTokenizer tokenizer = tokenizer_of(keys, o.vocab_size());
    load_values(load_op, "GPT", model.state_dict(), mapped_to_ours(file.tensors, gguf_names(model)));
    return {std::move(model), std::move(tokenizer), keys.get("general.name", std::string())};
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    file.file->fail("the keys and tensors don't fit a GPT: ", error.what());
  }
}

}  // namespace fit::nn
