// The table of operations: how each is written as nodes of ONNX.
#include <cmath>
#include <unordered_map>

#include "fit/ops/ops.hpp"
#include "onnx/graph.hpp"

namespace fit::nn::onnx {
namespace {

// ---- elementwise ---------------------------------------------------------------------------------------------------

// Both operands are tensors, or one of them is a number.
Names binary(const Row& r, const char* op) {
  const DType t = r.y().dtype();
  if (r.has("self")) return {r.g.node(op, {r.g.number(r.real("self"), t), r.operand(0)})};
  if (r.has("other")) return {r.g.node(op, {r.operand(0), r.g.number(r.real("other"), t)})};
  return {r.g.node(op, {r.operand(0), r.operand(1)})};
}
Names add(const Row& r) { return binary(r, "Add"); }
Names sub(const Row& r) { return binary(r, "Sub"); }
Names mul(const Row& r) { return binary(r, "Mul"); }
Names div(const Row& r) { return binary(r, "Div"); }
Names maximum(const Row& r) { return binary(r, "Max"); }
Names minimum(const Row& r) { return binary(r, "Min"); }
Names pow(const Row& r) {
  if (!r.has("exponent")) return binary(r, "Pow");
  return {r.g.node("Pow", {r.operand(0), r.g.number(r.real("exponent"), r.y().dtype())})};
}

// Functions of ONNX with one operand.
const char* simple_function(const std::string& op) {
  static const std::unordered_map<std::string, const char*> all{{"abs", "Abs"},           {"acos", "Acos"},
                                                                {"acosh", "Acosh"},       {"asin", "Asin"},
                                                                {"asinh", "Asinh"},       {"atan", "Atan"},
                                                                {"atanh", "Atanh"},       {"ceil", "Ceil"},
                                                                {"cos", "Cos"},           {"cosh", "Cosh"},
                                                                {"erf", "Erf"},           {"exp", "Exp"},
                                                                {"floor", "Floor"},       {"hardswish", "HardSwish"},
                                                                {"log", "Log"},           {"neg", "Neg"},
                                                                {"relu", "Relu"},         {"round", "Round"},
                                                                {"selu", "Selu"},         {"sigmoid", "Sigmoid"},
                                                                {"sign", "Sign"},         {"sin", "Sin"},
                                                                {"sinh", "Sinh"},         {"softplus", "Softplus"},
                                                                {"softsign", "Softsign"}, {"sqrt", "Sqrt"},
                                                                {"tan", "Tan"},           {"tanh", "Tanh"},
                                                                {"clone", "Identity"},    {"identity", "Identity"}};
  const auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}
Names function(const Row& r) { return {r.g.node(simple_function(r.op()), {r.operand(0)})}; }

Name with_number(const Row& r, const char* op, const Name& x, double number) {
  return r.g.node(op, {x, r.g.number(number, r.y().dtype())});
}
Names square(const Row& r) { return {r.g.node("Mul", {r.operand(0), r.operand(0)})}; }
// log(u) times x / d, where u = 1 + x and d = u - 1 are rounded: exact near 0. If d is 0, so is the log: x.
Names log1p(const Row& r) {
  const Name x = r.operand(0), u = with_number(r, "Add", x, 1), d = with_number(r, "Sub", u, 1);
  const Name log = r.g.node("Log", {u}), corrected = r.g.node("Mul", {log, r.g.node("Div", {x, d})});
  const Name near = r.g.node("Where", {with_number(r, "Equal", d, 0), x, corrected});
  return {r.g.node("Where", {r.g.node("Equal", {d, x}), log, near})};
}
Names log2(const Row& r) { return {with_number(r, "Div", r.g.node("Log", {r.operand(0)}), std::log(2.))}; }
Names log10(const Row& r) { return {with_number(r, "Div", r.g.node("Log", {r.operand(0)}), std::log(10.))}; }
// tanh(x / 2) (exp(x) + 1), which is exact near 0
Names expm1(const Row& r) {
  const Name x = r.operand(0), half = r.g.node("Tanh", {with_number(r, "Mul", x, 0.5)});
  return {r.g.node("Mul", {half, with_number(r, "Add", r.g.node("Exp", {x}), 1)})};
}
Names rsqrt(const Row& r) { return {r.g.node("Reciprocal", {r.g.node("Sqrt", {r.operand(0)})})}; }
Names log_sigmoid(const Row& r) { return {r.g.node("Neg", {r.g.node("Softplus", {r.g.node("Neg", {r.operand(0)})})})}; }
Names silu(const Row& r) { return {r.g.node("Mul", {r.operand(0), r.g.node("Sigmoid", {r.operand(0)})})}; }
Names mish(const Row& r) {
  const Name x = r.operand(0);
  return {r.g.node("Mul", {x, r.g.node("Tanh", {r.g.node("Softplus", {x})})})};
}
Names trunc(const Row& r) {
  const Name x = r.operand(0);
  return {r.g.node("Mul", {r.g.node("Sign", {x}), r.g.node("Floor", {r.g.node("Abs", {x})})})};
}
// x (1 + f) / 2, in the order that ONNX Runtime fuses
Name half_of(const Row& r, const Name& x, const Name& f) {
  return with_number(r, "Mul", r.g.node("Mul", {x, with_number(r, "Add", f, 1)}), 0.5);
}
Names gelu(const Row& r) {
  const Name x = r.operand(0);
  return {half_of(r, x, r.g.node("Erf", {with_number(r, "Mul", x, std::sqrt(0.5))}))};
}
// tanh(sqrt(2 / pi) (x + 0.044715 x^3))
Names gelu_tanh(const Row& r) {
  const Name x = r.operand(0), cube = with_number(r, "Mul", with_number(r, "Pow", x, 3), 0.044715);
  const Name inner = with_number(r, "Mul", r.g.node("Add", {x, cube}), std::sqrt(2 / std::acos(-1.)));
  return {half_of(r, x, r.g.node("Tanh", {inner}))};
}
Names with_alpha(const Row& r, const char* op) {
  return {r.g.node(op, {r.operand(0)}, {}, {{"alpha", static_cast<float>(r.real("parameter"))}})};
}
Names leaky_relu(const Row& r) { return with_alpha(r, "LeakyRelu"); }
Names elu(const Row& r) { return with_alpha(r, "Elu"); }
Names celu(const Row& r) { return with_alpha(r, "Celu"); }
Names hardsigmoid(const Row& r) {
  return {r.g.node("HardSigmoid", {r.operand(0)}, {}, {{"alpha", 1.F / 6}, {"beta", 0.5F}})};
}
Names clip(const Row& r, double low, double high) {
  const DType t = r.y().dtype();
  return {r.g.node("Clip", {r.operand(0), r.g.number(low, t), r.g.number(high, t)})};
}
Names clamp(const Row& r) { return clip(r, r.real("low"), r.real("high")); }
Names hardtanh(const Row& r) { return clip(r, -1, 1); }
Names relu6(const Row& r) { return clip(r, 0, 6); }
Names where(const Row& r) {
  const DType t = r.y().dtype();
  const Name condition = r.input(0);
  if (r.has("self")) return {r.g.node("Where", {condition, r.g.number(r.real("self"), t), r.operand(1)})};
  if (r.has("other")) return {r.g.node("Where", {condition, r.operand(1), r.g.number(r.real("other"), t)})};
  return {r.g.node("Where", {condition, r.operand(1), r.operand(2)})};
}
Names masked_fill(const Row& r) {
  return {r.g.node("Where", {r.input(1), r.g.number(r.real("value"), r.y().dtype()), r.operand(0)})};
}
Names to(const Row& r) { return {r.g.cast(r.input(0), r.y().dtype())}; }

// ---- reductions ----------------------------------------------------------------------------------------------------

bool keeps(const Row& r) { return r.integer("keepdims") != 0; }

Names reduction(const Row& r, const char* op) {
  if (r.integers("axes").empty()) return {r.operand(0)};  // of one number
  return {r.g.reduced(op, r.operand(0), r.integers("axes"), keeps(r))};
}
Names sum(const Row& r) { return reduction(r, "ReduceSum"); }
Names mean(const Row& r) { return reduction(r, "ReduceMean"); }
// The total of (a - b)^2 over all axes.
Names distance(const Row& r, const char* total) {
  const Name d = r.g.node("Sub", {r.operand(0), r.operand(1)});
  return {r.g.node(total, {r.g.node("Mul", {d, d})}, {{"keepdims", {0}}})};
}
Names squared_distance(const Row& r) { return distance(r, "ReduceSum"); }
Names mean_squared_distance(const Row& r) { return distance(r, "ReduceMean"); }
Names maximum_along(const Row& r) { return reduction(r, "ReduceMax"); }
Names minimum_along(const Row& r) { return reduction(r, "ReduceMin"); }
Names logsumexp(const Row& r) { return reduction(r, "ReduceLogSumExp"); }

// The sum of (x - mean)^2, divided by n - correction.
Name variance(const Row& r) {
  const Integers& axes = r.integers("axes");
  const Name x = r.operand(0), centre = r.g.reduced("ReduceMean", x, axes, true);
  const Name distance = r.g.node("Sub", {x, centre}), square = r.g.node("Mul", {distance, distance});
  const Name total = r.g.reduced("ReduceSum", square, axes, keeps(r));
  const Name mean_square = r.g.reduced("ReduceMean", square, axes, keeps(r));
  // total / (total / mean - correction)
  if (r.integer("correction") == 0) return mean_square;
  const Name sizes = r.g.node("Gather", {r.g.node("Shape", {x}), r.g.integers(axes)}, {{"axis", {0}}});
  const Name count = r.g.cast(r.g.node("ReduceProd", {sizes}, {{"keepdims", {0}}}), r.y().dtype());
  return r.g.node("Div", {total, with_number(r, "Sub", count, static_cast<double>(r.integer("correction")))});
}
Names var(const Row& r) { return {variance(r)}; }
Names std_of(const Row& r) { return {r.g.node("Sqrt", {variance(r)})}; }

Names norm(const Row& r) {
  if (r.integers("axes").empty()) return {r.g.node("Abs", {r.operand(0)})};
  if (r.real("p") == 1) return reduction(r, "ReduceL1");
  if (r.real("p") == 2) return reduction(r, "ReduceL2");
  r.fail("has p " + std::to_string(r.real("p")) + ": only 1 and 2 have an ONNX form");
}
Names product(const Row& r) { return reduction(r, "ReduceProd"); }

Names distances(const Row& r) {
  const Name a = r.g.node("Unsqueeze", {r.operand(0), r.g.integers({-2})}),
             b = r.g.node("Unsqueeze", {r.operand(1), r.g.integers({-3})});
  return {r.g.reduced("ReduceL2", r.g.node("Sub", {a, b}), {-1}, false)};
}

Names cumsum(const Row& r) {
  const Name axis = r.g.constant(full({}, r.integer("axis"), int64));
  return {r.g.node("CumSum", {r.operand(0), axis}, {{"reverse", {r.integer("backwards")}}})};
}

// ---- rows ----------------------------------------------------------------------------------------------------------

Names softmax(const Row& r) { return {r.g.node("Softmax", {r.operand(0)}, {{"axis", {r.integer("axis")}}})}; }
Names log_softmax(const Row& r) { return {r.g.node("LogSoftmax", {r.operand(0)}, {{"axis", {r.integer("axis")}}})}; }

Names layer_norm(const Row& r) {
  const Name x = r.operand(0);
  const auto no_weight = [&] {
    const Name n = r.g.node("Gather", {r.g.node("Shape", {x}), r.g.integers({-1})}, {{"axis", {0}}});
    return r.g.node("Expand", {r.g.number(1, r.y().dtype()), n});
  };
  Names inputs{x, r.has_input(1) ? r.operand(1) : no_weight()};
  if (r.has_input(2)) inputs.push_back(r.operand(2));
  const auto eps = static_cast<float>(r.real("eps"));
  return {r.g.node("LayerNormalization", inputs, {{"axis", {-1}}}, {{"epsilon", eps}})};
}
Names rms_norm(const Row& r) {
  const Name x = r.operand(0), square = r.g.node("Mul", {x, x});
  const Name mean = r.g.reduced("ReduceMean", square, {-1}, true);
  const Name root = r.g.node("Sqrt", {with_number(r, "Add", mean, r.real("eps"))}), y = r.g.node("Div", {x, root});
  return {r.has_input(1) ? r.g.node("Mul", {y, r.operand(1)}) : y};
}

// ---- products ------------------------------------------------------------------------------------------------------

Integers swapped(int rank) {
  Integers axes;
  for (int a = 0; a < rank; ++a) axes.push_back(a);
  std::swap(axes[static_cast<std::size_t>(rank) - 1], axes[static_cast<std::size_t>(rank) - 2]);
  return axes;
}
Names matmul(const Row& r) {
  const auto side = [&](std::size_t i, const char* turned) {
    const Name x = r.operand(i);
    return r.integer(turned) ? r.g.node("Transpose", {x}, {{"perm", swapped(r.x(i).rank())}}) : x;
  };
  return {r.g.node("MatMul", {side(0, "transpose_a"), side(1, "transpose_b")})};
}
Names linear(const Row& r) {
  const Name weight = r.g.node("Transpose", {r.operand(1)}, {{"perm", {1, 0}}});
  const Name y = r.g.node("MatMul", {r.operand(0), weight});
  return {r.has_input(2) ? r.g.node("Add", {y, r.operand(2)}) : y};
}

// ---- shapes --------------------------------------------------------------------------------------------------------

Names reshape(const Row& r) { return {r.g.node("Reshape", {r.input(0), r.g.sizes(r.shape())})}; }
Names expand(const Row& r) { return {r.g.node("Expand", {r.input(0), r.g.sizes(r.shape())})}; }
Names transpose(const Row& r) { return {r.g.node("Transpose", {r.input(0)}, {{"perm", r.integers("axes")}})}; }
Names cat(const Row& r) {
  Names parts;
  for (std::size_t i = 0; r.has_input(i); ++i)
    if (!r.is_empty(i)) parts.push_back(r.operand(i));
  return {r.g.node("Concat", parts, {{"axis", {r.integer("axis")}}})};
}
Names split(const Row& r) {
  return r.g.nodes("Split", {r.input(0), r.g.sizes(r.list("sizes"))}, r.outputs(), {{"axis", {r.integer("axis")}}});
}
// start, start + step, …: `taken` of each axis.
Names slice(const Row& r) {
  const Integers& step = r.integers("step");
  const std::vector<Size> starts = r.list("start"), taken = r.list("taken");
  Names x{r.input(0)};
  for (std::size_t a = 0; a < starts.size(); ++a) {
    const auto at = static_cast<int>(a);
    const std::int64_t start = starts[a].coefficient;
    if (r.takes_all(at)) continue;
    Name end;
    if (taken[a].axes.empty() && starts[a].axes.empty()) {
      const std::int64_t last = start + step[a] * taken[a].coefficient;
      end = r.g.integers({step[a] < 0 && last < 0 ? INT64_MIN : last});
    } else if (step[a] == 1 && start == 0) {
      end = r.g.sizes({taken[a]});
    } else if (step[a] == 1) {
      end = r.g.node("Add", {r.g.sizes({starts[a]}), r.g.sizes({taken[a]})});
    } else {
      r.fail("takes a part with a step along an axis that is free");
    }
    x = {r.g.node("Slice", {x[0], r.g.sizes({starts[a]}), end, r.g.integers({at}), r.g.integers({step[a]})})};
  }
  const bool same_rank = r.x().rank() == r.y().rank();
  return same_rank ? x : Names{r.g.node("Reshape", {x[0], r.g.sizes(r.shape())})};
}
Names gather_rows(const Row& r) {
  return {r.g.node("Gather", {r.input(0), r.tensor("ids")}, {{"axis", {r.integer("axis")}}})};
}
Names gather(const Row& r) {
  return {r.g.node("GatherElements", {r.input(0), r.tensor("ids")}, {{"axis", {r.integer("axis")}}})};
}
Names flip(const Row& r) {
  const Integers& axes = r.integers("axes");
  const Integers first(axes.size(), -1), last(axes.size(), INT64_MIN);
  if (axes.empty()) return {r.input(0)};
  return {r.g.node("Slice",
                   {r.input(0), r.g.integers(first), r.g.integers(last), r.g.integers(axes), r.g.integers(first)})};
}
Names roll(const Row& r) {
  const Name cut = r.g.integers({-r.integer("shift")}), axis = r.g.integers({r.integer("axis")});
  const Name last = r.g.node("Slice", {r.input(0), cut, r.g.integers({INT64_MAX}), axis});
  const Name first = r.g.node("Slice", {r.input(0), r.g.integers({0}), cut, axis});
  return {r.g.node("Concat", {last, first}, {{"axis", {r.integer("axis")}}})};
}
Names pad(const Row& r) {
  Integers widths = r.integers("before");
  widths.insert(widths.end(), r.integers("after").begin(), r.integers("after").end());
  return {r.g.node("Pad", {r.input(0), r.g.integers(widths), r.g.number(r.real("value"), r.y().dtype())})};
}
Names triangle(const Row& r, std::int64_t upper) {
  const Name diagonal = r.g.constant(full({}, r.integer("diagonal"), int64));
  return {r.g.node("Trilu", {r.input(0), diagonal}, {{"upper", {upper}}})};
}
Names tril(const Row& r) { return triangle(r, 0); }
Names triu(const Row& r) { return triangle(r, 1); }

// ---- rotary positions ----------------------------------------------------------------------------------------------

// The cosines (part 0) or sines (1) of the positions, (…, T, 1, D/2).
Name angles(const Row& r, int part) {
  const Name place = r.g.constant(full({}, part, int64));
  Name all = r.g.node("Gather", {r.operand(1), place}, {{"axis", {2}}}), rows;  // [positions, D/2]
  if (part == 1 && r.integer("inverse")) all = r.g.node("Neg", {all});
  if (r.raw_tensor("positions").defined()) {
    rows = r.g.node("Gather", {all, r.tensor("positions")}, {{"axis", {0}}});
  } else {
    const auto T = static_cast<std::size_t>(r.x().rank()) - 2;
    const Name start = r.g.sizes({r.size("offset")}), length = r.g.sizes({r.shape()[T]});
    rows = r.g.node("Slice", {all, start, r.g.node("Add", {start, length}), r.g.integers({0})});
  }
  return r.g.node("Unsqueeze", {rows, r.g.integers({-2})});
}

Name part_of(const Row& r, const Name& x, std::int64_t begin, std::int64_t end) {
  return r.g.node("Slice", {x, r.g.integers({begin}), r.g.integers({end}), r.g.integers({-1})});
}

// Pairs (a, b) of the D features of heads become (a cos - b sin, b cos + a sin). `heads`: the axes before the features.
Name turned(const Row& r, const Name& x, const Integers& heads, std::int64_t D) {
  const bool interleaved = r.integer("interleaved") != 0;
  const std::int64_t axis = interleaved ? -1 : -2;
  Integers pairs = heads;
  for (const std::int64_t size : {interleaved ? D / 2 : 2, interleaved ? 2 : D / 2}) pairs.push_back(size);
  const Name by_pairs = r.g.node("Reshape", {x, r.g.integers(pairs)});
  const auto of_pairs = [&](std::int64_t i) {
    return r.g.node("Gather", {by_pairs, r.g.constant(full({}, i, int64))}, {{"axis", {axis}}});
  };
  const Name a = of_pairs(0), b = of_pairs(1), cosine = angles(r, 0), sine = angles(r, 1);
  const auto product = [&](const Name& u, const Name& v) { return r.g.node("Mul", {u, v}); };
  const Name first = r.g.node("Sub", {product(a, cosine), product(b, sine)});
  const Name second = r.g.node("Add", {product(b, cosine), product(a, sine)});
  const Name place = r.g.integers({axis});
  return r.g.node("Concat", {r.g.node("Unsqueeze", {first, place}), r.g.node("Unsqueeze", {second, place})},
                  {{"axis", {axis}}});
}

// The first `rotated` features are heads, of each of which the first D features turn.
Names rotary(const Row& r) {
  const std::int64_t W = r.x().size(-1), D = 2 * r.x(1).size(1);
  const std::int64_t head = r.integer("head_size"), rotated = r.integer("features");
  if (rotated == 0) return {r.operand(0)};
  const Name x = r.operand(0), some = rotated < W ? part_of(r, x, 0, rotated) : x;
  const Integers outer(static_cast<std::size_t>(r.x().rank()) - 1, 0);  // 0: the size stays
  Integers heads = outer, back = outer;
  heads.push_back(rotated / head), back.push_back(rotated);
  const auto with_features = [&](const Name& parts, std::int64_t features) {
    Integers sizes = heads;
    sizes.push_back(features);
    return r.g.node("Reshape", {parts, r.g.integers(sizes)});
  };
  Name y;
  if (head == D) {
    y = turned(r, some, heads, D);
  } else {
    const Name whole = with_features(some, head), rest = part_of(r, whole, D, head);
    const Name some_turned = with_features(turned(r, part_of(r, whole, 0, D), heads, D), D);
    y = r.g.node("Concat", {some_turned, rest}, {{"axis", {-1}}});
  }
  y = r.g.node("Reshape", {y, r.g.integers(back)});
  return {rotated < W ? r.g.node("Concat", {y, part_of(r, x, rotated, W)}, {{"axis", {-1}}}) : y};
}

}  // namespace

Write find_row(const std::string& op) {
  static const std::unordered_map<std::string, Write> rows{{"add", add},
                                                           {"sub", sub},
                                                           {"mul", mul},
                                                           {"div", div},
                                                           {"maximum", maximum},
                                                           {"minimum", minimum},
                                                           {"pow", pow},
                                                           {"log1p", log1p},
                                                           {"log2", log2},
                                                           {"log10", log10},
                                                           {"expm1", expm1},
                                                           {"rsqrt", rsqrt},
                                                           {"log_sigmoid", log_sigmoid},
                                                           {"silu", silu},
                                                           {"mish", mish},
                                                           {"trunc", trunc},
                                                           {"gelu", gelu},
                                                           {"gelu_tanh", gelu_tanh},
                                                           {"leaky_relu", leaky_relu},
                                                           {"elu", elu},
                                                           {"celu", celu},
                                                           {"hardsigmoid", hardsigmoid},
                                                           {"hardtanh", hardtanh},
                                                           {"relu6", relu6},
                                                           {"clamp", clamp},
                                                           {"where", where},
                                                           {"masked_fill", masked_fill},
                                                           {"to", to},
                                                           {"sum", sum},
                                                           {"mean", mean},
                                                           {"squared_distance", squared_distance},
                                                           {"mean_squared_distance", mean_squared_distance},
                                                           {"max", maximum_along},
                                                           {"amax", maximum_along},
                                                           {"min", minimum_along},
                                                           {"amin", minimum_along},
                                                           {"logsumexp", logsumexp},
                                                           {"var", var},
                                                           {"std", std_of},
                                                           {"cumsum", cumsum},
                                                           {"softmax", softmax},
                                                           {"log_softmax", log_softmax},
                                                           {"layer_norm", layer_norm},
                                                           {"rms_norm", rms_norm},
                                                           {"matmul", matmul},
                                                           {"linear", linear},
                                                           {"reshape", reshape},
                                                           {"flatten", reshape},
                                                           {"squeeze", reshape},
                                                           {"unsqueeze", reshape},
                                                           {"broadcast_to", expand},
                                                           {"transpose", transpose},
                                                           {"permute", transpose},
                                                           {"cat", cat},
                                                           {"split", split},
                                                           {"pad", pad},
                                                           {"index", slice},
                                                           {"slice", slice},
                                                           {"embedding", gather_rows},
                                                           {"index_select", gather_rows},
                                                           {"gather", gather},
                                                           {"tril", tril},
                                                           {"triu", triu},
                                                           {"rotary", rotary},
                                                           {"conv1d", convolution},
                                                           {"conv2d", convolution},
                                                           {"conv_transpose1d", transposed_convolution},
                                                           {"conv_transpose2d", transposed_convolution},
                                                           {"max_pool1d", max_pool},
                                                           {"max_pool2d", max_pool},
                                                           {"avg_pool1d", average_pool},
                                                           {"avg_pool2d", average_pool},
                                                           {"interpolate", interpolate},
                                                           {"batch_norm", batch_norm},
                                                           {"group_norm", group_norm},
                                                           {"glu", glu},
                                                           {"lstm_steps", lstm},
                                                           {"gru_steps", gru},
                                                           {"rnn_steps", rnn},
                                                           {"square", square},
                                                           {"prod", product},
                                                           {"norm", norm},
                                                           {"cdist", distances},
                                                           {"flip", flip},
                                                           {"roll", roll},
                                                           {"attention", write_attention}};
  if (simple_function(op)) return function;
  const auto found = rows.find(op);
  return found == rows.end() ? nullptr : found->second;
}

}  // namespace fit::nn::onnx
