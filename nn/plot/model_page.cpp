#include "fit/model_page.hpp"

#include <algorithm>
#include <sstream>

#include "common/class_name.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/text.hpp"
#include "plot/live_model.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"
#include "tokenizers/unicode.hpp"

namespace fit::plot {
namespace {

using json = io::Json;
constexpr const char* model_page_op = "plot::model_page";
constexpr std::int64_t checked_tokens = 24;  // of a sample, by the badge
constexpr std::size_t checked_samples = 2;

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

std::string model_page(const nn::GPT& model, const text::Vocabulary& vocabulary,
                       const std::vector<std::string>& samples, const ModelPageOptions& options) {
  const Autocast precise(float32);
  LiveModel live(model_page_op, model, options.float32());
  if (samples.empty()) check::fail(model_page_op, "there are no samples: give one text or more");

  json data{{"config", live.config()}, {"prefix", options.prefix()}, {"samples", samples}};
  add_vocabulary(data, vocabulary, model.options().vocab_size());

  const std::string blocks = live.blocks(options.snapshots(), data);
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

  const std::string title = escape_xml(options.title());
  return page::filled(page::model_html,
                      {{"{{head}}", page::head(title, std::string(page::heads_css) + page::live_css + page::model_css,
                                               " blob:; worker-src blob:")},
                       {"{{heading}}", title},
                       {"{{time}}", page::live_html},
                       {"{{heads}}", page::filled(page::heads_html, {{"{{data}}", ""}})},
                       {"{{data}}", page::script_json(data)},
                       {"{{blocks}}", blocks},
                       {"{{worker}}", std::string(page::packed_js) + page::engine_js + page::model_worker_js},
                       {"{{script}}", page::heads_script() + page::live_js + page::model_js}});
}

void write_model_page(const std::string& path, const nn::GPT& model, const text::Vocabulary& vocabulary,
                      const std::vector<std::string>& samples, const ModelPageOptions& options) {
  write_text("plot::write_model_page", path, model_page(model, vocabulary, samples, options));
}

}  // namespace fit::plot
