// Exercise rope: rotary positions.
//
// x is [n, d], d even. Rotate the pair of features (x_i, x_(i + d/2)) of position p by the angle p * 10000^(-2i / d):
// (a, b) becomes (a cos - b sin, a sin + b cos).
#include "exercises/exercises.hpp"

using namespace fit;

Tensor rotate(const Tensor& x) { return x; }

EXERCISE(rope, rotate)
