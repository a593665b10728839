#include "kernels/random.hpp"

#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "fit/ops/ops.hpp"
#include "ops/elementwise/dropout.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

namespace fit::test::random_test {
namespace {

// Mean, variance, and the fourth moment around the mean over the square of the variance.
struct Moments {
  double mean = 0, variance = 0, kurtosis = 0;
  explicit Moments(const Tensor& x) {
    const Tensor wide = x.to(float64);
    const auto v = wide.data<double>();
    const auto n = static_cast<double>(v.size());
    for (const double a : v) mean += a / n;
    for (const double a : v) variance += (a - mean) * (a - mean) / n;
    for (const double a : v) kurtosis += std::pow(a - mean, 4) / n / (variance * variance);
  }
};

// The word of element i, by the definition.
std::uint32_t word_of(kernels::RandomKey key, std::int64_t i) {
  const auto block = detail::philox(key.seed, key.call, static_cast<std::uint64_t>(16 * (i / 64) + i % 32 / 2));
  return block.word[2 * (i % 64 / 32) + i % 2];
}

template <class T>
T uniform_of(kernels::RandomKey key, std::int64_t i) {
  if (sizeof(T) == 4) return static_cast<T>(word_of(key, i) >> 8) / static_cast<T>(1 << 24);
  const std::uint64_t pair = word_of(key, 2 * i) | static_cast<std::uint64_t>(word_of(key, 2 * i + 1)) << 32;
  return static_cast<T>(static_cast<double>(pair >> 11) / 0x1p53);
}

// Box and Muller: elements i and i + 32 of a group share the radius and the angle of their two uniform numbers.
template <class T>
Rounded<T> normal_of(kernels::RandomKey key, std::int64_t i) {
  using R = Rounded<T>;
  const std::int64_t first = i / 64 * 64 + i % 32;
  const R turn = R::of(2 * std::acos(-1.L), 0), two(T(2));
  const R radius = sqrt(two * -log(R(T(1)) - R(uniform_of<T>(key, first)), 1));
  const R angle = turn * R(uniform_of<T>(key, first + 32));
  const bool sine = i % 64 >= 32;
  return radius * R::of(sine ? std::sin(angle.value) : std::cos(angle.value), angle.error, 3);
}

template <class T>
void check_random(std::int64_t first, std::int64_t n) {
  INFO(sizeof(T) << " bytes, elements " << first << " … " << first + n - 1);
  const kernels::RandomKey key{0x123456789abcdef0, 77};
  const auto& k = kernels::random<T>();
  GuardedBuffer<T> u(n), z(n, 3), y(n, 5);
  k.uniform(u.data(), key, first, n);
  k.normal(z.data(), key, first, n);
  std::mt19937_64 random(1);
  GuardedBuffer<T> x = drawn<T>(n, 1, between(-2, 2), random);
  const kernels::Dropout d(0.3, key);
  k.dropout(y.data(), x.data(), d, first, n);
  Worst worst;
  bool same = u.guards_intact() && z.guards_intact() && y.guards_intact();
  for (std::int64_t i = 0; i < n; ++i) {
    same = same && u[i] == uniform_of<T>(key, first + i);
    worst.add(i, z[i], normal_of<T>(key, first + i));
    same = same && y[i] == (word_of(key, first + i) <= d.limit ? T(0) : x[i] * static_cast<T>(d.kept));
  }
  CHECK(same);
  INFO(worst);
  CHECK(worst.within_bounds());
  k.dropout(x.data(), x.data(), d, first, n);
  CHECK(x.values() == y.values());
}

}  // namespace

TEST_CASE("Philox 4x32-10: the known answers of Random123", "[random]") {
  const auto words = [](std::uint64_t seed, std::uint64_t call, std::uint64_t index) {
    const auto p = detail::philox(seed, call, index);
    return std::vector<std::uint32_t>(p.word, p.word + 4);
  };
  using Words = std::vector<std::uint32_t>;
  const std::uint64_t ones = ~std::uint64_t{0};
  CHECK(words(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(ones, ones, ones) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  CHECK(words(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("words of any range of elements are Philox's, on every instruction set", "[random]") {
  const kernels::RandomKey key{0x123456789abcdef0, 77};
  for (const std::int64_t first : {0, 1, 37, 64, 100003})
    for (const std::int64_t n : {0, 1, 3, 63, 64, 65, 300}) {
      INFO(first << " " << n);
      each_isa([&] {
        std::vector<std::uint32_t> word(static_cast<std::size_t>(n) + 1, 12345);
        kernels::random<float>().words(word.data(), key, first, n);
        bool same = true;
        for (std::int64_t i = first; i < first + n; ++i)
          same = same && word[static_cast<std::size_t>(i - first)] == word_of(key, i);
        CHECK(same);
        CHECK(word.back() == 12345);
      });
    }
}

TEST_CASE("uniform and normal numbers and dropout, of any group on, are those of the definitions", "[random]") {
  each_isa([] {
    for (const std::int64_t first : {0, 64, 64 * 1001})
      for (const std::int64_t n : {0, 1, 3, 7, 33, 63, 64, 65, 257}) {
        check_random<float>(first, n);
        check_random<double>(first, n);
      }
  });
}

TEST_CASE("rand and randn: range, moments, and what they depend on", "[random]") {
  for (const DType t : {float32, float64}) {
    manual_seed(5);
    const Tensor u = rand({1000001}, t), z = randn({1000001}, t);
    CHECK(u.dtype() == t);
    CHECK(min(u).item() >= 0);
    CHECK(max(u).item() < 1);
    const Moments uniform(u), normal(z);
    CHECK(std::abs(uniform.mean - 0.5) < 1e-3);
    CHECK(std::abs(uniform.variance - 1 / 12.) < 3e-4);
    CHECK(std::abs(normal.mean) < 4e-3);
    CHECK(std::abs(normal.variance - 1) < 6e-3);
    CHECK(std::abs(normal.kurtosis - 3) < 0.03);
    // Neighbours, and the two halves of Box and Muller's pairs, don't hang together.
    for (const int lag : {1, 32}) {
      const auto v = z.to(float64).to_vector<double>();
      double product = 0;
      for (std::size_t i = 0; i + static_cast<std::size_t>(lag) < v.size(); ++i)
        product += v[i] * v[i + static_cast<std::size_t>(lag)];
      CHECK(std::abs(product / static_cast<double>(v.size())) < 4e-3);
    }
    manual_seed(5);
    CHECK(same_bits(rand({1000001}, t), u));
    CHECK_FALSE(same_bits(rand({1000001}, t), u));  // another call
    manual_seed(6);
    CHECK_FALSE(same_bits(rand({1000001}, t), u));
    // Element i is the same in a tensor of another size and shape.
    manual_seed(5);
    const Tensor part = rand({7, 11}, t);
    CHECK(same_bits(part, reshape(slice(u, 0, 0, 77), {7, 11})));
    const auto drawn = [t](auto make) {
      return [=] {
        Generator g(9);
        return make(Shape{70001}, t, g);
      };
    };
    check_threads(drawn([](const Shape& s, DType d, Generator& g) { return rand(s, d, g); }));
    check_threads(drawn([](const Shape& s, DType d, Generator& g) { return randn(s, d, g); }));
    Generator g(3);
    const Tensor first = randn({77}, t, g);
    each_isa([&] {
      Generator again(3);
      CHECK(max_difference(randn({77}, t, again), first) < (t == float32 ? 1e-5 : 1e-13));
    });
  }
  CHECK_THROWS_WITH(rand({2}, int64), "[rand] dtype is int64: it must be bfloat16, float32 or float64");
}

TEST_CASE("a generator follows the shape", "[random]") {
  Generator g(8);
  const Tensor u = rand({3}, g), z = randn({3}, g), n = randint(0, 9, {3}, g);
  g.set_state(8, 0);
  CHECK(same_bits(u, rand({3}, float32, g)));
  CHECK(same_bits(z, randn({3}, float32, g)));
  CHECK(same_bits(n, randint(0, 9, {3}, g)));
}

TEST_CASE("randint, bernoulli, randperm", "[random]") {
  Generator g(1);
  const auto v = randint(-3, 4, {70000}, g).to_vector<std::int64_t>();
  std::vector<int> counts(7);
  for (const std::int64_t a : v) {
    REQUIRE((a >= -3 && a < 4));
    ++counts[static_cast<std::size_t>(a + 3)];
  }
  for (const int c : counts) CHECK(std::abs(c - 10000) < 500);
  CHECK(randint(INT64_MIN, INT64_MAX, {3}, g).dtype() == int64);
  CHECK(randint(5, 6, {}, g).item<std::int64_t>() == 5);
  CHECK_THROWS_WITH(randint(2, 2, {1}, g), "[randint] low is 2, high is 2: low must be less than high");

  for (const double p : {0.0, 0.3, 1.0})
    CHECK(std::abs(sum(bernoulli(p, {100000}, g)).item() - p * 1e5) <= (p == 0.3 ? 700 : 0));
  const Tensor drawn = bernoulli(broadcast_to(tensor({0., 0.3, 1.}), {100000, 3}), g), ones = sum(drawn, 0);
  CHECK(drawn.dtype() == float32);
  CHECK(ones[0].item() == 0);
  CHECK(std::abs(ones[1].item() - 0.3e5) <= 700);
  CHECK(ones[2].item() == 1e5);
  CHECK(bernoulli(full({2}, 0.5, bfloat16), g).dtype() == bfloat16);
  CHECK_THROWS_WITH(bernoulli(tensor({0.5, 1.2}), g), Catch::Contains("p [2] has numbers outside 0 … 1"));
  CHECK_THROWS_WITH(bernoulli(1.2, {1}, g), "[bernoulli] p is 1.2: it must be in 0 … 1");

  for (const std::int64_t n : {0, 1, 2, 257}) {
    const auto order = randperm(n, g).to_vector<std::int64_t>();
    CHECK(static_cast<std::int64_t>(order.size()) == n);
    CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == order.size());
    for (const std::int64_t i : order) CHECK((i >= 0 && i < n));
  }
  // Each of the 6 orders of three comes about equally often.
  std::vector<int> orders(27);
  for (int i = 0; i < 6000; ++i) {
    const auto o = randperm(3, g).to_vector<std::int64_t>();
    ++orders[static_cast<std::size_t>(9 * o[0] + 3 * o[1] + o[2])];
  }
  int seen = 0;
  for (const int c : orders) {
    if (c == 0) continue;
    ++seen;
    CHECK(std::abs(c - 1000) < 150);
  }
  CHECK(seen == 6);
  CHECK_THROWS_WITH(randperm(-1, g), "[randperm] n is -1: it must not be negative");
}

TEST_CASE("a generator's state is its seed and its count of calls, also with several threads", "[random]") {
  Generator g(4);
  const Tensor first = rand({5}, float32, g), second = rand({5}, float32, g);
  CHECK(g.calls() == 2);
  g.set_state(4, 1);
  CHECK(same_bits(rand({5}, float32, g), second));
  Generator copy(g);
  CHECK(same_bits(rand({5}, float32, copy), rand({5}, float32, g)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&g] {
      for (int i = 0; i < 1000; ++i) g.next();
    });
  for (auto& t : threads) t.join();
  CHECK(g.calls() == 4003);
}

TEST_CASE("dropout: what survives is scaled, and the gradient takes the same way", "[random]") {
  for (const DType t : {float32, float64})
    each_isa([&] {
      Generator g(8);
      Tensor x = (rand({1001, 33}, t, g) + 1).requires_grad_();
      const Tensor y = dropout(x, 0.3, g);
      y.backward(ones(y.shape(), t));
      const Tensor kept = ne(y.detach(), 0);
      const double share = sum(kept).item() / static_cast<double>(x.numel());
      CHECK(std::abs(share - 0.7) < 0.01);
      const Tensor expected = where(kept, x.detach() / 0.7, 0);
      CHECK(max_difference(y.detach(), expected) < 1e-6);
      CHECK(max_difference(x.grad(), where(kept, full({}, 1 / 0.7, t), 0)) < 1e-6);
      // The decisions are those of the words, as fused kernels take them.
      std::vector<std::uint32_t> word(static_cast<std::size_t>(x.numel()));
      kernels::random<float>().words(word.data(), {8, 1}, 0, x.numel());
      const auto flags = kept.to_vector<bool>();
      bool same = true;
      for (std::size_t i = 0; i < word.size(); ++i) same = same && flags[i] == (word[i] > kernels::Dropout(0.3).limit);
      CHECK(same);
      CHECK(same_bits(dropped(x.detach(), kernels::Dropout(0.3, {8, 1})), y.detach()));
      CHECK_FALSE(same_bits(dropout(x.detach(), 0.3, g), y.detach()));  // another call
    });
}

TEST_CASE("an element is dropped with the probability that is asked for, to the last of 2^32", "[random]") {
  using kernels::Dropout;
  CHECK(Dropout(0x1p-32).limit == 0);
  CHECK(Dropout(0.25).limit == 0x40000000u - 1);
  CHECK(Dropout(0.5).limit == 0x80000000u - 1);
  CHECK(Dropout(1).limit == 0xffffffffu);
  CHECK(Dropout(0.75).kept == 4);
  CHECK(Dropout(1).kept == 0);
}

TEST_CASE("dropout: of nothing, of everything, and of what is not finite", "[random]") {
  Generator g(2);
  const Tensor x = tensor({1., NAN, INFINITY});
  CHECK(dropout(x, 0, g).raw() == x.raw());
  CHECK(g.calls() == 0);
  Tensor v = tensor({1., NAN, INFINITY}).requires_grad_();
  const Tensor y = dropout(v, 1, g);
  CHECK(y.to_vector<float>() == std::vector<float>{0, 0, 0});
  y.backward(ones({3}));
  CHECK(v.grad().to_vector<float>() == std::vector<float>{0, 0, 0});
  check_threads([] {
    Generator g(2);
    return dropout(ones({70001}), 0.5, g);
  });
}

}  // namespace fit::test::random_test
