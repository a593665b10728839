#pragma once
#include "attention/arena.hpp"
#include "attention/score_program.hpp"
#include "attention/visibility.hpp"
#include "kernels/simd/pow.hpp"
#include "kernels/simd/transform.hpp"

// A function of the scores, for the keys of a row, forward and backward. For *.simd.cpp files.
namespace fit::kernels {
inline namespace FIT_ISA_NAMESPACE {

// Elements of a table for the keys of a row: first + step j for from <= j < to. Other keys have none: causality or the
// window masks them.
struct Stretch {
  std::int64_t first = 0, step = 0, from = 0, to = 0;
};

// a / b rounded down, for b > 0.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

template <class W>
class ScoreRows {
  static constexpr std::int64_t N = tile_size;
  using V = Vec<W>;
  using Op = detail::SymbolOp;
  using Step = ScoreStep<W>;

 public:
  // Takes memory for a value of each step, and with `gradients` for a gradient.
  ScoreRows(const ScoreProgram<W>* program, std::int64_t b, std::int64_t h, bool gradients, Arena<W>& arena)
      : program_(program), b_(b), h_(h) {
    if (!program) return;
    values_ = arena.take(program->count * N);
    if (gradients) gradients_ = arena.take(program->count * N);
    place_ = j0_ = 0, width_ = N;
    for (int k = 0; k < program->count; ++k)
      if (!program->steps[k].varies) compute(k);
  }
  explicit operator bool() const { return program_; }

  // s = the function of s, for `width` keys from j0 on.
  template <class Row>
  void forward(const Row& r, W* s) {
    place_ = r.a.place(r.i), j0_ = r.j0, width_ = r.width;
    for (int k = 0; k < program_->count; ++k) {
      if (program_->steps[k].op == Op::score)
        copy(s, value(k));
      else if (program_->steps[k].varies)
        compute(k);
    }
    copy(value(program_->count - 1), s);
  }

  // After forward() of the row: from the gradient ds of its result makes that of its argument, and adds to those of the
  // tables.
  template <class Row>
  void backward(const Row& r, W* ds, W* tables) {
    const int last = program_->count - 1;
    for (int k = 0; k < last; ++k)
      if (program_->steps[k].differentiable) fill(gradient(k), W(0));
    copy(ds, gradient(last));
    bool reached = false;
    for (int k = last; k >= 0; --k) {
      const Step& s = program_->steps[k];
      if (!s.differentiable) continue;
      W* const g = gradient(k);
      if (s.op == Op::score || s.op == Op::lookup)  // 0 times infinity is NaN: masked pairs have no gradient
        for (std::int64_t j = 0; j < width_; j += V::size) r.select(j, load<V>(g + j), V(W(0))).store_unaligned(g + j);
      if (s.op == Op::score)
        copy(g, ds), reached = true;
      else if (s.op == Op::lookup)
        scatter(s, g, r.count, tables + s.gradient);
      else
        pass(k, g);
    }
    if (!reached) fill(ds, W(0));
  }

 private:
  W* value(int k) const { return values_ + k * N; }
  W* gradient(int k) const { return gradients_ + k * N; }

  void copy(const W* from, W* to) const {
    for (std::int64_t j = 0; j < width_; j += V::size) load<V>(from + j).store_unaligned(to + j);
  }
  void fill(W* to, W x) const {
    for (std::int64_t j = 0; j < width_; j += V::size) V(x).store_unaligned(to + j);
  }
  template <class F, class... X>
  void map(W* y, const F& f, const X*... x) const {
    for (std::int64_t j = 0; j < width_; j += V::size) f(load<V>(x + j)...).store_unaligned(y + j);
  }
  // y += f(x...)
  template <class F, class... X>
  void add(int k, const F& f, const X*... x) const {
    if (!program_->steps[k].differentiable) return;
    W* const y = gradient(k);
    for (std::int64_t j = 0; j < width_; j += V::size) (load<V>(y + j) + f(load<V>(x + j)...)).store_unaligned(y + j);
  }
  template <class Bool>
  static V truth(const Bool& b) {
    return xsimd::select(b, V(W(1)), V(W(0)));
  }

  void compute(int k) const {
    const Step& s = program_->steps[k];
    W* const y = value(k);
    if (s.linear) return fill_linear(s.form, y);
    const W *const a = value(s.args[0]), *const b = value(s.args[1]), *const c = value(s.args[2]);
    const V zero(W(0));
    if (s.forward) return s.forward(y, a, width_, W(0));
    switch (s.op) {
      case Op::number:
        return fill(y, s.number);
      case Op::lookup:
        return gather(s, y);
      case Op::negative:
        return map(
            y, [](const V& x) { return -x; }, a);
      case Op::square:
        return map(
            y, [](const V& x) { return x * x; }, a);
      case Op::pow:
        return map(
            y, [e = V(s.number)](const V& x) { return math::pow(x, e); }, a);
      case Op::add:
        return map(
            y, [](const V& p, const V& q) { return p + q; }, a, b);
      case Op::subtract:
        return map(
            y, [](const V& p, const V& q) { return p - q; }, a, b);
      case Op::multiply:
        return map(
            y, [](const V& p, const V& q) { return p * q; }, a, b);
      case Op::divide:
        if (s.integer)
          return map(
              y, [](const V& p, const V& q) { return xsimd::floor(p / q); }, a, b);
        return map(
            y, [](const V& p, const V& q) { return p / q; }, a, b);
      case Op::remainder:
        return map(
            y, [](const V& p, const V& q) { return p - q * xsimd::floor(p / q); }, a, b);
      case Op::minimum:
        return map(
            y, [](const V& p, const V& q) { return xsimd::select((p < q) | (p != p), p, q); }, a, b);
      case Op::maximum:
        return map(
            y, [](const V& p, const V& q) { return xsimd::select((p > q) | (p != p), p, q); }, a, b);
      case Op::less:
        return map(
            y, [](const V& p, const V& q) { return truth(p < q); }, a, b);
      case Op::less_equal:
        return map(
            y, [](const V& p, const V& q) { return truth(p <= q); }, a, b);
      case Op::equal:
        return map(
            y, [](const V& p, const V& q) { return truth(p == q); }, a, b);
      case Op::not_equal:
        return map(
            y, [](const V& p, const V& q) { return truth(p != q); }, a, b);
      case Op::logical_and:
        return map(
            y, [](const V& p, const V& q) { return p * q; }, a, b);
      case Op::logical_or:
        return map(
            y, [](const V& p, const V& q) { return xsimd::max(p, q); }, a, b);
      case Op::logical_not:
        return map(
            y, [](const V& p) { return V(W(1)) - p; }, a);
      case Op::where:
        return map(
            y, [&](const V& o, const V& p, const V& q) { return xsimd::select(o != zero, p, q); }, a, b, c);
      default:  // places are linear
        return;
    }
  }

  // g is the gradient of step k. Adds the gradients of its arguments.
  void pass(int k, W* g) const {
    const Step& s = program_->steps[k];
    const int p = s.args[0], q = s.args[1];
    const W *const y = value(k), *const a = value(p), *const b = value(q);
    const V zero(W(0)), half(W(0.5));
    if (s.backward) {
      alignas(64) W d[N];
      s.backward(d, g, s.from_output ? y : a, width_, W(0));
      return add(
          p, [](const V& x) { return x; }, static_cast<const W*>(d));
    }
    const W* const dy = g;
    switch (s.op) {
      case Op::negative:
        return add(
            p, [](const V& d) { return -d; }, dy);
      case Op::square:
        return add(
            p, [](const V& d, const V& x) { return (d + d) * x; }, dy, a);
      case Op::pow:
        if (s.number == W(0)) return;
        return add(
            p, [e = s.number](const V& d, const V& x) { return d * V(e) * math::pow(x, V(e - W(1))); }, dy, a);
      case Op::add:
        add(
            p, [](const V& d) { return d; }, dy);
        return add(
            q, [](const V& d) { return d; }, dy);
      case Op::subtract:
        add(
            p, [](const V& d) { return d; }, dy);
        return add(
            q, [](const V& d) { return -d; }, dy);
      case Op::multiply:
        add(
            p, [](const V& d, const V& x) { return d * x; }, dy, b);
        return add(
            q, [](const V& d, const V& x) { return d * x; }, dy, a);
      case Op::divide:
        add(
            p, [](const V& d, const V& x) { return d / x; }, dy, b);
        return add(
            q, [](const V& d, const V& x, const V& z) { return -d * z / x; }, dy, b, y);
      case Op::minimum:
      case Op::maximum: {  // equal arguments share the gradient
        const auto part = [&](const V& d, const V& mine, const V& other, const V& z) {
          return xsimd::select(mine == other, half * d, xsimd::select((mine == z) | (mine != mine), d, zero));
        };
        add(p, part, dy, a, b, y);
        return add(q, part, dy, b, a, y);
      }
      case Op::where:
        add(
            q, [&](const V& d, const V& o) { return xsimd::select(o != zero, d, zero); }, dy, a);
        return add(
            s.args[2], [&](const V& d, const V& o) { return xsimd::select(o != zero, zero, d); }, dy, a);
      default:
        return;
    }
  }

  void fill_linear(const PairForm& f, W* y) const {
    const std::int64_t start = f.at(b_, h_, place_, j0_);
    for (std::int64_t j = 0; j < width_; ++j) y[j] = static_cast<W>(start + f.key * j);
  }

  // For indices that are forms.
  Stretch stretch(const Step& s) const {
    Stretch all{0, 0, 0, width_};
    for (int axis = 0; axis < s.axes; ++axis) {
      const ScoreIndex& index = s.index[axis];
      const std::int64_t start = index.form.at(b_, h_, place_, j0_), step = index.form.key;
      std::int64_t from = 0, to = width_;
      if (step == 0) {
        if (start < 0 || start >= index.size) to = 0;
      } else {  // the keys with 0 <= start + step j < size, along the axis from the end if it runs backwards
        const std::int64_t x = step > 0 ? start : index.size - 1 - start, by = step > 0 ? step : -step;
        from = -floor_div(x, by), to = floor_div(index.size - 1 - x, by) + 1;
      }
      all.from = from > all.from ? from : all.from;
      all.to = to < all.to ? to : all.to;
      all.first += start * index.stride, all.step += step * index.stride;
    }
    if (all.to < all.from) all.from = all.to = 0;
    return all;
  }

  // The element of key j, or -1.
  void elements(const Step& s, std::int64_t* at) const {
    for (std::int64_t j = 0; j < width_; ++j) at[j] = 0;
    for (int axis = 0; axis < s.axes; ++axis) {
      const ScoreIndex& index = s.index[axis];
      if (index.linear && index.form.key == 0) {
        const std::int64_t i = index.form.at(b_, h_, place_, j0_);
        const bool inside = i >= 0 && i < index.size;
        for (std::int64_t j = 0; j < width_; ++j) at[j] = inside && at[j] >= 0 ? at[j] + i * index.stride : -1;
        continue;
      }
      const W* const x = value(index.step);
      const W size = static_cast<W>(index.size);
      for (std::int64_t j = 0; j < width_; ++j) {
        const bool inside = x[j] >= W(0) && x[j] < size;
        const std::int64_t i = static_cast<std::int64_t>(inside ? x[j] : W(0));
        at[j] = inside && at[j] >= 0 ? at[j] + i * index.stride : -1;
      }
    }
  }

  void gather(const Step& s, W* y) const {
    if (!s.linear_indices) {
      alignas(64) std::int64_t at[N];
      elements(s, at);
      for (std::int64_t j = 0; j < width_; ++j) y[j] = at[j] >= 0 ? s.table[at[j]] : W(0);
      return;
    }
    const Stretch x = stretch(s);
    for (std::int64_t j = 0; j < x.from; ++j) y[j] = W(0);
    for (std::int64_t j = x.to; j < width_; ++j) y[j] = W(0);
    for (std::int64_t j = x.from; j < x.to; ++j) y[j] = s.table[x.first + x.step * j];
  }

  void scatter(const Step& s, const W* g, std::int64_t count, W* to) const {
    if (!s.linear_indices) {
      alignas(64) std::int64_t at[N];
      elements(s, at);
      for (std::int64_t j = 0; j < count; ++j)
        if (at[j] >= 0) to[at[j]] += g[j];
      return;
    }
    const Stretch x = stretch(s);
    const std::int64_t end = count < x.to ? count : x.to;
    if (x.step != 0) {
      for (std::int64_t j = x.from; j < end; ++j) to[x.first + x.step * j] += g[j];
    } else if (x.from < end) {
      V sum(W(0));  // beyond the attended keys g is 0
      for (std::int64_t j = 0; j < width_; j += V::size) sum = sum + load<V>(g + j);
      to[x.first] += sum_lanes(sum);
    }
  }

  const ScoreProgram<W>* program_;
  std::int64_t b_, h_;
  W *values_ = nullptr, *gradients_ = nullptr;
  std::int64_t place_ = 0, j0_ = 0, width_ = 0;
};

}  // namespace FIT_ISA_NAMESPACE
}  // namespace fit::kernels
