// Tensor's operations as members: each calls the function of its name.
#include "fit/ops.hpp"

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
Tensor Tensor::exp() const { return fit::exp(*this); }
Tensor Tensor::log() const { return fit::log(*this); }
Tensor Tensor::log1p() const { return fit::log1p(*this); }
Tensor Tensor::sqrt() const { return fit::sqrt(*this); }
Tensor Tensor::rsqrt() const { return fit::rsqrt(*this); }
Tensor Tensor::abs() const { return fit::abs(*this); }
Tensor Tensor::sin() const { return fit::sin(*this); }
Tensor Tensor::cos() const { return fit::cos(*this); }
Tensor Tensor::tanh() const { return fit::tanh(*this); }
Tensor Tensor::erf() const { return fit::erf(*this); }
Tensor Tensor::sigmoid() const { return fit::sigmoid(*this); }
Tensor Tensor::relu() const { return fit::relu(*this); }
Tensor Tensor::clamp(Scalar low, Scalar high) const { return fit::clamp(*this, low, high); }
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const { return fit::masked_fill(*this, mask, value); }
Tensor Tensor::logical_not() const { return fit::logical_not(*this); }
Tensor Tensor::isnan() const { return fit::isnan(*this); }
Tensor Tensor::isfinite() const { return fit::isfinite(*this); }
bool Tensor::equal(const Tensor& o) const { return fit::equal(*this, o); }
bool Tensor::allclose(const Tensor& o, double rtol, double atol) const { return fit::allclose(*this, o, rtol, atol); }
Tensor Tensor::sum(const Axes& axes, KeepDims keep) const { return fit::sum(*this, axes, keep); }
Tensor Tensor::mean(const Axes& axes, KeepDims keep) const { return fit::mean(*this, axes, keep); }
Tensor Tensor::var(const Axes& axes, Correction correction, KeepDims keep) const {
  return fit::var(*this, axes, correction, keep);
}
Tensor Tensor::stddev(const Axes& axes, Correction correction, KeepDims keep) const {
  return fit::stddev(*this, axes, correction, keep);
}
Tensor Tensor::std(const Axes& axes, Correction correction, KeepDims keep) const {
  return fit::std(*this, axes, correction, keep);
}
Tensor Tensor::prod(const Axes& axes, KeepDims keep) const { return fit::prod(*this, axes, keep); }
Tensor Tensor::max(const Axes& axes, KeepDims keep) const { return fit::max(*this, axes, keep); }
Tensor Tensor::min(const Axes& axes, KeepDims keep) const { return fit::min(*this, axes, keep); }
Tensor Tensor::norm(double p, const Axes& axes, KeepDims keep) const { return fit::norm(*this, p, axes, keep); }
Tensor Tensor::logsumexp(const Axes& axes, KeepDims keep) const { return fit::logsumexp(*this, axes, keep); }
Tensor Tensor::argmax(int axis, KeepDims keep) const { return fit::argmax(*this, axis, keep); }
Tensor Tensor::argmin(int axis, KeepDims keep) const { return fit::argmin(*this, axis, keep); }
Tensor Tensor::argmax() const { return fit::argmax(*this); }
Tensor Tensor::argmin() const { return fit::argmin(*this); }
Tensor Tensor::any(const Axes& axes, KeepDims keep) const { return fit::any(*this, axes, keep); }
Tensor Tensor::all(const Axes& axes, KeepDims keep) const { return fit::all(*this, axes, keep); }
Tensor Tensor::cumsum(int axis) const { return fit::cumsum(*this, axis); }
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
Tensor Tensor::flip(const Axes& axes) const { return fit::flip(*this, axes); }
Tensor Tensor::tril(std::int64_t diagonal) const { return fit::tril(*this, diagonal); }
Tensor Tensor::triu(std::int64_t diagonal) const { return fit::triu(*this, diagonal); }
std::pair<Tensor, Tensor> Tensor::sort(int axis, SortOrder order) const { return fit::sort(*this, axis, order); }
std::pair<Tensor, Tensor> Tensor::topk(std::int64_t k, int axis, Extremes which) const {
  return fit::topk(*this, k, axis, which);
}
Tensor Tensor::matmul(const Tensor& o) const { return fit::matmul(*this, o); }

}  // namespace fit
