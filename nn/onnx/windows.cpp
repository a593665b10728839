// Convolutions, pooling, norms of channels, gates, and recurrent layers.
#include "fit/ops/ops.hpp"
#include "onnx/graph.hpp"

namespace fit::nn::onnx {
namespace {

// The numbers for both ends of each axis.
Integers both_ends(const Integers& padding) {
  Integers all = padding;
  all.insert(all.end(), padding.begin(), padding.end());
  return all;
}

Names pool(const Row& r, const char* op, std::map<std::string, Integers> more) {
  more.insert({{"kernel_shape", r.integers("size")},
               {"strides", r.integers("stride")},
               {"pads", both_ends(r.integers("padding"))}});
  return {r.g.node(op, {r.operand(0)}, more)};
}

// (x - mean) / sqrt(variance + eps), of slices along some axes.
Name normalised(const Row& r, const Name& x, const Integers& axes) {
  const Name centred = r.g.node("Sub", {x, r.g.reduced("ReduceMean", x, axes, true)});
  const Name variance = r.g.reduced("ReduceMean", r.g.node("Mul", {centred, centred}), axes, true);
  const Name sum = r.g.node("Add", {variance, r.g.number(r.real("eps"), r.y().dtype())});
  return r.g.node("Div", {centred, r.g.node("Sqrt", {sum})});
}

// y weight + bias, the operands 1 and 2, one number for each channel.
Name scaled(const Row& r, Name y) {
  Integers along{-1};
  for (int a = 2; a < r.x().rank(); ++a) along.push_back(1);
  const auto channel = [&](std::size_t i) { return r.g.node("Reshape", {r.operand(i), r.g.integers(along)}); };
  if (r.has_input(1)) y = r.g.node("Mul", {y, channel(1)});
  if (r.has_input(2)) y = r.g.node("Add", {y, channel(2)});
  return y;
}

// The rows of the gates in ONNX's order. `order`: which gate of ours each is.
Name gates(const Row& r, const Name& x, const Integers& order, std::int64_t H) {
  Integers rows;
  for (const std::int64_t gate : order)
    for (std::int64_t i = 0; i < H; ++i) rows.push_back(gate * H + i);
  return r.g.node("Unsqueeze", {r.g.node("Gather", {x, r.g.integers(rows)}, {{"axis", {0}}}), r.g.integers({0})});
}

// ONNX multiplies the inputs, too: by a matrix that puts the gates in its order, as they are multiplied already.
Names recurrent(const Row& r, const char* op, const Integers& order,
                const std::map<std::string, Integers>& attributes) {
  const std::int64_t H = r.x(3).size(1), G = static_cast<std::int64_t>(order.size());
  const DType t = r.y().dtype();
  const auto first = [&](std::size_t i) { return r.g.node("Unsqueeze", {r.operand(i), r.g.integers({0})}); };
  const Name bias = r.has_input(2) ? gates(r, r.operand(2), order, H) : r.g.constant(zeros({1, G * H}, t));
  Names inputs{r.g.node("Transpose", {r.operand(0)}, {{"perm", {1, 0, 2}}}),
               gates(r, r.g.constant(eye(G * H).to(t)), order, H),
               gates(r, r.operand(1), order, H),
               r.g.node("Concat", {r.g.constant(zeros({1, G * H}, t)), bias}, {{"axis", {1}}}),
               Name(),
               first(3)};
  const bool cells = r.has_input(4);
  if (cells) inputs.push_back(first(4));
  auto all = attributes;
  all["hidden_size"] = {H};
  const Names y = r.g.nodes(op, inputs, cells ? 3 : 2, all);
  const Name steps = r.g.node("Squeeze", {y[0], r.g.integers({1})});  // [T, B, H]
  Names results{r.g.node("Transpose", {steps}, {{"perm", {1, 0, 2}}})};
  if (cells) results.push_back(r.g.node("Squeeze", {y[2], r.g.integers({0})}));
  return results;
}

}  // namespace

Names convolution(const Row& r) {
  Names inputs{r.operand(0), r.operand(1)};
  if (r.has_input(2)) inputs.push_back(r.operand(2));
  return {r.g.node("Conv", inputs,
                   {{"strides", r.integers("stride")},
                    {"pads", both_ends(r.integers("padding"))},
                    {"dilations", r.integers("dilation")},
                    {"group", {r.integer("groups")}}})};
}
Names transposed_convolution(const Row& r) {
  Names inputs{r.operand(0), r.operand(1)};
  if (r.has_input(2)) inputs.push_back(r.operand(2));
  return {r.g.node("ConvTranspose", inputs,
                   {{"strides", r.integers("stride")},
                    {"pads", both_ends(r.integers("padding"))},
                    {"output_padding", r.integers("output_padding")},
                    {"dilations", r.integers("dilation")},
                    {"group", {r.integer("groups")}}})};
}
Names max_pool(const Row& r) { return pool(r, "MaxPool", {{"dilations", r.integers("dilation")}}); }
// Zeros around x count.
Names average_pool(const Row& r) {
  for (const std::int64_t d : r.integers("dilation"))
    if (d != 1) r.fail("has a dilation, which has no ONNX form in opset 17");
  return pool(r, "AveragePool", {{"count_include_pad", {1}}});
}
// Along each axis, a product with what becomes of a unit matrix.
Names interpolate(const Row& r) {
  const Integers &from = r.integers("from"), &to = r.integers("to");
  const auto matrix = [&](std::size_t axis) {  // [from, to]
    InterpolateOptions o;
    o.mode(r.integer("linear") != 0 ? Interpolation::linear : Interpolation::nearest);
    o.align_corners(r.integer("align_corners") != 0);
    if (r.real("scale_factor") != 0)
      o.scale_factor(r.real("scale_factor"));
    else
      o.size(to[axis]);
    return fit::interpolate(eye(from[axis]).to(r.y().dtype()).unsqueeze(0), o).squeeze(0);
  };
  const Name y = r.g.node("MatMul", {r.operand(0), r.g.constant(matrix(from.size() - 1))});
  return {from.size() == 1 ? y : r.g.node("MatMul", {r.g.constant(matrix(0).transpose()), y})};
}
Names batch_norm(const Row& r) {
  Integers others{0};
  for (int a = 2; a < r.x().rank(); ++a) others.push_back(a);
  if (!r.has_input(3)) return {scaled(r, normalised(r, r.operand(0), others))};
  const std::int64_t channels = r.x().size(1);
  const auto channel = [&](std::size_t i, double absent) {
    return r.has_input(i) ? r.operand(i) : r.g.constant(full({channels}, absent, r.y().dtype()));
  };
  return {r.g.node("BatchNormalization", {r.operand(0), channel(1, 1), channel(2, 0), r.operand(3), r.operand(4)}, {},
                   {{"epsilon", static_cast<float>(r.real("eps"))}})};
}
Names group_norm(const Row& r) {
  const Name x = r.operand(0), groups = r.g.node("Reshape", {x, r.g.integers({0, r.integer("groups"), -1})});
  return {scaled(r, r.g.node("Reshape", {normalised(r, groups, {2}), r.g.node("Shape", {x})}))};
}
Names glu(const Row& r) {
  std::map<std::string, Integers> attributes{{"axis", {r.integer("axis")}}};
  if (r.g.opset() >= 18) attributes["num_outputs"] = {2};  // before, the number of results said so
  const Names halves = r.g.nodes("Split", {r.operand(0)}, 2, attributes);
  return {r.g.node("Mul", {halves[0], r.g.node("Sigmoid", {halves[1]})})};
}
// Ours: input, forget, cell, output; theirs: input, output, forget, cell.
Names lstm(const Row& r) { return recurrent(r, "LSTM", {0, 3, 1, 2}, {}); }
// Ours: reset, update, new; theirs: update, reset, new.
Names gru(const Row& r) { return recurrent(r, "GRU", {1, 0, 2}, {{"linear_before_reset", {1}}}); }
Names rnn(const Row& r) { return recurrent(r, "RNN", {0}, {}); }

}  // namespace fit::nn::onnx
