#include "fit/mpi.hpp"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "fit/threads/parallel.hpp"

namespace fit::dist {
namespace {

// Whether an MPI launcher started this process.
bool started_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name)) return true;
  return false;
}

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class Request final : public Transfer {
 public:
  explicit Request(MPI_Request request) : request_(request) {}
  bool done() override {
    int flag = 0;
    MPI_Test(&request_, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }
  void wait() override { MPI_Wait(&request_, MPI_STATUS_IGNORE); }

 private:
  MPI_Request request_;
};

class MpiWorld final : public World {
 public:
  MpiWorld() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    // Each communicator needs the same order of calls on all ranks. The order of all_to_all() relative to all_gather()
    // depends on arrival times, so each has its own communicator.
    MPI_Comm_dup(MPI_COMM_WORLD, &pieces_);
    MPI_Comm_dup(MPI_COMM_WORLD, &sums_);
    MPI_Type_contiguous(static_cast<int>(unit), MPI_BYTE, &units_);
    MPI_Type_commit(&units_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void broadcast(void* data, std::size_t bytes, int from) override {
    for (std::size_t at = 0; at < bytes; at += INT_MAX)
      MPI_Bcast(static_cast<char*>(data) + at, static_cast<int>(std::min<std::size_t>(INT_MAX, bytes - at)), MPI_BYTE,
                from, MPI_COMM_WORLD);
  }

  std::unique_ptr<Transfer> all_to_all(const void* from, void* to, std::size_t piece) override {
    const int n = units(piece);
    count_sent(piece);
    MPI_Request request;
    MPI_Ialltoall(from, n, units_, to, n, units_, pieces_, &request);
    return std::make_unique<Request>(request);
  }

  std::unique_ptr<Transfer> all_gather(void* all, std::size_t piece) override {
    count_sent(piece);
    MPI_Request request;
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, units(piece), units_, sums_, &request);
    return std::make_unique<Request>(request);
  }

  // LCOV_EXCL_START: it ends the process before its counts are written; tests/checks/training/ranks_faults.sh runs it.
  [[noreturn]] void abort(const std::string& reason) override {
    std::fprintf(stderr, "rank %d of %d on %s: %s\n", rank_, size_, host().c_str(), reason.c_str());
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
  }
  // LCOV_EXCL_STOP

 private:
  int units(std::size_t piece) const {
    if (piece % unit != 0 || piece / unit * static_cast<std::size_t>(size_) > INT_MAX)
      throw Error("[World] a piece of " + std::to_string(piece) + " bytes for each of " + std::to_string(size_) +
                  " ranks: it must be a multiple of " + std::to_string(unit) + ", and all of them less than " +
                  std::to_string(unit) + " * 2^31");
    return static_cast<int>(piece / unit);
  }

  int rank_ = 0, size_ = 1;
  MPI_Comm pieces_, sums_;
  MPI_Datatype units_;
};

MpiWorld* running = nullptr;
std::terminate_handler before = nullptr;

// LCOV_EXCL_START: see abort().

// All ranks throw an AgreedError: rank 0 prints it and ends the others.
void leave_it_to_rank_0() {
  if (running->rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(5));
}

[[noreturn]] void end_by_exception() {
  if (const std::exception_ptr error = std::current_exception()) try {
      std::rethrow_exception(error);
    } catch (const AgreedError& e) {
      leave_it_to_rank_0();
      running->abort(e.what());
    } catch (const std::exception& e) {
      running->abort(e.what());
    } catch (...) {
    }
  running->abort("ended by std::terminate()");
}

void end_at_exit() {
  if (running) running->abort("an exception has ended the training: the other ranks end, too");
}

// LCOV_EXCL_STOP

void share_cores() {
  const char* const here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int ranks = here ? static_cast<int>(std::clamp(std::strtol(here, nullptr, 10), 1L, long{INT_MAX})) : 1;
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (!std::getenv("OMP_NUM_THREADS")) set_num_threads(std::clamp(cores / ranks, 1, num_threads()));
}

}  // namespace

struct Mpi::Session {
  MpiWorld world;
  WorldScope scope{world};
  int exceptions = std::uncaught_exceptions();
};

Mpi::Mpi() {
  if (!started_by_mpi()) return;
  if (running) throw Error("[Mpi] there is one already: a program has one, in main()");
  int level = 0, begun = 0;
  MPI_Initialized(&begun);
  if (!begun) MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  session_ = std::make_unique<Session>();
  running = &session_->world;
  before = std::set_terminate(end_by_exception);
  share_cores();
  const dist::World& world = session_->world;
  if (world.rank() == 0 && world.size() > 1) std::fprintf(stderr, "[dist] %d ranks train together\n", world.size());
}

Mpi::~Mpi() {
  if (!session_) return;
  if (std::uncaught_exceptions() > session_->exceptions) {  // LCOV_EXCL_START: abort() follows
    std::atexit(end_at_exit);                               // code that catches the exception may print it first
    static_cast<void>(session_.release());                  // unfinished transfers need it
    return;
  }  // LCOV_EXCL_STOP
  std::set_terminate(before);
  running = nullptr;
  session_.reset();
  MPI_Finalize();
}

}  // namespace fit::dist
