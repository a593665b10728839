// Who computes matrix products on this machine, in one line: examples/run prints it.
#include <fit/blas.hpp>
#include <iostream>

int main() { std::cout << fit::blas() << '\n'; }
