// A function of scores, from its expression to the steps of kernels.
#include "attention/score/lowering.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fit/graph/graph.hpp"
#include "kernels/function_list.hpp"
#include "kernels/simd/isa.hpp"

namespace fit::detail {
namespace {

using kernels::PairForm;
using kernels::ScoreLevel;

PairForm integer_form(const LinearForm& f) {
  const auto n = [](double x) { return static_cast<std::int64_t>(x); };
  return {n(f.constant), n(f.batch), n(f.head), n(f.query), n(f.key)};
}

ScoreLevel level_of(const PairForm& f) {
  if (f.query == 0) return f.key == 0 ? ScoreLevel::head : ScoreLevel::key;
  if (f.key == 0) return ScoreLevel::query;
  return f.query == -f.key ? ScoreLevel::distance : ScoreLevel::pair;
}

// The level of a step whose arguments have these levels.
ScoreLevel joined(ScoreLevel a, ScoreLevel b) {
  if (a == b || b == ScoreLevel::head) return a;
  return a == ScoreLevel::head ? b : ScoreLevel::pair;
}

// Which steps are computed: indices that are forms are not.
std::vector<bool> used_steps(const Expression& e) {
  std::vector<bool> used(e.steps.size());
  used.back() = true;
  for (std::size_t k = e.steps.size(); k-- > 0;) {
    const Expression::Step& s = e.steps[k];
    if (!used[k] || s.form) continue;
    for (const int a : s.args) {
      const std::size_t i = static_cast<std::size_t>(a);
      if (s.op != SymbolOp::lookup || !e.steps[i].form) used[i] = true;
    }
  }
  return used;
}

// The value of a step that is a number.
std::optional<double> constant(const Expression::Step& s) {
  if (s.op == SymbolOp::number) return s.number;
  if (s.form && s.form->is_constant()) return s.form->constant;
  return {};
}

// The kernels of a function of one number; null for other operations.
const kernels::Function* function_of(SymbolOp op) {
#define NONE(...) nullptr,
#define KERNEL(name, ...) &kernels::Function::name,
  constexpr const kernels::Function* functions[] = {FIT_SCORE_OPERATIONS(NONE, NONE, NONE, KERNEL)};
#undef NONE
#undef KERNEL
  return functions[static_cast<int>(op)];
}

}  // namespace

template <class W>
LoweredScore<W>::LoweredScore(const Expression& e, const std::vector<bool>& wanted) : places_(e.steps.size(), 0) {
  const NoGrad no_grad;
  for (std::size_t t = 0; t < e.tables.size(); ++t) {
    tables_.push_back(e.tables[t].to(dtype_of<W>()));
    gradients_.push_back(wanted[t] ? program_.gradients : -1);
    if (wanted[t]) program_.gradients += e.tables[t].numel();
  }
  program_.score = -1;
  const std::vector<bool> used = used_steps(e);
  for (std::size_t k = 0; k < e.steps.size(); ++k) {
    if (!used[k]) continue;
    const Step s = lowered(e, e.steps[k]);
    places_[k] = append(s);
    if (s.op == SymbolOp::score) program_.score = places_[k];
  }
  if (steps_.back().level != ScoreLevel::pair) append_spread(static_cast<int>(steps_.size()) - 1);
  place_numbers();
  program_.steps = steps_.data(), program_.count = static_cast<int>(steps_.size());
  program_.kernels = &FIT_KERNELS(kernels::score_kernels, W);
}

// A step, after the steps that it needs beside those of its arguments.
template <class W>
auto LoweredScore<W>::lowered(const Expression& e, const Expression::Step& from) -> Step {
  Step s;
  s.op = from.op;
  s.number = static_cast<W>(from.number);
  if (from.form) {
    s.linear = true;
    s.form = integer_form(*from.form);
    s.level = level_of(s.form);
  } else if (from.op == SymbolOp::lookup) {
    read_table(e, from, s);
  } else if (from.op == SymbolOp::score) {
    s.level = ScoreLevel::pair;
    s.differentiable = true;
  } else {
    for (const int a : from.args) s.args[s.arity++] = argument(a, s);
  }
  if (from.kind != SymbolKind::number) s.differentiable = false;
  if (const kernels::Function* const f = function_of(from.op)) {
    s.forward = kernels::function<W>(*f).forward;
    s.backward = kernels::function<W>(*f).backward;
    s.from_output = f->from_output;
  }
  if (from.op == SymbolOp::divide)
    if (const auto n = constant(e.steps[static_cast<std::size_t>(from.args[1])]); n && std::isnormal(W(1 / *n))) {
      Step reciprocal;
      reciprocal.op = SymbolOp::number, reciprocal.number = static_cast<W>(1 / *n);
      s.op = SymbolOp::multiply, s.args[1] = append(reciprocal);
    }
  if (s.level == ScoreLevel::pair && !s.linear) spread_queries(s);
  return s;
}

// The place of argument a of a step, which then depends on what a depends on.
template <class W>
int LoweredScore<W>::argument(int a, Step& s) {
  const int at = places_[static_cast<std::size_t>(a)];
  s.level = joined(s.level, step(at).level);
  s.differentiable = s.differentiable || step(at).differentiable;
  return at;
}

// The table and the indices of a lookup.
template <class W>
void LoweredScore<W>::read_table(const Expression& e, const Expression::Step& from, Step& s) {
  const std::size_t t = static_cast<std::size_t>(from.table);
  const Tensor& table = tables_[t];
  s.table = table.template data<W>().data();
  s.table_gradient = gradients_[t];
  s.axes = table.rank();
  s.linear_indices = true;
  std::int64_t stride = table.numel();
  for (int axis = 0; axis < s.axes; ++axis) {
    const int a = from.args[static_cast<std::size_t>(axis)];
    const std::optional<LinearForm>& form = e.steps[static_cast<std::size_t>(a)].form;
    stride /= std::max<std::int64_t>(table.size(axis), 1);
    kernels::ScoreIndex& index = s.index[axis];
    index = {form.has_value(), {}, 0, table.size(axis), stride};
    if (form) {
      index.form = integer_form(*form);
      s.level = joined(s.level, level_of(index.form));
    } else {
      s.linear_indices = false;
      index.step = argument(a, s);
    }
  }
  s.differentiable = s.table_gradient >= 0;
}

// Pairs read numbers of queries one by one: they are written out for all pairs.
template <class W>
void LoweredScore<W>::spread_queries(Step& s) {
  const auto spread = [&](int& a) {
    if (step(a).level == ScoreLevel::query) a = append_spread(a);
  };
  for (int i = 0; i < s.arity; ++i) spread(s.args[i]);
  for (int axis = 0; axis < s.axes; ++axis)
    if (!s.index[axis].linear) spread(s.index[axis].step);
}

template <class W>
int LoweredScore<W>::append(const Step& s) {
  steps_.push_back(s);
  return static_cast<int>(steps_.size()) - 1;
}

template <class W>
int LoweredScore<W>::append_spread(int a) {
  Step s;
  s.op = SymbolOp::number;
  s.spread = true;
  s.level = ScoreLevel::pair;
  s.differentiable = step(a).differentiable;
  s.args[s.arity++] = a;
  return append(s);
}

// Shares out the workspace. Gradients go from the result to the steps that it depends on by numbers.
template <class W>
void LoweredScore<W>::place_numbers() {
  const auto take = [&](ScoreLevel level) {
    const std::int64_t at = program_.workspace;
    program_.workspace += kernels::score_numbers(level);
    return at;
  };
  for (Step& s : steps_) s.value = take(s.level);
  std::vector<bool> reached(steps_.size());
  reached.back() = true;
  for (std::size_t k = steps_.size(); k-- > 0;) {
    Step& s = steps_[k];
    s.differentiable = s.differentiable && reached[k];
    if (!s.differentiable) continue;
    if (s.level != ScoreLevel::pair) s.gradient = take(s.level);
    // An argument may take the place of the step, after the step has given to the others.
    const auto takes_over = [&](int i) {
      const std::size_t a = static_cast<std::size_t>(s.args[i]);
      return steps_[a].level == ScoreLevel::pair && !reached[a];
    };
    std::vector<int> order;
    for (int i = 0; i < s.arity; ++i)
      if (step(s.args[i]).differentiable) order.push_back(i);
    s.reversed = order.size() == 2 && takes_over(order[0]) && !takes_over(order[1]);
    if (s.reversed) std::swap(order[0], order[1]);
    for (const int i : order) {
      const std::size_t a = static_cast<std::size_t>(s.args[i]);
      s.overwrites[i] = takes_over(i);
      if (s.overwrites[i]) steps_[a].gradient = i == order.back() ? s.gradient : take(ScoreLevel::pair);
      reached[a] = true;
    }
  }
}

template <class W>
LoweredScore<W> lowered_score(const Expression& e, const std::vector<bool>& wanted) {
  return LoweredScore<W>(e, wanted);
}
template LoweredScore<float> lowered_score(const Expression& e, const std::vector<bool>& wanted);
template LoweredScore<double> lowered_score(const Expression& e, const std::vector<bool>& wanted);

}  // namespace fit::detail
