// What is in the file, and what is refused. How the page computes is tested in a browser: tests/checks/browser.
#include "fit/five_minutes_page.hpp"

#include <nlohmann/json.hpp>

#include "fit/nn/lens/lens.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "plot/page_data.hpp"
#include "support/catch.hpp"

namespace fit::test::five_minutes_page_test {
using Catch::Matchers::Contains;
using nlohmann::json;
using plot::FiveMinutesOptions;

namespace {

const std::vector<std::string> words{"the", "girl", "dogs", "sees", "<b>"};

nn::GPTOptions small() {
  return nn::GPTOptions().vocab_size(5).context_length(6).num_layers(1).num_heads(2).d_model(8);
}

nn::GPT random_model(const nn::GPTOptions& o) {
  nn::GPT gpt(o);
  const NoGrad no_grad;
  for (auto& [name, p] : gpt.named_parameters()) Tensor(p).copy_(Tensor(p) + randn(p.shape()) * 0.3);
  return gpt;
}

std::string page(const nn::GPT& gpt, const FiveMinutesOptions& o = {}) {
  return plot::five_minutes_page(gpt, words, {"the girl sees the dogs"}, o);
}

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("the numbers that the page is compared with are the model's") {
  manual_seed(3);
  nn::GPT gpt = random_model(small());
  const std::vector<plot::ModelSnapshot> snapshots{plot::model_snapshot(random_model(small()), 0),
                                                   plot::model_snapshot(gpt, 30)};
  const json data = data_of(page(gpt, FiveMinutesOptions().snapshots(snapshots)));
  const json& truth = data["truth"];
  CHECK(truth["ids"] == json({0, 1, 3, 0, 2}));
  gpt.eval();
  const nn::Lens lens(gpt);
  const nn::LensRun run = lens.run(tensor({{0, 1, 3, 0, 2}}));
  const json& last = truth["last"];
  const std::int64_t T = 5, H = 2, D = 4, C = 8;
  const auto joint = last["joint"].get<Floats>(), z = last["z"].get<Floats>();
  REQUIRE(joint.size() == static_cast<std::size_t>(3 * T * C));
  const auto at = [](const Floats& all, std::int64_t i) {
    return static_cast<double>(all[static_cast<std::size_t>(i)]);
  };
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t d = 0; d < D; ++d) {
        std::int64_t part = 0;
        for (const char* name : {"q", "k", "v"})
          CHECK(at(joint, t * 3 * C + part++ * C + h * D + d) ==
                run[std::string("h.0.attn.") + name][{0, h, t, d}].item());
        CHECK(at(z, t * C + h * D + d) == run["h.0.attn.z"][{0, h, t, d}].item());
      }
  CHECK(last["weights"].get<Floats>() == run["h.0.attn.weights"].to_vector<float>());
  CHECK(last["mlp"].get<Floats>() == run["h.0.mlp.out"].to_vector<float>());
  CHECK(last["streams"][0].get<Floats>() == run["h.0.resid_pre"].to_vector<float>());
  CHECK(last["streams"][1].get<Floats>() == run["h.0.resid_mid"].to_vector<float>());
  CHECK(last["streams"][2].get<Floats>() == run["h.0.resid_post"].to_vector<float>());
  CHECK(last["logits"].get<Floats>() == run.output.to_vector<float>());
  CHECK(truth["logits"][1] == last["logits"]);
  CHECK(truth["logits"][0] != last["logits"]);
  CHECK(data["snapshots"] == json({{{"step", 0}}, {{"step", 30}}}));
}

TEST_CASE("words, names of heads, lines of code and links are text in the page") {
  const nn::GPT gpt(small());
  const auto o = FiveMinutesOptions()
                     .title("<i>")
                     .heads({"finds <who>", ""})
                     .code({{"product", "a < b;\n"}})
                     .next({{"<more>", "more.html"}});
  const std::string html = page(gpt, o);
  CHECK_THAT(html, Contains("<pre tabindex=\"0\"><code>a &lt; b;\n</code></pre>"));
  CHECK_THAT(html, Contains("<a href=\"more.html\">Next: &lt;more&gt;</a>"));
  CHECK_THAT(html, Contains("<h1>&lt;i&gt;</h1>"));
  CHECK_THAT(html, !Contains("<b>\""));
  const json data = data_of(html);
  CHECK(data["words"] == json(words));
  CHECK(data["heads"] == json({"finds <who>", ""}));
  std::size_t quotes = 0;
  for (std::size_t from = html.find("<details class=\"code\""); from != std::string::npos;
       from = html.find("<details class=\"code\"", from + 1))
    ++quotes;
  CHECK(quotes == 1);
}

TEST_CASE("a model or a word that the page does not show is refused") {
  const auto refused = [](const nn::GPTOptions& o, const std::string& what) {
    INFO(what);
    CHECK_THROWS_WITH(page(nn::GPT(o)), Contains("[plot::five_minutes_page]") && Contains(what));
  };
  refused(small().num_layers(2), "one layer, and the model has 2");
  refused(small().d_model(40), "heads of at most 16 features, and the model's have 20");
  refused(small().window(3), "window is 3: the models of this page need 0");
  refused(small().num_kv_heads(1), "num_kv_heads is 1");
  refused(small().positions(nn::Positions::alibi), "positions is alibi");
  refused(small().attention_logit_cap(5), "attention_logit_cap is 5");
  refused(small().head_gates(true), "head_gates is true");
  refused(small().attention_only(true), "attention_only is true");
  refused(small().vocab_size(6), "there are 5 words, and the model has 6");
  const nn::GPT gpt(small());
  const auto text = [&](const std::vector<std::string>& own, const std::vector<std::string>& samples,
                        const std::string& what, const FiveMinutesOptions& o = {}) {
    CHECK_THROWS_WITH(plot::five_minutes_page(gpt, own, samples, o), Contains(what));
  };
  text(words, {}, "there are no samples");
  text(words, {"the cat"}, "the word 'cat' of a sample is not among the words");
  text(words, {""}, "has 0 words: it must have 1 … 6");
  text(words, {"the the the the the the the"}, "has 7 words");
  text({"the", "the", "a", "b", "c"}, {"a"}, "'the' stands twice");
  text({"the", "", "a", "b", "c"}, {"a"}, "'' is no word");
  text({"the", "x y", "a", "b", "c"}, {"a"}, "'x y' is no word");
  text(words, {"the"}, "there are 1 names of heads for 2 heads", FiveMinutesOptions().heads({"one"}));
  text(words, {"the"}, "there is no strip 'products' for code", FiveMinutesOptions().code({{"products", ""}}));
  text(words, {"the"}, "the strip 'scale' has code twice", FiveMinutesOptions().code({{"scale", "a"}, {"scale", "b"}}));
}

TEST_CASE("writing the page draws no random number and leaves the model in training") {
  const nn::GPT gpt(small());
  check_only_read(gpt, [&] { page(gpt); });
}

}  // namespace fit::test::five_minutes_page_test
