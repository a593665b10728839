// Who computes matrix products on this machine, in one line: examples/run prints it.
#include <fit/matmul/blas.hpp>
#include <iostream>

int main() { std::cout << fit::blas() << '\n'; }
