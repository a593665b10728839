// Attention to all keys from its parts.
#include <cmath>

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit {

AttentionResult merge_attention(const std::vector<AttentionResult>& parts) {
  constexpr const char* op = "merge_attention";
  if (parts.empty()) check::fail(op, "there are no parts: it needs at least one");
  const Tensor &first = parts[0].output, &first_lse = parts[0].lse;
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = "of part " + std::to_string(i);
    check::floating(op, ("output " + part).c_str(), parts[i].output);
    if (!parts[i].lse.defined())
      check::fail(op, "lse ", part, " is undefined: give it, by attend() with AttentionOptions().lse()");
    check::shape(op, ("output " + part).c_str(), parts[i].output, first.shape());
    check::shape(op, ("lse " + part).c_str(), parts[i].lse, first_lse.shape());
    all.push_back(parts[i].lse);
  }
  // Heads last: the output is [B, Sq, H Dv], lse (B, H, Sq).
  const bool last = first.rank() == 3 && first_lse.rank() == 3 && first_lse.size(2) == first.size(1);
  const bool heads_first =
      first.rank() == first_lse.rank() + 1 && first.shape().erased(first.rank() - 1) == first_lse.shape();
  if (!heads_first && (!last || first_lse.size(1) == 0 || first.size(2) % first_lse.size(1) != 0))
    check::fail(op, "output is ", first.shape(), ", lse is ", first_lse.shape(),
                ": they must be (…, Sq, Dv) and (…, Sq), or [B, Sq, H Dv] and (B, H, Sq)");

  const Tensor lse = stack(all, 0);                             // [parts, …, Sq]
  const Tensor empty = eq(amax(lse.detach(), {0}), -INFINITY);  // queries that attend to no key
  const Tensor total = logsumexp(masked_fill(lse, empty, 0), {0});
  Tensor output;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // An empty part has the weight 0, and no gradient reaches its lse.
    Tensor weight = masked_fill(exp(all[i] - total), logical_or(empty, eq(all[i].detach(), -INFINITY)), 0);
    weight = unsqueeze(heads_first ? weight : transpose(weight, 1, 2), -1);  // (…, Sq, 1) or [B, Sq, H, 1]
    const Tensor& y = parts[i].output;
    const Tensor part = weight * (heads_first ? y : reshape(y, {y.size(0), y.size(1), first_lse.size(1), -1}));
    output = i == 0 ? part : output + part;
  }
  return {reshape(output, first.shape()).to(first.dtype()), {}, masked_fill(total, empty, -INFINITY)};
}

}  // namespace fit
