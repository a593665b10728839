#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "fit/detail/function_ref.hpp"
#include "fit/nn/dist/dist.hpp"

namespace fit::test {

/// A rank that is a thread of this process. It supports only all_gather(), broadcast() and barrier().
class ThreadWorld : public dist::World {
 public:
  /// The barrier of the ranks, and their pieces.
  struct Meeting {
    explicit Meeting(int size) : pieces(static_cast<std::size_t>(size)) {}
    void wait() {
      std::unique_lock<std::mutex> lock(mutex);
      const int now = round;
      if (++arrived == static_cast<int>(pieces.size())) {
        arrived = 0, ++round;
        all_are_here.notify_all();
      }
      all_are_here.wait(lock, [&] { return round != now; });
    }
    std::vector<const char*> pieces;
    std::mutex mutex;
    std::condition_variable all_are_here;
    int arrived = 0, round = 0;
  };

  ThreadWorld(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.pieces.size()); }
  void barrier() override { meeting_.wait(); }
  void broadcast(void* data, std::size_t bytes, int from) override {
    meeting_.pieces[static_cast<std::size_t>(rank_)] = static_cast<const char*>(data);
    barrier();
    if (rank_ != from && bytes > 0) std::memcpy(data, meeting_.pieces[static_cast<std::size_t>(from)], bytes);
    barrier();
  }
  std::unique_ptr<dist::Transfer> all_gather(void* all, std::size_t piece) override {
    count_sent(piece);
    char* const to = static_cast<char*>(all);
    const auto at = [&](int rank) { return static_cast<std::size_t>(rank) * piece; };
    meeting_.pieces[static_cast<std::size_t>(rank_)] = to + at(rank_);
    barrier();
    for (int r = 0; r < size(); ++r)
      if (r != rank_) std::memcpy(to + at(r), meeting_.pieces[static_cast<std::size_t>(r)], piece);
    barrier();
    struct Arrived : dist::Transfer {
      bool done() override { return true; }
      void wait() override {}
    };
    return std::make_unique<Arrived>();
  }

 private:
  Meeting& meeting_;
  int rank_;
};

/// Runs f(world) on `size` threads, one for each rank.
inline void on_ranks(int size, FunctionRef<void(dist::World&)> f) {
  ThreadWorld::Meeting meeting(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      ThreadWorld world(meeting, rank);
      f(world);
    });
  for (std::thread& t : threads) t.join();
}

}  // namespace fit::test
