#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "fit/nn/dist/dist.hpp"
#include "fit/tensor/tensor.hpp"

namespace fit::dist {
namespace {

// The transfer of a world of one, which is always complete.
struct Arrived final : Transfer {
  bool done() override { return true; }
  void wait() override {}
};

World& alone() {
  static World one;
  return one;
}

World* current = nullptr;

}  // namespace

std::unique_ptr<Transfer> World::all_to_all(const void* from, void* to, std::size_t piece) {
  if (piece > 0) std::memcpy(to, from, piece);
  return std::make_unique<Arrived>();
}

std::unique_ptr<Transfer> World::all_gather(void*, std::size_t) { return std::make_unique<Arrived>(); }

// LCOV_EXCL_START: it ends the process before its counts are written.
void World::abort(const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  std::_Exit(1);
}
// LCOV_EXCL_STOP

World& world() { return current ? *current : alone(); }

WorldScope::WorldScope(World& world) : Scoped(current, &world) {}

void end_all(const std::exception& error) {
  World& w = world();
  if (w.size() > 1) w.abort(error.what());
}

std::vector<double> sum(const std::vector<double>& numbers, World& w) {
  const std::size_t bytes = numbers.size() * sizeof(double);
  const std::size_t piece = (bytes + World::unit - 1) / World::unit * World::unit, step = piece / sizeof(double);
  const auto size = static_cast<std::size_t>(w.size()), rank = static_cast<std::size_t>(w.rank());
  std::vector<double> all(step * size);
  std::copy(numbers.begin(), numbers.end(), all.begin() + static_cast<std::ptrdiff_t>(rank * step));
  w.all_gather(all.data(), piece)->wait();
  std::vector<double> total(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(numbers.size()));
  for (std::size_t r = 1; r < size; ++r)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += all[r * step + i];
  return total;
}

double mean(double value, double weight, World& w) {
  if (w.size() == 1) return value;
  const std::vector<double> s = sum({weight > 0 ? value * weight : 0, weight}, w);
  return s[1] > 0 ? s[0] / s[1] : std::numeric_limits<double>::quiet_NaN();
}

void broadcast(double& value, World& w) { w.broadcast(&value, sizeof value); }

void broadcast(std::string& text, World& w) {
  std::uint64_t size = text.size();
  w.broadcast(&size, sizeof size);
  text.resize(size);
  w.broadcast(text.data(), size);
}

void broadcast(StateDict& state, World& w) {
  if (w.size() == 1) return;
  std::uint64_t count = state.size();
  w.broadcast(&count, sizeof count);
  StateDict mine = std::move(state);
  mine.resize(count);
  for (auto& [name, x] : mine) {
    broadcast(name, w);
    std::int64_t head[2 + Shape::max_rank] = {};
    if (w.rank() == 0) {
      head[0] = static_cast<std::int64_t>(x.dtype()), head[1] = x.rank();
      for (int i = 0; i < x.rank(); ++i) head[2 + i] = x.shape()[i];
    }
    w.broadcast(head, sizeof head);
    if (w.rank() != 0) {
      x = Tensor::empty(Shape(head + 2, static_cast<int>(head[1])), static_cast<DType>(head[0]));
    }
    w.broadcast(const_cast<void*>(x.raw()), static_cast<std::size_t>(x.numel() * size_of(x.dtype())));
  }
  state = std::move(mine);
}

Rows::Rows(std::int64_t rows, int rank, int size) : of(rows) {
  const std::int64_t each = rows / size, more = rows % size;
  first = rank * each + std::min<std::int64_t>(rank, more);
  count = each + (rank < more);
}

Rows Rows::or_last() const {
  Rows part = *this;
  if (count == 0) part.first = of - 1, part.count = 1;
  return part;
}

}  // namespace fit::dist
