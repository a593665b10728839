#include <cmath>
#include <random>

#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tables/op_table.hpp"
#include "support/variants.hpp"

// Numbers of every kind through every operation: what comes out, NaN and infinities included, is the same on every
// instruction set and with any number of threads. (PyTorch's common_methods_invocations.py has these sets of numbers.)
namespace fit::test::op_values_test {
namespace {

using Values = std::vector<Tensor>;

constexpr double pi = 3.14159265358979323846, inf = INFINITY;

struct Kind {
  const char* name;
  std::vector<double> numbers;
  double tolerance;  // relative to 1 + |value|; infinite: it is compared what is NaN and what is infinite
};
const Kind kinds[] = {
    {"small", {0., -0., 1e-3, -1e-3, 0.25, -0.25, 1, -1, pi / 2, -pi / 2, pi - 1e-5, -pi + 1e-5, pi, -pi}, 1e-9},
    {"large", {501, -501, 1001.2, -1001.2, 13437.7, -13437.7, 4988429.2, -4988429.2, 1e20, -1e20}, inf},
    {"extremal", {inf, -inf, NAN, 0.5, -1.25, 0, 2, 0.75}, 1e-9},
};

Values drawn(const std::vector<Shape>& set, const Kind& kind, unsigned seed) {
  std::mt19937_64 random(seed);
  Values in;
  for (const Shape& shape : set) {
    Tensor x = Tensor::empty(shape, float64);
    for (std::int64_t i = 0; i < x.numel(); ++i) x.fresh<double>()[i] = kind.numbers[random() % kind.numbers.size()];
    in.push_back(x);
  }
  return in;
}

// Outputs and gradients; nothing where the op refuses such numbers.
Values computed(const OpRow& row, const Values& from) {
  Values in, all;
  for (const Tensor& x : from) in.push_back(x.clone().requires_grad_());
  try {
    Values y, seeds;
    for (const Tensor& t : row.f(in)) {
      all.push_back(t.detach());
      if (!t.requires_grad()) continue;
      y.push_back(t);
      seeds.push_back(random_like(t));
    }
    if (!y.empty())
      for (const Tensor& g : grad(y, in, seeds, allow_unused)) all.push_back(g);
  } catch (const Error&) {
    return {};
  }
  return all;
}

// Of two results, how many elements differ in what they are, or in value by more than the tolerance.
std::int64_t different(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.defined() != b.defined() || (a.defined() && a.shape() != b.shape())) return -1;
  if (!a.defined()) return 0;
  const std::vector<double> x = values(a), y = values(b);
  std::int64_t n = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) || std::isnan(y[i]))
      n += std::isnan(x[i]) != std::isnan(y[i]);
    else if (std::isinf(x[i]) || std::isinf(y[i]))
      n += x[i] != y[i];
    else
      n += std::abs(x[i] - y[i]) > tolerance * (1 + std::abs(y[i]));
  }
  return n;
}

}  // namespace

TEST_CASE("every op: numbers of every kind give the same on every instruction set, with any number of threads",
          "[ops]") {
  each_row([](const OpRow& row) {
    for (const auto& set : row.shapes)
      for (const Kind& kind : kinds)
        for (unsigned seed = 1; seed <= 3; ++seed) {
          const Values in = drawn(set, kind, seed);
          INFO(kind.name << " numbers, seed " << seed);
          const Values expected = computed(row, in);
          const auto agrees = [&](double tolerance) {
            const Values other = computed(row, in);
            REQUIRE(other.size() == expected.size());
            for (std::size_t i = 0; i < other.size(); ++i) {
              INFO("result " << i << " (outputs, then gradients): " << other[i] << " not " << expected[i]);
              CHECK(different(other[i], expected[i], tolerance) == 0);
            }
          };
          each_isa([&] { agrees(kind.tolerance); });
          const int before = num_threads();
          set_num_threads(before == 3 ? 1 : 3);
          agrees(0);
          set_num_threads(before);
        }
  });
}

}  // namespace fit::test::op_values_test
