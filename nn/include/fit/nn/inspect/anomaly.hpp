#pragma once
#include <memory>

/// Finds the origin of a NaN.
namespace fit {

/// Checks the result of each operation and each gradient on this thread during its lifetime. Throws Error at the first
/// result that has a NaN or infinity although its inputs have none. The Error names the operation (log, or log_backward
/// in a backward pass), the element, the ranges of the inputs, and the layer. An infinity that an operation is given,
/// as in masked_fill(x, mask, -INFINITY), is allowed. Tensors that no operation made, such as data, are not checked.
///
///     DetectAnomaly detect;
///     model.loss(x, y).backward();   // [log] its result has an infinity in 1 of 8 elements, the first at [0, 3];
///                                    //   input 0 is [2, 4] from 0 to 2.5, in encoder.layers.2
///
/// Training is several times slower. PyTorch's torch.autograd.detect_anomaly checks only gradients.
class DetectAnomaly {
 public:
  [[nodiscard]] DetectAnomaly();
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  class Finder;
  std::unique_ptr<Finder> finder_;
};

}  // namespace fit
