#pragma once
#include <memory>

#include "fit/dist.hpp"

/// Ranks that mpirun has started (target fit::mpi).
namespace fit::dist {

/// The first thing in main(): while it lives, dist::world() is that of all processes that mpirun (or srun) has started.
/// A program that was started without is alone: MPI is then not even begun, and everything works as in one process.
///
///     int main() {
///       const fit::dist::Mpi mpi;
///       …
///     }
///
/// A rank that ends by an exception ends all others: one that main() doesn't catch is printed with the rank; where the
/// exception passes this object on its way to a catch, all are ended when this process ends. One that main() catches
/// while this lives goes to dist::end_all(). A rank that is killed or crashes is told by mpirun, which ends the others.
/// Unless OMP_NUM_THREADS says otherwise, the ranks on a machine share its cores among their threads.
/// One in a program, on the main thread.
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
