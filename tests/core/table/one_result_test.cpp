#include "support/oracles/one_result.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <sstream>

#include "fit/attention/attention.hpp"
#include "fit/attention/linear_attention.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/int8/int8.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/tensor/random.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/sha256.hpp"
#include "support/tables/op_table.hpp"
#include "support/variants.hpp"

// Each operation has one result, to the bit, on every instruction set: the rows of the table of operations in both
// precisions, and sizes at which kernels take their other ways.
namespace fit::test::one_result_test {
namespace {

using Values = std::vector<Tensor>;

Values draw(const OpRow& row, const std::vector<Shape>& set, DType dtype) {
  std::mt19937_64 random(17);
  Values in;
  for (std::size_t i = 0; i < set.size(); ++i) in.push_back(random_tensor(set[i], row.domain_of(i), random, dtype));
  return in;
}

// Adds the outputs, and the gradients of all inputs for fixed cotangents, to `all`.
void add_outputs_and_gradients(const TensorFunction& f, const Values& in, Values& all) {
  Values leaves, outputs, seeds;
  for (const Tensor& x : in) leaves.push_back(is_floating(x.dtype()) ? x.clone().requires_grad_() : x);
  std::mt19937_64 random(3);
  for (const Tensor& y : f(leaves)) {
    all.push_back(y.detach());
    if (!is_floating(y.dtype())) continue;
    outputs.push_back(y);
    seeds.push_back(random_tensor(y.shape(), domain::real, random, y.dtype()));
  }
  Values wanted;
  for (const Tensor& x : leaves)
    if (is_floating(x.dtype())) wanted.push_back(x);
  for (const Tensor& g : grad(outputs, wanted, seeds, allow_unused)) all.push_back(g);
}

Values outputs_and_gradients(const TensorFunction& f, const Values& in) {
  Values all;
  add_outputs_and_gradients(f, in, all);
  return all;
}

Values of_row(const OpRow& row) {
  Values all;
  for (const DType dtype : {float32, float64})
    for (const auto& sets : {row.shapes, row.large_shapes})
      for (const std::vector<Shape>& set : sets) add_outputs_and_gradients(row.f, draw(row, set, dtype), all);
  return all;
}

Tensor numbers(const Shape& shape, DType dtype, double low = -2, double high = 2, unsigned seed = 5) {
  std::mt19937_64 random(seed);
  return random_tensor(shape, {low, high}, random, dtype);
}

std::string precision(DType dtype) { return dtype == float32 ? " float32" : " float64"; }

}  // namespace

TEST_CASE("a fingerprint is SHA-256", "[one_result]") {
  Sha256 hash;
  hash.add("abc", 3);
  CHECK(hash.digits() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// These call the C library and LAPACK, which compute otherwise on another processor (docs/reliability.md).
bool is_of_a_library(const std::string& name) {
  const std::string op = name.substr(0, name.find(','));
  const std::vector<std::string> ops{
      "atan2", "solve", "solve_triangular", "lstsq", "inv", "det", "slogdet", "cholesky", "eigh", "svd", "qr"};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

TEST_CASE("one result: each row of the table of operations", "[one_result]") {
  each_row([](const OpRow& row) {
    if (!is_of_a_library(row.name())) check_one_result("op " + row.name(), [&] { return of_row(row); });
  });
}

TEST_CASE("one result: random numbers", "[one_result]") {
  for (const DType dtype : {float32, float64})
    check_one_result("random numbers" + precision(dtype), [&] {
      Generator g(1);
      const Tensor x = numbers({1000}, dtype);
      return Values{randn({1001}, dtype, g), rand({999}, dtype, g),
                    dropout(x, 0.3, g),      randint(0, 100, {50}, g),
                    randperm(70, g),         multinomial(exp(numbers({3, 40}, dtype)), 5, Replacement::no, g)};
    });
}

TEST_CASE("one result: functions over their range", "[one_result]") {
  const std::vector<std::pair<std::string, Tensor (*)(const Tensor&)>> functions = {
#define ROW(f)                               \
  {                                          \
#f, [](const Tensor& x) { return f(x); } \
  }
      ROW(exp),         ROW(expm1), ROW(log),      ROW(log1p), ROW(log2), ROW(sqrt),  ROW(rsqrt), ROW(sin),
      ROW(cos),         ROW(tan),   ROW(asin),     ROW(acos),  ROW(atan), ROW(tanh),  ROW(erf),   ROW(sigmoid),
      ROW(log_sigmoid), ROW(silu),  ROW(softplus), ROW(gelu),  ROW(elu),  ROW(floor), ROW(round),
#undef ROW
  };
  // Sizes from denormal to huge, of both signs, and ordinary ones.
  const auto inputs = [](DType dtype) {
    const Tensor sizes = numbers({4003}, float64, dtype == float32 ? -149 : -1070, dtype == float32 ? 128 : 1023);
    Tensor wide = Tensor::empty({4003}, float64);
    for (std::int64_t i = 0; i < 4003; ++i) {
      const double e = sizes.data<double>()[i], whole = std::floor(e);
      wide.fresh<double>()[i] = (i % 2 ? -1 : 1) * std::ldexp(1 + (e - whole), static_cast<int>(whole));
    }
    return cat({wide.to(dtype), numbers({4003}, dtype, -100, 100), numbers({4003}, dtype, -1, 1)}, 0);
  };
  for (const auto& [name, f] : functions)
    for (const DType dtype : {float32, float64}) DYNAMIC_SECTION(name << precision(dtype)) {
        check_one_result("function " + name + precision(dtype), [&, f = f] {
          return outputs_and_gradients([&](const Values& in) { return Values{f(in[0])}; }, {inputs(dtype)});
        });
      }
}

TEST_CASE("one result: rows of all lengths", "[one_result]") {
  for (const DType dtype : {float32, float64})
    for (const std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 257, 1000, 5003})
      DYNAMIC_SECTION(n << precision(dtype)) {
        const auto f = [n](const Values& in) {
          const Tensor &x = in[0], &w = in[1], &b = in[2];
          Tensor targets = zeros({3}, int64);
          for (std::int64_t i = 0; i < 3; ++i) targets.edit<std::int64_t>()[i] = i * 7 % n;
          return Values{softmax(x, -1),
                        log_softmax(x, -1),
                        softmax(transpose(x), 0),
                        logsumexp(x, {-1}),
                        sum(x, {-1}),
                        mean(x, {0}),
                        var(x, {-1}),
                        norm(x),
                        layer_norm(x, w, b),
                        rms_norm(x, w),
                        sum(x),
                        cross_entropy_rows(x, targets),
                        normalize(x),
                        prod(x, -1),
                        max(x)};
        };
        check_one_result("rows of " + std::to_string(n) + precision(dtype), [&] {
          return outputs_and_gradients(
              f, {numbers({3, n}, dtype, -4, 4), numbers({n}, dtype, -1, 1, 6), numbers({n}, dtype, -1, 1, 7)});
        });
      }
}

TEST_CASE("one result: products of all shapes", "[one_result]") {
  const std::int64_t sizes[][3] = {{1, 1, 1},     {1, 300, 70},  {2, 70, 300},   {3, 65, 129},  {4, 40, 1000},
                                   {5, 33, 257},  {8, 500, 100}, {20, 300, 200}, {33, 17, 128}, {64, 64, 64},
                                   {65, 66, 400}, {130, 70, 90}, {200, 3, 500},  {100, 1, 300}, {97, 193, 129}};
  for (const DType dtype : {float32, float64})
    for (const auto& s : sizes) DYNAMIC_SECTION(s[0] << ' ' << s[1] << ' ' << s[2] << precision(dtype)) {
        const std::int64_t m = s[0], n = s[1], k = s[2];
        std::ostringstream name;
        name << "product " << m << ' ' << n << ' ' << k << precision(dtype);
        check_one_result(name.str(), [&] {
          Values all;
          for (const bool reproducible : {false, true}) {
            std::optional<Reproducible> mode;
            if (reproducible) mode.emplace();
            const Tensor a = numbers({m, k}, dtype), b = numbers({k, n}, dtype, -2, 2, 8);
            add_outputs_and_gradients([](const Values& in) { return Values{matmul(in[0], in[1])}; }, {a, b}, all);
            add_outputs_and_gradients([](const Values& in) { return Values{linear(in[0], in[1], in[2])}; },
                                      {a, numbers({n, k}, dtype, -2, 2, 9), numbers({n}, dtype)}, all);
          }
          return all;
        });
      }
}

TEST_CASE("one result: attention", "[one_result]") {
  struct Case {
    std::string name;
    Callable<AttentionOptions()> options;
  };
  static const Tensor slopes = numbers({4}, float32, 0.01, 0.5, 4);
  const std::vector<Case> cases = {
      {"plain", [] { return AttentionOptions(); }},
      {"causal", [] { return AttentionOptions().causal(); }},
      {"window and mask",
       [] {
         return AttentionOptions().causal().window(20).attends(
             [](At at) { return at.query - at.key < 30 || at.key < 4; });
       }},
      {"alibi", [] { return AttentionOptions().causal().alibi(slopes); }},
      {"score", [] { return AttentionOptions().causal().score([](Score s, At) { return 20 * tanh(s / 20); }); }},
      {"dropout", [] {
         static Generator g(0);
         g = Generator(3);
         return AttentionOptions().dropout(0.2).generator(&g);
       }}};
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 8}, {1, 64}, {5, 33}, {64, 64}, {100, 33}, {130, 8}};
  for (const Case& c : cases)
    for (const DType dtype : {float32, float64})
      for (const auto& [T, D] : sizes) DYNAMIC_SECTION(c.name << ' ' << T << ' ' << D << precision(dtype)) {
          std::ostringstream name;
          name << "attention " << c.name << ' ' << T << ' ' << D << precision(dtype);
          if (dtype == float64 && c.name == "alibi") continue;
          check_one_result(name.str(), [&, T = T, D = D] {
            return outputs_and_gradients(
                [&](const Values& in) {
                  const AttentionResult r = attend(in[0], in[1], in[2], c.options().lse(true));
                  return Values{r.output, r.lse};
                },
                {numbers({2, 4, T, D}, dtype), numbers({2, 2, 100, D}, dtype, -2, 2, 8),
                 numbers({2, 2, 100, D}, dtype, -2, 2, 9)});
          });
        }
}

TEST_CASE("one result: bfloat16 and weights of 8 bits in the mode Reproducible", "[one_result][bfloat16]") {
  const std::int64_t sizes[][3] = {{1, 300, 70},   {3, 65, 129},  {5, 33, 1100},
                                   {20, 300, 200}, {65, 66, 600}, {130, 70, 90}};
  for (const auto& s : sizes) DYNAMIC_SECTION(s[0] << ' ' << s[1] << ' ' << s[2]) {
      const std::int64_t m = s[0], n = s[1], k = s[2];
      std::ostringstream name;
      name << "narrow product " << m << ' ' << n << ' ' << k;
      check_one_narrow_result(name.str(), [&] {
        Values all;
        const Tensor x = numbers({m, k}, bfloat16), w = numbers({n, k}, bfloat16, -2, 2, 9), b = numbers({n}, bfloat16);
        const auto product = [](const Values& in) { return Values{linear(in[0], in[1], in[2])}; };
        add_outputs_and_gradients(product, {x, w, b}, all);
        add_outputs_and_gradients([](const Values& in) { return Values{matmul(in[0], in[1])}; }, {x, transpose(w)},
                                  all);
        const Values wide{x.to(float32), w.to(float32) * 1.01, b.to(float32)};
        {
          const Autocast low(bfloat16);
          add_outputs_and_gradients(product, wide, all);
        }
        const NoGrad no_grad;
        for (int use = 0; use < 2; ++use) all.push_back(linear(x, w, b));  // from kept panels
        for (const std::int64_t group : {0, 32}) {
          all.push_back(linear(x, quantize(w, group), b));
          all.push_back(linear(wide[0], quantize(wide[1], group), wide[2]));
        }
        return all;
      });
    }
  for (const std::int64_t T : {1, 5, 64, 130}) DYNAMIC_SECTION("attention " << T) {
      check_one_narrow_result("narrow attention " + std::to_string(T), [&] {
        return outputs_and_gradients(
            [](const Values& in) { return Values{attend(in[0], in[1], in[2], AttentionOptions().causal()).output}; },
            {numbers({2, 4, T, 40}, bfloat16), numbers({2, 2, 130, 40}, bfloat16, -2, 2, 8),
             numbers({2, 2, 130, 40}, bfloat16, -2, 2, 9)});
      });
    }
}

}  // namespace fit::test::one_result_test
