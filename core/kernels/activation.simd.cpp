#include "kernels/activation.hpp"

#include <limits>

#include "kernels/simd/math.hpp"
#include "kernels/simd/transform.hpp"

namespace fit::kernels {
namespace {

using math::clamp;
using xsimd::select;

// forward: y = f(x). backward: dx = dy f', from x or y as its second argument is named. Where a product would be
// infinity times zero far out, x is cut off where the other factor has become 0 or 1.

struct Abs {
  template <class V>
  static V forward(const V& x, const V&) {
    return xsimd::abs(x);
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V&) {
    return select(x > V(0), dy, select(x < V(0), -dy, V(0)));
  }
};

struct Tanh {
  template <class V>
  static V forward(const V& x, const V&) {
    return xsimd::tanh(x);
  }
  template <class V>
  static V backward(const V& dy, const V& y, const V&) {
    return dy * (V(1) - y * y);
  }
};

struct Sigmoid {
  template <class V>
  static V forward(const V& x, const V&) {
    return math::sigmoid(x);
  }
  template <class V>
  static V backward(const V& dy, const V& y, const V&) {
    return dy * (y * (V(1) - y));
  }
};

struct Relu {
  template <class V>
  static V forward(const V& x, const V&) {
    return select(x <= V(0), V(0), x);
  }
  template <class V>
  static V backward(const V& dy, const V& y, const V&) {
    return select(y <= V(0), V(0), dy);
  }
};

struct LeakyRelu {
  template <class V>
  static V forward(const V& x, const V& slope) {
    return select(x > V(0), x, slope * x);
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V& slope) {
    return select(x > V(0), dy, slope * dy);
  }
};

struct Elu {
  template <class V>
  static V forward(const V& x, const V& alpha) {
    return select(x <= V(0), alpha * xsimd::expm1(x), x);
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V& alpha) {
    return select(x <= V(0), dy * (alpha * math::exp(x)), dy);
  }
};

constexpr double sqrt_2pi = 2.50662827463100050242, sqrt_2_over_pi = 0.79788456080286535588;
constexpr float infinity = std::numeric_limits<float>::infinity();

struct Gelu {
  template <class V>
  static V forward(const V& x, const V&) {
    return clamp(x, -40, infinity) * math::normal(x).cdf;
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V&) {
    // Phi(x) + x phi(x), with the density phi
    const V c = clamp(x, -40, 40);
    const auto normal = math::normal(c);
    return dy * (normal.cdf + c * V(1 / sqrt_2pi) * normal.power);
  }
};

// (1 + tanh u) / 2 = sigmoid(2 u), which stays exact far below 0.
struct GeluTanh {
  template <class V>
  static V forward(const V& x, const V&) {
    const V c = clamp(x, -40, infinity);
    return c * math::sigmoid(V(2 * sqrt_2_over_pi) * (c + V(0.044715) * c * c * c));
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V&) {
    // s + x s (1 - s) 2 u'
    const V c = clamp(x, -40, 40), square = V(0.044715) * c * c;
    const V s = math::sigmoid(V(2 * sqrt_2_over_pi) * c * (V(1) + square));
    return dy * (s + c * s * (V(1) - s) * V(2 * sqrt_2_over_pi) * (V(1) + V(3) * square));
  }
};

struct Silu {
  template <class V>
  static V forward(const V& x, const V&) {
    return clamp(x, -1000, infinity) * math::sigmoid(x);
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V&) {
    const V c = clamp(x, -1000, 1000), s = math::sigmoid(c);
    return dy * (s * (V(1) + c * (V(1) - s)));
  }
};

struct Softplus {
  template <class V>
  static V forward(const V& x, const V&) {
    return clamp(x, 0, infinity) + xsimd::log1p(math::exp(-xsimd::abs(x)));
  }
  template <class V>
  static V backward(const V& dy, const V& x, const V&) {
    return dy * math::sigmoid(x);
  }
};

template <class Op, class T>
void forward(T* y, const T* x, std::int64_t n, T p) {
  using V = Vec<T>;
  map(
      y, n, [p = V(p)](const V& a) { return Op::forward(a, p); }, x);
}

template <class Op, class T>
void backward(T* dx, const T* dy, const T* v, std::int64_t n, T p) {
  using V = Vec<T>;
  map(
      dx, n, [p = V(p)](const V& g, const V& a) { return Op::backward(g, a, p); }, dy, v);
}

}  // namespace

template <class IsaTag, class T>
const ActivationKernels<T>* activation_table() {
#define X(name, Op) {forward<Op, T>, backward<Op, T>},
  static constexpr ActivationKernels<T> table[] = {FIT_ACTIVATIONS(X)};
#undef X
  return table;
}

template const ActivationKernels<float>* activation_table<FIT_ISA, float>();
template const ActivationKernels<double>* activation_table<FIT_ISA, double>();

}  // namespace fit::kernels
