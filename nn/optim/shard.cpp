// Averages that are sharded among ranks.
#include <cstring>

#include "common/lent.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::optim {
namespace {

std::size_t padded(std::size_t bytes) {
  return (bytes + dist::World::unit - 1) / dist::World::unit * dist::World::unit;
}

char* bytes_at(const Tensor& x, std::int64_t element) {
  return static_cast<char*>(const_cast<void*>(x.raw())) + static_cast<std::size_t>(element) * size_of(x.dtype());
}

// Gathers tensors on all ranks. Each rank has the elements dist::Rows(numel) of each tensor.
class Exchange {
 public:
  explicit Exchange(dist::World& world) : world_(world) {}

  void add(const Tensor& x) {
    tensors_.push_back(x);
    piece_ += static_cast<std::size_t>(rows(x, 0).count) * size_of(x.dtype());  // rank 0 has the largest part
    if (piece_ >= std::size_t{1} << 20) run();
  }

  void run() {
    const std::size_t piece = padded(piece_);
    std::vector<char> all(piece * static_cast<std::size_t>(world_.size()));
    each(world_.rank(), piece, all, [](char* packed, char* x, std::size_t bytes) { std::memcpy(packed, x, bytes); });
    world_.all_gather(all.data(), piece)->wait();
    for (int r = 0; r < world_.size(); ++r)
      if (r != world_.rank())
        each(r, piece, all, [](char* packed, char* x, std::size_t bytes) { std::memcpy(x, packed, bytes); });
    tensors_.clear();
    piece_ = 0;
  }

 private:
  dist::Rows rows(const Tensor& x, int rank) const { return dist::Rows(x.numel(), rank, world_.size()); }

  template <class F>
  void each(int rank, std::size_t piece, std::vector<char>& all, const F& f) const {
    char* at = all.data() + piece * static_cast<std::size_t>(rank);
    for (const Tensor& x : tensors_) {
      const dist::Rows part = rows(x, rank);
      const std::size_t bytes = static_cast<std::size_t>(part.count) * size_of(x.dtype());
      if (bytes > 0) f(at, bytes_at(x, part.first), bytes);
      at += bytes;
    }
  }

  dist::World& world_;
  std::vector<Tensor> tensors_;
  std::size_t piece_ = 0;
};

}  // namespace

Optimizer::Part Optimizer::part_of(const Slot& slot) const {
  const std::int64_t n = slot.parameter.numel();
  if (!world_) return {0, n};
  const dist::Rows rows(n, world_->rank(), world_->size());
  return {rows.first, rows.count};
}

void Optimizer::shard(dist::World& world) {
  if (world_) check::fail(op_, "its averages are divided among the ranks already");
  for (const Slot& slot : slots_)
    nn::check_not_lent(op_, slot.name, slot.parameter, "would undo what the ranks exchange");
  for (std::size_t group = 0; group < groups(); ++group)
    if (state_spec(group).on_tensors)
      check::fail(op_, "its step needs whole parameters and averages: they can't be divided among the ranks");
  if (world.size() == 1) return;
  world_ = &world;
  for (Slot& slot : slots_)
    for (Tensor& s : slot.state)
      if (s.defined()) s = cut(slot, s);
}

// This rank's part of an average, [part].
Tensor Optimizer::cut(const Slot& slot, const Tensor& whole) const {
  if (!world_ || whole.numel() != slot.parameter.numel()) return whole;
  const NoGrad no_grad;
  const Part part = part_of(slot);
  return slice(whole.flatten(), 0, part.begin, part.begin + part.size).clone();
}

Tensor Optimizer::whole(const Slot& slot, const Tensor& part) const {
  if (!world_) return part;
  Tensor all = Tensor::empty(slot.parameter.shape(), part.dtype());
  const Part mine = part_of(slot);
  std::memcpy(bytes_at(all, mine.begin), part.raw(), static_cast<std::size_t>(mine.size) * size_of(part.dtype()));
  Exchange exchange(*world_);
  exchange.add(all);
  exchange.run();
  return all;
}

void Optimizer::exchange_parameters() {
  if (!world_) return;
  Exchange exchange(*world_);
  for (const Slot& slot : slots_)
    if (slot.parameter.requires_grad() && slot.parameter.has_grad()) exchange.add(slot.parameter);
  exchange.run();
}

}  // namespace fit::optim
