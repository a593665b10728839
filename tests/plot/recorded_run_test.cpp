// What is in the file. How the page behaves is tested in a browser: tests/checks/browser.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fit/attention/attention.hpp"
#include "fit/nn/lens/lens.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/ops/ops.hpp"
#include "fit/workbench.hpp"
#include "support/catch.hpp"

namespace fit::test::recorded_run_test {
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  REQUIRE(from != std::string::npos);
  const std::size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

json data_of(const std::string& html) {
  return json::parse(between(html, "<script type=\"application/json\" class=\"data\">", "</script>"));
}

// A block of the page, unpacked.
std::vector<unsigned char> block_of(const std::string& html, const json& number, std::size_t size) {
  const std::string begin = "class=\"block\">";
  std::size_t at = 0;
  for (std::size_t i = 0; i <= number.get<std::size_t>(); ++i) at = html.find(begin, at) + begin.size();
  const std::string text = html.substr(at, html.find("</script>", at) - at);
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> packed;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(alphabet.find(c));
    have += 6;
    if (have >= 8) packed.push_back(static_cast<unsigned char>(bits >> (have -= 8) & 0xff));
  }
  std::vector<unsigned char> bytes(size);
  uLongf length = size;
  REQUIRE(uncompress(bytes.data(), &length, packed.data(), packed.size()) == Z_OK);
  REQUIRE(length == size);
  return bytes;
}

// The weight that the page shows.
double shown(const std::vector<unsigned char>& bytes, std::size_t rows, std::size_t cols, std::size_t row,
             std::size_t col) {
  float largest;
  std::memcpy(&largest, bytes.data() + 4 * row, 4);
  return bytes[4 * rows + row * cols + col] / 255.0 * static_cast<double>(largest);
}

AttentionRecording recorded(const Tensor& weights, const AttentionRecordOptions& o = {}) {
  AttentionRecording r;
  r.add("layer", weights, o);
  return r;
}

}  // namespace

TEST_CASE("every weight of the page is right to 1/255 of the largest of its row") {
  const Tensor w = softmax(randn({3, 6, 9}) * 4.0);
  const std::string html = plot::workbench(recorded(w, AttentionRecordOptions().kind(AttentionKind::cross)));
  const json entry = data_of(html)["entries"][0];
  CHECK(entry["heads"] == 3);
  CHECK(entry["rows"] == 6);
  CHECK(entry["cols"] == 9);
  const auto bytes = block_of(html, entry["block"], 3 * 6 * (4 + 9));
  const auto p = w.data<float>();
  for (std::int64_t row = 0; row < 18; ++row) {
    const float largest = *std::max_element(p.begin() + row * 9, p.begin() + (row + 1) * 9);
    for (std::int64_t col = 0; col < 9; ++col)
      CHECK(shown(bytes, 18, 9, static_cast<std::size_t>(row), static_cast<std::size_t>(col)) ==
            Approx(p[row * 9 + col]).margin(largest / 509.0));
  }
}

TEST_CASE("the page says why a pair is hidden: the future, padding, the mask, the window") {
  Tensor mask = ones({6, 6}, boolean);
  mask[{range(), 2}] = false;  // nobody may look at 2: padding
  mask[{5, 0}] = false;        // a single pair
  const auto o = AttentionRecordOptions().mask(mask).causal().window(4);
  const std::string html = plot::workbench(recorded(full({2, 6, 6}, 1.0 / 6), o));
  const json entry = data_of(html)["entries"][0];
  CHECK(entry["mask_heads"] == 1);
  const auto hidden = block_of(html, entry["mask"], 36);
  const auto at = [&](std::size_t q, std::size_t k) { return static_cast<int>(hidden[q * 6 + k]); };
  CHECK(at(0, 0) == 0);
  CHECK(at(0, 1) == 1);
  CHECK(at(1, 2) == 1);  // later, and padding: it comes later
  CHECK(at(3, 2) == 2);
  CHECK(at(5, 0) == 3);
  CHECK(at(4, 0) == 4);
  CHECK(at(3, 0) == 0);
  CHECK(data_of(plot::workbench(recorded(full({2, 6, 6}, 1.0 / 6))))["entries"][0]["mask"].is_null());
}

TEST_CASE("layers, steps and names are there once, in their order") {
  AttentionRecording recording;
  for (const std::int64_t step : {100, 0, 50})
    for (const char* layer : {"first", "second"}) {
      const auto o = AttentionRecordOptions().step(step).queries({"a", "b"});
      recording.add(layer, softmax(randn({2, 2, 2})), o);
    }
  recording.add("second", softmax(randn({2, 2, 2})));
  const json data = data_of(plot::workbench(recording));
  CHECK(data["layers"] == json::parse(R"(["first", "second"])"));
  CHECK(data["frames"] == json::parse("[[0, 0], [0, 1], [50, 0], [100, 0]]"));
  CHECK(data["tokens"] == json::parse(R"([["a", "b"], ["0", "1"]])"));
  CHECK(data["entries"][0]["frame"] == 3);
  CHECK(data["entries"][6]["frame"] == 1);
}

TEST_CASE("names can't get out of the data, whatever they are") {
  const auto o = AttentionRecordOptions().queries(
      {"<script>alert(1)</script>", "&", "]]>", "\xff", std::string(10000, 'x'), "{{script}}", "<!--"});
  AttentionRecording recording = recorded(full({1, 7, 7}, 1.0 / 7), o);
  recording.title = "</title><b>";
  const std::string html = plot::workbench(recording);
  const json tokens = data_of(html)["tokens"][0];
  CHECK(tokens[0] == "<script>alert(1)</script>");
  CHECK(tokens[2] == "]]>");
  CHECK(tokens[3] == "�");
  CHECK(tokens[4].get<std::string>().size() < 300);
  CHECK(tokens[5] == "{{script}}");
  CHECK(html.find("alert(1)<") == std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);
  CHECK(between(html, "<title>", "</title>") == "&lt;/title&gt;&lt;b&gt;");
  CHECK(html.size() < 200000);
}

TEST_CASE("rows that are not finite, and sums that are not 1, are noted") {
  Tensor w = full({1, 3, 3}, 1.0 / 3);
  w[{0, 1, 2}] = NAN;
  const std::string html = plot::workbench(recorded(w));
  const json entry = data_of(html)["entries"][0];
  CHECK_THAT(entry["notes"].dump(), Contains("not finite"));
  const auto bytes = block_of(html, entry["block"], 3 * (4 + 3));
  float largest;
  std::memcpy(&largest, bytes.data() + 4, 4);
  CHECK(std::isnan(largest));
  CHECK_THAT(data_of(plot::workbench(recorded(ones({1, 3, 3}))))["entries"][0]["notes"].dump(),
             Contains("after dropout"));
  CHECK_FALSE(data_of(plot::workbench(recorded(full({1, 4, 4}, 0.25))))["entries"][0].contains("notes"));
}

TEST_CASE("too many tokens are shown in blocks whose rows still add up to 1") {
  const auto o = AttentionRecordOptions().causal();
  const Tensor w = tril(ones({1, 10, 10})) / (arange(10).to(float32) + 1).reshape({1, 10, 1});
  const std::string html = plot::workbench(recorded(w, o), plot::WorkbenchOptions().max_tokens(4));
  const json data = data_of(html), entry = data["entries"][0];
  CHECK(entry["rows"] == 4);
  CHECK(data["tokens"][0] == json::parse(R"(["0 … 2", "3 … 5", "6 … 8", "9"])"));
  CHECK_THAT(entry["notes"].dump(), Contains("blocks of 3 x 3"));
  const auto bytes = block_of(html, entry["block"], 4 * (4 + 4));
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0;
    for (std::size_t col = 0; col < 4; ++col) sum += shown(bytes, 4, 4, row, col);
    CHECK(sum == Approx(1).margin(0.01));
  }
  const auto hidden = block_of(html, entry["mask"], 16);
  CHECK(hidden[0] == 0);  // half of it is visible
  CHECK(hidden[1] == 1);
  CHECK(hidden[12] == 0);
}

TEST_CASE("12 layers of 12 heads and 128 tokens take less than 5 MB") {
  AttentionRecording recording;
  for (int layer = 0; layer < 12; ++layer) recording.add("h." + std::to_string(layer), softmax(randn({12, 128, 128})));
  CHECK(plot::workbench(recording).size() < 5000000);
}

TEST_CASE("the page refuses what it can't show, and asks nothing of a network") {
  CHECK_THROWS_WITH(plot::workbench(AttentionRecording()), Contains("[plot::workbench]") && Contains("empty"));
  auto options = plot::WorkbenchOptions().max_tokens(0);
  const AttentionRecording recording = recorded(softmax(randn({2, 30, 30})));
  CHECK_THROWS_WITH(plot::workbench(recording, options), Contains("max_tokens is 0"));
  options.max_tokens(100).max_bytes(1000);
  CHECK_THROWS_WITH(plot::workbench(recording, options), Contains("max_bytes = 1000"));
  const std::string html = plot::workbench(recording);
  CHECK_THAT(html, Contains("default-src 'none'"));
  for (const char* outside : {"src=\"", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("})
    CHECK(html.find(outside) == std::string::npos);
  CHECK(html == plot::workbench(recording));
}

TEST_CASE("the page is written where it is asked for") {
  const auto folder = std::filesystem::temp_directory_path() / "fit_recorded_run_test";
  std::filesystem::remove_all(folder);
  const std::string path = (folder / "a" / "page.html").string();
  const AttentionRecording recording = recorded(full({1, 2, 2}, 0.5));
  plot::write_workbench(path, recording);
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == plot::workbench(recording));
  CHECK_THROWS_WITH(plot::write_workbench((folder / "a").string(), recording), Contains((folder / "a").string()));
  std::filesystem::remove_all(folder);
}

TEST_CASE("duplicate and induction scores count what earlier equal tokens get, and what follows them") {
  // a b c a b: the last two have an earlier equal, at 0 and 1; induction looks at 1 and 2
  Tensor w = zeros({3, 5, 5});
  for (std::int64_t q = 0; q < 5; ++q) {
    w[{0, q, q < 3 ? 0 : q - 3}] = 1;
    w[{1, q, q < 3 ? 0 : q - 2}] = 1;
    w[{2, q, 0}] = 1;
  }
  const auto scores = [&](const AttentionRecordOptions& o, std::size_t head) {
    const json m = data_of(plot::workbench(recorded(w, o)))["entries"][0]["measures"][head];
    return json{m[6], m[7]};
  };
  const auto names = AttentionRecordOptions().queries({"a", "b", "c", "a", "b"});
  CHECK(scores(names, 0) == json{1.0, 0.0});
  CHECK(scores(names, 1) == json{0.0, 1.0});
  CHECK(scores(names, 2) == json{0.5, 0.0});
  CHECK(scores({}, 0) == json{nullptr, nullptr});
  CHECK(scores(AttentionRecordOptions().queries({"a", "b", "c", "d", "e"}), 0) == json{nullptr, nullptr});
}

TEST_CASE("the page of heads, head_measures() and head_scores() have one definition of each score") {
  manual_seed(4);
  const std::int64_t T = 9;
  nn::GPT gpt(nn::GPTOptions().vocab_size(4).context_length(T).num_layers(1).num_heads(3).d_model(12));
  gpt.eval();
  const Tensor ids = randint(0, 4, {1, T});
  const nn::LensRun run = nn::Lens(gpt).run(ids, {"*.weights"});
  const nn::HeadScores scores = head_scores(run, ids);
  std::vector<std::string> names;
  for (const std::int64_t id : ids.data<std::int64_t>()) names.push_back(std::to_string(id));
  const Tensor weights = run["h.0.attn.weights"][0];
  const AttentionRecording recording = recorded(weights, AttentionRecordOptions().causal().queries(names));
  const std::vector<HeadMeasures> measures = head_measures(recording.records()[0]);
  const json page = data_of(plot::workbench(recording))["entries"][0]["measures"];
  for (std::int64_t h = 0; h < 3; ++h) {
    // The weight on the tokens right after earlier occurrences of the query's token.
    double induction = 0;
    int queries = 0;
    for (std::int64_t i = 0; i < T; ++i) {
      bool repeated = false;
      for (std::int64_t j = 0; j < i; ++j)
        if (ids[{0, i}].item() == ids[{0, j}].item()) repeated = true, induction += weights[{h, i, j + 1}].item();
      queries += repeated;
    }
    const auto head = static_cast<std::size_t>(h);
    CHECK(scores.induction[{0, h}].item() == Approx(induction / queries));
    CHECK(page[head][7].get<double>() == Approx(scores.induction[{0, h}].item()));
    CHECK(page[head][6].get<double>() == Approx(scores.duplicate[{0, h}].item()));
    CHECK(page[head][3].get<double>() == Approx(scores.previous[{0, h}].item()));
    CHECK(measures[head].previous == Approx(scores.previous[{0, h}].item()));
    CHECK(measures[head].duplicate == Approx(scores.duplicate[{0, h}].item()));
    CHECK(measures[head].induction == Approx(scores.induction[{0, h}].item()));
  }
}

}  // namespace fit::test::recorded_run_test
