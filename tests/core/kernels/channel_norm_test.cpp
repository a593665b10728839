#include "kernels/rows/channel_norm.hpp"

#include "fit/graph/observer.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/ops/ops.hpp"
#include "ops/network/channel_norm.hpp"
#include "support/catch.hpp"
#include "support/guarded_buffer.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// batch_norm and group_norm: their kernels, each against its reference, and the operations against their formula.
namespace fit::test::channel_norm_test {
namespace {

template <class T>
void check_channels(const kernels::NumberedRows& rows, bool nontemporal) {
  using R = Rounded<T>;
  INFO(sizeof(T) << " bytes, rows " << rows.first << " to " << rows.last << " of " << rows.n << ", " << rows.count
                 << " numbers, across " << rows.across << ", nontemporal " << nontemporal);
  std::mt19937_64 random(static_cast<std::uint64_t>(rows.n));
  const std::int64_t size = rows.last * rows.n;
  const Draw usual = between(-2, 2);
  GuardedBuffer<T> x = drawn<T>(size, 1, usual, random), dy = drawn<T>(size, 3, usual, random), y(size, 5);
  GuardedBuffer<T> dx(size, 7), lists = drawn<T>(6 * rows.count, 2, usual, random);
  const auto& k = kernels::channel_norm<T>();
  k.forward(y.data(), x.data(), lists.data(), rows, nontemporal);
  k.backward(dx.data(), x.data(), dy.data(), lists.data(), rows, nontemporal);
  Worst forward, backward;
  for (std::int64_t i = rows.first * rows.n; i < size; ++i) {
    const std::int64_t at = (rows.across ? i : i / rows.n) % rows.count;
    R own[6];
    for (int list = 0; list < 6; ++list) own[list] = R(lists[list * rows.count + at]);
    const R first[4] = {own[0], own[1], own[2], own[3]};
    forward.add(i, y[i], kernels::reference::channel_forward(R(x[i]), first));
    backward.add(i, dx[i], kernels::reference::channel_backward(R(x[i]), R(dy[i]), own));
  }
  INFO("forward " << forward << "; backward " << backward);
  CHECK(forward.within_bounds());
  CHECK(backward.within_bounds());
  CHECK((y.guards_intact() && dx.guards_intact()));
}

template <class T>
void check_products(std::int64_t kept, std::int64_t ks, std::int64_t reduced, std::int64_t rs) {
  using Wide = Rounded<double>;
  INFO(sizeof(T) << " bytes, kept " << kept << " step " << ks << ", reduced " << reduced << " step " << rs);
  std::mt19937_64 random(static_cast<std::uint64_t>(kept * 1000 + reduced));
  GuardedBuffer<T> x((kept - 1) * ks + (reduced - 1) * rs + 1), y((kept - 1) * ks + (reduced - 1) * rs + 1, 3);
  const Draw usual = between(-2, 2);
  for (std::int64_t k = 0; k < kept; ++k)
    for (std::int64_t r = 0; r < reduced; ++r) {
      x[k * ks + r * rs] = static_cast<T>(usual(random));
      y[k * ks + r * rs] = static_cast<T>(usual(random));
    }
  GuardedBuffer<double> acc = drawn<double>(kept, 1, usual, random), centre = drawn<double>(kept, 3, usual, random);
  const std::vector<double> before = acc.values();
  kernels::channel_norm<T>().products(acc.data(), x.data(), y.data(), centre.data(), kept, ks, reduced, rs);
  Worst worst;
  const InChains chains(4);
  for (std::int64_t k = 0; k < kept; ++k) {
    std::vector<Wide> a, b;
    for (std::int64_t r = 0; r < reduced; ++r) {
      a.emplace_back(static_cast<double>(x[k * ks + r * rs]));
      b.emplace_back(static_cast<double>(y[k * ks + r * rs]));
    }
    worst.add(k, acc[k],
              kernels::reference::products(Wide(before[static_cast<std::size_t>(k)]), a.data(), b.data(), reduced,
                                           Wide(centre[k])));
  }
  INFO(worst);
  CHECK(worst.within_bounds());
  CHECK(acc.guards_intact());
}

template <class T>
void check_kernels() {
  for (const bool nontemporal : {false, true})
    for (const std::int64_t n : {1, 3, 7, 16, 33, 257}) {
      check_channels<T>({2, 7, n, 3, false}, nontemporal);
      check_channels<T>({1, 4, n, n, true}, nontemporal);
      check_channels<T>({1, 7, n, 3 * n, true}, nontemporal);
    }
  for (const std::int64_t gap : {0, 3}) {
    for (const std::int64_t kept : {1, 3, 33})
      for (const std::int64_t reduced : {1, 3, 7, 16, 33, 63, 257}) check_products<T>(kept, reduced + gap, reduced, 1);
    for (const std::int64_t kept : {1, 3, 7, 16, 33, 257})
      for (const std::int64_t reduced : {1, 2, 3, 4, 5, 7, 9, 33}) check_products<T>(kept, 1, reduced, kept + gap);
  }
}

// By the formula, [outer, slices, elements of a slice], in operations of float64.
Tensor by_formula(const Tensor& x, const Shape& slices, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor view = reshape(x, slices), centred = view - mean(view, {0, 2}, keepdims);
  const Tensor h = reshape(centred * rsqrt(mean(centred * centred, {0, 2}, keepdims) + eps), x.shape());
  std::vector<std::int64_t> along(static_cast<std::size_t>(x.rank()), 1);
  along[1] = x.shape()[1];
  return h * reshape(weight, along) + reshape(bias, along);
}

struct Case {
  Shape shape;
  std::int64_t groups;  // 0: batch_norm
};

// y, and the gradients by x, weight and bias, of both.
void check_operation(const Case& c, DType t, double shift) {
  INFO(c.shape << ", groups " << c.groups << ", " << t << ", around " << shift);
  manual_seed(7);
  const std::int64_t N = c.shape[0], C = c.shape[1];
  const Tensor draws = randn(c.shape, float64), seed = randn(c.shape, float64);
  Tensor x = (draws + shift).to(t), w = randn({C}, float64).to(t), b = randn({C}, float64).to(t);
  std::vector<Tensor> in{x.requires_grad_(), w.requires_grad_(), b.requires_grad_()};
  const Tensor y = c.groups == 0 ? batch_norm(x, {}, {}, w, b) : group_norm(x, c.groups, w, b);
  std::vector<Tensor> got = grad({y}, in, {seed.to(t)});
  got.push_back(y.detach());

  std::vector<Tensor> exact;
  for (const Tensor& v : in) exact.push_back(v.detach().to(float64).requires_grad_());
  const Shape slices =
      c.groups == 0 ? Shape{N, C, x.numel() / (N * C)} : Shape{1, N * c.groups, x.numel() / (N * c.groups)};
  const Tensor z = by_formula(exact[0], slices, exact[1], exact[2], 1e-5);
  std::vector<Tensor> wanted = grad({z}, exact, {seed.to(t).to(float64)});
  wanted.push_back(z.detach());
  const double tolerance = t == float64 ? 1e-11 : 1e-4;  // sums of 10,000 products, of numbers of about 1
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("of x, weight, bias, y: " << i);
    CHECK(allclose(got[i].to(float64), wanted[i], tolerance, tolerance));
  }
}

const std::vector<Case> cases{{{64, 33}, 0},        {{300, 1030}, 0}, {{4, 6, 5, 7}, 0},    {{2, 40, 70, 70}, 0},
                              {{64, 32}, 4},        {{3, 6}, 3},      {{20, 6, 5, 7}, 2},   {{2, 6, 5, 7}, 6},
                              {{17, 64, 9, 9}, 32}, {{1, 4, 200}, 1}, {{1, 64, 50, 50}, 8}, {{40, 30}, 15},
                              {{64, 64}, 8},        {{30, 40, 3}, 10}};

}  // namespace

TEST_CASE("kernels of norms over channels are within the rounding of their references", "[kernels]") {
  each_isa([] {
    check_kernels<float>();
    check_kernels<double>();
  });
}

TEST_CASE("batch_norm and group_norm follow their formula, with gradients, in each layout", "[ops]") {
  for (const Case& c : cases)
    for (const DType t : {float32, float64})
      for (const double shift : {0., 100.}) check_operation(c, t, shift);
}

TEST_CASE("batch_norm and group_norm: the bits don't depend on threads", "[ops]") {
  for (const Case& c : cases)
    check_threads([&] {
      manual_seed(3);
      Tensor x = randn(c.shape).requires_grad_();
      const Tensor y = c.groups == 0 ? batch_norm(x, {}, {}) : group_norm(x, c.groups);
      y.backward(randn(c.shape));
      return cat({reshape(y.detach(), {-1}), reshape(x.grad(), {-1})});
    });
}

TEST_CASE("batch_norm by given statistics: gradients by all operands", "[ops]") {
  for (const Shape& shape : {Shape{50, 12}, Shape{3, 12, 6, 5}}) {
    INFO(shape);
    manual_seed(5);
    std::vector<Tensor> in{randn(shape, float64), randn({12}, float64), rand({12}, float64) + 0.5, randn({12}, float64),
                           randn({12}, float64)};
    for (Tensor& x : in) x.requires_grad_();
    std::vector<std::int64_t> along(static_cast<std::size_t>(shape.rank()), 1);
    along[1] = 12;
    const auto channel = [&](std::size_t i) { return reshape(in[i], along); };
    const Tensor seed = randn(shape, float64), y = batch_norm(in[0], in[1], in[2], in[3], in[4], 1e-3);
    const Tensor z = (in[0] - channel(1)) * rsqrt(channel(2) + 1e-3) * channel(3) + channel(4);
    CHECK(allclose(y, z, 1e-12, 1e-12));
    const std::vector<Tensor> got = grad({y}, in, {seed}), wanted = grad({z}, in, {seed});
    for (std::size_t i = 0; i < in.size(); ++i) CHECK(allclose(got[i], wanted[i], 1e-12, 1e-12));
  }
}

TEST_CASE(
    "batch_norm by given statistics: a number that is not finite spoils no gradient but those of its channel's sums",
    "[ops]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = tensor({{nan, 1.}, {inf, -inf}, {3., 4.}}).requires_grad_();
  const Tensor y = batch_norm(x, tensor({0., 1.}), tensor({4., 0.25}), tensor({3., -1.}), {}, 0);
  const Tensor dx = grad(std::vector<Tensor>{y}, {x}, {tensor({{1., 2.}, {-0., 3.}, {-2., 0.}})})[0];
  CHECK(same_bits(dx, tensor({{1.5, -4.}, {-0., -6.}, {-3., -0.}})));
}

TEST_CASE("batch_norm and group_norm are told to observers as one operation", "[ops]") {
  struct Names : Observer {
    std::vector<std::string> all;
    void op_recorded(const OpEvent& e) override { all.emplace_back(e.op); }
  };
  const Tensor x = randn({6, 4, 3}), mean = zeros({4}), var = ones({4});
  Names names;
  const Observe watching(names);
  const Tensor y = batch_norm(x, {}, {}), z = group_norm(x, 2), given = batch_norm(x, mean, var);
  CHECK(names.all == std::vector<std::string>{"batch_norm", "group_norm", "batch_norm"});
}

TEST_CASE("group_norm in the mode Reproducible: the bits of an example don't depend on the batch", "[ops]") {
  const Reproducible mode;
  for (const Shape& shape : {Shape{40, 8, 3}, Shape{5, 8, 300, 150}, Shape{20, 32}})
    for (const DType t : {float32, float64}) {
      manual_seed(9);
      const Tensor x = (randn(shape, float64) + 3).to(t), all = group_norm(x, 4);
      for (const std::int64_t i : {0, 4})
        CHECK(same_bits(slice(all, 0, i, i + 1), group_norm(slice(x, 0, i, i + 1), 4)));
    }
}

TEST_CASE("batch_norm hands its statistics on: the mean and the unbiased variance", "[ops]") {
  const Tensor x = randn({30, 5, 4}) * 3 + 10;
  for (const DType t : {float32, float64, bfloat16}) {
    const Tensor given = x.to(t), wide = given.to(float64);
    const BatchNormalised batch = batch_norm_and_statistics(given, {}, {}, 1e-5);
    CHECK(batch.y.dtype() == t);
    CHECK(same_bits(batch.y, batch_norm(given, {}, {})));
    const double tolerance = t == float64 ? 1e-13 : 1e-6;
    CHECK(allclose(batch.mean.to(float64), mean(wide, {0, 2}), tolerance));
    CHECK(allclose(batch.var.to(float64), var(wide, {0, 2}), tolerance));
  }
}

}  // namespace fit::test::channel_norm_test
