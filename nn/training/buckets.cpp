#include "training/buckets.hpp"

#include <algorithm>
#include <cstring>

#include "common/clock.hpp"
#include "dist/agree.hpp"
#include "fit/graph/graph.hpp"
#include "fit/threads/parallel.hpp"
#include "kernels/elementwise.hpp"
#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"

namespace fit::dist {
namespace {

constexpr const char* buckets_op = "DataParallel";

char* bytes_at(const Tensor& x, std::int64_t element) {
  return static_cast<char*>(const_cast<void*>(x.raw())) + element * static_cast<std::int64_t>(size_of(x.dtype()));
}

std::size_t bytes_of(DType dtype, std::int64_t elements) { return static_cast<std::size_t>(elements) * size_of(dtype); }

double number_at(const Tensor& x, std::int64_t i) {
  return x.dtype() == float32 ? static_cast<double>(x.data<float>()[i]) : x.data<double>()[i];
}

}  // namespace

DataParallel::Buckets::Buckets(World& world, const DataParallelOptions& options, StateDict parameters)
    : world_(world), options_(options), parameters_(std::move(parameters)), arrived_(parameters_.size()) {
  std::vector<std::size_t> order;  // approximately the order in which backward() completes them
  for (std::size_t k = parameters_.size(); k-- > 0;) order.push_back(k);
  build(order);
}

// After an exception, unfinished transfers still write into their buffers, so these must stay alive. If that fails for
// lack of memory, std::terminate() is right.
DataParallel::Buckets::~Buckets() {
  for (Bucket& b : buckets_)
    if (b.transfer) new Bucket(std::move(b));  // NOLINT(bugprone-unhandled-exception-at-new)
}

// Fills buckets of one type each, with at most bucket_bytes, unless a single parameter is larger.
void DataParallel::Buckets::build(const std::vector<std::size_t>& order) {
  buckets_.clear();
  places_.assign(parameters_.size(), {});
  for (const std::size_t k : order) {
    const Tensor& p = parameters_[k].second;
    const auto fits = [&](const Bucket& b) {
      return b.dtype == p.dtype() && bytes_of(b.dtype, b.flags + p.numel()) <= options_.bucket_bytes();
    };
    if (buckets_.empty() || !fits(buckets_.back())) buckets_.emplace_back().dtype = p.dtype();
    Bucket& b = buckets_.back();
    places_[k] = {buckets_.size() - 1, b.members.size()};
    b.members.push_back({k, b.flags, p.numel()});
    b.flags += p.numel();
  }
  const auto unit = [](const Bucket& b) { return static_cast<std::int64_t>(World::unit / size_of(b.dtype)); };
  for (Bucket& b : buckets_) {
    const std::int64_t all = b.flags + static_cast<std::int64_t>(b.members.size()), ranks = world_.size();
    const std::int64_t share = (all + ranks - 1) / ranks;
    b.piece = (share + unit(b) - 1) / unit(b) * unit(b);
    b.flat = zeros({b.piece * ranks}, b.dtype);
    b.missing = b.members.size();
  }
  traffic_.buckets = static_cast<std::int64_t>(buckets_.size());
}

void DataParallel::Buckets::learn_order() {
  for (std::size_t k = parameters_.size(); k-- > 0;)
    if (std::find(order_.begin(), order_.end(), k) == order_.end()) order_.push_back(k);  // unused parameters come last
  world_.broadcast(order_.data(), order_.size() * sizeof order_[0]);
  build(order_);
  learned_ = true;
}

// Copies a gradient into its bucket, or -0 for each element, which changes no sum: -0 + 0 would be 0.
void DataParallel::Buckets::fill(const Place& place) {
  Bucket& b = buckets_[place.bucket];
  const Member& m = b.members[place.member];
  const Tensor g = parameters_[m.parameter].second.grad();
  const std::size_t bytes = bytes_of(b.dtype, m.size);
  if (g.defined()) std::memcpy(bytes_at(b.flat, m.at), g.raw(), bytes);
  dispatch_compute_floating(b.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const flat = b.flat.fresh<T>();
    if (!g.defined()) std::fill_n(flat + m.at, m.size, T(-0.));
    flat[b.flags + static_cast<std::int64_t>(place.member)] = T(g.defined());
  });
  arrived_[m.parameter] = true;
  --b.missing;
}

void DataParallel::Buckets::ready(std::size_t k) {
  const Place place = places_[k];
  if (arrived_[k]) {
    if (place.bucket < sent_)
      check::fail(
          buckets_op, "the parameter ", parameters_[k].first,
          " gets a gradient by a second backward(), and the first one's is on its way: hold no_sync() during all "
          "but the last");
    ++buckets_[place.bucket].missing;
  } else if (!learned_) {
    order_.push_back(k);
  }
  fill(place);
  if (options_.overlap() == Overlap::yes) send(false), poll();
}

// Sends full buckets, in order.
void DataParallel::Buckets::send(bool all) {
  for (; sent_ < buckets_.size() && (all || buckets_[sent_].missing == 0); ++sent_) {
    Bucket& b = buckets_[sent_];
    for (std::size_t m = 0; m < b.members.size() && b.missing > 0; ++m)
      if (!arrived_[b.members[m].parameter]) fill({sent_, m});
    b.received = Tensor::empty(b.flat.shape(), b.dtype);
    b.transfer = world_.all_to_all(b.flat.raw(), const_cast<void*>(b.received.raw()), bytes_of(b.dtype, b.piece));
  }
}

// Adds the received pieces of all ranks, in the order of ranks, to this rank's piece of the sum.
void DataParallel::Buckets::add_up(Bucket& b) {
  dispatch_compute_floating(b.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const to = b.flat.fresh<T>() + b.piece * world_.rank();
    const T* const from = b.received.data<T>().data();
    parallel_for(b.piece, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      std::copy(from + begin, from + end, to + begin);
      for (std::int64_t r = 1; r < world_.size(); ++r)
        kernels::elementwise<T>().add(to + begin, to + begin, from + r * b.piece + begin, end - begin, 1, 1);
    });
  });
  b.received = Tensor();
  b.transfer = world_.all_gather(const_cast<void*>(b.flat.raw()), bytes_of(b.dtype, b.piece));
}

void DataParallel::Buckets::poll() {
  for (; added_ < sent_ && buckets_[added_].transfer->done(); ++added_) add_up(buckets_[added_]);
  for (std::size_t i = 0; i < added_; ++i)
    if (Bucket& b = buckets_[i]; b.transfer && b.transfer->done()) b.transfer.reset();
}

void DataParallel::Buckets::finish() {
  const double start = steady_seconds();
  traffic_.sent_early += static_cast<std::int64_t>(sent_);
  send(true);
  for (; added_ < sent_; ++added_) {
    buckets_[added_].transfer->wait();
    add_up(buckets_[added_]);
  }
  for (Bucket& b : buckets_) {
    if (b.transfer) b.transfer->wait();
    b.transfer.reset();
  }
  traffic_.seconds_waited += steady_seconds() - start;
  ++traffic_.steps;
  sent_ = added_ = 0;
  arrived_.assign(arrived_.size(), false);
  for (Bucket& b : buckets_) b.missing = b.members.size();
  for (Bucket& b : buckets_) hand_out(b);
  if (!learned_) learn_order();
}

void DataParallel::Buckets::hand_out(Bucket& b) {
  for (std::size_t i = 0; i < b.members.size(); ++i)
    put_back(b, b.members[i], number_at(b.flat, b.flags + static_cast<std::int64_t>(i)));
}

// `count` is the number of ranks with a gradient.
void DataParallel::Buckets::put_back(const Bucket& b, const Member& m, double count) {
  auto& [name, p] = parameters_[m.parameter];
  if (count == 0) return;
  if (count < world_.size() && options_.missing() == Missing::error)
    fail_alike("DataParallel", "the parameter ", name, " got a gradient on ", count, " of ", world_.size(),
               " ranks: give it one on all, or let it count as zero (Missing::zero)");
  Tensor g = p.grad();
  if (!g.defined()) p.set_grad(g = Tensor::empty(p.shape(), p.dtype()));
  g.before_write(buckets_op);
  std::memcpy(bytes_at(g, 0), bytes_at(b.flat, m.at), bytes_of(b.dtype, m.size));
}

}  // namespace fit::dist
