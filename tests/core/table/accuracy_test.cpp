#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iomanip>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <vector>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/oracles/error_units.hpp"
#include "support/oracles/exact_functions.hpp"
#include "support/tables/accuracy_table.hpp"
#include "support/tables/function_rows.hpp"
#include "support/variants.hpp"

// How far functions of one and two numbers and their derivatives are from the exact values, on every instruction set,
// what they give for special numbers, and that docs/accuracy.md says the same. `tests/long accuracy` takes all 2^32
// numbers of float32 and writes the tables; here is a sample of them.
//   FIT_ACCURACY_POINTS    how many numbers of float32: a power of two. Second derivatives, functions of two
//                          numbers and float64 take at most 2^22.
//   FIT_ACCURACY_FUNCTION  some functions only, by their names in the table, with commas between them
//   FIT_ACCURACY_PAGE      the page in which to write the tables, after each function
//   FIT_ACCURACY_RESUME    leaves out functions that the page has with so many numbers
namespace fit::test::accuracy_test {
namespace {

std::string from_environment(const char* name, const char* otherwise = "") {
  const char* const given = std::getenv(name);
  return given ? given : otherwise;
}
bool is_wanted(const std::string& function) {
  const std::string only = from_environment("FIT_ACCURACY_FUNCTION");
  return only.empty() || (',' + only + ',').find(',' + function + ',') != std::string::npos;
}

using Found = std::map<std::string, WorstUnits>;  // by "function quantity"

// The largest error, or `before` if none is larger.
template <class T>
WorstUnits compare(const Tensor& x, const Tensor& got, const Exact<T>* want, Range range, const WorstUnits& before) {
  std::mutex mutex;
  WorstUnits all = before;
  const T *const at = x.data<T>().data(), *const ours = got.data<T>().data();
  parallel_for(x.numel(), 1 << 12, [&](std::int64_t i, std::int64_t end) {
    WorstUnits here = before;
    keep_worst(at + i, ours + i, want + i, end - i, range, here);
    const std::lock_guard lock(mutex);
    if (!(here.units <= all.units)) all = here;
  });
  return all;
}

// Compares one quantity with the exact numbers, and the error with the bound of the page.
template <class T>
void note(const std::string& name, const Tensor& x, const Tensor& got, const Exact<T>* want, Range range,
          Found& found) {
  const WorstUnits worst = compare<T>(x, got, want, range, found[name]);
  const auto row = accuracy_table().find(name);
  const bool allowed = row != accuracy_table().end() &&
                       worst.units <= (sizeof(T) == 4 ? row->second.narrow_bound : row->second.wide_bound);
  INFO(name << " in " << dtype_of<T>() << " at " << std::setprecision(17) << worst.at << ": " << worst.got
            << ", exactly " << worst.want << ", " << worst.units << " units");
  if (!allowed && from_environment("FIT_ACCURACY_PAGE").empty()) FAIL_CHECK("is off more than docs/accuracy.md allows");
  found[name] = worst;
}

// ---- functions of one number ----------------------------------------------------------------------------------------

struct Measurable {
  std::function<Tensor(const Tensor& x)> f;
  exact::Function truth;
};

const std::vector<Measurable>& measurable() {
  static const auto all = [] {
    std::vector<Measurable> all;
    std::map<std::string, exact::Function> truths;
    for (const auto& list : {exact::transcendental(), exact::piecewise()})
      for (const exact::Function& f : list) truths[f.name] = f;
    for (const FunctionRow& row : function_rows()) {
      INFO("support/oracles/exact_functions.hpp must have " << row.name);
      REQUIRE(truths.count(row.name) == 1);
      all.push_back({row.f, truths[row.name]});
    }
    for (const double e : {-1., -0.5, 0.125, 0.5, 1.5, 2., 3.}) {
      std::ostringstream name;
      name << "pow " << e;
      all.push_back({[e](const Tensor& x) { return pow(x, e); }, exact::power(e, name.str())});
    }
    return all;
  }();
  return all;
}

// The value and the first derivative, and the second if `order` is 2.
std::vector<Tensor> with_derivatives(const std::function<Tensor(const Tensor& x)>& f, const Tensor& x, int order) {
  const Tensor leaf = x.detach().requires_grad_(), y = f(leaf);
  if (order < 2) return {y.detach(), grad({sum(y)}, {leaf})[0]};
  const Tensor first = grad({sum(y)}, {leaf}, {}, create_graph)[0];
  return {y.detach(), first.detach(), first.requires_grad() ? grad({sum(first)}, {leaf})[0] : zeros_like(x)};
}

// Calls body() for the instruction sets to measure. Of very many numbers, base is left out where there are wider ones:
// it computes fused multiply-adds in software. Its bits are theirs (one_result_test.cpp).
template <class Body>
void each_measured_isa(int order, const Body& body) {
  using kernels::Isa;
  if (order == 2 || kernels::isa() == Isa::base) return each_isa(body);
  each_of({Isa::neon, Isa::avx2, Isa::avx512}, body);
}

template <class T>
void measure(const Measurable& m, const std::vector<T>& numbers, int order, Found& found) {
  const Tensor x = tensor(numbers, {static_cast<std::int64_t>(numbers.size())});
  const std::vector<Exact<T>> at(numbers.begin(), numbers.end());
  std::unique_ptr<Exact<T>[]> want[3];
  for (int n = 0; n <= order; ++n) {
    want[n].reset(new Exact<T>[numbers.size()]);  // without zeros
    const auto& f = m.truth.order<Exact<T>>(static_cast<std::size_t>(n));
    parallel_for(x.numel(), 1 << 10,
                 [&](std::int64_t i, std::int64_t end) { f(at.data() + i, want[n].get() + i, end - i); });
  }
  constexpr const char* quantities[] = {" value", " dx", " ddx"};
  std::vector<Tensor> before;
  each_measured_isa(order, [&] {
    std::vector<Tensor> got = with_derivatives(m.f, x, order);
    for (std::size_t n = 0; n < got.size(); ++n)
      if (before.empty() || !same_bits(got[n], before[n]))
        note<T>(m.truth.name + quantities[n], x, got[n], want[n].get(), n == 2 ? Range::normal : Range::all, found);
    before = std::move(got);
  });
}

// Calls body(numbers) for `count` numbers of T, a power of two, whose bits are evenly apart, block by block. Zeros,
// infinities and NaN are left out: the table of special numbers has them.
template <class T, class Body>
void each_block(std::uint64_t count, const Body& body) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto step =
      static_cast<std::uint64_t>(std::ldexp(1., std::numeric_limits<Bits>::digits) / static_cast<double>(count));
  const std::uint64_t size = std::min(count, std::uint64_t{1} << 16);
  for (std::uint64_t from = 0; from < count; from += size) {
    std::vector<T> numbers(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const Bits bits = static_cast<Bits>((from + i) * step);
      std::memcpy(&numbers[i], &bits, sizeof bits);
    }
    const auto is_special = [](T x) { return !std::isfinite(x) || x == 0; };
    numbers.erase(std::remove_if(numbers.begin(), numbers.end(), is_special), numbers.end());
    if (!numbers.empty()) body(numbers);
  }
}

// Where functions bend, where their results leave the type's range, and next to the zeros of their derivatives.
template <class T>
std::vector<T> dense() {
  std::vector<T> all;
  for (int i = -6000; i <= 6000; ++i)
    for (const double size : {2., 16., 110., 750.}) all.push_back(static_cast<T>(size * (i + 0.37) / 6000));
  for (const T least : {std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::min()})
    for (int i = 1; i < 40; ++i)
      for (const int sign : {1, -1}) all.push_back(static_cast<T>(sign * i) * least);
  // Next to the ends of the range of e^x.
  for (const double x : {88.7, 88.72, 88.73, -87.4, -103.9, -104., 709.7, 709.78, 709.79, -745.1, -746., 1e-40, -1e-40})
    if (static_cast<T>(x) != 0) all.push_back(static_cast<T>(x));
  const double zeros[] = {
      1.2784645427610737, 2.3993572805154675, 0.7517915246935645, 1.4142135623730951, 0.7524614220710163,
      1.4185040087908283, 1.1924312145154952, 2.256376396360793,  1.4905711794854284, 1.,
      1.5707963267948966};
  for (const double zero : zeros)
    for (int k = 1; k < 1.1 * std::numeric_limits<T>::digits; ++k)
      for (const double away : {std::exp2(-k), -1.4 * std::exp2(-k)})
        for (const int sign : {1, -1}) all.push_back(static_cast<T>(sign * (zero + away)));
  return all;
}

constexpr std::uint64_t most = 1 << 22;

template <class T>
void measure_function(const Measurable& m, std::uint64_t points, Found& found) {
  const std::uint64_t few = std::min(points, most);
  measure<T>(m, dense<T>(), 2, found);
  each_block<T>(few, [&](const std::vector<T>& x) { measure<T>(m, x, 2, found); });
  if (sizeof(T) == 4 && points > few)
    each_block<T>(points, [&](const std::vector<T>& x) { measure<T>(m, x, 1, found); });
}

// ---- functions of two numbers ---------------------------------------------------------------------------------------

struct OfTwo {
  std::string name;
  Tensor (*f)(const Tensor& x, const Tensor& y);
  long double (*value)(long double x, long double y);
  long double (*dx)(long double x, long double y);
  long double (*dy)(long double x, long double y);
};

const OfTwo div_row{"div", [](const Tensor& x, const Tensor& y) { return div(x, y); },
                    [](long double x, long double y) { return x / y; },
                    [](long double, long double y) { return 1 / y; },
                    [](long double x, long double y) { return -x / y / y; }};
const OfTwo pow_row{"pow", [](const Tensor& x, const Tensor& y) { return pow(x, y); },
                    [](long double x, long double y) { return std::pow(x, y); },
                    [](long double x, long double y) { return y == 0 ? 0 : y * std::pow(x, y) / x; },
                    [](long double x, long double y) { return std::pow(x, y) * std::log(x); }};

template <class T>
void measure_pairs(const OfTwo& row, std::uint64_t points, Found& found) {
  std::mt19937_64 random(7);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  constexpr int top = std::numeric_limits<T>::max_exponent;
  for (std::uint64_t done = 0; done < std::min(points, most); done += 1 << 14) {
    std::vector<T> x, y;
    for (int i = 0; i < 1 << 14; ++i) {
      const bool wide = i % 2 == 0;  // normal numbers of every size, or such that most powers are within the range
      x.push_back(static_cast<T>(std::exp2(uniform() * (wide ? top - 2 : 40))));
      y.push_back(static_cast<T>(wide ? std::exp2(uniform() * top) * (uniform() > 0 ? 1 : -1) : uniform() * 3));
    }
    std::vector<Exact<T>> value, dx, dy;
    for (std::size_t i = 0; i < x.size(); ++i) {
      value.push_back(static_cast<Exact<T>>(row.value(x[i], y[i])));
      dx.push_back(static_cast<Exact<T>>(row.dx(x[i], y[i])));
      dy.push_back(static_cast<Exact<T>>(row.dy(x[i], y[i])));
    }
    each_isa([&] {
      const Tensor a = tensor(x).requires_grad_(), b = tensor(y).requires_grad_(), z = row.f(a, b);
      const std::vector<Tensor> slopes = grad({sum(z)}, {a, b});
      note<T>(row.name + " value", a, z.detach(), value.data(), Range::all, found);
      note<T>(row.name + " dx", a, slopes[0], dx.data(), Range::normal, found);
      note<T>(row.name + " dy", a, slopes[1], dy.data(), Range::normal, found);
    });
  }
}

// ---- the page -------------------------------------------------------------------------------------------------------

const std::string errors_head = "| function | float32 | at | at most | float64 | at | at most | numbers of float32 |";
const std::string special_head = "| function | -inf | -max | -least | -0 | 0 | least | max | inf | nan |";

std::string page_path() { return FIT_GOLDEN_DIR "/../../docs/accuracy.md"; }
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What was found, as the table says it: rounded up, with a bound that leaves half a unit.
Accuracy said(const WorstUnits& narrow, const WorstUnits& wide, int log_points) {
  const auto up = [](double units) { return std::ceil(units * 10) / 10; };
  const auto bound = [](double units) { return units == 0 ? 0 : std::ceil(units + 0.5); };
  return {up(narrow.units), narrow.at, bound(narrow.units), up(wide.units), wide.at, bound(wide.units), log_points};
}
std::string line_of(const std::string& name, const Accuracy& a) {
  std::ostringstream s;
  const auto add = [&s](double units, double at, double bound) {
    s << " | " << std::fixed << std::setprecision(1) << units << " | " << std::defaultfloat << std::setprecision(6)
      << at << " | " << bound;
  };
  s << "| " << name;
  add(a.narrow, a.narrow_at, a.narrow_bound);
  add(a.wide, a.wide_at, a.wide_bound);
  s << " | 2^" << a.log_points << " |\n";
  return s.str();
}

// Replaces the lines below `head` and its rule, up to an empty one.
void write_table(const std::string& path, const std::string& head, const std::string& lines) {
  std::string page = text_of(path);
  const auto from = page.find('\n', page.find('\n', page.find(head)) + 1) + 1, to = page.find("\n\n", from - 1);
  REQUIRE((page.find(head) != std::string::npos && to != std::string::npos));
  page.replace(from, to + 1 - from, lines);
  std::ofstream(path) << page;
}

std::string number(double v) {
  if (std::isnan(v)) return "nan";
  std::ostringstream s;
  s << v;
  return s.str();
}

// What each function and its derivative give for special numbers of T: the columns of the table.
template <class T>
std::string special_lines() {
  using Limits = std::numeric_limits<T>;
  constexpr T most = Limits::max(), least = Limits::denorm_min(), inf = Limits::infinity();
  const std::vector<T> numbers = {-inf, -most, -least, T(-0.), T(0), least, most, inf, Limits::quiet_NaN()};
  std::string lines;
  for (const Measurable& m : measurable()) {
    const std::vector<Tensor> got = with_derivatives(m.f, tensor(numbers), 1);
    for (const std::size_t n : {0, 1}) {
      lines += "| " + m.truth.name + (n == 0 ? "" : "'");
      for (const T v : got[n].template to_vector<T>()) lines += " | " + number(v);
      lines += " |\n";
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("functions and derivatives are as exact as docs/accuracy.md says", "[accuracy]") {
  const std::uint64_t points = std::stoull(from_environment("FIT_ACCURACY_POINTS", "16384"));
  const std::string page = from_environment("FIT_ACCURACY_PAGE");
  std::map<std::string, Accuracy> table = accuracy_table();
  const auto log_of = [](std::uint64_t n) { return static_cast<int>(std::log2(static_cast<double>(n))); };
  const auto done = [&](const std::string& function) {
    const auto row = table.find(function + " dx");
    return row != table.end() && row->second.log_points >= log_of(points);
  };
  // Writes the rows of a function, or compares them with the page.
  const auto each = [&](const std::string& function, bool of_two, const auto& measure) {
    if (!is_wanted(function) || (!from_environment("FIT_ACCURACY_RESUME").empty() && done(function))) return;
    Found narrow, wide;
    measure(narrow, wide);
    for (const auto& [name, worst] : narrow) {
      const bool first = !of_two && name != function + " ddx";
      const Accuracy now = said(worst, wide[name], log_of(first ? points : std::min(points, most))),
                     before = std::exchange(table[name], now);
      INFO("tests/long accuracy writes " << line_of(name, now));
      if (page.empty()) CHECK((now.narrow <= before.narrow && now.wide <= before.wide));
    }
    if (page.empty()) return;
    std::string lines;
    for (const auto& [name, row] : table) lines += line_of(name, row);
    write_table(page, errors_head, lines);
  };
  for (const Measurable& m : measurable())
    each(m.truth.name, false, [&](Found& narrow, Found& wide) {
      measure_function<float>(m, points, narrow);
      measure_function<double>(m, points, wide);
    });
  for (const OfTwo& row : {div_row, pow_row})
    each(row.name, true, [&](Found& narrow, Found& wide) {
      measure_pairs<float>(row, points, narrow);
      measure_pairs<double>(row, points, wide);
    });
}

TEST_CASE("functions give for special numbers what docs/accuracy.md says", "[accuracy]") {
  const std::string page = from_environment("FIT_ACCURACY_PAGE");
  if (!page.empty()) return write_table(page, special_head, special_lines<float>());
  const std::string text = text_of(page_path());
  each_isa([&] {
    std::istringstream lines(special_lines<float>());
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(text.find('\n' + line + '\n') != std::string::npos);
    }
  });
}

}  // namespace fit::test::accuracy_test
