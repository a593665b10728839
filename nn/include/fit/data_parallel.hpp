#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fit/dist.hpp"
#include "fit/hooks.hpp"
#include "fit/nn/layer.hpp"
#include "fit/optim.hpp"
#include "fit/option.hpp"

/// Data-parallel training: every rank has the whole model and a part of each batch, and the gradients are summed over
/// the ranks while backward() runs. A training loop needs three lines for it; the Trainer has them.
///
///     dist::DataParallel parallel(model);                            // rank 0's values for all
///     for (…) {
///       const Tensor input = parallel.rows(x), target = parallel.rows(y);  // this rank's part of the batch
///       optimizer.zero_grad();
///       const double loss = parallel.backward(nn::mse_loss(model(input), target));  // in place of backward()
///       optimizer.step();
///     }
namespace fit::dist {

/// Whether gradients travel while backward() still runs, or afterwards.
enum class Overlap : bool { no, yes };
/// What becomes of a parameter that got a gradient on some ranks, and none on others: the others count as zero, or it
/// is an error that names it. (One that has none on any rank has none afterwards.)
enum class Missing : bool { zero, error };

/// How gradients travel among ranks.
struct DataParallelOptions {
  FIT_OPTION(std::size_t, bucket_bytes) = std::size_t{1} << 20;  ///< The size of the gradients that travel together.
  FIT_OPTION(Overlap, overlap) = Overlap::yes;                   ///< Whether they travel while backward() goes on.
  FIT_OPTION(Missing, missing) = Missing::zero;                  ///< A parameter that a rank has no gradient of.
};

/// How the gradients of one rank have travelled. (World::bytes_sent() tells their bytes.)
struct Traffic {
  std::int64_t steps = 0, buckets = 0;  ///< the buckets of one step
  std::int64_t sent_early = 0;          ///< buckets that were sent off before finish()
  double seconds_waited = 0;            ///< in finish()
};

/// Sums the gradients of a model's parameters over the ranks.
///
/// They lie one behind the other in buckets, in the order in which they became complete in the first backward() on
/// rank 0 (in the first step itself, in the reverse order of the parameters). A bucket is sent off when its last
/// gradient is complete. Each rank gets its piece of the bucket from all, adds in the order of ranks, and gives the sum
/// to all: so all ranks have the same bits, the same in each run, whatever the buckets' size and whoever is faster.
/// In a world of one it does nothing.
class DataParallel {
 public:
  /// Rank 0's parameters and buffers overwrite those of the others. Throws AgreedError if names, shapes or types differ
  /// among the ranks, and names the first that does; and for a bfloat16 parameter that wants a gradient: sums in it
  /// lose digits. Parameters that want no gradient are left alone. What is given must not be converted, frozen or freed
  /// as long as this lives.
  explicit DataParallel(nn::Layer& model, const DataParallelOptions& options = {}, World& world = dist::world());
  explicit DataParallel(const optim::Parameters& parameters, const DataParallelOptions& options = {},
                        World& world = dist::world());
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// This rank's rows of a batch, along the first axis. Where there are fewer rows than ranks, the last ones get a row
  /// that doesn't count, so that they do the same as the others. Until the next backward(), dropout counts the elements
  /// of tensors whose first axis runs over these rows as it would in the whole batch: N ranks drop what one process
  /// does. All calls for one batch must give equally many rows: throws Error otherwise, and for no rows at all.
  Tensor rows(const Tensor& x);
  /// The same without a tensor: of a batch of so many rows.
  Rows rows(std::int64_t of);

  /// loss.backward() and finish(). `loss` is the mean over this rank's rows, and counts by their number: what results
  /// is the gradient of the mean over the whole batch. Returns that mean. Without rows() before, all ranks count alike.
  double backward(const Tensor& loss);
  /// The same where rows are not what the mean is over (targets that are not padding, say): each rank's loss counts
  /// by `weight`, the number that it is the mean of, and the gradient is that of the mean over all of them. It may be 0
  /// on some ranks.
  double backward(const Tensor& loss, double weight);

  /// For those who call backward() themselves: sums what each rank's backward() left. Where ranks count differently,
  /// their losses must have been multiplied by their shares before. Throws Error as `missing` says.
  void finish();

  /// While one lives, backward() sends nothing: gradients add up on each rank, until the last one without it.
  ///
  ///     { const auto quiet = parallel.no_sync();  parallel.backward(loss(part[0]) / 2); }
  ///     parallel.backward(loss(part[1]) / 2);
  class NoSync {
   public:
    explicit NoSync(DataParallel& parallel) : flag_(parallel.quiet_), before_(std::exchange(flag_, true)) {}
    ~NoSync() { flag_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool& flag_;
    bool before_;
  };
  /// While what it gives lives, backward() sends nothing.
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// The ranks, and what was sent so far.
  World& world() const { return world_; }
  const Traffic& traffic() const;

 private:
  class Buckets;
  struct Polling;
  DataParallel(const DataParallelOptions& options, World& world, const StateDict& parameters);
  double weighted_backward(const Tensor& loss, double share);

  World& world_;
  Rows rows_;
  bool quiet_ = false;
  std::unique_ptr<Buckets> buckets_;
  std::vector<const void*> seen_;  // its parameters, so that no other sums their gradients, too
  std::vector<GradHook> hooks_;
};

}  // namespace fit::dist
