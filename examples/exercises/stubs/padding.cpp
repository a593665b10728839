// Exercise padding: a mask for padded sequences.
//
// lengths [B] says how many of the n keys of each sequence are real. Return a boolean mask [B, 1, 1, n], true = attend.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor padding_mask(const Tensor& lengths, std::int64_t n) { return ones({lengths.size(0), 1, 1, n}, boolean); }

EXERCISE(padding, padding_mask)
