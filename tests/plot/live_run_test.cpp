// What is in the file, and what is refused. How the page computes is tested in a browser: tests/checks/browser.
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "fit/nn/layers/norm.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/nn/layers/quantize.hpp"
#include "fit/nn/tokenizers/tokenizers.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "fit/workbench.hpp"
#include "plot/page_data.hpp"
#include "support/catch.hpp"

namespace fit::test::live_run_test {
using Catch::Matchers::Contains;
using nlohmann::json;
using plot::WorkbenchOptions;

namespace {

const text::CharVocabulary letters("abcdefgh");

nn::GPTOptions small() {
  return nn::GPTOptions().vocab_size(8).context_length(12).num_layers(2).num_heads(2).d_model(8);
}

std::string page(const nn::GPT& gpt, const WorkbenchOptions& o = {}) {
  return plot::workbench(gpt, letters, {"abc"}, o);
}

}  // namespace

TEST_CASE("the page of a model has its options, its samples, and logits that C++ computed") {
  nn::GPT gpt(small().dropout(0.3));
  const json data = data_of(page(gpt, WorkbenchOptions().prefix("h").float32(true)));
  CHECK(data["config"]["num_heads"] == 2);
  CHECK(data["config"]["head_size"] == 4);
  CHECK(data["config"]["windows"] == json({0, 0}));
  CHECK(data["config"]["parameters"] == gpt.num_parameters());
  CHECK(data["tokens"].size() == 8);
  CHECK(data["checks"][0]["ids"] == json({7, 0, 1, 2}));
  CHECK(data["checks"][0]["text"] == "abc");
  CHECK(data["rounding"] == 0);
  gpt.eval();
  const auto logits = gpt(tensor({{7, 0, 1, 2}})).to_vector<float>();
  CHECK(data["checks"][0]["logits"].get<std::vector<float>>() == logits);
  for (const json& t : data["config"]["tensors"]) CHECK(t["name"] != "head.weight");  // it is wte.weight
}

TEST_CASE("the page of a model has the pairs of a vocabulary of byte pairs") {
  const auto own = text::BytePairVocabulary::train("ein Äffchen, zwei Äffchen, drei Äffchen", 260);
  const auto gpt2 =
      text::GPT2Vocabulary::load(FIT_GOLDEN_DIR "/tokens/vocab.json", FIT_GOLDEN_DIR "/tokens/merges.txt");
  const auto data = [](const text::Vocabulary& vocabulary) {
    return data_of(plot::workbench(nn::GPT(small().vocab_size(vocabulary.size())), vocabulary, {"Äff"}));
  };
  const json a = data(own), b = data(gpt2);
  CHECK(a["tokens"].size() == 260);
  CHECK(a["tokens"][255] == "\u00ff");  // a token's bytes are characters of the same numbers
  CHECK(a["pairs"]["merges"][0] == json({own.merges()[0].first, own.merges()[0].second, 256}));
  CHECK(a["pairs"]["end"].is_null());
  CHECK(a["checks"][0]["ids"].get<std::vector<std::int64_t>>() == own.encode("Äff").to_vector<std::int64_t>());
  CHECK(b["pairs"]["whole"] == "<|endoftext|>");
  CHECK(b["pairs"]["end"] == 0);
  CHECK(b["pairs"]["merges"].size() == gpt2.merges().size());
  CHECK(b["pairs"]["bytes"][255] == gpt2.bytes()[255]);
}

TEST_CASE("writing a page draws no random number and leaves the model in training") {
  const nn::GPT gpt(small());
  check_only_read(gpt, [&] { page(gpt); });
}

TEST_CASE("weights of a page are float16, rounded to the nearest") {
  nn::GPT gpt(small());
  // 1 + 2^-11 lies between two numbers, and the even one is 1; 2^-24 is the smallest; the last one is rounded up.
  const std::vector<double> given{1 + std::ldexp(1, -11), 1 + 3 * std::ldexp(1, -11), std::ldexp(1, -24), 65519};
  const std::vector<double> stored{1, 1 + std::ldexp(1, -9), std::ldexp(1, -24), 65504};
  for (std::size_t i = 0; i < given.size(); ++i) {
    const NoGrad no_grad;
    gpt.ln_f->parameter("weight").copy_(full({8}, given[i]));
    const json data = data_of(page(gpt));
    nn::GPT rounded(small());
    rounded.load_state_dict(gpt.state_dict());
    for (auto& [name, x] : rounded.named_parameters())
      if (name != "ln_f.weight")
        for (float& v : Tensor(x).edit<float>())
          v = std::abs(v) < std::ldexp(1, -14)
                  ? std::ldexp(std::nearbyint(std::ldexp(v, 24)), -24)
                  : std::ldexp(std::nearbyint(std::ldexp(v, 10 - std::ilogb(v))), std::ilogb(v) - 10);
    rounded.ln_f->parameter("weight").copy_(full({8}, stored[i]));
    rounded.eval();
    CHECK(data["checks"][0]["logits"].get<std::vector<float>>() == rounded(tensor({{0, 1, 2}})).to_vector<float>());
  }
}

TEST_CASE("snapshots are in the page, and half the space does not depend on the model's type") {
  nn::GPT gpt(small());
  const std::vector<plot::ModelSnapshot> two{plot::model_snapshot(gpt, 0), plot::model_snapshot(gpt, 30)};
  const std::string html = page(gpt, WorkbenchOptions().snapshots(two));
  CHECK(data_of(html)["snapshots"] == json({{{"step", 0}}, {{"step", 30}}}));
  gpt.to(float64);
  CHECK(data_of(page(gpt))["config"]["tensors"] == data_of(html)["config"]["tensors"]);
}

TEST_CASE("a page holds what every kind of model computes with") {
  const auto config = [](const nn::GPTOptions& o) { return data_of(page(nn::GPT(o)))["config"]; };
  for (const auto& [layout, name] :
       {std::pair(RotaryLayout::half_split, "half_split"), std::pair(RotaryLayout::interleaved, "interleaved")}) {
    const json rotary = config(small().positions(nn::Positions::rotary).rotary_layout(layout))["rotary"];
    CHECK(rotary["layout"] == name);
    CHECK(rotary["angles"].size() == 2);
    CHECK(std::abs(rotary["angles"][0].get<double>() - 1) < 1e-12);
    CHECK(std::abs(rotary["lengths"][1].get<double>() - 1) < 1e-12);
  }
  CHECK(config(small().positions(nn::Positions::alibi))["alibi"] == json(nn::alibi_slopes(2).to_vector<double>()));
  CHECK(config(small().norm(nn::Norm::rms))["norm"] == "rms");
  CHECK(config(small().windows({3, 0}))["windows"] == json({3, 0}));
  const auto holds_head = [&](bool tied) {
    const json tensors = config(small().tie_weights(tied))["tensors"];
    for (const json& tensor : tensors)
      if (tensor["name"] == "head.weight") return true;
    return false;
  };
  CHECK_FALSE(holds_head(true));
  CHECK(holds_head(false));
  // Two samples are checked when the page opens.
  CHECK(data_of(plot::workbench(nn::GPT(small()), letters, {"a", "b", "c"}, {}))["checks"].size() == 2);
}

TEST_CASE("a head with a bias is computed in the page") {
  nn::GPT gpt(small());
  const std::string without = page(gpt);
  gpt.head.bias = nn::Parameter(linspace(-1, 1, small().vocab_size()));
  const std::string with = page(gpt);
  CHECK(data_of(with)["config"]["tensors"].size() == data_of(without)["config"]["tensors"].size() + 1);
  CHECK(data_of(with)["checks"] != data_of(without)["checks"]);
  const nn::GPT by_option(small().tie_weights(false).head_bias(true));
  CHECK(data_of(page(by_option))["config"]["tensors"].back()["name"] == "head.bias");
}

TEST_CASE("a model without norms, or without the last one, runs in the page") {
  const auto norms = [](const nn::GPT& gpt) {
    std::size_t count = 0;
    const json data = data_of(page(gpt));
    for (const json& t : data["config"]["tensors"])
      count += t["name"].get<std::string>().rfind("ln_") != std::string::npos;
    return count;
  };
  nn::GPT gpt(small());
  CHECK(norms(gpt) == 10);
  gpt.ln_f = nullptr;
  CHECK(norms(gpt) == 8);
  CHECK(norms(nn::GPT(small().norm(nn::Norm::none))) == 0);
}

TEST_CASE("the roles of a model's heads are measured at each snapshot, on data") {
  nn::GPT gpt(small());
  std::vector<plot::ModelSnapshot> two{plot::model_snapshot(gpt, 0)};
  {
    const NoGrad no_grad;  // without queries and keys, weights are even: no head has a role
    for (const auto& [name, x] : gpt.named_parameters())
      if (name.find("qkv") != std::string::npos) Tensor(x).copy_(zeros(x.shape()));
  }
  two.push_back(plot::model_snapshot(gpt, 1));
  const json roles = data_of(page(gpt, WorkbenchOptions().snapshots(two)))["roles"];
  CHECK(roles.size() == 2);
  CHECK(roles[0].size() == 2);     // layers
  CHECK(roles[0][0].size() == 2);  // heads
  for (const json& role : roles[1][0][0]) CHECK(std::abs(role[0].get<double>()) < 1e-6);
  const json& previous = roles[1][0][0][1];  // its weight is that of chance
  CHECK(previous[1].get<double>() == Approx(previous[2].get<double>()));
  // "abcabcabc": of nine queries, seven see three keys or more, and each has one previous token.
  const json few = data_of(page(gpt, WorkbenchOptions().role_texts({"abcabcabc"})))["roles"][0][0][0];
  CHECK(few[1][2].get<double>() == Approx((1. / 3 + 1. / 4 + 1. / 5 + 1. / 6 + 1. / 7 + 1. / 8 + 1. / 9) / 7));
  // Two texts of five tokens have six such queries; one has three, which are too few.
  CHECK(data_of(page(gpt, WorkbenchOptions().role_texts({"abcde"})))["roles"][0][0][0][1].is_null());
  CHECK(data_of(page(gpt, WorkbenchOptions().role_texts({"abcde", "bcdea"})))["roles"][0][0][0][1].is_array());
  CHECK_THROWS_AS(page(gpt, WorkbenchOptions().role_texts({"xyz"})), Error);
}

TEST_CASE("a model of attention alone runs in the page") {
  const json data = data_of(page(nn::GPT(small().attention_only(true))));
  CHECK(data["config"]["mlps"] == false);
  for (const json& t : data["config"]["tensors"]) CHECK(t["name"].get<std::string>().find("mlp") == std::string::npos);
}

TEST_CASE("texts in a page can't become elements of it") {
  const text::CharVocabulary signs("</script>");
  const nn::GPT gpt(small().vocab_size(signs.size()));
  const std::string html = plot::workbench(gpt, signs, {"</script>"}, WorkbenchOptions().title("<b>{{data}}"));
  CHECK(data_of(html)["samples"][0] == "</script>");
  CHECK_THAT(html, Contains("<title>&lt;b&gt;{{data}}</title>"));
}

TEST_CASE("what the page can't compute is an Error that names it") {
  const auto refuses = [](const nn::GPT& gpt, const std::string& what) {
    CHECK_THROWS_WITH(page(gpt), Contains("[plot::workbench]") && Contains(what));
  };
  refuses(nn::GPT(small().d_model(1024)), "parameters: a page holds at most 8000000");
  refuses(nn::GPT(small().parallel(true)), "parallel is true: the models of a page need false");
  refuses(nn::GPT(small().embedding_scale(2)), "embedding_scale is 2: the models of a page need 1");
  refuses(nn::GPT(small().activation(nn::Activation::solu)), "activation is solu");

  nn::GPT other_norm(small());
  other_norm.ln_f = std::make_shared<nn::RMSNorm>(8);
  refuses(other_norm, "'ln_f' is a RMSNorm(8");

  nn::GPT other_eps(small());
  other_eps.ln_f = std::make_shared<nn::LayerNorm>(8, 1e-3);
  refuses(other_eps, "'ln_f' is a LayerNorm(8, eps=0.001");

  nn::ModuleList<nn::SequenceLayer> blocks;
  blocks.add(nn::GPTBlock(small().window(2)));
  refuses(nn::GPT(small(), std::move(blocks)), "its blocks must be those of its options");

  nn::GPT int8(small());
  nn::quantize_(int8);
  refuses(int8, "weight");

  nn::GPT not_finite(small());
  {
    const NoGrad no_grad;
    not_finite.ln_f->parameter("weight").copy_(full({8}, std::numeric_limits<double>::infinity()));
  }
  refuses(not_finite, "'ln_f.weight' has the value inf: weights must be finite");

  nn::GPT too_large(small());
  {
    const NoGrad no_grad;
    too_large.ln_f->parameter("weight").copy_(full({8}, 65520));
  }
  refuses(too_large, "float16 ends at 65504; use float32()");
  CHECK_NOTHROW(page(too_large, WorkbenchOptions().float32(true)));
}

TEST_CASE("vocabularies, samples and snapshots of a page must fit the model") {
  const nn::GPT gpt(small());
  const auto refuses = [&](const text::Vocabulary& vocabulary, const std::vector<std::string>& samples,
                           const WorkbenchOptions& o, const std::string& what) {
    CHECK_THROWS_WITH(plot::workbench(gpt, vocabulary, samples, o), Contains(what));
  };
  struct Words final : text::Vocabulary {
    std::int64_t size() const override { return 8; }
    Tensor encode(const std::string&) const override { return zeros({1}, int64); }
    const std::string& token(std::int64_t) const override { return word; }
    std::string word = "word";
  };
  refuses(Words(), {"a"}, {}, "the vocabulary is a Words: the page reads text with a text::CharVocabulary");
  refuses(text::BytePairVocabulary({}), {"a"}, {}, "the vocabulary has 256 tokens, the model 8");
  refuses(text::CharVocabulary("abc"), {"a"}, {}, "the vocabulary has 3 tokens, the model 8");
  refuses(letters, {}, {}, "no samples");
  refuses(letters, {""}, {}, "has 0 tokens");
  refuses(letters, {"abc", "abcdefghabcde"}, {}, "has 13 tokens: it must have 1 … 12");
  refuses(letters, {"z"}, {}, "'z' at byte 0");
  nn::GPT longer(small().context_length(13));
  refuses(letters, {"a"}, WorkbenchOptions().snapshots({plot::model_snapshot(longer, 0)}), "wpe.weight");
  const auto same = plot::model_snapshot(gpt, 4);
  refuses(letters, {"a"}, WorkbenchOptions().snapshots({same, same}), "steps must rise");
  CHECK_THROWS_AS(plot::write_workbench("/dev/null/page.html", gpt, letters, {"a"}), FileError);
}

}  // namespace fit::test::live_run_test
