#pragma once
#include <cstdint>
#include <new>

#include "attention/visibility/visibility.hpp"
#include "fit/detail/score_operations.hpp"

// A function of the scores as kernels compute it: a list of steps. lowering.cpp makes it of an Expression.
namespace fit::kernels {

/// The level of a step says how often the kernel computes it: once for a head, for each key or query of a tile, for
/// each distance key - place in the tile, or for each pair in a block of rows.
enum class ScoreLevel : unsigned char { head, key, query, distance, pair };

/// Queries of a tile whose pairs are computed together: their values stay in the first cache.
constexpr std::int64_t score_block = 8;

/// constant + batch b + head h + query place + key j
struct PairForm {
  std::int64_t constant = 0, batch = 0, head = 0, query = 0, key = 0;
  [[gnu::always_inline]] std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t place, std::int64_t j) const {
    return constant + batch * b + head * h + query * place + key * j;
  }
};

/// An index of a table: a form, or the value of a step.
struct ScoreIndex {
  bool linear;
  PairForm form;
  int step;
  std::int64_t size, stride;
};

/// Integers and conditions (0 or 1) are numbers of W, too.
template <class W>
struct ScoreStep {
  static constexpr int max_axes = 4;
  detail::SymbolOp op{};
  ScoreLevel level = ScoreLevel::head;
  bool linear = false;          // its value is `form`
  bool spread = false;          // its value is its argument, of another level, for all pairs
  bool differentiable = false;  // its gradient is wanted
  int arity = 0;                // without the indices of a lookup
  int args[3] = {};             // earlier steps
  W number = 0;                 // of a number, and the exponent of pow
  PairForm form;
  // Positions of the values and of the gradient in the workspace. A gradient may overwrite the gradient from which it
  // is computed. -1: the step has the gradient of the result.
  std::int64_t value = 0, gradient = -1;
  bool overwrites[3] = {};  // the gradient of an argument: nothing has been added to it yet
  bool reversed = false;    // gradients are given to the last argument first
  // A lookup. table_gradient: where its table's gradient begins, or -1.
  const W* table = nullptr;
  int axes = 0;
  bool linear_indices = false;
  ScoreIndex index[max_axes] = {};
  std::int64_t table_gradient = -1;
  // For a unary function: its kernels in FunctionKernels; otherwise null.
  void (*forward)(W*, const W*, std::int64_t, W) = nullptr;
  void (*backward)(W*, const W*, const W*, std::int64_t, W) = nullptr;
  bool from_output = false;
};

template <class W>
struct AttentionScores;
struct TilePlace;

/// What the kernels of a program keep for a head.
struct ScoreState {
  alignas(8) unsigned char bytes[320];
  template <class Head>
  Head& as() {
    return *std::launder(reinterpret_cast<Head*>(bytes));
  }
};

/// Rows of a tile that were computed together. Row r of the result is at result + r tile_size.
template <class W>
struct ScoreBlock {
  std::int64_t rows;
  W* result;
};

/// The kernels that compute a program. Attention calls those to which the program points. Call enter_head() for each
/// head, take_tile() for each tile, then forward() for each block of score_block rows, in order. For gradients, call
/// backward() after each forward(), leave_tile() after each tile and leave_head() at the end.
template <class W>
struct ScoreKernels {
  void (*enter_head)(ScoreState& s, const AttentionScores<W>& a, std::int64_t b, std::int64_t h, W* workspace);
  void (*take_tile)(ScoreState& s, const AttentionScores<W>& a, const TilePlace& tile);
  // Computes score_block rows of the tile from `first` on, or the rest of them. x [rows, tile_size] are products. `out`
  // gets the result and may be x. Null: the result stays where backward() reads it.
  ScoreBlock<W> (*forward)(ScoreState& s, const AttentionScores<W>& a, std::int64_t first, W* x, W* out);
  // From the gradient ds of the result makes that of the scores, and adds to those of the tables. attends: of each row,
  // bit j says that the query attends to key j.
  void (*backward)(ScoreState& s, const std::uint64_t* attends, W* ds, W* tables);
  void (*leave_tile)(ScoreState& s, W* tables);
  void (*leave_head)(ScoreState& s, W* tables);
};
template <class IsaTag, class W>
const ScoreKernels<W>& score_kernels();

template <class W>
struct ScoreProgram {
  const ScoreKernels<W>* kernels;
  const ScoreStep<W>* steps;  // the last is the result, and is of level pair
  int count;
  int score;               // the step that is the score, or -1
  std::int64_t workspace;  // in numbers of W
  std::int64_t gradients;  // numbers in the gradients of all tables
};

/// The numbers of a step in the workspace.
constexpr std::int64_t score_numbers(ScoreLevel level) {
  const bool one_side = level == ScoreLevel::key || level == ScoreLevel::query;
  return level == ScoreLevel::pair ? score_block * tile_size : one_side ? tile_size : 2 * tile_size;
}

}  // namespace fit::kernels
