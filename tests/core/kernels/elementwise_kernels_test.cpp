#include <functional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "kernels/elementwise.hpp"
#include "support/catch.hpp"
#include "support/tables/function_rows.hpp"
#include "support/tables/kernel_rows.hpp"

// Kernels that compute element by element, each against its reference: elementwise.hpp, functions.hpp.
namespace fit::test::elementwise_kernels_test {
namespace {

// ---- elementwise ------------------------------------------------------------------------------------------------

template <class T>
Rounded<T> remainder(const Rounded<T>& x, const Rounded<T>& y) {
  const auto rest = Rounded<T>::of(std::fmod(x.value, y.value), 0, 0);
  return rest.value != 0 && (rest.value < 0) != (y.value < 0) ? rest + y : rest;
}

// Rounded as in T: the rest is exact, and the quotient by it whole but for rounding.
template <class T>
Rounded<T> floor_divide(const Rounded<T>& x, const Rounded<T>& y) {
  const T a = static_cast<T>(x.value), b = static_cast<T>(y.value), rest = std::fmod(a, b);
  if (b == 0) return Rounded<T>::of(a / b, 0, 0);
  const T near = static_cast<T>((a - rest) / b) - static_cast<T>(rest != 0 && (rest < 0) != (b < 0));
  return Rounded<T>::of(near == 0 ? std::copysign(T(0), a / b) : std::round(near), 0, 0);
}

template <class T>
std::vector<Row<T>> binary_rows() {
  using R = Rounded<T>;
  using Plain = R (*)(const R&, const R&);
  const auto& k = kernels::elementwise<T>();
  struct {
    const char* name;
    kernels::Binary<T> kernel;
    Plain plain;
  } const all[] = {
      {"add", k.add, [](const R& x, const R& y) { return x + y; }},
      {"sub", k.sub, [](const R& x, const R& y) { return x - y; }},
      {"mul", k.mul, [](const R& x, const R& y) { return x * y; }},
      {"div", k.div, [](const R& x, const R& y) { return x / y; }},
      {"maximum", k.maximum, [](const R& x, const R& y) { return x.value > y.value || std::isnan(x.value) ? x : y; }},
      {"minimum", k.minimum, [](const R& x, const R& y) { return x.value < y.value || std::isnan(x.value) ? x : y; }},
      {"pow", k.pow, [](const R& x, const R& y) { return R::of(std::pow(x.value, y.value), 0, 1); }},
      {"fmod", k.fmod, [](const R& x, const R& y) { return R::of(std::fmod(x.value, y.value), 0, 0); }},
      {"remainder", k.remainder, remainder<T>},
      {"floor_divide", k.floor_divide, floor_divide<T>},
  };
  const Draw any = anything<T>();
  std::vector<Row<T>> rows;
  for (const auto& [name, kernel, plain] : all) {
    const auto f = kernel;
    const auto p = plain;
    const std::string s = name;
    rows.push_back({s,
                    {any, any, any},
                    [f](T* const* a, std::int64_t n) { f(a[0], a[1], a[2], n, 1, 1); },
                    [p](R* a) { a[0] = p(a[1], a[2]); }});
    rows.push_back({s + " over x",
                    {any, any},
                    [f](T* const* a, std::int64_t n) { f(a[0], a[0], a[1], n, 1, 1); },
                    [p](R* a) { a[0] = p(a[0], a[1]); }});
    rows.push_back({s + " over y",
                    {any, any},
                    [f](T* const* a, std::int64_t n) { f(a[0], a[1], a[0], n, 1, 1); },
                    [p](R* a) { a[0] = p(a[1], a[0]); }});
    for (const T one : {T(0.7), T(-3), std::numeric_limits<T>::quiet_NaN()}) {
      rows.push_back({s + " of one x",
                      {any, any},
                      [=](T* const* a, std::int64_t n) { f(a[0], &one, a[1], n, 0, 1); },
                      [=](R* a) { a[0] = p(one, a[1]); }});
      rows.push_back({s + " of one y, over x",
                      {any},
                      [=](T* const* a, std::int64_t n) { f(a[0], a[0], &one, n, 1, 0); },
                      [=](R* a) { a[0] = p(a[0], one); }});
      rows.push_back({s + " of one x and one y",
                      {any},
                      [=](T* const* a, std::int64_t n) {
                        const T two = 2;
                        f(a[0], &one, &two, n, 0, 0);
                      },
                      [=](R* a) { a[0] = p(one, T(2)); }});
    }
  }
  return rows;
}

template <class T>
std::vector<Row<T>> neg_rows() {
  const auto run = kernels::elementwise<T>().neg;
  return {{"neg",
           {anything<T>(), anything<T>()},
           [run](T* const* a, std::int64_t n) { run(a[0], a[1], n); },
           [](Rounded<T>* a) { a[0] = -a[1]; }},
          {"neg over x",
           {anything<T>()},
           [run](T* const* a, std::int64_t n) { run(a[0], a[0], n); },
           [](Rounded<T>* a) { a[0] = -a[0]; }}};
}

template <class T>
std::vector<Row<T>> root_rows() {
  std::vector<Row<T>> rows;
  const auto& k = kernels::elementwise<T>();
  for (const auto& [name, run, e] :
       {std::tuple{"sqrt_as_pow", k.sqrt_as_pow, 0.5L}, {"rsqrt_as_pow", k.rsqrt_as_pow, -0.5L}})
    rows.push_back({name,
                    {anything<T>(), anything<T>()},
                    [run = run](T* const* a, std::int64_t n) { run(a[0], a[1], n); },
                    [e = e](Rounded<T>* a) { a[0] = Rounded<T>::of(std::pow(a[1].value, e), 0, 2); }});
  return rows;
}

template <class T>
std::vector<Row<T>> clamp_rows() {
  using R = Rounded<T>;
  const auto f = kernels::elementwise<T>().clamp;
  const auto plain = [](const R& x, T low, T high) { return x.value < low ? R(low) : x.value > high ? R(high) : x; };
  std::vector<Row<T>> rows;
  for (const auto& [low, high] : {std::pair<T, T>{T(-0.5), T(0.7)}, {T(-1), std::numeric_limits<T>::infinity()}}) {
    rows.push_back({"clamp",
                    {anything<T>(), anything<T>()},
                    [=, low = low, high = high](T* const* a, std::int64_t n) { f(a[0], a[1], n, low, high); },
                    [=, low = low, high = high](R* a) { a[0] = plain(a[1], low, high); }});
    rows.push_back({"clamp over x",
                    {anything<T>()},
                    [=, low = low, high = high](T* const* a, std::int64_t n) { f(a[0], a[0], n, low, high); },
                    [=, low = low, high = high](R* a) { a[0] = plain(a[0], low, high); }});
  }
  return rows;
}

// Comparisons, whose arrays are of two types. sx and sy: steps from one number to the next, 0 or 1.
template <class T>
void check_comparisons(std::int64_t n, int sx, int sy) {
  INFO("n = " << n << ", steps " << sx << ", " << sy << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  const auto& k = kernels::elementwise<T>();
  const Draw few = sometimes({0, -0., 1, std::numeric_limits<double>::quiet_NaN(), 1e9}, between(-1, 1), 2);
  GuardedBuffer<T> x = drawn<T>(sx ? n : 1, 1, few, random), y = drawn<T>(sy ? n : 1, 3, few, random);
  const auto compared = [&](const char* name, kernels::Comparison<T> kernel, auto plain) {
    INFO(name);
    GuardedBuffer<bool> result(n, 7);
    kernel(result.data(), x.data(), y.data(), n, sx, sy);
    bool right = result.guards_intact();
    for (std::int64_t i = 0; i < n; ++i) right = right && result[i] == plain(x[sx * i], y[sy * i]);
    CHECK(right);
  };
  compared("eq", k.eq, std::equal_to<T>());
  compared("ne", k.ne, std::not_equal_to<T>());
  compared("lt", k.lt, std::less<T>());
  compared("le", k.le, std::less_equal<T>());
  compared("gt", k.gt, std::greater<T>());
  compared("ge", k.ge, std::greater_equal<T>());
}

// ---- functions --------------------------------------------------------------------------------------------------

template <class T>
std::vector<Row<T>> function_kernel_rows() {
  using R = Rounded<T>;
  const Draw dy = sometimes({0}, between(-2, 2)), any = anything<T>();
  std::vector<Row<T>> rows;
  for (const FunctionRow& row : function_rows()) {
    const auto& k = kernels::function<T>(row.kernel);
    const auto p = static_cast<T>(row.parameter);
    const double units = allowed_units<T>(row, "value"), slope_units = allowed_units<T>(row, "dx");
    const std::string name = row.name;
    const auto value = [=, f = row.value](const R& x) { return R::of(f(x.value), 0, units); };
    const auto slope = [=, f = row.derivative, least = row.derivative_size](const R& v) {
      const auto size = static_cast<long double>(least(static_cast<double>(v.value)));
      return R::of(f(v.value), slope_units * std::numeric_limits<T>::epsilon() * size, slope_units);
    };
    // What the derivative is computed from: any number, or any that the function gives.
    const Draw v = row.kernel.from_output ? Draw([any, f = row.value](std::mt19937_64& random) {
      return static_cast<double>(static_cast<T>(f(static_cast<T>(any(random)))));
    })
                                          : any;
    rows.push_back({name,
                    {any, any},
                    [=](T* const* a, std::int64_t n) { k.forward(a[0], a[1], n, p); },
                    [=](R* a) { a[0] = value(a[1]); }});
    rows.push_back({name + " over x",
                    {any},
                    [=](T* const* a, std::int64_t n) { k.forward(a[0], a[0], n, p); },
                    [=](R* a) { a[0] = value(a[0]); }});
    rows.push_back({name + ", backward",
                    {dy, dy, v},
                    [=](T* const* a, std::int64_t n) { k.backward(a[0], a[1], a[2], n, p); },
                    [=](R* a) { a[0] = a[1] * slope(a[2]); }});
    rows.push_back({name + ", backward over dy",
                    {dy, v},
                    [=](T* const* a, std::int64_t n) { k.backward(a[0], a[0], a[1], n, p); },
                    [=](R* a) { a[0] = a[0] * slope(a[1]); }});
    rows.push_back({name + ", backward over x or y",
                    {v, dy},
                    [=](T* const* a, std::int64_t n) { k.backward(a[0], a[1], a[0], n, p); },
                    [=](R* a) { a[0] = a[1] * slope(a[0]); }});
  }
  return rows;
}

}  // namespace

TEST_CASE("elementwise kernels are within their bounds of the reference", "[kernels]") {
  each_isa([] {
    check_rows(binary_rows<float>());
    check_rows(binary_rows<double>());
    check_rows(neg_rows<float>());
    check_rows(neg_rows<double>());
    check_rows(root_rows<float>());
    check_rows(root_rows<double>());
    check_rows(clamp_rows<float>());
    check_rows(clamp_rows<double>());
  });
}

TEST_CASE("comparisons and choices are those of plain loops", "[kernels]") {
  each_isa([] {
    for (const std::int64_t n : odd_sizes)
      for (const int sx : {0, 1})
        for (const int sy : {0, 1}) {
          check_comparisons<float>(n, sx, sy);
          check_comparisons<double>(n, sx, sy);
        }
  });
}

TEST_CASE("unary functions and their derivatives are within their bounds of the reference", "[kernels]") {
  each_isa([] {
    check_rows(function_kernel_rows<float>());
    check_rows(function_kernel_rows<double>());
  });
}

}  // namespace fit::test::elementwise_kernels_test
