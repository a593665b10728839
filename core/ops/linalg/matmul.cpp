// All forms of matmul; linear; outer.
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fit/ops/ops.hpp"
#include "matmul/gemm_bf16.hpp"
#include "ops/common/autocast.hpp"
#include "ops/elementwise/broadcast.hpp"
#include "ops/elementwise/elementwise.hpp"
#include "ops/elementwise/functions.hpp"
#include "ops/linalg/flop_counter.hpp"
#include "ops/linalg/linear_call.hpp"
#include "ops/linalg/product_copy.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

void check_types(const char* op, const Tensor& a, const Tensor& b) {
  check::defined(op, "a", a, "b", b);
  if (!is_floating(promote(a.dtype(), b.dtype())))
    check::fail(op, "a is ", a.dtype(), ", b is ", b.dtype(), ": one must be ", check::floating_types,
                "; convert with .to(float32)");
}

Shape leading(const Shape& s) { return Shape(s.begin(), s.rank() - 2); }

// The sizes of a product of matrices or stacks of matrices; the leading axes broadcast.
struct Plan {
  bool ta, tb;
  std::int64_t m, n, k;
  Shape a_batch, b_batch, batch, out;

  Plan(const char* op, const Shape& a, bool transpose_a, const Shape& b, bool transpose_b)
      : ta(transpose_a), tb(transpose_b), m(a[ta ? -1 : -2]), n(b[tb ? -2 : -1]), k(a[ta ? -2 : -1]) {
    if (k != b[tb ? -1 : -2])
      check::fail(op, "a is ", a, ta ? " transposed" : "", ", b is ", b, tb ? " transposed" : "", ": the ",
                  ta ? "last but one" : "last", " of a (", k, ") must equal the ", tb ? "last" : "last but one",
                  " of b (", b[tb ? -1 : -2], ")");
    a_batch = leading(a);
    b_batch = leading(b);
    for (int i = 1; i <= std::min(a_batch.rank(), b_batch.rank()); ++i)
      if (a_batch[-i] != b_batch[-i] && a_batch[-i] != 1 && b_batch[-i] != 1)
        check::fail(op, "a is ", a, ", b is ", b, ": the leading axes ", a_batch, " and ", b_batch, " must broadcast");
    batch = check::broadcast(op, a_batch, b_batch);
    std::int64_t sizes[Shape::max_rank];
    for (int i = 0; i < batch.rank(); ++i) sizes[i] = batch[i];
    sizes[batch.rank()] = m;
    sizes[batch.rank() + 1] = n;
    out = Shape(sizes, batch.rank() + 2);
  }
};

// P: the type that is multiplied. A, B and C: the types of the operands and the result. They differ only for BFloat16.
template <class P, class A, class B, class C>
void run(const Plan& p, const A* a, const B* b, C* c, bool accumulate) {
  auto one = kernels::contiguous<P>(p.m, p.n, p.k, p.ta, p.tb);
  one.beta = accumulate ? 1 : 0;
  detail::count_product(p.m, p.n, p.k, p.batch.numel());
  if (p.b_batch.numel() == 1 && !p.ta) {  // the stack of a becomes one tall matrix
    one.m *= p.batch.numel();
    return kernels::gemm_parallel(one, a, b, c);
  }
  const Broadcast<2> stack(p.batch, {&p.a_batch, &p.b_batch});
  const std::int64_t inner = stack.inner(), sa = stack.inner_stride(0), sb = stack.inner_stride(1);
  if (p.batch.numel() == 0) return;
  stack.each_row(0, stack.rows(), [&](std::int64_t row, const std::int64_t* at) {
    kernels::gemm_batched<A, B, C>(one, inner, [&](std::int64_t i, const A*& pa, const B*& pb, C*& pc) {
      pa = a + (at[0] + i * sa) * p.m * p.k;
      pb = b + (at[1] + i * sb) * p.k * p.n;
      pc = c + (row * inner + i) * p.m * p.n;
    });
  });
}

// Calls f(a, b) with the elements of the operands of a bfloat16 product. One may be float32, which is rounded later.
template <class F>
void with_narrow(const Tensor& a, const Tensor& b, Use use, const F& f) {
  const Tensor y = readable(b, use), x = y.dtype() == float32 ? rounded(a) : readable(a, use);
  const auto* const px = static_cast<const BFloat16*>(x.raw());
  const auto* const py = static_cast<const BFloat16*>(y.raw());
  if (y.dtype() == float32)
    f(px, y.data<float>().data());
  else if (x.dtype() == float32)
    f(x.data<float>().data(), py);
  else
    f(px, py);
}

// c = op(a) op(b), or c += op(a) op(b) if `accumulate`, computed in type t. For t = bfloat16, a and b are read as
// bfloat16, and c may be float32. For other t, all three have type t.
void product_into(Tensor& c, DType t, const Plan& p, const Tensor& a, const Tensor& b, bool accumulate, Use use) {
  if (t == bfloat16)
    return with_narrow(a, b, use, [&](const auto* x, const auto* y) {
      c.dtype() == float32 ? run<BFloat16>(p, x, y, c.fresh<float>(), accumulate)
                           : run<BFloat16>(p, x, y, c.fresh<BFloat16>(), accumulate);
    });
  dispatch_compute_floating(t, [&](auto zero) {
    using T = decltype(zero);
    run<T>(p, static_cast<const T*>(a.raw()), static_cast<const T*>(b.raw()), c.fresh<T>(), accumulate);
  });
}

// For few rows, the copy of a weight is better: it has half the bytes.
Use use_of(const Tensor& weight, std::int64_t rows) {
  const bool trains = detail::thread_state.recording && weight.requires_grad() && rows > kernels::gemv_max_m;
  return trains ? Use::training : Use::inference;
}

// [..., M, K] as [... * M, K]
Tensor rows_of(const Tensor& x) {
  return x.rank() == 2 ? x : reshape(x, {detail::rows_in(x.shape()), x.shape().back()});
}

// A bfloat16 product may return float32.
enum class Result { own, float32 };
Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb, Result result = Result::own);

// Adds op(a) op(b) to the gradient of input i; writes directly into it if possible. A product that takes more memory
// than a and b is computed as late as possible.
void give_product(Backward& g, int i, const Tensor& a, bool ta, const Tensor& b, bool tb) {
  const DType t = product_dtype(a.dtype(), b.dtype()), own = g.dtype(i);
  const bool readable = t == bfloat16 ? own <= float32 : a.dtype() == own && b.dtype() == own;
  const Plan plan("matmul", a.shape(), ta, b.shape(), tb);
  const bool full_shape = plan.out == g.shape(i);
  if (g.recording() || !readable || !full_shape)
    return g.give(i, product(a, ta, b, tb, full_shape && own == bfloat16 ? Result::own : Result::float32));
  const Use use = plan.m > kernels::gemv_max_m ? Use::backward : Use::inference;
  if (a.numel() + b.numel() < plan.out.numel() && g.waits(i))
    return g.give_later(i, {a, b}, [=] {
      Tensor c = Tensor::empty(plan.out, own);
      product_into(c, t, plan, a, b, false, use);
      return c;
    });
  Backward::Target target = g.target(i);
  product_into(target.grad, t, plan, a, b, target.add, use);
}

Tensor product(const Tensor& a, bool ta, const Tensor& b, bool tb, Result result) {
  check_types("matmul", a, b);
  if (a.rank() < 2 || b.rank() < 2)
    check::fail("matmul", "a is ", a.shape(), ", b is ", b.shape(), ": both must have at least two axes here");
  const DType t = product_dtype(a.dtype(), b.dtype());
  const Tensor x = t == bfloat16 ? lowered(a) : a.to(t), y = t == bfloat16 ? lowered(b) : b.to(t);
  const Plan plan("matmul", a.shape(), ta, b.shape(), tb);
  Tensor c = Tensor::empty(plan.out, t == bfloat16 && result == Result::float32 ? float32 : t);
  product_into(c, t, plan, x, y, false, use_of(is_weight(x) ? x : y, plan.m));
  // With A = op(a), B = op(b): dA = dC B', dB = A' dC. The gradient of a transposed operand is transposed.
  return record({"matmul", {{"transpose_a", ta}, {"transpose_b", tb}}}, {x, y}, std::move(c), keep::inputs,
                [ta, tb](Backward& g) {
                  const Tensor dc = g.dy();
                  if (g.wants(0)) {
                    const Tensor b = g.x(1);
                    ta ? give_product(g, 0, b, tb, dc, true) : give_product(g, 0, dc, false, b, !tb);
                  }
                  if (g.wants(1)) {
                    const Tensor a = g.x(0);
                    const bool folds = g.shape(1).rank() == 2 && !ta;  // b has no stack, so its gradient is one product
                    const Tensor a2 = folds ? rows_of(a) : a, dc2 = folds ? rows_of(dc) : dc;
                    tb ? give_product(g, 1, dc2, true, a2, ta) : give_product(g, 1, a2, !ta, dc2, false);
                  }
                });
}

}  // namespace

Tensor matmul(const Tensor& a, Transpose transpose_a, const Tensor& b, Transpose transpose_b) {
  return product(a, transpose_a == Transpose::yes, b, transpose_b == Transpose::yes);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  check::defined("matmul", "a", a, "b", b);
  if (a.rank() == 0 || b.rank() == 0)
    check::fail("matmul", "a is ", a.shape(), ", b is ", b.shape(), ": neither may be a scalar; use a * b");
  if (a.rank() > 1 && b.rank() > 1) return product(a, false, b, false);
  const std::int64_t k = a.shape().back(), l = b.rank() == 1 ? b.shape()[0] : b.shape()[-2];
  if (k != l)
    check::fail("matmul", "a is ", a.shape(), ", b is ", b.shape(), ": the last of a (", k, ") must equal the ",
                b.rank() == 1 ? "size" : "last but one", " of b (", l, ")");
  if (a.rank() == 1 && b.rank() == 1) return reshape(matmul(reshape(a, {1, k}), reshape(b, {k, 1})), Shape{});
  if (a.rank() == 1) return squeeze(matmul(reshape(a, {1, k}), b), -2);
  return squeeze(matmul(a, reshape(b, {k, 1})), -1);
}

namespace {

// The copy of a weight in panels, which the weight keeps. Undefined if the product reads no panels.
template <class T>
Tensor kept_panels(const kernels::GemmParams<T>& p, const Tensor& weight) {
  if (!kernels::takes_panels(p) || !detail::keeps_panels(weight, p.m, p.m <= kernels::gemv_max_m)) return {};
  const auto kind = kernels::takes_row_panels(p) ? detail::CopyKind::row_panels : detail::CopyKind::panels;
  const detail::ProductForm form = detail::product_form(kind, p.k, kernels::narrow_isa());
  return detail::product_copy(weight, form, [&] {
    Tensor all = Tensor::empty({kernels::panels_bytes(p)}, int8);
    kernels::pack_panels(p, static_cast<const T*>(weight.raw()), all.fresh<std::int8_t>());
    return all;
  });
}

// f of each BFloat16, rounded: a table of 128 kB for each function and instruction set, made at the first use.
const BFloat16* bf16_values(void (*f)(float* y, const float* x, std::int64_t n, float parameter)) {
  static std::mutex one_at_a_time;
  static std::map<decltype(f), std::vector<BFloat16>> tables;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  std::vector<BFloat16>& table = tables[f];
  if (table.empty()) {  // filled when it is complete: memory can run out before
    std::vector<float> all(std::size_t{1} << 16);
    for (std::size_t i = 0; i < all.size(); ++i) {
      BFloat16 x;
      x.bits = static_cast<std::uint16_t>(i);
      all[i] = x;
    }
    f(all.data(), all.data(), static_cast<std::int64_t>(all.size()), 0);
    std::vector<BFloat16> values;
    for (const float y : all) values.emplace_back(y);
    values.emplace_back(0.0F);  // a vector reads two at a time
    table = std::move(values);
  }
  return table.data();
}

// dx = dy W, dW = dy' x, db = the sum of dy over its rows
void give_linear(Backward& g) {
  const Tensor dy = g.dy();
  if (g.wants(0)) {
    const bool vector = dy.rank() == 1;
    if (vector)
      g.give(0, matmul(dy, g.x(1)));
    else
      give_product(g, 0, dy, false, g.x(1), false);
  }
  if (g.wants(1)) give_product(g, 1, rows_of(dy), true, rows_of(g.x(0)), false);
  if (g.wants(2)) g.give(2, dy);
}

// linear(), and f of it: two operations, computed in one pass. f may be null.
Tensor linear_then(const kernels::Function* f, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check::floating("linear", "x", x);
  check::defined("linear", "weight", weight);
  detail::LinearCall call = detail::linear_call(x, weight.shape(), "weight", weight, bias);
  const DType t = call.t;
  const Tensor& read = call.read;
  Tensor& y = call.y;
  const bool records = detail::wants_record({read, weight, bias});
  // In bfloat16, f replaces the result of the product.
  detail::FunctionOfProduct of_y(f, t != bfloat16 || (f && !records && !f->float32), records, y);
  dispatch_floating(t, [&](auto zero) {
    using T = decltype(zero);
    const auto p = kernels::contiguous<T>(call.rows, call.out, call.in, false, true);
    detail::count_product(p.m, p.n, p.k);
    if constexpr (std::is_same_v<T, BFloat16>) {
      const Tensor b = bias.defined() ? to_dtype_no_grad(bias, float32) : bias;
      const kernels::Bf16Then then(b.defined() ? b.data<float>().data() : nullptr,
                                   of_y.fused() ? bf16_values(kernels::function<float>(*f).forward) : nullptr);
      // A float32 weight keeps a copy in bfloat16 instead, which products of fewer rows read, too. The copy keeps
      // panels for few rows in Reproducible.
      const bool few_rows = !detail::thread_state.recording && kernels::takes_row_panels(p);
      const Tensor narrow = few_rows ? rounded(weight) : weight;
      const Tensor kept = narrow.dtype() == bfloat16 ? kept_panels(p, narrow) : Tensor();
      const void* const panels = kept.defined() ? kept.raw() : nullptr;
      with_narrow(rounded(read), weight, use_of(weight, p.m), [&](const auto* px, const auto* pw) {
        kernels::gemm_parallel(p, px, pw, y.fresh<T>(), then, panels);
      });
    } else {
      T* const py = y.fresh<T>();
      const T* const pb = bias.defined() ? static_cast<const T*>(bias.raw()) : nullptr;
      const Tensor kept = kept_panels(p, weight);
      kernels::gemm_parallel(p, static_cast<const T*>(x.raw()), static_cast<const T*>(weight.raw()), py, pb,
                             of_y.tiles<T>(py, p.n), kept.defined() ? kept.raw() : nullptr);
    }
  });
  y = record("linear", {read, weight, bias}, std::move(y), keep::input(0, 1), [](Backward& g) { give_linear(g); });
  return of_y(y);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_then(nullptr, x, weight, bias);
}

Tensor detail::apply_to_linear(const kernels::Function& f, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_then(&f, x, weight, bias);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check::defined("outer", "a", a, "b", b);
  if (a.rank() != 1 || b.rank() != 1)
    check::fail("outer", "a is ", a.shape(), ", b is ", b.shape(), ": both must have one axis");
  return mul(unsqueeze(a, 1), unsqueeze(b, 0));
}

}  // namespace fit
