// What docs/recipes/recipes.md composes, beside PyTorch's functions (tests/golden/compositions.py).
#include <cmath>

#include "fit/io/npz.hpp"
#include "fit/nn/layers/norm.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

namespace fit::test::compositions_test {

// Compares an expression with PyTorch's result. The page has it in the same words.
#define AGREES(name, ...)                                               \
  do {                                                                  \
    INFO(name);                                                         \
    CHECK(max_difference(__VA_ARGS__, at(golden, name)) < 1e-12);       \
    CHECK_THAT(page, Catch::Contains(std::string(#__VA_ARGS__) + '`')); \
  } while (false)

TEST_CASE("what the recipes compose is what PyTorch computes", "[golden]") {
  const std::string page = get(FIT_RECIPES_PAGE);
  const StateDict golden = load_npz(FIT_GOLDEN_DIR "/compositions.npz"), given = under(golden, "given/");
  const Tensor a = at(given, "a"), b = at(given, "b"), x = at(given, "x"), holes = at(given, "holes");
  const Tensor w = at(given, "w"), target = at(given, "y");
  const std::int64_t N = 4, C = 4, H = 6, W = 8, I = 4, J = 3, K = 4, L = 3;
  {
    const Tensor &anchor = a, &near = b, &far = at(given, "far");
    AGREES("triplet_margin", mean(relu(norm(anchor - near, 2, -1) - norm(anchor - far, 2, -1) + 1)));
  }
  AGREES("info_nce", nn::cross_entropy(matmul(normalize(a), transpose(normalize(b))) / 0.1, arange(N)));
  AGREES("global_pool", mean(x, {2, 3}));
  AGREES("adaptive_avg_pool", avg_pool2d(x, {H / 3, W / 2}));
  AGREES("bilinear", einsum("bi,oij,bj->bo", {a, w, b}));
  AGREES("kron", reshape(einsum("ij,kl->ikjl", {a, b}), {I * K, J * L}));
  AGREES("tensordot", einsum("nchw,mdhw->ncmd", {x, x}));
  AGREES("cross", roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1));
  AGREES("nanmean", sum(nan_to_num(holes), 1) / sum(logical_not(isnan(holes)), 1));
  {
    const Tensor d = a - mean(a, 1, keepdims);
    AGREES("cov", matmul(d, transpose(d)) / (d.size(1) - 1));
  }
  {
    const double pi = std::acos(-1.);
    const Tensor angle = remainder(outer(arange(N), arange(N)), N).to(float64) * (2 * pi / N);
    AGREES("fft_real", matmul(cos(angle), a));
    AGREES("fft_imaginary", -matmul(sin(angle), a));
  }
  const Tensor y = target, u = a[{range(), 0}], v = b[{range(), 0}];
  AGREES("margin_ranking", mean(relu(0.5 - y * (u - v))));
  AGREES("hinge_embedding", mean(where(y > 0, u, relu(1 - u))));
  AGREES("soft_margin", mean(softplus(-y * u)));
  {
    const Tensor log_rate = a, count = exp(b);
    AGREES("poisson_nll", mean(exp(log_rate) - count * log_rate));
  }
  {
    const std::int64_t N = 2;
    const double p = 0.5;
    const Tensor y = x * dropout(ones({N, C, 1, 1}), p), scale = mean(y / x, {2, 3}, keepdims);
    CHECK_THAT(page, Catch::Contains("`x * dropout(ones({N, C, 1, 1}), p)`"));
    CHECK(allclose(y, x * scale));
    CHECK(all(logical_or(isclose(scale, zeros_like(scale)), isclose(scale, full_like(scale, 2)))).item<bool>());
  }
  nn::GroupNorm norm(C, C);
  norm.to(float64);
  CHECK(max_difference(norm(x).detach(), at(golden, "instance_norm")) < 1e-12);
  const std::vector<Tensor> halves = chunk(x, 2, -1);
  CHECK(max_difference(gelu(halves[0]) * halves[1], at(golden, "geglu")) < 1e-12);
}

}  // namespace fit::test::compositions_test
