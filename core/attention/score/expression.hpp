#pragma once
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "attention/visibility/visibility.hpp"
#include "fit/attention/score/score.hpp"
#include "fit/tensor/tensor.hpp"

// Expressions of masks and scores (fit/attention/score/score.hpp): the calls that a lambda recorded, as a list of steps
// without repetition. bounds() bounds each step over some pairs, evaluate() computes the steps by operations. Kernels
// compute those of scores (lowering.hpp). A mask and a score function point to these functions
// (ExpressionMethods): a program that makes neither does not contain them.
namespace fit::detail {

struct ExpressionMethods;

/// A call of Symbol's functions.
struct SymbolNode {
  SymbolOp op;
  SymbolKind kind;
  double number = 0;                                         // of op number, and the exponent of pow
  Tensor table = {};                                         // of a lookup; undefined otherwise
  std::vector<std::shared_ptr<const SymbolNode>> args = {};  // of a lookup: an index for each axis
  const ExpressionMethods* methods = nullptr;                // of a whole mask or score function
  int depth = 1;                                             // 1 + the greatest of the args
};
using SymbolNodes = std::shared_ptr<const SymbolNode>;

/// As it is written in C++; of a long text, the beginning.
std::string written(const SymbolNode& n);

/// low … high, and whether it may be NaN.
struct Bounds {
  double low = 0, high = 0;
  bool nan = false;
  bool single() const { return low == high; }
};

/// Bounds of the pairs in question: of the element, the head, the places of query and key, and of key - query.
struct PairBounds {
  Bounds batch, head, query, key, ahead;
  /// The pairs of some queries and keys that causality and the window allow. None of the intervals may be empty.
  PairBounds(const kernels::Visibility& v, kernels::Interval elements, kernels::Interval heads,
             kernels::Interval queries, kernels::Interval keys);
  bool empty() const;
};

/// constant + batch b + head h + query place(i) + key j
struct LinearForm {
  double constant = 0, batch = 0, head = 0, query = 0, key = 0;
  bool is_constant() const { return batch == 0 && head == 0 && query == 0 && key == 0; }
};

struct Expression {
  struct Step {
    SymbolOp op;
    SymbolKind kind;
    double number;
    int table;                       // of a lookup: its number; otherwise -1
    std::vector<int> args;           // earlier steps
    std::optional<LinearForm> form;  // of an integer that is one
  };

  /// Of a mask or a score function. first_key: query i stands at i + first_key, which is Sk - Sq.
  Expression(const SymbolNodes& root, std::int64_t first_key);
  /// From its steps as numbers, which a node of the graph saves, and its tables.
  Expression(const ExpressionMethods& methods, const Tensor& code, std::vector<Tensor> tables, std::int64_t first_key);
  Tensor code() const;

  const ExpressionMethods* methods;
  std::vector<Step> steps;     // the last is the result
  std::vector<Tensor> tables;  // each once
  std::int64_t first_key;
  SymbolNodes root;  // undefined if it was made from numbers
  std::string text() const;

  /// Whether a step reads the batch, the head, ….
  bool reads(SymbolOp leaf) const;
  /// The least size of the axes of tables whose index is this leaf; 1 if there is none.
  std::int64_t extent(SymbolOp leaf) const;
};

/// The steps of the calls. Equal calls are one step.
void read_calls(Expression& e, const SymbolNode& root);
/// Bounds of all steps over some pairs. Conditions are 0 … 1.
std::vector<Bounds> bounds_of_steps(const Expression& e, const PairBounds& pairs);
/// Throws Error in the name of `op` if an index leaves its table, if a table is one of a larger batch, or if an integer
/// is too large to be exact: more than 2^52, or 2^24 for float32.
void check_steps(const Expression& e, const char* op, const PairBounds& pairs, DType dtype);
/// The same for all pairs of a call that causality and the window of v allow, with B elements and H heads.
void check_ranges(const char* op, const Expression& e, std::int64_t B, std::int64_t H, const kernels::Visibility& v,
                  DType dtype = float64);
/// The first of some pairs: its element, its head, the numbers of its query and of its key.
struct PairOrigin {
  std::int64_t batch = 0, head = 0, query = 0, key = 0;
};
/// The result for the pairs from `origin` on by operations; it broadcasts to `pairs`, (elements, heads, queries, keys).
/// scores: for the op `score`; values: instead of the tables. masked: pairs that don't attend, or undefined. An index
/// that leaves its table (for a pair that does not attend) gives the nearest element.
Tensor compute_by_operations(const Expression& e, const Tensor& scores, const std::vector<Tensor>& values,
                             const Tensor& masked, const Shape& pairs, const PairOrigin& origin);
/// The pairs (B, H, Sq, Sk) from `origin` on that an expression allows, boolean (B|1, H|1, Sq, Sk). Pairs that
/// causality or the window masks may have any value.
Tensor evaluate_mask(const Expression& attends, const Shape& pairs, const PairOrigin& origin = {});
/// The steps as kernels take them; see lowering.hpp.
template <class W>
class LoweredScore;
template <class W>
LoweredScore<W> lowered_score(const Expression& e, const std::vector<bool>& wanted);

/// The functions above, as attention calls them.
struct ExpressionMethods {
  decltype(written)* write;
  decltype(read_calls)* read;
  decltype(bounds_of_steps)* bounds;
  decltype(check_steps)* check;
  decltype(compute_by_operations)* evaluate;
  std::tuple<decltype(lowered_score<float>)*, decltype(lowered_score<double>)*> lower;  // of a score function
};

}  // namespace fit::detail
