#include "fit/backward/gradcheck.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Linear algebra, convolutions, pools and distances by value. The numbers are PyTorch's.
namespace fit::test::linalg_test {
namespace {

using V = std::vector<double>;

bool near(const Tensor& x, const Tensor& want) { return max_difference(x, want) < 1e-4; }

}  // namespace

TEST_CASE("linear algebra gives PyTorch's numbers", "[linalg]") {
  const Tensor a = tensor({{4., 1.}, {2., 3.}}), s = matmul(a, transpose(a));
  CHECK(near(inv(a), tensor({{0.3, -0.1}, {-0.2, 0.4}})));
  CHECK(det(a).item() == Approx(10));
  CHECK(det(tensor({{0., 1.}, {1., 0.}})).item() == -1);
  CHECK(det(ones({3, 0, 0})).shape() == Shape{3});
  CHECK(det(zeros({0, 0})).item() == 1);
  CHECK(near(solve(a, tensor({{1.}, {2.}})), tensor({{0.1}, {0.6}})));
  CHECK(values(solve_triangular(a, tensor({{8.}, {13.}}), Triangle::lower)) == V{2, 3});
  CHECK(values(solve_triangular(a, tensor({{11., 5.}, {9., 3.}}), Triangle::upper)) == V{2, 1, 3, 1});
  CHECK(slogdet(a).first.item() == 1);
  CHECK(slogdet(-a[{range(), tensor({1, 0})}]).first.item() == -1);
  CHECK(slogdet(a).second.item() == Approx(std::log(10)));
  CHECK(near(cholesky(s), tensor({{4.1231, 0.}, {2.6679, 2.4254}})));
  CHECK(near(eigh(s).first, tensor({3.81966, 26.18034})));
  CHECK(near(svd(a).s, tensor({5.11667, 1.95440})));
}

TEST_CASE("what is taken apart can be put together again", "[linalg]") {
  Generator g(5);
  for (const DType t : {float32, float64}) {
    const Tensor x = randn({2, 4, 4}, t, g), s = x + transpose(x);
    CHECK(inv(x).dtype() == t);
    const Tensor one = broadcast_to(eye(4, -1, t), {2, 4, 4});
    CHECK(near(matmul(inv(x), x), one));
    CHECK(near(matmul(x, solve(x, one)), one));
    const auto [values, vectors] = eigh(s);
    CHECK(near(matmul(vectors * unsqueeze(values, -2), transpose(vectors)), s));
    for (const Shape& shape : {Shape{2, 4, 3}, Shape{2, 3, 4}, Shape{1, 5}}) {
      const Tensor y = randn(shape, t, g);
      const auto [u, d, v] = svd(y);
      CHECK(near(matmul(u * unsqueeze(d, -2), transpose(v)), y));
      CHECK(near(matmul(transpose(u), u), broadcast_to(eye(d.size(-1), -1, t), matmul(transpose(u), u).shape())));
      const auto [q, r] = qr(y);
      CHECK(q.dtype() == t);
      CHECK(near(matmul(q, r), y));
      CHECK(near(matmul(transpose(q), q), broadcast_to(eye(q.size(-1), -1, t), matmul(transpose(q), q).shape())));
      CHECK(equal(triu(r), r));
    }
  }
}

TEST_CASE("slogdet holds where det leaves the range, and of singular matrices", "[linalg]") {
  for (const DType t : {float32, float64}) {
    const Tensor x = (-100 * eye(301, 301, t)).requires_grad_();
    const auto [sign, log] = slogdet(x);
    CHECK(sign.item() == -1);
    CHECK(log.item() == Approx(301 * std::log(100.)));
    CHECK(std::isinf(det(x).item()));
    CHECK(max_difference(grad(log, x), -0.01 * eye(301, 301, t)) < 1e-9);
    CHECK_FALSE(grad({slogdet(x).first}, {x}, allow_unused)[0].defined());
  }
  const auto [sign, log] = slogdet(cat({ones({1, 2, 2}), eye(2).unsqueeze(0)}));
  CHECK(values(sign) == V{0, 1});
  CHECK(values(log) == V{-INFINITY, 0});
  CHECK(values(slogdet(zeros({2, 0, 0})).first) == V{1, 1});
  CHECK(values(slogdet(zeros({2, 0, 0})).second) == V{0, 0});
}

TEST_CASE("lstsq gives the shortest of the solutions where columns depend on each other", "[linalg]") {
  CHECK(near(lstsq(ones({3, 2}), tensor({{1.}, {2.}, {3.}})), ones({2, 1})));
  CHECK(near(lstsq(tensor({{3., 4.}}), tensor({{5., 50.}})), tensor({{0.6, 6.}, {0.8, 8.}})));
  CHECK(values(lstsq(zeros({3, 2}), ones({3, 1}))) == V{0, 0});
  Generator g(9);
  for (const Shape& shape : {Shape{40, 30}, Shape{30, 40}, Shape{1, 7}, Shape{70, 1}}) {
    const Tensor a = randn(shape, float64, g), b = randn({shape[0], 3}, float64, g), x = lstsq(a, b);
    const auto [u, s, v] = svd(a);
    CHECK(near(x, matmul(v / s.unsqueeze(0), matmul(transpose(u), b))));
  }
  const Tensor left = randn({20, 4}, float64, g), right = randn({4, 10}, float64, g), b = randn({20, 2}, float64, g);
  const auto [u, s, v] = svd(matmul(left, right));  // of rank 4
  const auto first = [](const Tensor& x) { return slice(x, -1, 0, 4); };
  CHECK(near(lstsq(matmul(left, right), b), matmul(first(v) / first(s), matmul(transpose(first(u)), b))));
}

TEST_CASE("solve_triangular reads one triangle, also in its gradient", "[linalg]") {
  Generator g(8);
  for (const DType t : {float32, float64})
    for (const Triangle triangle : {Triangle::lower, Triangle::upper})
      for (const std::int64_t k : {1, 3}) {
        const auto part = [&](const Tensor& x) { return triangle == Triangle::upper ? triu(x) : tril(x); };
        const Tensor a = (randn({2, 5, 5}, t, g) + 4 * eye(5, 5, t)).requires_grad_();
        const Tensor b = randn({2, 5, k}, t, g).requires_grad_(), w = randn({2, 5, k}, t, g);
        const Tensor x = solve_triangular(a, b, triangle), plain = solve(part(a), b);
        CHECK(x.dtype() == t);
        CHECK(near(x.detach(), plain.detach()));
        const std::vector<Tensor> got = grad({x}, {a, b}, {w}), want = grad({plain}, {a, b}, {w});
        for (const std::size_t i : {0, 1}) CHECK(near(got[i], want[i]));
        CHECK(equal(part(got[0]), got[0]));
      }
  const Tensor odd = tensor({{2., NAN}, {1., 4.}});
  CHECK(values(solve_triangular(odd, tensor({{2.}, {9.}}), Triangle::lower)) == V{1, 2});
  CHECK(solve_triangular(zeros({2, 0, 0}), zeros({2, 0, 3}), Triangle::lower).shape() == Shape{2, 0, 3});
}

TEST_CASE("linear algebra: matrices of one element, and of none", "[linalg]") {
  const Tensor x = tensor({{{-4.}}, {{9.}}}), nothing = zeros({2, 0, 0});
  CHECK(values(inv(x)) == V{-0.25, static_cast<double>(1.f / 9)});
  CHECK(values(det(x)) == V{-4, 9});
  CHECK(values(solve(x, tensor({{{8., 4.}}, {{9., 18.}}}))) == V{-2, -1, 1, 2});
  CHECK(values(cholesky(abs(x))) == V{2, 3});
  CHECK(values(eigh(x).first) == V{-4, 9});
  CHECK(values(abs(eigh(x).second)) == V{1, 1});
  CHECK(values(svd(x).s) == V{4, 9});
  CHECK(values(matmul(qr(x).first, qr(x).second)) == V{-4, 9});
  for (const Tensor& y : {inv(nothing), cholesky(nothing), eigh(nothing).second, svd(nothing).u, qr(nothing).first})
    CHECK(y.shape() == Shape{2, 0, 0});
  CHECK(solve(x, zeros({2, 1, 0})).shape() == Shape{2, 1, 0});
  CHECK(svd(zeros({3, 0})).v.shape() == Shape{0, 0});
  CHECK(qr(zeros({3, 0})).first.shape() == Shape{3, 0});
  CHECK(qr(zeros({0, 3})).second.shape() == Shape{0, 3});
}

TEST_CASE("linear algebra: only the lower triangle of a symmetric matrix is read", "[linalg]") {
  Generator g(7);
  const Tensor x = randn({3, 3}, float64, g), s = matmul(x, transpose(x)), lower = tril(s);
  CHECK(same_bits(cholesky(lower), cholesky(s)));
  CHECK(same_bits(eigh(lower).first, eigh(s).first));
  CHECK(same_bits(eigh(lower).second, eigh(s).second));
}

TEST_CASE("gradients of linear algebra are the central differences", "[linalg]") {
  using Values = std::vector<Tensor>;
  Generator g(6);
  const auto right = [&](const TensorFunction& f, const Values& in) {
    const GradReport report = check_gradients(f, in);
    INFO(report);
    CHECK(report.ok);
  };
  const Tensor one = eye(3, -1, float64), x = randn({2, 3, 3}, float64, g) * 0.2 + one;
  right([](const Values& in) { return solve(in[0], in[1]); }, {x, randn({2, 3, 2}, float64, g)});
  right([](const Values& in) { return solve_triangular(in[0], in[1], Triangle::lower); },
        {x, randn({2, 3, 2}, float64, g)});
  right([](const Values& in) { return slogdet(in[0]).second; }, {x});
  right([](const Values& in) { return inv(in[0]); }, {x});
  right([](const Values& in) { return det(in[0]); }, {x});
  right([&](const Values& in) { return cholesky(matmul(in[0], transpose(in[0])) + one); }, {x});
  const auto both = [](const Values& in) {
    const auto [q, r] = qr(in[0]);
    return Values{q, r};
  };
  for (const Shape& shape : {Shape{2, 3, 3}, Shape{4, 2}, Shape{2, 4}}) right(both, {randn(shape, float64, g)});
  // The signs of vectors are arbitrary: their squares are compared.
  right(
      [&](const Values& in) {
        const auto [values, vectors] = eigh(in[0] + transpose(in[0]) + diag(tensor({0., 3., 6.}).to(float64)));
        return Values{values, square(vectors)};
      },
      {x});
  const Tensor tall = cat({one, zeros({1, 3}, float64)}) * tensor({3., 2., 1.}) + randn({4, 3}, float64, g) * 0.1;
  for (const Tensor& y : {tall, transpose(tall)}) {
    right([](const Values& in) { return svd(in[0]).s; }, {y});
    right(
        [](const Values& in) {
          const auto [u, s, v] = svd(in[0]);
          return Values{square(u), s, square(v)};
        },
        {y});
  }
}

TEST_CASE("the gradient of svd does not lose digits to a small singular value", "[linalg]") {
  Generator g(1);
  const Tensor p = qr(randn({3, 3}, float64, g)).first, q = qr(randn({3, 3}, float64, g)).first;
  const Tensor w = randn({3, 3}, float64, g);
  const Tensor a = matmul(matmul(p, diag(tensor({1., 0.5, 1e-6}).to(float64))), q).to(float32);
  const auto gradient = [&](DType t) {
    const Tensor x = a.to(t).clone().requires_grad_();
    const auto [u, s, v] = svd(x);
    return grad(sum(matmul(u, transpose(v)) * w.to(t)), x).to(float64);
  };
  const Tensor exact = gradient(float64);
  CHECK(max_difference(gradient(float32), exact) < 1e-4 * max(abs(exact)).item());
  // Neither does a matrix without an inverse.
  const Tensor x = tensor({{1., 2.}, {2., 4.}}, float64).requires_grad_();
  const auto smallest = [](const Tensor& y) { return square(svd(y).u[{0, 1}]); };
  CHECK(all(isfinite(grad(smallest(x), x))).item<bool>());
}

TEST_CASE("the gradient of svd does not depend on the scale of the matrix", "[linalg]") {
  // Squares of singular values beyond 1e19 or below 1e-23 are inf or 0 in float32: the gradient was NaN, or an Error.
  const auto gradients = [](double scale) {
    const Tensor x = (tensor({{4., 1., 0.}, {1., 3., 1.}, {0., 1., 2.}}) * scale).requires_grad_();
    const auto [u, s, v] = svd(x);
    const Tensor w = tensor({{1.}, {2.}, {5.}});
    const Tensor vectors = grad(sum(square(u * w)[{range(), 0}]) + square(v)[{0, 1}], x, retain_graph) * scale;
    const Tensor nuclear = grad(sum(s), x, create_graph);
    return std::vector<Tensor>{vectors, nuclear, grad(sum(nuclear * w * transpose(square(w))), x) * scale};
  };
  const std::vector<Tensor> want = gradients(1);
  for (double scale : {1e-30, 1e-24, 1e-20, 1e20, 1e30}) {
    INFO(scale);
    const std::vector<Tensor> got = gradients(scale);
    for (std::size_t i = 0; i < want.size(); ++i)
      CHECK(max_difference(got[i], want[i]) < 1e-4 * max(abs(want[i])).item());
  }
}

TEST_CASE("convolutions and pools give PyTorch's numbers", "[linalg]") {
  const auto count = [](const Shape& shape) { return reshape(arange(shape.numel()).to(float32), shape); };
  const auto o = ConvOptions().stride(2).padding(1);
  CHECK(values(conv1d(count({1, 2, 5}), count({1, 2, 3}) - 2, tensor({1.}), o)) == V{29, 41, 17});
  const auto dilated = ConvOptions().dilation(2);
  CHECK(values(conv2d(count({1, 1, 4, 4}), count({1, 1, 2, 2}) + 1, {}, dilated)) == V{68, 78, 108, 118});
  ConvOptions grouped = o;
  grouped.groups(2);
  const Tensor weight = tensor({{{{1., 2.}, {3., 4.}}}, {{{1., 0.}, {0., 1.}}}});
  CHECK(values(conv2d(count({1, 2, 2, 2}), weight, {}, grouped)) == V{0, 3, 4, 3, 4, 0, 0, 7});
  auto p = PoolOptions().stride(2).padding(1);
  CHECK(values(max_pool2d(count({1, 1, 4, 4}), 3, p)) == V{5, 7, 13, 15});
  // The border gets no gradient, even if a window has nothing above -inf.
  const Tensor low = full({1, 1, 4, 4}, -inf).requires_grad_();
  sum(max_pool2d(low, 2, p)).backward();
  CHECK(values(low.grad()) == V{1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 1});
  p.stride(1);
  CHECK(near(avg_pool1d(count({1, 1, 5}), 3, p), tensor({{{1. / 3, 1., 2., 3., 7. / 3}}})));
  CHECK(near(group_norm(tensor({{1., 2., 4., 8.}}), 2), tensor({{-1., 1., -1., 1.}})));
  CHECK(near(batch_norm(tensor({{1., 5.}, {3., 5.}}), {}, {}), tensor({{-1., 0.}, {1., 0.}})));
  CHECK(near(batch_norm(tensor({{1., 5.}}), tensor({1., 4.}), tensor({1., 0.25})), tensor({{0., 2.}})));
}

TEST_CASE("products and distances of vectors", "[linalg]") {
  CHECK(dot(tensor({1., 2.}), tensor({3., 4.})).item() == 11);
  CHECK(dot(tensor({1, 2}), tensor({3, 4})).dtype() == int64);
  const Tensor nan = full({2}, std::numeric_limits<double>::quiet_NaN());
  CHECK(values(addmm(nan, ones({1, 2}), ones({2, 2}), 0, 3)) == V{6, 6});
  CHECK(values(cdist(tensor({{0., 0.}, {3., 4.}}), tensor({{0., 4.}}))) == V{4, 3});
  CHECK(cosine_similarity(tensor({1., 0.}), tensor({1., 1.})).item() == Approx(0.70710678));
  CHECK(near(normalize(tensor({3., 4.})), tensor({0.6, 0.8})));
  CHECK(values(normalize(zeros({2}))) == V{0, 0});
  CHECK(near(normalize(tensor(-3.), 2, 0), tensor(-1.)));
  CHECK(near(cosine_similarity(tensor(-3.), tensor(2.)), tensor(-1.)));
}

namespace {

// Distances of rows, and the gradients of their sum weighted by w, by plain loops: {y, da, db}.
std::vector<std::vector<double>> plain_cdist(const Tensor& a, const Tensor& b, const Tensor& w) {
  const std::int64_t M = a.size(0), N = b.size(0), C = a.size(1);
  const V x = values(a), z = values(b), weight = values(w);
  V y, da(x.size()), db(z.size());
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      const auto of = [&](std::int64_t c) {
        return x[static_cast<std::size_t>(i * C + c)] - z[static_cast<std::size_t>(j * C + c)];
      };
      double sum = 0;
      for (std::int64_t c = 0; c < C; ++c) sum += of(c) * of(c);
      y.push_back(std::sqrt(sum));
      for (std::int64_t c = 0; c < C; ++c) {
        const double slope = sum == 0 ? 0 : weight[static_cast<std::size_t>(i * N + j)] * of(c) / y.back();
        da[static_cast<std::size_t>(i * C + c)] += slope;
        db[static_cast<std::size_t>(j * C + c)] -= slope;
      }
    }
  return {y, da, db};
}

}  // namespace

TEST_CASE("cdist and its gradients are those of plain loops, near 0 and far from it, too", "[linalg]") {
  std::mt19937_64 random(6);
  const std::int64_t sizes[][3] = {{1, 1, 1}, {3, 17, 2}, {33, 16, 7}, {70, 100, 33}, {32, 15, 64}, {5, 130, 200}};
  for (const DType dtype : {float32, float64})
    for (const double centre : {0., 1000.})
      for (const auto& [M, N, C] : sizes) {
        INFO(M << ' ' << N << ' ' << C << " of " << dtype << " around " << centre);
        const Tensor a = (random_tensor({M, C}, domain::real, random, dtype) + centre).requires_grad_();
        Tensor near = random_tensor({N, C}, domain::real, random, dtype) + centre;
        near[0] = a.detach()[0];  // equal rows
        const Tensor b = near.requires_grad_(), w = random_tensor({M, N}, domain::real, random, dtype);
        const Tensor y = cdist(a, b);
        const std::vector<Tensor> slopes = grad({y}, {a, b}, {w});
        const auto expected = plain_cdist(a.detach(), b.detach(), w);
        const double exact = dtype == float32 ? 1e-7 : 1e-15;
        CHECK(y.detach()[{0, 0}].item() == 0);
        const Tensor plain = tensor(expected[0], {M, N});
        CHECK(max_difference(y.detach() / (1 + plain), plain / (1 + plain)) < exact);
        CHECK(max_difference(slopes[0], tensor(expected[1], {M, C})) < 4 * exact * static_cast<double>(N));
        CHECK(max_difference(slopes[1], tensor(expected[2], {N, C})) < 4 * exact * static_cast<double>(M));
        check_threads([&] { return cat({cdist(a, b).detach().flatten(), grad(cdist(a, b), a, w).flatten()}); });
      }
}

TEST_CASE("cdist of batches that broadcast is that of each", "[linalg]") {
  std::mt19937_64 random(6);
  const Tensor a = random_tensor({2, 1, 4, 3}, domain::real, random, float32).requires_grad_(),
               b = random_tensor({3, 5, 3}, domain::real, random, float32).requires_grad_(), y = cdist(a, b);
  REQUIRE(y.shape() == Shape{2, 3, 4, 5});
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) CHECK(same_bits(y.detach()[{i, j}], cdist(a.detach()[{i, 0}], b.detach()[j])));
  const Tensor composed = norm(unsqueeze(a, -2) - unsqueeze(b, -3), 2, -1), seed = ones(y.shape());
  const std::vector<Tensor> slopes = grad({y}, {a, b}, {seed}), expected = grad({composed}, {a, b}, {seed});
  for (const std::size_t i : {0, 1}) CHECK(max_difference(slopes[i], expected[i]) < 1e-6);
  CHECK(cdist(zeros({2, 3}), zeros({0, 3})).shape() == Shape{2, 0});
  CHECK(values(cdist(zeros({1, 0}), zeros({2, 0}))) == V{0, 0});
  CHECK(cdist(zeros({2, 3}), zeros({2, 3}, float64)).dtype() == float64);
}

TEST_CASE("cdist beyond the range of squares, and of what is not finite", "[linalg]") {
  for (const DType dtype : {float32, float64})
    for (const double size : dtype == float32 ? V{0x1p-149, 1e-30, 5e37} : V{0x1p-1074, 1e-200, 1e307}) {
      INFO(size << " of " << dtype);
      const Tensor a = (tensor({{3., 0.}, {0., 0.}}).to(float64) * size).to(dtype).requires_grad_();
      const Tensor b = (tensor({{0., 4.}, {3., 0.}}).to(float64) * size).to(dtype);
      const Tensor y = cdist(a, b);
      CHECK(max_difference(y.detach() / size, tensor({{5., 0.}, {4., 3.}})) < 1e-6);
      CHECK(max_difference(grad(y, a, ones({2, 2}, dtype)), tensor({{0.6, -0.8}, {-1., -1.}})) < 1e-6);
    }
  const Tensor large = tensor({{3e38, 3e38}}, float32).requires_grad_(), y = cdist(large, zeros({1, 2}));
  CHECK(std::isinf(y.item()));
  CHECK(max_difference(grad(y, large), tensor({{M_SQRT1_2, M_SQRT1_2}})) < 1e-6);
  const Tensor odd = tensor({{INFINITY, 1.}, {NAN, 1.}}, float32).requires_grad_(), z = cdist(odd, zeros({1, 2}));
  CHECK((std::isinf(z.detach()[0].item()) && std::isnan(z.detach()[1].item())));
}

}  // namespace fit::test::linalg_test
