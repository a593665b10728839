// recorded_pages DIR: writes the pages that recorded_page.py opens. The weights follow a formula that it knows, too.
#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>

#include "fit/fit.hpp"

using namespace fit;

namespace {

// 1 + (h + 2) (q + 3) (k + 1) (s + 1) mod 7, as a share of what the query may see.
Tensor weights(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t step, const Tensor& visible) {
  Tensor w = zeros({heads, queries, keys});
  const auto to = w.edit<float>();
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t q = 0; q < queries; ++q) {
      double total = 0;
      const auto value = [&](std::int64_t k) {
        if (!visible[{q, k}].item<bool>()) return 0.0;
        return 1.0 + static_cast<double>((h + 2) * (q + 3) * (k + 1) * (step + 1) % 7);
      };
      for (std::int64_t k = 0; k < keys; ++k) total += value(k);
      for (std::int64_t k = 0; k < keys; ++k)
        to[(h * queries + q) * keys + k] = total > 0 ? static_cast<float>(value(k) / total) : 0;
    }
  return w;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// An encoder with padding, a causal decoder, and its look at the encoder, at four steps.
void training(const std::string& folder) {
  const auto source = words("the tired cat sat on the mat <pad> <pad>"), target = words("die müde Katze saß");
  AttentionRecording recording;
  recording.title = "A small translation";
  Tensor padding = ones({1, 9}, boolean);
  padding[{0, range(7)}] = false;
  const Tensor all = ones({9, 9}, boolean);
  for (const std::int64_t step : {0, 10, 100, 900}) {
    auto o = AttentionRecordOptions().step(step).mask(padding).queries(source);
    recording.add("encoder.self_attn", weights(4, 9, 9, step, logical_and(all, padding)), o);
    const auto causal = AttentionRecordOptions().step(step).causal().queries(target);
    recording.add("decoder.self_attn", weights(4, 4, 4, step, tril(ones({4, 4}, boolean))), causal);
    o.kind(AttentionKind::cross).queries(target).keys(source);
    recording.add("decoder.cross_attn", weights(4, 4, 9, step, logical_and(ones({4, 9}, boolean), padding)), o);
  }
  plot::write_workbench(folder + "/training.html", recording);
}

// Names that want to be more than names, a row that sees nothing, and one that is not finite.
void hostile(const std::string& folder) {
  const std::vector<std::string> names{"<script>alert(1)</script>",
                                       "</script><script>alert(2)</script>",
                                       "&",
                                       "]]>",
                                       "\"'`${alert(3)}",
                                       "שלום עולם",
                                       "\xe2\x80\xae"
                                       "evil",
                                       "🐈‍⬛",
                                       std::string("\x00\x01\x1b[31m\x7f", 9),
                                       "\n",
                                       "",
                                       "   ",
                                       std::string(10000, 'x'),
                                       "<!--",
                                       "\xff\xfe",
                                       "{{script}}"};
  const auto n = static_cast<std::int64_t>(names.size());
  const Tensor visible = tril(ones({n, n}, boolean));
  Tensor w = weights(2, n, n, 0, visible);
  w[{0, 3}] = std::numeric_limits<float>::quiet_NaN();
  w[{1, 5}] = 0;
  AttentionRecording recording;
  recording.title = "</title><script>alert(4)</script>";
  recording.add("<img src=x onerror=alert(5)>", w, AttentionRecordOptions().causal().queries(names));
  plot::write_workbench(folder + "/hostile.html", recording);
}

// As trained models have them: some heads look at the neighbour, some at the first token, some everywhere.
Tensor trained_like(std::int64_t heads, std::int64_t n, std::int64_t layer, std::int64_t step) {
  Tensor scores = randn({heads, n, n});
  const auto s = scores.edit<float>();
  const double sharp = std::min(1.0, static_cast<double>(step) / 300);
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t q = 0; q < n; ++q)
      for (std::int64_t k = 0; k < n; ++k) {
        const auto d = static_cast<double>(q - k);
        double shape = 0;
        switch ((h * 5 + layer * 3) % 6) {
          case 0:
            shape = k == q - 1 ? 8 : 0;
            break;
          case 1:
            shape = k == 0 ? 7 : 0;
            break;
          case 2:
            shape = -0.25 * d;
            break;
          case 3:
            shape = 3 * std::cos(d * 0.5);
            break;
          case 4:
            shape = k == q ? 6 : 0;
            break;
          default:
            break;
        }
        auto& v = s[(h * n + q) * n + k];
        v = k > q ? -INFINITY : v + static_cast<float>(sharp * shape);
      }
  return softmax(scores, -1);
}

void large(const std::string& path, std::int64_t layers, std::int64_t heads, std::int64_t n,
           const std::vector<std::int64_t>& steps) {
  AttentionRecording recording;
  recording.title = "A language model";
  const auto text = words("the quick brown fox jumps over the lazy dog while rain falls softly on an old tin roof");
  std::vector<std::string> tokens;
  for (std::int64_t i = 0; i < n; ++i) tokens.push_back(text[static_cast<std::size_t>(i) % text.size()]);
  auto o = AttentionRecordOptions().causal().queries(tokens);
  for (const std::int64_t step : steps)
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      o.step(step);
      recording.add("h." + std::to_string(layer) + ".attn", trained_like(heads, n, layer, step), o);
    }
  plot::write_workbench(path, recording);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  manual_seed(1);
  training(folder);
  hostile(folder);
  large(folder + "/model.html", 4, 8, 48, {0, 50, 100, 200, 400});
  large(folder + "/large.html", 12, 12, 256, {400});
}
