#include <numeric>
#include <tuple>

#include "support/oracles/xtensor_oracle.hpp"

// Reductions, sums so far, sorting, and what is computed by rows.
namespace fit::test::oracles_reduce {
namespace {

// Without it, a call of xt::norm_l1 with axes is ambiguous.
const std::tuple<xt::evaluation_strategy::lazy_type> lazy;

// The five forms of ops_reduce.cpp. f(x, axes) reduces.
template <class F>
void add_forms(std::vector<Oracle>& to, const std::string& op, F f, double units = 4, bool empty = true) {
  const auto along = [&](const char* form, auto axes_of, bool keep) {
    Oracle oracle(op + ", " + form, [=](const Arrays& in) {
      const Sizes axes = axes_of(in[0].dimension());
      Array y = axes.empty() ? in[0] : Array(f(in[0], axes));  // one number is its own sum
      if (axes.empty()) y = f(xt::expand_dims(y, 0), Sizes{0});
      if (!keep) return y;
      Sizes shape(in[0].shape().begin(), in[0].shape().end());
      for (const std::size_t a : axes) shape[a] = 1;
      y.reshape(shape);
      return y;
    });
    oracle.units = units, oracle.empty = empty;
    to.push_back(std::move(oracle));
  };
  along(
      "of all",
      [](std::size_t rank) {
        Sizes axes(rank);
        std::iota(axes.begin(), axes.end(), std::size_t{0});
        return axes;
      },
      false);
  along(
      "of the last axis", [](std::size_t rank) { return Sizes{rank - 1}; }, false);
  along(
      "of the first axis", [](std::size_t) { return Sizes{0}; }, false);
  along(
      "of the outermost and the innermost",
      [](std::size_t rank) {
        return Sizes{0, rank - 1};
      },
      false);
  along(
      "with its axes kept",
      [](std::size_t) {
        return Sizes{1, 2};
      },
      true);
}

std::vector<Oracle> reductions() {
  std::vector<Oracle> all;
  add_forms(all, "sum", [](const Array& x, const Sizes& axes) { return xt::sum(x, axes); });
  add_forms(all, "mean", [](const Array& x, const Sizes& axes) { return xt::mean(x, axes); });
  add_forms(
      all, "var", [](const Array& x, const Sizes& axes) { return xt::eval(xt::variance(x, axes)); }, 4, false);
  add_forms(
      all, "prod", [](const Array& x, const Sizes& axes) { return xt::prod(x, axes); }, 12);
  add_forms(all, "max", [](const Array& x, const Sizes& axes) { return xt::amax(x, axes); });
  add_forms(all, "min", [](const Array& x, const Sizes& axes) { return xt::amin(x, axes); });
  add_forms(all, "norm", [](const Array& x, const Sizes& axes) { return xt::eval(xt::norm_l2(x, axes, lazy)); });
  add_forms(all, "logsumexp", [](const Array& x, const Sizes& axes) { return xt::log(xt::sum(xt::exp(x), axes)); });
  const Sizes one{1}, zero{0};
  const std::vector<Oracle> more = {
      {"var, with one degree of freedom less", [one](const auto& in) { return xt::eval(xt::variance(in[0], one, 1)); }},
      {"std",
       [](const auto& in) {
         return xt::eval(xt::sqrt(xt::variance(in[0], Sizes{0, 2}, 1)));
       }},
      {"norm, p = 1", [one](const auto& in) { return xt::norm_l1(in[0], one, lazy); }},
      Oracle("norm, p = 3", [one](const auto& in) { return xt::eval(xt::norm_lp(in[0], 3., one, lazy)); }).within(8),
      Oracle("norm, p = 1/2", [one](const auto& in) { return xt::eval(xt::norm_lp(in[0], 0.5, one, lazy)); }).within(8),
      {"norm, p = 0", [zero](const auto& in) { return xt::cast<double>(xt::norm_l0(in[0], zero, lazy)); }},
      {"norm, p = infinity", [zero](const auto& in) { return xt::norm_linf(in[0], zero, lazy); }},
      {"amax", [one](const auto& in) { return xt::amax(in[0], one); }},
      {"amin", [one](const auto& in) { return xt::amin(in[0], one); }},
      Oracle("cumsum",
             [](const auto& in) { return in[0].dimension() == 0 ? Array(in[0]) : Array(xt::cumsum(in[0], -1)); })
          .within(16)
          .not_empty(),
      Oracle("cumsum, of an inner axis", [](const auto& in) { return xt::cumsum(in[0], 0); }).not_empty(),
      Oracle("cumprod",
             [](const auto& in) { return in[0].dimension() == 0 ? Array(in[0]) : Array(xt::cumprod(in[0], -1)); })
          .not_empty(),
  };
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
const RegisterOracles reduction_oracles(reductions);

// The elements along the last axis that have these places.
Array last(const Array& x, std::size_t begin, std::size_t end) {
  return xt::strided_view(x, {xt::ellipsis(), xt::range(begin, end)});
}

std::vector<Oracle> choosing() {
  // Along an axis of a vector, xt::argmax of 0.24 gives the place of the least.
  const auto extreme = [](bool largest) {
    return [largest](const Arrays& in) -> Arrays {
      const std::size_t rank = in[0].dimension();
      if (rank == 0) return {in[0], Array(0.)};
      const Array x = largest ? Array(-in[0]) : in[0];
      const Array places = xt::cast<double>(rank == 1 ? Array(xt::argmin(x)) : Array(xt::argmin(x, -1)));
      if (largest) return {xt::amax(in[0], Sizes{rank - 1}), places};
      return {xt::amin(in[0], Sizes{rank - 1}), places};
    };
  };
  return {
      Oracle("max_with_indices", extreme(true)).not_empty(),
      Oracle("min_with_indices", extreme(false)).not_empty(),
      // The lower one of two in the middle.
      Oracle("median",
             [](const Arrays& in) -> Arrays {
               if (in[0].dimension() == 0) return {in[0], Array(0.)};
               const std::size_t n = in[0].shape().back(), axis = in[0].dimension() - 1, middle = (n - 1) / 2;
               return {xt::squeeze(last(xt::sort(in[0]), middle, middle + 1), axis),
                       xt::squeeze(last(xt::cast<double>(xt::argsort(in[0])), middle, middle + 1), axis)};
             })
          .not_empty(),
      {"quantile",
       [](const auto& in) {
         const Array sorted = xt::sort(in[0], 1);
         const double place = 0.3 * static_cast<double>(sorted.shape()[1] - 1);
         const auto low = static_cast<std::size_t>(place), high = std::min(low + 1, sorted.shape()[1] - 1);
         const double part = place - static_cast<double>(low);
         return Array((1 - part) * xt::view(sorted, xt::all(), low) + part * xt::view(sorted, xt::all(), high));
       }},
      Oracle("sort",
             [](const auto& in) {
               return Arrays{xt::sort(in[0]), xt::cast<double>(xt::argsort(in[0]))};
             })
          .not_empty(),
      {"sort, descending, the first axis",
       [](const auto& in) {
         return Arrays{-xt::sort(Array(-in[0]), 0), xt::cast<double>(xt::argsort(Array(-in[0]), 0))};
       }},
      {"topk",
       [](const auto& in) {
         return Arrays{-last(xt::sort(Array(-in[0])), 0, 2), last(xt::cast<double>(xt::argsort(Array(-in[0]))), 0, 2)};
       }},
      {"bincount",
       [](const auto& in) {
         return xt::bincount(xt::xtensor<int, 1>{2, 0, 2, 5}, in[0], 3);
       }},
  };
}
const RegisterOracles choosing_oracles(choosing);

Array softmaxed(const Array& x, std::size_t axis) {
  const Array e = xt::exp(x);
  return e / sums(e, axis);
}

std::vector<Oracle> by_rows() {
  const auto mean = [](const Array& x) -> Array {
    return sums(x, x.dimension() - 1) / static_cast<double>(x.shape().back());
  };
  const auto scaled = [mean](const Array& x, double eps) -> Array { return x / xt::sqrt(mean(x * x) + eps); };
  return {
      {"softmax",
       [](const auto& in) { return in[0].dimension() == 0 ? Array(1.) : softmaxed(in[0], in[0].dimension() - 1); }},
      {"softmax, along an inner axis", [](const auto& in) { return softmaxed(in[0], in[0].dimension() - 2); }},
      {"log_softmax",
       [](const auto& in) {
         return in[0].dimension() == 0 ? Array(0.) : Array(xt::log(softmaxed(in[0], in[0].dimension() - 1)));
       }},
      {"layer_norm", [=](const auto& in) { return Array(scaled(in[0] - mean(in[0]), 1e-5) * in[1] + in[2]); }},
      {"rms_norm", [scaled](const auto& in) { return Array(scaled(in[0], 1e-6) * in[1]); }},
      {"glu",
       [](const auto& in) {
         const std::size_t half = in[0].shape().back() / 2;
         return Array(last(in[0], 0, half) / (1. + xt::exp(-last(in[0], half, 2 * half))));
       }},
  };
}
const RegisterOracles row_oracles(by_rows);

}  // namespace
}  // namespace fit::test::oracles_reduce
