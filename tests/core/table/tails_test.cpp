#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fit/attention/linear_attention.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/graph/graph.hpp"
#include "fit/graph/hooks.hpp"
#include "fit/ops/ops.hpp"
#include "fit/ops/recurrent.hpp"
#include "support/catch.hpp"
#include "support/oracles/exact_functions.hpp"
#include "support/tables/function_rows.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Values and derivatives where a result has rounded to a number without a slope: a saturated function, a softmax whose
// largest term is far above the others, a logarithm of a sum beside a large maximum.
namespace fit::test::tails_test {
namespace {

using L = long double;

}  // namespace

TEST_CASE("in bfloat16 a saturated function still has its slope", "[tails]") {
  std::vector<double> x;
  for (double k = -8; k < 6; k += 0.0625)
    for (const int sign : {1, -1}) x.push_back(static_cast<BFloat16>(sign * std::exp2(k)));
  for (const double v : {3.546875, 6.3125, -6.3125, 2.5}) x.push_back(v);
  const std::set<std::string> smooth = {"tanh",        "sigmoid", "exp", "expm1", "softplus",
                                        "log_sigmoid", "silu",    "erf", "gelu",  "gelu tanh"};
  each_isa([&] {
    for (const FunctionRow& row : function_rows())
      for (const exact::Function& truth : exact::transcendental()) {
        if (row.name != truth.name || smooth.count(truth.name) == 0) continue;
        const Tensor leaf = tensor(x, {static_cast<std::int64_t>(x.size())}).to(bfloat16).requires_grad_();
        sum(row.f(leaf)).backward();
        const std::vector<double> got = values(leaf.grad());
        const std::vector<L> at(x.begin(), x.end());
        std::vector<L> want(x.size());
        truth.wide[1](at.data(), want.data(), leaf.numel());
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (!(std::abs(got[i] - want[i]) <= std::abs(want[i]) * 0x1.02p-8 + 1e-36L))
            FAIL_CHECK(row.name << "' at " << x[i] << ": " << got[i] << " instead of " << want[i]);
        }
      }
  });
}

namespace {

// Exact gradients of a slice for cotangents dy, and the sums of the sizes of their terms.
struct ExactGradients {
  std::vector<double> dy;
  std::vector<L> soft, log_soft, soft_size, log_size;

  ExactGradients(const std::vector<double>& dy, const std::vector<L>& p)
      : dy(dy), soft(dy.size()), log_soft(dy.size()), soft_size(dy.size()), log_size(dy.size()) {
    for (std::size_t i = 0; i < dy.size(); ++i)
      for (std::size_t j = 0; j < dy.size(); ++j) {
        if (i == j) continue;
        const L s = p[i] * p[j] * (static_cast<L>(dy[i]) - dy[j]);  // y (dy - sum(y dy)), as sum(y) = 1
        const L l = p[j] * dy[i] - p[i] * dy[j];                    // dy - p sum(dy)
        soft[i] += s, soft_size[i] += std::abs(s);
        log_soft[i] += l, log_size[i] += p[j] * std::abs(dy[i]) + p[i] * std::abs(dy[j]);
      }
  }
};

// One slice in long double: the largest term's own part is kept apart.
struct Exact {
  std::vector<L> p, log_p, log_size;
  std::vector<ExactGradients> gradients;  // for dy = 1 at one element, and for mixed numbers

  explicit Exact(const std::vector<double>& x) {
    const std::size_t n = x.size(), k = static_cast<std::size_t>(std::max_element(x.begin(), x.end()) - x.begin());
    L rest = 0;
    for (std::size_t i = 0; i < n; ++i) rest += i == k ? 0 : std::exp(static_cast<L>(x[i]) - x[k]);
    for (const double v : x) {
      log_p.push_back(static_cast<L>(v) - x[k] - std::log1p(rest));
      log_size.push_back(std::abs(log_p.back()));
      p.push_back(std::exp(static_cast<L>(v) - x[k]) / (1 + rest));
    }
    std::vector<double> mixed(n);
    for (std::size_t i = 0; i < n; ++i) mixed[i] = static_cast<double>(i * 7 % 11) / 4 - 1;
    gradients.emplace_back(mixed, p);
    for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
      std::vector<double> one(n);
      one[at] = 1;
      gradients.emplace_back(one, p);
    }
  }
};

// Slices whose largest element is `gap` above the others.
std::vector<std::vector<double>> slices(double gap, bool tie) {
  std::vector<std::vector<double>> all;
  for (const std::size_t n : {2, 3, 7, 33, 300})
    for (const std::size_t top : {std::size_t{0}, n / 2, n - 1}) {
      std::vector<double> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<double>(i % 5) / 8 - 3;
      x[top] = gap - 3;
      if (tie) x[(top + 1) % n] = gap - 3;
      all.push_back(x);
    }
  return all;
}

struct Compared {
  const char* what;
  double units;
  template <class T>
  void operator()(const Tensor& got, const std::vector<L>& want, const std::vector<L>& size) const {
    const Tensor flat = got.detach().reshape({got.numel()});
    for (std::size_t i = 0; i < want.size(); ++i) {
      const L ours = flat.data<T>()[static_cast<std::int64_t>(i)];
      const L least = size[i] < 16 * std::numeric_limits<T>::min() ? 16 * std::numeric_limits<T>::min() : L(0);
      if (!(std::abs(ours - want[i]) <= units * std::numeric_limits<T>::epsilon() * size[i] + least))
        FAIL_CHECK(what << '[' << i << "] is " << ours << ", not " << want[i]);
    }
  }
};

// Values, gradients and their sums for one slice. `across` lays it out as a column beside another one.
template <class T>
void check_slice(const std::vector<double>& row, const Exact& exact, bool across) {
  const auto n = static_cast<std::int64_t>(row.size());
  const Tensor one = tensor(row, {n}).to(dtype_of<T>());
  const auto laid_out = [&](const Tensor& x) { return across ? stack({x, zeros_like(x)}, 1) : reshape(x, {1, n}); };
  const int axis = across ? 0 : 1;
  const auto mine = [&](const Tensor& y) { return across ? squeeze(slice(y, 1, 0, 1), 1) : reshape(y, {n}); };
  Tensor x = laid_out(one).requires_grad_();
  const double of_sum = static_cast<double>(n) / 4;  // slices side by side are summed in one chain
  Compared{"softmax", 12 + of_sum}.operator()<T>(mine(softmax(x, axis)), exact.p, exact.p);
  Compared{"log_softmax", 12 + of_sum}.operator()<T>(mine(log_softmax(x, axis)), exact.log_p, exact.log_size);
  for (const ExactGradients& g : exact.gradients) {
    const Tensor seed = laid_out(tensor(g.dy, {n}).to(dtype_of<T>()));
    Compared{"softmax's gradient", 24 + of_sum}.operator()<T>(mine(grad({softmax(x, axis)}, {x}, {seed})[0]), g.soft,
                                                              g.soft_size);
    Compared{"log_softmax's gradient", 24 + of_sum}.operator()<T>(mine(grad({log_softmax(x, axis)}, {x}, {seed})[0]),
                                                                  g.log_soft, g.log_size);
  }
}

}  // namespace

TEST_CASE("softmax and log_softmax keep the small terms beside a large one", "[tails]") {
  for (const double gap : {0., 1., 5., 16., 17., 20., 37., 38., 40., 60., 80.})
    for (const bool tie : {false, true})
      for (const auto& row : slices(gap, tie)) {
        const Exact exact(row);
        each_isa([&] {
          for (const bool across : {false, true}) {
            INFO("gap " << gap << ", " << row.size() << " elements, tie " << tie << ", across " << across);
            check_slice<float>(row, exact, across);
            check_slice<double>(row, exact, across);
          }
        });
      }
}

TEST_CASE("an infinite gradient of a softmax's largest element stays with its own terms", "[tails]") {
  for (const int axis : {0, 1}) {
    const auto along = [&](const Tensor& x) { return axis == 1 ? x : transpose(x); };
    const Tensor x = along(tensor({{5., 0., 1.}}, float64)).requires_grad_();
    for (const auto& f : {+[](const Tensor&x, int axis) { return softmax(x, axis); },
                          +[](const Tensor&x, int axis) { return log_softmax(x, axis); }}) {
      const std::vector<double> g = values(grad({f(x, axis)}, {x}, {along(tensor({{inf, 0., 1.}}, float64))})[0]);
      CHECK((g[1] == -inf && g[2] == -inf));
    }
  }
}

TEST_CASE("segment_softmax keeps the small terms of a segment", "[tails]") {
  const Tensor x = tensor({40., 3., 0., 3.}, float64).requires_grad_();
  const std::vector<double> got =
      values(grad({segment_softmax(x, tensor({0, 1, 0, 1}), 0)}, {x}, {tensor({1., 0., 0., 1.}, float64)})[0]);
  const double p = std::exp(-40.);
  for (const auto& [i, want] : {std::pair(0, p), std::pair(1, -0.25), std::pair(2, -p), std::pair(3, 0.25)})
    CHECK(got[static_cast<std::size_t>(i)] == Approx(want).epsilon(1e-14).margin(0));
}

TEST_CASE("cross entropy keeps a loss and gradients far below 1", "[tails]") {
  each_isa([] {
    for (const DType t : {float32, float64, bfloat16})
      for (const double gap : {17., 38., 40., 80.})
        for (const std::int64_t target : {0, 1}) {
          INFO(t << ", gap " << gap << ", target " << target);
          const double unit = t == float64 ? 1e-14 : t == float32 ? 2e-6 : 0x1p-8, small = std::exp(-gap);
          const Tensor x = tensor({{gap, 0.}}).to(t).requires_grad_();
          const Tensor loss = sum(cross_entropy_rows(x, tensor({target}), -1));
          CHECK(loss.item() == Approx(std::log1p(small) + (target == 0 ? 0 : gap)).epsilon(unit).margin(0));
          const double p = small / (1 + small), of_first = target == 0 ? -p : 1 / (1 + small);
          const auto near = [&](const Tensor& g, const std::vector<double>& want) {
            for (std::size_t i = 0; i < 2; ++i) CHECK(values(g)[i] == Approx(want[i]).epsilon(unit).margin(0));
          };
          const Tensor first = grad({loss}, {x}, {}, create_graph)[0];
          near(first, {of_first, -of_first});
          const double slope = p / (1 + small);  // of the softmax
          near(grad({first}, {x}, {tensor({{1., 0.}}).to(t)}, retain_graph)[0], {slope, -slope});
          near(grad({first}, {x}, {tensor({{0., 1.}}).to(t)})[0], {-slope, slope});
          loss.backward();  // fused
          near(x.grad(), {of_first, -of_first});
        }
    const Tensor x = tensor({{40., 0.}}, float64).requires_grad_();
    sum(cross_entropy_rows(x, tensor({0}), -1)).backward();
    CHECK(values(x.grad())[0] + values(x.grad())[1] == 0);
  });
}

TEST_CASE("second derivatives of softmax and log_softmax keep the small terms", "[tails]") {
  for (const double gap : {5., 17., 40.}) {
    const L e = std::exp(-static_cast<L>(gap)), p = e / (1 + e), q = 1 / (1 + e);
    const Tensor x = tensor({gap, 0.}, float64).requires_grad_();
    // y0 = q: y0' = {p q, -p q}, and (p q)' = p q (p - q) {1, -1}
    const Tensor first = grad({softmax(x)}, {x}, {tensor({1., 0.}, float64)}, create_graph)[0];
    const std::vector<double> second = values(grad({first}, {x}, {tensor({1., 0.}, float64)})[0]);
    const auto want = static_cast<double>(p * q * (p - q));
    CHECK(second[0] == Approx(want).epsilon(1e-14).margin(0));
    CHECK(second[1] == Approx(-want).epsilon(1e-14).margin(0));
    const Tensor of_log = grad({log_softmax(x)}, {x}, {tensor({1., 0.}, float64)}, create_graph)[0];  // {p, -p}
    const std::vector<double> log_second = values(grad({of_log}, {x}, {tensor({1., 0.}, float64)})[0]);
    CHECK(log_second[0] == Approx(static_cast<double>(-p * q)).epsilon(1e-14).margin(0));
    CHECK(log_second[1] == Approx(static_cast<double>(p * q)).epsilon(1e-14).margin(0));
  }
}

TEST_CASE("logsumexp's gradient is a softmax, wherever its maximum lies", "[tails]") {
  using Numbers = std::vector<double>;
  const auto gradient = [](const Tensor& x, const Axes& axes = {}) {
    const Tensor leaf = x.clone().requires_grad_();
    sum(logsumexp(leaf, axes)).backward();
    return values(leaf.grad());
  };
  each_isa([&] {
    for (const DType t : {float32, float64, bfloat16}) {
      INFO(t);
      const auto of = [&](const Numbers& x) {
        return gradient(tensor(x, {static_cast<std::int64_t>(x.size())}).to(t));
      };
      for (const double m : {0., 1e6, 1e8, 1e20, -1e20, 1e30}) CHECK(of({m, m}) == Numbers{0.5, 0.5});
      CHECK(of({inf}) == Numbers{1});
      CHECK(of({0.5, inf}) == Numbers{0, 1});
      CHECK(of({inf, -inf, inf, 3}) == Numbers{0.5, 0, 0.5, 0});
      CHECK(of({-inf, -inf}) == Numbers{0, 0});
      CHECK(of({-inf, 1}) == Numbers{0, 1});
    }
    const Tensor cube = reshape(tensor({1e8, 1e8, -inf, -inf, inf, 0., 1., 1.}, float64), {2, 2, 2});
    CHECK(gradient(cube, {-1}) == Numbers{0.5, 0.5, 0, 0, 1, 0, 0.5, 0.5});
    CHECK(gradient(cube, {0}) == Numbers{0, 1, 0, 0, 1, 0, 1, 1});
    CHECK(gradient(cube, {0, 2}) == Numbers{0, 0, 0, 0, 1, 0, 0.5, 0.5});
    const auto sums = gradient(tensor({1e6, 1e6 + 0.5, 1e6 - 0.25}));
    CHECK(sums[0] + sums[1] + sums[2] == Approx(1).epsilon(1e-6));
  });
  const Tensor x = tensor({40., 0.}, float64).requires_grad_();  // p q in the second derivative
  const Tensor first = grad({logsumexp(x)}, {x}, {}, create_graph)[0];
  CHECK(values(grad({first}, {x}, {tensor({1., 0.}, float64)})[0])[0] ==
        Approx(std::exp(-40.)).epsilon(1e-14).margin(0));
}

TEST_CASE("logsumexp keeps the small terms beside a maximum near 0", "[tails]") {
  each_isa([] {
    for (const DType t : {float32, float64})
      for (const double gap : {0.5, 3., 17., 38., 40., 80.})
        for (const double top : {0., 1e-9, -1e-17, 1e-3, -0.25}) {
          INFO(t << ", gap " << gap << ", maximum " << top);
          const Tensor x = tensor({top, top - gap, top}).to(t), max = x[0].to(float64);
          const L rest = std::exp(static_cast<L>(x[1].to(float64).item()) - max.item());
          const double unit = t == float32 ? 0x1p-24 : 0x1p-53;
          const L log = std::log1p(rest), twice = std::log1p(1 + rest);
          const auto check = [&](const Tensor& y, L want, L size) {
            for (const double got : values(y)) CHECK(std::abs(got - want) <= 8 * unit * size);
          };
          const L m = max.item();
          check(logsumexp(slice(x, 0, 0, 2)), m + log, std::abs(m) + log);
          check(logsumexp(x), m + twice, std::abs(m) + twice);
          const Tensor beside = stack({slice(x, 0, 0, 2), slice(x, 0, 0, 2)}, 1);
          check(logsumexp(beside, 0), m + log, std::abs(m) + log);
          check(logsumexp(transpose(beside), 1), m + log, std::abs(m) + log);
        }
    CHECK(logsumexp(tensor({0., -40.}, float64)).item() == Approx(std::exp(-40.)).epsilon(1e-15).margin(0));
    CHECK(logsumexp(zeros({0})).item() == -inf);
  });
}

TEST_CASE("saturated gates of recurrent cells still have slopes", "[tails]") {
  for (const DType t : {float32, float64}) {
    const double a = t == float32 ? 20 : 40, unit = t == float32 ? 1e-5 : 1e-13;
    const auto gradient = [&](FunctionRef<Tensor(const Tensor&)> steps, std::int64_t gates) {
      const Tensor x = full({1, 1, gates}, a, t).requires_grad_();
      sum(steps(x)).backward();
      const Tensor again = full({1, 1, gates}, a, t).requires_grad_();  // the decomposition
      const Tensor same = grad({sum(steps(again))}, {again}, {}, create_graph)[0];
      for (std::int64_t i = 0; i < gates; ++i)
        CHECK(values(x.grad())[static_cast<std::size_t>(i)] ==
              Approx(values(same)[static_cast<std::size_t>(i)]).epsilon(unit).margin(0));
      return values(x.grad());
    };
    const Tensor h = full({1, 1}, 0.5, t), c = full({1, 1}, 0.25, t);
    const auto lstm = gradient(
        [&](const Tensor& x) {
          return lstm_steps(x, zeros({4, 1}, t), Tensor(), h, c).first;
        },
        4);
    // h = s(o) tanh(c'), c' = s(f) c + s(i) tanh(g): slopes e^-a of the sigmoids, 4 e^-2a of tanh
    const double t1 = std::tanh(1.25), slope = 1 - t1 * t1, e = std::exp(-a);
    CHECK(lstm[0] == Approx(slope * e).epsilon(unit).margin(0));
    CHECK(lstm[1] == Approx(slope * 0.25 * e).epsilon(unit).margin(0));
    CHECK(lstm[2] == Approx(slope * 4 * e * e).epsilon(unit).margin(0));
    CHECK(lstm[3] == Approx(t1 * e).epsilon(unit).margin(0));
    const auto gru = gradient([&](const Tensor& x) { return gru_steps(x, zeros({3, 1}, t), Tensor(), h); }, 3);
    CHECK(gru[1] == Approx(-0.5 * e).epsilon(unit).margin(0));       // (h - n) s'(z)
    CHECK(gru[2] == Approx(4 * e * e * e).epsilon(unit).margin(0));  // (1 - z) tanh'(n)
    const auto rnn = gradient([&](const Tensor& x) { return rnn_steps(x, zeros({1, 1}, t), Tensor(), h); }, 1);
    CHECK(rnn[0] == Approx(4 * e * e).epsilon(unit).margin(0));  // tanh'(x)
  }
}

TEST_CASE("an infinite gradient of a maximum reaches its element alone", "[tails]") {
  const Tensor x = tensor({1., 3., 2., 3.}).requires_grad_();
  amax(x).backward(full({}, inf));
  CHECK(values(x.grad()) == std::vector<double>{0, inf, 0, inf});
  const Tensor low = tensor({{1., 3.}, {2., 2.}}).requires_grad_();
  amin(low, 1).backward(tensor({-inf, 4.}));
  CHECK(values(low.grad()) == std::vector<double>{-inf, 0, 2, 2});
  const Tensor src = tensor({1., 3., 2.}).requires_grad_(), into = zeros({2}, src.dtype()).requires_grad_();
  scatter_reduce(into, 0, tensor({0, 0, 1}), src, Reduce::amax).backward(full({2}, inf, src.dtype()));
  CHECK(values(src.grad()) == std::vector<double>{0, inf, inf});
  CHECK(values(into.grad()) == std::vector<double>{0, 0});
}

TEST_CASE("elu_plus_one is positive far below 0, and linear attention with it has finite results", "[tails]") {
  for (const DType t : {float32, float64, bfloat16}) {
    const double unit = t == float64 ? 1e-15 : t == float32 ? 1e-6 : 0x1p-8;
    for (const double v : {-40., -20., -3., -0.5, 0., 0.5, 7.}) {
      const Tensor x = full({1}, v, t).requires_grad_();
      const Tensor y = elu_plus_one(x);
      CHECK(y.item() == Approx(v < 0 ? std::exp(v) : v + 1).epsilon(unit).margin(0));
      y.backward();
      CHECK(x.grad().item() == Approx(v < 0 ? std::exp(v) : 1).epsilon(unit).margin(0));
    }
  }
  const Tensor q = full({1, 1, 3, 2}, -20.), v = reshape(tensor({1., 2., 3., 4., 5., 6.}), {1, 1, 3, 2}).to(float32);
  const Tensor y = linear_attention(q, q, v, LinearAttentionOptions().feature_map(elu_plus_one).normalize()).output;
  CHECK(max_difference(y, reshape(tensor({1., 2., 2., 3., 3., 4.}), {1, 1, 3, 2})) < 1e-6);
}

TEST_CASE("a bfloat16 leaf that is used a thousand times gets a thousand times the gradient", "[tails]") {
  const auto used = [](const Tensor& leaf, int times) {
    Tensor total = sum(leaf);
    for (int i = 1; i < times; ++i) total = total + sum(leaf).to(float32);
    return total;
  };
  Tensor leaf = ones({3}, bfloat16).requires_grad_();
  used(leaf, 1000).backward();
  CHECK(leaf.grad().dtype() == bfloat16);
  CHECK(values(leaf.grad()) == std::vector<double>{1000, 1000, 1000});
  const Tensor handle = leaf.grad();
  used(leaf, 8).backward();  // the buffer of the gradient stays
  CHECK(values(handle) == std::vector<double>{1008, 1008, 1008});
  CHECK(values(grad({used(leaf, 1000)}, {leaf})[0]) == std::vector<double>{1000, 1000, 1000});
  CHECK(values(grad({used(leaf, 1000)}, {leaf}, {}, create_graph)[0]) == std::vector<double>{1000, 1000, 1000});
  // As rows, by slices, and by products, which add to the gradient in place.
  Tensor table = ones({2, 2}, bfloat16).requires_grad_();
  Tensor total = zeros({}, float32);
  for (int i = 0; i < 600; ++i)
    total = total + sum(slice(table, 0, 0, 1)).to(float32) + sum(matmul(ones({1, 2}, bfloat16), table)).to(float32);
  total.backward();
  CHECK(values(table.grad()) == std::vector<double>{1200, 1200, 600, 600});
  // A hook gets the rounded gradient.
  std::vector<double> seen;
  Tensor watched = ones({1}, bfloat16).requires_grad_();
  const GradHook hook = register_hook(watched, [&](const Tensor& g) {
    CHECK(g.dtype() == bfloat16);
    seen.push_back(g.item());
    return g;
  });
  used(watched, 1000).backward();
  CHECK(seen == std::vector<double>{1000});
  CHECK(watched.grad().item() == 1000);
}

}  // namespace fit::test::tails_test
