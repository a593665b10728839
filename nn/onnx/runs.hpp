#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fit/onnx.hpp"
#include "onnx/run.hpp"

namespace fit::nn::onnx {

/// Thrown if an axis can't be free.
struct FixedAxis {
  std::size_t axis;
  std::string why;
};

/// Runs of one model: the first with the inputs, then those with other values, then those with other sizes of each free
/// axis. All have the same operations.
struct Runs {
  using Call = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  /// `more`: axes that may be free beside batch and sequence.
  Runs(const Layer& model, const std::vector<Tensor>& inputs, const std::vector<ONNXAxis>& more, const Call& call);

  std::vector<Run> all;
  std::vector<ONNXAxis> axes;
  std::vector<std::string> fixed;  ///< the axes that are not free, with the reason

  /// The axis is no longer free.
  void fix(std::size_t axis, const std::string& why);
  /// The numbers of the runs with another size of a free axis; of those with other values if there is none.
  std::vector<std::size_t> of(std::optional<std::size_t> axis) const;
  /// The size of a free axis in a run.
  std::int64_t size(std::size_t axis, std::size_t run) const {
    return all[run].inputs[axes[axis].input].size(axes[axis].axis);
  }
};

}  // namespace fit::nn::onnx
