#include "kernels/rows/eight_products.hpp"

#include <cmath>
#include <limits>

#include "kernels/simd/simd.hpp"
#include "kernels/simd/transpose.hpp"

namespace fit::kernels {
namespace {

using Wide = Vec<double>;
constexpr std::int64_t slices = 8, tile = 64;
constexpr int registers = slices / Wide::size;

// A number of each slice.
struct Eight {
  explicit Eight(double v) { FIT_UNROLL for (int r = 0; r < registers; ++r) at[r] = Wide(v); }
  explicit Eight(const double* p) {
    FIT_UNROLL for (int r = 0; r < registers; ++r) at[r] = load<Wide>(p + r * Wide::size);
  }
  void store(double* p) const {
    FIT_UNROLL for (int r = 0; r < registers; ++r) kernels::store(at[r], p + r * Wide::size);
  }
  Wide at[registers];
};

class Products {
 public:
  explicit Products(const Eight& start) : value_(start) {
    FIT_UNROLL for (int r = 0; r < registers; ++r) {
      zero_[r] = value_.at[r] == Wide(0.);
      lost_[r] = Wide::batch_bool_type(false);
    }
  }
  void times(const Eight& v) {
    FIT_UNROLL for (int r = 0; r < registers; ++r) {
      value_.at[r] = value_.at[r] * v.at[r];
      zero_[r] = zero_[r] | (v.at[r] == Wide(0.));
      lost_[r] = lost_[r] | ((xsimd::abs(value_.at[r]) < Wide(std::numeric_limits<double>::min())) & ~zero_[r]);
    }
  }
  void plus(const Eight& v) {
    FIT_UNROLL for (int r = 0; r < registers; ++r) {
      value_.at[r] = value_.at[r] + v.at[r];
      zero_[r] = value_.at[r] == Wide(0.);
    }
  }
  void store(double* p) const { value_.store(p); }
  void store_times(const double* before, double* p) const {
    FIT_UNROLL for (int r = 0; r < registers; ++r)
        kernels::store(load<Wide>(before + r * Wide::size) * value_.at[r], p + r * Wide::size);
  }
  // What is infinite or NaN stays so.
  unsigned lost() const {
    double value[slices];
    store(value);
    unsigned bits = 0;
    for (int l = 0; l < slices; ++l) bits |= static_cast<unsigned>(!std::isfinite(value[l])) << l;
    FIT_UNROLL for (int r = 0; r < registers; ++r) {
      bool lanes[Wide::size];
      lost_[r].store_unaligned(lanes);
      for (std::size_t l = 0; l < Wide::size; ++l) bits |= static_cast<unsigned>(lanes[l]) << (r * Wide::size + l);
    }
    return bits;
  }

 private:
  Eight value_;
  Wide::batch_bool_type zero_[registers], lost_[registers];  // whether a factor was 0; whether a product underflowed
};

// Some numbers of the slices, side by side, in double.
struct Tile {
  template <class T>
  void read(const T* x, const EightSlices& s, std::int64_t count) {
    T beside[tile * slices];
    if (s.step == 1)
      transpose(slices, count, x, s.apart, beside, slices);
    else
      for (std::int64_t i = 0; i < count; ++i)
        __builtin_memcpy(beside + i * slices, x + i * s.step, sizeof(T) * slices);
    for (std::int64_t i = 0; i < count * slices; ++i) at[i] = beside[i];
  }
  // y = the numbers / scale, a power of 2.
  template <class T>
  void write(T* y, const EightSlices& s, std::int64_t count, double scale = 1) {
    T beside[tile * slices];
    if (sizeof(T) == sizeof(float)) prepare_floats(count * slices, scale);
    for (std::int64_t i = 0; i < count * slices; ++i) beside[i] = static_cast<T>(at[i]);
    if (s.step == 1)
      transpose(count, slices, beside, slices, y, s.apart);
    else
      for (std::int64_t i = 0; i < count; ++i)
        __builtin_memcpy(y + i * s.step, beside + i * slices, sizeof(T) * slices);
  }
  // Scales. What rounds to a 0 of float becomes that: its conversion would be slow.
  void prepare_floats(std::int64_t n, double scale) {
    for (std::int64_t i = 0; i < n; i += Wide::size) {
      const Wide v = load<Wide>(at + i), kept = select(xsimd::abs(v) < Wide(0x1p-150 * scale), Wide(0.), v);
      kernels::store((kept | xsimd::bitofsign(v)) * Wide(1 / scale), at + i);
    }
  }
  double* operator[](std::int64_t i) { return at + i * slices; }

  alignas(64) double at[tile * slices];
};

// Calls f(first, count) for the tiles of n numbers, from the front or from the back.
template <class F>
void each_tile(std::int64_t n, const F& f) {
  for (std::int64_t i = 0; i < n; i += tile) f(i, n - i < tile ? n - i : tile);
}
template <class F>
void each_tile_back(std::int64_t n, const F& f) {
  for (std::int64_t i = (n - 1) / tile * tile; i >= 0; i -= tile) f(i, n - i < tile ? n - i : tile);
}

template <class T>
unsigned running(T* y, const T* x, const EightSlices& s) {
  Products products{Eight(1.)};
  Tile t;
  each_tile(s.n, [&](std::int64_t first, std::int64_t count) {
    t.read(x + first * s.step, s, count);
    for (std::int64_t i = 0; i < count; ++i) {
      products.times(Eight(t[i]));
      products.store(t[i]);
    }
    t.write(y + first * s.step, s, count);
  });
  return products.lost();
}

// before[i] = x[0] … x[i - 1]
template <class T>
unsigned products_before(double* before, const T* x, const EightSlices& s) {
  Products products{Eight(1.)};
  Tile t;
  each_tile(s.n, [&](std::int64_t first, std::int64_t count) {
    t.read(x + first * s.step, s, count);
    for (std::int64_t i = 0; i < count; ++i) {
      products.store(before + (first + i) * slices);
      products.times(Eight(t[i]));
    }
  });
  return products.lost();
}

template <class T>
unsigned running_gradient(T* dx, const T* x, const T* dy, const EightSlices& s, double* before) {
  const unsigned lost = products_before(before, x, s);
  Products g{Eight(0.)};
  Tile in, seed;
  each_tile_back(s.n, [&](std::int64_t first, std::int64_t count) {
    in.read(x + first * s.step, s, count);
    seed.read(dy + first * s.step, s, count);
    for (std::int64_t i = count - 1; i >= 0; --i) {
      g.plus(Eight(seed[i]));
      g.store_times(before + (first + i) * slices, seed[i]);
      g.times(Eight(in[i]));
    }
    seed.write(dx + first * s.step, s, count);
  });
  return lost | g.lost();
}

template <class T>
unsigned others(T* dx, const T* x, const T* dy, const EightSlices& s, double* before) {
  const unsigned lost = products_before(before, x, s);
  // Keeps products that round to a 0 of float above the denormal numbers of double, which are slow.
  constexpr double scale = sizeof(T) == sizeof(float) ? 0x1p300 : 1;
  double seeds[slices];
  for (int l = 0; l < slices; ++l) seeds[l] = dy[l] * scale;
  Products right{Eight(seeds)};
  Tile t;
  each_tile_back(s.n, [&](std::int64_t first, std::int64_t count) {
    t.read(x + first * s.step, s, count);
    for (std::int64_t i = count - 1; i >= 0; --i) {
      const Eight v(t[i]);
      right.store_times(before + (first + i) * slices, t[i]);
      right.times(v);
    }
    t.write(dx + first * s.step, s, count, scale);
  });
  return lost | right.lost();
}

}  // namespace

template <class IsaTag, class T>
const ProductKernels<T>& product_table() {
  static constexpr ProductKernels<T> table{running<T>, running_gradient<T>, others<T>};
  return table;
}

template const ProductKernels<float>& product_table<FIT_ISA, float>();
template const ProductKernels<double>& product_table<FIT_ISA, double>();

}  // namespace fit::kernels
