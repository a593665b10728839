#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tables/function_rows.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// A unary function gives one value for one input, whatever its neighbours in the vector are, and wherever it stands.
namespace fit::test::neighbours_test {
namespace {

using Unary = Callable<Tensor(const Tensor&)>;

constexpr std::int64_t lanes = 16;  // of the widest vector

// The points where functions change their formula, numbers around them, and numbers of every size.
std::vector<double> points() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> x = {0.,   -0.,   1.,    -1.,   infinity, -infinity, 1e-40, -1e-40, 1e-310, 0.625, -0.625,
                           0.66, -0.67, 0.78,  -0.79, 1.57,     -1.58,     14.5,  -14.5,  40.,    -40.,  62.8,
                           63.,  201.,  202.,  -87.4, 88.7,     -103.9,    -104., 709.7,  -745.1, 1e6,   -1e6,
                           1e22, 3e38,  8.2e5, 8.3e5, -8.3e5,   1e300,     -13.2, -13.3,  -9.,    9.,    5.5};
  std::mt19937_64 random(7);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  for (const double range : {1., 3., 12., 70., 210., 800.})
    for (int i = 0; i < 15; ++i) x.push_back(range * uniform());
  for (int i = 0; i < 20; ++i) x.push_back(std::exp2(uniform() * 120) * (uniform() < 0 ? -1 : 1));
  return x;
}

// f of points among equal neighbours, at every lane of a vector, equals f of the point alone. NaN is NaN.
void check_alone(const char* name, DType dtype, const Unary& f, const std::vector<double>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const Tensor at = tensor(x, {n, 1}).to(dtype);
  std::vector<Tensor> alone;
  for (std::int64_t i = 0; i < n; ++i) alone.push_back(f(at[i]));
  const Tensor want = cat(alone, 0);
  for (const double neighbour : {0.3, -20., 1e30, 1e-41, std::nan("")})
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      Tensor among = full({n, lanes}, neighbour, dtype);
      std::vector<Tensor> columns;
      if (lane > 0) columns.push_back(slice(among, 1, 0, lane));
      columns.push_back(at);
      if (lane + 1 < lanes) columns.push_back(slice(among, 1, lane + 1, lanes));
      const Tensor got = reshape(slice(f(cat(columns, 1)), 1, lane, lane + 1), {n});
      if (same_bits(got, want)) continue;
      for (std::int64_t i = 0; i < n; ++i) {
        const Tensor a = got[i], b = want[i];
        if (same_bits(a, b) || (std::isnan(a.item()) && std::isnan(b.item()))) continue;
        FAIL_CHECK(name << " in " << dtype << " of " << x[static_cast<std::size_t>(i)] << " beside " << neighbour
                        << " in lane " << lane << ": " << a.item() << " instead of " << b.item());
        return;
      }
    }
}

// The derivative of f.
Unary slope(Tensor (*f)(const Tensor&)) {
  return [f](const Tensor& x) {
    const Tensor leaf = x.clone().requires_grad_();
    f(leaf).backward(ones(x.shape(), x.dtype()));
    return leaf.grad().detach();
  };
}

}  // namespace

TEST_CASE("a function and its derivative give one value whatever the neighbours are", "[neighbours]") {
  const std::vector<double> x = points();
  each_isa([&] {
    for (const FunctionRow& row : function_rows())
      for (const DType dtype : {float32, float64, bfloat16}) {
        check_alone(row.name, dtype, row.f, x);
        check_alone((std::string(row.name) + "'").c_str(), dtype, slope(row.f), x);
      }
  });
}

TEST_CASE("a power gives one value whatever the neighbours are", "[neighbours]") {
  const std::vector<double> x = points();
  each_isa([&] {
    for (const DType dtype : {float32, float64, bfloat16})
      for (const double e : {0.3, -1.7, 2.5, 7.})
        check_alone(
            "pow", dtype, [e](const Tensor& v) { return pow(v, e); }, x);
  });
}

}  // namespace fit::test::neighbours_test
