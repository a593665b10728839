// What is in the file, and what is refused. How the page works is tested in a browser: tests/checks/browser.
#include "fit/workbench.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fit/base/error.hpp"
#include "fit/nn/attention/attention_recorder.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "plot/page_data.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::workbench_test {
using Catch::Matchers::Contains;
using nlohmann::json;
using plot::WorkbenchOptions;
using plot::WorkbenchRun;

namespace {

struct TwoOutputs final : nn::Layer {
  std::pair<Tensor, Tensor> forward(const Tensor& x) const { return {out(attention(x)), attention(x)}; }
  FIT_FIELDS(attention, out)
  nn::SelfAttention attention{8, 2, 0.0};
  nn::Linear out{8, 3};
};

}  // namespace

TEST_CASE("runs have charts of the finite numbers that two of them have") {
  const WorkbenchRun a{"a", {{{"step", 1}, {"loss", 2}}, {{"step", 2}, {"loss", NAN}, {"lr", 1}}}, {}};
  const WorkbenchRun b{"<b>", {{{"step", 1}, {"loss", 3}}, {{"step", 4}, {"loss", 1.5}, {"norm", 1}}}, {}};
  const WorkbenchRun c{"c", {{{"step", 2}, {"norm", 5}}}, {}};
  const std::string html = plot::workbench({a, b, c}, WorkbenchOptions().title("<i>"));
  const json data = data_of(html);
  CHECK(data["names"] == json({"a", "<b>", "c"}));
  CHECK(data["charts"] == json::parse(R"([{"name": "loss", "runs": [[[1, 2]], [[1, 3], [4, 1.5]], null]},
                                          {"name": "norm", "runs": [null, [[4, 1]], [[2, 5]]]}])"));
  CHECK_THAT(html, Contains("<h1>&lt;i&gt;</h1>") && !Contains("class=\"run-data\""));
  CHECK(data_of(plot::workbench({a}))["charts"].size() == 2);  // of the only run, all
}

TEST_CASE("a workbench of runs has the heads of each, and needs something to show") {
  const WorkbenchRun loss{"a", {{{"step", 1}, {"loss", 2}}}, {}}, rate{"b", {{{"step", 1}, {"lr", 2}}}, {}};
  CHECK_THROWS_WITH(plot::workbench({loss, rate}), Contains("no two of the 2 runs have a number in common"));
  CHECK_THROWS_WITH(plot::workbench({loss, loss}), Contains("two runs are named 'a'"));
  const WorkbenchRun without_step{"c", {{{"loss", 2}}}, {}};
  CHECK_THROWS_WITH(plot::workbench({loss, without_step}), Contains("a row of 'c' has no step"));
  WorkbenchRun heads{"d", {}, {}}, more{"\"e\" & <f>", {}, {}};
  heads.heads.add("attention", softmax(randn({2, 9, 9}), -1));
  more.heads = heads.heads;
  const std::string html = plot::workbench({heads, more, loss});
  CHECK_THAT(html, Contains("data-name=\"d\"") && Contains("data-name=\"&quot;e&quot; &amp; &lt;f&gt;\""));
  const auto o = WorkbenchOptions().max_bytes(400);
  CHECK_NOTHROW(plot::workbench({heads, loss}, o));
  CHECK_THROWS_WITH(plot::workbench({heads, more}, o), Contains("max_bytes"));  // all runs count together
  CHECK_THROWS_AS(plot::write_workbench("/dev/null/page.html", {loss}), FileError);
}

TEST_CASE("a model with two outputs is recorded like any other") {
  const TwoOutputs model;
  nn::AttentionRecorder recorder(model, nn::AttentionRecorderOptions().calls(2));
  model(randn({1, 5, 8}));
  const AttentionRecording recording = recorder.recording();
  CHECK(recording.records().size() == 2);  // it calls its attention twice
  CHECK_THAT(plot::workbench(recording), Contains("attention"));
}

TEST_CASE("several sequences, and weights times the lengths of the values, stand in one page") {
  const nn::GPT gpt(nn::GPTOptions().vocab_size(9).context_length(6).num_layers(1).num_heads(2).d_model(8));
  const nn::LensRun run = nn::Lens(gpt).run(randint(0, 9, {2, 6}), {"*.weights", "*.v"});
  const Tensor weights = run["h.0.attn.weights"], v = run["h.0.attn.v"];  // [B, H, S, S], [B, H, S, D]
  AttentionRecording recording;
  const auto second = AttentionRecordOptions().element(1);
  recording.add("text 1, h.0.attn", weights);
  recording.add("text 2, h.0.attn", weights, second);
  recording.add("text 2, h.0.attn by length", weights * norm(v, 2, {-1}).unsqueeze(-2), second);
  const Tensor by_length = recording.records()[2].weights;
  CHECK(max_difference(by_length[{1, 5, 3}], weights[{1, 1, 5, 3}] * norm(v[{1, 1, 3}])) < 1e-6);
  CHECK_THAT(plot::workbench(recording), Contains("text 1, h.0.attn") && Contains("text 2, h.0.attn by length"));
}

TEST_CASE("a workbench of a few heads takes less than 250 kB, and has the browser forbid requests") {
  AttentionRecording recording;
  recording.add("attention", softmax(ones({2, 3, 3}), -1));
  const std::string html = plot::workbench(recording);
  CHECK(html.size() < 250'000);
  CHECK_THAT(html, Contains("default-src 'none'"));
}

}  // namespace fit::test::workbench_test
