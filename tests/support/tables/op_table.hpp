#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/backward/gradcheck.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

/// The table of operations, with one row for each operation, or for each form of it. op_table_test.cpp runs all checks
/// on each row. The rows of a family are in ops_<family>.cpp:
///
///     namespace fit::test {
///     static std::vector<OpRow> arithmetic_rows() {
///       return {
///           OpRow("add", [](const auto& in) { return add(in[0], in[1]); })
///               .on({{2, 3}, {2, 3}})                  // the shapes of the inputs
///               .on({{2, 3}, {3}})                     // any number of sets
///               .bad("[2] and [3] do not broadcast", [] { add(zeros({2}), zeros({3})); }),
///           OpRow("div", [](const auto& in) { return div(in[0], in[1]); })
///               .from(domain::real, domain::nonzero)   // the domains of the inputs: one for all, or one each
///               .on({{4}, {4}}),
///       };
///     }
///     static const RegisterOps arithmetic(arithmetic_rows);
///     }
///
/// Inputs are tensors that can have a gradient. The function makes everything else (axes, ids, masks, a seeded
/// generator). A function may return a vector of tensors. Tensors that are not floating have no gradient checks.
namespace fit::test {

struct OpRow {
  struct Bad {
    std::string text;
    Callable<void()> call;
  };
  using Sides = Callable<std::pair<Tensor, Tensor>(const Tensor& x)>;
  struct Relation {
    std::string name;
    Sides sides;
    double units;
  };

  /// `op` is the name in the catalogue, and in brackets in errors. `form` distinguishes rows of one op.
  OpRow(std::string op, TensorFunction f) : op(std::move(op)), f(std::move(f)) {}
  OpRow(std::string op, std::string form, TensorFunction f)
      : op(std::move(op)), form(std::move(form)), f(std::move(f)) {}

  /// The shapes of the inputs. Include sizes 0 and 1 and rank 0.
  OpRow on(std::vector<Shape> set) && { return shapes.push_back(std::move(set)), std::move(*this); }
  /// Shapes large enough for several threads: for the checks of threads, and of gradients along random directions.
  OpRow large(std::vector<Shape> set) && { return large_shapes.push_back(std::move(set)), std::move(*this); }
  /// The domains of the inputs. The last one is for all further inputs.
  template <class... D>
  OpRow from(const D&... d) && {
    return domains = {d...}, std::move(*this);
  }
  /// Inputs that may be undefined tensors (an optional bias).
  template <class... I>
  OpRow optional(I... i) && {
    return optional_inputs = {i...}, std::move(*this);
  }
  /// Has a first derivative only.
  OpRow once() && { return order = 1, std::move(*this); }
  /// The max difference of float32 from float64, relative to 1 + |value|. The default is 1e-5.
  OpRow within(double tolerance) && { return tolerance32 = tolerance, std::move(*this); }
  /// In bfloat16, outputs are means of inputs with rounded weights. Each weight has an error of half a unit of 2^-8.
  OpRow rounds_weights() && { return bfloat16_weights = 0x1p-9, std::move(*this); }
  /// The decomposition into other operations. Values and gradients must agree on every instruction set.
  OpRow equals(TensorFunction composed_form) && {
    composed.push_back(std::move(composed_form));
    return std::move(*this);
  }
  /// Disables a rule for special numbers ("zeros", "a zero", "equal numbers", "equal rows", "NaN", "huge numbers"),
  /// with the reason.
  OpRow except(std::string numbers, std::string reason) && {
    exceptions[std::move(numbers)] = std::move(reason);
    return std::move(*this);
  }
  /// The call must throw an Error that begins with [op] and contains `text`.
  OpRow bad(std::string text, Callable<void()> call) && {
    return errors.push_back({std::move(text), std::move(call)}), std::move(*this);
  }

  /// Two tensors that are equal for every input x [n, 4] of one floating type, to `units` in the last place.
  OpRow holds(std::string relation, Sides sides, double units = 0) && {
    return relations.push_back({std::move(relation), std::move(sides), units}), std::move(*this);
  }
  /// f(s x) = s^degree f(x) for all s > 0 if x are the inputs given and the others stay. Checked over the whole range.
  OpRow homogeneous(int degree, std::vector<int> inputs = {0}) && {
    return scalings.push_back({degree, std::move(inputs)}), std::move(*this);
  }

  std::string name() const { return form.empty() ? op : op + ", " + form; }
  const Domain& domain_of(std::size_t input) const { return domains[std::min(input, domains.size() - 1)]; }

  std::string op, form;
  TensorFunction f;
  std::vector<std::vector<Shape>> shapes, large_shapes;
  std::vector<Domain> domains = {domain::real};
  std::vector<int> optional_inputs;
  int order = 2;
  double tolerance32 = 1e-5, bfloat16_weights = 0;
  std::vector<TensorFunction> composed;  // at most one
  std::vector<Bad> errors;
  std::map<std::string, std::string> exceptions;
  std::vector<Relation> relations;  // op_relations_test.cpp
  struct Scaling {
    int degree;
    std::vector<int> inputs;
  };
  std::vector<Scaling> scalings;  // homogeneity_test.cpp
};

/// A static object of this type adds a family to the table.
struct RegisterOps {
  explicit RegisterOps(std::vector<OpRow> (*family)());
};

/// All rows, family by family.
const std::vector<OpRow>& op_rows();

/// Calls body(row) for each row. A failure names the row. (A section for each row would take seconds: Catch searches
/// among those it knows.)
template <class Body>
void each_row(const Body& body) {
  for (const OpRow& row : op_rows()) {
    INFO("row " << row.name());
    body(row);
  }
}

}  // namespace fit::test
