#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// The steps of recurrent layers without their matrix products, float and double: gates, states and gradients, for a
// block of rows and features. The formulas are in fit/ops/recurrent.hpp. network/recurrent.cpp has their decomposition,
// against which the tests compare the kernels. Rounded by operation; sigmoid and tanh as in simd/math.hpp.
namespace fit::kernels {

// Rows of features, `row` elements apart. Gates are side by side in each row, `gate` elements apart. A null pointer
// means absent.
template <class T>
struct Rows {
  T* at = nullptr;
  std::int64_t row = 0, gate = 0;

  Rows block(std::int64_t i, std::int64_t j) const { return at ? Rows{at + i * row + j, row, gate} : *this; }
};

enum class Cell { lstm, gru, rnn };

// One forward step. `kept` stores values for the backward pass: the arguments of i, f, g, o (LSTM), of r, z, n and the
// h part of n (GRU), or of tanh (RNN). Arguments, because the derivative of a gate that has rounded to 1 is not 0.
template <class T>
struct StepForward {
  std::int64_t rows = 0, cols = 0;
  Rows<const T> of_x, of_h;
  Rows<T> kept;
  Rows<const T> last_h, last_c;
  Rows<T> h, c;  // c may be last_c
};

// One backward step.
template <class T>
struct StepBackward {
  std::int64_t rows = 0, cols = 0;
  Rows<const T> kept;
  Rows<const T> last;          // the LSTM's c, the GRU's h
  Rows<const T> c;             // after the step: LSTM
  Rows<const T> dh, of_gates;  // gradients of the output, directly and through the next step's gates; may be null
  // Gradient of the LSTM's c, or of the GRU's h without its gates; the RNN has none. On entry: after the step. On
  // return: before the step.
  Rows<T> carry;
  Rows<T> dx, dh_gates;  // gradients of the x part and the h part of the gates; only the GRU has two
};

template <class T>
struct CellKernels {
  void (*forward)(const StepForward<T>& s);
  void (*backward)(const StepBackward<T>& s);
};

template <class T>
struct RecurrentKernels {
  CellKernels<T> cells[3];
  const CellKernels<T>& of(Cell cell) const { return cells[static_cast<int>(cell)]; }
};

template <class IsaTag, class T>
const RecurrentKernels<T>& recurrent_table();

}  // namespace fit::kernels
