#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/dist.hpp"
#include "fit/option.hpp"
#include "fit/random.hpp"
#include "fit/state_dict.hpp"
#include "fit/tensor.hpp"

/// Data for training: examples, batches of them, and the order in which they come.
///
///     data::DataLoader loader(data::TensorDataset({x, y}), data::LoaderOptions().batch_size(32).shuffle());
///     for (int epoch = 0; epoch < 10; ++epoch)
///       for (const data::Batch& batch : loader) loss(net(batch[0]), batch[1]).backward();
namespace fit::data {

/// The fields of a batch, {input, target} for instance; or those of one example.
class Batch : public std::vector<Tensor> {
 public:
  using std::vector<Tensor>::vector;
  /// Throws Error if there is no such field.
  Tensor& operator[](std::size_t field) { return std::vector<Tensor>::operator[](checked(field)); }
  const Tensor& operator[](std::size_t field) const { return std::vector<Tensor>::operator[](checked(field)); }

 private:
  std::size_t checked(std::size_t field) const;
};
/// The fields of one example.
using Example = Batch;

/// Examples that can be asked for by number. get() must give the same for the same number and may be called from
/// another thread (DataLoader's prefetch), but not from two at once by one loader.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual Example get(std::int64_t i) const = 0;
};

/// A dataset that several may hold. A Dataset of any class is moved in: `data::DataLoader(MyDataset(...))`.
class SharedDataset {
 public:
  template <class D, class = std::enable_if_t<std::is_base_of_v<Dataset, std::decay_t<D>>>>
  SharedDataset(D&& dataset) : dataset_(std::make_shared<std::decay_t<D>>(std::forward<D>(dataset))) {}
  template <class D, class = std::enable_if_t<std::is_base_of_v<Dataset, D>>>
  SharedDataset(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}
  const Dataset& operator*() const { return *dataset_; }
  const Dataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

/// Tensors whose first axes run over the examples: get(i) is {a[i], b[i], …}. Throws Error unless their first sizes are
/// equal.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  std::int64_t size() const override { return tensors_[0].size(0); }
  Example get(std::int64_t i) const override;

 private:
  std::vector<Tensor> tensors_;
};

/// Examples that are in memory already, of any lengths.
class ListDataset final : public Dataset {
 public:
  explicit ListDataset(std::vector<Example> examples) : examples_(std::move(examples)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(examples_.size()); }
  Example get(std::int64_t i) const override;

 private:
  std::vector<Example> examples_;
};

/// Some examples of another dataset, by their numbers there.
class Subset final : public Dataset {
 public:
  Subset(SharedDataset dataset, std::vector<std::int64_t> ids);
  std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }
  Example get(std::int64_t i) const override;
  const std::vector<std::int64_t>& ids() const { return ids_; }

 private:
  SharedDataset dataset_;
  std::vector<std::int64_t> ids_;
};

/// Parts of the given sizes, or of the given shares of all (rounded down; what is left goes to the parts in turn),
/// drawn at random. Throws Error unless the sizes sum up to all, the shares to 1.
std::vector<Subset> random_split(const SharedDataset& dataset, const std::vector<std::int64_t>& sizes,
                                 Generator& g = default_generator());
std::vector<Subset> random_split(const SharedDataset& dataset, const std::vector<double>& shares,
                                 Generator& g = default_generator());
/// random_split(dataset, {800, 200}) and random_split(dataset, {0.8, 0.2}).
template <class T>
std::vector<Subset> random_split(const SharedDataset& dataset, std::initializer_list<T> parts,
                                 Generator& g = default_generator()) {
  using Part = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  return random_split(dataset, std::vector<Part>(parts.begin(), parts.end()), g);
}

// ---- examples to a batch ------------------------------------------------------------------------------------------

/// Makes a batch of examples.
using Collate = std::function<Batch(const std::vector<Example>&)>;

/// Field by field, stacked along a new first axis. Throws Error unless the examples agree in fields and shapes.
Batch stack_collate(const std::vector<Example>& examples);

/// For sequences: each field is filled up with its number in `padding` to the longest of the batch along its first
/// axis, and stacked: [B, T, …]. The fields of rank 0 are stacked. One more field says what is real: the mask of the
/// first field, boolean (B, 1, T), 1 where it is, as attention takes it and create_padding_mask() makes it.
Collate pad_collate(std::vector<Scalar> padding);

// ---- the order of the examples ------------------------------------------------------------------------------------

/// The numbers of the examples of one epoch, in their order. g is another one in each epoch.
using Sampler = std::function<std::vector<std::int64_t>(Generator& g, std::int64_t batch_size)>;

/// `count` draws with replacement, example i with probability weights[i] / sum. Throws Error for a weight that is
/// negative or not finite, and if all are 0.
Sampler weighted_sampler(const std::vector<double>& weights, std::int64_t count);

/// Batches of examples of like lengths, so that little is padded: shuffled, sorted by length within `pool` batches, cut
/// into batches, and these shuffled.
Sampler bucket_sampler(std::vector<std::int64_t> lengths, std::int64_t pool = 50);

// ---- the loader ---------------------------------------------------------------------------------------------------

/// What a rank makes of a batch that is divided among several: the whole, of which it keeps its rows, so that they are
/// padded as in one process; or its own examples alone, which costs less where examples are slow to get. What
/// stack_collate() makes is the same both ways, and made of the own examples always.
enum class Collated { whole, own };

/// How a DataLoader goes through its dataset.
struct LoaderOptions {
  FIT_OPTION(std::int64_t, batch_size) = 1;          ///< The examples of a batch.
  FIT_OPTION(bool, shuffle) = false;                 ///< Draws a new order in each epoch.
  FIT_OPTION(bool, drop_last) = false;               ///< Leaves out a last batch that is smaller.
  FIT_OPTION(Sampler, sampler);                      ///< Gives the order, instead of shuffle.
  FIT_OPTION(Collate, collate) = stack_collate;      ///< Makes a batch of examples.
  FIT_OPTION(Collated, collated) = Collated::whole;  ///< Which examples collate is given at once.
  FIT_OPTION(int, prefetch) = 0;                     ///< Batches that a further thread prepares ahead; 0: none.
  FIT_OPTION(std::optional<std::uint64_t>, seed);    ///< The seed of the order; else the default generator's.
};

/// Batches of a dataset. Each range-for is one epoch, in an order that depends on (seed, epoch) alone: prefetching and
/// threads don't change it. A position in the middle of an epoch can be saved and restored.
class DataLoader {
 public:
  explicit DataLoader(SharedDataset dataset, LoaderOptions options = {});
  DataLoader(SharedDataset dataset, std::int64_t batch_size);
  ~DataLoader();

  /// What the batches come from.
  const Dataset& dataset() const { return *dataset_; }
  /// Batches in an epoch.
  std::int64_t size() const;
  /// Divides the batches among ranks: each loop gives this one its rows of each batch. Orders, sizes and positions are
  /// those of whole batches, and so are the same on all ranks. Where a batch has fewer rows than there are ranks, the
  /// last ranks get its last row, which must not count. The Trainer does this for its loaders.
  void divide(int rank, int size);
  /// Which rows of the batch in hand, the last one that was handed out, this rank has.
  dist::Rows rows() const;
  /// The number of the epoch that runs or, before the first, will run.
  std::int64_t epoch() const { return epoch_; }

  /// What a range-for needs: the end of a loop, and what keeps it running.
  struct End {};
  struct Loop {};
  /// The place of a loop.
  class Iterator {
   public:
    /// Stands at the first batch.
    Iterator(DataLoader* loader, std::shared_ptr<Loop> loop) : loader_(loader), loop_(std::move(loop)) { ++*this; }
    /// The batch in hand.
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    /// Goes to the next batch.
    Iterator& operator++() {
      if (!loader_->next(batch_)) loop_.reset();
      return *this;
    }
    /// Whether there is a batch in hand.
    bool operator!=(End) const { return loop_ != nullptr; }

   private:
    DataLoader* loader_;
    std::shared_ptr<Loop> loop_;  // as long as there are batches: the loader knows by it that the loop runs
    Batch batch_;
  };
  /// Begins the next epoch, also if the last one was left early; after load_state_dict(), what is left of the epoch
  /// that was saved. Throws Error while another loop runs (its iterator lives and has not come to the end): two would
  /// share one place. Throws what the dataset throws, too; the place is then what it was.
  Iterator begin();
  End end() const { return {}; }

  /// Where the loop is: the seed, the epoch, the batches handed out, and what they depend on. The batch in hand counts.
  StateDict state_dict() const;
  /// The loop that runs, or else the next one, goes on from there. Throws Error, and has changed nothing, if the names
  /// are others or the dataset or the batch size has another size.
  void load_state_dict(const StateDict& state);
  /// Throws what load_state_dict() would. A loop that runs doesn't notice.
  void check_state_dict(const StateDict& state) const { place_of(state); }

 private:
  class Prefetcher;
  struct Place {
    std::uint64_t seed;
    std::int64_t epoch, done;
    std::vector<std::int64_t> order;
  };

  Place place_of(const StateDict& state) const;
  std::vector<std::int64_t> order_of(std::uint64_t seed, std::int64_t epoch) const;
  std::int64_t batches_in(const std::vector<std::int64_t>& order) const;
  bool next(Batch& batch);
  dist::Rows rows_of(std::int64_t index) const;
  Batch make(std::int64_t index) const;

  SharedDataset dataset_;
  LoaderOptions options_;
  std::uint64_t seed_;
  int rank_ = 0, ranks_ = 1;
  std::int64_t epoch_ = 0, done_ = 0;  // batches handed out in this epoch
  bool resumed_ = false;
  std::weak_ptr<Loop> running_;
  std::vector<std::int64_t> order_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

}  // namespace fit::data
