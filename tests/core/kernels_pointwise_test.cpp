#include <functional>
#include <string>
#include <utility>

#include "kernels/elementwise.hpp"
#include "kernels/optim.hpp"
#include "support/catch.hpp"
#include "support/function_rows.hpp"
#include "support/room.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// Kernels that compute element by element, each against its plain form: elementwise.hpp, functions.hpp, optim.hpp.
namespace fit::test {
namespace {

template <class T>
struct Row {
  std::string name;
  std::vector<Draw> arrays;  // where the elements of each array come from
  std::function<void(T* const* a, std::int64_t n)> kernel;
  std::function<void(Rounded<T>* a)> plain;  // on one element of each array, in place
};

// Every size from several places in memory: what the plain form changes, and that all else is left alone.
template <class T>
void check(const Row<T>& row) {
  std::mt19937_64 random(7);
  for (const std::int64_t n : odd_sizes)
    for (const std::int64_t offset : {0, 1, 5}) {
      INFO(row.name << ", " << sizeof(T) << " bytes, n = " << n << ", offset " << offset);
      std::vector<Room<T>> rooms;
      std::vector<std::vector<T>> before;
      std::vector<T*> at;
      for (const Draw& draw : row.arrays) {
        const auto step = static_cast<std::int64_t>(rooms.size());
        rooms.push_back(drawn<T>(n, offset == 0 ? 0 : offset + step, draw, random));
        before.push_back(rooms.back().values());
      }
      for (Room<T>& room : rooms) at.push_back(room.data());
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
      for (const Room<T>& room : rooms) CHECK(room.kept());
    }
}

template <class T>
void check(const std::vector<Row<T>>& rows) {
  for (const Row<T>& row : rows) check(row);
}

template <class T>
constexpr bool narrow = sizeof(T) == 4;

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
  Room<T> x = drawn<T>(sx ? n : 1, 1, few, random), y = drawn<T>(sy ? n : 1, 3, few, random), z(n, 5);
  Room<bool> c(n);
  for (std::int64_t i = 0; i < n; ++i) c[i] = random() % 2;
  k.choose(z.data(), c.data(), x.data(), y.data(), n, sx, sy);
  Worst worst;
  for (std::int64_t i = 0; i < n; ++i) worst.add(i, z[i], Rounded<T>(c[i] ? x[sx * i] : y[sy * i]));
  INFO("choose: " << worst);
  CHECK(worst.within_bounds());
  CHECK(z.kept());
  const auto compared = [&](const char* name, kernels::Comparison<T> kernel, auto plain) {
    INFO(name);
    Room<bool> verdict(n, 7);
    kernel(verdict.data(), x.data(), y.data(), n, sx, sy);
    bool right = verdict.kept();
    for (std::int64_t i = 0; i < n; ++i) right = right && verdict[i] == plain(x[sx * i], y[sy * i]);
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
    const Draw v = kernels::functions_from_output[static_cast<int>(row.kernel)]
                       ? Draw([any, f = row.value](std::mt19937_64& random) {
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

// Arrays: parameter, gradient, and the states that bits of `states` name; the plain form finds state k at a[2 + k].
template <class T, class Step>
Row<T> step_row(const std::string& name, const Step& step, unsigned states, const std::vector<Draw>& from,
                std::function<void(Rounded<T>& p, Rounded<T> g, Rounded<T>* s)> plain) {
  std::vector<Draw> arrays{number, number};
  for (unsigned k = 0; k < from.size(); ++k)
    if (states >> k & 1) arrays.push_back(from[k]);
  const auto each_state = [states](auto f) {
    int given = 2;
    for (int k = 0; k < 3; ++k)
      if (states >> k & 1) f(k, given++);
  };
  return {name, arrays,
          [=](T* const* a, std::int64_t n) {
            kernels::StepArrays<T> on{a[0], a[1], {}};
            each_state([&](int k, int given) { on.state[k] = a[given]; });
            static_cast<const kernels::StepKernel<T, Step>&>(kernels::optim<T>()).run(step, on, n);
          },
          [=](Rounded<T>* a) {
            Rounded<T> s[3];
            each_state([&](int k, int given) { s[k] = a[given]; });
            plain(a[0], a[1], s);
            each_state([&](int k, int given) { a[given] = s[k]; });
          }};
}

template <class T>
std::vector<Row<T>> sgd_and_adam_rows() {
  using R = Rounded<T>;
  const auto of = [](double v) { return R(static_cast<T>(v)); };
  std::vector<Row<T>> rows;
  for (const double decay : {0., 0.1}) {
    kernels::SgdStep plain{0.3, 0, 1, decay, false, false};
    rows.push_back(step_row<T>("sgd", plain, 0, {}, [=](R& p, R g, R*) {
      if (decay != 0) g = g + of(decay) * p;
      p = p - of(0.3) * g;
    }));
    for (const bool first : {false, true})
      for (const bool nesterov : {false, true}) {
        kernels::SgdStep step{0.3, 0.9, 0.8, decay, nesterov, first};
        rows.push_back(step_row<T>("sgd with momentum", step, 1, {number}, [=](R& p, R g, R* s) {
          if (decay != 0) g = g + of(decay) * p;
          s[0] = first ? g : of(0.9) * s[0] + of(0.8) * g;
          p = p - of(0.3) * (nesterov ? g + of(0.9) * s[0] : s[0]);
        }));
      }
    for (const bool amsgrad : {false, true})
      for (const double ahead : {0., 0.2}) {
        kernels::AdamStep step{0.3, 0.7, 0.98, 0.1, 0.02, 1e-3, decay, 0.9, ahead};
        rows.push_back(step_row<T>("adam", step, amsgrad ? 7 : 3, {number, square, square}, [=](R& p, R g, R* s) {
          p = of(0.9) * p;
          if (decay != 0) g = g + of(decay) * p;
          s[0] = s[0] + of(0.1) * (g - s[0]);
          s[1] = of(0.98) * s[1] + of(0.02) * (g * g);
          if (amsgrad) s[2] = max(s[2], s[1]);
          p = p - (of(0.3) * s[0] + of(ahead) * g) / (sqrt(amsgrad ? s[2] : s[1]) / of(0.7) + of(1e-3));
        }));
      }
  }
  return rows;
}

template <class T>
std::vector<Row<T>> other_step_rows() {
  using R = Rounded<T>;
  const auto of = [](double v) { return R(static_cast<T>(v)); };
  std::vector<Row<T>> rows;
  for (const double decay : {0., 0.1}) {
    rows.push_back(step_row<T>("adamax", kernels::AdamaxStep{0.3, 0.98, 0.1, 1e-3, decay}, 3, {number, square},
                               [=](R& p, R g, R* s) {
                                 g = g + of(decay) * p;
                                 s[0] = s[0] + of(0.1) * (g - s[0]);
                                 s[1] = max(of(0.98) * s[1], abs(g) + of(1e-3));
                                 p = p - of(0.3) * s[0] / s[1];
                               }));
    for (const bool centered : {false, true})
      for (const bool moves : {false, true})
        rows.push_back(step_row<T>("rmsprop", kernels::RmspropStep{0.3, 0.9, 0.1, 1e-2, 0.8, decay},
                                   1U | (centered ? 2U : 0U) | (moves ? 4U : 0U),
                                   {between(4, 6), between(-2, 2), number}, [=](R& p, R g, R* s) {
                                     g = g + of(decay) * p;
                                     s[0] = of(0.9) * s[0] + of(0.1) * (g * g);
                                     R spread = s[0];
                                     if (centered) {
                                       s[1] = s[1] + of(0.1) * (g - s[1]);
                                       spread = max(spread - s[1] * s[1], of(0));
                                     }
                                     const R d = g / (sqrt(spread) + of(1e-2));
                                     if (moves) s[2] = of(0.8) * s[2] + d;
                                     p = p - of(0.3) * (moves ? s[2] : d);
                                   }));
    for (const bool first : {false, true})
      rows.push_back(
          step_row<T>("adagrad", kernels::AdagradStep{0.3, 0.5, 1e-3, decay, first}, 1, {square}, [=](R& p, R g, R* s) {
            g = g + of(decay) * p;
            s[0] = (first ? of(0.5) : s[0]) + g * g;
            p = p - of(0.3) * g / (sqrt(s[0]) + of(1e-3));
          }));
  }
  rows.push_back(step_row<T>("lion", kernels::LionStep{0.3, 0.1, 0.02, 0.9}, 1, {number}, [=](R& p, R g, R* s) {
    p = of(0.9) * p - of(0.3) * sign(s[0] + of(0.1) * (g - s[0]));
    s[0] = s[0] + of(0.02) * (g - s[0]);
  }));
  rows.push_back(
      step_row<T>("average", kernels::AverageStep{0.1}, 0, {}, [=](R& p, R g, R*) { p = p + of(0.1) * (g - p); }));
  return rows;
}

}  // namespace

TEST_CASE("elementwise kernels are within their bounds of the plain form", "[kernels]") {
  each_isa([] {
    check(binary_rows<float>());
    check(binary_rows<double>());
    check(neg_rows<float>());
    check(neg_rows<double>());
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

TEST_CASE("functions of one number and their derivatives are within their bounds of the plain form", "[kernels]") {
  each_isa([] {
    check(function_kernel_rows<float>());
    check(function_kernel_rows<double>());
  });
}

TEST_CASE("steps of optimisers are within the rounding of their formulas", "[kernels]") {
  each_isa([] {
    check(sgd_and_adam_rows<float>());
    check(sgd_and_adam_rows<double>());
    check(other_step_rows<float>());
    check(other_step_rows<double>());
  });
}

}  // namespace fit::test
