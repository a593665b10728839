#include "fit/int8/int8.hpp"

#include <cmath>

#include "fit/backward/gradcheck.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/io/npy.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "int8/linear.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// The type int8, and weights in it. Kernels: gemm_int8_test.cpp.
namespace fit::test::int8_test {
namespace {

using Catch::Contains;

Tensor drawn_matrix(const Shape& shape, DType dtype = float32) {
  std::mt19937_64 random(7);
  return random_tensor(shape, domain::real, random, dtype);
}

}  // namespace

TEST_CASE("int8: stored, converted, copied, compared and printed", "[int8]") {
  const Tensor x = tensor({{1, -128}, {127, 0}}, int8);
  CHECK(x.dtype() == int8);
  CHECK(size_of(int8) == 1);
  CHECK(x.to_vector<std::int8_t>() == std::vector<std::int8_t>{1, -128, 127, 0});
  CHECK(x.str() == "[[   1, -128],\n [ 127,    0]], int8");
  CHECK(equal(x.clone(), x));
  CHECK_FALSE(equal(zeros({2, 2}, int8), x));
  Tensor y = full({2, 2}, 3, int8);
  CHECK_THROWS_WITH(y[0], Contains("is int8 of shape [2, 2]") && Contains(".to(float32)"));
  y.copy_(x);
  CHECK(equal(x, y));
  CHECK(tensor({5}, int8).item<int>() == 5);
  CHECK(equal(x.to(float32), tensor({{1., -128.}, {127., 0.}})));
  CHECK(equal(x.to(boolean), tensor({{true, true}, {true, false}})));
  // As to int64: the fraction is cut off, what is too large becomes the largest, NaN 0.
  CHECK(equal(tensor({1.9, -1.9, 1e9, -1e9, NAN, 127.5}).to(int8), tensor({1, -1, 127, -128, 0, 127}, int8)));
  CHECK(equal(tensor({1000, -1000, 5}).to(int8), tensor({127, -128, 5}, int8)));
  CHECK_THROWS_WITH(tensor({128}, int8), Contains("128 does not fit int8: it must be in -128 … 127"));
  CHECK_THROWS_WITH(full({1}, -129, int8), Contains("-129 does not fit int8"));
  CHECK_THROWS_WITH(tensor({1.5}, int8), Contains("1.5 is not whole"));
}

TEST_CASE("int8: files", "[int8][safetensors]") {
  const Directory dir;
  const Tensor x = tensor({{1, -128, 3}, {127, 0, -5}}, int8);
  save_safetensors(dir.file("x.safetensors"), {{"x", x}, {"scale", ones({2, 1})}});
  const StateDict read = load_safetensors(dir.file("x.safetensors")).tensors;
  REQUIRE(read.size() == 2);
  CHECK(read[0].second.dtype() == float32);  // larger elements first
  CHECK(read[1].second.dtype() == int8);
  CHECK(equal(read[1].second, x));
  CHECK(get(dir.file("x.safetensors")).find("\"dtype\":\"I8\",\"shape\":[2,3]") != std::string::npos);
  CHECK_THROWS_WITH(save_npy(dir.file("x.npy"), x), Contains("is int8") && Contains(".to(float32)"));
}

TEST_CASE("int8: quantize and dequantize", "[int8]") {
  for (const DType dtype : {bfloat16, float32, float64})
    for (const std::int64_t k : {1, 31, 64, 100, 300})
      for (const std::int64_t group : {0, 32, 64, 128}) {
        INFO(dtype << ", " << k << " in a row, groups of " << group);
        Tensor w = drawn_matrix({5, k}, dtype);
        w[1] = zeros({k}, dtype);
        const Int8Matrix m = quantize(w, group);
        const std::int64_t size = group == 0 ? k : group, groups = (k + size - 1) / size;
        CHECK(m.values().dtype() == int8);
        CHECK(m.scale().dtype() == dtype);
        CHECK(m.scale().shape() == Shape{5, groups});
        if (groups > 1) CHECK(m.group_size() == size);
        const auto q = m.values().data<std::int8_t>();
        const Tensor back = dequantize(m);
        CHECK(back.dtype() == dtype);
        const std::vector<double> wide = values(w), scales = values(m.scale()), read_back = values(back);
        for (std::int64_t i = 0; i < 5; ++i)
          for (std::int64_t j = 0; j < k; ++j) {
            const double* const row = wide.data() + i * k;
            double most = 0;
            for (std::int64_t l = j / size * size; l < std::min(k, (j / size + 1) * size); ++l)
              most = std::max(most, std::abs(row[l]));
            const double scale = scales.data()[i * groups + j / size], x = row[j];
            if (std::abs(scale - most / 127) > 0.004 * most / 127) FAIL("the scale of " << i << ", " << j);
            const double exact = scale == 0 ? 0 : x / scale;
            if (std::abs(q[i * k + j] - exact) > 0.5001 || std::abs(int{q[i * k + j]}) > 127)
              FAIL("element " << i << ", " << j << " is " << int{q[i * k + j]} << " for " << exact);
            const double read = read_back.data()[i * k + j];
            if (std::abs(read - q[i * k + j] * scale) > 0.004 * std::abs(read)) FAIL("read back at " << i << ", " << j);
          }
      }
  // To the nearest, of two as near the even one: the scale is 1.
  const Int8Matrix ties = quantize(tensor({{127., 0.5, 1.5, 2.5, -0.5, -1.5, 0.75, -127.}}));
  CHECK(equal(ties.values(), tensor({{127, 0, 2, 2, 0, -2, 1, -127}}, int8)));
  // Below the smallest scale that there is.
  const Int8Matrix tiny = quantize(full({1, 2}, 1e-45));
  CHECK(equal(dequantize(tiny), zeros({1, 2})));
  CHECK(equal(dequantize(quantize(full({1, 2}, 3e38))), full({1, 2}, static_cast<float>(3e38 / 127) * 127)));
  CHECK(quantize(zeros({3, 0})).scale().shape() == Shape{3, 0});

  CHECK_THROWS_WITH(quantize(tensor({{1., 2.}, {NAN, 0.}})), Contains("NaN or an infinity in row 1"));
  CHECK_THROWS_WITH(quantize(full({2, 2}, INFINITY)), Contains("all must be finite"));
  CHECK_THROWS_WITH(quantize(ones({2, 2}), 16), Contains("group_size is 16: it must be 32, 64 or 128, or 0"));
  CHECK_THROWS_WITH(quantize(ones({2})), Contains("[n, k]"));
  CHECK_THROWS_WITH(quantize(ones({2, 2}, int64)), Contains("w is int64"));
  CHECK_THROWS_WITH(Int8Matrix(zeros({2, 100}, int8), ones({2, 3})), Contains("scale [2, 3]"));
  CHECK_THROWS_WITH(Int8Matrix(zeros({2, 100}, int8), ones({3, 1})), Contains("scale must be [2, groups]"));
  CHECK_THROWS_WITH(Int8Matrix(zeros({2, 100}), ones({2, 1})), Contains("must be int8 [n, k]"));
  CHECK_THROWS_WITH(Int8Matrix(zeros({2, 4}, int8), ones({2, 1}).requires_grad_()), Contains("not trained"));
  // What the constructor has checked stays: no member can be given another tensor.
  static_assert(std::is_same_v<decltype(std::declval<Int8Matrix&>().values()), const Tensor&>);
  static_assert(std::is_same_v<decltype(std::declval<Int8Matrix&>().scale()), const Tensor&>);
}

TEST_CASE("int4: quantize and dequantize", "[int8][int4]") {
  for (const DType dtype : {bfloat16, float32, float64}) {
    INFO(dtype);
    Tensor w = drawn_matrix({5, 96}, dtype);
    w[1] = zeros({96}, dtype);
    const Int8Matrix m = quantize_int4(w);
    CHECK(m.bits() == 4);
    CHECK(m.group_size() == 32);
    CHECK(m.shape() == w.shape());
    CHECK(m.values().shape() == Shape{5, 48});
    CHECK(m.scale().shape() == Shape{5, 3});
    CHECK(m.scale().dtype() == dtype);
    const Tensor back = dequantize(m);
    CHECK(back.dtype() == dtype);
    CHECK(equal(back[1], zeros({96}, dtype)));
    // A number is its number in the documented place, times the scale.
    const auto bytes = m.values().data<std::int8_t>();
    const std::vector<double> read = values(back), scales = values(m.scale()), wide = values(w);
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < 96; ++j) {
        const int byte = static_cast<unsigned char>(bytes[i * 48 + j / 8 * 4 + j % 4]),
                  number = j % 8 < 4 ? byte % 16 : byte / 16;
        const double want = (number - 8) * scales.data()[i * 3 + j / 32];
        if (std::abs(read.data()[i * 96 + j] - want) > 0.004 * std::abs(want)) FAIL("element " << i << ", " << j);
      }
      // The error is no larger than that of Q4_0's own rule, q = x / d + 8.5 cut off, d = m / -8.
      for (std::int64_t g = 0; g < 96; g += 32) {
        double most = 0, error = 0, simple = 0;
        const double* const x = wide.data() + i * 96 + g;
        for (int l = 0; l < 32; ++l)
          if (std::abs(x[l]) > std::abs(most)) most = x[l];
        for (int l = 0; l < 32 && most != 0; ++l) {
          const double d = most / -8, q = std::min(15.0, std::floor(x[l] / d + 8.5)) - 8;
          error += std::pow(x[l] - read.data()[i * 96 + g + l], 2), simple += std::pow(x[l] - d * q, 2);
        }
        CHECK(error <= simple * (dtype == bfloat16 ? 1.1 : 1));
      }
    }
  }
  // What Q4_0 stands for stays: a scale of float16, and each number.
  std::vector<double> numbers;
  for (int l = 0; l < 64; ++l) numbers.push_back((l % 16 - 8) * (l < 32 ? -0.0123291015625 : 3.5));
  const Tensor exact = tensor(numbers).to(float32).reshape({1, 64});
  CHECK(same_bits(dequantize(quantize_int4(exact)), exact));
  CHECK(all(isfinite(dequantize(quantize_int4(full({1, 32}, 1e-45))))).item<bool>());
  CHECK(all(isfinite(dequantize(quantize_int4(full({1, 32}, 3e38))))).item<bool>());
  CHECK(quantize_int4(zeros({3, 0})).scale().shape() == Shape{3, 0});

  CHECK_THROWS_WITH(quantize_int4(ones({2, 40})),
                    Contains("w has shape [2, 40]") && Contains("40 must be a multiple of 32"));
  CHECK_THROWS_WITH(quantize_int4(full({2, 32}, NAN)), Contains("[quantize_int4]") && Contains("NaN or an infinity"));
  CHECK_THROWS_WITH(quantize_int4(ones({32})), Contains("[n, k]"));
  const auto floating = Int8Activations::floating;
  CHECK_THROWS_WITH(Int8Matrix(zeros({2, 16}, int8), ones({2, 2}), floating, 4), Contains("scale [2, 2]"));
  CHECK_THROWS_WITH(Int8Matrix(zeros({2, 16}, int8), ones({2, 1}), floating, 5),
                    Contains("bits is 5: it must be 8 or 4"));
}

TEST_CASE("int4: products and tables are those of the matrix that it stands for", "[int8][int4]") {
  const Int8Matrix w = quantize_int4(drawn_matrix({33, 96})),
                   rounded(w.values(), w.scale(), Int8Activations::rounded, 4);
  const Tensor plain = dequantize(w), bias = drawn_matrix({33});
  for (const std::int64_t rows : {1, 4, 9}) {
    INFO(rows << " rows");
    const Tensor x = drawn_matrix({rows, 96}), want = linear(x, plain, bias);
    CHECK(max_difference(linear(x, w, bias), want) < 1e-4);
    CHECK(max_difference(linear(x.to(float64), {w.values(), w.scale().to(float64), Int8Activations::floating, 4}),
                         linear(x, plain)) < 1e-4);
    const Tensor y = linear(x, rounded, bias);
    CHECK(max_difference(y, linear(dequantize(quantize(x, 32)), plain, bias)) < 1e-4);
    const NoGrad no_grad;
    CHECK(same_bits(linear(x, rounded, bias), y));
    CHECK(same_bits(linear(x[{range(0, 1)}], rounded, bias), y[{range(0, 1)}]));
    const Autocast on(bfloat16);
    CHECK(max_difference(linear(x, w, bias).to(float32), want) < 0.3);
  }
  Tensor x = drawn_matrix({2, 96}).detach();
  x.requires_grad_();
  for (const Int8Matrix& m : {w, rounded}) {
    x.zero_grad();
    sum(linear(x, m)).backward();
    CHECK(max_difference(x.grad(), matmul(ones({2, 33}), plain)) < 1e-4);
  }
  const Tensor ids = tensor({{3, 0}, {32, 3}});
  CHECK(same_bits(embedding(w, ids), embedding(plain, ids)));
  CHECK_THROWS_WITH(linear(ones({2, 48}), w), Contains("x is [2, 48], weight is [33, 96]"));
}

TEST_CASE("int8: products and tables are those of the matrix that it stands for", "[int8]") {
  for (const std::int64_t rows : {1, 4, 9})
    for (const std::int64_t group : {0, 32}) {
      INFO(rows << " rows, groups of " << group);
      const Int8Matrix w = quantize(drawn_matrix({33, 70}), group);
      const Tensor x = drawn_matrix({rows, 70}), bias = drawn_matrix({33}), plain = dequantize(w);
      CHECK(max_difference(linear(x, w, bias), linear(x, plain, bias)) < 1e-4);
      CHECK(linear(reshape(x, {rows, 1, 70}), w).shape() == Shape{rows, 1, 33});
      CHECK(max_difference(linear(x.to(float64), {w.values(), w.scale().to(float64)}), linear(x, plain)) < 1e-4);
      CHECK(linear(x.to(bfloat16), {w.values(), w.scale().to(bfloat16)}, bias.to(bfloat16)).dtype() == bfloat16);
      const Autocast on(bfloat16);
      const Tensor y = linear(x, w, bias);
      CHECK(y.dtype() == bfloat16);
      CHECK(max_difference(y.to(float32), linear(x, plain, bias).to(float32)) < 0.3);
    }
  CHECK(linear(ones({70}), quantize(drawn_matrix({33, 70}))).shape() == Shape{33});
  const Int8Matrix table = quantize(drawn_matrix({11, 40}), 32);
  const Tensor ids = tensor({{3, 0}, {10, 3}});
  CHECK(same_bits(embedding(table, ids), embedding(dequantize(table), ids)));
  CHECK_THROWS_WITH(embedding(table, tensor({11})), Contains("must be in 0 … 10"));
  CHECK_THROWS_WITH(linear(ones({2, 3}), table), Contains("x is [2, 3], weight is [11, 40]"));
  CHECK_THROWS_WITH(linear(ones({2, 40}, bfloat16), table), Contains("the scale of the int8 weight is float32"));
  CHECK_THROWS_WITH(linear(ones({2, 40}), table, ones({3})), Contains("bias"));
}

TEST_CASE("int8: a function of a product has the bits that it has afterwards, and the gradients", "[int8]") {
  const auto activations = GENERATE(Int8Activations::floating, Int8Activations::rounded);
  const Int8Matrix w = quantize(drawn_matrix({33, 70}));
  const auto& gelu_tanh = kernels::Function::gelu_tanh;
  for (const DType t : {float32, bfloat16, float64})
    for (const std::int64_t rows : {1, 4, 9}) {
      INFO(name_of(t) << ", " << rows << " rows");
      const Int8Matrix of_type(w.values(), w.scale().to(t), activations);
      const auto run = [&](bool fused) {
        Tensor x = drawn_matrix({rows, 70}, t).requires_grad_(), b = drawn_matrix({33}, t).requires_grad_();
        const auto f = [&] {
          return fused ? detail::apply_to_linear(gelu_tanh, x, of_type, b) : gelu(linear(x, of_type, b), Gelu::tanh);
        };
        const Tensor y = f();
        sum(y).backward();
        const NoGrad no_grad;
        return std::vector<Tensor>{y.detach(), f(), x.grad(), b.grad()};
      };
      const std::vector<Tensor> one_pass = run(true), two = run(false);
      for (std::size_t i = 0; i < two.size(); ++i) CHECK(same_bits(one_pass[i], two[i]));
    }
}

TEST_CASE("int8: rounded activations give the product of what both operands stand for", "[int8]") {
  for (const std::int64_t rows : {1, 4, 9})
    for (const std::int64_t group : {0, 32}) {
      INFO(rows << " rows, groups of " << group);
      const Int8Matrix w = quantize(drawn_matrix({33, 70}), group, Int8Activations::rounded);
      CHECK(w.activations() == Int8Activations::rounded);
      CHECK(quantize(drawn_matrix({33, 70}), group).activations() == Int8Activations::floating);
      const Tensor x = drawn_matrix({rows, 70}), bias = drawn_matrix({33}), plain = dequantize(w);
      const Tensor y = linear(x, w, bias), exact = linear(x, plain, bias);
      CHECK(max_difference(y, linear(dequantize(quantize(x, group)), plain, bias)) < 1e-4);
      CHECK(max_difference(y, exact) > 1e-3);  // rounded off
      CHECK(max_difference(y, exact) < 0.03 * max(abs(exact)).item());
      CHECK(linear(reshape(x, {rows, 1, 70}), w).shape() == Shape{rows, 1, 33});
      const Int8Matrix wide(w.values(), w.scale().to(float64), Int8Activations::rounded);
      CHECK(max_difference(linear(x.to(float64), wide, bias.to(float64)), exact.to(float64)) < 1e-4);  // not rounded
      const Int8Matrix half(w.values(), w.scale().to(bfloat16), Int8Activations::rounded);
      CHECK(linear(x.to(bfloat16), half, bias.to(bfloat16)).dtype() == bfloat16);
      const Autocast on(bfloat16);
      CHECK(linear(x, w, bias).dtype() == bfloat16);
      CHECK(max_difference(linear(x, w, bias).to(float32), exact) < 0.04 * max(abs(exact)).item());
    }
  const Int8Matrix w = quantize(drawn_matrix({33, 70}), 0, Int8Activations::rounded);
  CHECK(linear(ones({70}), w).shape() == Shape{33});
  CHECK(linear(ones({0, 70}), w).shape() == Shape{0, 33});
  CHECK(equal(linear(ones({3, 0}), quantize(zeros({2, 0}), 0, Int8Activations::rounded), ones({2})), ones({3, 2})));
  CHECK_THROWS_WITH(linear(ones({2, 3}), w), Contains("x is [2, 3], weight is [33, 70]"));
  // What is not finite stays in its row.
  for (const std::int64_t rows : {3, 9}) {
    Tensor x = drawn_matrix({rows, 70});
    const Tensor before = linear(x, w);
    x[{1, 5}] = NAN;
    x[{2, 69}] = INFINITY;
    const Tensor after = linear(x, w);
    CHECK(same_bits(after[0], before[0]));
    CHECK(all(isnan(after[1])).item<bool>());
    CHECK(all(isnan(after[2])).item<bool>());
  }
}

TEST_CASE("int8: rounded activations give the same bits on every processor, in every mode, from kept weights",
          "[int8]") {
  for (const std::int64_t rows : {1, 4, 5, 9, 200})
    for (const std::int64_t group : {0, 32}) {
      INFO(rows << " rows, groups of " << group);
      Int8Matrix w = quantize(drawn_matrix({90, 300}), group, Int8Activations::rounded);
      const Tensor x = drawn_matrix({rows, 300}), y = linear(x, w);
      each_int8_isa([&] {
        CHECK(same_bits(linear(x, w), y));
        const Reproducible mode;
        CHECK(same_bits(linear(x, w), y));
      });
      const NoGrad no_grad;  // then the weights keep their panels
      for (int time = 0; time < 3; ++time) CHECK(same_bits(linear(x, w), y));
      if (rows > 1) CHECK(same_bits(linear(slice(x, 0, rows - 1, rows), w), slice(y, 0, rows - 1, rows)));
      Tensor values = w.values(), scale = w.scale();
      values.copy_(quantize(ones({90, 300})).values());
      const Tensor of_ones = linear(x, w);
      CHECK(same_bits(of_ones, linear(x, {values.clone(), scale, Int8Activations::rounded})));
      scale.copy_(scale * 2);
      CHECK(same_bits(linear(x, w), of_ones * 2));
    }
}

TEST_CASE("int8: the number of threads doesn't change a bit", "[int8]") {
  for (const std::int64_t rows : {1, 3, 20}) {
    const Tensor x = drawn_matrix({rows, 300}), w = drawn_matrix({4001, 300});
    check_threads([&] { return linear(x, quantize(w, 64)); });
    check_threads([&] { return linear(x, quantize(w, 64, Int8Activations::rounded)); });
    check_threads([&] { return linear(x, quantize(w, 0, Int8Activations::rounded)); });
    check_threads([&] { return quantize(w).values(); });
    check_threads([&] { return dequantize(quantize(w)); });
  }
}

TEST_CASE("int8: the gradients by x and by the bias", "[int8]") {
  const Int8Matrix float_w = quantize(drawn_matrix({5, 40}), 32);
  const Int8Matrix w(float_w.values(), float_w.scale().to(float64));
  for (const Shape& shape : {Shape{3, 40}, Shape{40}, Shape{2, 3, 40}}) {
    const auto f = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {square(linear(in[0], w, in[1]))};
    };
    const auto o = GradCheckOptions().order(2);
    const GradReport report = check_gradients(f, {drawn_matrix(shape, float64), drawn_matrix({5}, float64)}, o);
    INFO(report);
    CHECK(report.ok);
  }
  // In float32 by the kernels, which have no derivative of their own.
  for (const std::int64_t rows : {1, 9})
    for (const auto activations : {Int8Activations::floating, Int8Activations::rounded}) {
      Tensor x = drawn_matrix({rows, 40}).requires_grad_(), b = drawn_matrix({5}).requires_grad_();
      const Tensor dy = drawn_matrix({rows, 5});
      sum(linear(x, {float_w.values(), float_w.scale(), activations}, b) * dy).backward();
      CHECK(max_difference(x.grad(), matmul(dy, dequantize(float_w))) < 1e-5);
      CHECK(max_difference(b.grad(), sum(dy, 0)) < 1e-5);
    }
}

}  // namespace fit::test::int8_test
