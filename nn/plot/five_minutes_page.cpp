#include "fit/five_minutes_page.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "fit/graph/autocast.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/ops/ops.hpp"
#include "models/compared_options.hpp"
#include "plot/figures/drawing.hpp"
#include "plot/figures/text.hpp"
#include "plot/live_model.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

using json = io::Json;
constexpr const char* five_minutes_op = "plot::five_minutes_page";
constexpr std::int64_t max_head_size = 16;
const std::vector<std::string> strips{"vectors", "product", "scale", "softmax", "values", "prediction", "stream"};

// The strips show scores q k / sqrt(D), of one layer, and nothing else.
void check_shown(const nn::GPTOptions& o) {
  const auto refuse = [](const auto&... what) { check::fail(five_minutes_op, "the page shows ", what...); };
  if (o.num_layers() != 1) refuse("one layer, and the model has ", o.num_layers());
  if (o.head_size() > max_head_size)
    refuse("heads of at most ", max_head_size, " features, and the model's have ", o.head_size());
  nn::GPTOptions like = nn::with_sizes_of(o).bias(o.bias()).qkv_bias(o.qkv_bias()).head_bias(o.head_bias());
  if (o.positions() != nn::Positions::alibi) like.positions(o.positions());
  like.rotary(o.rotary()).rotary_layout(o.rotary_layout()).head_size(o.head_size()).activation(o.activation());
  like.norm(o.norm()).norm_place(o.norm_place()).qk_norm(o.qk_norm());
  nn::expect_options(five_minutes_op, "the models of this page", o, like);
}

std::map<std::string, std::int64_t> ids_of(const std::vector<std::string>& words, std::int64_t vocab_size) {
  if (static_cast<std::int64_t>(words.size()) != vocab_size)
    check::fail(five_minutes_op, "there are ", words.size(), " words, and the model has ", vocab_size,
                ": they must be equal");
  std::map<std::string, std::int64_t> ids;
  for (const std::string& word : words) {
    if (word.empty() || word.find_first_of(" \t\r\n") != std::string::npos)
      check::fail(five_minutes_op, "'", word, "' is no word: it is empty or contains white space");
    if (!ids.emplace(word, ids.size()).second) check::fail(five_minutes_op, "'", word, "' stands twice in the words");
  }
  return ids;
}

Tensor encoded(const std::string& sample, const std::map<std::string, std::int64_t>& ids, std::int64_t longest) {
  std::vector<std::int64_t> text;
  std::istringstream in(sample);
  for (std::string word; in >> word;) {
    const auto known = ids.find(word);
    if (known == ids.end())
      check::fail(five_minutes_op, "the word '", shorten(word, 40), "' of a sample is not among the words");
    text.push_back(known->second);
  }
  if (text.empty() || static_cast<std::int64_t>(text.size()) > longest)
    check::fail(five_minutes_op, "the sample '", shorten(sample, 40), "' has ", text.size(),
                " words: it must have 1 … ", longest);
  return tensor(text);
}

json numbers(const Tensor& x) { return x.to_vector<float>(); }

// All numbers that the strips show of a text, as the engine of the page lays them out: joint has the queries, keys and
// values of each position [T, 3 H D], z the heads' outputs [T, H D], streams the residual behind each stage.
json computed(const nn::GPT& model, const Tensor& ids) {
  const NoGrad no_grad;
  const nn::Lens lens(model);
  const nn::LensRun run = lens.run(ids.unsqueeze(0));
  const auto by_position = [&](const char* name) {  // [1, H, T, D] -> [T, H D]
    const Tensor x = run[std::string("h.0.attn.") + name];
    return reshape(transpose(x, 1, 2), {ids.numel(), x.size(1) * x.size(3)});
  };
  return {{"joint", numbers(cat({by_position("q"), by_position("k"), by_position("v")}, 1))},
          {"weights", numbers(run["h.0.attn.weights"])},
          {"z", numbers(by_position("z"))},
          {"mlp", numbers(run["h.0.mlp.out"])},
          {"streams",
           json::array({numbers(run["h.0.resid_pre"]), numbers(run["h.0.resid_mid"]), numbers(run["h.0.resid_post"])})},
          {"logits", numbers(run.output)}};
}

// The lines of C++ behind each strip, as HTML by its name, for page.html.
page::Parts code_of(const std::vector<StripCode>& code) {
  std::map<std::string, std::string> given;
  for (const StripCode& c : code) {
    if (std::find(strips.begin(), strips.end(), c.strip) == strips.end())
      check::fail(five_minutes_op, "there is no strip '", c.strip, "' for code");
    if (!given.emplace(c.strip, c.lines).second)
      check::fail(five_minutes_op, "the strip '", c.strip, "' has code twice");
  }
  page::Parts parts;
  for (const std::string& name : strips)
    parts.emplace_back("{{" + name + "}}",
                       given.count(name) == 0
                           ? ""
                           : "<details class=\"code\"><summary>Show the C++</summary><pre tabindex=\"0\"><code>" +
                                 escaped_lines(given[name]) + "</code></pre></details>");
  return parts;
}

std::string links_of(const std::vector<PageLink>& links) {
  std::string html;
  for (const PageLink& link : links)
    html += "<a href=\"" + escape_xml(link.address) + "\">Next: " + escape_xml(link.title) + "</a>\n";
  return html;
}

}  // namespace

std::string five_minutes_page(const nn::GPT& model, const std::vector<std::string>& words,
                              const std::vector<std::string>& samples, const FiveMinutesOptions& options) {
  const Autocast precise(float32);
  const nn::GPTOptions& o = model.options();
  check_shown(o);
  LiveModel live(five_minutes_op, model, true);
  const auto ids = ids_of(words, o.vocab_size());
  if (samples.empty()) check::fail(five_minutes_op, "there are no samples: give one sentence or more");
  if (!options.heads().empty() && static_cast<std::int64_t>(options.heads().size()) != o.num_heads())
    check::fail(five_minutes_op, "there are ", options.heads().size(), " names of heads for ", o.num_heads(), " heads");
  for (const std::string& sample : samples) encoded(sample, ids, o.context_length());
  const Tensor first = encoded(samples.front(), ids, o.context_length());

  json data{
      {"config", live.config()}, {"prefix", ""}, {"words", words}, {"samples", samples}, {"heads", options.heads()}};
  const std::string blocks = live.blocks(options.snapshots(), data);
  data["truth"] = {{"ids", first.to_vector<std::int64_t>()}, {"last", computed(live.twin(), first)}};
  for (const ModelSnapshot& snapshot : options.snapshots()) {
    live.show(snapshot.weights);
    data["truth"]["logits"].push_back(numbers(logits_of(live.twin(), first)));
  }

  const std::string title = escape_xml(options.title());
  page::Parts parts{{"{{head}}", page::head(title, std::string(page::live_css) + page::five_minutes_css)},
                    {"{{heading}}", title}};
  for (const auto& part : code_of(options.code())) parts.push_back(part);
  for (const auto& part : page::Parts{{"{{time}}", page::live_html},
                                      {"{{next}}", links_of(options.next())},
                                      {"{{data}}", page::script_json(data)},
                                      {"{{blocks}}", blocks},
                                      {"{{script}}", page::shared_script() + page::packed_js + page::engine_js +
                                                         page::live_js + page::five_minutes_js}})
    parts.push_back(part);
  return page::filled(page::five_minutes_html, parts);
}

void write_five_minutes_page(const std::string& path, const nn::GPT& model, const std::vector<std::string>& words,
                             const std::vector<std::string>& samples, const FiveMinutesOptions& options) {
  write_text("plot::write_five_minutes_page", path, five_minutes_page(model, words, samples, options));
}

}  // namespace fit::plot
