#include "fit/backward/gradcheck.hpp"

#include <sstream>

#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// The checker is checked: it must catch what can go wrong in an adjoint, and pass what is right.
namespace fit::test::gradcheck_test {
namespace {

using Values = std::vector<Tensor>;

Tensor inputs_of(const Shape& shape, const Domain& d = domain::nonzero) {
  std::mt19937_64 random(11);
  return random_tensor(shape, d, random);
}

// x^2, whose adjoint goes through `spoil`, a plain function on the gradient's elements.
template <void (*spoil)(double* g, std::int64_t n)>
Tensor square(const Values& in) {
  const Tensor& x = in[0];
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  for (std::int64_t i = 0; i < x.numel(); ++i) y.fresh<double>()[i] = x.data<double>()[i] * x.data<double>()[i];
  return record("square", {x}, std::move(y), keep::inputs, [](Backward& b) {
    Tensor g = mul(mul(b.dy(), b.x(0)), 2.0);
    spoil(g.fresh<double>(), g.numel());
    b.give(0, g);
  });
}

void leave(double*, std::int64_t) {}
void scale_a_little(double* g, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) g[i] *= 1.0005;
}
void flip_one(double* g, std::int64_t n) { g[n / 2] = -g[n / 2]; }
void make_one_nan(double* g, std::int64_t) { g[0] = NAN; }

// a [N, C] * b [C]
template <bool right>
Tensor scale_rows(const Values& in) {
  const NoGrad no_grad;
  Tensor y = mul(in[0], in[1]);
  const EnableGrad on;
  return record("scale_rows", {in[0], in[1]}, std::move(y), keep::inputs, [](Backward& b) {
    b.give(0, mul(b.dy(), b.x(1)));
    const Tensor all = mul(b.dy(), b.x(0));
    Tensor first = Tensor::empty(b.shape(1), float64);
    for (std::int64_t i = 0; i < first.numel(); ++i) first.fresh<double>()[i] = all.data<double>()[i];
    b.give(1, right ? all : first);  // give() sums what is broadcast
  });
}

bool ok(const TensorFunction& f, const Values& in, int order = 1) {
  return check_gradients(f, in, GradCheckOptions().order(order)).ok;
}

}  // namespace

TEST_CASE("check_gradients passes what is right", "[gradcheck]") {
  CHECK(ok(square<leave>, {inputs_of({2, 3})}, 2));
  CHECK(ok(square<leave>, {inputs_of({})}, 2));
  CHECK(ok(square<leave>, {inputs_of({0})}, 2));
  CHECK(ok(square<leave>, {inputs_of({3000})}, 2));
  CHECK(ok(scale_rows<true>, {inputs_of({4, 3}), inputs_of({3})}, 2));
  CHECK(ok([](const Values& in) { return in[0]; }, {inputs_of({3})}, 2));
}

TEST_CASE("check_gradients passes derivatives that have a kink", "[gradcheck]") {
  // |x|^p has p - 1 derivatives at 0; differences are off by a power of the step.
  const Tensor x = tensor({0., 1., -0.5}, float64);
  const auto twice = GradCheckOptions().order(2);
  for (const double p : {2.5, 3., 4.}) {
    INFO("p = " << p);
    const auto report = check_gradients([p](const auto& in) { return norm(in[0], p); }, {x}, twice);
    INFO(report);
    CHECK(report.ok);
  }
  const auto squared = [](const auto& in) { return square(relu(in[0])); };
  CHECK(check_gradients(squared, {x}).ok);
  // A kink of the function itself stays one, and a jump of the derivative, too.
  CHECK_FALSE(check_gradients([](const auto& in) { return relu(in[0]); }, {x}).ok);
  CHECK_FALSE(check_gradients(squared, {x}, twice).ok);
}

TEST_CASE("check_gradients catches a gradient that is off by 0.05 %", "[gradcheck]") {
  CHECK_FALSE(ok(square<scale_a_little>, {inputs_of({2, 3})}));
  CHECK_FALSE(ok(square<scale_a_little>, {inputs_of({3000})}));
}

TEST_CASE("check_gradients catches a wrong sign in one element", "[gradcheck]") {
  CHECK_FALSE(ok(square<flip_one>, {inputs_of({2, 3})}));
  CHECK_FALSE(ok(square<flip_one>, {inputs_of({3000})}));
}

TEST_CASE("check_gradients catches a NaN", "[gradcheck]") {
  CHECK_FALSE(ok(square<make_one_nan>, {inputs_of({2, 3})}));
  CHECK_FALSE(ok(square<make_one_nan>, {inputs_of({3000})}));
}

TEST_CASE("check_gradients catches a broadcast whose gradient is not summed", "[gradcheck]") {
  CHECK_FALSE(ok(scale_rows<false>, {inputs_of({4, 3}), inputs_of({3})}));
  CHECK_FALSE(ok(scale_rows<false>, {inputs_of({400, 3}), inputs_of({3})}));
}

TEST_CASE("check_gradients catches what a plain sum would hide", "[gradcheck]") {
  // x / sum(x): the elements' sum is 1 whatever x is, so with ones for a cotangent the gradient is 0.
  const auto without_gradient = [](const Values& in) {
    double sum = 0;
    for (const double v : in[0].data<double>()) sum += v;
    const NoGrad no_grad;
    Tensor y = div(in[0], sum);
    const EnableGrad on;
    return record("normalise", {in[0]}, std::move(y), keep::nothing,
                  [](Backward& b) { b.give(0, zeros(b.shape(0), float64)); });
  };
  CHECK_FALSE(ok(without_gradient, {inputs_of({5}, domain::positive)}));
}

TEST_CASE("check_gradients catches a gradient that is lost", "[gradcheck]") {
  CHECK_FALSE(ok([](const Values& in) { return mul(in[0], in[0].detach()); }, {inputs_of({3})}));
  CHECK_FALSE(ok([](const Values& in) { return in[0].detach(); }, {inputs_of({3})}));
}

TEST_CASE("check_gradients with order 2 catches a gradient that can't be differentiated again", "[gradcheck]") {
  const auto cut = [](const Values& in) {
    const NoGrad no_grad;
    Tensor y = mul(in[0], in[0]);
    const EnableGrad on;
    return record("cut", {in[0]}, std::move(y), keep::inputs,
                  [](Backward& b) { b.give(0, mul(mul(b.dy(), b.x(0).detach()), 2.0)); });
  };
  CHECK(ok(cut, {inputs_of({3})}, 1));
  CHECK_FALSE(ok(cut, {inputs_of({3})}, 2));
}

TEST_CASE("check_gradients gives the Jacobian entry by entry", "[gradcheck]") {
  auto options = GradCheckOptions().jacobian().names({"a", "b"});
  const Tensor a = tensor({2., 3.}, float64), b = tensor({5., 7.}, float64);
  const GradReport report = check_gradients([](const Values& in) { return mul(in[0], in[1]); }, {a, b}, options);
  CHECK(report.ok);
  CHECK(report.op == "mul");
  REQUIRE(report.entries.size() == 8);  // two outputs by two elements of two inputs
  const double expected[] = {5, 0, 2, 0, 0, 7, 0, 3};
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(report.entries[i].analytic == expected[i]);
    CHECK(report.entries[i].numeric == Approx(expected[i]).margin(1e-7));
  }
  std::ostringstream text;
  text << report;
  CHECK(text.str().find("ok    mul: d output 0 [0] / d a [0]: analytic 5, numeric 5") == 0);
  const auto wrong = [](const Values& in) { return Values{square<flip_one>({in[0]})}; };
  const GradReport found = check_gradients(wrong, {inputs_of({2})}, options);
  CHECK_FALSE(found.ok);
  CHECK(found.entries.size() == 4);
  CHECK(found.entries[0].wrong + found.entries[1].wrong + found.entries[2].wrong + found.entries[3].wrong == 1);
  options.order(2);
  CHECK_THROWS_WITH(check_gradients(wrong, {a}, options), Catch::Contains("jacobian with order 2"));
  const auto refused = [&](const Tensor& x, const GradCheckOptions& o, const char* text) {
    CHECK_THROWS_WITH(check_gradients(wrong, {x}, o), Catch::Contains(text));
  };
  refused(a, GradCheckOptions().directions(0), "directions is 0: it must be positive");
  refused(a, GradCheckOptions().eps(0), "eps is 0: it must be positive and finite");
  refused(a, GradCheckOptions().rtol(nan), "rtol is nan, atol 1e-07: neither may be negative");
  refused(arange(3), {}, "none of the 1 inputs is floating");
}

TEST_CASE("check_gradients checks every input and every output", "[gradcheck]") {
  const auto f = [](const Values& in) { return Values{mul(in[0], in[1]), square<flip_one>({in[1]}), in[2]}; };
  const auto options = GradCheckOptions().names({"a", "b", "ids"});
  const GradReport report = check_gradients(f, {inputs_of({3}), inputs_of({3}), Tensor::empty({2}, int64)}, options);
  CHECK_FALSE(report.ok);
  REQUIRE(report.entries.size() == 2);
  CHECK(report.entries[0].name == "a");
  CHECK(report.entries[0].wrong == 0);
  CHECK(report.entries[0].compared == 3);
  CHECK(report.entries[1].name == "b");
  CHECK(report.entries[1].wrong == 1);
  CHECK(report.entries[1].worst == 1);
  std::ostringstream text;
  text << report;
  CHECK(text.str().find("ok    gradient of mul by a [3]: 0 of 3") == 0);
  CHECK(text.str().find("WRONG gradient of mul by b [3]: 1 of 3 elements out of tolerance; worst [1]: ") !=
        std::string::npos);
}

TEST_CASE("check_gradients works on the leaves themselves, and puts them back", "[gradcheck]") {
  Tensor weight = inputs_of({3}).requires_grad_();
  const Tensor before = weight.detach().clone();
  Tensor seed = ones({3}, float64);
  weight.set_grad(seed);
  CHECK(ok([&](const Values&) { return mul(weight, weight); }, {weight}, 2));
  CHECK_FALSE(ok([&](const Values&) { return square<flip_one>({weight}); }, {weight}));
  CHECK(same_bits(weight, before));
  CHECK(same_bits(weight.grad(), seed));

  const Tensor x = inputs_of({3}).to(float32), copy = x.clone();
  CHECK(ok(square<leave>, {x}));
  CHECK(same_bits(x, copy));
  CHECK_FALSE(x.requires_grad());

  const auto fails = [&](const Values&) -> Tensor { throw Error("[f] fails"); };
  CHECK_THROWS_AS(check_gradients(fails, {weight}), Error);
  CHECK(same_bits(weight, before));
}

TEST_CASE("check_gradients takes inputs of every kind: undefined, whole numbers, no leaves, scalars", "[gradcheck]") {
  const Tensor ids = tensor({2, 0}), x = inputs_of({3}), inner = x.clone().requires_grad_() * 2;
  const auto chosen = [](const Values& in) { return index_select(in[0], 0, in[1]) * (in[2].defined() ? 2. : 3.); };
  CHECK(ok(chosen, {x, ids, Tensor()}));
  CHECK(ok(chosen, {inner, ids, Tensor()}));
  // An error in a scalar output is told without a place.
  std::ostringstream text;
  text << check_gradients([](const Values& in) { return sum(square<flip_one>(in)); }, {inputs_of({3})},
                          GradCheckOptions().jacobian(true));
  CHECK_THAT(text.str(), Catch::Matchers::Contains("output 0"));
}

TEST_CASE("check_gradients refuses what it can't check", "[gradcheck]") {
  using Catch::Matchers::Contains;
  int calls = 0;
  CHECK_THROWS_WITH(check_gradients([&](const Values& in) { return mul(in[0], ++calls); }, {inputs_of({3})}),
                    Contains("[check_gradients] two calls") && Contains("output 0"));
  CHECK_THROWS_WITH(check_gradients([&](const Values& in) { return in[0].to(float32); }, {inputs_of({3})}),
                    Contains("shape [3] is float32") && Contains("a layer does so after to(float64)"));
  CHECK_THROWS_WITH(check_gradients(
                        [&](const Values& in) {
                          return ++calls % 2 == 1 ? Values{in[0] * 1., in[0] * 2.} : Values{in[0] * 1.};
                        },
                        {inputs_of({3})}),
                    Contains("two calls with the same inputs gave different results in output 1"));
  CHECK_THROWS_WITH(check_gradients(
                        [&](const Values& in) {
                          return ++calls % 2 == 1 ? in[0] * 1. : reshape(in[0] * 1., {3, 1});
                        },
                        {inputs_of({3})}),
                    Contains("different results in output 0"));
  const auto third = GradCheckOptions().order(3);
  CHECK_THROWS_WITH(check_gradients(square<leave>, {inputs_of({3})}, third), Contains("order is 3"));
}

}  // namespace fit::test::gradcheck_test
