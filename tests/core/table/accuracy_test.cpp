#include <cmath>
#include <fstream>
#include <functional>
#include <iomanip>
#include <map>
#include <sstream>
#include <vector>

#include "fit/io/npy.hpp"
#include "fit/ops/ops.hpp"
#include "support/accuracy_table.hpp"
#include "support/catch.hpp"
#include "support/function_rows.hpp"
#include "support/rounding.hpp"
#include "support/variants.hpp"

// How far functions of one and two numbers and their derivatives are from the exact values of golden/accuracy.py, on
// every instruction set; and that the table of docs/accuracy.md says the same.
namespace fit::test::accuracy_test {
namespace {

struct Measurable {
  std::string name;
  std::function<Tensor(const Tensor& x, const Tensor& y)> f;
  FunctionRow::LeastSize size_of_slope = [](double) { return 0.; };
};

// The unary functions that accuracy.npy knows, powers, and functions of two numbers.
std::vector<Measurable> measurable() {
  std::vector<Measurable> all;
  for (const FunctionRow& row : function_rows())
    all.push_back({row.name, [f = row.f](const Tensor& x, const Tensor&) { return f(x); }, row.derivative_size});
  for (const double e : {-1., -0.5, 0.125, 0.5, 1.5, 2., 3.}) {
    std::ostringstream name;
    name << "pow " << e;
    all.push_back({name.str(), [e](const Tensor& x, const Tensor&) { return pow(x, e); }});
  }
  all.push_back({"div", [](const Tensor& x, const Tensor& y) { return div(x, y); }});
  all.push_back({"pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); }});
  return all;
}

// The rows of golden/accuracy.npy by their names, "exp value".
const std::map<std::string, Tensor>& exact() {
  static const auto all = [] {
    const Tensor numbers = load_npy(FIT_GOLDEN_DIR "/accuracy.npy");
    std::ifstream names(FIT_GOLDEN_DIR "/accuracy.txt");
    std::map<std::string, Tensor> rows;
    std::int64_t i = 0;
    for (std::string name; std::getline(names, name); ++i) rows[name] = numbers[i];
    return rows;
  }();
  return all;
}
Tensor exact(const std::string& name) {
  const auto row = exact().find(name);
  return row == exact().end() ? Tensor() : row->second;
}

struct Measured {
  double units = 0, x = 0, got = 0, want = 0;
};

template <class T>
Measured distance(const Tensor& got, const Tensor& want, const Tensor& x, FunctionRow::LeastSize least) {
  Measured worst;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double at = x.data<double>()[i], size = least(at), exact = want.data<double>()[i];
    const T ours = got.data<T>()[i];
    double off = units_off(ours, static_cast<long double>(exact));
    if (std::abs(exact) < size && std::isfinite(off))
      off = std::abs(ours - exact) / (size * std::numeric_limits<T>::epsilon() / 2);
    if (off > worst.units) worst = {off, at, static_cast<double>(ours), exact};
  }
  return worst;
}

// The worst over value, dx and dy, by "function quantity", in one type and on one instruction set.
template <class T>
void measure(std::map<std::string, Measured>& worst) {
  for (const Measurable& f : measurable()) {
    const std::string& name = f.name;
    const Tensor at = exact(name + " x"), other = exact(name + " y");
    if (!at.defined()) continue;
    const Tensor x = at.to(dtype_of<T>()).clone().requires_grad_();
    const Tensor y = other.defined() ? other.to(dtype_of<T>()).clone().requires_grad_() : Tensor();
    const Tensor value = f.f(x, y);
    value.backward(ones_like(value));
    const auto compare = [&](const char* quantity, const Tensor& got, FunctionRow::LeastSize least) {
      Measured& all = worst[name + ' ' + quantity];
      const Measured now = distance<T>(got.detach(), exact(name + ' ' + quantity), at, least);
      if (now.units > all.units || now.units != now.units) all = now;
    };
    compare("value", value, [](double) { return 0.; });
    compare("dx", x.grad(), f.size_of_slope);
    if (y.defined()) compare("dy", y.grad(), [](double) { return 0.; });
  }
}

// The line of the table that would be right; bounds that are there stay.
std::string line_of(const std::string& name, double narrow, double wide) {
  const auto row = accuracy_table().find(name);
  const bool known = row != accuracy_table().end();
  std::ostringstream s;
  s << std::fixed << std::setprecision(1) << "| " << name << " | " << narrow << " | " << std::defaultfloat
    << (known ? row->second.narrow_bound : std::ceil(narrow + 0.5)) << " | " << std::fixed << wide << " | "
    << std::defaultfloat << (known ? row->second.wide_bound : std::ceil(wide + 0.5)) << " |\n";
  return s.str();
}

}  // namespace

TEST_CASE("functions and derivatives are as exact as docs/accuracy.md says", "[accuracy]") {
  std::map<std::string, Measured> narrow, wide;  // on base and AVX2
  const auto check = [](const char* type, const std::map<std::string, Measured>& measured, double Accuracy::*bound) {
    for (const auto& [name, worst] : measured) {
      const auto row = accuracy_table().find(name);
      INFO(name << " in " << type << " at " << worst.x << ": " << worst.got << ", exactly " << worst.want);
      CHECK((row != accuracy_table().end() && worst.units <= row->second.*bound));
    }
  };
  const auto keep_worse = [](std::map<std::string, Measured>& all, const std::map<std::string, Measured>& now) {
    for (const auto& [name, worst] : now)
      if (!(worst.units <= all[name].units)) all[name] = worst;
  };
  each_isa([&] {
    std::map<std::string, Measured> here32, here64;
    measure<float>(here32);
    measure<double>(here64);
    check("float32", here32, &Accuracy::narrow_bound);
    check("float64", here64, &Accuracy::wide_bound);
    if (kernels::isa() != kernels::Isa::base && kernels::isa() != kernels::Isa::avx2) return;
    keep_worse(narrow, here32);
    keep_worse(wide, here64);
  });
  if (narrow.empty()) return;  // arm64: the bounds hold, and what was found is of base and AVX2
  std::string right;
  bool agrees = narrow.size() == accuracy_table().size();
  for (const auto& [name, worst] : narrow) {
    right += line_of(name, worst.units, wide[name].units);
    const auto row = accuracy_table().find(name);
    const auto close = [](double said, double found) { return std::abs(said - found) <= 0.2 + 0.1 * found; };
    agrees = agrees && row != accuracy_table().end() && close(row->second.narrow, worst.units) &&
             close(row->second.wide, wide[name].units);
  }
  INFO("the table that would be right:\n" << right);
  CHECK(agrees);
}

}  // namespace fit::test::accuracy_test
