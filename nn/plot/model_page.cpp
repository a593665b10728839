#include "fit/model_page.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/class_name.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/ops/ops.hpp"
#include "io/half.hpp"
#include "plot/figures/encode.hpp"
#include "plot/figures/text.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"
#include "tokenizers/unicode.hpp"

namespace fit::plot {
namespace {

using nlohmann::json;
constexpr const char* model_page_op = "plot::model_page";
constexpr std::int64_t max_parameters = 8'000'000;
constexpr std::int64_t checked_tokens = 24;  // of a sample, by the badge
constexpr std::size_t checked_samples = 2;

// nn::GPT(options), the model that the page's script computes, in evaluation. Draws no random numbers.
nn::GPT twin_of(const nn::GPTOptions& options) {
  const nn::init::Skip undrawn;
  return nn::GPT(options);
}

Tensor logits_of(const nn::GPT& model, const Tensor& ids) {
  const NoGrad no_grad;
  return model(ids.unsqueeze(0))[0];
}

// Throws Error unless the twin has the model's layers and parameters. Gives it the values `weights`, as they are
// stored.
void load(nn::GPT& twin, const StateDict& weights, bool wide) {
  StateDict rounded;
  for (const auto& [name, x] : weights) {
    if (!is_floating(x.dtype()))
      check::fail(model_page_op, "'", name, "' is ", x.dtype(), ": the weights of a page must be floating");
    Tensor values = x.detach().to(float32).clone();
    for (float& v : values.edit<float>()) {
      if (!std::isfinite(v) || (!wide && std::abs(v) >= 65520))
        check::fail(model_page_op, "'", name, "' has the value ", v,
                    std::isfinite(v) ? ": float16 ends at 65504; use float32()" : ": weights must be finite");
      if (!wide) v = io::half_to_float(io::float_to_half(v));
    }
    rounded.emplace_back(name, values);
  }
  try {
    twin.load_state_dict(rounded);
  } catch (const Error& e) {
    check::fail(model_page_op, "the weights are not those of nn::GPT(model.options()): ", e.what());
  }
}

// Refuses a model that is not what its options describe. The message names the first part that differs.
void check_supported(const nn::GPT& model, nn::GPT& twin) {
  if (model.num_parameters() > max_parameters)
    check::fail(model_page_op, "the model has ", model.num_parameters(), " parameters: a page holds at most ",
                max_parameters);
  const nn::GPTOptions& o = model.options();
  for (const auto& [differs, name] : {std::pair(o.local_rotary().has_value(), "local_rotary"),
                                      {o.rotary_features() != 0, "rotary_features"},
                                      {o.qk_norm_across_heads(), "qk_norm_across_heads"},
                                      {o.parallel(), "parallel"},
                                      {o.embedding_scale() != 1, "embedding_scale"},
                                      {o.attention_scale().has_value(), "attention_scale"},
                                      {o.activation() == nn::Activation::geglu_tanh, "geglu_tanh"}})
    if (differs) check::fail(model_page_op, "the model has the option ", name, ": the page can't compute it");
  std::map<std::string, const nn::Layer*> known;
  for (const auto& [name, layer] : twin.named_layers()) known[name] = layer;
  for (const auto& [name, layer] : model.named_layers()) {
    const auto at = known.find(name);
    if (at == known.end() || at->second->name() != layer->name() || at->second->describe() != layer->describe())
      check::fail(
          model_page_op, "'", name, "' is a ", layer->name(), '(', layer->describe(),
          "): the page computes only what nn::GPT(model.options()) has",
          at == known.end() ? std::string() : ", a " + at->second->name() + '(' + at->second->describe() + ") there");
    known.erase(at);
  }
  if (!known.empty())
    check::fail(model_page_op, "the model has no layer '", known.begin()->first, "', as its options describe it");
  load(twin, model.state_dict(), true);
  // Windows and angles have no names: the twin's logits show them.
  const std::int64_t T = std::min<std::int64_t>(model.options().context_length(), 1024);
  const Tensor ids = arange(T) * 7 % model.options().vocab_size();
  const auto plain = nn::clone(model);
  plain->to(float32);
  plain->eval();
  const Tensor theirs = logits_of(twin, ids), own = logits_of(*plain, ids);
  if (!equal(own, theirs))
    check::fail(model_page_op, "the logits of the model and of nn::GPT(model.options()) differ by ",
                max(abs(own - theirs)).item(), ": its blocks must be those of its options");
}

// The tensors of the page: a tied head is the embedding.
StateDict tensors_of(const nn::GPT& twin) {
  StateDict tensors;
  for (const auto& [name, x] : twin.state_dict())
    if (name != "head.weight" || !twin.options().tie_weights()) tensors.emplace_back(name, x);
  return tensors;
}

// The bytes of all tensors, one after the other, little-endian.
std::string packed(const StateDict& tensors, bool wide) {
  std::string bytes;
  for (const auto& [name, x] : tensors)
    for (const float v : x.data<float>()) {
      std::uint32_t bits = io::float_to_half(v);
      if (wide) std::memcpy(&bits, &v, sizeof bits);
      for (int k = 0; k < (wide ? 4 : 2); ++k) bytes += static_cast<char>(bits >> (8 * k) & 0xff);
    }
  return bytes;
}

// The angle of each pair at position 1, and the factor of its length: rotary_table() has nothing else.
json rotary_of(const nn::GPTOptions& o) {
  const Tensor table = nn::rotary_table(2, o.head_size(), o.rotary());
  json rotary{{"layout", o.rotary_layout() == RotaryLayout::half_split ? "half_split" : "interleaved"},
              {"angles", json::array()},
              {"lengths", json::array()}};
  for (std::int64_t i = 0; i < o.head_size() / 2; ++i) {
    const double cos = table[{1, i, 0}].item(), sin = table[{1, i, 1}].item();
    rotary["angles"].push_back(std::atan2(sin, cos));
    rotary["lengths"].push_back(std::hypot(sin, cos));
  }
  return rotary;
}

json config_of(const nn::GPT& twin, bool wide) {
  const nn::GPTOptions& o = twin.options();
  json config{{"vocab_size", o.vocab_size()},
              {"context_length", o.context_length()},
              {"num_layers", o.num_layers()},
              {"num_heads", o.num_heads()},
              {"num_kv_heads", o.num_kv_heads()},
              {"d_model", o.d_model()},
              {"head_size", o.head_size()},
              {"positions", nn::name_of(o.positions())},
              {"activation", nn::name_of(o.activation())},
              {"norm", o.norm() == nn::Norm::layer ? "layer" : "rms"},
              {"norm_eps", o.norm_eps()},
              {"qk_norm", o.qk_norm()},
              {"logit_cap", o.logit_cap()},
              {"attention_logit_cap", o.attention_logit_cap()},
              {"float32", wide},
              {"parameters", twin.num_parameters()}};
  for (std::int64_t i = 0; i < o.num_layers(); ++i) {
    const auto& windows = o.windows();
    config["windows"].push_back(windows.empty() ? o.window() : windows[static_cast<std::size_t>(i) % windows.size()]);
  }
  if (o.positions() == nn::Positions::rotary) config["rotary"] = rotary_of(o);
  if (o.positions() == nn::Positions::alibi) config["alibi"] = nn::alibi_slopes(o.num_heads()).to_vector<double>();
  for (const auto& [name, x] : tensors_of(twin)) {
    json shape = json::array();
    for (int axis = 0; axis < x.rank(); ++axis) shape.push_back(x.size(axis));
    config["tensors"].push_back({{"name", name}, {"shape", shape}});
  }
  return config;
}

Tensor ids_of(const text::Vocabulary& vocabulary, const std::string& sample, const std::string& prefix,
              std::int64_t longest) {
  const Tensor ids = vocabulary.encode(prefix + sample);
  if (ids.numel() == 0 || ids.numel() > longest)
    check::fail(model_page_op, "the sample '", shorten(sample, 40), "' has ", ids.numel(), " tokens: it must have 1 … ",
                longest);
  return ids;
}

// ---- vocabularies, as page/model/vocabulary.js reads them -----------------------------------------------------------

// A part of a class of characters of a regular expression, from ranges as in data/unicode.hpp.
std::string ranges_of(const std::vector<std::int32_t>& table) {
  std::ostringstream all;
  all << std::hex;
  std::int32_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const std::int32_t begin = end + table[i];
    end = begin + table[i + 1];
    all << "\\u{" << begin << "}-\\u{" << end - 1 << '}';
  }
  return all.str();
}

// The pattern of the words within which pairs are joined, from classes of characters. `blank` is white space that
// leaves the last space to the next word.
std::string words_of(const std::string& letters, const std::string& numbers, const std::string& spaces,
                     const std::string& blank) {
  return " ?[" + letters + "]+| ?[" + numbers + "]+| ?[^" + spaces + letters + numbers + "]+|" + blank + "|[" + spaces +
         "]+";
}

json pairs_of(const text::BytePairVocabulary& vocabulary) {
  json pairs{{"whole", nullptr}, {"end", nullptr}, {"merges", json::array()}};
  for (std::int64_t id = 0; id < 256; ++id) pairs["bytes"].push_back(id);
  for (const auto& [a, b] : vocabulary.merges()) pairs["merges"].push_back({a, b, 256 + pairs["merges"].size()});
  pairs["words"] = words_of("A-Za-z\\u{80}-\\u{10ffff}", "0-9", "\\t-\\r ", "[\\t-\\r ]+(?= [^\\t-\\r ])");
  return pairs;
}

json pairs_of(const text::GPT2Vocabulary& vocabulary) {
  json pairs{{"whole", nullptr}, {"end", nullptr}, {"merges", json::array()}, {"bytes", vocabulary.bytes()}};
  if (vocabulary.end_of_text() >= 0)
    pairs["whole"] = vocabulary.token(vocabulary.end_of_text()), pairs["end"] = vocabulary.end_of_text();
  for (const auto& [a, b, joined] : vocabulary.merges()) pairs["merges"].push_back({a, b, joined});
  using namespace unicode::tables;
  const std::string S = ranges_of(spaces);
  pairs["words"] =
      "'(?:[stmd]|re|ve|ll)|" + words_of(ranges_of(letters), ranges_of(numbers), S, '[' + S + "]+(?![^" + S + "])");
  return pairs;
}

// Bytes, each as the character of the same number.
std::string characters_of(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) unicode::append(text, static_cast<unsigned char>(byte));
  return text;
}

// Puts the vocabulary into the data of the page.
void add_vocabulary(json& data, const text::Vocabulary& vocabulary, std::int64_t size) {
  if (const auto* const own = dynamic_cast<const text::BytePairVocabulary*>(&vocabulary))
    data["pairs"] = pairs_of(*own);
  else if (const auto* const gpt2 = dynamic_cast<const text::GPT2Vocabulary*>(&vocabulary))
    data["pairs"] = pairs_of(*gpt2);
  else if (!dynamic_cast<const text::CharVocabulary*>(&vocabulary))
    check::fail(model_page_op, "the vocabulary is a ", class_name(typeid(vocabulary)), ": the page reads text with a ",
                "text::CharVocabulary, text::BytePairVocabulary or text::GPT2Vocabulary");
  if (vocabulary.size() != size)
    check::fail(model_page_op, "the vocabulary has ", vocabulary.size(), " tokens, the model ", size,
                ": they must be equal");
  for (std::int64_t id = 0; id < size; ++id) {
    const std::string& token = vocabulary.token(id);
    data["tokens"].push_back(data.contains("pairs") ? characters_of(token) : token);
  }
}

}  // namespace

ModelSnapshot model_snapshot(const nn::GPT& model, std::int64_t step) {
  ModelSnapshot snapshot{step, {}};
  for (const auto& [name, x] : model.state_dict()) snapshot.weights.emplace_back(name, x.detach().clone());
  return snapshot;
}

std::string model_page(const nn::GPT& model, const text::Vocabulary& vocabulary,
                       const std::vector<std::string>& samples, const ModelPageOptions& options) {
  const Autocast precise(float32);
  const bool wide = options.float32();
  nn::GPT twin = twin_of(model.options());
  twin.eval();
  check_supported(model, twin);
  if (samples.empty()) check::fail(model_page_op, "there are no samples: give one text or more");

  json data{{"config", config_of(twin, wide)}, {"prefix", options.prefix()}, {"samples", samples}};
  add_vocabulary(data, vocabulary, model.options().vocab_size());

  std::vector<ModelSnapshot> snapshots = options.snapshots();
  if (snapshots.empty()) snapshots.push_back({0, model.state_dict()});
  std::string blocks;
  for (std::size_t i = 0; i < snapshots.size(); ++i) {
    if (i > 0 && snapshots[i].step <= snapshots[i - 1].step)
      check::fail(model_page_op, "a snapshot of step ", snapshots[i].step, " follows one of step ",
                  snapshots[i - 1].step, ": steps must rise");
    load(twin, snapshots[i].weights, wide);
    blocks += "<script type=\"text/plain\" class=\"block\">" + base64(deflated(packed(tensors_of(twin), wide))) +
              "</script>\n";
    data["snapshots"].push_back({{"step", snapshots[i].step}});
  }

  nn::GPT exact = twin_of(model.options());  // without the rounding to float16
  exact.eval();
  load(exact, snapshots.back().weights, true);
  double rounding = 0;
  for (const std::string& sample : samples) {
    const Tensor all = ids_of(vocabulary, sample, options.prefix(), model.options().context_length());
    if (data["checks"].size() == checked_samples) continue;
    const Tensor ids = all[{range(0, std::min(all.numel(), checked_tokens))}], logits = logits_of(twin, ids);
    rounding = std::max(rounding, max(abs(logits - logits_of(exact, ids))).item());
    data["checks"].push_back(
        {{"text", sample}, {"ids", ids.to_vector<std::int64_t>()}, {"logits", logits.to_vector<float>()}});
  }
  data["rounding"] = rounding;

  const std::string title = escape_xml(options.title());
  return page::filled(
      page::model_html,
      {{"{{head}}", page::head(title, std::string(page::heads_css) + page::model_css, " blob:; worker-src blob:")},
       {"{{heading}}", title},
       {"{{heads}}", page::filled(page::heads_html, {{"{{data}}", ""}})},
       {"{{data}}", page::script_json(data)},
       {"{{blocks}}", blocks},
       {"{{worker}}", std::string(page::packed_js) + page::model_worker_js},
       {"{{script}}", page::heads_script() + page::model_js}});
}

void write_model_page(const std::string& path, const nn::GPT& model, const text::Vocabulary& vocabulary,
                      const std::vector<std::string>& samples, const ModelPageOptions& options) {
  write_text("plot::write_model_page", path, model_page(model, vocabulary, samples, options));
}

}  // namespace fit::plot
