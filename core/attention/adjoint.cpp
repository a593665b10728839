// The node of a call of attention, and its adjoint.
#include "attention/lowered_call.hpp"
#include "fit/ops/ops.hpp"
#include "ops/common/composed.hpp"
#include "tensor/dispatch.hpp"

namespace fit::detail {
namespace {

// The adjoint of a call. The node has
//   inputs: the tensors of q, k and v (undefined where input_of() names another one), the bias and the sink (which may
//     be undefined), the tables of the function of scores;
//   outputs: that of attention, and then the weights and lse, if the options ask for them;
//   saved values: those of Saved.
struct Adjoint {
  struct Place {
    std::size_t input;
    HeadLayout layout;
    std::int64_t offset;
  };
  static constexpr int bias = 3, sink = 4, tables = 5;                           // inputs
  enum Saved { saved_stats, saved_alibi, saved_tiles, saved_bits, saved_code };  // code: of the function of scores

  kernels::Attention<> a;  // without tiles
  Place places[3];
  bool weights, lse;  // whether they are outputs
  bool check;         // see kernels::AttentionBackward
  const ExpressionMethods* score_methods;

  Adjoint(const AttentionCall& call, const Computed& computed)
      : a(call.a),
        weights(computed.result.weights.defined()),
        lse(computed.result.lse.defined()),
        check(computed.check),
        score_methods(call.score ? call.score->methods : nullptr) {
    a.tiles = {}, a.bits = nullptr;
    for (std::size_t i = 0; i < 3; ++i)
      places[i] = {input_of(call.operands, i), call.operands[i].layout, call.operands[i].offset};
  }

  // q, k and v, as parts of the inputs x; or their gradients, as parts of the gradients x.
  std::array<Heads, 3> heads(const Tensor* x) const {
    const auto at = [&](const Place& p, std::int64_t heads, std::int64_t features) {
      return Heads{x[p.input], p.layout, heads, features, p.offset};
    };
    return {at(places[0], a.H, a.D), at(places[1], a.kv_heads, a.D), at(places[2], a.kv_heads, a.Dv)};
  }
  // The call, from the inputs x and the saved values.
  AttentionCall call(Backward& b, const Tensor* x) const {
    static const AttentionOptions none;
    AttentionCall c{"attention", none, heads(x)};
    c.a = a, c.bias = x[bias], c.alibi = b.saved(saved_alibi), c.sink = x[sink];
    c.plan = {b.saved(saved_tiles), b.saved(saved_bits)};
    c.plan.apply(c.a);
    if (b.has_saved(saved_code))
      c.score.emplace(*score_methods, b.saved(saved_code), std::vector<Tensor>(x + tables, x + b.inputs()),
                      a.Sk - a.Sq);
    return c;
  }

  void operator()(Backward& b) const {
    if (b.recording() || (weights && b.has_dy(1)))
      by_operations(b);
    else
      in_tiles(b);
  }

  // The decomposition can be differentiated again, and has the gradient of the weights.
  void by_operations(Backward& b) const {
    give_by_decomposition(
        b, [&](const std::vector<Tensor>& x) { return outputs(decomposed_attention(call(b, x.data()))); });
  }

  // The outputs of the node.
  std::vector<Tensor> outputs(const AttentionResult& r) const {
    std::vector<Tensor> all{r.output};
    if (weights) all.push_back(r.weights);
    if (lse) all.push_back(r.lse);
    return all;
  }

  // Memory for the gradient of each operand, bias and sink. A tensor with parts that are no operand gets zeros.
  std::vector<Tensor> gradients(Backward& b, const AttentionCall& c, const std::vector<Tensor>& x) const {
    std::vector<Tensor> dx(tables);
    for (std::size_t i = 0; i < 3; ++i) {
      if (!x[i].defined()) continue;
      std::int64_t covered = 0;
      for (std::size_t j = 0; j < 3; ++j)
        if (places[j].input == i) covered += c.operands[j].heads * c.operands[j].features;
      const bool all = places[i].layout != HeadLayout::part || covered == x[i].size(-1);
      dx[i] = all ? Tensor::empty(x[i].shape(), x[i].dtype()) : zeros(x[i].shape(), x[i].dtype());
    }
    for (const int i : {bias, sink})
      if (b.wants(i)) dx[i] = Tensor::empty(x[i].shape(), x[i].dtype());
    return dx;
  }

  void in_tiles(Backward& b) const {
    std::vector<Tensor> x;
    x.reserve(static_cast<std::size_t>(b.inputs()));
    for (int i = 0; i < b.inputs(); ++i) x.push_back(b.x(i));
    const AttentionCall c = call(b, x.data());
    std::vector<Tensor> dx = gradients(b, c, x);
    dispatch_floating(c.dtype(), [&](auto zero) { compute<decltype(zero)>(b, c, dx); });
    for (int i = 0; i < tables; ++i)
      if (dx[i].defined()) b.give(i, std::move(dx[i]));
  }

  // Computes dx, and gives the gradients of the tables.
  template <class T>
  void compute(Backward& b, const AttentionCall& c, std::vector<Tensor>& dx) const {
    using W = AccT<T>;
    std::vector<bool> wanted;  // of the tables
    for (int i = tables; i < b.inputs(); ++i) wanted.push_back(b.wants(i));
    const LoweredCall<T> lowered(c, wanted);
    std::array<Heads, 3> d = heads(dx.data());  // destroyed before dx is given: give() copies a gradient that is shared
    const auto gradient = [](Heads& h) { return view(h, h.x.fresh<T>()); };
    kernels::AttentionGradients<T> to{gradient(d[0]), gradient(d[1]), gradient(d[2]), {}};
    if (b.wants(bias)) to.dbias = view_scores(dx[bias].fresh<W>(), dx[bias]);
    if (b.wants(sink)) to.dsink = dx[sink].fresh<W>();
    Tensor dtables;
    if (c.score) {
      dtables = Tensor::empty({lowered.score()->program()->gradients}, dtype_of<W>());
      to.dtables = dtables.fresh<W>();
    }
    const int lse_at = weights ? 2 : 1;
    const Tensor stats = b.saved(saved_stats), dout = b.dy(0), dlse = lse && b.has_dy(lse_at) ? b.dy(lse_at) : Tensor();
    kernels::attention_backward<T>({*lowered, view<T>(c.contexts(b.y(0))), stats_in(a, stats.data<W>().data()),
                                    view<T>(c.contexts(dout)), to, check,
                                    dlse.defined() ? dlse.data<W>().data() : nullptr});
    for (int i = tables; i < b.inputs(); ++i) {
      const std::size_t table = static_cast<std::size_t>(i - tables);
      const std::int64_t first = wanted[table] ? lowered.score()->gradient(table) : -1;
      if (first >= 0) b.give(i, reshape(slice(dtables, 0, first, first + b.x(i).numel()), b.x(i).shape()));
    }
  }
};

}  // namespace

std::size_t input_of(const std::array<Heads, 3>& operands, std::size_t i) {
  const auto is_part = [&](std::size_t j) { return operands[j].layout == HeadLayout::part; };
  for (std::size_t j = 0; j < i; ++j)
    if (is_part(i) && is_part(j) && operands[i].x.impl() == operands[j].x.impl()) return j;
  return i;
}

void record_call(const AttentionCall& call, Computed& computed) {
  AttentionResult& r = computed.result;
  Tensor inputs[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (input_of(call.operands, i) == i) inputs[i] = call.operands[i].x;
  const Tensor code = call.score ? call.score->code() : Tensor();
  const Keep kept = keep::inputs | keep::output |  // as in Adjoint::Saved
                    keep::saved(computed.stats, call.alibi, call.plan.tiles, call.plan.bits, code);
  const std::initializer_list<Inputs::Ref> operands_and_terms{inputs[0], inputs[1], inputs[2], call.bias, call.sink};
  const std::vector<Tensor> no_tables;
  const Inputs all(operands_and_terms, call.score ? call.score->tables : no_tables);
  const Adjoint adjoint(call, computed);
  std::int64_t layouts[3], offsets[3], tensors[3];  // of q, k and v
  for (std::size_t i = 0; i < 3; ++i) {
    layouts[i] = static_cast<std::int64_t>(call.operands[i].layout), offsets[i] = call.operands[i].offset;
    tensors[i] = static_cast<std::int64_t>(input_of(call.operands, i));
  }
  const std::initializer_list<OpAttribute> attributes{
      {"heads", call.a.H},
      {"kv_heads", call.a.kv_heads},
      {"features", call.a.D},
      {"value_features", call.a.Dv},
      {"layouts", Span<const std::int64_t>(layouts, 3)},
      {"offsets", Span<const std::int64_t>(offsets, 3)},
      {"tensors", Span<const std::int64_t>(tensors, 3)},
      {"scale", call.a.scale},
      {"causal", call.a.causal},
      {"window", call.options.window()},  // as given: other lengths may reach it
      {"dropout", call.a.dropout.p},
      {"mask", call.options.mask()},
      {"alibi", call.alibi},
      {"attends", call.attends.has_value()},
      {"score", call.score.has_value()}};
  const OpName op("attention", attributes);
  if (!adjoint.weights && !adjoint.lse) {
    r.output = record(op, all, std::move(r.output), kept, adjoint);
    return;
  }
  std::vector<Tensor> outputs = adjoint.outputs(r);
  record(op, all, outputs, kept, adjoint);
}

}  // namespace fit::detail
