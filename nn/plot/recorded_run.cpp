#include "plot/recorded_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "plot/figures/encode.hpp"
#include "plot/figures/masked_pairs.hpp"
#include "plot/figures/text.hpp"
#include "plot/head_roles.hpp"
#include "plot/page/assets.hpp"
#include "tensor/check.hpp"

namespace fit::plot {
namespace {

using json = io::Json;
constexpr std::int64_t longest_token = 200;  // code points

// One record as the page stores it: rows and columns are merged into blocks up to a limit.
struct Sheet {
  std::int64_t heads = 0, rows = 0, cols = 0;
  std::int64_t row_block = 1, col_block = 1;  // queries per row, keys per column
  std::vector<float> weights;                 // [heads, rows, cols]
  std::int64_t mask_heads = 0;                // 0: no pair is masked
  std::vector<std::uint8_t> masked;           // [mask_heads, rows, cols]: Masked
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Sheet sheet_of(const AttentionRecord& r, const MaskedPairs& masked, std::int64_t most) {
  const std::int64_t H = r.weights.size(0), Sq = r.weights.size(1), Sk = r.weights.size(2);
  Sheet s;
  s.heads = H;
  s.row_block = ceil_div(Sq, most), s.col_block = ceil_div(Sk, most);
  s.rows = ceil_div(Sq, s.row_block), s.cols = ceil_div(Sk, s.col_block);
  const float* const from = r.weights.data<float>().data();
  const std::vector<std::uint8_t>& pairs = masked.why;
  const bool any = std::any_of(pairs.begin(), pairs.end(), [](std::uint8_t why) { return why != attends; });
  s.mask_heads = any ? masked.heads : 0;
  if (s.row_block == 1 && s.col_block == 1) {
    s.weights.assign(from, from + H * Sq * Sk);
    if (any) s.masked = pairs;
    return s;
  }
  s.weights.resize(static_cast<std::size_t>(H * s.rows * s.cols), 0);
  for (std::int64_t h = 0; h < H; ++h)
    for (std::int64_t i = 0; i < Sq; ++i) {
      const std::int64_t row = i / s.row_block;
      const auto in_block = static_cast<float>(std::min(s.row_block, Sq - row * s.row_block));
      float* const to = s.weights.data() + (h * s.rows + row) * s.cols;
      for (std::int64_t j = 0; j < Sk; ++j) to[j / s.col_block] += from[(h * Sq + i) * Sk + j] / in_block;
    }
  // A block is masked if all its pairs are. Its reason is that of its first pair.
  s.masked.resize(static_cast<std::size_t>(s.mask_heads * s.rows * s.cols));
  for (std::int64_t block = 0; block < static_cast<std::int64_t>(s.masked.size()); ++block) {
    const std::int64_t h = block / (s.rows * s.cols), row = block / s.cols % s.rows, col = block % s.cols;
    std::uint8_t why = attends;
    bool all = true;
    for (std::int64_t i = row * s.row_block; all && i < std::min(Sq, (row + 1) * s.row_block); ++i)
      for (std::int64_t j = col * s.col_block; all && j < std::min(Sk, (col + 1) * s.col_block); ++j) {
        const std::uint8_t pair = pairs[(h * Sq + i) * Sk + j];
        if (why == attends) why = pair;
        all = pair != attends;
      }
    s.masked[block] = all ? why : std::uint8_t{attends};
  }
  return s;
}

// Encodes each row as its maximum (float32, little-endian) and its weights as fractions of the maximum in 255 steps.
// The maximum of a row with a non-finite weight is NaN.
std::string encoded(const Sheet& s) {
  const std::size_t rows = static_cast<std::size_t>(s.heads * s.rows), cols = static_cast<std::size_t>(s.cols);
  std::string bytes(rows * (4 + cols), '\0');
  for (std::size_t r = 0; r < rows; ++r) {
    const float* const w = s.weights.data() + r * cols;
    float largest = 0;
    for (std::size_t c = 0; c < cols; ++c)
      largest = std::isfinite(w[c]) && !std::isnan(largest) ? std::max(largest, w[c]) : NAN;
    std::memcpy(&bytes[r * 4], &largest, 4);  // the processor is little-endian (core/io/npy.cpp)
    for (std::size_t c = 0; c < cols && largest > 0; ++c)
      bytes[rows * 4 + r * cols + c] = static_cast<char>(std::lround(w[c] / largest * 255));
  }
  return bytes;
}

// Whether any row that should sum to 1 does not.
bool has_odd_sums(const Sheet& s) {
  for (std::size_t r = 0; r < static_cast<std::size_t>(s.heads * s.rows); ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < s.cols; ++c)
      sum += s.weights[r * static_cast<std::size_t>(s.cols) + static_cast<std::size_t>(c)];
    if (std::isfinite(sum) && sum != 0 && std::abs(sum - 1) > 0.01 && s.row_block == 1) return true;
  }
  return false;
}

bool has_nan(const Sheet& s) {
  return std::any_of(s.weights.begin(), s.weights.end(), [](float w) { return !std::isfinite(w); });
}

json number(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

json role_json(const HeadRole& role) {
  return std::isfinite(role.value) ? json::array({role.value, role.weight, role.even}) : json(nullptr);
}

// Collects the data of a run. Texts and blocks that several records share are stored once.
class RunData {
 public:
  // bytes: the size of the blocks of all runs so far.
  RunData(const WorkbenchOptions& options, std::size_t& bytes) : options_(options), bytes_(bytes) {}

  void add(const AttentionRecord& r) {
    const MaskedPairs masked = masked_pairs(r.mask, r.causal, r.window, r.weights.size(1), r.weights.size(2));
    const Sheet s = sheet_of(r, masked, options_.max_tokens());
    json entry{{"layer", number_of(layers_, r.layer)},
               {"frame", frames_.at({r.step, r.call})},
               {"kind", r.kind == AttentionKind::self ? "self" : "cross"},
               {"heads", s.heads},
               {"rows", s.rows},
               {"cols", s.cols},
               {"queries", number_of(tokens_, labels(r.queries, r.weights.size(1), s.row_block, offset(r)))},
               {"keys", number_of(tokens_, labels(r.keys, r.weights.size(2), s.col_block, 0))},
               {"block", block(encoded(s))},
               {"mask", nullptr}};
    if (s.mask_heads > 0) {
      entry["mask"] = block(std::string(s.masked.begin(), s.masked.end()));
      entry["mask_heads"] = s.mask_heads;
    }
    for (const HeadMeasures& m : head_measures(r))
      entry["measures"].push_back({number(m.entropy), number(m.distance), number(m.self), number(m.previous),
                                   number(m.first), number(m.agreement), number(m.duplicate), number(m.induction)});
    for (const HeadRoles& roles : head_roles({{r, masked}})) entry["roles"].push_back(roles_json(roles));
    std::vector<std::string> notes;
    if (s.row_block > 1 || s.col_block > 1)
      notes.push_back(std::to_string(r.weights.size(1)) + " queries and " + std::to_string(r.weights.size(2)) +
                      " keys are shown in blocks of " + std::to_string(s.row_block) + " x " +
                      std::to_string(s.col_block) + ": of keys the sum, of queries the mean.");
    if (has_nan(s)) notes.emplace_back("Some weights are not finite (NaN): their rows are hatched.");
    if (has_odd_sums(s)) notes.emplace_back("Some rows do not add up to 1: these may be weights after dropout.");
    if (!notes.empty()) entry["notes"] = notes;
    entries_.push_back(std::move(entry));
  }

  void number_frames(const AttentionRecording& recording) {
    for (const AttentionRecord& r : recording.records()) frames_[{r.step, r.call}] = 0;
    std::size_t n = 0;
    for (auto& [at, index] : frames_) index = n++;
  }

  std::string html(const std::string& name) const {
    json data{{"layers", layers_.list}, {"tokens", tokens_.list}, {"entries", entries_}, {"frames", json::array()}};
    for (const auto& frame : frames_) data["frames"].push_back({frame.first.first, frame.first.second});
    std::string scripts = "<script type=\"application/json\" class=\"data\">" + page::script_json(data) + "</script>\n";
    for (const std::string& bytes : blocks_.list)
      scripts += "<script type=\"text/plain\" class=\"block\">" + bytes + "</script>\n";
    return "<div class=\"run-data\" data-name=\"" + escape_xml(name) + "\" hidden>\n" + scripts + "</div>\n";
  }

 private:
  // Distinct values in the order of their first use.
  template <class Value>
  struct Pool {
    std::vector<Value> list;
    std::map<Value, std::size_t> number;
  };
  template <class Value>
  static std::size_t number_of(Pool<Value>& pool, const Value& value) {
    const auto [at, is_new] = pool.number.emplace(value, pool.list.size());
    if (is_new) pool.list.push_back(value);
    return at->second;
  }

  static std::int64_t offset(const AttentionRecord& r) {
    return r.kind == AttentionKind::self ? r.weights.size(2) - r.weights.size(1) : 0;
  }

  // The names of `size` tokens in blocks. A token without a name is named by its position.
  static std::vector<std::string> labels(const std::vector<std::string>& names, std::int64_t size, std::int64_t block,
                                         std::int64_t first) {
    const auto name = [&](std::int64_t i) {
      return names.empty() ? std::to_string(first + i) : shorten(printable(names[i]), longest_token);
    };
    std::vector<std::string> list;
    for (std::int64_t i = 0; i < size; i += block) {
      const std::int64_t last = std::min(size, i + block) - 1;
      list.push_back(i == last ? name(i) : shorten(name(i), 12) + " … " + shorten(name(last), 12));
    }
    return list;
  }

  std::size_t block(const std::string& bytes) {
    const std::size_t before = blocks_.list.size();
    const std::size_t number = number_of(blocks_, base64(deflated(bytes)));
    if (blocks_.list.size() > before) bytes_ += blocks_.list.back().size();
    if (bytes_ > options_.max_bytes())
      check::fail(workbench_op, "the page would have more than max_bytes = ", options_.max_bytes(),
                  " bytes: record fewer steps, or shorter sequences");
    return number;
  }

  const WorkbenchOptions& options_;
  std::size_t& bytes_;
  Pool<std::string> layers_, blocks_;
  Pool<std::vector<std::string>> tokens_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> frames_;  // by step and call
  json entries_ = json::array();
};

}  // namespace

json roles_json(const HeadRoles& r) {
  return {role_json(r.self), role_json(r.previous), role_json(r.first), role_json(r.duplicate), role_json(r.induction)};
}

std::string recorded_run(const AttentionRecording& recording, const std::string& name, const WorkbenchOptions& options,
                         std::size_t& bytes) {
  if (recording.records().empty()) check::fail(workbench_op, "the recording is empty: there is nothing to show");
  if (options.max_tokens() < 1)
    check::fail(workbench_op, "max_tokens is ", options.max_tokens(), ": it must be positive");
  RunData run(options, bytes);
  run.number_frames(recording);
  for (const AttentionRecord& r : recording.records()) run.add(r);
  return run.html(name);
}

}  // namespace fit::plot
