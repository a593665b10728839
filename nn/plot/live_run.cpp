#include "plot/live_run.hpp"

#include <algorithm>
#include <random>
#include <sstream>

#include "common/class_name.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/ops/ops.hpp"
#include "models/gpt_options.hpp"
#include "plot/figures/text.hpp"
#include "plot/live_model.hpp"
#include "plot/recorded_run.hpp"
#include "tensor/check.hpp"
#include "unicode/characters.hpp"

namespace fit::plot {
namespace {

using json = io::Json;
constexpr std::int64_t checked_tokens = 24;  // of a sample, by the badge
constexpr std::size_t checked_samples = 2;
constexpr int repeated_texts = 4;
constexpr std::int64_t repeated_tokens = 48;

Tensor ids_of(const text::Vocabulary& vocabulary, const std::string& sample, const std::string& prefix,
              std::int64_t longest) {
  const Tensor ids = vocabulary.encode(prefix + sample);
  if (ids.numel() == 0 || ids.numel() > longest)
    check::fail(workbench_op, "the sample '", shorten(sample, 40), "' has ", ids.numel(), " tokens: it must have 1 … ",
                longest);
  return ids;
}

// ---- vocabularies, as page/workbench_live/vocabulary.js reads them --------------------------------------------------

// A part of a class of characters of a regular expression.
std::string ranges_of(const unicode::tables::Table& table) {
  std::ostringstream all;
  all << std::hex;
  std::int32_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size; i += 2) {
    const std::int32_t begin = end + table.numbers[i];
    end = begin + table.numbers[i + 1];
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
    check::fail(workbench_op, "the vocabulary is a ", class_name(typeid(vocabulary)), ": the page reads text with a ",
                "text::CharVocabulary, text::BytePairVocabulary or text::GPT2Vocabulary");
  if (vocabulary.size() != size)
    check::fail(workbench_op, "the vocabulary has ", vocabulary.size(), " tokens, the model ", size,
                ": they must be equal");
  for (std::int64_t id = 0; id < size; ++id) {
    const std::string& token = vocabulary.token(id);
    data["tokens"].push_back(data.contains("pairs") ? characters_of(token) : token);
  }
}

// ---- roles ----------------------------------------------------------------------------------------------------------

// The texts on which the roles of heads are measured, as ids.
std::vector<Tensor> role_texts(const text::Vocabulary& vocabulary, const std::vector<std::string>& samples,
                               const WorkbenchOptions& options, const nn::GPTOptions& model) {
  std::vector<Tensor> texts;
  const std::int64_t longest = model.context_length();
  for (const std::string& text : options.role_texts().empty() ? samples : options.role_texts()) {
    const Tensor ids = vocabulary.encode(options.prefix() + text);
    if (ids.numel() > 0) texts.push_back(ids[{range(0, std::min(ids.numel(), longest))}]);
  }
  if (!options.role_texts().empty()) return texts;
  // Random tokens show what does not depend on a text. fit's own generator stays as it is.
  std::minstd_rand random(1);
  std::uniform_int_distribution<std::int64_t> token(0, model.vocab_size() - 1);
  for (int i = 0; i < repeated_texts; ++i) {
    std::vector<std::int64_t> ids;
    const std::int64_t T = std::min(longest, repeated_tokens);
    for (std::int64_t t = 0; t < T; ++t) ids.push_back(t < T / 2 ? token(random) : ids[t - T / 2]);
    texts.push_back(tensor(ids));
  }
  return texts;
}

// [layer][head]: the roles over all texts.
json roles_of(const nn::GPT& model, const std::vector<Tensor>& texts) {
  const NoGrad no_grad;
  const nn::GPTOptions& o = model.options();
  const nn::Lens lens(model);
  const std::vector<std::int64_t> windows = nn::windows_of(o);
  std::vector<AttentionRecording> layers(o.num_layers());
  for (const Tensor& ids : texts) {
    const nn::LensRun run = lens.run(ids.unsqueeze(0), {"*.attn.weights"});
    std::vector<std::string> names;
    for (const std::int64_t id : ids.to_vector<std::int64_t>()) names.push_back(std::to_string(id));
    for (std::int64_t l = 0; l < o.num_layers(); ++l)
      layers[l].add("h", run["h." + std::to_string(l) + ".attn.weights"],
                    AttentionRecordOptions().causal().window(windows[l]).queries(names));
  }
  json roles = json::array();
  for (const AttentionRecording& layer : layers) {
    std::vector<MaskedRecord> records;
    for (const AttentionRecord& r : layer.records())
      records.push_back({r, masked_pairs(r.mask, r.causal, r.window, r.weights.size(1), r.weights.size(2))});
    json heads = json::array();
    for (const HeadRoles& head : head_roles(records)) heads.push_back(roles_json(head));
    roles.push_back(heads);
  }
  return roles;
}

}  // namespace

std::string live_run(const nn::GPT& model, const text::Vocabulary& vocabulary, const std::vector<std::string>& samples,
                     const WorkbenchOptions& options, json& data) {
  const Autocast precise(float32);
  LiveModel live(workbench_op, model, options.float32());
  if (samples.empty()) check::fail(workbench_op, "there are no samples: give one text or more");

  data["config"] = live.config();
  data["prefix"] = options.prefix();
  data["samples"] = samples;
  add_vocabulary(data, vocabulary, model.options().vocab_size());
  std::vector<ModelSnapshot> snapshots = options.snapshots();
  if (snapshots.empty()) snapshots.push_back(model_snapshot(model, 0));
  const std::vector<Tensor> texts = role_texts(vocabulary, samples, options, model.options());
  for (const ModelSnapshot& snapshot : snapshots) {
    live.show(snapshot.weights);
    data["roles"].push_back(roles_of(live.twin(), texts));
  }
  const std::string blocks = live.blocks(snapshots, data);
  const nn::GPT exact = live.unrounded();
  double rounding = 0;
  for (const std::string& sample : samples) {
    const Tensor all = ids_of(vocabulary, sample, options.prefix(), model.options().context_length());
    if (data["checks"].size() == checked_samples) continue;
    const Tensor ids = all[{range(0, std::min(all.numel(), checked_tokens))}], logits = logits_of(live.twin(), ids);
    rounding = std::max(rounding, max(abs(logits - logits_of(exact, ids))).item());
    data["checks"].push_back(
        {{"text", sample}, {"ids", ids.to_vector<std::int64_t>()}, {"logits", logits.to_vector<float>()}});
  }
  data["rounding"] = rounding;
  return blocks;
}

}  // namespace fit::plot
