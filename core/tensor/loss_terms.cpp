#include "tensor/loss_terms.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace fit::detail {
namespace {

LossTerms* new_terms() { return new (acquire(size_class(sizeof(LossTerms)))) LossTerms; }

void replace(TensorImpl& t, LossTerms* terms) noexcept {
  if (LossTerms* const before = std::exchange(t.loss_terms, terms)) free_loss_terms(before);
}

void add(LossTerms& to, const LossTerms& from) {
  to.sum |= from.sum;
  to.many |= from.many;
  for (int i = 0; i < from.size; ++i) {
    if (std::find(to.counts, to.counts + to.size, from.counts[i]) != to.counts + to.size) continue;
    if (to.size == LossTerms::max_counts)
      to.many = true;
    else
      to.counts[to.size++] = from.counts[i];
  }
}

}  // namespace

void free_loss_terms(LossTerms* terms) noexcept {
  if (drop(terms->refs)) release(terms, size_class(sizeof(LossTerms)));
}

void set_loss_mean(const Tensor& y, double count) {
  LossTerms* const terms = new_terms();
  terms->counts[terms->size++] = count;
  replace(*y.impl(), terms);
}

void set_loss_sum(const Tensor& y) {
  LossTerms* const terms = new_terms();
  terms->sum = true;
  replace(*y.impl(), terms);
}

void add_loss_terms(TensorImpl& to, LossTerms& from) {
  if (to.loss_terms == &from) return;
  if (!to.loss_terms) {
    hold(from.refs);
    to.loss_terms = &from;
    return;
  }
  LossTerms* const all = new_terms();
  add(*all, *to.loss_terms);
  add(*all, from);
  replace(to, all);
}

}  // namespace fit::detail
