#include "dist/launched.hpp"

#include <cstdio>
#include <cstdlib>

#include "fit/nn/dist/dist.hpp"

namespace fit::dist {
namespace {

// The number of processes that a launcher started with this one; 1 without a launcher.
long launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* const number = std::getenv(name)) return std::strtol(number, nullptr, 10);
  return 1;
}

}  // namespace

void warn_if_apart() {
  static const bool said = [] {
    const long processes = launched();
    if (processes < 2 || world().size() > 1) return false;
    std::fprintf(
        stderr,
        "[dist] %ld processes were started together, but this one trains alone: each of them trains the whole "
        "model and writes the same files. Construct a fit::dist::Mpi first in main(), and link fit::mpi "
        "(docs/distributed.md); where MPI is missing, apt-get install libopenmpi-dev and configure fit again.\n",
        processes);
    return true;
  }();
  static_cast<void>(said);
}

}  // namespace fit::dist
