#pragma once
#include <utility>
#include <vector>
#include <xtensor-blas/xlinalg.hpp>
#if __has_include(<xtensor/misc/xsort.hpp>)  // the paths since xtensor 0.26
#include <xtensor/core/xaccumulator.hpp>
#include <xtensor/misc/xhistogram.hpp>
#include <xtensor/misc/xmanipulation.hpp>
#include <xtensor/misc/xpad.hpp>
#include <xtensor/misc/xsort.hpp>
#include <xtensor/reducers/xnorm.hpp>
#include <xtensor/views/xindex_view.hpp>
#include <xtensor/views/xmasked_view.hpp>
#else
#include <xtensor/xaccumulator.hpp>
#include <xtensor/xhistogram.hpp>
#include <xtensor/xindex_view.hpp>
#include <xtensor/xmanipulation.hpp>
#include <xtensor/xmasked_view.hpp>
#include <xtensor/xnorm.hpp>
#include <xtensor/xpad.hpp>
#include <xtensor/xsort.hpp>
#endif

#include "fit/tensor/xtensor.hpp"
#include "support/oracles/oracle.hpp"

// What the files with oracles share.
namespace fit::test {

using Array = xt::xarray<double>;
using Arrays = std::vector<Array>;
using Sizes = std::vector<std::size_t>;

/// The sums along an axis, which stays. (xtensor 0.24 computes wrongly with an expression of xt::keep_dims.)
inline Array sums(const Array& x, std::size_t axis) { return xt::expand_dims(Array(xt::sum(x, Sizes{axis})), axis); }

/// What an oracle returns, as arrays.
inline Arrays arrays(Arrays all) { return all; }
inline Arrays arrays(double number) { return {Array(number)}; }
template <class E>
Arrays arrays(const xt::xexpression<E>& e) {
  Array y = Array::from_shape(e.derived_cast().shape());
  std::copy(e.derived_cast().begin(), e.derived_cast().end(), y.begin());
  return {y};
}

template <class F>
Oracle::Oracle(std::string row, F f)
    : row(std::move(row)), f([f](const std::vector<Tensor>& in) {
        Arrays a;
        for (const Tensor& x : in) a.emplace_back(as_xtensor<double>(x));
        std::vector<Tensor> out;
        for (const Array& y : arrays(f(a))) out.push_back(from_xtensor(y));
        return out;
      }) {}

/// Calls f(matrices) for each matrix, or each number of the leading axes, of arrays that have equal leading axes and
/// `last` axes behind them. Returns the results, an array each, side by side along these leading axes.
template <class F>
Arrays each_matrix(const Arrays& in, const F& f, std::size_t last = 2) {
  const std::size_t leading = in[0].dimension() - last;
  const Sizes front(in[0].shape().begin(), in[0].shape().begin() + static_cast<std::ptrdiff_t>(leading));
  std::size_t count = 1;
  for (const std::size_t n : front) count *= n;
  Arrays all;
  std::vector<Sizes> shapes;
  for (std::size_t i = 0; i < count; ++i) {
    Arrays one;
    for (const Array& x : in) {
      Sizes flat{count}, shape(x.shape().begin() + static_cast<std::ptrdiff_t>(leading), x.shape().end());
      flat.insert(flat.end(), shape.begin(), shape.end());
      one.push_back(xt::view(Array(xt::reshape_view(x, flat)), i));
    }
    const Arrays results = arrays(f(one));
    for (std::size_t r = 0; r < results.size(); ++r) {
      const Array row = xt::expand_dims(results[r], 0);
      if (i == 0) all.push_back(row), shapes.emplace_back(results[r].shape().begin(), results[r].shape().end());
      if (i > 0) all[r] = Array(xt::concatenate(xt::xtuple(all[r], row), 0));
    }
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    Sizes shape = front;
    shape.insert(shape.end(), shapes[r].begin(), shapes[r].end());
    all[r].reshape(shape);
  }
  return all;
}

}  // namespace fit::test
