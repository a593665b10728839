#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "fit/base/error.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/tensor/state_dict.hpp"

/// Processes that train together. Each has a rank, 0 … size - 1, and communicates through a World. By default there is
/// one process. <fit/mpi.hpp> of the target fit::mpi connects processes that mpirun started.
///
/// All functions except rank(), size(), bytes_sent() and abort() are collective: every rank makes the same calls in the
/// same order, on the thread that made the world.
namespace fit::dist {

/// An asynchronous transfer of bytes. It makes progress only while done() or wait() runs.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Makes progress, and returns whether the transfer is complete.
  virtual bool done() = 0;
  /// Returns when the transfer is complete.
  virtual void wait() = 0;
};

/// The communication backend. It moves bytes, and computes nothing.
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
  /// The number of processes.
  virtual int size() const { return 1; }
  /// Returns after every rank has called it.
  virtual void barrier() {}
  /// Sends the bytes of rank `from` to all ranks: (data, bytes, from).
  virtual void broadcast(void*, std::size_t, int = 0) {}
  /// `from` holds a piece for each rank, and `to` receives one from each, in the order of ranks. Both must live until
  /// the transfer is complete.
  virtual std::unique_ptr<Transfer> all_to_all(const void* from, void* to, std::size_t piece);
  /// `all` has space for a piece of each rank. It holds this rank's piece and receives the others.
  virtual std::unique_ptr<Transfer> all_gather(void* all, std::size_t piece);
  /// Prints the reason and this rank on stderr, and ends the processes of all ranks.
  [[noreturn]] virtual void abort(const std::string& reason);
  /// The bytes that this rank sent to others by all_to_all() and all_gather().
  double bytes_sent() const { return bytes_sent_; }

 protected:
  /// Counts a piece sent to each other rank, for bytes_sent().
  void count_sent(std::size_t piece) { bytes_sent_ += static_cast<double>(piece) * (size() - 1); }

 private:
  double bytes_sent_ = 0;
};

/// The world of this process.
World& world();

/// Sets world() during its lifetime. Only one may exist at a time.
class WorldScope : public detail::Scoped<World*> {
 public:
  [[nodiscard]] explicit WorldScope(World& world);
};

/// An Error that every rank throws with the same message. It is printed once.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// For the last catch of a program: ends all ranks with the message. In a world of one it does nothing.
void end_all(const std::exception& error);

/// The sum of each number over the ranks, added in the order of ranks. All ranks get the same bits.
std::vector<double> sum(const std::vector<double>& numbers, World& w = world());
/// The weighted mean over the ranks. NaN if the weights sum to 0.
double mean(double value, double weight = 1, World& w = world());

/// Sends the number or text of rank 0 to all ranks.
void broadcast(double& value, World& w = world());
void broadcast(std::string& text, World& w = world());
/// Replaces names and tensors by those of rank 0.
void broadcast(StateDict& state, World& w = world());

/// A rank's part of `of` rows. If the division leaves a remainder, the first ranks have one row more.
struct Rows {
  std::int64_t first = 0, count = 0, of = 0;
  Rows() = default;
  Rows(std::int64_t of, int rank, int size);
  double share() const { return of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0; }
  /// This part; the last row if it is empty. A rank without rows computes with the last row, and weight 0.
  Rows or_last() const;
};

}  // namespace fit::dist
