// The products of attention over visible pairs of query and key. Each is the adjoint of the others.
#include "kernels/masked_products.hpp"

#include "fit/ops.hpp"
#include "fit/parallel.hpp"
#include "ops/attention.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

enum class Kind { qk, pv, pt_q };

const char* formula(Kind kind, HeadLayout heads) {
  const bool last = heads == HeadLayout::last;
  switch (kind) {
    case Kind::qk:
      return last ? "bqhd,bkhd->bhqk" : "bhqd,bhkd->bhqk";
    case Kind::pv:
      return last ? "bhqk,bkhd->bqhd" : "bhqk,bhkd->bhqd";
    default:
      return last ? "bhqk,bqhd->bkhd" : "bhqk,bhqd->bhkd";
  }
}

// One head of a tensor of four axes.
template <class T>
kernels::MatrixView<T> view(const Tensor& x, HeadLayout heads, std::int64_t b, std::int64_t h) {
  T* const data = static_cast<T*>(const_cast<void*>(x.raw()));
  const std::int64_t features = x.size(3);
  if (heads == HeadLayout::first) return {data + (b * x.size(1) + h) * x.size(2) * features, features};
  return {data + (b * x.size(1) * x.size(2) + h) * features, x.size(2) * features};
}

kernels::MatrixView<const bool> view_mask(const Tensor& visible, std::int64_t b, std::int64_t h) {
  const std::int64_t rows = visible.size(2), keys = visible.size(3);
  const std::int64_t at = (visible.size(0) == 1 ? 0 : b) * visible.size(1) + (visible.size(1) == 1 ? 0 : h);
  return {visible.data<bool>().data() + at * rows * keys, rows == 1 ? 0 : keys};
}

// Computes those heads anew, pair by pair, that have a NaN or an infinity among their operands.
template <class T>
void select_heads(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& visible, Kind kind, HeadLayout heads) {
  const Tensor& s = kind == Kind::qk ? out : a;
  const HeadLayout a_heads = kind == Kind::qk ? heads : HeadLayout::first;
  const int rows = heads == HeadLayout::first ? 2 : 1;
  const std::int64_t count = s.size(1);
  parallel_for(s.size(0) * count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / count, h = i % count;
      const auto pa = view<const T>(a, a_heads, n, h), pb = view<const T>(b, heads, n, h);
      if (kernels::all_finite(pa, a.size(kind == Kind::qk ? rows : 2), a.size(3)) &&
          kernels::all_finite(pb, b.size(rows), b.size(3)))
        continue;
      const kernels::VisiblePairs pairs{s.size(2), s.size(3), b.size(3), view_mask(visible, n, h)};
      if (kind == Kind::qk)
        kernels::masked_qk(pairs, view<T>(out, HeadLayout::first, n, h), pa, pb);
      else if (kind == Kind::pv)
        kernels::masked_pv(pairs, view<T>(out, heads, n, h), pa, pb);
      else
        kernels::masked_pt_q(pairs, view<T>(out, heads, n, h), pa, pb);
    }
  });
}

Tensor product(Kind kind, const Tensor& a, const Tensor& b, const Tensor& visible, HeadLayout heads) {
  const NoGrad no_grad;  // recorded by the caller, with an adjoint that selects as well
  Tensor out = einsum(formula(kind, heads), {a, b});
  dispatch_compute_floating(out.dtype(),
                            [&](auto zero) { select_heads<decltype(zero)>(out, a, b, visible, kind, heads); });
  return out;
}

}  // namespace

Tensor masked_qk(const Tensor& x, const Tensor& y, const Tensor& visible, HeadLayout heads) {
  if (!visible.defined()) return einsum(formula(Kind::qk, heads), {x, y});
  return record("masked_qk", {x, y}, product(Kind::qk, x, y, visible, heads), keep::inputs | keep::saved(visible),
                [heads](Backward& g) {
                  if (g.wants(0)) g.give(0, masked_pv(g.dy(), g.x(1), g.saved(0), heads));
                  if (g.wants(1)) g.give(1, masked_pt_q(g.dy(), g.x(0), g.saved(0), heads));
                });
}

Tensor masked_pv(const Tensor& s, const Tensor& y, const Tensor& visible, HeadLayout heads) {
  if (!visible.defined()) return einsum(formula(Kind::pv, heads), {s, y});
  return record("masked_pv", {s, y}, product(Kind::pv, s, y, visible, heads), keep::inputs | keep::saved(visible),
                [heads](Backward& g) {
                  if (g.wants(0)) g.give(0, masked_qk(g.dy(), g.x(1), g.saved(0), heads));
                  if (g.wants(1)) g.give(1, masked_pt_q(g.x(0), g.dy(), g.saved(0), heads));
                });
}

Tensor masked_pt_q(const Tensor& s, const Tensor& x, const Tensor& visible, HeadLayout heads) {
  if (!visible.defined()) return einsum(formula(Kind::pt_q, heads), {s, x});
  return record("masked_pt_q", {s, x}, product(Kind::pt_q, s, x, visible, heads), keep::inputs | keep::saved(visible),
                [heads](Backward& g) {
                  if (g.wants(0)) g.give(0, masked_qk(g.x(1), g.dy(), g.saved(0), heads));
                  if (g.wants(1)) g.give(1, masked_pv(g.x(0), g.dy(), g.saved(0), heads));
                });
}

}  // namespace fit::detail
