#pragma once
#include "kernels/elementwise.hpp"
#include "kernels/function_list.hpp"

// Functions of one number, by the kernels: the last digits of the C library's depend on its version and on the
// processor.
namespace fit::nn::number {

inline double of(const kernels::Function& f, double x) {
  double y;
  kernels::function<double>(f).forward(&y, &x, 1, 0);
  return y;
}
inline double exp(double x) { return of(kernels::Function::exp, x); }
inline double log(double x) { return of(kernels::Function::log, x); }
inline double cos(double x) { return of(kernels::Function::cos, x); }
inline double erf(double x) { return of(kernels::Function::erf, x); }
inline double pow(double x, double e) {
  double y;
  kernels::elementwise<double>().pow(&y, &x, &e, 1, 1, 1);
  return y;
}

}  // namespace fit::nn::number
