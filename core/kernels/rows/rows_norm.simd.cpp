#include "kernels/rows/rows_norm.hpp"

#include <cmath>

#include "kernels/simd/pack.hpp"

namespace fit::kernels {
namespace {

// Subtracts a double from numbers of type T without losing its digits beyond T's precision: in two parts, high and low.
template <class T>
struct Centre {
  using V = Vec<T>;
  V high, low;
  explicit Centre(double c)
      : high(static_cast<T>(c)), low(static_cast<T>(c - static_cast<double>(static_cast<T>(c)))) {}
  V from(const V& x) const { return (x - high) - low; }
};

// Mean and variance in two passes. The first mean may be inexact: with d = x - k for any k near the mean, mean = k +
// mean(d), variance = mean(d^2) - mean(d)^2 (Chan, Golub and LeVeque 1983).
template <class T>
void block_moments(const T* x, std::int64_t n, double& mean, double& variance) {
  using V = Vec<T>;
  Accumulators<T> sum(T(0));
  accumulate<T, 4>(n, [&](std::int64_t i, auto a, int j) { sum[j] += a.template load<V>(x + i, T(0)); });
  const T k = sum.sum() / static_cast<T>(n);
  Accumulators<T, 2> first(T(0)), second(T(0));
  accumulate<T, 2>(n, [&](std::int64_t i, auto a, int j) {
    const V d = a.template load<V>(x + i, k) - V(k);
    first[j] += d;
    second[j] = fma(d, d, second[j]);
  });
  const double off = static_cast<double>(first.sum()) / static_cast<double>(n);
  mean = static_cast<double>(k) + off;
  variance = static_cast<double>(second.sum()) / static_cast<double>(n) - off * off;
}

template <class T>
double block_mean_square(const T* x, std::int64_t n) {
  using V = Vec<T>;
  Accumulators<T> sum(T(0));
  accumulate<T, 4>(n, [&](std::int64_t i, auto a, int j) {
    const V v = a.template load<V>(x + i, T(0));
    sum[j] = fma(v, v, sum[j]);
  });
  return static_cast<double>(sum.sum()) / static_cast<double>(n);
}

// Longer rows are cut into blocks, which are joined in double: a chain of many additions would lose digits.
constexpr std::int64_t norm_block = 1 << 14;

// `squares` is the sum of the squares of the distances from the mean, of the elements so far (the same authors).
template <class T>
void moments(const T* x, std::int64_t n, double& mean, double& variance) {
  if (n <= norm_block) return block_moments(x, n, mean, variance);
  double squares = mean = 0;
  for (std::int64_t at = 0; at < n; at += norm_block) {
    const std::int64_t count = n - at < norm_block ? n - at : norm_block;
    double block_mean, block_variance;
    block_moments(x + at, count, block_mean, block_variance);
    const auto before = static_cast<double>(at), here = static_cast<double>(count), all = before + here;
    const double step = block_mean - mean;
    mean += step * here / all;
    squares += here * (block_variance + step * step * before / all);
  }
  variance = squares / static_cast<double>(n);
}

template <class T>
double mean_square(const T* x, std::int64_t n) {
  if (n <= norm_block) return block_mean_square(x, n);
  double squares = 0;
  for (std::int64_t at = 0; at < n; at += norm_block) {
    const std::int64_t count = n - at < norm_block ? n - at : norm_block;
    squares += static_cast<double>(count) * block_mean_square(x + at, count);
  }
  return squares / static_cast<double>(n);
}

template <bool Layer, class T>
void forward(T* y, double* mean, double* rstd, const T* x, const T* weight, const T* bias, std::int64_t rows,
             std::int64_t n, double eps, bool nontemporal) {
  using V = Vec<T>;
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    double middle = 0, variance;
    if constexpr (Layer) {
      moments(x, n, middle, variance);
      mean[r] = middle;
    } else {
      variance = mean_square(x, n);
    }
    rstd[r] = 1 / std::sqrt((variance > 0 || variance != variance ? variance : 0.0) + eps);
    const Centre<T> centre(middle);
    const V scale(static_cast<T>(rstd[r]));
    for_each_vector_nontemporal<V>(nontemporal, y, n, [&](std::int64_t i, auto a) {
      const V v = a.template load<V>(x + i, T(0));
      V h = (Layer ? centre.from(v) : v) * scale;
      if (weight && bias)
        h = fma(h, a.template load<V>(weight + i, T(0)), a.template load<V>(bias + i, T(0)));
      else if (weight)
        h *= a.template load<V>(weight + i, T(0));
      else if (bias)
        h += a.template load<V>(bias + i, T(0));
      a.store(h, y + i);
    });
  }
  if (nontemporal) fence_nontemporal_stores();
}

template <bool Layer, class T>
void backward(T* dx, T* dweight, T* dbias, const T* x, const T* dy, const T* weight, const double* mean,
              const double* rstd, std::int64_t rows, std::int64_t n, bool nontemporal) {
  using V = Vec<T>;
  for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n) {
    const Centre<T> centre(Layer ? mean[r] : 0);
    const V scale(static_cast<T>(rstd[r]));
    const T middle = static_cast<T>(Layer ? mean[r] : 0);  // absent numbers: h of 0 could overflow
    const auto normalised = [&](std::int64_t i, auto a) {
      const V v = a.template load<V>(x + i, middle);
      return (Layer ? centre.from(v) : v) * scale;
    };
    const auto weighted = [&](std::int64_t i, auto a) {
      const V d = a.template load<V>(dy + i, T(0));
      return weight ? d * a.template load<V>(weight + i, T(0)) : d;
    };
    Accumulators<T, 2> sum_g(T(0)), sum_gh(T(0));
    accumulate<T, 2>(n, [&](std::int64_t i, auto a, int j) {
      const V h = normalised(i, a), g = weighted(i, a);
      sum_g[j] += g;
      sum_gh[j] = fma(g, h, sum_gh[j]);
      if (dweight) {
        const V d = a.template load<V>(dy + i, T(0));
        a.store(fma(d, h, a.template load<V>(dweight + i, T(0))), dweight + i);
      }
      if (dbias) a.store(a.template load<V>(dbias + i, T(0)) + a.template load<V>(dy + i, T(0)), dbias + i);
    });
    if (!dx) continue;
    const V mean_g(Layer ? sum_g.sum() / static_cast<T>(n) : T(0)), mean_gh(sum_gh.sum() / static_cast<T>(n));
    for_each_vector_nontemporal<V>(nontemporal, dx, n, [&](std::int64_t i, auto a) {
      a.store(scale * fnma(normalised(i, a), mean_gh, weighted(i, a) - mean_g), dx + i);
    });
    dx += n;
  }
  if (nontemporal) fence_nontemporal_stores();
}

}  // namespace

template <class IsaTag, class T>
const NormRows<T>& norm_table() {
  static constexpr NormRows<T> table{forward<true, T>, forward<false, T>, backward<true, T>, backward<false, T>};
  return table;
}

template const NormRows<float>& norm_table<FIT_ISA, float>();
template const NormRows<double>& norm_table<FIT_ISA, double>();

}  // namespace fit::kernels
