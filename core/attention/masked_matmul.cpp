#include "attention/masked_matmul.hpp"

#include <algorithm>

#include "attention/attend.hpp"
#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// The roles of the operands.
ProductRole role_of_a(ProductRole out) {
  return out == ProductRole::scores ? ProductRole::queries : ProductRole::scores;
}
ProductRole role_of_b(ProductRole out) { return out == ProductRole::keys ? ProductRole::queries : ProductRole::keys; }

Tensor plain_product(ProductRole out, const Tensor& a, const Tensor& b) {
  return matmul(a, out == ProductRole::keys ? Transpose::yes : Transpose::no, b,
                out == ProductRole::scores ? Transpose::yes : Transpose::no);
}

// A contiguous head with this role, [rows, columns].
template <class T>
kernels::ProductView<T> head_view(ProductRole role, T* data, std::int64_t columns) {
  if (role == ProductRole::scores) return {data, columns, 1, 0};
  if (role == ProductRole::queries) return {data, columns, 0, 1};
  return {data, 0, columns, 1};
}

// Computes those heads again, pair by pair, whose operands have a NaN or an infinity.
template <class T>
void repair_heads(ProductRole out, Tensor& c, const Tensor& a, const Tensor& b, const Tensor& attends) {
  const Tensor &s = out == ProductRole::scores ? c : a, &y = out == ProductRole::keys ? c : b;
  const std::int64_t H = s.size(1), D = y.size(3);
  const kernels::Visibility pairs = visibility(attends, false, 0, s.size(2), s.size(3));
  T* const pc = c.fresh<T>();
  const T *const pa = a.data<T>().data(), *const pb = b.data<T>().data();
  const auto size = [](const Tensor& x) { return x.size(2) * x.size(3); };  // of a head
  parallel_for(s.size(0) * H, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const to = pc + i * size(c);
      const T *const from_a = pa + i * size(a), *const from_b = pb + i * size(b);
      if (kernels::all_finite(from_a, size(a)) && kernels::all_finite(from_b, size(b))) continue;
      std::fill_n(to, size(c), T{0});
      kernels::masked_matmul(pairs, i / H, i % H, D, head_view(out, to, c.size(3)),
                             head_view(role_of_a(out), from_a, a.size(3)),
                             head_view(role_of_b(out), from_b, b.size(3)));
    }
  });
}

}  // namespace

Tensor masked_matmul(ProductRole out, const Tensor& a, const Tensor& b, const Tensor& attends) {
  constexpr const char* names[] = {"masked_qk", "masked_pv", "masked_pt_q"};
  if (!attends.defined()) return plain_product(out, a, b);
  Tensor c;
  {
    const NoGrad no_grad;
    c = plain_product(out, a, b);
    dispatch_compute_floating(c.dtype(), [&](auto zero) { repair_heads<decltype(zero)>(out, c, a, b, attends); });
  }
  const char* const name = names[static_cast<int>(out)];
  return record(name, {a, b}, std::move(c), keep::inputs | keep::saved(attends), [out](Backward& g) {
    // The gradient of an operand is the product of the other operand and dy, in the order of their roles.
    const auto give = [&](int i, ProductRole role, ProductRole other_role, const Tensor& other) {
      g.give(i, out < other_role ? masked_matmul(role, g.dy(), other, g.saved(0))
                                 : masked_matmul(role, other, g.dy(), g.saved(0)));
    };
    if (g.wants(0)) give(0, role_of_a(out), role_of_b(out), g.x(1));
    if (g.wants(1)) give(1, role_of_b(out), role_of_a(out), g.x(0));
  });
}

}  // namespace fit::detail
