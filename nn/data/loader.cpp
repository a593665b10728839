#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include "common/keyed_draws.hpp"
#include "common/load.hpp"
#include "common/rollback.hpp"
#include "fit/detail/thread_state.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/data/data.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::data {

// ---- the order of the examples ------------------------------------------------------------------------------------

Sampler weighted_sampler(const std::vector<double>& weights, std::int64_t count) {
  check::not_negative("weighted_sampler", "count", count);
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

// ---- workers ------------------------------------------------------------------------------------------------------

// Threads that make the batches of an index range in order, at most `ahead` in advance. Each takes the next example;
// the thread with the last example of a batch collates it.
class DataLoader::Workers {
 public:
  Workers(const DataLoader& loader, std::int64_t begin, std::int64_t end, std::int64_t ahead, int threads)
      : loader_(loader), first_(begin), filled_(begin), end_(end), slots_(static_cast<std::size_t>(ahead)) {
    const auto most = static_cast<std::int64_t>(loader.order_.size());  // of a batch
    for (Slot& s : slots_) s.examples.reserve(static_cast<std::size_t>(std::min(loader.options_.batch_size(), most)));
    threads_.reserve(static_cast<std::size_t>(threads));
    const Rollback joined([this] { stop(); });
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }

  ~Workers() { stop(); }

  /// The next batch. Rethrows the exception of the thread that made it.
  Batch take() {
    std::unique_lock<std::mutex> lock(mutex_);
    Slot& s = slot(first_);
    changed_.wait(lock, [&] { return s.ready; });
    if (s.error) std::rethrow_exception(s.error);
    Batch batch = std::move(s.batch);
    s.ready = false;
    s.taken = 0;
    ++first_;
    changed_.notify_all();
    return batch;
  }

 private:
  // A batch that is being made.
  struct Slot {
    std::vector<Example> examples;
    std::int64_t taken = 0, missing = 0;  // examples that threads began, and that are not here yet
    std::exception_ptr error;             // of the first example that failed
    std::int64_t failed_at = 0;
    Batch batch;
    bool ready = false;
  };

  Slot& slot(std::int64_t index) { return slots_[static_cast<std::size_t>(index) % slots_.size()]; }

  void stop() noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void run() {
    fit::detail::thread_state.inside_parallel = true;  // the thread pool serves the training
    const auto more = [this] { return filled_ < end_ && filled_ < first_ + static_cast<std::int64_t>(slots_.size()); };
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || filled_ == end_ || more(); });
      if (stop_ || filled_ == end_) return;
      one(lock);
    }
  }

  // Gets the next example. Unlocked while the loader works.
  void one(std::unique_lock<std::mutex>& lock) {
    const std::int64_t index = filled_;
    Slot& s = slot(index);
    const auto [first, end] = loader_.examples_of(index);
    if (s.taken == 0) s.examples.resize(static_cast<std::size_t>(s.missing = end - first));
    const std::int64_t i = s.taken++;
    if (s.taken == end - first) ++filled_;
    try {
      lock.unlock();
      Example example = loader_.example(index, first + i);
      lock.lock();
      s.examples[i] = std::move(example);
    } catch (...) {
      lock.lock();
      if (!s.error || i < s.failed_at) s.error = std::current_exception(), s.failed_at = i;
      if (filled_ == index) s.missing -= end - first - s.taken;  // no thread begins the others
      filled_ = end_;
    }
    if (--s.missing == 0) finish(index, s, lock);
    changed_.notify_all();
  }

  void finish(std::int64_t index, Slot& s, std::unique_lock<std::mutex>& lock) {
    try {
      if (!s.error) {
        lock.unlock();
        s.batch = loader_.collated(index, s.examples);
        lock.lock();
      }
    } catch (...) {
      lock.lock();
      s.error = std::current_exception();
      filled_ = end_;
    }
    s.examples.clear();
    s.ready = true;
  }

  const DataLoader& loader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t first_, filled_;  // the next batch to return, and the one whose examples are taken now
  const std::int64_t end_;
  std::vector<Slot> slots_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// ---- the loader ---------------------------------------------------------------------------------------------------

DataLoader::DataLoader(SharedDataset dataset, LoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(std::move(options)),
      seed_(options_.seed().value_or(default_generator().seed())) {
  if (options_.batch_size() < 1)
    check::fail("DataLoader", "batch_size is ", options_.batch_size(), ": it must be at least 1");
  check::not_negative("DataLoader", "prefetch", options_.prefetch());
  check::not_negative("DataLoader", "workers", options_.workers());
  if (options_.shuffle() && options_.sampler())
    check::fail("DataLoader", "shuffle and a sampler are given: the sampler alone sets the order");
  if (!options_.collate()) check::fail("DataLoader", "collate is empty: it makes a batch of the examples");
  if (dataset_->size() == 0) check::fail("DataLoader", "the dataset has no examples: there is nothing to load");
  order_ = order_of(seed_, epoch_);
}

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

DataLoader::Iterator::Iterator(DataLoader* loader, std::shared_ptr<Loop> loop)
    : loader_(loader), loop_(std::move(loop)) {
  ++*this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (!loader_->next(batch_)) loop_.reset();
  return *this;
}

DataLoader::Iterator DataLoader::begin() {
  if (!running_.expired())
    check::fail("DataLoader",
                "a loop over this loader has not ended, and another one begins: they would share its "
                "place; make a second loader (they may share the dataset)");
  workers_.reset();
  const bool another = begins_another();
  std::vector<std::int64_t> order = order_of(seed_, epoch_ + another);
  const Rollback same_place([this, epoch = epoch_, done = done_, resumed = resumed_, before = order_]() mutable {
    epoch_ = epoch, done_ = done, resumed_ = resumed;
    order_.swap(before);
  });
  if (another) ++epoch_, done_ = 0;
  order_ = std::move(order);
  const auto loop = std::make_shared<Loop>();
  running_ = loop;
  Iterator first(this, loop);
  begun_ = true;
  return first;
}

bool DataLoader::next(Batch& batch) {
  if (done_ == size()) {
    workers_.reset();
    resumed_ = false;
    return false;
  }
  const int threads = options_.workers(), ahead = options_.prefetch();
  if ((threads > 0 || ahead > 0) && !workers_) {
    const std::int64_t left = std::max<std::int64_t>(size() - done_, 1), wanted = ahead > 0 ? ahead : 2;
    workers_ = std::make_unique<Workers>(*this, done_, size(), std::min(wanted, left), std::max(threads, 1));
  }
  const Rollback make_it_again([this] { workers_.reset(); });
  if (workers_) {
    batch = workers_->take();
  } else {
    std::vector<Example> examples;
    const auto [first, end] = examples_of(done_);
    for (std::int64_t i = first; i < end; ++i) examples.push_back(example(done_, i));
    batch = collated(done_, examples);
  }
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
  workers_.reset();
  rank_ = rank;
  ranks_ = size;
}

DataLoader::Span DataLoader::examples_of(std::int64_t index) const {
  const dist::Rows rows = rows_of(index).or_last();
  const auto* const collate = options_.collate().target<Batch (*)(const std::vector<Example>&)>();
  // Stacked rows are the same either way. Packed ones can't be divided afterwards.
  const bool own =
      options_.collated() == Collated::own || (collate && (*collate == stack_collate || *collate == pack_collate));
  return own ? Span{rows.first, rows.first + rows.count} : Span{0, rows.of};
}

namespace {

// Workers have threads of their own, so batches do not depend on the modes of the thread that takes them.
struct OwnMode {
  Autocast precision{float32};
  detail::Scoped<bool> reproducible{detail::thread_state.reproducible, false};
};

}  // namespace

Example DataLoader::example(std::int64_t index, std::int64_t i) const {
  const NoGrad no_grad;
  const OwnMode mode;
  const std::int64_t place = index * options_.batch_size() + i, id = order_[place];
  const KeyedDraws draws(seed_, static_cast<std::uint64_t>(epoch_), static_cast<std::uint64_t>(place));
  const auto name = [id] { return "example " + std::to_string(id) + " of the dataset"; };
  try {
    return dataset_->get(id);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (Error& e) {
    e.set_where(e.where().empty() ? name() : e.where() + ", in " + name(), dataset_.operator->());
    throw;
  } catch (const std::exception& e) {
    std::throw_with_nested(Error("[DataLoader] " + name() + ": " + e.what()));
  }
}

Batch DataLoader::collated(std::int64_t index, const std::vector<Example>& examples) const {
  const NoGrad no_grad;
  const OwnMode mode;
  // Keyed beyond all places of examples: collate may draw, too.
  const KeyedDraws draws(seed_, static_cast<std::uint64_t>(epoch_), ~static_cast<std::uint64_t>(index));
  const dist::Rows rows = rows_of(index).or_last();
  Batch batch = options_.collate()(examples);
  if (static_cast<std::int64_t>(examples.size()) != rows.of || rows.count == rows.of) return batch;
  bool divided = false;
  for (Tensor& field : batch)
    if (field.rank() > 0 && field.size(0) == rows.of) {
      field = slice(field, 0, rows.first, rows.first + rows.count);
      divided = true;
    }
  if (divided) return batch;
  // No field has a row for each example, as in a pack: all ranks would compute the same.
  const auto first = examples.begin() + rows.first;
  return options_.collate()(std::vector<Example>(first, first + rows.count));
}

// ---- its position -------------------------------------------------------------------------------------------------

StateDict DataLoader::state_dict() const {
  // A loop that continued behind the last batch of an ended epoch would be empty, and count as an epoch.
  const bool ended = running_.expired() && begins_another() && done_ == size();
  const auto number = [](std::int64_t n) { return full({}, n, int64); };
  return {{"seed", number(static_cast<std::int64_t>(seed_))},
          {"epoch", number(epoch_ + ended)},
          {"batches", number(ended ? 0 : done_)},
          {"batch_size", number(options_.batch_size())},
          {"examples", number(dataset_->size())}};
}

DataLoader::Place DataLoader::place_of(const StateDict& state) const {
  constexpr const char* op = "load_state_dict";
  auto mine = state_dict();
  nn::load_values(op, "DataLoader", mine, state);
  const auto number = [&](int i) { return mine[i].second.item<std::int64_t>(); };
  if (number(3) != options_.batch_size() || number(4) != dataset_->size())
    check::fail(op, "the position is one in ", number(4), " examples by batches of ", number(3),
                ", this DataLoader has ", dataset_->size(), " by batches of ", options_.batch_size(),
                "; nothing was loaded. Give it the same; for a training with others, load the weights alone "
                "(load_from_checkpoint)");
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
  workers_.reset();
  seed_ = place.seed;
  epoch_ = place.epoch;
  done_ = place.done;
  order_ = std::move(place.order);
  resumed_ = true;
}

}  // namespace fit::data
