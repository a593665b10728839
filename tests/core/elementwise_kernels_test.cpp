#include <functional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "fit/option.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/optim.hpp"
#include "support/catch.hpp"
#include "support/function_rows.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// Kernels that compute element by element, each against its reference: elementwise.hpp, functions.hpp, optim.hpp.
// A constant of a formula is one of T, and then exact.
template <class T>
struct fit::kernels::ElementOf<fit::test::Rounded<T>, void> {
  using Type = T;
};

namespace fit::test::elementwise_kernels_test {
namespace {

template <class T>
struct Row {
  std::string name;
  std::vector<Draw> arrays;  // where the elements of each array come from
  std::function<void(T* const* a, std::int64_t n)> kernel;
  std::function<void(Rounded<T>* a)> plain;  // on one element of each array, in place
};

// Every size from several places in memory: what the reference changes, and that all else is left alone.
template <class T>
void check(const Row<T>& row) {
  std::mt19937_64 random(7);
  for (const std::int64_t n : odd_sizes)
    for (const std::int64_t offset : {0, 1, 5}) {
      INFO(row.name << ", " << sizeof(T) << " bytes, n = " << n << ", offset " << offset);
      std::vector<GuardedBuffer<T>> rooms;
      std::vector<std::vector<T>> before;
      std::vector<T*> at;
      for (const Draw& draw : row.arrays) {
        const auto step = static_cast<std::int64_t>(rooms.size());
        rooms.push_back(drawn<T>(n, offset == 0 ? 0 : offset + step, draw, random));
        before.push_back(rooms.back().values());
      }
      for (GuardedBuffer<T>& room : rooms) at.push_back(room.data());
      row.kernel(at.data(), n);
      Worst worst;
      for (std::int64_t i = 0; i < n; ++i) {
        std::vector<Rounded<T>> plain;
        for (const auto& values : before) plain.emplace_back(values[static_cast<std::size_t>(i)]);
        row.plain(plain.data());
        for (std::size_t k = 0; k < rooms.size(); ++k) worst.add(i, rooms[k][i], plain[k]);
      }
      INFO(worst);
      CHECK(worst.within_bounds());
      for (const GuardedBuffer<T>& room : rooms) CHECK(room.guards_intact());
    }
}

template <class T>
void check(const std::vector<Row<T>>& rows) {
  for (const Row<T>& row : rows) check(row);
}

// ---- elementwise ------------------------------------------------------------------------------------------------

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
      {"pow", k.pow, [](const R& x, const R& y) { return R::of(std::pow(x.value, y.value), 0, 1); }},
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

// Comparisons and choices, whose arrays are of two types. sx and sy: steps from one number to the next, 0 or 1.
template <class T>
void check_choices(std::int64_t n, int sx, int sy) {
  INFO("n = " << n << ", steps " << sx << ", " << sy << ", " << sizeof(T) << " bytes");
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  const auto& k = kernels::elementwise<T>();
  const Draw few = sometimes({0, -0., 1, std::numeric_limits<double>::quiet_NaN(), 1e9}, between(-1, 1), 2);
  GuardedBuffer<T> x = drawn<T>(sx ? n : 1, 1, few, random), y = drawn<T>(sy ? n : 1, 3, few, random), z(n, 5);
  GuardedBuffer<bool> c(n);
  for (std::int64_t i = 0; i < n; ++i) c[i] = random() % 2;
  k.choose(z.data(), c.data(), x.data(), y.data(), n, sx, sy);
  Worst worst;
  for (std::int64_t i = 0; i < n; ++i) worst.add(i, z[i], Rounded<T>(c[i] ? x[sx * i] : y[sy * i]));
  INFO("choose: " << worst);
  CHECK(worst.within_bounds());
  CHECK(z.guards_intact());
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

// ---- optim ------------------------------------------------------------------------------------------------------

const Draw number = sometimes({0}, between(-2, 2)), square = sometimes({0}, between(0, 3));

// The options of all optimisers in one: each step takes those that it has.
struct AnyOptions {
  FIT_OPTION(double, lr) = 0.3;
  FIT_OPTION(double, beta1) = 0.9;
  FIT_OPTION(double, beta2) = 0.98;
  FIT_OPTION(double, eps) = 1e-2;
  FIT_OPTION(double, weight_decay) = 0.1;
  FIT_OPTION(double, alpha) = 0.9;
  FIT_OPTION(double, momentum) = 0.8;
  FIT_OPTION(double, dampening) = 0.2;
  FIT_OPTION(double, lr_decay) = 0.1;
  FIT_OPTION(double, initial_accumulator_value) = 0.5;
  FIT_OPTION(double, momentum_decay) = 4e-3;
  FIT_OPTION(double, rho) = 0.9;
  FIT_OPTION(bool, nesterov) = false;
  FIT_OPTION(bool, amsgrad) = false;
  FIT_OPTION(bool, centered) = false;
  FIT_OPTION(bool, decoupled_weight_decay) = false;
};

// Arrays: parameter, gradient, and the states that the step has. The reference is the library's own, of such numbers.
template <class T, class Step>
Row<T> step_row(const Step& step) {
  const unsigned states = step.states();
  std::vector<Draw> from{number, square, square};
  if (std::is_same_v<Step, kernels::RmspropStep>) from = {between(4, 6), between(-2, 2), number};
  if (std::is_same_v<Step, kernels::AdagradStep>) from = {square};
  if (std::is_same_v<Step, kernels::AdadeltaStep>) from = {square, square};
  std::vector<Draw> arrays{number, number};
  for (unsigned k = 0; k < from.size(); ++k)
    if (states >> k & 1) arrays.push_back(from[k]);
  const auto each_state = [states](auto f) {
    int given = 2;
    for (int k = 0; k < 3; ++k)
      if (states >> k & 1) f(k, given++);
  };
  return {typeid(Step).name(), arrays,
          [=](T* const* a, std::int64_t n) {
            kernels::StepArrays<T> on{a[0], a[1], {}};
            each_state([&](int k, int given) { on.state[k] = a[given]; });
            kernels::step_kernel<T, Step>()(step, on, n);
          },
          [=](Rounded<T>* a) {
            Rounded<T> s[3];
            each_state([&](int k, int given) { s[k] = a[given]; });
            const auto update = [&](auto mask) { step.template update<decltype(mask)::value>(a[0], a[1], s); };
            kernels::with_states(step, update, typename Step::Forms());
            each_state([&](int k, int given) { a[given] = s[k]; });
          }};
}

// Every step of the list, with its switches on and off, in its first step and in later ones.
template <class T>
std::vector<Row<T>> step_rows() {
  std::vector<Row<T>> rows;
  for (const int switches : {0, 1, 2, 3})
    for (const std::int64_t t : {1, 100}) {
      const bool first = (switches & 1) != 0, second = (switches & 2) != 0;
      const auto o = AnyOptions().nesterov(first).amsgrad(first).decoupled_weight_decay(first).centered(second);
      const auto plain = AnyOptions(o).momentum(0).weight_decay(0);
      double scalar = 0.9;
      const kernels::StepCount count{t, t == 1, &scalar};
      const auto add = [&](auto* type) {
        using Step = std::decay_t<decltype(*type)>;
        if constexpr (std::is_same_v<Step, kernels::AverageStep>)
          rows.push_back(step_row<T>(Step{0.9}));
        else if constexpr (std::is_same_v<Step, kernels::AdamStep>)
          rows.push_back(step_row<T>(Step(o, second, count))), rows.push_back(step_row<T>(Step(plain, false, count)));
        else
          rows.push_back(step_row<T>(Step(o, count))), rows.push_back(step_row<T>(Step(plain, count)));
      };
#define X(Step) add(static_cast<kernels::Step*>(nullptr));
      FIT_OPTIMIZER_STEPS(X)
#undef X
    }
  return rows;
}

}  // namespace

TEST_CASE("elementwise kernels are within their bounds of the reference", "[kernels]") {
  each_isa([] {
    check(binary_rows<float>());
    check(binary_rows<double>());
    check(neg_rows<float>());
    check(neg_rows<double>());
    check(root_rows<float>());
    check(root_rows<double>());
    check(clamp_rows<float>());
    check(clamp_rows<double>());
  });
}

TEST_CASE("comparisons and choices are those of plain loops", "[kernels]") {
  each_isa([] {
    for (const std::int64_t n : odd_sizes)
      for (const int sx : {0, 1})
        for (const int sy : {0, 1}) {
          check_choices<float>(n, sx, sy);
          check_choices<double>(n, sx, sy);
        }
  });
}

TEST_CASE("unary functions and their derivatives are within their bounds of the reference", "[kernels]") {
  each_isa([] {
    check(function_kernel_rows<float>());
    check(function_kernel_rows<double>());
  });
}

TEST_CASE("steps of optimisers are within the rounding of their reference", "[kernels]") {
  each_isa([] {
    check(step_rows<float>());
    check(step_rows<double>());
  });
}

// By hand: in its first step, Adam moves by the rate, whatever the gradient.
TEST_CASE("the reference of a step can be read and run", "[kernels]") {
  const auto o = AnyOptions().weight_decay(0).eps(0);
  double p = 1, g = -3, m = 0, v = 0;
  kernels::run_plain(kernels::AdamStep(o, false, {}), kernels::StepArrays<double>{&p, &g, {&m, &v, nullptr}}, 1);
  CHECK(p == Approx(1.3));
  CHECK(m == Approx(0.1 * -3));
  CHECK(v == Approx(0.02 * 9));
  // Lion moves by the rate, against the sign of what its average becomes, and not at all where that is 0.
  for (const auto& [slope, to] : std::vector<std::pair<double, double>>{{-3, 1.3}, {0, 1}, {3, 0.7}}) {
    double q = 1, d = slope, average = 0;
    kernels::run_plain(kernels::LionStep(o, {}), kernels::StepArrays<double>{&q, &d, {&average, nullptr, nullptr}}, 1);
    CHECK(q == Approx(to));
  }
}

}  // namespace fit::test::elementwise_kernels_test
