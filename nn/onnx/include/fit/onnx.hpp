#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fit/base/option.hpp"
#include "fit/nn/layer/layer.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/tensor/tensor.hpp"

/// Models as ONNX files (https://onnx.ai), for ONNX Runtime and others. Link fit::onnx.
///
///     gpt.eval();
///     nn::save_onnx("gpt.onnx", gpt, {ids});
///
/// The model runs with the example inputs, and each operation of the run becomes nodes of the file. So control flow is
/// fixed as in this run. Further runs find what depends on the values (two runs, one of them with random values) and
/// on the sizes (two for each axis, one of them with 2 n + 3 instead of n, or fewer if the model refuses that).
namespace fit::nn {

/// A free axis: its size is that of an axis of an input.
struct ONNXAxis {
  std::string name;   ///< "batch"
  std::size_t input;  ///< the first input that has it
  int axis;           ///< of that input
};

/// The options of save_onnx().
struct SaveONNXOptions {
  FIT_OPTION(std::vector<std::string>, input_names);   ///< By default "input_0", "input_1", …
  FIT_OPTION(std::string, output_name) = "output";     ///< The name of the result, if there is one.
  FIT_OPTION(std::vector<std::string>, output_names);  ///< Of several results; by default "output_0", "output_1", …
  /// Axes that may be free beside batch and sequence: that axis of all inputs with as many axes as the input.
  FIT_OPTION(std::vector<ONNXAxis>, more_axes);
  /// The version of ONNX's operations. 23 has Attention, which attention becomes where it can; 17 is for older readers.
  FIT_OPTION(std::int64_t, opset) = 17;
  /// The path of an .npz: the example inputs and the model's result are written there under their names, so that a
  /// reader of the file can check its own result. None if empty.
  FIT_OPTION(std::string, sample);
};

/// The result of save_onnx().
struct ONNXInfo {
  std::int64_t opset = 0;                    ///< the version of ONNX's operations
  std::vector<std::string> inputs, outputs;  ///< names with their types and sizes: "input_0: int64 [batch, sequence]"
  std::vector<ONNXAxis> free_axes;           ///< the axes of any size
  /// The axes that could be free but are not, with the reason: "sequence: the operation …".
  std::vector<std::string> fixed_axes;
};

/// Writes the run of `run(inputs)`, which calls the model. Free axes are "batch", the first axis of all inputs, and
/// "sequence", the second one of all inputs with two or three axes, where the model computes with any size. A boolean
/// mask of three or four axes, such as that of create_padding_mask(), has the sequence in one or both of its last two.
/// Parameters have their names in the file. float32, float64, int64 and boolean.
///
/// A mask of padding is an input that is true everywhere in the example: with padding, encoders compute other
/// operations. The file has them too at places of padding, where the encoder's result is 0.
///
/// Throws Error, and writes nothing, for an operation that has no ONNX form; the message has the layer's path. Also for
/// a value that was computed from the inputs without being recorded (integers, conditions, item(), other shapes of
/// masks), as it would be a constant in the file: integers and numbers if runs differ, conditions always; for a model
/// in training mode, with int8 weights or within Autocast; for inputs of other types; for names that are empty or not
/// unique among inputs, results and the model's tensors; and for a file of more than 2 GB.
ONNXInfo save_onnx(const std::string& path, const Layer& model, const std::vector<Tensor>& inputs,
                   const std::function<Tensor(const std::vector<Tensor>&)>& run, const SaveONNXOptions& options = {});

/// The same for several results.
ONNXInfo save_onnx(const std::string& path, const Layer& model, const std::vector<Tensor>& inputs,
                   const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run,
                   const SaveONNXOptions& options = {});

/// Writes a GPT that decodes step by step. Inputs: "ids" [batch, sequence], and for each layer "past_keys_0" and
/// "past_values_0" [batch, kv_heads, past, head_size]. Results: "logits" of the new positions, and "keys_0", "values_0"
/// …, which are the next step's past. A first step has a past of 0. The context must have 5 tokens or more.
ONNXInfo save_onnx_with_cache(const std::string& path, const GPT& model, const SaveONNXOptions& options = {});

namespace detail {
template <class Model, std::size_t... I>
Tensor call_with(const Model& model, const std::vector<Tensor>& inputs, std::index_sequence<I...>) {
  return model(inputs[I]...);
}
}  // namespace detail

/// The same for model(inputs…): save_onnx("model.onnx", model, {x}).
template <class Model, std::size_t N>
ONNXInfo save_onnx(const std::string& path, const Model& model, const Tensor (&inputs)[N],
                   const SaveONNXOptions& options = {}) {
  return save_onnx(
      path, model, std::vector<Tensor>(inputs, inputs + N),
      [&model](const std::vector<Tensor>& x) { return detail::call_with(model, x, std::make_index_sequence<N>()); },
      options);
}

}  // namespace fit::nn
