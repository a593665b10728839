// Exercise sink: softmax with a sink.
//
// e^x_j / (e^s + sum of e^x along the last axis): a head that finds nothing gives its weight to the sink s. It must
// work for x and s of 1000, too.
#include "exercises/exercises.hpp"

using namespace fit;

Tensor sink_softmax(const Tensor& x, double s) { return exp(x) / (std::exp(s) + sum(exp(x), -1, keepdims)); }

EXERCISE(sink, sink_softmax)
