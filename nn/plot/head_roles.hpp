#pragma once
#include <limits>
#include <vector>

#include "fit/nn/attention/attention_recording.hpp"
#include "plot/figures/masked_pairs.hpp"

namespace fit::plot {

// How far a head does one thing: value = (weight - even) / (1 - even), where weight is its mean weight on the keys of
// the role, and even that of even weights on the keys that a query attends to. 1: all weight is there; 0: as much as by
// chance. A query that attends to fewer than three keys, or to keys of the role alone, has no choice and does not
// count. NaN: fewer than four queries count, or the role is not defined.
struct HeadRole {
  double value = std::numeric_limits<double>::quiet_NaN();
  double weight = value, even = value;
};
struct HeadRoles {
  HeadRole self;       // the query's own position; self-attention only
  HeadRole previous;   // the previous position; self-attention only
  HeadRole first;      // the first key
  HeadRole duplicate;  // earlier positions with the query's token; self-attention with named keys only
  HeadRole induction;  // the positions right after those
};

// A record, and its masked pairs.
struct MaskedRecord {
  const AttentionRecord& record;
  MaskedPairs pairs;
};

// The roles of each head of a layer, over the queries of all records of it.
std::vector<HeadRoles> head_roles(const std::vector<MaskedRecord>& records);

}  // namespace fit::plot
