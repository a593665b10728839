#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fit/io/npy.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"

// int64 is exact: no integer passes a double on its way, which holds 53 bits.
namespace fit::test::integers_test {
namespace {

using Catch::Contains;
using Integers = std::vector<std::int64_t>;

constexpr std::int64_t two53 = std::int64_t{1} << 53, two62 = std::int64_t{1} << 62;
// Doubles round each of these, or one of its neighbours.
const Integers sizes{two53, two53 + 1, -two53 - 1, two62 + 1, -two62 - 1, INT64_MAX - 1, INT64_MIN + 1};

Integers of(const Tensor& x) { return x.to_vector<std::int64_t>(); }
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
std::int64_t modulo(std::int64_t a, std::int64_t b) {
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

}  // namespace

TEST_CASE("arange counts integers exactly", "[integers]") {
  constexpr std::int64_t e18 = 1000000000000000000;
  CHECK(of(arange(e18, e18 + 5, 1, int64)) == Integers{e18, e18 + 1, e18 + 2, e18 + 3, e18 + 4});
  CHECK(of(arange(two53 + 1, two53 + 4, 1, int64)) == Integers{two53 + 1, two53 + 2, two53 + 3});
  CHECK(of(arange(two62 + 5, two62, -2, int64)) == Integers{two62 + 5, two62 + 3, two62 + 1});
  CHECK(of(arange(INT64_MIN, INT64_MAX, INT64_MAX, int64)) == Integers{INT64_MIN, -1, INT64_MAX - 1});
  CHECK(of(arange(INT64_MAX, INT64_MIN, INT64_MIN, int64)) == Integers{INT64_MAX, -1});
  CHECK(of(arange(INT64_MAX - 1, INT64_MAX, 5, int64)) == Integers{INT64_MAX - 1});
  CHECK(of(arange(-two53 - 3, -two53 - 1, 1.0, int64)) == Integers{-two53 - 3, -two53 - 2});
  CHECK(arange(e18, e18, 1, int64).numel() == 0);
  CHECK(arange(e18, e18 - 3, 1, int64).numel() == 0);
  CHECK(arange(two53 + 1, two53 + 4, 1, float64).to_vector<double>() ==
        std::vector<double>{0x1p53, 0x1p53 + 2, 0x1p53 + 4});  // rounded once each
  CHECK_THROWS_WITH(arange(0, e18, 1, int64), Contains("there must be fewer than 1e15"));
  CHECK_THROWS_WITH(arange(INT64_MIN, INT64_MAX, 1, int64), Contains("there must be fewer than 1e15"));
  CHECK_THROWS_WITH(arange(0, UINT64_MAX, INT64_MAX, int64), Contains("[arange]") && Contains("does not fit int64"));
}

TEST_CASE("int64 operations with tensors and numbers are exact around 2^53 and 2^62", "[integers]") {
  struct Op {
    const char* name;
    Callable<Tensor(const Tensor&, const Tensor&)> with_tensor;
    Callable<Tensor(const Tensor&, std::int64_t)> with_number;
    Callable<std::int64_t(std::int64_t, std::int64_t)> exact;
  };
#define FIT_INTEGER_OP(name, exact)                                                                  \
  {                                                                                                  \
#name, [](const Tensor& a, const Tensor& b) { return fit::name(a, b).to(int64); },                 \
        [](const Tensor& a, std::int64_t b) { return fit::name(a, b).to(int64); },                     \
        [](std::int64_t a, std::int64_t b) -> std::int64_t { return exact; } \
  }
  const Op ops[] = {FIT_INTEGER_OP(add, plus(a, b)),
                    FIT_INTEGER_OP(sub, plus(a, times(b, -1))),
                    FIT_INTEGER_OP(mul, times(a, b)),
                    FIT_INTEGER_OP(remainder, modulo(a, b)),
                    FIT_INTEGER_OP(eq, a == b),
                    FIT_INTEGER_OP(ne, a != b),
                    FIT_INTEGER_OP(lt, a < b),
                    FIT_INTEGER_OP(le, a <= b),
                    FIT_INTEGER_OP(gt, a > b),
                    FIT_INTEGER_OP(ge, a >= b),
                    {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); },
                     [](const Tensor& a, std::int64_t b) { return clamp_min(a, b); },
                     [](std::int64_t a, std::int64_t b) { return std::max(a, b); }},
                    {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); },
                     [](const Tensor& a, std::int64_t b) { return clamp_max(a, b); },
                     [](std::int64_t a, std::int64_t b) { return std::min(a, b); }},
                    {"where", [](const Tensor& a, const Tensor& b) { return where(a < 0, a, b); },
                     [](const Tensor& a, std::int64_t b) { return where(a < 0, a, b); },
                     [](std::int64_t a, std::int64_t b) { return a < 0 ? a : b; }},
                    {"masked_fill", [](const Tensor& a, const Tensor& b) { return where(a < 0, b, a); },
                     [](const Tensor& a, std::int64_t b) { return masked_fill(a, a < 0, b); },
                     [](std::int64_t a, std::int64_t b) { return a < 0 ? b : a; }},
                    {"add_", [](const Tensor& a, const Tensor& b) { return a.clone().add_(b); },
                     [](const Tensor& a, std::int64_t b) { return a.clone().add_(b); }, plus},
                    {"fill_", [](const Tensor& a, const Tensor& b) { return a.clone().copy_(b); },
                     [](const Tensor& a, std::int64_t b) { return a.clone().fill_(b); },
                     [](std::int64_t, std::int64_t b) { return b; }}};
#undef FIT_INTEGER_OP
  for (const Op& op : ops)
    for (const std::int64_t a : sizes)
      for (const std::int64_t b : sizes)
        for (const std::int64_t near : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}}) {
          const std::int64_t c = plus(b, near);
          INFO(op.name << " of " << a << " and " << c);
          const std::int64_t exact = op.exact(a, c);
          CHECK(of(op.with_tensor(tensor(Integers{a, a}), tensor(Integers{c, c}))) == Integers{exact, exact});
          CHECK(of(op.with_number(tensor(Integers{a, a}), c)) == Integers{exact, exact});
        }
}

TEST_CASE("int64 tensors are made, reduced, sorted, moved, printed and stored exactly", "[integers]") {
  const auto negative = [](std::int64_t v) { return times(v, -1); };
  for (const std::int64_t v : sizes) {
    INFO(v);
    const Integers near{v, plus(v, 1), plus(v, -1)}, sorted{plus(v, -1), v, plus(v, 1)};
    const Tensor x = tensor(near);
    const Tensor matrix = reshape(x, {3, 1});
    CHECK(of(tensor({v, v})) == Integers{v, v});
    CHECK(of(full({2}, v, int64)) == Integers{v, v});
    CHECK(of(full_like(x, v)) == Integers{v, v, v});
    CHECK(full({}, v, int64).item<std::int64_t>() == v);
    CHECK(tensor(v).item<float>() == static_cast<float>(v));
    CHECK(of(tensor(v) * eye(2, int64)) == Integers{v, 0, 0, v});
    CHECK(of(neg(x)) == Integers{negative(near[0]), negative(near[1]), negative(near[2])});
    CHECK(of(abs(x))[0] == (v < 0 ? negative(v) : v));
    CHECK(of(clamp(x, v, plus(v, 1))) == Integers{v, plus(v, 1), v});
    CHECK(of(pow(x, 3))[0] == times(v, times(v, v)));
    CHECK(of(square(x))[0] == times(v, v));
    CHECK(of(sum(x))[0] == times(3, v));
    CHECK(of(sum(matrix, 0))[0] == times(3, v));
    CHECK(of(prod(x))[0] == times(near[0], times(near[1], near[2])));
    CHECK(of(cumsum(x, 0)) == Integers{v, plus(v, near[1]), times(3, v)});
    CHECK(of(cumprod(x, 0))[1] == times(v, near[1]));
    CHECK(of(dot(x, tensor({1, 0, 0})))[0] == v);
    CHECK(of(max(x))[0] == plus(v, 1));
    CHECK(of(amin(matrix, 0))[0] == plus(v, -1));
    CHECK(argmax(x).item<int>() == 1);
    CHECK(argmin(matrix, 0).item<int>() == 2);
    CHECK(of(sort(x).first) == sorted);
    CHECK(of(topk(x, 2).first) == Integers{plus(v, 1), v});
    CHECK(of(argsort(x)) == Integers{2, 0, 1});
    CHECK(of(median(x))[0] == v);
    CHECK(of(unique(x).values) == sorted);
    CHECK(of(floor(x)) == near);
    CHECK(of(nan_to_num(x)) == near);
    CHECK(of(sign(x))[0] == (v < 0 ? -1 : 1));
    CHECK(of(pad(x, {1, 0}, PadMode::constant, v)) == Integers{v, near[0], near[1], near[2]});
    CHECK(of(index_add(x, 0, tensor({2}), tensor({1}))) == Integers{v, plus(v, 1), v});
    CHECK(of(scatter_reduce(x, 0, tensor({0}), tensor({v}), Reduce::amax)) == near);
    CHECK(of(randint(v, plus(v, 1), {2})) == Integers{v, v});
    CHECK_FALSE(equal(x, x + 1));
    CHECK_FALSE(allclose(tensor({v}), tensor({plus(v, 1)}), 0, 0.5));
    CHECK(allclose(tensor({v}), tensor({plus(v, 1)}), 0, 1));
    Tensor written = zeros({3}, int64);
    written[{1}] = v;
    written[{2}] = tensor(v);
    CHECK(of(written) == Integers{0, v, v});
    CHECK(tensor({v}).str().find(std::to_string(v)) != std::string::npos);
    const Directory directory;
    save_npy(directory.file("x.npy"), x);
    CHECK(of(load_npy(directory.file("x.npy"))) == near);
  }
  // Rounded once, not to a double first, which would make it a tie.
  CHECK(full({}, (two53 | 1 << 29) + 1).item<float>() == 0x1.000002p53f);
  CHECK(tensor((two53 | 1 << 29) + 1).item<float>() == 0x1.000002p53f);
  CHECK((zeros({1}) + ((two53 | 1 << 29) + 1)).item() == 0x1.000002p53f);
  CHECK_THROWS_WITH(clamp(arange(3), two53 + 1, two53), Contains("low must not be above high"));
  Tensor x = zeros({1}, int64);
  CHECK_THROWS_WITH((x[{0}] = tensor(0x1p63, float64)), Contains("9.22337e+18"));
}

TEST_CASE("an int64 and a floating tensor compare as floating numbers, as in PyTorch and NumPy", "[integers]") {
  CHECK(eq(tensor({two53 + 1}), tensor({0x1p53}, float64)).item<bool>());
  CHECK_FALSE(eq(tensor({two53 + 2}), tensor({0x1p53}, float64)).item<bool>());
  CHECK_FALSE(eq(tensor({two53 + 1}), 0x1p53).item<bool>());  // a number has the tensor's type
  CHECK(promote(int64, float32) == float32);
}

}  // namespace fit::test::integers_test
