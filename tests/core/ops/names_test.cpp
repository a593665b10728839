#include <cmath>
#include <type_traits>

#include "fit/io/npz.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Functions against PyTorch's numbers (tests/golden/names.py), and the forms that the table of operations has not.
namespace fit::test::names_test {
namespace {

using Catch::Matchers::Contains;
using Inputs = std::vector<Tensor>;

const StateDict& golden() {
  static const StateDict all = load_npz(FIT_GOLDEN_DIR "/names.npz");
  return all;
}

double difference(const Tensor& ours, const Tensor& theirs) {
  REQUIRE(ours.shape() == theirs.shape());
  return ours.numel() == 0 ? 0 : max(abs(ours.detach() - theirs) / (1 + abs(theirs))).item();
}

template <class T, class = void>
struct Fills : std::false_type {};
template <class T>
struct Fills<T, std::void_t<decltype(std::declval<T>().fill_(1))>> : std::true_type {};
template <class T, class = void>
struct Reads : std::false_type {};
template <class T>
struct Reads<T, std::void_t<decltype(std::declval<T>().template data<float>())>> : std::true_type {};

// Checks values and gradients of f for the inputs of a case.
template <class F>
void agrees(const std::string& name, int inputs, const F& f, double of_gradients = 1e-12) {
  INFO(name);
  Inputs in;
  for (int i = 0; i < inputs; ++i) in.push_back(at(golden(), name + ".x" + std::to_string(i)).clone().requires_grad_());
  const Tensor y = f(in);
  CHECK(difference(y, at(golden(), name + ".y")) < 1e-13);
  if (!y.requires_grad()) return;
  y.backward(at(golden(), name + ".d_y"));
  for (int i = 0; i < inputs; ++i) {
    INFO("gradient " << i);
    CHECK(difference(in[static_cast<std::size_t>(i)].grad(), at(golden(), name + ".d_x" + std::to_string(i))) <
          of_gradients);
  }
}

}  // namespace

TEST_CASE("functions of one number agree with PyTorch, at their ends and kinks, too", "[names]") {
  const std::pair<const char*, Tensor (*)(const Tensor&)> plain[] = {
      {"selu", selu},   {"mish", mish}, {"softsign", softsign}, {"hardtanh", hardtanh}, {"relu6", relu6},

      {"sinh", sinh},   {"cosh", cosh}, {"asinh", asinh},       {"acosh", acosh},       {"atanh", atanh},
      {"log10", log10},
  };
  for (const auto& [name, f] : plain) agrees(name, 1, [f = f](const Inputs& in) { return f(in[0]); });
  // PyTorch's gradients of these have constants of float.
  agrees(
      "hardsigmoid", 1, [](const Inputs& in) { return hardsigmoid(in[0]); }, 1e-7);
  agrees(
      "hardswish", 1, [](const Inputs& in) { return hardswish(in[0]); }, 1e-7);
  agrees("celu", 1, [](const Inputs& in) { return celu(in[0], 0.5); });
  agrees("softplus", 1, [](const Inputs& in) { return softplus(in[0], 1.7); });
}

TEST_CASE("functions of two numbers agree with PyTorch", "[names]") {
  agrees("prelu", 2, [](const Inputs& in) { return prelu(in[0], in[1]); });
  agrees("fmod", 2, [](const Inputs& in) { return fmod(in[0], in[1]); });
  agrees("floor_divide", 2, [](const Inputs& in) { return floor_divide(in[0].detach(), in[1].detach()); });
  agrees("copysign", 2, [](const Inputs& in) { return copysign(in[0], in[1]); });
  agrees("logaddexp", 2, [](const Inputs& in) { return logaddexp(in[0], in[1]); });
  // Python's // and C's %, for whole numbers too.
  const Tensor a = tensor({7, -7, 7, -7, 6}), b = tensor({2, 2, -2, -2, -3});
  CHECK(values(floor_divide(a, b)) == std::vector<double>{3, -4, -4, 3, -2});
  CHECK(values(fmod(a, b)) == std::vector<double>{1, -1, 1, -1, 0});
  CHECK(floor_divide(a, 2).dtype() == int64);
  CHECK(values(floor_divide(tensor({INT64_MIN}), -1)) == values(tensor({INT64_MIN})));
  CHECK(values(floor_divide(tensor({0.9, -0.1}, float64), 0.3)) == std::vector<double>{3, -1});
}

TEST_CASE("cumulative functions agree with PyTorch, and run backwards and without the element itself", "[names]") {
  agrees("cummax", 1, [](const Inputs& in) { return cummax(in[0], 1).first; });
  agrees("cummin", 1, [](const Inputs& in) { return cummin(in[0], 0).first; });
  CHECK(equal(cummax(at(golden(), "cummax.x0"), 1).second, at(golden(), "cummax.ids")));
  CHECK(equal(cummin(at(golden(), "cummin.x0"), 0).second, at(golden(), "cummin.ids")));
  CHECK(std::isnan(cummax(tensor({1., NAN, 3.}), 0).first[2].item()));
  CHECK(values(cummax(tensor({1., 3., 2.}).to(bfloat16), 0).second) == std::vector<double>{0, 1, 1});
  agrees("logcumsumexp", 1, [](const Inputs& in) { return logcumsumexp(in[0], 1); });
  // Minus infinity in front: no element has counted yet.
  const Tensor x = tensor({-INFINITY, -INFINITY, 1.}, float64).requires_grad_();
  const Tensor y = logcumsumexp(x, 0);
  CHECK(values(y.detach()) == std::vector<double>{-INFINITY, -INFINITY, 1});
  y[2].backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0, 1});
  CHECK(values(grad(sum(logcumsumexp(x, 0)), x, create_graph)) == std::vector<double>{0, 0, 1});

  const auto reverse = CumulativeOptions().reverse(), exclusive = CumulativeOptions().exclusive();
  const Tensor v = tensor({2, 3, 4});
  CHECK(values(cumsum(v, 0, reverse)) == std::vector<double>{9, 7, 4});
  CHECK(values(cumsum(v, 0, exclusive)) == std::vector<double>{0, 2, 5});
  CHECK(values(v.cumsum(0, CumulativeOptions(reverse).exclusive())) == std::vector<double>{7, 4, 0});
  CHECK(values(v.cumprod(0, reverse)) == std::vector<double>{24, 12, 4});
  CHECK(values(cumprod(v, 0, exclusive)) == std::vector<double>{1, 2, 6});
  CHECK(values(cumprod(v, 0, CumulativeOptions(reverse).exclusive())) == std::vector<double>{12, 4, 1});
  CHECK(cumsum(v, 0, exclusive).dtype() == int64);
  CHECK(cumprod(tensor(5.), 0, exclusive).item() == 1);
}

TEST_CASE("rolls, pads, pairs of lists, solves, einsum, convolutions and pools agree with PyTorch", "[names]") {
  agrees("roll", 1, [](const Inputs& in) { return roll(in[0], {1, -2}, {0, 1}); });
  agrees("pad", 1, [](const Inputs& in) { return pad(in[0], {3, -1, -1, 2}); });
  agrees("pairs", 1, [](const Inputs& in) { return in[0][{{0, 2, 2}, {1, 0, 1}}]; });
  agrees("pairs_apart", 1, [](const Inputs& in) { return in[0][{{0, 2, 2}, range(), tensor({1, 0, 1})}]; });
  agrees("solve", 2, [](const Inputs& in) { return solve(in[0], in[1]); });
  agrees("einsum", 3, [](const Inputs& in) { return einsum("ij,jk,kl->il", in); });
  const auto o = ConvOptions().stride({2, 1}).padding({0, 2}).dilation({1, 2});
  agrees("conv2d", 2, [&](const Inputs& in) { return conv2d(in[0], in[1], {}, o); });
  const auto t = ConvOptions().stride({2, 3}).padding({1, 2}).output_padding({1, 0}).dilation({1, 2}).groups(2);
  agrees("conv_transpose2d", 3, [&](const Inputs& in) { return conv_transpose2d(in[0], in[1], in[2], t); });
  const auto line = InterpolateOptions().mode(Interpolation::linear);
  const auto to = [](const InterpolateOptions& options) {
    return [options](const Inputs& in) { return interpolate(in[0], options); };
  };
  agrees("nearest", 1, to(InterpolateOptions().size({7, 3})));
  agrees("bilinear", 1, to(InterpolateOptions(line).size({7, 3})));
  agrees("bilinear_scaled", 1, to(InterpolateOptions(line).scale_factor(1.7)));
  agrees("bilinear_aligned", 1, to(InterpolateOptions(line).size({7, 3}).align_corners()));
  agrees("linear", 1, to(InterpolateOptions(line).scale_factor(2)));
  agrees("pixel_shuffle", 1, [](const Inputs& in) { return pixel_shuffle(in[0], 2); });
  agrees("pixel_unshuffle", 1, [](const Inputs& in) { return pixel_unshuffle(in[0], 2); });
  const auto p = PoolOptions().stride({1, 2}).padding({1, 0});
  agrees("max_pool2d", 1, [&](const Inputs& in) { return max_pool2d(in[0], {3, 2}, PoolOptions(p).dilation({2, 1})); });
  agrees("avg_pool2d", 1, [&](const Inputs& in) { return avg_pool2d(in[0], {3, 2}, p); });
}

TEST_CASE("pairs of lists are read and written as in NumPy", "[names]") {
  Tensor x = arange(0, 12, 1, float64).reshape({3, 4});
  const Tensor targets = tensor({1, 3, 0});
  CHECK(values(x[{arange(3), targets}]) == std::vector<double>{1, 7, 8});
  x[{arange(3), targets}] = -1;
  CHECK(values(x) == std::vector<double>{0, -1, 2, 3, 4, 5, 6, -1, -1, 9, 10, 11});
  x[{{0, 2}, {3, 3}}] += tensor({10., 20.}, float64);
  CHECK(values(x[{range(), 3}]) == std::vector<double>{13, -1, 31});
  CHECK_THROWS_WITH((x[{{1, 1}, {2, 2}}] = 0), Contains("names element 6 more than once"));
  x[{{1, 1}, {2, 3}}] = 0;  // one row twice, other columns
  CHECK(values(x[1]) == std::vector<double>{4, 5, 0, 0});
  // Between other entries; lists apart come first.
  const Tensor y = arange(0, 24, 1, float64).reshape({2, 3, 4});
  CHECK(y[{range(), {0, 2}, {1, 3}}].shape() == Shape{2, 2});
  CHECK(y[{{0, 1, 1}, range(), {1, 3, 0}}].shape() == Shape{3, 3});
  CHECK(values(y[{{0, 1}, 2, {1, 3}}]) == std::vector<double>{9, 23});
  Tensor z = zeros({2, 3, 4});
  z[{{0, 1}, range(), {1, 3}}] = tensor({{1., 2., 3.}, {4., 5., 6.}});
  CHECK(values(z[{0, range(), 1}]) == std::vector<double>{1, 2, 3});
  CHECK(values(z[{1, range(), 3}]) == std::vector<double>{4, 5, 6});
  const Tensor leaf = ones({2, 3, 4}).requires_grad_(), v = ones({2, 3}).requires_grad_();
  Tensor w = leaf * 2;
  w[{{0, 1}, range(), {1, 3}}] = v;
  (w * w).sum().backward();
  CHECK(leaf.grad().sum().item() == 8 * 18);
  CHECK(values(v.grad()) == std::vector<double>(6, 2));
}

TEST_CASE("small forms that others have", "[names]") {
  CHECK(same_bits(arange(2, 5), tensor({2, 3, 4})));
  CHECK(same_bits(arange(0.5, 3), tensor({0.5, 1.5, 2.5})));
  CHECK(squeeze(tensor(3.), 0).shape() == Shape{});
  CHECK(squeeze(tensor(3.), -1).item() == 3);
  CHECK_THROWS_WITH(squeeze(tensor(3.), 1), Contains("axis 1 is out of range"));
  const Tensor x = randn({3, 4});
  CHECK(same_bits(x.var(1, keepdims), var(x, 1, Correction{1}, keepdims)));
  CHECK(same_bits(x.std(1, keepdims, Correction{0}), fit::std(x, 1, Correction{0}, keepdims)));
  CHECK(values(isclose(tensor({1., 1., NAN, INFINITY}), tensor({1. + 1e-7, 1.1, NAN, INFINITY})).to(int64)) ==
        std::vector<double>{1, 0, 0, 1});
  CHECK(isclose(ones({3, 1}), ones({4})).shape() == Shape{3, 4});
  CHECK(lstsq(ones({20000, 1}), full({20000, 1}, 2)).item() == Approx(2));
}

TEST_CASE("einsum contracts the cheapest pair first", "[names]") {
  // From the left, the first product would have 400 x 400 x 400 elements.
  const Tensor a = rand({400, 2}), b = rand({400, 2}), c = rand({400, 2});
  const Tensor y = einsum("ix,jy,jx->iy", {a, b, c});
  CHECK(allclose(y, matmul(a, matmul(transpose(c), b)), 1e-4));
  const Tensor outer = einsum("ab,cd,ef,gh,ij,jk,ki->acegbdfh", {rand({1, 2}), rand({2, 1}), rand({1, 1}), rand({1, 1}),
                                                                 rand({2, 3}), rand({3, 4}), rand({4, 2})});
  CHECK(outer.rank() == 8);
}

TEST_CASE("what would change a copy, or read what is gone, does not compile", "[names]") {
  STATIC_REQUIRE(Fills<Tensor&>::value);
  STATIC_REQUIRE_FALSE(Fills<Indexed>::value);   // x[0].fill_(1) would change a copy
  STATIC_REQUIRE_FALSE(Fills<Indexed&>::value);  // as auto row = x[0]; row.fill_(1) would
  STATIC_REQUIRE(Reads<const Tensor&>::value);
  STATIC_REQUIRE_FALSE(Reads<Tensor>::value);  // the span would dangle
  Tensor x = zeros({2, 2});
  x[0] = 1;
  CHECK(values(x) == std::vector<double>{1, 1, 0, 0});
}

}  // namespace fit::test::names_test
