#pragma once

namespace fit::detail {

/// The operation of a node of an expression (fit/attention/score/score.hpp).
enum class SymbolOp : unsigned char {
  number,
  score,
  batch,
  head,
  query,
  row,
  key,
  lookup,
  negative,
  absolute,
  floor,
  logical_not,
  exp,
  log,
  sqrt,
  sin,
  cos,
  tanh,
  sigmoid,
  softplus,
  relu,
  square,
  pow,
  add,
  subtract,
  multiply,
  divide,
  remainder,
  minimum,
  maximum,
  less,
  less_equal,
  equal,
  not_equal,
  logical_and,
  logical_or,
  where
};

}  // namespace fit::detail
