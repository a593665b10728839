#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "fit/mpi.hpp"

// All ranks run the same tests in the same order.
int main(int argc, char** argv) {
  const fit::dist::Mpi mpi;
  return Catch::Session().run(argc, argv);
}
