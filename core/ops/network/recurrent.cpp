#include "fit/ops/recurrent.hpp"

#include "base/scratch.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/rows/recurrent.hpp"
#include "matmul/gemm.hpp"
#include "ops/common/composed.hpp"
#include "ops/common/precision.hpp"
#include "ops/linalg/flop_counter.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit {
namespace {

using kernels::Cell;
using kernels::panel_width;

// What a step hands to the next one beside its gates: c, a part of h, or nothing.
enum class Carry { c, h, nothing };

struct Form {
  const char* name;
  std::int64_t gates, kept;  // of a feature; kept: the values for the backward pass
  Carry carry;
};
const Form& form_of(Cell cell) {
  static constexpr Form forms[] = {
      {"lstm_steps", 4, 4, Carry::c}, {"gru_steps", 3, 4, Carry::h}, {"rnn_steps", 1, 1, Carry::nothing}};
  return forms[static_cast<int>(cell)];
}

struct Sizes {
  Sizes(const Form& form, const Tensor& x, const Tensor& h)
      : G(form.gates),
        kept(form.kept),
        B(x.size(0)),
        T(x.size(1)),
        H(h.size(1)),
        weight_bytes(G * H * H * size_of(x.dtype())) {}
  std::int64_t G, kept, B, T, H, weight_bytes;
};

// x, weight, bias, h and, if the cell has it, c.
using Operands = std::vector<Tensor>;

// ---- decomposition into operations: the definition, used for higher derivatives -------------------------------------

std::vector<Tensor> composed(Cell cell, const Operands& in) {
  std::vector<Tensor> steps;
  Tensor h = in[3], c = in.size() > 4 ? in[4] : Tensor();
  for (const Tensor& now : unbind(in[0], 1)) {
    Tensor of_h = matmul(h, Transpose::no, in[1], Transpose::yes);
    if (in[2].defined()) of_h = of_h + in[2];
    if (cell == Cell::lstm) {
      const std::vector<Tensor> gates = chunk(now + of_h, 4, -1);
      c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
      h = sigmoid(gates[3]) * tanh(c);
    } else if (cell == Cell::rnn) {
      h = tanh(now + of_h);
    } else {
      const std::vector<Tensor> x = chunk(now, 3, -1), s = chunk(of_h, 3, -1);
      const Tensor r = sigmoid(x[0] + s[0]), of_z = x[1] + s[1], n = tanh(x[2] + r * s[2]);
      h = sigmoid(of_z) * h + sigmoid(-of_z) * n;
    }
    steps.push_back(h);
  }
  return {stack(steps, 1), c};
}

// ---- fused, in blocks of rows and features --------------------------------------------------------------------------

// The weight matrices of all steps, packed once: `count` matrices [k, n], one below the other.
template <class T>
class Packed {
 public:
  Packed(kernels::GemmParams<T> p, const T* b, std::int64_t count)
      : p_(p), size_(kernels::panels(p.n) * panel_width * p.k), panels_(count * size_) {
    for (std::int64_t i = 0; i < count && size_ > 0; ++i)
      pack_b_panels(p, b + i * p.n * p.k, panels_.get() + i * size_);
  }
  /// c [rows, cols] = a times columns j … of matrix i, or c += if `add`.
  void multiply(std::int64_t i, const kernels::Rows<const T>& a, std::int64_t rows, std::int64_t j, std::int64_t cols,
                T* c, std::int64_t ldc, bool add) const {
    kernels::GemmParams<T> p = p_;
    p.m = rows;
    p.n = cols;
    p.lda = a.row;
    p.ldc = ldc;
    p.beta = add ? 1 : 0;
    FIT_KERNELS(kernels::gemm_table, T).gemm_packed(p, a.at, {panels_.get() + i * size_ + j * p.k}, c, nullptr);
  }

 private:
  kernels::GemmParams<T> p_;
  std::int64_t size_;
  kernels::Scratch<T> panels_;
};

// Calls body(t, row, rows, col, cols) for the blocks of all steps, step by step. A block is some rows and the columns
// of one panel. Rows are independent. With enough rows, and a weight that fits each core's cache, a thread computes all
// steps of its rows without waiting. Otherwise the threads share the blocks of each step, ordered by columns: a thread
// then reads only its part of the weight. The result does not depend on the choice.
enum class Direction { forwards, backwards };
template <class Body>
void each_step(const Sizes& s, Direction direction, const Body& body) {
  constexpr std::int64_t least_rows = 4, most_rows = 18, cached = 1 << 19;  // bytes, of L2 caches of 1 MB and more
  if (s.B == 0 || s.H == 0) return;
  const auto time = [&](std::int64_t i) { return direction == Direction::forwards ? i : s.T - 1 - i; };
  const auto columns = [&](std::int64_t j) { return std::min(panel_width, s.H - j); };
  const std::int64_t threads = num_threads(), panels = kernels::panels(s.H);
  const bool own = s.B >= least_rows * threads && s.weight_bytes <= cached;
  const std::int64_t blocks = own ? threads : (s.B + most_rows - 1) / most_rows, rows = (s.B + blocks - 1) / blocks;
  if (own)
    return parallel_for(s.B, rows, [&](std::int64_t row, std::int64_t end) {
      const std::int64_t parts = (end - row + most_rows - 1) / most_rows, part = (end - row + parts - 1) / parts;
      for (; row < end; row += part)
        for (std::int64_t t = 0; t < s.T; ++t)
          for (std::int64_t j = 0; j < s.H; j += panel_width)
            body(time(t), row, std::min(part, end - row), j, columns(j));
    });
  const double flops = 2.0 * static_cast<double>(s.G * rows * s.H) * panel_width;
  const auto grain = static_cast<std::int64_t>(4 * kernels::parallel_flops / (flops + 1)) + 1;
  for (std::int64_t t = 0; t < s.T; ++t)
    parallel_for(panels * blocks, grain, [&](std::int64_t i, std::int64_t end) {
      for (; i < end; ++i) {
        const std::int64_t row = i % blocks * rows, j = i / blocks * panel_width;
        if (row < s.B) body(time(t), row, std::min(rows, s.B - row), j, columns(j));
      }
    });
}

// Values for the backward pass, besides inputs and outputs.
struct Kept {
  Tensor gates, c;  // [B, T, kept H], [B, T, H]
};

// The state before step t. `first` is [B, H], `all` the states after each step, [B, T, H].
template <class T>
kernels::Rows<const T> state_before(const Sizes& s, std::int64_t t, const T* first, const T* all) {
  return t == 0 ? kernels::Rows<const T>{first, s.H} : kernels::Rows<const T>{all + (t - 1) * s.H, s.T * s.H};
}

// One block of a step forwards.
template <class T>
struct ForwardStep {
  const Sizes& s;
  const Packed<T>& weight;
  const T *x = nullptr, *h0 = nullptr, *bias = nullptr;  // bias may be null
  T *y = nullptr, *c = nullptr;                          // c: if the cell has it
  T *all_c = nullptr, *gates = nullptr;                  // null if they are not kept
  void (*kernel)(const kernels::StepForward<T>&) = nullptr;

  void operator()(std::int64_t t, std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t cols) const {
    const auto step = [&](T* all) { return kernels::Rows<T>{all + t * s.H, s.T * s.H}.block(i, j); };
    const std::int64_t GH = s.G * s.H, width = s.G * panel_width;
    const kernels::Scratch<T> of_h(rows * width);
    const kernels::Rows<const T> last = state_before<T>(s, t, h0, y);
    for (std::int64_t g = 0; g < s.G; ++g) {
      T* const to = of_h.get() + g * panel_width;
      for (std::int64_t r = 0; bias && r < rows; ++r) std::copy_n(bias + g * s.H + j, cols, to + r * width);
      weight.multiply(g, last.block(i, 0), rows, j, cols, to, width, bias != nullptr);
    }
    kernels::StepForward<T> f;
    f.rows = rows, f.cols = cols;
    f.of_x = kernels::Rows<const T>{x + t * GH, s.T * GH, s.H}.block(i, j);
    f.of_h = {of_h.get(), width, panel_width};
    if (gates) f.kept = kernels::Rows<T>{gates + t * s.kept * s.H, s.T * s.kept * s.H, s.H}.block(i, j);
    f.last_h = last.block(i, j);
    f.h = step(y);
    if (c) {
      f.last_c = all_c ? state_before<T>(s, t, c, all_c).block(i, j) : kernels::Rows<const T>{c, s.H}.block(i, j);
      f.c = all_c ? step(all_c) : kernels::Rows<T>{c, s.H}.block(i, j);
    }
    kernel(f);
  }
};

// Computes h of all steps and, if the cell has it, the last c. `kept` may be null.
template <class T>
std::vector<Tensor> forward(Cell cell, const Operands& in, Kept* kept) {
  const Form& form = form_of(cell);
  const Sizes s(form, in[0], in[3]);
  const bool has_c = form.carry == Carry::c;
  Tensor y = Tensor::empty({s.B, s.T, s.H}, in[0].dtype()), c = has_c ? in[4].detach().clone() : Tensor();
  if (kept) kept->gates = Tensor::empty({s.B, s.T, s.kept * s.H}, y.dtype());
  if (kept && has_c) kept->c = Tensor::empty(y.shape(), y.dtype());
  kernels::GemmParams<T> p;
  p.n = p.k = p.ldb = s.H;
  p.transpose_b = true;
  const Packed<T> weight(p, in[1].data<T>().data(), s.G);
  detail::count_product(s.B, s.G * s.H, s.H, s.T);
  ForwardStep<T> step{s, weight};
  step.x = in[0].data<T>().data(), step.h0 = in[3].data<T>().data();
  if (in[2].defined()) step.bias = in[2].data<T>().data();
  step.y = y.fresh<T>();
  if (has_c) step.c = c.fresh<T>();
  if (kept) step.gates = kept->gates.fresh<T>();
  if (kept && has_c) step.all_c = kept->c.fresh<T>();
  step.kernel = FIT_KERNELS(kernels::recurrent_table, T).of(cell).forward;
  each_step(s, Direction::forwards, step);
  if (kept && has_c) c = reshape(slice(kept->c, 1, s.T - 1, s.T), {s.B, s.H});
  return {y, c};
}

// One block of a step backwards.
template <class T>
struct BackwardStep {
  const Sizes& s;
  const Packed<T>& weight;
  const T* gates = nullptr;
  const T *first = nullptr, *states = nullptr;  // c or, if the cell has none, h: at the start, after each step
  const T *c = nullptr, *dy = nullptr;          // may be null
  T *carry = nullptr, *dx = nullptr, *dh_gates = nullptr;
  void (*kernel)(const kernels::StepBackward<T>&) = nullptr;

  void operator()(std::int64_t t, std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t cols) const {
    const std::int64_t GH = s.G * s.H;
    const kernels::Scratch<T> next(rows * panel_width);
    const auto step = [&](const T* all) { return kernels::Rows<const T>{all + t * s.H, s.T * s.H}.block(i, j); };
    const auto gates_at = [&](T* all) { return kernels::Rows<T>{all + t * GH, s.T * GH, s.H}.block(i, j); };
    kernels::StepBackward<T> k;
    k.rows = rows, k.cols = cols;
    if (t + 1 < s.T) {
      weight.multiply(0, kernels::Rows<const T>{dh_gates + (t + 1) * GH, s.T * GH}.block(i, 0), rows, j, cols,
                      next.get(), panel_width, false);
      k.of_gates = {next.get(), panel_width};
    }
    k.kept = kernels::Rows<const T>{gates + t * s.kept * s.H, s.T * s.kept * s.H, s.H}.block(i, j);
    k.last = state_before<T>(s, t, first, states).block(i, j);
    if (c) k.c = step(c);
    if (dy) k.dh = step(dy);
    k.carry = kernels::Rows<T>{carry, s.H}.block(i, j);
    k.dx = gates_at(dx);
    k.dh_gates = gates_at(dh_gates);
    kernel(k);
  }
};

// Gives the gradients that follow from that of the h part of all gates, of_h [B, T, G H], and from the carry of the
// first step.
void give_by_gates(Backward& b, const Tensor& of_h, const Tensor& carried, Carry carry) {
  const std::int64_t B = of_h.size(0), T = of_h.size(1), GH = of_h.size(2);
  const auto flat = [](const Tensor& t) { return reshape(t, {t.size(0) * t.size(1), t.size(2)}); };
  if (b.wants(1)) {
    const Tensor before = cat({unsqueeze(b.x(3), 1), slice(b.y(), 1, 0, T - 1)}, 1);
    b.give(1, matmul(flat(of_h), Transpose::yes, flat(before), Transpose::no));
  }
  if (b.wants(2)) b.give(2, of_h);
  if (b.wants(3)) {
    const Tensor dh = matmul(reshape(slice(of_h, 1, 0, 1), {B, GH}), b.x(1));
    b.give(3, carry == Carry::h ? dh + carried : dh);
  }
  if (carry == Carry::c && b.wants(4)) b.give(4, carried);
}

// The node's inputs are Operands, its outputs those of forward(), its saved values Kept.
template <class T>
void give_fused(Backward& b, Cell cell) {
  const Form& form = form_of(cell);
  const bool has_c = form.carry == Carry::c;
  const Tensor x = b.x(0), weight = b.x(1), h0 = b.x(3), y = b.y(), gates = b.saved(0);
  const Sizes s(form, x, h0);
  const std::int64_t GH = s.G * s.H;
  const Tensor first = has_c ? b.x(4) : h0, states = has_c ? b.saved(1) : y;
  const Tensor dy = b.has_dy(0) ? b.dy(0) : Tensor();
  Tensor carried = has_c && b.has_dy(1) ? b.dy(1).clone() : zeros(h0.shape(), x.dtype());
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  Tensor of_h = cell == Cell::gru ? Tensor::empty(x.shape(), x.dtype()) : dx;
  kernels::GemmParams<T> p;
  p.n = p.ldb = s.H;
  p.k = GH;
  const Packed<T> packed(p, weight.data<T>().data(), 1);
  detail::count_product(s.B, s.H, GH, s.T - 1);
  BackwardStep<T> step{s, packed};
  step.gates = gates.data<T>().data(), step.first = first.data<T>().data(), step.states = states.data<T>().data();
  if (has_c) step.c = step.states;
  if (dy.defined()) step.dy = dy.data<T>().data();
  step.carry = carried.fresh<T>(), step.dx = dx.fresh<T>(), step.dh_gates = of_h.fresh<T>();
  step.kernel = FIT_KERNELS(kernels::recurrent_table, T).of(cell).backward;
  each_step(s, Direction::backwards, step);
  give_by_gates(b, of_h, carried, form.carry);
  b.give(0, dx);
}

// ---- shared by all cells --------------------------------------------------------------------------------------------

std::vector<Tensor> steps(Cell cell, const Operands& in) {
  const Form& form = form_of(cell);
  const char* const op = form.name;
  const char* const names[] = {"x", "weight", "bias", "h", "c"};
  const Autocast exact(float32);
  DType type{};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (i == 2 && !in[i].defined()) continue;
    check::floating(op, names[i], in[i]);
    type = i == 0 ? in[i].dtype() : promote(type, in[i].dtype());
  }
  const std::int64_t G = form.gates;
  const Tensor &x = in[0], &h = in[3];
  if (h.rank() != 2) check::fail(op, "h has shape ", h.shape(), ": it must be [B, H]");
  const std::int64_t B = h.size(0), H = h.size(1);
  if (x.rank() != 3 || x.size(0) != B || x.size(1) == 0 || x.size(2) != G * H)
    check::fail(op, "x has shape ", x.shape(), ", h ", h.shape(), ": x must be [", B, ", T, ", G * H,
                "] with T at least 1, ", G, G == 1 ? " gate" : " gates", " of the size of h");
  check::shape(op, "weight", in[1], {G * H, H});
  if (in[2].defined()) check::shape(op, "bias", in[2], {G * H});
  if (form.carry == Carry::c) check::shape(op, "c", in[4], h.shape());
  type = compute_dtype(Precision::rounded, type);
  return with_precision(Precision::rounded, in, [&](Operands in) {
    for (Tensor& t : in)
      if (t.defined()) t = t.to(type);
    const bool recorded = detail::wants_record(in);
    Kept kept;
    std::vector<Tensor> y;
    {
      const NoGrad no_grad;
      dispatch_compute_floating(type,
                                [&](auto zero) { y = forward<decltype(zero)>(cell, in, recorded ? &kept : nullptr); });
    }
    if (!y[1].defined()) y.pop_back();
    record(op, in, y, keep::inputs | keep::output | keep::saved(kept.gates, kept.c), [cell](Backward& b) {
      if (b.recording())
        give_by_decomposition(b, [cell](const Operands& in) { return composed(cell, in); });
      else
        dispatch_compute_floating(b.x(0).dtype(), [&](auto zero) { give_fused<decltype(zero)>(b, cell); });
    });
    return y;
  });
}

}  // namespace

std::pair<Tensor, Tensor> lstm_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h,
                                     const Tensor& c) {
  const std::vector<Tensor> y = steps(Cell::lstm, {x, weight, bias, h, c});
  return {y[0], y[1]};
}

Tensor gru_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h) {
  return steps(Cell::gru, {x, weight, bias, h})[0];
}

Tensor rnn_steps(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h) {
  return steps(Cell::rnn, {x, weight, bias, h})[0];
}

}  // namespace fit
