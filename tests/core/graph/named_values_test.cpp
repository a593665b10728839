#include "fit/graph/named_values.hpp"

#include <map>
#include <string>
#include <vector>

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Values that attention offers to observers.
namespace fit::test::named_values_test {
namespace {

using Catch::Matchers::Contains;

struct Editor final : ValueObserver {
  bool wants_value(const ValueInfo& info) const override { return edits.count(info.name) > 0; }
  void value_computed(const ValueInfo& info, Tensor& x) override {
    shapes.push_back(x.shape());
    x = edits[info.name](x);
  }
  std::map<std::string, Callable<Tensor(const Tensor&)>> edits;
  std::vector<Shape> shapes;
};

Tensor by_layout(const Tensor& h) { return transpose(h.reshape({2, 5, 2, 3}), 1, 2); }

}  // namespace

TEST_CASE("heads are offered before and after attention, which stays fused", "[observer]") {
  manual_seed(7);
  const auto operand = [] { return randn({2, 5, 6}, float64).requires_grad_(); };
  const Tensor q = operand(), k = operand(), v = operand(), packed = cat({q, k, v}, -1);
  AttentionOptions o;
  o.causal(true);
  const auto attention = [&] { return multi_head_attention(q, k, v, 2, o); };
  const Tensor plain = attention();
  Editor editor;
  const Observe watching(editor);
  const auto same = [](const Tensor& x) { return x; };
  Tensor scores;
  editor.edits = {
      {"q", same}, {"k", same}, {"v", same}, {"z", same}, {"scores", [&](const Tensor& s) { return scores = s; }}};
  CHECK(same_bits(attention(), plain));
  CHECK(attention().grad_fn() == std::string("attention"));
  CHECK(same_bits(packed_self_attention(packed, 2, o), plain));
  CHECK(editor.shapes.size() == 15);
  const Tensor weights = attend(heads_last(q, 2), heads_last(k), heads_last(v), AttentionOptions(o).weights()).weights;
  CHECK(max_difference(softmax(scores), weights) < 1e-12);
  CHECK_FALSE(scores.requires_grad());

  const Tensor other = randn({2, 2, 5, 3}, float64);
  const Tensor merged = transpose(other, 1, 2).reshape({2, 5, 6});
  editor.edits.clear();
  const Tensor expected = multi_head_attention(merged, k, v, 2, o);
  editor.edits["q"] = [&](const Tensor& x) {
    CHECK(same_bits(x, by_layout(q)));
    return other;
  };
  CHECK(same_bits(attention(), expected));
  CHECK(max_difference(packed_self_attention(packed, 2, o), expected) < 1e-12);
  CHECK(max_difference(scaled_dot_product_attention(by_layout(q), by_layout(k), by_layout(v), o), by_layout(expected)) <
        1e-12);
  editor.edits = {{"z", [](const Tensor& z) { return z * 2; }}};
  CHECK(same_bits(attention(), plain * 2));
}

TEST_CASE("a value that does not fit, or is changed in place, is an error", "[observer]") {
  Editor editor;
  const Observe watching(editor);
  editor.edits["x"] = [](const Tensor&) { return ones({3}); };
  CHECK_THROWS_WITH(observed("x", ones({2})), Contains("[observed] x has shape [3]: it must be [2]"));
  editor.edits["x"] = [](const Tensor& x) { return x.to(float64); };
  CHECK_THROWS_WITH(observed("x", ones({2})), Contains("[observed] x is float64: it must be float32"));
  editor.edits["x"] = [](const Tensor& x) { return Tensor(x).mul_(2); };
  CHECK_THROWS_WITH(observed("x", ones({2})), Contains("[observed] an observer has changed x") && Contains("in place"));
  CHECK_FALSE(value_wanted("y"));
  CHECK(same_bits(observed("y", ones({2})), ones({2})));
}

}  // namespace fit::test::named_values_test
