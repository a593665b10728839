// A function of scores, from its expression to the steps of kernels.
#include "attention/score_lowering.hpp"

#include <algorithm>
#include <optional>

#include "fit/graph.hpp"
#include "kernels/functions.hpp"

namespace fit::detail {
namespace {

using kernels::PairForm;

PairForm integer_form(const LinearForm& f, std::int64_t skipped_keys, std::int64_t skipped_elements) {
  const auto n = [](double x) { return static_cast<std::int64_t>(x); };
  return {n(f.constant) + n(f.query + f.key) * skipped_keys + n(f.batch) * skipped_elements, n(f.batch), n(f.head),
          n(f.query), n(f.key)};
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
      const bool all = std::all_of(s.args.begin(), s.args.end(),
                                   [&](int x) { return e.steps[static_cast<std::size_t>(x)].form.has_value(); });
      if (s.op != SymbolOp::lookup || (!all && !(e.steps[i].form && e.steps[i].form->key == 0))) used[i] = true;
    }
  }
  return used;
}

}  // namespace

template <class W>
LoweredScore<W>::LoweredScore(const Expression& e, const std::vector<bool>& wanted, std::int64_t skipped_keys,
                              std::int64_t skipped_elements) {
  const NoGrad no_grad;
  std::int64_t gradients = 0;
  for (std::size_t t = 0; t < e.tables.size(); ++t) {
    tables_.push_back(e.tables[t].to(dtype_of<W>()));
    gradients_.push_back(wanted[t] ? gradients : -1);
    if (wanted[t]) gradients += e.tables[t].numel();
  }
  const std::vector<bool> used = used_steps(e);
  std::vector<int> place(e.steps.size(), 0);
  for (std::size_t k = 0; k < e.steps.size(); ++k) {
    if (!used[k]) continue;
    const Expression::Step& from = e.steps[k];
    kernels::ScoreStep<W> s;
    s.op = from.op;
    s.integer = from.kind == SymbolKind::integer;
    s.number = static_cast<W>(from.number);
    s.varies = from.op == SymbolOp::score;
    s.differentiable = from.op == SymbolOp::score;
    const auto needs = [&](const PairForm& f) { s.varies = s.varies || f.query != 0 || f.key != 0; };
    const auto argument = [&](int a) {
      const int at = place[static_cast<std::size_t>(a)];
      s.varies = s.varies || steps_[static_cast<std::size_t>(at)].varies;
      s.differentiable = s.differentiable || steps_[static_cast<std::size_t>(at)].differentiable;
      return at;
    };
    if (from.form) {
      s.linear = true;
      s.form = integer_form(*from.form, skipped_keys, skipped_elements);
      needs(s.form);
    } else if (from.op == SymbolOp::lookup) {
      const std::size_t t = static_cast<std::size_t>(from.table);
      const Tensor& table = tables_[t];
      s.table = table.template data<W>().data();
      s.gradient = gradients_[t];
      s.axes = table.rank();
      s.linear_indices = true;
      std::int64_t stride = table.numel();
      for (int axis = 0; axis < s.axes; ++axis) {
        const int a = from.args[static_cast<std::size_t>(axis)];
        const std::optional<LinearForm>& form = e.steps[static_cast<std::size_t>(a)].form;
        stride /= std::max<std::int64_t>(table.size(axis), 1);
        kernels::ScoreIndex& index = s.index[axis];
        index = {form.has_value(), {}, 0, table.size(axis), stride};
        if (form) index.form = integer_form(*form, skipped_keys, skipped_elements), needs(index.form);
        if (!form) s.linear_indices = false;
        if (used[static_cast<std::size_t>(a)]) index.step = argument(a);
      }
      s.differentiable = s.gradient >= 0;
    } else {
      for (std::size_t i = 0; i < from.args.size(); ++i) s.args[i] = argument(from.args[i]);
    }
    if (from.kind != SymbolKind::number) s.differentiable = false;
    if (const SymbolFunction* const f = function_of(from.op); f && !s.linear) {
      s.forward = kernels::function<W>(f->kernel).forward;
      s.backward = kernels::function<W>(f->kernel).backward;
      s.from_output = kernels::functions_from_output[static_cast<int>(f->kernel)];
    }
    place[k] = static_cast<int>(steps_.size());
    steps_.push_back(s);
  }
  program_ = {steps_.data(), static_cast<int>(steps_.size()), gradients};
}

template class LoweredScore<float>;
template class LoweredScore<double>;

}  // namespace fit::detail
