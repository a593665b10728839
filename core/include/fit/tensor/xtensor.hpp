#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>
#if __has_include(<xtensor/containers/xadapt.hpp>)  // the paths since xtensor 0.26
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/generators/xbuilder.hpp>
#include <xtensor/io/xcsv.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xstorage.hpp>
#if defined(__clang_major__) && __clang_major__ >= 19 && !defined(DOXYGEN)
// clang 19 finds two definitions for xt::svector, C<T, N> and its own. This one is more special than both.
template <class X, class T, std::size_t N>
struct xt::rebind_container<X, xt::svector<T, N, std::allocator<T>, true>> {
  using type = xt::svector<X, N, std::allocator<X>, true>;
};
#endif
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xcsv.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xview.hpp>
#endif

#include "fit/tensor/tensor.hpp"

namespace fit::detail {
template <class T>
class SharedElements;
template <class T>
class Sizes;
}  // namespace fit::detail

#ifndef DOXYGEN
// The temporary of an xtensor expression that reads the elements to which it is assigned.
template <class T>
struct xt::temporary_container<fit::detail::SharedElements<T>> {
  using type = xt::uvector<std::remove_const_t<T>>;
};
// The strides beside such a shape.
template <class X, class T>
struct xt::rebind_container<X, fit::detail::Sizes<T>> {
  using type = std::vector<X>;
};
#endif

/// Conversion between Tensor and xtensor:
///
///     Tensor x = from_xtensor(xt::sin(a) + 1);      // any expression, evaluated once, into the new tensor
///     Tensor t = from_xtensor(xt::load_csv<float>(file));  // a table of numbers from a std::ifstream
///     xt::sum(as_xtensor<float>(x), {0});           // reads x's buffer, no copy
///     edit_xtensor<float>(x) *= 2;                  // writes into it; counts as a change in place
///
/// The results of as_xtensor and edit_xtensor keep the elements alive, even after the tensor is destroyed. Only this
/// file of fit includes xtensor's headers.
namespace fit {

namespace detail {

template <class T>
using xtensor_element = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::int64_t, T>;

// A tensor's elements as the storage of an xtensor container, with shared ownership. Their count is fixed.
template <class T>
class SharedElements : public xt::xbuffer_adaptor<T*, xt::smart_ownership, std::shared_ptr<const Tensor>> {
  using Base = xt::xbuffer_adaptor<T*, xt::smart_ownership, std::shared_ptr<const Tensor>>;

 public:
  SharedElements(T* data, const Tensor& x)
      : Base(data, static_cast<std::size_t>(x.numel()), std::make_shared<const Tensor>(x.detach())) {}
  SharedElements& operator=(typename Base::temporary_type&& values) {
    resize(values.size());
    std::copy(values.begin(), values.end(), this->begin());
    return *this;
  }

  // xtensor's containers call this when an expression of another shape is assigned.
  void resize(std::size_t n) const {
    if (n != this->size())
      throw Error("[edit_xtensor] the tensor has " + std::to_string(this->size()) + " elements, the expression " +
                  std::to_string(n) + ": their shapes must be equal");
  }
};

// The shape of a container. If it is a tensor's, it stays: an expression of another shape can't be assigned.
template <class T>
class Sizes : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  explicit Sizes(const Shape& shape) : std::vector<T>(shape.begin(), shape.end()), fixed_(true) {}
  Sizes() = default;
  Sizes(const Sizes& o) : std::vector<T>(o) {}  // of an expression
  Sizes(Sizes&&) = default;
  ~Sizes() = default;
  Sizes& operator=(const Sizes& o) {
    if (fixed_ && !std::equal(this->begin(), this->end(), o.begin(), o.end()))
      throw Error("[edit_xtensor] the tensor has shape " + text(*this) + ", the expression " + text(o) +
                  ": their shapes must be equal; reshape() the tensor, or xt::transpose() the expression");
    std::vector<T>::operator=(o);
    fixed_ |= o.fixed_;
    return *this;
  }

 private:
  static std::string text(const std::vector<T>& sizes) {
    return Shape(std::vector<std::int64_t>(sizes.begin(), sizes.end())).str();
  }
  bool fixed_ = false;
};

// An xtensor container of the tensor's elements, with shared ownership.
template <class T>
auto adapt(T* data, const Tensor& x) {
  using Adaptor = xt::xarray_adaptor<SharedElements<T>, xt::layout_type::row_major, Sizes<std::size_t>>;
  return Adaptor(SharedElements<T>(data, x), Sizes<std::size_t>(x.shape()));
}

}  // namespace detail

/// Evaluates an xtensor expression into a new tensor: float, double, bool and int64 stay, other integers become int64.
template <class E>
Tensor from_xtensor(const xt::xexpression<E>& expression) {
  using V = std::decay_t<typename E::value_type>;
  using T = detail::xtensor_element<V>;
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, bool> ||
                    std::is_same_v<T, std::int64_t>,
                "from_xtensor takes float, double, bool and whole numbers: use xt::cast<double>() for others");
  const E& e = expression.derived_cast();
  const std::vector<std::int64_t> sizes(e.shape().begin(), e.shape().end());
  Tensor y = Tensor::empty(sizes, dtype_of<T>());
  auto elements = detail::adapt(y.fresh<T>(), y);
  xt::noalias(elements) = xt::cast<T>(e);
  if constexpr (std::is_unsigned_v<V> && sizeof(V) == 8)
    for (const T v : elements)
      if (v < 0) throw Error("[from_xtensor] a number is greater than 2^63 - 1: it does not fit int64");
  return y;
}

/// x's elements as a constant xtensor container, without a copy. T must be the C++ type of x.dtype(). The container
/// shows later changes of x in place.
template <class T>
auto as_xtensor(const Tensor& x) {
  return detail::adapt(x.data<T>().data(), x);
}

/// x's elements as a writable xtensor container, without a copy. The call counts as one change in place, under the
/// rules of Tensor::edit(). Assigning an expression writes its values into x; another shape throws Error.
template <class T>
auto edit_xtensor(Tensor& x) {
  return detail::adapt(x.edit<T>().data(), x);
}

}  // namespace fit
