// Attention as products and a softmax: the formula of core/attention/attend.hpp.
#include "fit/attention/attention.hpp"

#include <limits>

#include "fit/ops/ops.hpp"
#include "onnx/graph.hpp"

namespace fit::nn::onnx {
namespace {

class Attention {
 public:
  explicit Attention(const Row& row)
      : r(row), g(row.g), H(r.integer("heads")), kv_heads(r.integer("kv_heads")), t(r.y().dtype()) {
    if (r.integer("score")) r.fail("has a function of the scores, which has no ONNX form");
    if (r.integer("attends")) r.fail("has a mask that is an expression, which has no ONNX form: give it as a tensor");
    if (r.has_input(4)) r.fail("has a sink, which has no ONNX form");
    if (r.real("dropout") > 0) r.fail("drops weights: call eval() first");
  }

  Names write() {
    const std::int64_t D = r.integer("features"), Dv = r.integer("value_features");
    // One node has no place for two biases, and gives no 0 for a row that is fully masked.
    const bool alone =
        g.opset() >= 23 && !r.raw_tensor("alibi").defined() && !r.has_input(3) && !r.raw_tensor("mask").defined();
    const Name q = heads(0, H, D), k = heads(1, kv_heads, D), v = heads(2, kv_heads, Dv);
    find_sizes(q, k);
    const Name y = alone ? one_node(q, k, v) : expanded(q, k, v);  // [B, H, Sq, Dv]
    if (layout(0) == HeadLayout::first) return {r.x().rank() == 4 ? y : g.node("Reshape", {y, g.sizes(r.shape())})};
    const Name last = g.node("Transpose", {y}, {{"perm", {0, 2, 1, 3}}});
    return {g.node("Reshape", {last, g.integers({0, 0, H * Dv})})};
  }

 private:
  HeadLayout layout(std::size_t i) const { return static_cast<HeadLayout>(r.integers("layouts")[i]); }
  Name number(double x) { return g.number(x, t); }

  Name one_node(const Name& q, const Name& k, const Name& v) {
    Names inputs{q, k, v};
    if (const Name attends = pairs(); !attends.empty()) inputs.push_back(attends);
    return g.node("Attention", inputs, {}, {{"scale", static_cast<float>(r.real("scale"))}});
  }

  Name expanded(const Name& q, const Name& k, const Name& v) {
    const Name turned = g.node("Transpose", {k}, {{"perm", {0, 1, 3, 2}}});
    Name scores = g.node("MatMul", {g.node("Mul", {q, number(r.real("scale"))}), turned});
    if (r.has_input(3)) scores = g.node("Add", {scores, r.operand(3)});
    if (r.raw_tensor("alibi").defined()) scores = g.node("Sub", {scores, alibi()});
    const Name attends = pairs();
    if (!attends.empty()) scores = g.node("Where", {attends, scores, number(-std::numeric_limits<double>::infinity())});
    Name weights = g.node("Softmax", {scores}, {{"axis", {-1}}});
    if (!attends.empty()) weights = g.node("Where", {attends, weights, number(0)});  // a fully masked row is 0
    return g.node("MatMul", {weights, v});
  }

  // Queries (0), keys (1) or values (2) as [B, H, S, features].
  Name heads(std::size_t i, std::int64_t count, std::int64_t features) {
    const auto tensor = static_cast<std::size_t>(r.integers("tensors")[i]);
    Name x = r.operand(tensor);
    if (layout(i) == HeadLayout::first) {
      for (int rank = r.x(tensor).rank(); rank < 4; ++rank)
        x = g.node("Unsqueeze", {x, g.integers({rank == 2 ? 0 : 1})});
    } else {
      const std::int64_t begin = r.integers("offsets")[i];
      if (layout(i) == HeadLayout::part)
        x = g.node("Slice", {x, g.integers({begin}), g.integers({begin + count * features}), g.integers({2})});
      x = g.node("Transpose", {g.node("Reshape", {x, g.integers({0, 0, count, features})})}, {{"perm", {0, 2, 1, 3}}});
    }
    if (count == H) return x;
    Integers shared;  // the head of each head of the queries
    for (std::int64_t h = 0; h < H; ++h) shared.push_back(h / (H / count));
    return g.node("Gather", {x, g.integers(shared)}, {{"axis", {1}}});
  }

  void find_sizes(const Name& q, const Name& k) {
    const auto length = [&](const Name& x) {
      return g.node("Gather", {g.node("Shape", {x}), whole(2)}, {{"axis", {0}}});
    };
    queries_ = length(q), keys_ = length(k);
    ahead_ = g.node("Sub", {keys_, queries_});  // the place of query 0
  }

  // key - place of the query, [Sq, Sk] int64.
  Name distances() {
    const Name zero = whole(0), one = whole(1);
    const Name place = g.node("Add", {g.node("Range", {zero, queries_, one}), ahead_});
    return g.node("Sub", {g.node("Range", {zero, keys_, one}), g.node("Unsqueeze", {place, g.integers({1})})});
  }
  Name whole(std::int64_t x) { return g.constant(full({}, x, int64)); }

  Name alibi() {
    const Name slope = g.node("Reshape", {g.cast(r.tensor("alibi"), t), g.integers({1, H, 1, 1})});
    return g.node("Mul", {slope, g.cast(g.node("Abs", {distances()}), t)});
  }

  // Which query attends to which key; empty if all do.
  Name pairs() {
    Name all;
    const auto both = [&](const Name& some) { all = all.empty() ? some : g.node("And", {all, some}); };
    const std::int64_t window = r.integer("window");
    if (r.raw_tensor("mask").defined()) both(mask());
    if (!r.integer("causal") && window == 0) return all;
    const Name distance = distances();
    if (r.integer("causal"))
      both(g.node("LessOrEqual", {distance, whole(0)}));
    else
      both(g.node("Less", {distance, whole(window)}));
    if (window > 0) both(g.node("Greater", {distance, whole(-window)}));
    return all;
  }
  Name mask() {
    const Tensor& given = r.raw_tensor("mask");
    Name x = r.tensor("mask");
    if (given.dtype() != boolean) x = g.cast(x, boolean);
    return given.rank() == 3 ? g.node("Unsqueeze", {x, g.integers({1})}) : x;
  }

  const Row& r;
  Graph& g;
  std::int64_t H, kv_heads;
  DType t;
  Name queries_, keys_, ahead_;
};

}  // namespace

Names write_attention(const Row& r) { return Attention(r).write(); }

}  // namespace fit::nn::onnx
