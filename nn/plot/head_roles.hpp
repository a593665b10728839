#pragma once
#include <vector>

#include "fit/nn/attention/attention_recording.hpp"
#include "plot/figures/masked_pairs.hpp"

namespace fit::plot {

// How far a head does one thing: (w - u) / (1 - u), where w is its mean weight on the keys of the role, and u that of
// even weights on the keys that a query attends to. 1: all weight is there; 0: as much as by chance. A query that
// attends to fewer than three keys, or to keys of the role alone, has no choice and does not count. NaN: fewer than
// four queries count, or the role is not defined. The script of pages has the same (page/model/source.js).
struct HeadRoles {
  double self;       // the query's own position; self-attention only
  double previous;   // the previous position; self-attention only
  double first;      // the first key
  double duplicate;  // earlier positions with the query's token; self-attention with named keys only
  double induction;  // the positions right after those
};

// The roles of each head. `pairs` are the masked pairs of the record.
std::vector<HeadRoles> head_roles(const AttentionRecord& record, const MaskedPairs& pairs);

}  // namespace fit::plot
