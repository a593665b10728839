#include "fit/mpi.hpp"
#include "support/catch.hpp"

// All ranks run the same tests in the same order.
int main(int argc, char** argv) {
  const fit::dist::Mpi mpi;
  return fit::test::run_tests(argc, argv);
}
