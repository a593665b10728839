#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "fit/base/memory.hpp"
#include "fit/io/npy.hpp"
#include "fit/io/npz.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "kernels/convert.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"
#include "tensor/convert.hpp"

namespace fit::test::bfloat16_test {
namespace {

BFloat16 of_bits(unsigned bits) {
  BFloat16 b;
  b.bits = static_cast<std::uint16_t>(bits);
  return b;
}

// The nearest number with 8 significant bits, of two as near the even one, in a wider type's own arithmetic.
long double nearest(long double x) {
  if (x == 0 || !std::isfinite(static_cast<double>(x))) return x;
  const int exponent = std::max(std::ilogb(x), -126) - 7;
  const long double scaled = std::ldexp(x, -exponent), down = std::floor(scaled), left = scaled - down;
  const bool up = left > 0.5L || (left == 0.5L && std::fmod(down, 2.0L) != 0);
  const long double y = std::ldexp(down + (up ? 1 : 0), exponent);
  return std::abs(y) > 0x1.FEp127L ? std::copysign(std::numeric_limits<long double>::infinity(), x) : y;
}

Tensor odd_numbers(const Shape& shape) {
  std::mt19937_64 random(11);
  return random_tensor(shape, domain::real, random, bfloat16);
}

}  // namespace

TEST_CASE("bfloat16: every number is a float, and comes back", "[bfloat16]") {
  for (unsigned bits = 0; bits < 1u << 16; ++bits) {
    const float x = of_bits(bits);
    if (std::isnan(x)) {
      CHECK(std::isnan(static_cast<float>(BFloat16(x))));
      continue;
    }
    if (BFloat16(x).bits != bits || BFloat16(static_cast<double>(x)).bits != bits) FAIL("bits " << bits);
  }
}

TEST_CASE("bfloat16: numbers of every type are rounded once, to the nearest and of two to the even one", "[bfloat16]") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t word = random();
    const auto bits = static_cast<std::uint32_t>(word >> 32) & ~(i % 3 == 0 ? 0x7fffu : 0u);  // many ties
    float f;
    std::memcpy(&f, &bits, sizeof f);
    if (!std::isnan(f) && static_cast<float>(BFloat16(f)) != static_cast<float>(nearest(f))) FAIL("float " << f);
    double d;  // a float, and next to nothing beside it
    d = std::nextafter(static_cast<double>(f), word & 1 ? INFINITY : -INFINITY);
    if (std::isfinite(f) && static_cast<float>(BFloat16(d)) != static_cast<float>(nearest(d))) FAIL("double " << d);
    const auto n = static_cast<std::int64_t>(word) >> (i % 64);
    if (static_cast<float>(BFloat16(n)) != static_cast<float>(nearest(n))) FAIL("int64 " << n);
  }
  CHECK(static_cast<float>(BFloat16(1 + 0x1p-8)) == 1);
  CHECK(static_cast<float>(BFloat16(1 + 0x1p-8 + 0x1p-40)) == 1 + 0x1p-7);
  const std::int64_t tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  CHECK(static_cast<float>(BFloat16(tie)) == 0x1p62f);
  CHECK(static_cast<float>(BFloat16(tie + 1)) == 0x1.02p62f);
  CHECK(static_cast<float>(BFloat16(-tie - 1)) == -0x1.02p62f);
  CHECK(std::isinf(static_cast<float>(BFloat16(1e39))));
  CHECK(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
}

TEST_CASE("bfloat16: the kernels have the type's own bits, at odd sizes and unaligned", "[bfloat16]") {
  constexpr std::int64_t most = 200;
  std::mt19937_64 random(7);
  std::vector<float> floats(most + 3);
  for (float& f : floats) {
    const auto bits = static_cast<std::uint32_t>(random());
    std::memcpy(&f, &bits, sizeof f);
  }
  floats[5] = NAN, floats[6] = INFINITY, floats[7] = -0.f, floats[8] = 1e-45f, floats[9] = 1 + 0x1p-8f;
  each_isa([&] {
    for (const std::int64_t n : {0, 1, 7, 8, 9, 31, 64, 200})
      for (const std::int64_t from : {0, 1, 3}) {
        std::vector<BFloat16> narrow(most + 8, of_bits(0x1234));
        kernels::round(narrow.data() + 1, floats.data() + from, n);
        std::vector<float> wide(most + 8, 7.f);
        kernels::widen(wide.data() + 3, narrow.data() + 1, n);
        bool same = narrow[0].bits == 0x1234 && narrow[n + 1].bits == 0x1234 && wide[2] == 7.f && wide[n + 3] == 7.f;
        for (std::int64_t i = 0; i < n; ++i) {
          const float exact = narrow[i + 1];
          same = same && narrow[i + 1].bits == BFloat16(floats[from + i]).bits &&
                 std::memcmp(&wide[i + 3], &exact, sizeof exact) == 0;
        }
        INFO(n << " from " << from);
        CHECK(same);
      }
  });
}

TEST_CASE("bfloat16: a type between int64 and float32", "[bfloat16]") {
  CHECK(is_floating(bfloat16));
  CHECK(size_of(bfloat16) == 2);
  CHECK(std::string(name_of(bfloat16)) == "bfloat16");
  const Tensor x = tensor({1., 2.5, -3.}, bfloat16);
  CHECK(x.dtype() == bfloat16);
  CHECK((x + tensor({1, 2, 3})).dtype() == bfloat16);
  CHECK((x + ones({3})).dtype() == float32);
  CHECK((x + ones({3}, float64)).dtype() == float64);
  CHECK((x * 0.1).dtype() == bfloat16);
  CHECK(x.str() == "[ 1.0000,  2.5000, -3.0000], bfloat16");
  CHECK(x[1].item() == 2.5);
  CHECK(x[2].item<int>() == -3);
  CHECK(static_cast<float>(x.data<BFloat16>()[1]) == 2.5f);
  CHECK(x.to_vector<BFloat16>().size() == 3);
  CHECK_THROWS_WITH(x.data<float>(), Catch::Contains("the tensor is bfloat16, float32 was asked for"));
  Tensor y = x.clone();
  y.edit<BFloat16>()[0] = BFloat16(7);
  CHECK(y[0].item() == 7);
  CHECK(equal(y.to(float64).to(bfloat16), y));
  CHECK(equal(tensor({0., NAN, 2e38}, bfloat16).to(boolean), tensor({false, true, true})));
  CHECK(equal(tensor({-2.7, NAN, 3e38}, bfloat16).to(int64), tensor({-2, 0, INT64_MAX})));
  CHECK(equal(full({2}, 1.00390625, bfloat16), ones({2}, bfloat16)));  // 1 + 2^-8: of two as near the even one
}

TEST_CASE("bfloat16: a number is not rounded before it is used", "[bfloat16]") {
  const Tensor x = odd_numbers({1000});
  CHECK(same_bits(x * 0.1, (x.to(float32) * 0.1).to(bfloat16)));
  CHECK(same_bits(0.3 - x, (0.3 - x.to(float32)).to(bfloat16)));
  CHECK(equal(lt(x, 0.1), lt(x.to(float32), 0.1)));
}

TEST_CASE("bfloat16: beside float32 it is read as it is", "[bfloat16]") {
  const Tensor a = odd_numbers({37, 129}), b = randn({37, 129}), row = odd_numbers({129});
  CHECK(same_bits(a + b, a.to(float32) + b));
  CHECK(same_bits(b * a, b * a.to(float32)));
  CHECK(same_bits(b - row, b - row.to(float32)));
  CHECK(same_bits(row / b, row.to(float32) / b));
  Tensor c = b.clone(), d = b.clone();
  c.add_(a);
  d.add_(a.to(float32));
  CHECK(same_bits(c, d));
}

TEST_CASE("bfloat16: sums are added up in double", "[bfloat16]") {
  CHECK(sum(ones({1000}, bfloat16)).item() == 1000);  // one by one in 8 bits it would stay at 256
  const Tensor ids = zeros({1000}, int64);
  Tensor table = ones({2, 3}, bfloat16).requires_grad_();
  sum(embedding(table, ids)).backward();
  CHECK(table.grad()[{0, 0}].item() == 1000);
  CHECK(index_add(zeros({2}, bfloat16), 0, ids, ones({1000}, bfloat16))[0].item() == 1000);
  // Rows longer than a block, short rows, and columns.
  for (const Shape& shape : {Shape{3, 9001}, Shape{700, 13}, Shape{5, 700, 3}, Shape{1, 1}, Shape{2, 0}}) {
    const Tensor x = odd_numbers(shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      INFO(shape << " along " << axis);
      const Tensor exact = sum(x.to(float64), axis);
      CHECK(max_difference(sum(x, axis), exact.to(bfloat16)) == 0);
    }
  }
}

TEST_CASE("bfloat16: matrices are solved and taken apart in float64", "[bfloat16]") {
  const Tensor x = odd_numbers({2, 4, 4}), wide = x.to(float32), b = odd_numbers({2, 4, 3});
  const Tensor definite = (matmul(wide, transpose(wide)) + 0.1 * eye(4)).to(bfloat16);
  CHECK(same_bits(inv(x), inv(wide).to(bfloat16)));
  CHECK(same_bits(det(x), det(wide).to(bfloat16)));
  CHECK(same_bits(solve(x, b), solve(wide, b.to(float32)).to(bfloat16)));
  CHECK(same_bits(cholesky(definite), cholesky(definite.to(float32)).to(bfloat16)));
  CHECK(same_bits(eigh(definite).second, eigh(definite.to(float32)).second.to(bfloat16)));
  CHECK(same_bits(svd(x).v, svd(wide).v.to(bfloat16)));
}

TEST_CASE("bfloat16: random numbers", "[bfloat16]") {
  const Tensor u = rand({100000}, bfloat16);
  CHECK(max(u).item() < 1);
  CHECK(min(u).item() >= 0);
  CHECK(std::abs(mean(u).item() - 0.5) < 0.01);
  CHECK(std::abs(std(randn({100000}, bfloat16)).item() - 1) < 0.01);
}

TEST_CASE("bfloat16: NumPy's formats have no such type", "[bfloat16]") {
  const Directory folder;
  const Tensor x = ones({2}, bfloat16);
  const std::string rule =
      "is bfloat16, a type that NumPy's format does not have: convert it with .to(float32), or use "
      "save_safetensors()";
  CHECK_THROWS_WITH(save_npy(folder.file("x.npy"), x), "[save_npy] the tensor " + rule);
  CHECK_THROWS_WITH(save_npz(folder.file("x.npz"), {{"w", x}}), "[save_npz] the tensor 'w' " + rule);
}

TEST_CASE("bfloat16: the number of threads changes no bit", "[bfloat16]") {
  const Tensor a = odd_numbers({301, 257}), b = odd_numbers({257, 129});
  check_threads([&] { return matmul(a, b); });
  check_threads([&] { return sum(a, 0); });
  check_threads([&] { return gelu(a * a); });
}

}  // namespace fit::test::bfloat16_test
