#include "attention/masked_matmul.hpp"

#include <algorithm>
#include <string>

#include "attention/attend.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "ops/contract.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// The roles of a product out of two operands, and how heads lie in x and y.
struct Product {
  int out;
  bool first[3];  // [B, heads, S, features], else [B, S, heads, features]; s counts as first

  int a() const { return out == 0 ? 1 : 0; }
  int b() const { return out == 2 ? 1 : 2; }
  std::string axes(int role) const {
    if (role == 0) return "bhqk";
    return role == 1 ? first[1] ? "bhqd" : "bqhd" : first[2] ? "bhkd" : "bkhd";
  }
  Tensor of(const Tensor& x, const Tensor& z) const { return contract(x, axes(a()), z, axes(b()), axes(out)); }
  // Head h of element n of a tensor with this role.
  template <class T>
  kernels::ProductView<T> head(int role, const Tensor& x, std::int64_t n, std::int64_t h) const {
    const std::int64_t D = x.size(3), heads = x.size(first[role] ? 1 : 2), S = x.size(first[role] ? 2 : 1);
    T* const data = static_cast<T*>(const_cast<void*>(x.raw())) + n * heads * S * D + h * (first[role] ? S * D : D);
    const std::int64_t row = first[role] ? D : heads * D;
    if (role == 0) return {data, row, 1, 0};
    return role == 1 ? kernels::ProductView<T>{data, row, 0, 1} : kernels::ProductView<T>{data, 0, row, 1};
  }
};

// Computes those heads again, pair by pair, whose operands have a NaN or an infinity.
template <class T>
void repair_heads(const Product& p, Tensor& out, const Tensor& a, const Tensor& b, const Tensor& attends) {
  const Tensor &s = p.out == 0 ? out : a, &y = p.out == 2 ? out : b;
  const std::int64_t H = s.size(1), Sq = s.size(2), Sk = s.size(3), D = y.size(3);
  const kernels::Visibility pairs = visibility(attends, false, 0, Sq, Sk);
  const auto finite = [&](int role, const kernels::ProductView<const T>& x) {
    return kernels::all_finite(x.data, role == 2 ? x.key : x.query, role == 2 ? Sk : Sq, role == 0 ? Sk : D);
  };
  parallel_for(s.size(0) * H, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / H, h = i % H;
      const auto x = p.head<const T>(p.a(), a, n, h), z = p.head<const T>(p.b(), b, n, h);
      if (finite(p.a(), x) && finite(p.b(), z)) continue;
      const auto to = p.head<T>(p.out, out, n, h);
      const std::int64_t rows = p.out == 2 ? Sk : Sq, stride = p.out == 2 ? to.key : to.query;
      for (std::int64_t r = 0; r < rows; ++r) std::fill_n(to.data + r * stride, p.out == 0 ? Sk : D, T{0});
      kernels::masked_matmul(pairs, n, h, D, to, x, z);
    }
  });
}

Tensor masked_matmul(const Product& p, const Tensor& a, const Tensor& b, const Tensor& attends) {
  constexpr const char* names[] = {"masked_qk", "masked_pv", "masked_pt_q"};
  if (!attends.defined()) return p.of(a, b);
  Tensor out;
  {
    const NoGrad no_grad;
    out = p.of(a, b);
    dispatch_compute_floating(out.dtype(), [&](auto zero) { repair_heads<decltype(zero)>(p, out, a, b, attends); });
  }
  return record(names[p.out], {a, b}, std::move(out), keep::inputs | keep::saved(attends), [p](Backward& g) {
    // The gradient of an operand is the product of the other operand and dy, in the order of their roles.
    const auto give = [&](int i, int role, int other_role, const Tensor& other) {
      Product q = p;
      q.out = role;
      g.give(i, p.out < other_role ? masked_matmul(q, g.dy(), other, g.saved(0))
                                   : masked_matmul(q, other, g.dy(), g.saved(0)));
    };
    if (g.wants(0)) give(0, p.a(), p.b(), g.x(1));
    if (g.wants(1)) give(1, p.b(), p.a(), g.x(0));
  });
}

}  // namespace

Tensor masked_matmul(ProductRole out, const Tensor& a, const Tensor& b, const Tensor& attends, HeadLayout x_layout,
                     HeadLayout y_layout) {
  const bool x_first = x_layout == HeadLayout::first, y_first = y_layout == HeadLayout::first;
  return masked_matmul({static_cast<int>(out), {true, x_first, y_first}}, a, b, attends);
}

}  // namespace fit::detail
