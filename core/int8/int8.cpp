// Weights in 8 or 4 bits: quantize, dequantize, linear and embedding.
#include "fit/int8/int8.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "fit/detail/thread_state.hpp"
#include "fit/ops/ops.hpp"
#include "int8/bytes_product.hpp"
#include "int8/linear.hpp"
#include "int8/product.hpp"
#include "kernels/gather.hpp"
#include "ops/common/autocast.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/linalg/flop_counter.hpp"
#include "ops/linalg/linear_call.hpp"
#include "ops/linalg/product_copy.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

constexpr std::int64_t group_sizes[] = {32, 64, 128};
constexpr double largest = 127;

std::int64_t groups_of(std::int64_t k, std::int64_t size) { return (k + size - 1) / size; }

// The group size for `groups` groups in a row of k, or -1 if there is none. It is unique: two sizes give the same
// number of groups only for one group, which is the full row.
std::int64_t size_of_groups(std::int64_t k, std::int64_t groups) {
  if (groups == groups_of(k, std::max<std::int64_t>(k, 1))) return std::max<std::int64_t>(k, 1);
  for (const std::int64_t size : group_sizes)
    if (groups == groups_of(k, size)) return size;
  return -1;
}

// Quantizes a group of n finite elements.
template <class T>
void quantize_group(const T* x, std::int64_t n, std::int8_t* values, T* scale) {
  using W = AccT<T>;
  W max_abs = 0;
  for (std::int64_t i = 0; i < n; ++i) max_abs = std::max(max_abs, std::abs(static_cast<W>(x[i])));
  *scale = static_cast<T>(max_abs / static_cast<W>(largest));
  const auto s = static_cast<W>(*scale);
  // A scale may underflow to 0. A subnormal scale has lost digits: without the clamp, numbers could exceed 127.
  for (std::int64_t i = 0; i < n; ++i)
    values[i] = s == 0 ? std::int8_t{0}
                       : static_cast<std::int8_t>(std::clamp(std::nearbyint(static_cast<W>(x[i]) / s),
                                                             static_cast<W>(-largest), static_cast<W>(largest)));
}

// Adds 8 to numbers of 4 bits and stores them. See Int8Matrix.
void store_int4(const std::int8_t* numbers, std::int8_t* to) {
  for (int l = 0; l < kernels::int4_group; l += 8)
    for (int b = 0; b < 4; ++b)
      to[l / 2 + b] = static_cast<std::int8_t>((numbers[l + b] + 8) | (numbers[l + 4 + b] + 8) << 4);
}

// Quantizes a group of 32 finite elements to 4 bits. See quantize_int4().
template <class T>
void quantize_int4_group(const T* x, std::int8_t* values, T* scale) {
  using W = AccT<T>;
  constexpr int n = kernels::int4_group;
  constexpr W rounds = sizeof(W) == 4 ? static_cast<W>(0x1.8p23) : static_cast<W>(0x1.8p52);  // v + it is whole
  W u[n], most = 0;
  for (int i = 0; i < n; ++i)
    if (std::abs(static_cast<W>(x[i])) > std::abs(most)) most = static_cast<W>(x[i]);
  for (int i = 0; i < n; ++i) u[i] = most == 0 ? W(0) : static_cast<W>(x[i]) / most;  // free of underflow
  std::int8_t best[n] = {};
  double best_sum = 0, best_scale = 0;
  for (int tenths = 71; tenths < 90; ++tenths) {
    const W c = static_cast<W>(tenths) / -10;
    W q[n], uq = 0, qq = 0;
    for (int i = 0; i < n; ++i) q[i] = std::clamp((u[i] * c + rounds) - rounds, W(-8), W(7));
    for (int i = 0; i < n; ++i) uq += u[i] * q[i], qq += q[i] * q[i];
    const double sum = qq == 0 ? 0 : static_cast<double>(uq) * static_cast<double>(uq) / static_cast<double>(qq);
    if (!(sum > best_sum)) continue;  // the sum of squared errors is sum(u^2) - sum
    best_sum = sum, best_scale = static_cast<double>(uq) / static_cast<double>(qq);
    std::transform(q, q + n, best, [](W v) { return static_cast<std::int8_t>(v); });
  }
  *scale = static_cast<T>(static_cast<double>(most) * best_scale);
  store_int4(best, values);
}

void check_matrix(const char* op, const Tensor& w) {
  check::floating(op, "w", w);
  if (w.rank() != 2) check::fail(op, "w has shape ", w.shape(), ": it must be [n, k]");
}

// Calls of_group(x, n, values, scale) for each group of n elements of a row of w.
template <class Group>
Int8Matrix quantized(const char* op, const Tensor& w, std::int64_t size, Int8Activations activations, int bits,
                     const Group& of_group) {
  const std::int64_t n = w.shape()[0], k = w.shape()[1], bytes = k * bits / 8, groups = groups_of(k, size);
  Tensor values = Tensor::empty({n, bytes}, int8), scale = Tensor::empty({n, groups}, w.dtype());
  dispatch_floating(w.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const from = static_cast<const T*>(w.raw());
    std::int8_t* const to = values.fresh<std::int8_t>();
    T* const scales = scale.fresh<T>();
    std::atomic<std::int64_t> wrong{-1};
    parallel_for(n, (1 << 13) / (k + 1) + 1, [&](std::int64_t row, std::int64_t end) {
      for (; row < end; ++row) {
        const T* const x = from + row * k;
        if (!std::all_of(x, x + k, [](T v) { return std::isfinite(static_cast<AccT<T>>(v)); })) wrong = row;
        for (std::int64_t g = 0; g < groups && wrong < 0; ++g)
          of_group(x + g * size, std::min(size, k - g * size), to + row * bytes + g * size * bits / 8,
                   scales + row * groups + g);
      }
    });
    if (wrong >= 0)
      check::fail(op, "w of shape ", w.shape(), " has a NaN or an infinity in row ", wrong.load(),
                  ": all must be finite");
  });
  return {std::move(values), std::move(scale), activations, bits};
}

// The operand of the kernels. scales: m.scale() as float32.
kernels::Int8Weights weights_of(const Int8Matrix& m, const Tensor& scales) {
  kernels::Int8Weights w;
  w.data = m.values().data<std::int8_t>().data();
  w.scales = scales.data<float>().data();
  w.ld = m.values().shape()[1];
  w.group = m.group_size();
  w.bits = m.bits();
  return w;
}

Tensor dequantized(const Int8Matrix& w) {
  Tensor y = Tensor::empty(w.shape(), w.scale().dtype());
  const std::int64_t n = y.shape()[0], k = y.shape()[1];
  const Tensor float_scales = to_dtype_no_grad(w.scale(), float32);
  const kernels::Int8Weights from = weights_of(w, float_scales);
  if (w.scale().dtype() == float64) {
    const auto scales = w.scale().data<double>();
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < k; ++j)
        y.fresh<double>()[i * k + j] = from.at(i, j) * scales[i * from.groups(k) + j / from.group];
    return y;
  }
  y.dtype() == float32 ? kernels::unpack_int8_parallel(n, k, from, y.fresh<float>())
                       : kernels::unpack_int8_parallel(n, k, from, y.fresh<BFloat16>());
  return y;
}

// The weights in panels, which products of bytes read, and those of few rows in Reproducible. The tensors of w keep
// them, as a weight of bfloat16 keeps its own (ops/linalg/matmul.cpp).
class KeptPanels {
 public:
  KeptPanels(std::int64_t rows, const Int8Matrix& w, const kernels::Int8Weights& from) {
    const std::int64_t n = w.shape()[0], k = w.shape()[1];
    const bool floating = w.activations() == Int8Activations::floating;
    const bool in_order = reproducible() && rows <= kernels::gemv_max_m && w.bits() == 8;
    if ((floating && !in_order) || !detail::keeps_panels(w.values(), rows, floating)) return;
    const detail::ProductForm form = detail::product_form(detail::CopyKind::byte_panels, k);
    bytes_ = detail::product_copy(w.values(), form, [&] {
      Tensor all = Tensor::empty({kernels::byte_panels_bytes(n, k, from)}, int8);
      kernels::pack_byte_panels(n, k, from, all.fresh<std::int8_t>());
      return all;
    });
    scales_ = detail::product_copy(w.scale(), form, [&] {
      Tensor all = Tensor::empty({kernels::byte_panels_scales(n, k, from)}, float32);
      kernels::pack_scale_panels(n, k, from, all.fresh<float>());
      return all;
    });
    panels_ = kernels::byte_panels(k, from, static_cast<const std::int8_t*>(bytes_.raw()),
                                   static_cast<const float*>(scales_.raw()));
  }
  /// Null if the product reads none.
  const kernels::BytePanels* get() const { return bytes_.defined() ? &panels_ : nullptr; }

 private:
  Tensor bytes_, scales_;
  kernels::BytePanels panels_{};
};

// y = x w' + bias, for contiguous x and y. from: weights_of(w).
template <class T>
void multiply(std::int64_t rows, const T* x, const Int8Matrix& w, const kernels::Int8Weights& from, T* y,
              const float* bias, kernels::TileDone done) {
  const std::int64_t n = w.shape()[0], k = w.shape()[1];
  kernels::Int8Product<T, T> p{rows, n, k, x, k, from, y, n, bias, nullptr, done};
  if (k == 0) return kernels::gemm_int8_parallel(p);
  const KeptPanels kept(rows, w, from);
  p.kept = kept.get();
  w.activations() == Int8Activations::floating ? kernels::gemm_int8_parallel(p) : kernels::gemm_bytes_parallel(p);
}

// linear(), and f of it. f may be null.
Tensor int8_linear(const kernels::Function* f, const Tensor& x, const Int8Matrix& w, const Tensor& bias) {
  constexpr const char* op = "linear";
  check::floating(op, "x", x);
  if (product_dtype(x.dtype(), w.scale().dtype()) == float64) {
    const Tensor y = linear(x, dequantized(w), bias);
    return f ? detail::apply(*f, y) : y;
  }
  auto [t, rows, k, n, read, y] = detail::linear_call(x, w.shape(), "the scale of the int8 weight", w.scale(), bias);
  const Tensor scales = to_dtype_no_grad(w.scale(), float32),
               b = bias.defined() ? to_dtype_no_grad(bias, float32) : bias;
  const float* const pb = b.defined() ? b.data<float>().data() : nullptr;
  const kernels::Int8Weights weights = weights_of(w, scales);
  detail::count_product(rows, n, k);
  detail::FunctionOfProduct of_y(f, t == float32, detail::wants_record({read, bias}), y);
  const Tensor input = t == bfloat16 ? rounded(read) : x;
  if (t == bfloat16)
    multiply(rows, input.data<BFloat16>().data(), w, weights, y.fresh<BFloat16>(), pb, kernels::no_callback);
  else
    multiply(rows, input.data<float>().data(), w, weights, y.fresh<float>(), pb,
             of_y.tiles<float>(y.fresh<float>(), n));
  // dx = dy W, db = the sum of dy over its rows
  return of_y(
      record(op, {read, bias}, std::move(y), keep::saved(w.values(), w.scale()), [bits = w.bits()](Backward& g) {
        if (g.wants(0))
          g.give(0, matmul(g.dy(), dequantized({g.saved(0), g.saved(1), Int8Activations::floating, bits})));
        if (g.wants(1)) g.give(1, g.take_dy());
      }));
}

Tensor int8_embedding(const Int8Matrix& table, const Tensor& ids) {
  const NoGrad no_grad;
  const Tensor scale = embedding(table.scale(), ids);  // checks the ids, too
  Tensor values = Tensor::empty({ids.numel(), table.values().shape()[1]}, int8);
  kernels::gather_rows(values.fresh<char>(), table.values().raw(), ids.data<std::int64_t>().data(), ids.numel(),
                       kernels::AxisView(table.values().shape(), 0), size_of(int8), -1);
  const Tensor rows = dequantized(
      {values, reshape(scale, {ids.numel(), table.scale().shape()[1]}), Int8Activations::floating, table.bits()});
  return reshape(rows, ids.shape().inserted(ids.rank(), table.shape()[1]));
}

}  // namespace

struct detail::Int8Functions {
  decltype(dequantized)* dequantize;
  decltype(int8_linear)* linear;
  decltype(int8_embedding)* embedding;
  static const Int8Functions& of(const Int8Matrix& w) { return *w.functions_; }
};

Int8Matrix::Int8Matrix(Tensor values, Tensor scale, Int8Activations activations, int bits)
    : activations_(activations), bits_(bits) {
  static constexpr detail::Int8Functions functions{dequantized, int8_linear, int8_embedding};
  constexpr const char* op = "Int8Matrix";
  check::stored(op, "values", values);
  check::floating(op, "scale", scale);
  if (values.dtype() != int8 || values.rank() != 2)
    check::fail(op, "values is ", values.dtype(), ' ', values.shape(), ": it must be int8 [n, k]");
  if (bits != 8 && bits != 4) check::fail(op, "bits is ", bits, ": it must be 8 or 4");
  const std::int64_t n = values.shape()[0], k = values.shape()[1];
  const bool rows_fit = scale.rank() == 2 && scale.shape()[0] == n;
  if (bits == 4 && !(rows_fit && k == scale.shape()[1] * kernels::int4_group / 2))
    check::fail(op, "values of 4 bits has shape ", values.shape(), ", scale ", scale.shape(), ": scale must be [", n,
                ", groups], with one group for 32 numbers, which are 16 bytes");
  if (bits == 8 && !(rows_fit && size_of_groups(k, scale.shape()[1]) >= 0))
    check::fail(op, "values has shape ", values.shape(), ", scale ", scale.shape(), ": scale must be [", n,
                ", groups], with one group in a row, or one for each 32, 64 or 128 of its ", k);
  if (scale.requires_grad())
    check::fail(op, "scale of shape ", scale.shape(), " wants a gradient: int8 weights are not trained; detach() it");
  values_ = std::move(values);
  scale_ = std::move(scale);
  functions_ = &functions;
}

Tensor dequantize(const Int8Matrix& w) { return detail::Int8Functions::of(w).dequantize(w); }
Tensor linear(const Tensor& x, const Int8Matrix& w, const Tensor& bias) {
  return detail::Int8Functions::of(w).linear(nullptr, x, w, bias);
}
Tensor detail::apply_to_linear(const kernels::Function& f, const Tensor& x, const Int8Matrix& w, const Tensor& bias) {
  return detail::Int8Functions::of(w).linear(&f, x, w, bias);
}
Tensor embedding(const Int8Matrix& table, const Tensor& ids) {
  return detail::Int8Functions::of(table).embedding(table, ids);
}

Shape Int8Matrix::shape() const { return {values_.shape()[0], values_.shape()[1] * 8 / bits_}; }
std::int64_t Int8Matrix::group_size() const {
  return bits_ == 4 ? kernels::int4_group : size_of_groups(values_.shape()[1], scale_.shape()[1]);
}

Int8Matrix quantize(const Tensor& w, std::int64_t group_size, Int8Activations activations) {
  constexpr const char* op = "quantize";
  check_matrix(op, w);
  if (group_size != 0 && std::count(std::begin(group_sizes), std::end(group_sizes), group_size) == 0)
    check::fail(op, "group_size is ", group_size, ": it must be 32, 64 or 128, or 0 for a whole row");
  const std::int64_t size = group_size == 0 ? std::max<std::int64_t>(w.shape()[1], 1) : group_size;
  return quantized(op, w, size, activations, 8, [](const auto* x, std::int64_t n, std::int8_t* values, auto* scale) {
    quantize_group(x, n, values, scale);
  });
}

Int8Matrix quantize_int4(const Tensor& w, Int8Activations activations) {
  constexpr const char* op = "quantize_int4";
  check_matrix(op, w);
  if (w.shape()[1] % kernels::int4_group != 0)
    check::fail(op, "w has shape ", w.shape(), ": its rows are groups of 32, so ", w.shape()[1],
                " must be a multiple of 32; quantize() takes any");
  return quantized(
      op, w, kernels::int4_group, activations, 4,
      [](const auto* x, std::int64_t, std::int8_t* values, auto* scale) { quantize_int4_group(x, values, scale); });
}

Tensor detail::apply_to_linear(const kernels::Function& f, const Tensor& x, const Weight& weight, const Tensor& bias) {
  return std::visit([&](const auto& w) { return apply_to_linear(f, x, w, bias); }, weight);
}

Tensor linear(const Tensor& x, const Weight& weight, const Tensor& bias) {
  return std::visit([&](const auto& w) { return linear(x, w, bias); }, weight);
}

Tensor embedding(const Weight& table, const Tensor& ids, std::int64_t padding_idx) {
  if (const auto* const floating = std::get_if<Tensor>(&table)) return embedding(*floating, ids, padding_idx);
  return embedding(std::get<Int8Matrix>(table), ids);
}

}  // namespace fit
