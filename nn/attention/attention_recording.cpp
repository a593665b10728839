#include "fit/nn/attention/attention_recording.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/attend.hpp"
#include "attention/token_scores.hpp"
#include "common/functions.hpp"
#include "common/pattern.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

constexpr const char* recording_op = "AttentionRecording";

// A copy of one element's weights, [H, Sq, Sk].
Tensor element_of(const Tensor& weights, std::int64_t element) {
  check::floating(recording_op, "weights", weights);
  const Shape& s = weights.shape();
  if (s.rank() < 3 || s.rank() > 4 || weights.numel() == 0)
    check::fail(recording_op, "weights is ", s, ": it must be (B, H, Sq, Sk) or (H, Sq, Sk), with no axis of size 0");
  const std::int64_t batch = s.rank() == 4 ? s[0] : 1;
  if (element < 0 || element >= batch)
    check::fail(recording_op, "element is ", element, ", weights is ", s, ": it must be in 0 … ", batch - 1);
  const Tensor plain = weights.detach();
  Tensor kept = (s.rank() == 4 ? Tensor(plain[element]) : plain.clone()).to(float32);
  for (const float w : kept.data<float>())
    if (w < 0) check::fail(recording_op, "weights has the value ", w, ": attention weights are not negative");
  return kept;
}

// One element's mask as boolean [H|1, 1|Sq, Sk].
Tensor mask_of(const Tensor& mask, std::int64_t element, const Shape& weights) {
  if (!mask.defined()) return {};
  // Its first axis is 1, or the batch, which has this element.
  const Shape four = detail::mask_axes(mask.shape()), scores = weights.inserted(0, element + 1);
  const bool batch = four.rank() == 4 && four[0] > element;
  const Tensor all = detail::boolean_mask(recording_op, mask.detach(), batch ? scores.with(0, four[0]) : scores);
  return all[all.size(0) == 1 ? 0 : element];
}

// Uses the query names for the keys of self-attention, and checks the number of names.
void check_tokens(AttentionRecord& r) {
  const auto queries = static_cast<std::size_t>(r.weights.size(1)), keys = static_cast<std::size_t>(r.weights.size(2));
  if (r.kind == AttentionKind::self) {
    if (r.keys.empty() && r.queries.size() == keys) r.keys = r.queries;
    if (r.queries.empty()) r.queries = r.keys;
    if (r.keys.size() == keys && r.queries.size() == keys)
      r.queries.erase(r.queries.begin(), r.queries.end() - static_cast<std::ptrdiff_t>(queries));
  }
  const auto check = [&](const char* name, std::size_t given, std::size_t needed) {
    if (given != 0 && given != needed)
      check::fail(recording_op, given, " names of ", name, " for the weights ", r.weights.shape(), " of '", r.layer,
                  "': there must be ", needed, ", or none");
  };
  check("queries", r.queries.size(), queries);
  check("keys", r.keys.size(), keys);
}

// Equal numbers for equal names.
std::vector<std::int64_t> numbers_of(const std::vector<std::string>& names) {
  std::map<std::string, std::int64_t> known;
  std::vector<std::int64_t> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names)
    numbers.push_back(known.emplace(name, static_cast<std::int64_t>(known.size())).first->second);
  return numbers;
}

std::size_t bytes_of(const Tensor& x) {
  return x.defined() ? static_cast<std::size_t>(x.numel()) * (x.dtype() == boolean ? 1 : 4) : 0;
}

}  // namespace

void AttentionRecording::add(const std::string& layer, const Tensor& weights, const AttentionRecordOptions& o) {
  const NoGrad no_grad;
  AttentionRecord r;
  r.layer = layer;
  r.step = o.step();
  r.kind = o.kind();
  r.weights = element_of(weights, o.element());
  r.mask = mask_of(o.mask(), o.element(), r.weights.shape());
  r.causal = o.causal();
  r.window = o.window();
  check::not_negative(recording_op, "window", o.window());
  if (r.kind == AttentionKind::self && r.weights.size(2) < r.weights.size(1))
    check::fail(recording_op, "weights is ", weights.shape(), " in self-attention: there must be a key for each query");
  r.queries = o.queries();
  r.keys = o.keys();
  check_tokens(r);
  take(std::move(r));
}

void AttentionRecording::take(AttentionRecord r) {
  r.call = calls_[{r.step, r.layer}]++;
  bytes_ += bytes_of(r.weights) + bytes_of(r.mask);
  records_.push_back(std::move(r));
}

void AttentionRecording::append(const AttentionRecording& other) {
  const std::vector<AttentionRecord> records = other.records_;  // other may be this one
  for (const AttentionRecord& r : records) take(r);
}

void AttentionRecording::name_tokens(const std::string& layer, const std::vector<std::string>& queries,
                                     const std::vector<std::string>& keys) {
  std::vector<AttentionRecord> named = records_;
  bool any = false;
  for (AttentionRecord& r : named) {
    if (!nn::is_below(r.layer, layer)) continue;
    any = true;
    r.queries = queries;
    r.keys = keys;
    check_tokens(r);
  }
  if (!any) check::fail(recording_op, "there is no record of '", layer, "' or a layer below");
  records_ = std::move(named);
}

void AttentionRecording::keep_every(std::int64_t every) {
  if (every < 1) check::fail(recording_op, "every is ", every, ": it must be positive");
  const auto forgotten = [&](const AttentionRecord& r) { return r.step % every != 0; };
  for (const AttentionRecord& r : records_)
    if (forgotten(r)) bytes_ -= bytes_of(r.weights) + bytes_of(r.mask);
  records_.erase(std::remove_if(records_.begin(), records_.end(), forgotten), records_.end());
  for (auto at = calls_.begin(); at != calls_.end();)
    at = at->first.first % every != 0 ? calls_.erase(at) : std::next(at);
}

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

void check_measurable(const AttentionRecord& record) {
  const bool self = record.kind == AttentionKind::self;
  check::dtype("head_measures", "weights", record.weights, float32);
  const Shape& shape = record.weights.shape();
  if (shape.rank() != 3 || shape[2] < 1 || (self && shape[2] < shape[1]))
    check::fail("head_measures", "weights is ", shape, self ? " in self-attention" : "",
                ": it must be [H, Sq, Sk], with one key or more", self ? " and a key for each query" : "");
  if (self && !record.keys.empty() && record.keys.size() != static_cast<std::size_t>(shape[2]))
    check::fail("head_measures", "keys has ", record.keys.size(), " names, weights is ", shape, ": there must be ",
                shape[2], " names, or none");
}

// Whether the weights of one query are finite, and not all 0.
bool counts(const float* row, std::int64_t keys) {
  double all = 0;
  for (std::int64_t j = 0; j < keys; ++j) all += row[j];
  return std::isfinite(all) && all > 0;
}

// Sums of one head's measures over its queries.
struct HeadSums {
  HeadMeasures of{};
  std::int64_t rows = 0, compared = 0;

  // p are the weights of one query, which stands at the key `place`.
  void add(const float* p, std::int64_t keys, std::int64_t place, bool self) {
    ++rows;
    for (std::int64_t j = 0; j < keys; ++j) {
      const double w = p[j];
      if (w > 0) of.entropy -= w * nn::number::log(w);
      if (self) of.distance += w * static_cast<double>(std::abs(place - j));
    }
    of.first += p[0];
    if (self) of.self += p[place];
  }
  // total is the sum of p over this head and `others` other heads.
  void compare(const float* p, const std::vector<double>& total, double others) {
    ++compared;
    for (std::size_t j = 0; j < total.size(); ++j) of.agreement += std::min<double>(p[j], (total[j] - p[j]) / others);
  }
  HeadMeasures means(bool self, const TokenScores& scores) const {
    const auto mean = [](double sum, std::int64_t n) { return n > 0 ? sum / static_cast<double>(n) : none; };
    return {mean(of.entropy, rows),
            self ? mean(of.distance, rows) : none,
            self ? mean(of.self, rows) : none,
            scores.previous,
            mean(of.first, rows),
            mean(of.agreement, compared),
            scores.duplicate,
            scores.induction};
  }
};

// The sums of each head of weights [H, Sq, Sk].
std::vector<HeadSums> head_sums(const Tensor& weights, bool self) {
  const std::int64_t H = weights.size(0), Sq = weights.size(1), Sk = weights.size(2);
  const float* const all = weights.data<float>().data();
  const kernels::Visibility visibility{Sq, Sk};
  std::vector<HeadSums> sums(static_cast<std::size_t>(H));
  std::vector<double> total(static_cast<std::size_t>(Sk));  // over the heads, of one query
  for (std::int64_t i = 0; i < Sq; ++i) {
    const auto row = [&](std::int64_t h) { return all + (h * Sq + i) * Sk; };
    std::vector<std::int64_t> counted;
    for (std::int64_t h = 0; h < H; ++h)
      if (counts(row(h), Sk)) counted.push_back(h);
    std::fill(total.begin(), total.end(), 0.0);
    for (const std::int64_t h : counted)
      for (std::int64_t j = 0; j < Sk; ++j) total[j] += row(h)[j];
    for (const std::int64_t h : counted) {
      sums[h].add(row(h), Sk, visibility.place(i), self);
      if (counted.size() > 1) sums[h].compare(row(h), total, static_cast<double>(counted.size() - 1));
    }
  }
  return sums;
}

}  // namespace

std::vector<HeadMeasures> head_measures(const AttentionRecord& record) {
  check_measurable(record);
  const bool self = record.kind == AttentionKind::self;
  const std::vector<HeadSums> sums = head_sums(record.weights, self);
  std::vector<TokenScores> scores(sums.size(), {none, none, none});
  if (self) scores = token_scores(record.weights.unsqueeze(0), numbers_of(record.keys));
  std::vector<HeadMeasures> measures;
  measures.reserve(sums.size());
  for (std::size_t h = 0; h < sums.size(); ++h) measures.push_back(sums[h].means(self, scores[h]));
  return measures;
}

}  // namespace fit
