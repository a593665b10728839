// All activations are [features][tokens]: a vector holds one feature of several tokens. So norms, the softmax and the
// loss need no sum within a vector, and no product needs a transposed operand.
#include "hand_written_gpt.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/simd/isa.hpp"

namespace fit::bench {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX2__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
constexpr int N = HandWrittenGPT::B * HandWrittenGPT::T, T = HandWrittenGPT::T;
constexpr int padded_vocab = 32;
constexpr int stride = N + 16;  // of a feature: rows of 1024 bytes would evict each other from the cache
constexpr int block_rows = lanes == 16 ? 8 : 4;  // times two vectors: what registers hold, and a part of x the L1 cache
using Vector = float __attribute__((vector_size(lanes * sizeof(float))));

template <int C>
using Features = float[C][stride];

Vector load(const float* p) {
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
void store(float* p, Vector v) { std::memcpy(p, &v, sizeof v); }

// y[m][n] (+)= sum_k a[m a_row + k a_column] x[k][n], for all tokens n.
template <int M, int K, bool add>
void product(const float* a, int a_row, int a_column, const float (*x)[stride], float (*y)[stride]) {
  constexpr int rows = block_rows, vectors = 2;
  static_assert(M % rows == 0);
  for (int n = 0; n < N; n += vectors * lanes)
    for (int m = 0; m < M; m += rows) {
      Vector sum[rows][vectors];
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sum[r][v] = add ? load(y[m + r] + n + v * lanes) : Vector{};
      for (int k = 0; k < K; ++k)
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
          const float factor = a[(m + r) * a_row + k * a_column];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) sum[r][v] += factor * load(x[k] + n + v * lanes);
        }
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) store(y[m + r] + n + v * lanes, sum[r][v]);
    }
}

// y = w x, w [M][K].
template <int M, int K>
void forward(const float (*w)[K], const Features<K>& x, Features<M>& y) {
  product<M, K, false>(w[0], K, 1, x, y);
}
// dw = dy x^T.
template <int M, int K>
void weight_gradient(const Features<M>& dy, const Features<K>& x, float (*dw)[K]) {
  constexpr int rows = block_rows, columns = 2;
  for (int m = 0; m < M; m += rows)
    for (int k = 0; k < K; k += columns) {
      Vector sum[rows][columns] = {};
      for (int n = 0; n < N; n += lanes)
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
          for (int c = 0; c < columns; ++c) sum[r][c] += load(dy[m + r] + n) * load(x[k + c] + n);
#pragma GCC unroll 8
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int c = 0; c < columns; ++c) {
          float total = 0;
          for (int l = 0; l < lanes; ++l) total += sum[r][c][l];
          dw[m + r][k + c] = total;
        }
    }
}
// dx = w^T dy, and dw.
template <int M, int K>
void backward(const float (*w)[K], const Features<K>& x, const Features<M>& dy, Features<K>& dx, float (*dw)[K]) {
  product<K, M, false>(w[0], 1, K, dy, dx);
  weight_gradient<M, K>(dy, x, dw);
}

template <int D>
void norm(const Features<D>& x, const float* weight, float* scale, Features<D>& y) {
  for (int n = 0; n < N; ++n) scale[n] = 0;
  for (int c = 0; c < D; ++c)
    for (int n = 0; n < N; ++n) scale[n] += x[c][n] * x[c][n];
  for (int n = 0; n < N; ++n) scale[n] = 1 / std::sqrt(scale[n] / D + 1e-6f);
  for (int c = 0; c < D; ++c)
    for (int n = 0; n < N; ++n) y[c][n] = x[c][n] * scale[n] * weight[c];
}
// dx += the gradient: with h = x scale, g = dy weight: scale (g - h mean(g h)).
template <int D>
void norm_backward(const Features<D>& x, const float* weight, const float* scale, const Features<D>& dy,
                   Features<D>& dx, float* dweight) {
  float mean[N] = {};
  for (int c = 0; c < D; ++c) {
    float total = 0;
    for (int n = 0; n < N; ++n) {
      const float product = dy[c][n] * x[c][n] * scale[n];
      total += product;
      mean[n] += product * weight[c];
    }
    dweight[c] = total;
  }
  for (int n = 0; n < N; ++n) mean[n] *= scale[n] / D;
  for (int c = 0; c < D; ++c)
    for (int n = 0; n < N; ++n) dx[c][n] += scale[n] * (dy[c][n] * weight[c] - x[c][n] * mean[n]);
}

using Integers = std::int32_t __attribute__((vector_size(lanes * sizeof(float))));
constexpr int parts = T / lanes;

// One number for each token of a sequence. (GCC computes with vectors wider than the machine's one number at a time.)
struct Tokens {
  Vector part[parts];
};
// f(p) for each part, and f(a, b) of two.
template <class F>
Tokens each_part(const F& f) {
  Tokens y;
#pragma GCC unroll 4
  for (int p = 0; p < parts; ++p) y.part[p] = f(p);
  return y;
}
template <class F>
Tokens each_part(const F& f, const Tokens& a, const Tokens& b) {
  return each_part([&](int p) { return f(a.part[p], b.part[p]); });
}
Tokens all(float x) {
  return each_part([&](int) { return Vector{} + x; });
}
Tokens operator+(const Tokens& a, const Tokens& b) {
  return each_part([](Vector x, Vector y) { return x + y; }, a, b);
}
Tokens operator-(const Tokens& a, const Tokens& b) {
  return each_part([](Vector x, Vector y) { return x - y; }, a, b);
}
Tokens operator*(const Tokens& a, const Tokens& b) {
  return each_part([](Vector x, Vector y) { return x * y; }, a, b);
}
Tokens operator/(const Tokens& a, const Tokens& b) {
  return each_part([](Vector x, Vector y) { return x / y; }, a, b);
}
Tokens greater(const Tokens& a, const Tokens& b) {
  return each_part([](Vector x, Vector y) { return x > y ? x : y; }, a, b);
}

Tokens tokens_at(const float* p) {
  return each_part([&](int i) { return load(p + i * lanes); });
}
void put(float* p, const Tokens& v) {
#pragma GCC unroll 4
  for (int i = 0; i < parts; ++i) store(p + i * lanes, v.part[i]);
}

// e^x for x <= 0, as 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. Results that are nearly 0 are 0: their products
// would be subnormal numbers, which Intel's processors multiply a hundred times as slowly.
Vector exponential(Vector exact) {
  const Integers zero = exact < -80.0f;
  const Vector x = zero ? Vector{} : exact;
  const Integers n = __builtin_convertvector(x * 1.44269504f - 0.5f, Integers);
  const Vector m = __builtin_convertvector(n, Vector), r = (x - m * 0.693359375f) + m * 2.12194440e-4f;
  Vector p = Vector{} + 1.9875691500e-4f;
#pragma GCC unroll 8
  for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 0.5f, 1.0f, 1.0f})
    p = p * r + c;
  return zero ? Vector{} : p * reinterpret_cast<Vector>((n + 127) << 23);
}
Tokens exponential(const Tokens& x) {
  return each_part([&](int p) { return exponential(x.part[p]); });
}

// Exchanges blocks of `step` rows and columns: with 8, 4, 2 and 1 it transposes.
template <int step, std::size_t... l>
void exchange(Tokens (&x)[T], std::index_sequence<l...>) {
#pragma GCC unroll 16
  for (int i = 0; i < T; ++i) {
    if (i & step) continue;
    const Tokens a = x[i], b = x[i + step];
#pragma GCC unroll 4
    for (int p = 0; p < parts; ++p)
      if constexpr (step >= lanes) {
        constexpr int apart = step / lanes;
        x[i].part[p] = p & apart ? b.part[p - apart] : a.part[p];
        x[i + step].part[p] = p & apart ? b.part[p] : a.part[p + apart];
      } else {
        x[i].part[p] = __builtin_shufflevector(a.part[p], b.part[p], (l & step ? lanes + l - step : l)...);
        x[i + step].part[p] = __builtin_shufflevector(a.part[p], b.part[p], (l & step ? lanes + l : l + step)...);
      }
  }
}
void transpose(Tokens (&x)[T]) {
  constexpr std::make_index_sequence<lanes> of_part;
  exchange<8>(x, of_part), exchange<4>(x, of_part), exchange<2>(x, of_part), exchange<1>(x, of_part);
}

// sum_c a[c][at + j] b[c], b [C]
template <int C>
Tokens combined(const float (*a)[stride], int column, const Tokens* b) {
  Tokens sum{};
#pragma GCC unroll 16
  for (int c = 0; c < C; ++c) sum = sum + all(a[c][column]) * b[c];
  return sum;
}
// y[c] = sum_j a[c][at + j] b[j]
template <int C>
void contexts(const float (*a)[stride], int at, const Tokens (&b)[T], float (*y)[stride]) {
  for (int c = 0; c < C; ++c) {
    Tokens even{}, odd{};
#pragma GCC unroll 8
    for (int j = 0; j < T; j += 2) {
      even = even + all(a[c][at + j]) * b[j];
      odd = odd + all(a[c][at + j + 1]) * b[j + 1];
    }
    put(y[c] + at, even + odd);
  }
}

template <int D>
class Model final : public HandWrittenGPT {
  static constexpr int F = 4 * D, S = D / heads;
  struct Weights {
    float wte[vocab][D], wpe[T][D], ln_1[D], qkv[3 * D][D], proj[D][D], ln_2[D], fc[F][D], out[D][F], ln_f[D],
        head[padded_vocab][D];  // the last rows are 0
  };
  static constexpr int count = sizeof(Weights) / sizeof(float);
  struct Activations {
    Features<D> x, normed_1, attended, mid, normed_2, last, normed_f, gradient, inner;
    Features<3 * D> qkv, qkv_gradient;
    Features<F> fc, hidden, hidden_gradient;
    Features<padded_vocab> logits;
    float scale_1[N], scale_2[N], scale_f[N];
    float p[B * heads][T][T];  // of each head: the weight of key j for query i, at [j][i]
  };

  static std::vector<Array> arrays(Weights& w) {
    return {{w.wte[0], vocab * D}, {w.wpe[0], T * D}, {w.ln_1, D},       {w.qkv[0], 3 * D * D}, {w.proj[0], D * D},
            {w.ln_2, D},           {w.fc[0], F * D},  {w.out[0], D * F}, {w.ln_f, D},           {w.head[0], vocab * D}};
  }
  std::vector<Array> parameters() override { return arrays(w_); }
  std::vector<Array> gradients() override { return arrays(g_); }

  void embed(const std::int64_t* ids) {
    for (int n = 0; n < N; ++n)
      for (int c = 0; c < D; ++c) a_.x[c][n] = w_.wte[ids[n]][c] + w_.wpe[n % T][c];
  }
  void embed_backward(const std::int64_t* ids) {
    std::memset(g_.wte, 0, sizeof g_.wte);
    std::memset(g_.wpe, 0, sizeof g_.wpe);
    for (int n = 0; n < N; ++n) {
      float row[D];
      for (int c = 0; c < D; ++c) row[c] = a_.gradient[c][n];
      for (int c = 0; c < D; ++c) g_.wte[ids[n]][c] += row[c];
      for (int c = 0; c < D; ++c) g_.wpe[n % T][c] += row[c];
    }
  }

  void attention() {
    const float scale = 1 / std::sqrt(static_cast<float>(S));
    Integers lane;
    for (int i = 0; i < lanes; ++i) lane[i] = i;
    for (int head = 0; head < B * heads; ++head) {
      const int at = head / heads * T, h = head % heads;
      const float(*q)[stride] = a_.qkv + h * S, (*k)[stride] = q + D, (*v)[stride] = k + D;
      Tokens queries[S], p[T], greatest, sum{};
      for (int c = 0; c < S; ++c) queries[c] = all(scale) * tokens_at(q[c] + at);
#pragma GCC unroll 16
      for (int j = 0; j < T; ++j) {
        const Tokens s = combined<S>(k, at + j, queries);
        p[j] = each_part([&](int i) { return lane + i * lanes >= j ? s.part[i] : Vector{} - 1e30f; });
        greatest = j == 0 ? p[j] : greater(p[j], greatest);
      }
#pragma GCC unroll 16
      for (int j = 0; j < T; ++j) sum = sum + (p[j] = exponential(p[j] - greatest));
      const Tokens factor = all(1) / sum;
#pragma GCC unroll 16
      for (int j = 0; j < T; ++j) put(a_.p[head][j], p[j] = p[j] * factor);
      contexts<S>(v, at, p, a_.attended + h * S);
    }
  }
  // a_.inner holds the gradient of a_.attended.
  void attention_backward() {
    const float scale = 1 / std::sqrt(static_cast<float>(S));
    for (int head = 0; head < B * heads; ++head) {
      const int at = head / heads * T, h = head % heads;
      const float(*q)[stride] = a_.qkv + h * S, (*k)[stride] = q + D, (*v)[stride] = k + D,
            (*dy)[stride] = a_.inner + h * S;
      float(*dq)[stride] = a_.qkv_gradient + h * S, (*dk)[stride] = dq + D, (*dv)[stride] = dk + D;
      Tokens gradients[S], p[T], ds[T], mean{};
      for (int c = 0; c < S; ++c) gradients[c] = tokens_at(dy[c] + at);
#pragma GCC unroll 16
      for (int j = 0; j < T; ++j) {
        p[j] = tokens_at(a_.p[head][j]);
        ds[j] = combined<S>(v, at + j, gradients);
        mean = mean + ds[j] * p[j];
      }
#pragma GCC unroll 16
      for (int j = 0; j < T; ++j) ds[j] = all(scale) * p[j] * (ds[j] - mean);
      contexts<S>(k, at, ds, dq);
      transpose(p);
      contexts<S>(dy, at, p, dv);
      transpose(ds);
      contexts<S>(q, at, ds, dk);
    }
  }

  // The mean cross entropy; the logits become their gradients.
  float loss(const std::int64_t* targets) {
    float greatest[N], sum[N] = {}, total = 0;
    for (int n = 0; n < N; ++n) greatest[n] = a_.logits[0][n];
    for (int c = 1; c < vocab; ++c)
      for (int n = 0; n < N; ++n) greatest[n] = std::max(greatest[n], a_.logits[c][n]);
    for (int n = 0; n < N; ++n) total += greatest[n] - a_.logits[targets[n]][n];
    for (int c = 0; c < vocab; ++c)
      for (int n = 0; n < N; n += T) {
        const Tokens e = exponential(tokens_at(a_.logits[c] + n) - tokens_at(greatest + n));
        put(a_.logits[c] + n, e);
        put(sum + n, tokens_at(sum + n) + e);
      }
    for (int n = 0; n < N; ++n) total += std::log(sum[n]);
    for (int n = 0; n < N; ++n) sum[n] = 1 / (sum[n] * N);
    for (int c = 0; c < vocab; ++c)
      for (int n = 0; n < N; ++n) a_.logits[c][n] *= sum[n];
    for (int n = 0; n < N; ++n) a_.logits[targets[n]][n] -= 1.0f / N;
    return total / N;
  }

  template <int C>
  static void add(const Features<C>& x, Features<C>& y) {
    for (int c = 0; c < C; ++c)
      for (int n = 0; n < N; ++n) y[c][n] += x[c][n];
  }

  void run_forward(const std::int64_t* ids) {
    embed(ids);
    norm<D>(a_.x, w_.ln_1, a_.scale_1, a_.normed_1);
    forward<3 * D, D>(w_.qkv, a_.normed_1, a_.qkv);
    attention();
    std::memcpy(a_.mid, a_.x, sizeof a_.mid);
    product<D, D, true>(w_.proj[0], D, 1, a_.attended, a_.mid);
    norm<D>(a_.mid, w_.ln_2, a_.scale_2, a_.normed_2);
    forward<F, D>(w_.fc, a_.normed_2, a_.fc);
    for (int c = 0; c < F; ++c)
      for (int n = 0; n < N; ++n) {
        a_.fc[c][n] = std::max(a_.fc[c][n], 0.0f);
        a_.hidden[c][n] = a_.fc[c][n] * a_.fc[c][n];
      }
    std::memcpy(a_.last, a_.mid, sizeof a_.last);
    product<D, F, true>(w_.out[0], F, 1, a_.hidden, a_.last);
    norm<D>(a_.last, w_.ln_f, a_.scale_f, a_.normed_f);
    forward<padded_vocab, D>(w_.head, a_.normed_f, a_.logits);
  }

  void run_backward(const std::int64_t* ids) {
    backward<padded_vocab, D>(w_.head, a_.normed_f, a_.logits, a_.inner, g_.head);
    std::memset(a_.gradient, 0, sizeof a_.gradient);
    norm_backward<D>(a_.last, w_.ln_f, a_.scale_f, a_.inner, a_.gradient, g_.ln_f);
    backward<D, F>(w_.out, a_.hidden, a_.gradient, a_.hidden_gradient, g_.out);
    for (int c = 0; c < F; ++c)
      for (int n = 0; n < N; ++n) a_.hidden_gradient[c][n] *= 2 * a_.fc[c][n];
    backward<F, D>(w_.fc, a_.normed_2, a_.hidden_gradient, a_.inner, g_.fc);
    norm_backward<D>(a_.mid, w_.ln_2, a_.scale_2, a_.inner, a_.gradient, g_.ln_2);
    backward<D, D>(w_.proj, a_.attended, a_.gradient, a_.inner, g_.proj);
    attention_backward();
    backward<3 * D, D>(w_.qkv, a_.normed_1, a_.qkv_gradient, a_.inner, g_.qkv);
    norm_backward<D>(a_.x, w_.ln_1, a_.scale_1, a_.inner, a_.gradient, g_.ln_1);
    embed_backward(ids);
  }

  void adam() {
    ++steps_;
    const auto t = static_cast<double>(steps_);
    const auto rate = static_cast<float>(1e-3 / (1 - std::pow(0.9, t))),
               correction = static_cast<float>(1 / std::sqrt(1 - std::pow(0.999, t)));
    float *const w = w_.wte[0], *const g = g_.wte[0], *const first = m_.wte[0], *const second = v_.wte[0];
    for (int i = 0; i < count; ++i) {
      first[i] += 0.1f * (g[i] - first[i]);
      second[i] += 0.001f * (g[i] * g[i] - second[i]);
      w[i] -= rate * first[i] / (std::sqrt(second[i]) * correction + 1e-8f);
    }
  }

  float step(const std::int64_t* ids, const std::int64_t* targets) override {
    run_forward(ids);
    const float result = loss(targets);
    run_backward(ids);
    adam();
    return result;
  }

  alignas(64) Weights w_{};
  alignas(64) Weights g_{};
  alignas(64) Weights m_{};
  alignas(64) Weights v_{};
  alignas(64) Activations a_{};
  std::int64_t steps_ = 0;
};

std::unique_ptr<HandWrittenGPT> make(std::int64_t d) {
  if (d == 16) return std::make_unique<Model<16>>();
  if (d == 32) return std::make_unique<Model<32>>();
  return std::make_unique<Model<64>>();
}

}  // namespace

template <>
MakeHandWrittenGPT hand_written_gpt_of<kernels::FIT_ISA, HandWrittenGPT>() {
  return make;
}

}  // namespace fit::bench
