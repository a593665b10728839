#pragma once
#include <optional>
#include <string>
#include <vector>

#include "attention/visibility.hpp"
#include "fit/score.hpp"
#include "fit/tensor.hpp"

// Expressions of masks and scores (fit/score.hpp): the calls that a lambda recorded, as a list of steps without
// repetition. bounds() bounds each step over some pairs. row() computes the steps for the keys of a tile, evaluate() by
// operations. kernels compute those of scores (score_lowering.hpp).
namespace fit::kernels {
enum class Function;
}

namespace fit::detail {

/// A function of one argument.
struct SymbolFunction {
  SymbolOp op;
  const char* name;
  kernels::Function kernel;
  Tensor (*operation)(const Tensor&);
};
/// Null for other operations.
const SymbolFunction* function_of(SymbolOp op);

/// A call of Symbol's functions.
struct SymbolNode {
  SymbolOp op;
  SymbolKind kind;
  double number = 0;                                         // of op number, and the exponent of pow
  Tensor table = {};                                         // of a lookup; undefined otherwise
  std::vector<std::shared_ptr<const SymbolNode>> args = {};  // of a lookup: an index for each axis
};
using SymbolNodes = std::shared_ptr<const SymbolNode>;

/// As it is written in C++.
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
  PairBounds(const kernels::Visibility& v, Bounds batch, Bounds head, kernels::Interval queries,
             kernels::Interval keys);
  bool empty() const;
};

/// constant + batch b + head h + query place(i) + key j
struct LinearForm {
  double constant = 0, batch = 0, head = 0, query = 0, key = 0;
  bool is_constant() const { return batch == 0 && head == 0 && query == 0 && key == 0; }
};

class Expression {
 public:
  struct Step {
    SymbolOp op;
    SymbolKind kind;
    double number;
    int table;                       // of a lookup: its number; otherwise -1
    std::vector<int> args;           // earlier steps
    std::optional<LinearForm> form;  // of an integer that is one
  };

  /// first_key: query i stands at i + first_key, which is Sk - Sq.
  Expression(const SymbolNodes& root, std::int64_t first_key);
  /// From its steps as numbers, which a node of the graph saves, and its tables.
  Expression(const Tensor& code, std::vector<Tensor> tables, std::int64_t first_key);
  Tensor code() const;

  std::vector<Step> steps;     // the last is the result
  std::vector<Tensor> tables;  // each once
  std::int64_t first_key;

  /// Whether a step reads the batch, the head, ….
  bool reads(SymbolOp leaf) const;
  /// The least size of the axes of tables whose index is this leaf; 1 if there is none.
  std::int64_t extent(SymbolOp leaf) const;
  const std::string& text() const { return text_; }

  /// Bounds of all steps over some pairs. Conditions are 0 … 1.
  std::vector<Bounds> bounds(const PairBounds& pairs) const;
  /// Throws Error in the name of `op` if an index leaves its table, or if an integer is too large to be exact: more
  /// than 2^52, or 2^24 for float32.
  void check_ranges(const char* op, const PairBounds& pairs, DType dtype) const;

  /// The result of an expression without scores for n <= 64 keys from `key` on. Steps of indices that leave their table
  /// (for pairs that causality or the window masks) are 0.
  void row(double batch, double head, double query, double key, std::int64_t n, double* out) const;

  /// The result for all pairs by operations; it broadcasts to `pairs`, (B, H, Sq, Sk). scores: for the op `score`;
  /// values: instead of the tables. masked: pairs that don't attend, or undefined.
  Tensor evaluate(const Tensor& scores, const std::vector<Tensor>& values, const Tensor& masked,
                  const Shape& pairs) const;

 private:
  std::string text_;
};

}  // namespace fit::detail
