#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "fit/error.hpp"
#include "fit/state_dict.hpp"

/// Processes that train together. Each has a rank, 0 … size - 1; what they say to each other goes through a World. By
/// default there is one process. <fit/mpi.hpp> of the target fit::mpi brings in those that mpirun has started.
///
/// All but rank(), size(), bytes_sent() and abort() is collective: every rank calls the same, in the same order, on the
/// thread that made the world.
namespace fit::dist {

/// Bytes on their way. Only while done() or wait() runs do they move.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Moves on, and says whether it has arrived.
  virtual bool done() = 0;
  /// Returns when it has arrived.
  virtual void wait() = 0;
};

/// The engine: it moves bytes, and computes nothing.
class World {
 public:
  /// A piece of a transfer is a multiple of this many bytes.
  static constexpr std::size_t unit = 64;

  World() = default;
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// The number of this process, 0 … size() - 1.
  virtual int rank() const { return 0; }
  /// How many processes there are.
  virtual int size() const { return 1; }
  /// Returns once every rank has called it.
  virtual void barrier() {}
  /// Rank `from`'s bytes to all.
  virtual void broadcast(void*, std::size_t, int = 0) {}
  /// `from` holds a piece for each rank, and `to` gets one from each, in the order of ranks. Both must live until it
  /// has arrived.
  virtual std::unique_ptr<Transfer> all_to_all(const void* from, void* to, std::size_t piece);
  /// `all` holds a piece for each rank: this rank's is there, the others come.
  virtual std::unique_ptr<Transfer> all_gather(void* all, std::size_t piece);
  /// Prints the reason and this rank on stderr, and ends the processes of all ranks.
  [[noreturn]] virtual void abort(const std::string& reason);
  /// What this rank has sent to others by all_to_all() and all_gather().
  double bytes_sent() const { return bytes_sent_; }

 protected:
  /// Counts a piece sent to each of the others, for bytes_sent().
  void count_sent(std::size_t piece) { bytes_sent_ += static_cast<double>(piece) * (size() - 1); }

 private:
  double bytes_sent_ = 0;
};

/// The world that this process is in.
World& world();

/// While one lives, world() is that. One at a time.
class WorldScope {
 public:
  explicit WorldScope(World& world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  World* before_;
};

/// What every rank finds out alike, and throws with the same words: it is told once.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// For the last catch of a program: among several ranks, ends all of them with the message. Alone it does nothing.
void end_all(const std::exception& error);

/// The sum over the ranks of each number, added in the order of ranks: equal on all, to the bit.
std::vector<double> sum(const std::vector<double>& numbers, World& w = world());
/// The mean over the ranks, each counted by its weight. NaN if the weights sum up to 0.
double mean(double value, double weight = 1, World& w = world());

/// Rank 0's number or text to all.
void broadcast(double& value, World& w = world());
void broadcast(std::string& text, World& w = world());
/// Rank 0's names and tensors, in place of those that are given.
void broadcast(StateDict& state, World& w = world());

/// The part of `count` rows that a rank has: the first ranks have one more where it doesn't come out even.
struct Rows {
  std::int64_t first = 0, count = 0, of = 0;
  Rows() = default;
  Rows(std::int64_t of, int rank, int size);
  double share() const { return of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0; }
};

}  // namespace fit::dist
