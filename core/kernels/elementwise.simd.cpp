#include "kernels/elementwise.hpp"

#include "kernels/simd.hpp"

namespace fit::kernels {
namespace {

struct Add {
  template <class V>
  static V f(const V& x, const V& y) {
    return x + y;
  }
};
struct Sub {
  template <class V>
  static V f(const V& x, const V& y) {
    return x - y;
  }
};
struct Mul {
  template <class V>
  static V f(const V& x, const V& y) {
    return x * y;
  }
};
struct Div {
  template <class V>
  static V f(const V& x, const V& y) {
    return x / y;
  }
};

struct Neg {
  template <class V>
  static V f(const V& x) {
    return -x;
  }
};

template <class Op, class T>
void unary(T* y, const T* x, std::int64_t n) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  const std::int64_t whole = n / W * W, rest = n - whole;
  for (std::int64_t i = 0; i < whole; i += W) Op::f(load<V>(x + i)).store_unaligned(y + i);
  if (rest) store_part(Op::f(load_part<V>(x + whole, rest)), y + whole, rest);
}

template <class Op, class T>
void binary(T* z, const T* x, const T* y, std::int64_t n, int sx, int sy) {
  using V = Vec<T>;
  constexpr std::int64_t W = V::size;
  const std::int64_t whole = n / W * W, rest = n - whole;
  const auto run = [&](auto get_x, auto get_y) {
    for (std::int64_t i = 0; i < whole; i += W) Op::f(get_x(i, W), get_y(i, W)).store_unaligned(z + i);
    if (rest) store_part(Op::f(get_x(whole, rest), get_y(whole, rest)), z + whole, rest);
  };
  const auto each = [](const T* p) {
    return [p](std::int64_t i, std::int64_t count) { return count == W ? load<V>(p + i) : load_part<V>(p + i, count); };
  };
  const auto same = [](const T* p) { return [v = V(*p)](std::int64_t, std::int64_t) { return v; }; };
  if (sx && sy)
    run(each(x), each(y));
  else if (sx)
    run(each(x), same(y));
  else if (sy)
    run(same(x), each(y));
  else
    run(same(x), same(y));
}

}  // namespace

template <class IsaTag, class T>
const Elementwise<T>& elementwise_table() {
  static constexpr Elementwise<T> table{binary<Add, T>, binary<Sub, T>, binary<Mul, T>, binary<Div, T>, unary<Neg, T>};
  return table;
}

template const Elementwise<float>& elementwise_table<FIT_ISA, float>();
template const Elementwise<double>& elementwise_table<FIT_ISA, double>();

}  // namespace fit::kernels
