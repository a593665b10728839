#include "training/loss_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <vector>

#include "dist/agree.hpp"
#include "tensor/check.hpp"

namespace fit {

LossParts::LossParts(const Tensor& loss, double rows) : value_(loss.item()), parts_(1) {
  if (const detail::LossTerms* const terms = detail::loss_terms(loss)) {
    sum_ = terms->sum;
    size_ = terms->size;
    std::copy(terms->counts, terms->counts + size_, counts_);
    kind_ = terms->many || (sum_ && size_ > 0) ? Kind::mixed : sum_ ? Kind::sum : Kind::mean;
  } else {
    kind_ = Kind::rows;
    counts_[size_++] = rows;
  }
  const double* const counted = std::find_if(counts_, counts_ + size_, [](double n) { return n != 0; });
  weight_ = kind_ == Kind::sum || kind_ == Kind::mixed ? 1 : counted == counts_ + size_ ? 0 : *counted;
  if (weight_ == 0) *this = {};
  total_ = counts() ? weight_ * value_ : 0;
}

// Whether one weight serves all terms: their counts are in one ratio. (Class weights make counts that are rounded.)
bool LossParts::fits(const LossParts& other) const {
  if (kind_ != other.kind_ || kind_ == Kind::mixed || size_ != other.size_) return false;
  const auto base = std::find_if(counts_, counts_ + size_, [](double n) { return n != 0; }) - counts_;
  for (int i = 0; i < size_; ++i) {
    const double a = counts_[i] * other.counts_[base], b = counts_[base] * other.counts_[i];
    if (std::abs(a - b) > 1e-9 * std::max(std::abs(a), std::abs(b))) return false;
  }
  return true;
}

void LossParts::join(const LossParts& other) {
  if (!other.counts()) return;
  if (!counts()) {
    *this = other;
    return;
  }
  weight_ += other.weight_;
  total_ += other.total_;
  parts_ += other.parts_;
}

std::string LossParts::words() const {
  if (kind_ == Kind::sum) return "a sum";
  if (kind_ == Kind::rows) return "one that does not say what it is a mean of";
  if (kind_ == Kind::mixed && !sum_) return "a sum of means over more than four different counts";
  std::ostringstream text;
  text << (sum_ ? "a sum and a mean over " : "a mean over ");
  for (int i = 0; i < size_; ++i) text << (i == 0 ? "" : " and one over ") << counts_[i];
  text << " items";
  return text.str();
}

// The Error if `other` can't be joined; empty if it can.
std::string LossParts::mismatch(const LossParts& other) const {
  if (!counts() || !other.counts() || fits(other)) return {};
  return "the losses of two parts of a batch can't be joined by one weight: one is " + words() + ", the other is " +
         other.words() +
         ". State the weight of each part: by Trainer::weight(), by DataParallel::backward(loss, weight), or by "
         "nn::mean_over() or nn::sum_of() of the loss";
}

double LossParts::add(const char* op, const Tensor& loss, double rows) {
  const LossParts part(loss, rows);
  if (const std::string error = mismatch(part); !error.empty()) check::fail(op, error);
  join(part);
  return part.weight_;
}

LossParts LossParts::of_all_ranks(const char* op, dist::World& world) const {
  if (world.size() == 1) return *this;
  constexpr std::size_t unit = dist::World::unit, piece = (sizeof(LossParts) + unit - 1) / unit * unit;
  std::vector<char> all(piece * static_cast<std::size_t>(world.size()));
  std::memcpy(all.data() + piece * static_cast<std::size_t>(world.rank()), this, sizeof *this);
  world.all_gather(all.data(), piece)->wait();
  LossParts joined;
  for (int r = 0; r < world.size(); ++r) {
    LossParts part;
    std::memcpy(&part, all.data() + piece * static_cast<std::size_t>(r), sizeof part);
    if (const std::string error = joined.mismatch(part); !error.empty()) dist::fail_alike(op, error);
    joined.join(part);
  }
  return joined;
}

double LossParts::loss() const {
  if (!counts()) return 0;
  return parts_ == 1 ? value_ : kind_ == Kind::sum ? total_ : total_ / weight_;
}

}  // namespace fit
