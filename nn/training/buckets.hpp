#pragma once
#include <memory>
#include <string>
#include <vector>

#include "fit/data_parallel.hpp"

namespace fit::dist {

/// The gradients of one step on their way. A bucket goes through phases: it fills; its pieces travel to the ranks that
/// add them; the sums travel to all.
class DataParallel::Buckets {
 public:
  Buckets(World& world, const DataParallelOptions& options, StateDict parameters);
  ~Buckets();
  /// The gradient of parameter k is complete.
  void ready(std::size_t k);
  /// Moves on what is on its way.
  void poll();
  /// Sends the rest, waits for all, and puts the sums where the gradients are.
  void finish();
  const Traffic& traffic() const { return traffic_; }

 private:
  struct Member {
    std::size_t parameter;
    std::int64_t at, size;  // in elements
  };
  struct Bucket {
    DType dtype = float32;
    std::vector<Member> members;
    std::int64_t flags = 0;  // where the members' flags lie: 1 for each that has a gradient
    std::int64_t piece = 0;  // elements of a rank's piece
    std::size_t missing = 0;
    Tensor flat, received;
    std::unique_ptr<Transfer> transfer;
  };
  struct Place {
    std::size_t bucket, member;
  };

  void build(const std::vector<std::size_t>& order);
  void learn_order();
  void fill(const Place& place);
  void send(bool all);
  void add_up(Bucket& b);
  void hand_out(Bucket& b);
  void put_back(const Bucket& b, const Member& m, double count);

  World& world_;
  DataParallelOptions options_;
  StateDict parameters_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;       // of each parameter
  std::vector<bool> arrived_;       // of this step
  std::vector<std::size_t> order_;  // in which they arrived, until it has been learned
  bool learned_ = false;
  std::size_t sent_ = 0, added_ = 0;  // buckets that have passed these stations: in their order, the same on all ranks
  Traffic traffic_;
};

}  // namespace fit::dist
