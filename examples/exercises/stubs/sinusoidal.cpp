// Exercise sinusoidal: sinusoidal positions.
//
// [n, d] with sin(p / 10000^(2i / d)) in column 2i and cos of the same in column 2i + 1, for position p. d is even.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor sinusoidal_table(std::int64_t n, std::int64_t d) { return zeros({n, d}); }

EXERCISE(sinusoidal, sinusoidal_table)
