#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fit/detail/owned.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/dist.hpp"
#include "fit/hooks.hpp"
#include "fit/nn/layer.hpp"
#include "fit/optim.hpp"
#include "fit/option.hpp"

/// Data-parallel training. Every rank has the full model and a part of each batch. The gradients are summed over the
/// ranks while backward() runs. A training loop needs three more lines; the Trainer has them.
///
///     dist::DataParallel parallel(model);                            // all ranks get rank 0's values
///     for (…) {
///       const Tensor input = parallel.rows(x), target = parallel.rows(y);  // this rank's part of the batch
///       optimizer.zero_grad();
///       const double loss = parallel.backward(nn::mse_loss(model(input), target));  // instead of backward()
///       optimizer.step();
///     }
namespace fit::dist {

/// Whether gradients are sent during backward(), or afterwards.
enum class Overlap : bool { no, yes };
/// The treatment of a parameter that has a gradient on some ranks only. zero: the other ranks count as zero. error:
/// throws an Error that names it. (A parameter without a gradient on any rank gets none.)
enum class Missing : bool { zero, error };

/// How the ranks exchange gradients.
struct DataParallelOptions {
  FIT_OPTION(std::size_t, bucket_bytes) = std::size_t{1} << 20;  ///< The max size of a bucket of gradients.
  FIT_OPTION(Overlap, overlap) = Overlap::yes;                   ///< Whether buckets are sent during backward().
  FIT_OPTION(Missing, missing) = Missing::zero;                  ///< If a rank has no gradient of a parameter.
};

/// Statistics of one rank's gradient exchange. (World::bytes_sent() has the bytes.)
struct Traffic {
  std::int64_t steps = 0, buckets = 0;  ///< the buckets of one step
  std::int64_t sent_early = 0;          ///< buckets sent before finish()
  double seconds_waited = 0;            ///< in finish()
};

/// Sums the gradients of a model's parameters over the ranks.
///
/// Gradients are concatenated to buckets, in the order in which they became complete in the first backward() on rank 0.
/// (The first step uses the reverse order of the parameters.) A bucket is sent when its last gradient is complete. Each
/// rank receives its piece of the bucket from all ranks, adds in the order of ranks, and sends the sum to all. So all
/// ranks and all runs get the same bits, for any bucket size and any timing. In a world of one it does nothing.
class DataParallel {
 public:
  /// Rank 0's parameters and buffers overwrite those of the others. Throws AgreedError at the first name, shape or type
  /// that differs among the ranks, and for a trainable bfloat16 parameter: sums in bfloat16 lose digits. Parameters
  /// that require no gradient are not changed later. Do not convert, freeze or free the parameters while this lives.
  explicit DataParallel(nn::Layer& model, const DataParallelOptions& options = {}, World& world = dist::world());
  explicit DataParallel(const optim::Parameters& parameters, const DataParallelOptions& options = {},
                        World& world = dist::world());
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// This rank's rows of a batch, along the first axis. If there are fewer rows than ranks, the last ranks get a row
  /// that does not count, so all ranks run the same steps. Until the next backward(), dropout on tensors with these
  /// rows uses the element numbers of the full batch: so N ranks drop the same elements as one process. Throws Error if
  /// calls for one batch differ in their number of rows, and for a batch without rows.
  Tensor rows(const Tensor& x);
  /// The same without a tensor, for a batch of `of` rows.
  Rows rows(std::int64_t of);

  /// Calls loss.backward() and finish(). `loss` is the mean over this rank's rows, and is weighted by their number: the
  /// gradient is that of the mean over the full batch. Returns this mean. Without rows() before, all weights are equal.
  double backward(const Tensor& loss);
  /// The same if `loss` is a mean over other items than rows, such as targets without padding. `weight` is their number
  /// on this rank, and may be 0. The gradient is that of the mean over the items of all ranks.
  double backward(const Tensor& loss, double weight);

  /// For a caller that calls backward() itself: sums the gradients of all ranks. If ranks have different weights, first
  /// multiply their losses by their fractions. Throws Error if `missing` says so.
  void finish();

  /// Disables sending in backward() during its lifetime: gradients accumulate on each rank. The last backward() must
  /// run without it.
  ///
  ///     { const auto quiet = parallel.no_sync();  parallel.backward(loss(part[0]) / 2); }
  ///     parallel.backward(loss(part[1]) / 2);
  class NoSync : public detail::Scoped<bool> {
   public:
    explicit NoSync(DataParallel& parallel) : Scoped(parallel.quiet_, true) {}
  };
  /// backward() sends nothing while the result lives.
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// The world, and the statistics so far.
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
  detail::Owned<Buckets> buckets_;
  std::vector<const void*> parameters_;  // its parameters: no other DataParallel may sum their gradients
  std::vector<GradHook> hooks_;
};

}  // namespace fit::dist
