#pragma once
#include <memory>

#include "fit/nn/dist/dist.hpp"

/// Ranks started by mpirun (target fit::mpi).
namespace fit::dist {

/// Connects the processes that mpirun (or srun) started: dist::world() is their world during its lifetime. Construct it
/// first in main(). Without mpirun it does not start MPI, and the program runs as one process.
///
///     int main() {
///       const fit::dist::Mpi mpi;
///       …
///     }
///
/// A rank that ends by an exception ends all others. An exception that main() doesn't catch is printed with the rank.
/// If an exception destroys this object and is caught later, all ranks end when this process ends. If main() catches it
/// while this object lives, pass it to dist::end_all(). If a rank is killed or crashes, mpirun reports it and ends the
/// others. The ranks on a machine divide its cores among their threads, unless OMP_NUM_THREADS is set. A program has
/// only one Mpi, on the main thread.
class Mpi {
 public:
  Mpi();
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

 private:
  struct Session;
  std::unique_ptr<Session> session_;  // null in a process that is alone
};

}  // namespace fit::dist
