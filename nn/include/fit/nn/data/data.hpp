#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/state_dict.hpp"
#include "fit/tensor/tensor.hpp"

/// Data for training: datasets of examples, batches, and the order of examples.
///
///     data::DataLoader loader(data::TensorDataset({x, y}), data::LoaderOptions().batch_size(32).shuffle());
///     for (int epoch = 0; epoch < 10; ++epoch)
///       for (const data::Batch& batch : loader) loss(net(batch[0]), batch[1]).backward();
namespace fit::data {

/// The fields of a batch, for example {input, target}, or the fields of one example.
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

/// Numbered examples. A DataLoader calls get() from another thread with prefetch, and from several threads at once with
/// two or more workers. get() may draw from the default generator (rand(), bernoulli() …): in a DataLoader, the numbers
/// depend on (seed, epoch, place of the example in the epoch) only, so they are the same for any number of workers, and
/// after a training is resumed. A generator that get() makes or seeds gives its own numbers, and manual_seed() in get()
/// lasts until get() returns: Generator g(i) draws the same example i in each epoch.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual Example get(std::int64_t i) const = 0;
};

/// A dataset with shared ownership. A Dataset of any class is moved in: `data::DataLoader(MyDataset(...))`.
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

/// Tensors with the examples along the first axis: get(i) is {a[i], b[i], …}. Throws Error unless the sizes of the
/// first axes are equal.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  std::int64_t size() const override { return tensors_[0].size(0); }
  Example get(std::int64_t i) const override;

 private:
  std::vector<Tensor> tensors_;
};

/// Examples in memory, of any lengths. get(i) copies them.
class ListDataset final : public Dataset {
 public:
  explicit ListDataset(std::vector<Example> examples);
  std::int64_t size() const override { return static_cast<std::int64_t>(examples_.size()); }
  Example get(std::int64_t i) const override;

 private:
  std::vector<Example> examples_;
};

/// The examples of another dataset with the given numbers.
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

/// Splits a dataset at random into parts of the given sizes or fractions. Fractions are rounded down, and the remaining
/// examples go to the parts in turn. Throws Error unless the sizes sum to the dataset's, or the fractions to 1.
std::vector<Subset> random_split(const SharedDataset& dataset, const std::vector<std::int64_t>& sizes,
                                 Generator& g = default_generator());
std::vector<Subset> random_split(const SharedDataset& dataset, const std::vector<double>& shares,
                                 Generator& g = default_generator());
/// The same for lists: random_split(dataset, {800, 200}) or random_split(dataset, {0.8, 0.2}).
template <class T>
std::vector<Subset> random_split(const SharedDataset& dataset, std::initializer_list<T> parts,
                                 Generator& g = default_generator()) {
  using Part = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  return random_split(dataset, std::vector<Part>(parts.begin(), parts.end()), g);
}

// ---- examples to a batch ------------------------------------------------------------------------------------------

/// Makes a batch of examples.
using Collate = std::function<Batch(const std::vector<Example>&)>;

/// Stacks each field along a new first axis. Throws Error unless the examples have the same fields and shapes.
Batch stack_collate(const std::vector<Example>& examples);

/// For sequences: pads the first axis of each field with its number in `padding` to the longest of the batch, and
/// stacks: [B, T, …]. Fields of rank 0 are only stacked. The last field of the batch is the padding mask of the first
/// field, boolean (B, 1, T), true at real elements, as create_padding_mask() makes it.
Collate pad_collate(std::vector<Scalar> padding);
/// For sequences: joins the examples along the first axis in one row without padding, [1, N, …]; N is the sum of their
/// lengths. Fields of rank 0 are stacked. Two fields follow, int64 [1, N]: the number of the example that each element
/// comes from, for document_mask(), and its position there, for rotary() or an embedding. Throws Error unless all
/// sequences of an example have one length, which is not 0.
Batch pack_collate(const std::vector<Example>& examples);

// ---- the order of the examples ------------------------------------------------------------------------------------

/// Returns the numbers of the examples of one epoch, in order. g differs in each epoch.
using Sampler = std::function<std::vector<std::int64_t>(Generator& g, std::int64_t batch_size)>;

/// Draws `count` examples with replacement, example i with probability weights[i] / sum. Throws Error for a weight that
/// is negative or not finite, and if all are 0.
Sampler weighted_sampler(const std::vector<double>& weights, std::int64_t count);

/// Batches of examples of similar lengths, for less padding. Shuffles the examples, sorts each group of `pool` batches
/// by length, cuts it into batches, and shuffles the batches.
Sampler bucket_sampler(std::vector<std::int64_t> lengths, std::int64_t pool = 50);

// ---- the loader ---------------------------------------------------------------------------------------------------

/// What a rank collates if several ranks share a batch. whole: the full batch, of which the rank keeps its rows, so the
/// padding is that of one process. own: only its own examples, which is faster if get() is slow. stack_collate() always
/// uses the own examples, because the result is the same; pack_collate(), because its row can't be divided. If no field
/// of a whole batch has a row for each example, as in a pack that a function of your own makes, the rank collates its
/// own examples, too. They are fetched faster with `own`.
enum class Collated { whole, own };

/// The options of DataLoader.
struct LoaderOptions {
  FIT_OPTION(std::int64_t, batch_size) = 1;          ///< The examples of a batch.
  FIT_OPTION(bool, shuffle) = false;                 ///< Draws a new order in each epoch.
  FIT_OPTION(bool, drop_last) = false;               ///< Leaves out a smaller last batch.
  FIT_OPTION(Sampler, sampler);                      ///< Sets the order, instead of shuffle.
  FIT_OPTION(Collate, collate) = stack_collate;      ///< Makes a batch of examples.
  FIT_OPTION(Collated, collated) = Collated::whole;  ///< The examples that a rank passes to collate.
  /// The number of threads that call get(), each for another example. 0: the thread of the loop, or one for prefetch.
  FIT_OPTION(int, workers) = 0;
  /// The number of batches prepared ahead, which memory must hold; 0: two if there are workers, else none.
  FIT_OPTION(int, prefetch) = 0;
  FIT_OPTION(std::optional<std::uint64_t>, seed);  ///< The seed of the order; else the default generator's.
};

/// Batches of a dataset, which must not be empty. Each range-for is one epoch. The order depends only on (seed, epoch),
/// and batches don't depend on workers or prefetching. A position in the middle of an epoch can be saved and restored.
class DataLoader {
 public:
  explicit DataLoader(SharedDataset dataset, LoaderOptions options = {});
  DataLoader(SharedDataset dataset, std::int64_t batch_size);
  ~DataLoader();

  /// The dataset.
  const Dataset& dataset() const { return *dataset_; }
  /// The number of batches in an epoch.
  std::int64_t size() const;
  /// Divides the batches among ranks: each loop returns this rank's rows of each batch. Order, size and position are
  /// those of full batches, so they are the same on all ranks. If a batch has fewer rows than there are ranks, the last
  /// ranks get its last row, which must not count. The Trainer calls this for its loaders.
  void divide(int rank, int size);
  /// This rank's rows of the current batch.
  dist::Rows rows() const;
  /// The number of the current epoch, or of the first one before it starts.
  std::int64_t epoch() const { return epoch_; }

  /// Types of range-for: the end of a loop, and a token of a running loop.
  struct End {};
  struct Loop {};
  /// The position of a loop.
  class Iterator {
   public:
    /// Starts at the first batch.
    Iterator(DataLoader* loader, std::shared_ptr<Loop> loop);
    /// The current batch.
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    /// Moves to the next batch.
    Iterator& operator++();
    /// Whether there is a current batch.
    bool operator!=(End) const { return loop_ != nullptr; }

   private:
    DataLoader* loader_;
    std::shared_ptr<Loop> loop_;  // lives while there are batches, and tells the loader that the loop runs
    Batch batch_;
  };
  /// Starts the next epoch, also if the last loop ended early. After load_state_dict(), continues the saved epoch.
  /// Throws Error while another loop runs (its iterator lives and is not at the end), because two loops would share one
  /// position. Passes on exceptions of the dataset, and then keeps the position: an Error gets the number of the
  /// example, and keeps its type; another std::exception is nested in such an Error.
  Iterator begin();
  End end() const { return {}; }

  /// The position: the seed, the epoch, the number of batches returned, and their settings. The current batch counts.
  /// After the last batch of an epoch, when its loop has ended, it is the start of the next epoch. A loop that was left
  /// early (Ctrl-C, break) has stopped where it was left: another loader goes on there, although begin() of this one
  /// starts the next epoch.
  StateDict state_dict() const;
  /// The running loop, or else the next one, continues from there. Throws Error, and changes nothing, if the names
  /// differ, or the size of the dataset or of the batches.
  void load_state_dict(const StateDict& state);
  /// Throws the Error that load_state_dict() would throw. Does not affect a running loop.
  void check_state_dict(const StateDict& state) const { place_of(state); }

 private:
  class Workers;
  struct Place {
    std::uint64_t seed;
    std::int64_t epoch, done;
    std::vector<std::int64_t> order;
  };

  Place place_of(const StateDict& state) const;
  std::vector<std::int64_t> order_of(std::uint64_t seed, std::int64_t epoch) const;
  std::int64_t batches_in(const std::vector<std::int64_t>& order) const;
  bool begins_another() const { return begun_ && !resumed_; }  // begin() starts another epoch
  bool next(Batch& batch);
  dist::Rows rows_of(std::int64_t index) const;
  struct Span {
    std::int64_t first, end;
  };
  Span examples_of(std::int64_t index) const;
  Example example(std::int64_t index, std::int64_t i) const;
  Batch collated(std::int64_t index, const std::vector<Example>& examples) const;

  SharedDataset dataset_;
  LoaderOptions options_;
  std::uint64_t seed_;
  int rank_ = 0, ranks_ = 1;
  std::int64_t epoch_ = 0, done_ = 0;     // batches handed out in this epoch
  bool resumed_ = false, begun_ = false;  // begun_: a loop has begun
  std::weak_ptr<Loop> running_;
  std::vector<std::int64_t> order_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace fit::data
