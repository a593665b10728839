// Member functions of Tensor: each calls the free function with its name.
#include "fit/ops/ops.hpp"

namespace fit {

Tensor Tensor::add(const Tensor& o) const { return fit::add(*this, o); }
Tensor Tensor::sub(const Tensor& o) const { return fit::sub(*this, o); }
Tensor Tensor::mul(const Tensor& o) const { return fit::mul(*this, o); }
Tensor Tensor::div(const Tensor& o) const { return fit::div(*this, o); }
Tensor Tensor::add(Scalar o) const { return fit::add(*this, o); }
Tensor Tensor::sub(Scalar o) const { return fit::sub(*this, o); }
Tensor Tensor::mul(Scalar o) const { return fit::mul(*this, o); }
Tensor Tensor::div(Scalar o) const { return fit::div(*this, o); }
Tensor Tensor::pow(Scalar exponent) const { return fit::pow(*this, exponent); }
Tensor Tensor::pow(const Tensor& exponent) const { return fit::pow(*this, exponent); }
Tensor Tensor::neg() const { return fit::neg(*this); }
Tensor Tensor::square() const { return fit::square(*this); }
Tensor Tensor::reciprocal() const { return fit::reciprocal(*this); }
Tensor Tensor::remainder(const Tensor& o) const { return fit::remainder(*this, o); }
Tensor Tensor::remainder(Scalar o) const { return fit::remainder(*this, o); }
Tensor Tensor::fmod(const Tensor& o) const { return fit::fmod(*this, o); }
Tensor Tensor::fmod(Scalar o) const { return fit::fmod(*this, o); }
Tensor Tensor::floor_divide(const Tensor& o) const { return fit::floor_divide(*this, o); }
Tensor Tensor::floor_divide(Scalar o) const { return fit::floor_divide(*this, o); }
Tensor Tensor::exp() const { return fit::exp(*this); }
Tensor Tensor::log() const { return fit::log(*this); }
Tensor Tensor::log1p() const { return fit::log1p(*this); }
Tensor Tensor::log2() const { return fit::log2(*this); }
Tensor Tensor::log10() const { return fit::log10(*this); }
Tensor Tensor::expm1() const { return fit::expm1(*this); }
Tensor Tensor::sqrt() const { return fit::sqrt(*this); }
Tensor Tensor::rsqrt() const { return fit::rsqrt(*this); }
Tensor Tensor::abs() const { return fit::abs(*this); }
Tensor Tensor::sin() const { return fit::sin(*this); }
Tensor Tensor::cos() const { return fit::cos(*this); }
Tensor Tensor::tan() const { return fit::tan(*this); }
Tensor Tensor::asin() const { return fit::asin(*this); }
Tensor Tensor::acos() const { return fit::acos(*this); }
Tensor Tensor::atan() const { return fit::atan(*this); }
Tensor Tensor::sinh() const { return fit::sinh(*this); }
Tensor Tensor::cosh() const { return fit::cosh(*this); }
Tensor Tensor::tanh() const { return fit::tanh(*this); }
Tensor Tensor::asinh() const { return fit::asinh(*this); }
Tensor Tensor::acosh() const { return fit::acosh(*this); }
Tensor Tensor::atanh() const { return fit::atanh(*this); }
Tensor Tensor::erf() const { return fit::erf(*this); }
Tensor Tensor::sigmoid() const { return fit::sigmoid(*this); }
Tensor Tensor::relu() const { return fit::relu(*this); }
Tensor Tensor::clamp(Scalar low, Scalar high) const { return fit::clamp(*this, low, high); }
Tensor Tensor::clamp_min(Scalar low) const { return fit::clamp_min(*this, low); }
Tensor Tensor::clamp_max(Scalar high) const { return fit::clamp_max(*this, high); }
Tensor Tensor::floor() const { return fit::floor(*this); }
Tensor Tensor::ceil() const { return fit::ceil(*this); }
Tensor Tensor::round() const { return fit::round(*this); }
Tensor Tensor::trunc() const { return fit::trunc(*this); }
Tensor Tensor::sign() const { return fit::sign(*this); }
Tensor Tensor::nan_to_num(double nan) const { return fit::nan_to_num(*this, nan); }
Tensor Tensor::nan_to_num(double nan, double posinf, double neginf) const {
  return fit::nan_to_num(*this, nan, posinf, neginf);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const { return fit::masked_fill(*this, mask, value); }
Tensor Tensor::logical_not() const { return fit::logical_not(*this); }
Tensor Tensor::isnan() const { return fit::isnan(*this); }
Tensor Tensor::isfinite() const { return fit::isfinite(*this); }
Tensor Tensor::isinf() const { return fit::isinf(*this); }
Tensor Tensor::isclose(const Tensor& o, double rtol, double atol) const { return fit::isclose(*this, o, rtol, atol); }
bool Tensor::equal(const Tensor& o) const { return fit::equal(*this, o); }
bool Tensor::allclose(const Tensor& o, double rtol, double atol) const { return fit::allclose(*this, o, rtol, atol); }
Tensor Tensor::sum(const Axes& axes, KeepDims keep) const { return fit::sum(*this, axes, keep); }
Tensor Tensor::mean(const Axes& axes, KeepDims keep) const { return fit::mean(*this, axes, keep); }
Tensor Tensor::var(const Axes& axes, Correction correction, KeepDims keep) const {
  return fit::var(*this, axes, correction, keep);
}
Tensor Tensor::var(const Axes& axes, KeepDims keep, Correction correction) const {
  return fit::var(*this, axes, correction, keep);
}
Tensor Tensor::std(const Axes& axes, Correction correction, KeepDims keep) const {
  return fit::std(*this, axes, correction, keep);
}
Tensor Tensor::std(const Axes& axes, KeepDims keep, Correction correction) const {
  return fit::std(*this, axes, correction, keep);
}
Tensor Tensor::prod(const Axes& axes, KeepDims keep) const { return fit::prod(*this, axes, keep); }
Tensor Tensor::max(const Axes& axes, KeepDims keep) const { return fit::max(*this, axes, keep); }
Tensor Tensor::min(const Axes& axes, KeepDims keep) const { return fit::min(*this, axes, keep); }
Tensor Tensor::amax(const Axes& axes, KeepDims keep) const { return fit::amax(*this, axes, keep); }
Tensor Tensor::amin(const Axes& axes, KeepDims keep) const { return fit::amin(*this, axes, keep); }
std::pair<Tensor, Tensor> Tensor::max_with_indices(int axis, KeepDims keep) const {
  return fit::max_with_indices(*this, axis, keep);
}
std::pair<Tensor, Tensor> Tensor::min_with_indices(int axis, KeepDims keep) const {
  return fit::min_with_indices(*this, axis, keep);
}
std::pair<Tensor, Tensor> Tensor::median(int axis, KeepDims keep) const { return fit::median(*this, axis, keep); }
Tensor Tensor::median() const { return fit::median(*this); }
Tensor Tensor::quantile(double q, int axis, KeepDims keep) const { return fit::quantile(*this, q, axis, keep); }
Tensor Tensor::quantile(double q) const { return fit::quantile(*this, q); }
Tensor Tensor::norm(double p, const Axes& axes, KeepDims keep) const { return fit::norm(*this, p, axes, keep); }
Tensor Tensor::logsumexp(const Axes& axes, KeepDims keep) const { return fit::logsumexp(*this, axes, keep); }
Tensor Tensor::argmax(int axis, KeepDims keep) const { return fit::argmax(*this, axis, keep); }
Tensor Tensor::argmin(int axis, KeepDims keep) const { return fit::argmin(*this, axis, keep); }
Tensor Tensor::argmax() const { return fit::argmax(*this); }
Tensor Tensor::argmin() const { return fit::argmin(*this); }
Tensor Tensor::any(const Axes& axes, KeepDims keep) const { return fit::any(*this, axes, keep); }
Tensor Tensor::all(const Axes& axes, KeepDims keep) const { return fit::all(*this, axes, keep); }
Tensor Tensor::cumsum(int axis) const { return fit::cumsum(*this, axis); }
Tensor Tensor::cumsum(int axis, const CumulativeOptions& options) const { return fit::cumsum(*this, axis, options); }
Tensor Tensor::cumprod(int axis) const { return fit::cumprod(*this, axis); }
Tensor Tensor::cumprod(int axis, const CumulativeOptions& options) const { return fit::cumprod(*this, axis, options); }
Tensor Tensor::logcumsumexp(int axis) const { return fit::logcumsumexp(*this, axis); }
std::pair<Tensor, Tensor> Tensor::cummax(int axis) const { return fit::cummax(*this, axis); }
std::pair<Tensor, Tensor> Tensor::cummin(int axis) const { return fit::cummin(*this, axis); }
Tensor Tensor::bincount(const Tensor& weights, std::int64_t minimum) const {
  return fit::bincount(*this, weights, minimum);
}
std::pair<Tensor, Tensor> Tensor::histogram(std::int64_t bins) const { return fit::histogram(*this, bins); }
std::pair<Tensor, Tensor> Tensor::histogram(std::int64_t bins, double low, double high) const {
  return fit::histogram(*this, bins, low, high);
}
Tensor Tensor::sum_to(const Shape& shape) const { return fit::sum_to(*this, shape); }
Tensor Tensor::softmax(int axis) const { return fit::softmax(*this, axis); }
Tensor Tensor::log_softmax(int axis) const { return fit::log_softmax(*this, axis); }
Tensor Tensor::reshape(const Shape& shape) const { return fit::reshape(*this, shape); }
Tensor Tensor::reshape(const std::vector<std::int64_t>& shape) const { return fit::reshape(*this, shape); }
Tensor Tensor::reshape(std::initializer_list<std::int64_t> shape) const { return fit::reshape(*this, shape); }
Tensor Tensor::flatten(int first, int last) const { return fit::flatten(*this, first, last); }
Tensor Tensor::squeeze(int axis) const { return fit::squeeze(*this, axis); }
Tensor Tensor::squeeze() const { return fit::squeeze(*this); }
Tensor Tensor::unsqueeze(int axis) const { return fit::unsqueeze(*this, axis); }
Tensor Tensor::transpose(int a, int b) const { return fit::transpose(*this, a, b); }
Tensor Tensor::permute(const std::vector<int>& axes) const { return fit::permute(*this, axes); }
Tensor Tensor::broadcast_to(const Shape& shape) const { return fit::broadcast_to(*this, shape); }
Tensor Tensor::movedim(int from, int to) const { return fit::movedim(*this, from, to); }
Tensor Tensor::repeat(const std::vector<std::int64_t>& counts) const { return fit::repeat(*this, counts); }
Tensor Tensor::tile(const std::vector<std::int64_t>& counts) const { return fit::tile(*this, counts); }
Tensor Tensor::repeat_interleave(std::int64_t count, int axis) const {
  return fit::repeat_interleave(*this, count, axis);
}
Tensor Tensor::repeat_interleave(const Tensor& counts, int axis) const {
  return fit::repeat_interleave(*this, counts, axis);
}
Tensor Tensor::roll(std::int64_t shift, int axis) const { return fit::roll(*this, shift, axis); }
Tensor Tensor::roll(const std::vector<std::int64_t>& shifts, const std::vector<int>& axes) const {
  return fit::roll(*this, shifts, axes);
}
std::vector<Tensor> Tensor::unbind(int axis) const { return fit::unbind(*this, axis); }
Tensor Tensor::diagonal(std::int64_t offset, int a, int b) const { return fit::diagonal(*this, offset, a, b); }
Tensor Tensor::diag(std::int64_t offset) const { return fit::diag(*this, offset); }
Tensor Tensor::unfold(int axis, std::int64_t size, std::int64_t step) const {
  return fit::unfold(*this, axis, size, step);
}
std::vector<Tensor> Tensor::split(std::int64_t size, int axis) const { return fit::split(*this, size, axis); }
std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, int axis) const {
  return fit::split(*this, sizes, axis);
}
std::vector<Tensor> Tensor::chunk(int count, int axis) const { return fit::chunk(*this, count, axis); }
Tensor Tensor::index_select(int axis, const Tensor& ids) const { return fit::index_select(*this, axis, ids); }
Tensor Tensor::gather(int axis, const Tensor& ids) const { return fit::gather(*this, axis, ids); }
Tensor Tensor::scatter_add(int axis, const Tensor& ids, const Tensor& src) const {
  return fit::scatter_add(*this, axis, ids, src);
}
Tensor Tensor::scatter_reduce(int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                              IncludeSelf include_self) const {
  return fit::scatter_reduce(*this, axis, ids, src, reduce, include_self);
}
Tensor Tensor::scatter(int axis, const Tensor& ids, const Tensor& src) const {
  return fit::scatter(*this, axis, ids, src);
}
Tensor Tensor::index_reduce(int axis, const Tensor& ids, const Tensor& src, Reduce reduce,
                            IncludeSelf include_self) const {
  return fit::index_reduce(*this, axis, ids, src, reduce, include_self);
}
Tensor Tensor::index_add(int axis, const Tensor& ids, const Tensor& src) const {
  return fit::index_add(*this, axis, ids, src);
}
Tensor Tensor::take_along(int axis, const Tensor& ids) const { return fit::take_along(*this, axis, ids); }
Tensor Tensor::masked_select(const Tensor& mask) const { return fit::masked_select(*this, mask); }
Tensor Tensor::nonzero() const { return fit::nonzero(*this); }
Tensor Tensor::take(const Tensor& where) const { return fit::take(*this, where); }
Tensor Tensor::flip(const Axes& axes) const { return fit::flip(*this, axes); }
Tensor Tensor::tril(std::int64_t diagonal) const { return fit::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return fit::triu(*this, diagonal); }
std::pair<Tensor, Tensor> Tensor::sort(int axis, SortOrder order) const { return fit::sort(*this, axis, order); }
std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, int axis, Extremes which) const {
  return fit::topk(*this, k, axis, which);
}
Tensor Tensor::argsort(int axis, SortOrder order) const { return fit::argsort(*this, axis, order); }
Tensor Tensor::matmul(const Tensor& o) const { return fit::matmul(*this, o); }
Tensor Tensor::dot(const Tensor& o) const { return fit::dot(*this, o); }
Tensor Tensor::bmm(const Tensor& o) const { return fit::bmm(*this, o); }
Tensor Tensor::inv() const { return fit::inv(*this); }
Tensor Tensor::det() const { return fit::det(*this); }

}  // namespace fit
