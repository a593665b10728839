#include "fit/attention/attention.hpp"
#include "fit/backward/gradcheck.hpp"
#include "fit/graph/observer.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// What observers see of attention, and change.
namespace fit::test::attention_edits_test {
namespace {

using Catch::Matchers::Contains;

using Edit = Callable<Tensor(const Tensor&)>;

// Replaces by functions, and notes what it is told.
struct Editor final : Observer {
  bool edits_attention(const AttentionInfo&) const override { return scores || weights || output; }
  void edit_scores(const AttentionInfo& info, Tensor& x) override { edit(scores, info, x); }
  void edit_weights(const AttentionInfo& info, Tensor& x) override { edit(weights, info, x); }
  void edit_output(const AttentionInfo& info, Tensor& x) override { edit(output, info, x); }
  void attention_computed(const AttentionEvent& e) override {
    told.push_back(e);
    seen = e.weights();
    if (e.B > 1) CHECK(same_bits(e.weights(1), seen[1]));
  }
  void edit(const Edit& f, const AttentionInfo& info, Tensor& x) {
    shapes.push_back(x.shape());
    CHECK(x.shape()[0] == info.B);
    if (f) x = f(x);
  }
  Edit scores, weights, output;
  std::vector<Shape> shapes;
  std::vector<AttentionInfo> told;
  Tensor seen;
};

struct Operands {
  explicit Operands(DType dtype = float64, std::int64_t kv_heads = 2) {
    manual_seed(7);
    q = randn({2, 5, 2 * 3}, dtype).requires_grad_();
    k = randn({2, 5, kv_heads * 3}, dtype).requires_grad_();
    v = randn({2, 5, kv_heads * 3}, dtype).requires_grad_();
  }
  Tensor attention(const AttentionOptions& o = {}) const { return multi_head_attention(q, k, v, 2, o); }
  std::vector<Tensor> gradients(const Tensor& y) const {
    manual_seed(9);
    return grad(sum(y * randn(y.shape(), y.dtype())), {q, k, v}, allow_unused);
  }
  Tensor q, k, v;
};

void check_close(const Tensor& a, const Tensor& b) { CHECK(max_difference(a, b) < 1e-12); }

AttentionOptions causal_with_mask() {
  AttentionOptions o;
  o.causal(true);
  o.mask(create_padding_mask(tensor({{1, 2, 3, 4, 5}, {0, 2, 3, 4, 0}})));
  return o;
}

}  // namespace

TEST_CASE("an observer that reads has the weights that are returned, and changes no bit", "[observer]") {
  const DType dtype = GENERATE(float32, float64);
  const Operands x(dtype);
  const AttentionOptions o = causal_with_mask();
  const auto [plain, weights] =
      attend(heads_last(x.q, 2), heads_last(x.k), heads_last(x.v), AttentionOptions(o).weights());
  Editor reader;
  Tensor y;
  {
    const Observe watching(reader);
    y = x.attention(o);
  }
  CHECK(y.grad_fn() == std::string("attention"));  // not made of others
  CHECK(same_bits(y, plain));
  CHECK(same_bits(reader.seen, weights.detach()));
  CHECK_FALSE(reader.seen.requires_grad());
  REQUIRE(reader.told.size() == 1);
  const AttentionInfo& info = reader.told[0];
  CHECK(std::vector<std::int64_t>{info.B, info.H, info.Sq, info.Sk} == std::vector<std::int64_t>{2, 2, 5, 5});
  CHECK(info.causal);
  CHECK(info.window == 0);
  CHECK(info.call == nullptr);
  CHECK(equal(info.mask_of(1), tensor({{{false, true, true, true, false}}})));
  CHECK(reader.shapes.empty());
}

TEST_CASE("scores, weights and output are edited in turn; the identity changes next to nothing", "[observer]") {
  const Operands x;
  const AttentionOptions o = causal_with_mask();
  const Tensor plain = x.attention(o);
  const std::vector<Tensor> expected = x.gradients(plain);
  Editor editor;
  editor.scores = [](const Tensor& s) { return s + 0; };
  const Observe watching(editor);
  const Tensor y = x.attention(o);
  CHECK(editor.shapes == std::vector<Shape>{{2, 2, 5, 5}, {2, 2, 5, 5}, {2, 2, 5, 3}});
  CHECK(editor.told.size() == 1);
  check_close(y, plain);
  const std::vector<Tensor> gradients = x.gradients(y);
  for (int i = 0; i < 3; ++i) check_close(gradients[i], expected[i]);
}

TEST_CASE("a head whose output is zeroed equals columns that are zeroed", "[observer]") {
  const Operands x;
  const Tensor kept = tensor({1, 1, 1, 0, 0, 0}).to(float64);
  const Tensor expected = x.attention() * kept;
  Editor editor;
  editor.output = [](const Tensor& y) { return y * tensor({1., 0.}, float64).reshape({1, 2, 1, 1}); };
  const Observe watching(editor);
  const Tensor y = x.attention();
  check_close(y, expected);
  const std::vector<Tensor> a = x.gradients(y), b = x.gradients(expected);
  for (int i = 0; i < 3; ++i) check_close(a[i], b[i]);
}

TEST_CASE("weights that are replaced equal the product by hand, and get a gradient", "[observer]") {
  const Operands x;
  Tensor constant = rand({2, 2, 5, 5}, float64).requires_grad_();
  Editor editor;
  editor.weights = [&](const Tensor&) { return constant; };
  const Observe watching(editor);
  const bool causal = GENERATE(false, true);
  AttentionOptions o;
  o.causal(causal);
  const Tensor y = x.attention(o);
  const Tensor used = causal ? tril(constant) : constant;  // what is masked stays masked
  const Tensor v = transpose(x.v.reshape({2, 5, 2, 3}), 1, 2);
  const Tensor by_hand = transpose(matmul(used, v), 1, 2).reshape({2, 5, 6});
  check_close(y, by_hand);
  CHECK(same_bits(editor.seen, used.detach()));
  const Tensor d = randn(y.shape(), float64);
  const std::vector<Tensor> a = grad(sum(y * d), {constant, x.v}), b = grad(sum(by_hand * d), {constant, x.v});
  check_close(a[0], b[0]);
  check_close(a[1], b[1]);
  CHECK_FALSE(grad({sum(x.attention(o))}, {x.q}, allow_unused)[0].defined());  // the scores have no way to the output
}

TEST_CASE("scores that are edited equal a bias, also for the gradient", "[observer]") {
  const Operands x;
  const Tensor bias = randn({1, 2, 5, 5}, float64);
  AttentionOptions o = causal_with_mask(), with_bias = o;
  with_bias.bias(bias);
  const Tensor expected = x.attention(with_bias);
  Editor editor;
  editor.scores = [&](const Tensor& s) { return s + bias; };
  const Observe watching(editor);
  const Tensor y = x.attention(o);
  check_close(y, expected);
  const std::vector<Tensor> a = x.gradients(y), b = x.gradients(expected);
  for (int i = 0; i < 3; ++i) check_close(a[i], b[i]);
}

TEST_CASE("two editors follow each other, and derivatives of edits are right to the second order", "[observer]") {
  Editor first, second;
  first.weights = [](const Tensor& w) { return w * w; };
  second.output = [](const Tensor& y) { return tanh(y); };
  const auto f = [&](const std::vector<Tensor>& in) {
    const Observe a(first), b(second);
    return scaled_dot_product_attention(in[0], in[1], in[2]);
  };
  GradCheckOptions o;
  o.order(2);
  manual_seed(3);
  const GradReport report =
      check_gradients(f, {randn({3, 2}, float64), randn({4, 2}, float64), randn({4, 2}, float64)}, o);
  INFO(report);
  CHECK(report.ok);
}

TEST_CASE("every form of attention is edited: packed heads, grouped heads, bfloat16, weights returned", "[observer]") {
  Editor editor;
  editor.output = [](const Tensor& y) { return y * 2; };
  SECTION("packed and grouped") {
    const Operands x(float64, 1);
    const Tensor packed = cat({x.q, x.k, x.v}, -1), expected = x.attention() * 2;
    const Observe watching(editor);
    check_close(packed_self_attention(packed, 2, {}, 1), expected);
    check_close(x.attention(), expected);
  }
  SECTION("bfloat16 is edited in float32") {
    const Operands x(bfloat16);
    const Tensor expected = (x.attention() * 2).to(float32);
    DType seen = boolean;
    editor.output = [&](const Tensor& y) {
      seen = y.dtype();
      return y * 2;
    };
    const Observe watching(editor);
    const Tensor y = x.attention();
    CHECK(seen == float32);
    CHECK(y.dtype() == bfloat16);
    CHECK(max_difference(y.to(float32), expected) < 0.05);
    CHECK(x.gradients(y)[0].dtype() == bfloat16);
  }
  SECTION("with weights") {
    const Operands x;
    editor.weights = [](const Tensor& w) { return w / 2; };
    const Tensor expected =
        attend(heads_last(x.q, 2), heads_last(x.k), heads_last(x.v), AttentionOptions().weights()).weights / 2;
    const Observe watching(editor);
    check_close(attend(heads_last(x.q, 2), heads_last(x.k), heads_last(x.v), AttentionOptions().weights()).weights,
                expected);
  }
}

TEST_CASE("dropout comes behind the weights that an observer sees", "[observer]") {
  const Operands x;
  Editor editor;
  editor.weights = [](const Tensor& w) { return w * 1; };
  const auto attention = [&] {
    manual_seed(5);
    AttentionOptions o;
    o.dropout(0.5);
    return x.attention(o);
  };
  const Tensor expected = attention();
  const Observe watching(editor);
  check_close(attention(), expected);
  check_close(sum(editor.seen, -1), ones({2, 2, 5}, float64));
}

TEST_CASE("with a cache, edits give what they give for the whole sequence", "[observer]") {
  manual_seed(11);
  const std::int64_t window = GENERATE(0, 2);
  const Tensor q = randn({2, 5, 6}, float64), k = randn({2, 5, 6}, float64), v = randn({2, 5, 6}, float64);
  AttentionOptions o;
  o.causal(true);
  o.window(window);
  Editor editor;
  editor.scores = [](const Tensor& s) { return s * 3; };
  editor.output = [](const Tensor& y) { return y * tensor({1., -1.}, float64).reshape({1, 2, 1, 1}); };
  const Observe watching(editor);
  const Tensor whole = multi_head_attention(q, k, v, 2, o), weights = editor.seen;
  Tensor keys = zeros({2, 2, 8, 3}, float64), cached = zeros({2, 2, 8, 3}, float64);
  const auto next = [&](std::int64_t from, std::int64_t to) {
    return cached_attention(slice(q, 1, from, to), slice(k, 1, from, to), slice(v, 1, from, to), keys, cached, from, 2,
                            o);
  };
  const Tensor pieces = cat({next(0, 3), next(3, 4), next(4, 5)}, 1);
  check_close(pieces, whole);
  check_close(editor.seen, slice(weights, 2, 4, 5));  // of the last query
  CHECK(editor.told.back().Sk == 5);
  CHECK(editor.told.back().window == window);
}

TEST_CASE("a masked NaN reaches neither the result nor a gradient of an edit", "[observer]") {
  const Operands x;
  Tensor factor = full({}, 2., float64).requires_grad_();
  Editor editor;
  editor.scores = [&](const Tensor& s) { return s * factor * exp(s); };
  editor.weights = [&](const Tensor& w) { return w * factor; };
  const Observe watching(editor);
  const auto results = [&](double hidden) {
    Tensor k = x.k.detach().clone(), v = x.v.detach().clone();
    for (Tensor* t : {&k, &v}) (*t)[{range(), 3}] = hidden;
    const auto o = AttentionOptions().mask(create_padding_mask(tensor({{1, 2, 3, 0, 5}, {1, 2, 3, 0, 0}})));
    const Tensor y = multi_head_attention(x.q, k, v, 2, o);
    std::vector<Tensor> all = grad(sum(square(y)), {x.q, factor});
    all.push_back(y.detach());
    return all;
  };
  const std::vector<Tensor> clean = results(1), dirty = results(nan);
  for (std::size_t i = 0; i < clean.size(); ++i) check_close(dirty[i], clean[i]);
}

TEST_CASE("a replacement that does not fit, or a change in place, is an error", "[observer]") {
  const Operands x;
  Editor editor;
  const Observe watching(editor);
  editor.scores = [](const Tensor&) { return ones({3}, float64); };
  CHECK_THROWS_WITH(x.attention(), Contains("[attention] the scores has shape [3]: it must be [2, 2, 5, 5]"));
  editor.scores = {};
  editor.weights = [](const Tensor& w) { return w.to(float32); };
  CHECK_THROWS_WITH(x.attention(), Contains("[attention] the weights is float32: it must be float64"));
  editor.weights = {};
  editor.output = [](const Tensor& y) {
    const NoGrad no_grad;
    return Tensor(y).mul_(2);
  };
  CHECK_THROWS_WITH(x.attention(), Contains("[attention] an observer has changed the output") && Contains("in place"));
}

}  // namespace fit::test::attention_edits_test
