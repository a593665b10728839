#include "optim/fused_step.hpp"

#include <functional>
#include <map>
#include <typeinfo>

#include "fit/nn/optim/optim.hpp"
#include "support/tables/kernel_rows.hpp"

// A constant of a formula is one of T, and then exact.
template <class T>
struct fit::optim::detail::Constant<fit::test::Rounded<T>, void> {
  static fit::test::Rounded<T> of(double x) { return fit::test::Rounded<T>(static_cast<T>(x)); }
};

// The kernels of the optimisers' formulas, each against its reference.
namespace fit::test::fused_step_test {
namespace {

using optim::detail::Formula;

const Draw number = sometimes({0}, between(-2, 2)), square = sometimes({0}, between(0, 3));

// Sets all options: to these numbers, and the switches in turn to the bits of `switches`.
class SetOptions {
 public:
  SetOptions(unsigned switches, bool plain) : switches_(switches), plain_(plain) {}
  template <class T>
  SetOptions& any(const std::string& name, T& value) {
    static const std::map<std::string, double> numbers{{"lr", 0.3},
                                                       {"beta1", 0.9},
                                                       {"beta2", 0.98},
                                                       {"eps", 1e-2},
                                                       {"weight_decay", 0.1},
                                                       {"alpha", 0.9},
                                                       {"momentum", 0.8},
                                                       {"dampening", 0.2},
                                                       {"lr_decay", 0.1},
                                                       {"initial_accumulator_value", 0.5},
                                                       {"momentum_decay", 4e-3},
                                                       {"rho", 0.9}};
    if constexpr (std::is_same_v<T, bool>) {
      if (name == "maximize") return *this;
      value = switches_ & 1;
      switches_ >>= 1;
    } else {
      value = plain_ && (name == "momentum" || name == "weight_decay") ? 0 : numbers.at(name);
    }
    return *this;
  }
  template <class T>
  SetOptions& not_negative(const std::string& name, T& value) {
    return any(name, value);
  }
  template <class T>
  SetOptions& below_1(const std::string& name, T& value) {
    return any(name, value);
  }

 private:
  unsigned switches_;
  bool plain_;
};

// Arrays: parameter, gradient, and the states that the step has. The reference is the library's own, of such numbers.
template <class T, class Step>
Row<T> step_row(const Step& step) {
  const unsigned states = step.states();
  std::vector<Draw> from{number, square, square};
  if (std::is_same_v<Step, Formula<optim::RMSpropOptions>>) from = {between(4, 6), between(-2, 2), number};
  if (std::is_same_v<Step, Formula<optim::AdagradOptions>>) from = {square};
  if (std::is_same_v<Step, Formula<optim::AdadeltaOptions>>) from = {square, square};
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

// The formula of each optimiser with a kernel, with its switches on and off, in its first step and in later ones.
template <class T>
std::vector<Row<T>> step_rows() {
  std::vector<Row<T>> rows;
  const auto add = [&](auto formula, std::int64_t t, unsigned switches, bool plain) {
    SetOptions set(switches, plain);
    formula.options(set);
    double scalar = 0.9;
    formula.begin({t, t == 1, &scalar});
    rows.push_back(step_row<T>(formula));
  };
  for (const std::int64_t t : {1, 100})
    for (const unsigned switches : {0u, 1u})
      for (const bool plain : {false, true}) {
#define ELEMENTWISE(NAME) add(Formula<optim::NAME##Options>(), t, switches, plain);
#define TENSORS(NAME)
        FIT_OPTIMIZERS(ELEMENTWISE, TENSORS)
#undef ELEMENTWISE
#undef TENSORS
      }
  rows.push_back(step_row<T>(kernels::AverageStep{0.9}));
  return rows;
}

}  // namespace

TEST_CASE("steps of optimisers are within the rounding of their reference", "[kernels]") {
  each_isa([] {
    check_rows(step_rows<float>());
    check_rows(step_rows<double>());
  });
}

// By hand: in its first step, Adam moves by the rate, whatever the gradient.
TEST_CASE("the reference of a step can be read and run", "[kernels]") {
  Formula<optim::AdamOptions> adam;
  adam.lr(0.3).beta2(0.98).eps(0);
  adam.begin({});
  double p = 1, g = -3, m = 0, v = 0;
  kernels::run_step<kernels::PlainLoop<double>>(adam, kernels::StepArrays<double>{&p, &g, {&m, &v, nullptr}}, 1);
  CHECK(p == Approx(1.3));
  CHECK(m == Approx(0.1 * -3));
  CHECK(v == Approx(0.02 * 9));
  // Lion moves by the rate, against the sign of what its average becomes, and not at all where that is 0.
  Formula<optim::LionOptions> lion;
  lion.lr(0.3);
  for (const auto& [slope, to] : std::vector<std::pair<double, double>>{{-3, 1.3}, {0, 1}, {3, 0.7}}) {
    double q = 1, d = slope, average = 0;
    kernels::run_step<kernels::PlainLoop<double>>(lion,
                                                  kernels::StepArrays<double>{&q, &d, {&average, nullptr, nullptr}}, 1);
    CHECK(q == Approx(to));
  }
}

}  // namespace fit::test::fused_step_test
