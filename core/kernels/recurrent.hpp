#pragma once
#include <cstdint>

#include "kernels/simd/isa.hpp"

// The steps of recurrent layers but for their products, float and double: gates, states and their gradients, a block of
// rows and features at a time. The formulas stand in fit/recurrent.hpp and, made of operations, in ops/recurrent.cpp,
// which the tests hold the kernels against. Rounded by operation; sigmoid and tanh as in simd/math.hpp.
namespace fit::kernels {

// What lies in rows of features; `row` elements from one row to the next. A null pointer: not there.
template <class T>
struct Rows {
  T* at = nullptr;
  std::int64_t row = 0;

  Rows block(std::int64_t i, std::int64_t j) const { return at ? Rows{at + i * row + j, row} : *this; }
};
// Gates side by side in each row; `gate` elements from one gate to the next.
template <class T>
struct Gates {
  T* at = nullptr;
  std::int64_t row = 0, gate = 0;

  Gates block(std::int64_t i, std::int64_t j) const { return at ? Gates{at + i * row + j, row, gate} : *this; }
};

// One step forwards. `kept`, where the backward pass is to come: the LSTM's i, f, g, o; the GRU's r, z, n and the h
// part of n.
template <class T>
struct StepForward {
  std::int64_t rows = 0, cols = 0;
  Gates<const T> of_x, of_h;
  Gates<T> kept;
  Rows<const T> last_h, last_c;
  Rows<T> h, c;  // c may be last_c
};

// One step backwards.
template <class T>
struct StepBackward {
  std::int64_t rows = 0, cols = 0;
  Gates<const T> kept;
  Rows<const T> last;          // the LSTM's c, the GRU's h
  Rows<const T> c;             // after the step: LSTM
  Rows<const T> dh, of_gates;  // of the step's output, and of the next step's gates; may be null
  // Of the LSTM's c, of the GRU's h past its gates: that after the step, replaced by that before it.
  Rows<T> carry;
  Gates<T> dx, dh_gates;  // of the gates' shares of x and of h; the LSTM has one, dx
};

template <class T>
struct RecurrentKernels {
  void (*lstm)(const StepForward<T>& s);
  void (*lstm_backward)(const StepBackward<T>& s);
  void (*gru)(const StepForward<T>& s);
  void (*gru_backward)(const StepBackward<T>& s);
};

template <class IsaTag, class T>
const RecurrentKernels<T>& recurrent_table();

}  // namespace fit::kernels
