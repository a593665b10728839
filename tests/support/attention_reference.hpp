#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "fit/ops.hpp"

// Attention and its gradients by plain loops in double, from the definition: the sums run over visible pairs alone.
namespace fit::test {

struct AttentionSizes {
  std::int64_t B, H, Sq, Sk, D, Dv;
  friend std::ostream& operator<<(std::ostream& out, const AttentionSizes& s) {
    return out << "B " << s.B << " H " << s.H << " Sq " << s.Sq << " Sk " << s.Sk << " D " << s.D << " Dv " << s.Dv;
  }
};

/// A float64 array of four axes (or fewer, put right) which repeats along axes of size 1. Axis 1 of three is the
/// queries', and of four the heads'.
class Repeating {
 public:
  explicit Repeating(const Tensor& x) {
    if (!x.defined()) return;
    const Shape& s = x.shape();
    const std::vector<std::int64_t> four = s.rank() == 2   ? std::vector<std::int64_t>{1, 1, s[0], s[1]}
                                           : s.rank() == 3 ? std::vector<std::int64_t>{s[0], 1, s[1], s[2]}
                                                           : std::vector<std::int64_t>{s[0], s[1], s[2], s[3]};
    for (int a = 0; a < 4; ++a) size_[a] = four[a];
    const NoGrad plain;
    values_ = x.to(float64).to_vector<double>();
  }
  bool defined() const { return size_[0] >= 0; }
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t index[4] = {b, h, i, j};
    std::int64_t offset = 0;
    for (int a = 0; a < 4; ++a) offset = offset * size_[a] + (size_[a] == 1 ? 0 : index[a]);
    return offset;
  }
  double operator()(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return values_[static_cast<std::size_t>(at(b, h, i, j))];
  }
  void add(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, double v) {
    values_[static_cast<std::size_t>(at(b, h, i, j))] += v;
  }
  /// Zeros of the same shape.
  Repeating zeros() const {
    Repeating z(*this);
    z.values_.assign(values_.size(), 0.0);
    return z;
  }
  Tensor tensor(const Shape& shape) const { return fit::tensor(values_, shape); }

 private:
  std::int64_t size_[4] = {-1, -1, -1, -1};
  std::vector<double> values_;
};

struct AttentionReference {
  Tensor output, weights;    // float64
  Tensor dq, dk, dv, dbias;  // for the cotangents d_output and d_weights
};

/// q, k, v are (B, H, S, D); factor is what dropout multiplies each weight by, (B, H, Sq, Sk); mask and bias may be
/// undefined.
inline AttentionReference reference_attention(const AttentionSizes& n, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const Tensor& mask, const Tensor& bias, bool causal,
                                              double scale, const Tensor& factor, const Tensor& d_output,
                                              const Tensor& d_weights, std::int64_t window = 0) {
  const Repeating Q(q), K(k), V(v), M(mask), A(bias), F(factor), dO(d_output), dW(d_weights);
  Repeating O = dO.zeros(), W = dW.zeros(), dQ = Q.zeros(), dK = K.zeros(), dV = V.zeros(), dA = A.zeros();
  for (std::int64_t b = 0; b < n.B; ++b)
    for (std::int64_t h = 0; h < n.H; ++h)
      for (std::int64_t i = 0; i < n.Sq; ++i) {
        std::vector<std::int64_t> visible;
        for (std::int64_t j = 0; j < n.Sk; ++j)
          if ((!M.defined() || M(b, h, i, j) != 0) && (!causal || j <= i + n.Sk - n.Sq) &&
              (window == 0 || j > i + n.Sk - n.Sq - window))
            visible.push_back(j);
        std::vector<double> p;
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        for (const std::int64_t j : visible) {
          double s = 0;
          for (std::int64_t d = 0; d < n.D; ++d) s += Q(b, h, i, d) * K(b, h, j, d);
          p.push_back(s * scale + (A.defined() ? A(b, h, i, j) : 0));
          largest = std::fmax(largest, p.back());
        }
        for (double& e : p) total += e = std::exp(e - largest);
        for (double& e : p) e /= total;
        std::vector<double> dp;
        double mean = 0;
        for (std::size_t t = 0; t < visible.size(); ++t) {
          const std::int64_t j = visible[t];
          const double kept = p[t] * F(b, h, i, j);
          double back = 0;
          W.add(b, h, i, j, p[t]);
          for (std::int64_t d = 0; d < n.Dv; ++d) {
            O.add(b, h, i, d, kept * V(b, h, j, d));
            dV.add(b, h, j, d, kept * dO(b, h, i, d));
            back += dO(b, h, i, d) * V(b, h, j, d);
          }
          dp.push_back(back * F(b, h, i, j) + dW(b, h, i, j));
          mean += p[t] * dp.back();
        }
        for (std::size_t t = 0; t < visible.size(); ++t) {
          const std::int64_t j = visible[t];
          const double ds = p[t] * (dp[t] - mean);
          if (A.defined()) dA.add(b, h, i, j, ds);
          for (std::int64_t d = 0; d < n.D; ++d) {
            dQ.add(b, h, i, d, scale * ds * K(b, h, j, d));
            dK.add(b, h, j, d, scale * ds * Q(b, h, i, d));
          }
        }
      }
  return {O.tensor(d_output.shape()), W.tensor(d_weights.shape()), dQ.tensor(q.shape()),
          dK.tensor(k.shape()),       dV.tensor(v.shape()),        A.defined() ? dA.tensor(bias.shape()) : Tensor()};
}

}  // namespace fit::test
