#pragma once
#include <memory>
#include <vector>

#include "fit/nn/training/data_parallel.hpp"

namespace fit::dist {

/// The exchange of one step's gradients. A bucket has three phases: it is filled, its pieces go to the ranks that add
/// them, and the sums go to all ranks.
class DataParallel::Buckets {
 public:
  Buckets(World& world, const DataParallelOptions& options, StateDict parameters);
  ~Buckets();
  /// Reports that the gradient of parameter k is complete.
  void ready(std::size_t k);
  /// Makes progress with the transfers.
  void poll();
  /// Sends the remaining buckets, waits for all transfers, and copies the sums into the gradients.
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
    std::int64_t flags = 0;  // the position of the members' flags: 1 for a member with a gradient
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
  std::vector<std::size_t> order_;  // the order of arrival in the first step
  bool learned_ = false;
  std::size_t sent_ = 0, added_ = 0;  // the numbers of sent and added buckets; the order is the same on all ranks
  Traffic traffic_;
};

}  // namespace fit::dist
