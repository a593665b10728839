#include "kernels/rows/channel_norm.hpp"

#include "kernels/simd/pack.hpp"

namespace fit::kernels {
namespace {

using Wide = Vec<double>;

// Columns: four rows at once, so that the accumulators are read and written once for four rows.
template <class T>
void product_columns(double* acc, const T* x, const T* y, const double* centre, std::int64_t n, std::int64_t rows,
                     std::int64_t step) {
  for (std::int64_t r = 0, count; r < rows; r += count) {
    count = rows - r < 4 ? 1 : 4;
    for_each_vector<Wide>(n, [&](std::int64_t k, auto access) {
      const Wide c = access.template load<Wide>(centre + k, 0.0);
      const auto product = [&](std::int64_t row, const Wide& sum) {
        const std::int64_t at = (r + row) * step + k;
        return fma(load_or<Wide>(access, x + at, 0.0) - c, load_or<Wide>(access, y + at, 0.0), sum);
      };
      Wide all = product(0, access.template load<Wide>(acc + k, 0.0));
      if (count == 4) all = product(1, all) + product(2, product(3, Wide(0.0)));
      access.store(all, acc + k);
    });
  }
}

template <class T>
void products(double* acc, const T* x, const T* y, const double* centre, std::int64_t kept, std::int64_t ks,
              std::int64_t reduced, std::int64_t rs) {
  if (rs != 1) return product_columns(acc, x, y, centre, kept, reduced, rs);
  for (std::int64_t k = 0; k < kept; ++k) {
    const Wide c(centre[k]);
    Accumulators<double, 4> all(0.0);
    accumulate<double, 4>(reduced, [&](std::int64_t i, auto access, int j) {
      const Wide v = load_or<Wide>(access, x + k * ks + i, centre[k]);
      all[j] = fma(v - c, load_or<Wide>(access, y + k * ks + i, 0.0), all[j]);
    });
    acc[k] += all.sum();
  }
}

// Calls f(i, access, number) for the vectors of y at i; number(list) is that vector's from a list.
template <int lists_used, bool across, class T, class F>
void each_vector(const T* y, const T* lists, const NumberedRows& rows, bool nontemporal, const F& f) {
  using V = Vec<T>;
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const std::int64_t begin = r * rows.n;
    const T* const own = lists + (across ? begin : r) % rows.count;
    V of_row[lists_used];
    if constexpr (!across)
      for (int list = 0; list < lists_used; ++list) of_row[list] = V(own[list * rows.count]);
    for_each_vector_nontemporal<V>(nontemporal, y + begin, rows.n, [&](std::int64_t i, auto access) {
      f(begin + i, access, [&](int list) {
        if constexpr (across)
          return access.template load<V>(own + list * rows.count + i, T(0));
        else
          return of_row[list];
      });
    });
  }
  if (nontemporal) fence_nontemporal_stores();
}

template <int lists_used, class T, class F>
void each_vector(const T* y, const T* lists, const NumberedRows& rows, bool nontemporal, const F& f) {
  if (rows.across)
    each_vector<lists_used, true>(y, lists, rows, nontemporal, f);
  else
    each_vector<lists_used, false>(y, lists, rows, nontemporal, f);
}

template <class T>
void forward(T* y, const T* x, const T* lists, const NumberedRows& rows, bool nontemporal) {
  using V = Vec<T>;
  each_vector<4>(y, lists, rows, nontemporal, [&](std::int64_t i, auto access, const auto& number) {
    const V centred = (access.template load<V>(x + i, T(0)) - number(0)) - number(1);
    access.store(fma(centred, number(2), number(3)), y + i);
  });
}

template <class T>
void backward(T* dx, const T* x, const T* dy, const T* lists, const NumberedRows& rows, bool nontemporal) {
  using V = Vec<T>;
  each_vector<6>(dx, lists, rows, nontemporal, [&](std::int64_t i, auto access, const auto& number) {
    const V h = ((access.template load<V>(x + i, T(0)) - number(0)) - number(1)) * number(2);
    access.store(fms(number(3), access.template load<V>(dy + i, T(0)), fma(h, number(4), number(5))), dx + i);
  });
}

}  // namespace

template <class IsaTag, class T>
const ChannelNorm<T>& channel_norm_table() {
  static constexpr ChannelNorm<T> table{products<T>, forward<T>, backward<T>};
  return table;
}

template const ChannelNorm<float>& channel_norm_table<FIT_ISA, float>();
template const ChannelNorm<double>& channel_norm_table<FIT_ISA, double>();

}  // namespace fit::kernels
