#include "fit/tensor/random.hpp"

#include <algorithm>
#include <type_traits>

#include "base/acc_type.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/random.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

constexpr std::int64_t grain = 1 << 13;  // minimum of numbers for a thread; a multiple of the kernels' group

struct Uniform {
  template <class T>
  static auto kernel() {
    return kernels::random<T>().uniform;
  }
};
struct Normal {
  template <class T>
  static auto kernel() {
    return kernels::random<T>().normal;
  }
};

/// Fills y with random numbers under the next key of g. Calls done(p, n) for each piece after its kernel.
template <class Kind, class Done>
void fill(Tensor& y, Generator& g, const Done& done) {
  const detail::RandomKey key = g.next();
  dispatch_compute_floating(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = Kind::template kernel<T>();
    T* const p = y.fresh<T>();
    parallel_for(y.numel(), grain, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; i += grain) {
        const std::int64_t n = std::min(grain, end - i);
        kernel(p + i, key, i, n);
        done(p + i, n);
      }
    });
  });
}

template <class Kind>
Tensor filled(const char* op, const Shape& shape, DType dtype, Generator& g) {
  if (!is_floating(dtype)) check::fail(op, "dtype is ", dtype, ": it must be ", check::floating_types);
  if (is_narrow(dtype)) {
    const Tensor y = filled<Kind>(op, shape, acc_dtype(dtype), g);
    const bool below_1 = std::is_same_v<Kind, Uniform>;  // also after rounding
    return (below_1 ? minimum(y, full({}, 0x1.FEp-1)) : y).to(dtype);
  }
  Tensor y = Tensor::empty(shape, dtype);
  fill<Kind>(y, g, [](auto*, std::int64_t) {});
  return y;
}

/// Overwrites x with factor * number + shift.
template <class Kind>
void refill(const char* op, Tensor& x, double factor, double shift, Generator& g) {
  check::floating(op, "the tensor", x);
  if (is_narrow(x.dtype())) {
    Tensor wide = Tensor::empty(x.shape(), acc_dtype(x.dtype()));
    refill<Kind>(op, wide, factor, shift, g);
    x.copy_(wide);
    return;
  }
  x.before_write(op);
  fill<Kind>(x, g, [&](auto* p, std::int64_t n) {
    using T = std::remove_pointer_t<decltype(p)>;
    const T f = static_cast<T>(factor), s = static_cast<T>(shift);
    kernels::elementwise<T>().mul(p, p, &f, n, 1, 0);
    kernels::elementwise<T>().add(p, p, &s, n, 1, 0);
  });
}

/// Calls body(i, word) for i < n, with 32 random bits for each i, under the next key of g.
template <class Body>
void each_word(std::int64_t n, Generator& g, const Body& body) {
  const detail::RandomKey key = g.next();
  const auto words = kernels::random<float>().words;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t word[256];
    for (std::int64_t at = begin; at < end; at += 256) {
      const std::int64_t count = std::min<std::int64_t>(256, end - at);
      words(word, key, at, count);
      for (std::int64_t i = 0; i < count; ++i) body(at + i, word[i]);
    }
  });
}

__extension__ using Wide = unsigned __int128;

/// A number below `range` from 64 random bits: the high half of the product (Lemire 2019). The bias is <= range / 2^64.
std::uint64_t below(std::uint64_t range, std::uint64_t bits) {
  return static_cast<std::uint64_t>(static_cast<Wide>(range) * bits >> 64);
}

/// 64 random bits for each i < n.
std::vector<std::uint64_t> long_words(std::int64_t n, Generator& g) {
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(n));
  const detail::RandomKey key = g.next();
  parallel_for(n, grain, [&](std::int64_t i, std::int64_t end) {
    kernels::random<float>().words(reinterpret_cast<std::uint32_t*>(&bits[i]), key, 2 * i, 2 * (end - i));
  });
  return bits;
}

}  // namespace

Generator& default_generator() {
  static Generator g;
  return g;
}

void manual_seed(std::uint64_t seed) { default_generator().set_state(seed, 0); }

Tensor rand(const Shape& shape, DType dtype, Generator& g) { return filled<Uniform>("rand", shape, dtype, g); }

Tensor randn(const Shape& shape, DType dtype, Generator& g) { return filled<Normal>("randn", shape, dtype, g); }

Tensor rand(const Shape& shape, Generator& g) { return rand(shape, float32, g); }

Tensor randn(const Shape& shape, Generator& g) { return randn(shape, float32, g); }

Tensor rand_like(const Tensor& x, Generator& g) {
  check::floating("rand_like", "x", x);
  return rand(x.shape(), x.dtype(), g);
}

Tensor randn_like(const Tensor& x, Generator& g) {
  check::floating("randn_like", "x", x);
  return randn(x.shape(), x.dtype(), g);
}

void detail::fill_uniform(const char* op, Tensor& x, double low, double high, Generator& g) {
  const double most = x.dtype() == float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  if (!(high - low <= most))
    check::fail(op, "low is ", low, ", high ", high, ": their difference must be finite in ", x.dtype());
  refill<Uniform>(op, x, high - low, low, g);
  if (low >= high) return;
  dispatch_floating(x.dtype(), [&](auto zero) {  // what rounding made high becomes low
    using T = decltype(zero);
    T* const p = x.fresh<T>();
    parallel_for(x.numel(), grain, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i)
        if (static_cast<AccT<T>>(p[i]) >= high) p[i] = T(static_cast<AccT<T>>(low));
    });
  });
}

void detail::fill_normal(const char* op, Tensor& x, double mean, double std, Generator& g) {
  refill<Normal>(op, x, std, mean, g);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Generator& g) {
  if (low >= high) check::fail("randint", "low is ", low, ", high is ", high, ": low must be less than high");
  Tensor y = Tensor::empty(shape, DType::int64);
  std::int64_t* const p = y.fresh<std::int64_t>();
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const auto bits = long_words(y.numel(), g);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    p[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(range, bits[i]));
  return y;
}

Tensor bernoulli(double p, const Shape& shape, Generator& g) {
  if (!(p >= 0 && p <= 1)) check::fail("bernoulli", "p is ", p, ": it must be in 0 … 1");
  Tensor y = Tensor::empty(shape, DType::boolean);
  bool* const out = y.fresh<bool>();
  const std::uint32_t limit = kernels::Dropout(p).limit;
  each_word(y.numel(), g, [&](std::int64_t i, std::uint32_t word) { out[i] = p > 0 && word <= limit; });
  return y;
}

Tensor bernoulli(const Tensor& p, Generator& g) {
  check::floating("bernoulli", "p", p);
  const NoGrad no_grad;
  if (!all(p >= 0 && p <= 1).item<bool>())
    check::fail("bernoulli", "p ", p.shape(), " has numbers outside 0 … 1: they are probabilities");
  return (rand(p.shape(), p.dtype() == float64 ? float64 : float32, g) < p).to(p.dtype());
}

Tensor randperm(std::int64_t n, Generator& g) {
  check::not_negative("randperm", "n", n);
  Tensor y = Tensor::empty({n}, DType::int64);
  std::int64_t* const p = y.fresh<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) p[i] = i;
  const auto bits = long_words(n, g);
  for (std::int64_t i = n - 1; i > 0; --i) std::swap(p[i], p[below(static_cast<std::uint64_t>(i) + 1, bits[i])]);
  return y;
}

detail::Philox detail::philox(std::uint64_t seed, std::uint64_t call, std::uint64_t index) {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                        static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32)};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0], p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<std::uint32_t>(p1);
    c[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

}  // namespace fit
