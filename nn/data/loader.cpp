#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "common/load.hpp"
#include "common/rollback.hpp"
#include "fit/data.hpp"
#include "fit/graph.hpp"
#include "fit/ops.hpp"
#include "tensor/check.hpp"
#include "threads/thread_pool.hpp"

namespace fit::data {

// ---- the order of the examples ------------------------------------------------------------------------------------

Sampler weighted_sampler(const std::vector<double>& weights, std::int64_t count) {
  if (count < 0) check::fail("weighted_sampler", "count is ", count, ": it can't be negative");
  std::vector<double> sums;
  double sum = 0;
  for (const double w : weights) {
    if (!(w >= 0 && std::isfinite(w)))
      check::fail("weighted_sampler", "the weight of example ", sums.size(), " is ", w,
                  ": it must be finite and not negative");
    sums.push_back(sum += w);
  }
  if (!(sum > 0)) check::fail("weighted_sampler", "the weights sum up to ", sum, ": at least one must be above 0");
  if (std::isinf(sum)) check::fail("weighted_sampler", "the weights sum up to more than there are numbers for");
  return [sums = std::move(sums), count](Generator& g, std::int64_t) {
    std::vector<std::int64_t> order;
    const Tensor draws = rand({count}, float64, g);
    for (const double u : draws.data<double>()) {
      // The first index with a cumulative sum above the draw has a weight above 0. The clamp guards against rounding.
      const auto found =
          std::upper_bound(sums.begin(), sums.end(), std::min(u * sums.back(), std::nextafter(sums.back(), 0.0)));
      order.push_back(found - sums.begin());
    }
    return order;
  };
}

Sampler bucket_sampler(std::vector<std::int64_t> lengths, std::int64_t pool) {
  if (pool < 1) check::fail("bucket_sampler", "pool is ", pool, ": it must be at least 1");
  return [lengths = std::move(lengths), pool](Generator& g, std::int64_t batch_size) {
    const auto n = static_cast<std::int64_t>(lengths.size());
    std::vector<std::int64_t> mixed = randperm(n, g).to_vector<std::int64_t>();
    const std::int64_t sorted = std::min(pool, n / batch_size + 1) * batch_size;
    for (std::int64_t at = 0; at < n; at += sorted)
      std::stable_sort(mixed.begin() + at, mixed.begin() + std::min(n, at + sorted),
                       [&](std::int64_t a, std::int64_t b) { return lengths[a] < lengths[b]; });
    // Shuffles full batches. The incomplete batch stays last, because it would shift the others.
    std::vector<std::int64_t> order;
    const Tensor batches = randperm(n / batch_size, g);
    for (const std::int64_t b : batches.data<std::int64_t>())
      order.insert(order.end(), mixed.begin() + b * batch_size, mixed.begin() + (b + 1) * batch_size);
    order.insert(order.end(), mixed.begin() + n / batch_size * batch_size, mixed.end());
    return order;
  };
}

// ---- prefetching --------------------------------------------------------------------------------------------------

// A thread that makes the batches of an index range, at most `ahead` in advance.
class DataLoader::Prefetcher {
 public:
  Prefetcher(const DataLoader& loader, std::int64_t begin, std::int64_t end, int ahead)
      : ahead_(static_cast<std::size_t>(ahead)), thread_([this, &loader, begin, end] { run(loader, begin, end); }) {}

  ~Prefetcher() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  /// The next batch. Rethrows the exception of the thread that made it.
  Batch take() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || error_; });
    if (ready_.empty()) std::rethrow_exception(error_);
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return batch;
  }

 private:
  void run(const DataLoader& loader, std::int64_t begin, std::int64_t end) {
    fit::detail::stay_on_this_thread();  // the thread pool serves the training
    for (std::int64_t i = begin; i < end; ++i) {
      std::exception_ptr error;
      Batch batch;
      try {
        batch = loader.make(i);
      } catch (...) {
        error = std::current_exception();
      }
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return ready_.size() < ahead_ || stop_; });
      try {
        if (!error) ready_.push_back(std::move(batch));
      } catch (...) {
        error = std::current_exception();
      }
      error_ = error;
      changed_.notify_all();
      if (stop_ || error) return;
    }
  }

  const std::size_t ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;  // declared last: it uses the members above
};

// ---- the loader ---------------------------------------------------------------------------------------------------

DataLoader::DataLoader(SharedDataset dataset, LoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(std::move(options)),
      seed_(options_.seed().value_or(default_generator().seed())) {
  if (options_.batch_size() < 1)
    check::fail("DataLoader", "batch_size is ", options_.batch_size(), ": it must be at least 1");
  if (options_.prefetch() < 0) check::fail("DataLoader", "prefetch is ", options_.prefetch(), ": it can't be negative");
  if (options_.shuffle() && options_.sampler())
    check::fail("DataLoader", "shuffle and a sampler are given: the sampler alone sets the order");
  if (!options_.collate()) check::fail("DataLoader", "collate is empty: it makes a batch of the examples");
  order_ = order_of(seed_, epoch_);
}

namespace {}  // namespace

DataLoader::DataLoader(SharedDataset dataset, std::int64_t batch_size)
    : DataLoader(std::move(dataset), LoaderOptions().batch_size(batch_size)) {}

DataLoader::~DataLoader() = default;

std::int64_t DataLoader::size() const { return batches_in(order_); }

std::int64_t DataLoader::batches_in(const std::vector<std::int64_t>& order) const {
  const auto n = static_cast<std::int64_t>(order.size());
  const bool smaller = n % options_.batch_size() != 0;
  return n / options_.batch_size() + (smaller && !options_.drop_last());
}

std::vector<std::int64_t> DataLoader::order_of(std::uint64_t seed, std::int64_t epoch) const {
  // Uses the upper half of the call numbers, so that the keys differ from those that initialise a model.
  Generator g;
  g.set_state(seed, std::uint64_t{1} << 63 | static_cast<std::uint64_t>(epoch) << 32);
  if (options_.sampler()) {
    std::vector<std::int64_t> order = options_.sampler()(g, options_.batch_size());
    for (const std::int64_t i : order)
      if (i < 0 || i >= dataset_->size())
        check::fail("DataLoader", "the sampler gave example ", i, ": there are ", dataset_->size());
    return order;
  }
  if (options_.shuffle()) return randperm(dataset_->size(), g).to_vector<std::int64_t>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset_->size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

DataLoader::Iterator DataLoader::begin() {
  if (!running_.expired())
    check::fail("DataLoader",
                "a loop over this loader has not ended, and another one begins: they would share its "
                "place; make a second loader (they may share the dataset)");
  prefetcher_.reset();
  const bool another = !resumed_ && done_ > 0;
  std::vector<std::int64_t> order = order_of(seed_, epoch_ + another);
  const Rollback same_place([this, epoch = epoch_, done = done_, resumed = resumed_, before = order_]() mutable {
    epoch_ = epoch, done_ = done, resumed_ = resumed;
    order_.swap(before);
  });
  if (another) ++epoch_, done_ = 0;
  order_ = std::move(order);
  const auto loop = std::make_shared<Loop>();
  running_ = loop;
  return Iterator(this, loop);
}

bool DataLoader::next(Batch& batch) {
  if (done_ == size()) {
    prefetcher_.reset();
    resumed_ = false;
    return false;
  }
  if (options_.prefetch() > 0 && !prefetcher_)
    prefetcher_ = std::make_unique<Prefetcher>(*this, done_, size(), options_.prefetch());
  const Rollback make_it_again([this] { prefetcher_.reset(); });
  batch = prefetcher_ ? prefetcher_->take() : make(done_);
  ++done_;
  resumed_ = false;  // a running loop continues at the loaded position, too
  return true;
}

dist::Rows DataLoader::rows_of(std::int64_t index) const {
  const auto count = static_cast<std::int64_t>(order_.size());
  return {std::min(options_.batch_size(), count - index * options_.batch_size()), rank_, ranks_};
}

dist::Rows DataLoader::rows() const { return done_ > 0 ? rows_of(done_ - 1) : dist::Rows(); }

void DataLoader::divide(int rank, int size) {
  if (size < 1 || rank < 0 || rank >= size)
    check::fail("DataLoader", "rank is ", rank, " of ", size, ": it must be one of 0 … size - 1");
  prefetcher_.reset();
  rank_ = rank;
  ranks_ = size;
}

Batch DataLoader::make(std::int64_t index) const {
  const NoGrad no_grad;
  dist::Rows rows = rows_of(index);
  if (rows.count == 0) rows.first = rows.of - 1, rows.count = 1;  // an empty shard repeats one row with weight 0
  const auto* const collate = options_.collate().target<Batch (*)(const std::vector<Example>&)>();
  const bool own = options_.collated() == Collated::own || (collate && *collate == stack_collate);
  const std::int64_t first = own ? rows.first : 0, end = own ? rows.first + rows.count : rows.of;
  std::vector<Example> examples;
  for (std::int64_t i = first; i < end; ++i)
    examples.push_back(dataset_->get(order_[static_cast<std::size_t>(index * options_.batch_size() + i)]));
  Batch batch = options_.collate()(examples);
  if (!own && rows.count < rows.of)
    for (Tensor& field : batch)
      if (field.rank() > 0 && field.size(0) == rows.of) field = slice(field, 0, rows.first, rows.first + rows.count);
  return batch;
}

// ---- its position -------------------------------------------------------------------------------------------------

StateDict DataLoader::state_dict() const {
  const auto number = [](std::int64_t n) { return full({}, n, int64); };
  return {{"seed", number(static_cast<std::int64_t>(seed_))},
          {"epoch", number(epoch_)},
          {"batches", number(done_)},
          {"batch_size", number(options_.batch_size())},
          {"examples", number(dataset_->size())}};
}

DataLoader::Place DataLoader::place_of(const StateDict& state) const {
  constexpr const char* op = "load_state_dict";
  auto mine = state_dict();
  nn::load_values(op, "DataLoader", mine, state);
  const auto number = [&](int i) { return mine[static_cast<std::size_t>(i)].second.item<std::int64_t>(); };
  if (number(3) != options_.batch_size() || number(4) != dataset_->size())
    check::fail(op, "the position is one in ", number(4), " examples by batches of ", number(3),
                ", this DataLoader has ", dataset_->size(), " by batches of ", options_.batch_size(),
                "; nothing was loaded");
  if (number(1) < 0 || number(1) > INT32_MAX || number(2) < 0)
    check::fail(op, "the position is batch ", number(2), " of epoch ", number(1),
                ": both must be 0 or more, the epoch less than 2^31; nothing was loaded");
  Place place{static_cast<std::uint64_t>(number(0)), number(1), number(2), {}};
  place.order = order_of(place.seed, place.epoch);
  place.done = std::min(place.done, batches_in(place.order));
  return place;
}

void DataLoader::load_state_dict(const StateDict& state) {
  Place place = place_of(state);
  prefetcher_.reset();
  seed_ = place.seed;
  epoch_ = place.epoch;
  done_ = place.done;
  order_ = std::move(place.order);
  resumed_ = true;
}

}  // namespace fit::data
