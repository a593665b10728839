#include "fit/explain.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "attention/attend.hpp"
#include "attention/plan.hpp"
#include "fit/ops/ops.hpp"
#include "plot/figures/masked_pairs.hpp"
#include "plot/figures/text.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

using plot::counted;
using plot::Masked;
using plot::MaskedPairs;

constexpr const char* explain_op = "explain";
constexpr std::int64_t most_cells = 40, most_cases = 4;

// Formats sorted numbers: "3", "0 and 2", "1, 2 and 5". Runs of three or more become a range: "0 … 7".
std::string listed(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i >= 3)
      parts.push_back(std::to_string(numbers[i]) + " … " + std::to_string(numbers[end - 1]));
    else
      for (std::size_t k = i; k < end; ++k) parts.push_back(std::to_string(numbers[k]));
    i = end;
  }
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  return text;
}

// Sequences and heads are counted from 1, as in figures and on pages. Queries and keys are positions, from 0.
std::vector<std::int64_t> counted_from_one(std::vector<std::int64_t> numbers) {
  for (std::int64_t& n : numbers) ++n;
  return numbers;
}

// "Query 3 sees", "Queries 3 and 4 see".
std::string subject(const char* one, const char* many, const std::vector<std::int64_t>& which, const char* verb) {
  return std::string(which.size() == 1 ? one : many) + ' ' + listed(which) + ' ' + verb +
         (which.size() == 1 ? "s" : "");
}

// Draws the pairs as rows of characters. Large masks are drawn in blocks; "+" is a partly masked block.
void draw(std::ostream& out, const MaskedPairs& v) {
  const std::int64_t by = std::max<std::int64_t>(1, (std::max(v.rows, v.cols) + most_cells - 1) / most_cells);
  static const char signs[] = {'#', '.', '-', 'x', '<'};
  const auto width = static_cast<int>(std::to_string(v.rows - 1).size());
  for (std::int64_t q = 0; q < v.rows; q += by) {
    out << "  ";
    out.width(width);
    out << q << "  ";
    for (std::int64_t k = 0; k < v.cols; k += by) {
      char sign = signs[v.at(0, q, k)];
      for (std::int64_t i = q; i < std::min(v.rows, q + by); ++i)
        for (std::int64_t j = k; j < std::min(v.cols, k + by); ++j)
          if ((v.at(0, i, j) == plot::attends) != (sign == '#')) sign = '+';
      out << sign << (k + by < v.cols ? " " : "");
    }
    out << '\n';
  }
  const auto has = [&](Masked why) { return std::find(v.why.begin(), v.why.end(), why) != v.why.end(); };
  out << "  queries go down, keys go right"
      << (by > 1 ? ", " + std::to_string(by) + " at a time (+ some are seen)" : "") << ": # seen";
  if (has(plot::future)) out << ", . comes later";
  if (has(plot::padded)) out << ", - shown to no query";
  if (has(plot::masked)) out << ", x hidden by the mask";
  if (has(plot::outside_window)) out << ", < outside the window";
  out << '\n';
}

// What the queries of one case see.
struct Visible {
  std::vector<std::int64_t> blind, padding;  // queries that see nothing, keys that no query sees
  std::int64_t least, most = 0;              // keys that the other queries see
  std::set<Masked> keeps_off;                // why the keys of fully masked queries are masked
  bool all;                                  // whether all queries are fully masked
  bool hidden_by(Masked why) const { return keeps_off.count(why) > 0; }

  explicit Visible(const MaskedPairs& v) : least(v.cols) {
    for (std::int64_t q = 0; q < v.rows; ++q) {
      std::int64_t seen = 0;
      for (std::int64_t k = 0; k < v.cols; ++k) seen += v.at(0, q, k) == plot::attends;
      if (seen == 0) {
        blind.push_back(q);
        for (std::int64_t k = 0; k < v.cols; ++k) keeps_off.insert(v.at(0, q, k));
      } else {
        least = std::min(least, seen);
        most = std::max(most, seen);
      }
    }
    for (std::int64_t k = 0; k < v.cols; ++k) {
      bool shown = false;
      for (std::int64_t q = 0; q < v.rows; ++q) shown = shown || v.at(0, q, k) == plot::attends;
      if (!shown) padding.push_back(k);
    }
    all = static_cast<std::int64_t>(blind.size()) == v.rows;
  }
};

void describe_seen(std::ostream& out, const Visible& v, std::int64_t keys) {
  out << "  " << (v.blind.empty() ? "Each query sees " : "Each of the other queries sees ");
  if (v.least == v.most && v.least == keys)
    out << "every key";
  else if (v.least == v.most)
    out << counted(v.least, "key", "keys");
  else
    out << v.least << " to " << counted(v.most, "key", "keys");
  out << ".\n";
  if (!v.padding.empty())
    out << "  " << subject("Key", "Keys", v.padding, "get") << " no weight: no query sees "
        << (v.padding.size() == 1 ? "it" : "them") << ".\n";
}

// The queries that see nothing, and why.
void describe_blind(std::ostream& out, const Visible& v, bool has_mask, bool by_head) {
  const bool by_mask = v.hidden_by(plot::padded) || v.hidden_by(plot::masked);
  if (v.all && by_head && by_mask) {
    out << "! Switched off: the mask hides every key from every query of this head. Its output is zero, and no "
           "gradient passes.\n";
    return;
  }
  out << "! "
      << (v.all ? std::string("No query sees any key") : subject("Query", "Queries", v.blind, "see") + " nothing")
      << ": weights and output are zero there, and no gradient passes.\n";
  const bool by_causal = v.hidden_by(plot::future), by_window = v.hidden_by(plot::outside_window);
  if (has_mask && by_mask && by_causal && !v.all)
    out << "  The mask hides the keys up to there, causal those that come later: padding on the left does that. Leave\n"
           "  these queries out of the loss, or put the padding on the right.\n";
  else if (by_mask && by_window)
    out << "  The mask hides the keys within the window, and the window the others.\n";
  else if (by_mask)
    out << "  The mask alone hides all of their keys.\n";
  else if (by_causal || by_window)
    out << "  There are more queries than keys: the last query stands at the last key, so the first ones stand before "
           "all.\n";
}

// Sentences about one case. A sentence about a likely mistake begins with "!".
void describe(std::ostream& out, const MaskedPairs& pairs, bool has_mask, bool by_head) {
  const Visible v(pairs);
  if (!v.all) describe_seen(out, v, pairs.cols);
  if (!v.blind.empty()) describe_blind(out, v, has_mask, by_head);
}

// Whether the mask looks like one with inverted polarity (1 = ignore).
std::string inverted(const Tensor& mask) {  // boolean [B, H, 1|Sq, Sk]
  const std::int64_t rows = mask.size(2), cols = mask.size(3), all = mask.numel() / std::max<std::int64_t>(1, cols);
  const bool* const m = mask.data<bool>().data();
  if (rows > 1 && rows == cols) {
    bool upper = true;  // true above the diagonal, false below and on it
    for (std::int64_t row = 0; row < all; ++row)
      for (std::int64_t k = 0; k < cols; ++k) upper = upper && m[row * cols + k] == (k > row % rows);
    if (upper)
      return "! This mask shows the future and hides the past: it looks inverted, as PyTorch's attn_mask of\n"
             "  nn.MultiheadAttention is (true = hide). Here true = attend: mask_from_torch(mask, "
             "TorchMask::multihead), or\n"
             "  set causal.\n";
  }
  if (rows != 1) return {};
  // For each sequence: are the unmasked keys at the end? A head that sees nothing, beside one that sees, is switched
  // off.
  const std::int64_t heads = mask.size(1);
  const auto sees = [&](std::int64_t row) {
    return std::find(m + row * cols, m + (row + 1) * cols, true) != m + (row + 1) * cols;
  };
  std::int64_t at_end = 0, at_start = 0, nothing = 0;
  for (std::int64_t row = 0; row < all; ++row) {
    const bool* const r = m + row * cols;
    bool other = false;
    for (std::int64_t h = 0; h < heads; ++h) other = other || sees(row / heads * heads + h);
    if (other && !sees(row)) continue;
    const bool suffix = std::is_sorted(r, r + cols), prefix = std::is_sorted(r, r + cols, std::greater<bool>());
    if (suffix && prefix)
      nothing += !r[0];
    else
      at_end += suffix, at_start += prefix;
  }
  if (at_start == 0 && (at_end > 0 || nothing > 0))
    return "! What may be seen stands at the end of " + std::string(at_end > 0 ? "each sequence" : "no sequence") +
           (nothing > 0 ? ", and " + counted(nothing, "sequence is", "sequences are") + " hidden altogether" : "") +
           ". Either the padding is on\n"
           "  the left, or the mask is inverted, as PyTorch's key_padding_mask is (true = hide). Then:\n"
           "  mask_from_torch(mask, TorchMask::key_padding).\n";
  return {};
}

void write_heading(std::ostream& out, const AttentionOptions& options, std::int64_t queries, std::int64_t keys) {
  out << "Attention of " << counted(queries, "query", "queries") << " to " << counted(keys, "key", "keys");
  if (options.causal()) out << ", causal";
  if (options.window() > 0) out << ", window " << options.window();
  if (options.mask().defined()) out << ", mask " << options.mask().shape() << " (true = attend)";
  if (options.attends().defined()) out << ", where " << options.attends().str();
  if (options.score().defined()) out << ", scores s replaced by " << options.score().str();
  out << ":\n";
}

// The mask and the expressions of the options, boolean [B|1, H|1, 1|Sq, Sk]; undefined if there are none.
Tensor mask_of(const AttentionOptions& options, std::int64_t queries, std::int64_t keys) {
  Tensor mask;
  if (options.mask().defined()) {
    const Shape four = detail::mask_axes(options.mask().shape());
    const auto some = [&](int axis) { return four.rank() == 4 ? std::max(four[axis], std::int64_t{1}) : 1; };
    mask = detail::boolean_mask(explain_op, options.mask().detach(), {some(0), some(1), queries, keys});
  }
  // The batch and heads that an expression needs.
  const auto checked = [&](const detail::Expression& e) {
    const std::int64_t B = e.extent(detail::SymbolOp::batch), H = e.extent(detail::SymbolOp::head);
    detail::check_ranges(explain_op, e, B, H, kernels::Visibility{queries, keys, options.causal(), options.window()});
    return std::pair(B, H);
  };
  if (options.score().defined()) checked({options.score().node(), keys - queries});
  if (options.attends().defined()) {
    const detail::Expression attends(options.attends().node(), keys - queries);
    const auto [B, H] = checked(attends);
    mask = combine_masks(mask, detail::evaluate_mask(attends, {B, H, queries, keys}));
  }
  return mask;
}

// Sequences and heads with equal masks.
struct Case {
  MaskedPairs pairs;
  std::vector<std::int64_t> which;  // sequence times heads, plus head
};

std::vector<Case> cases_of(const Tensor& mask, const AttentionOptions& options, std::int64_t queries,
                           std::int64_t keys) {
  const std::int64_t H = mask.defined() ? mask.size(1) : 1, count = mask.defined() ? mask.size(0) * H : 1;
  std::vector<Case> cases;
  std::map<std::vector<std::uint8_t>, std::size_t> known;
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor one =
        mask.defined() ? reshape(Tensor(mask[{i / H, range(i % H, i % H + 1)}]), {1, mask.size(2), keys}) : mask;
    MaskedPairs v = plot::masked_pairs(one, options.causal(), options.window(), queries, keys);
    const auto [at, is_new] = known.emplace(v.why, cases.size());
    if (is_new) cases.push_back({std::move(v), {}});
    cases[at->second].which.push_back(i);
  }
  return cases;
}

void write_name(std::ostream& out, const std::vector<std::int64_t>& which, std::int64_t B, std::int64_t H) {
  out << '\n' << (B > 1 ? "Sequence" : "Head");
  if (B > 1 && H > 1)
    for (std::size_t i = 0; i < which.size(); ++i)
      out << (i ? ", " : " ") << which[i] / H + 1 << " head " << which[i] % H + 1;
  else
    out << (which.size() > 1 ? "s " : " ") << listed(counted_from_one(which));
  out << ":\n";
}

}  // namespace

std::string explain(const AttentionOptions& options, std::int64_t queries, std::int64_t keys) {
  if (queries < 1 || keys < 1)
    check::fail(explain_op, queries, " queries and ", keys, " keys: there must be at least one of each");
  check::not_negative(explain_op, "window", options.window());
  const NoGrad no_grad;
  std::ostringstream out;
  write_heading(out, options, queries, keys);
  const Tensor mask = mask_of(options, queries, keys);
  const std::int64_t B = mask.defined() ? mask.size(0) : 1, H = mask.defined() ? mask.size(1) : 1;
  const std::vector<Case> cases = cases_of(mask, options, queries, keys);
  for (std::size_t c = 0; c < cases.size(); ++c) {
    if (static_cast<std::int64_t>(c) == most_cases) {
      out << '\n'
          << counted(static_cast<std::int64_t>(cases.size() - c), "more case is", "more cases are") << " not shown.\n";
      break;
    }
    if (cases.size() > 1) write_name(out, cases[c].which, B, H);
    draw(out, cases[c].pairs);
    describe(out, cases[c].pairs, mask.defined(), H > 1);
  }
  if (mask.defined()) out << inverted(mask);
  return out.str();
}

std::string explain(const Tensor& mask) {
  check::defined(explain_op, "mask", mask);
  if (mask.rank() < 2 || mask.rank() > 4 || mask.numel() == 0)
    check::fail(explain_op, "the mask is ", mask.shape(),
                ": it must be (1|Sq, Sk), (B|1, 1|Sq, Sk) or (B|1, H|1, 1|Sq, Sk)");
  return explain(AttentionOptions().mask(mask), mask.size(-2) == 1 ? mask.size(-1) : mask.size(-2), mask.size(-1));
}

std::string explain_padding(const Tensor& ids, std::int64_t pad_token_id) {
  return explain(create_padding_mask(ids, pad_token_id));
}

}  // namespace fit
