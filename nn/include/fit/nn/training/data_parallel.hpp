#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/detail/scoped.hpp"
#include "fit/graph/hooks.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/optim/optim.hpp"

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
namespace fit {
class LossParts;
}
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
  ///
  /// While a DataParallel of several ranks lives on a thread, nn::BatchNorm in training takes its statistics over the
  /// rows of all ranks.
  explicit DataParallel(nn::Layer& model, const DataParallelOptions& options = {}, World& world = dist::world());
  /// The same, but sums only the gradients of the optimiser's parameters. All ranks get rank 0's values of the whole
  /// model. If the optimiser has a part of the model's parameters, the others' gradients stay those of each rank.
  DataParallel(nn::Layer& model, const optim::Optimizer& optimizer, const DataParallelOptions& options = {},
               World& world = dist::world());
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

  /// Calls backward() of this rank's part of a batch, and finish(). The gradient, and the result, are those of the loss
  /// of the full batch: sum of w L / sum of w over all parts, where a part's loss L is a mean over w items. The
  /// functions of fit/nn/loss/loss.hpp say w of their results; nn::mean_over() says it of a loss of your own. A loss
  /// that says nothing is weighted by this rank's number of rows(), or by 1. Losses that are sums are added. If nothing
  /// counts on any rank, the loss is 0 and the gradients are zero. Throws Error, before any parameter changes, if the
  /// terms of a loss have counts in another ratio than those of another part: then no weight is right for all terms.
  ///
  /// With several parts, the backward pass computes the gradient of w L, and the gradients are divided once, when they
  /// are summed. So accumulating k parts is, step by step, the computation of k ranks.
  double backward(const Tensor& loss);
  /// The same for a mean over `weight` items, which may be 0, whatever the loss says of itself.
  double backward(const Tensor& loss, double weight);

  /// For a caller that calls backward() of its losses itself: sums the gradients of all ranks, and divides nothing. If
  /// ranks have different weights, first multiply their losses by their fractions. Throws Error if `missing` says so.
  void finish();

  /// Disables sending in backward() during its lifetime: the gradients of the parts of a step accumulate on each rank.
  /// The last backward() must run without it. Each returns the loss of all parts so far.
  ///
  ///     { const auto quiet = parallel.no_sync();  parallel.backward(loss(part[0])); }
  ///     parallel.backward(loss(part[1]));                                               // of the mean over all items
  ///
  /// Between zero_grad() and the last part, only this object may call backward(). It works in one process, too.
  class NoSync : public detail::Scoped<bool> {
   public:
    explicit NoSync(DataParallel& parallel) : Scoped(parallel.quiet_, true) {}
  };
  /// backward() sends nothing while the result lives.
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }
  /// Forgets the parts of a step that an exception has ended. The gradients stay: call zero_grad(), too.
  void discard_parts();

  /// The world, and the statistics so far.
  World& world() const { return world_; }
  const Traffic& traffic() const;

 private:
  class Buckets;
  struct Polling;
  DataParallel(const DataParallelOptions& options, World& world, std::function<StateDict()> parameters);
  void backward_of(const Tensor& loss, double weight);
  void backward_of_nothing(const Tensor& loss);
  void backward_of_no_number(const Tensor& loss);
  void exchange();
  void divide(double divisor);

  World& world_;
  std::function<StateDict()> named_;  // the parameters whose gradients are summed, frozen ones too
  Rows rows_;
  bool quiet_ = false;
  bool begun_ = false;                   // a part of the step was computed under no_sync()
  std::unique_ptr<LossParts> parts_;     // of the step so far, on this rank
  std::unique_ptr<Buckets> buckets_;     // null in a world of one
  std::vector<const void*> parameters_;  // its parameters: no other DataParallel may sum their gradients
  std::vector<GradHook> hooks_;
};

}  // namespace fit::dist
