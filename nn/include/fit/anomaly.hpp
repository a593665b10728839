#pragma once
#include <memory>

/// Where a NaN comes from.
namespace fit {

/// While one lives, this thread looks at the result of each operation and at each gradient. The first that has a NaN or
/// an infinity, though nothing that it was made from has, is an Error that names the operation (log, or log_backward in
/// a backward pass), the element, the range of what went in, and the layer by its dotted name. Infinities that
/// masked_fill() is told to put in are none of them, nor is what no operation made: tensors from data.
///
///     DetectAnomaly detect;
///     model.loss(x, y).backward();   // [log] its result has an infinity in 1 of 8 elements, the first at [0, 3];
///                                    //   input 0 is [2, 4] from 0 to 2.5, in encoder.layers.2
///
/// Training runs several times slower meanwhile. Called after PyTorch's torch.autograd.detect_anomaly, which looks at
/// gradients alone.
class DetectAnomaly {
 public:
  DetectAnomaly();
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  class Finder;
  std::unique_ptr<Finder> finder_;
};

}  // namespace fit
