#include "fit/attention/attention.hpp"
#include "fit/attention/linear_attention.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/observer.hpp"
#include "fit/ops/int8.hpp"
#include "fit/ops/ops.hpp"
#include "fit/ops/recurrent.hpp"
#include "fit/tensor/random.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Operations at the edges of what they take: empty operands, scalars, mixed types, nothing to do.
namespace fit::test::op_edges_test {
namespace {

using V = std::vector<double>;

}  // namespace

TEST_CASE("einsum sums what is in no other operand, and broadcasts '...'", "[edges]") {
  const Tensor m = tensor({{1., 2., 3.}, {4., 5., 6.}}), v = tensor({1., -1., 2.}), s = tensor({2., 3.});
  CHECK(values(einsum("ij,k->k", {m, v})) == V{21, -21, 42});
  CHECK(values(einsum("k,ij->k", {v, m})) == V{21, -21, 42});
  CHECK(values(einsum("i,jk,i->i", {v, m, v})) == V{21, 21, 84});
  CHECK(values(einsum("ij,k,k->k", {m, v, v})) == V{21, 21, 84});
  CHECK(values(einsum("ij,j,i", {m, v, s})) == V{2 * 5 + 3 * 11});
  CHECK(values(einsum("...i,i", {m, v})) == V{5, 11});
  CHECK(values(einsum("ij,i->", {m, s})) == V{12 + 45});
  CHECK(einsum("...,...->...", {ones({1, 3}), ones({2, 1})}).shape() == Shape{2, 3});
  CHECK(einsum("...,...->...", {ones({2, 1}), ones({1, 3})}).shape() == Shape{2, 3});
  CHECK(einsum("Zi,Zi->Z", {m, m}).shape() == Shape{2});
  // A row, a column, and a stack of matrices that lie in the other order.
  CHECK(values(einsum("ij,kj->ki", {m, reshape(v, {1, 3})})) == V{5, 11});
  CHECK(values(einsum("ji,ki->kj", {m, reshape(v, {1, 3})})) == V{5, 11});
  const Tensor a = randn({2, 3, 4}), b = randn({4, 2, 5});
  CHECK(max_difference(einsum("bij,jbk->bik", {a, b}), matmul(a, permute(b, {1, 0, 2}))) < 1e-6);
  CHECK(max_difference(einsum("bij,jbk->kbi", {a, b}), permute(matmul(a, permute(b, {1, 0, 2})), {2, 0, 1})) < 1e-6);
  // Whole numbers beside floating ones, also where products are rounded.
  CHECK(values(einsum("ij,j->i", {tensor({{1, 2, 3}}), v})) == V{5});
  const Autocast low(bfloat16);
  const Tensor y = einsum("ij,j->i", {tensor({{1, 2, 3}}), v});
  CHECK(y.dtype() == bfloat16);
  CHECK(values(y) == V{5});
}

TEST_CASE("products of mixed types give each operand the gradient of its type", "[edges]") {
  Tensor x = randn({3, 4}).requires_grad_(), w = randn({5, 4}, float64).requires_grad_();
  sum(matmul(x, Transpose::no, w, Transpose::yes)).backward();
  CHECK(x.grad().dtype() == float32);
  CHECK(w.grad().dtype() == float64);
  CHECK(max_difference(x.grad(), broadcast_to(sum(w.detach(), 0), {3, 4})) < 1e-6);
  const Autocast low(bfloat16);
  const Tensor narrow = randn({4, 6}).to(bfloat16), wide = randn({6, 3});
  CHECK(matmul(narrow, wide).dtype() == bfloat16);
  CHECK(max_difference(matmul(narrow, wide), matmul(narrow, wide.to(bfloat16))) == 0);
  CHECK(max_difference(matmul(wide, narrow.reshape({3, 8})), matmul(wide.to(bfloat16), narrow.reshape({3, 8}))) == 0);
  // int8 weights under Autocast: float64 is not rounded, and a bias alone may want its gradient.
  const Int8Matrix q = quantize(randn({5, 4}));
  Tensor bias = zeros({5}).requires_grad_();
  const Tensor y = linear(randn({2, 4}), q, bias);
  CHECK(y.dtype() == bfloat16);
  sum(y).backward();
  CHECK(values(bias.grad()) == V{2, 2, 2, 2, 2});
  CHECK(linear(randn({2, 4}, float64), quantize(randn({5, 4}, float64))).dtype() == float64);
}

TEST_CASE("in-place operations on whole numbers record nothing", "[edges]") {
  Tensor counts = tensor({1, 2}), w = tensor({3.7, 4.2}).requires_grad_();
  counts.copy_(w);
  CHECK(values(counts) == V{3, 4});
  CHECK_FALSE(counts.requires_grad());
  Tensor y = tensor({1., 2.});
  y.mul_(y.reshape({2}));  // one buffer
  CHECK(values(y) == V{1, 4});
  Tensor z = w * 2;
  z += 1;  // a result, no leaf
  CHECK(max_difference(z.detach(), tensor({8.4, 9.4})) < 1e-6);
  Tensor undefined;
  CHECK_THROWS_WITH(undefined += 1, Catch::Contains("undefined"));
}

TEST_CASE("operations on booleans, whole numbers and scalars", "[edges]") {
  const Tensor yes = tensor({true, true, false});
  CHECK(values(yes % tensor({true, true, true})) == V{0, 0, 0});
  CHECK((yes % tensor({true, true, true})).dtype() == int64);
  CHECK(values(remainder(7, tensor({4, 5}))) == V{3, 2});
  CHECK(atan2(tensor({0, 1}), tensor({1, 0})).dtype() == float32);
  CHECK(values(cumprod(yes, 0)) == V{1, 1, 0});
  CHECK(values(nan_to_num(tensor({1, 2}))) == V{1, 2});
  CHECK(tensor({true}).item<std::int64_t>() == 1);
  CHECK(tensor(7).item<std::int64_t>() == 7);
  CHECK_THROWS_WITH(tensor({7, 8}).item<std::int64_t>(), Catch::Contains("[item] the tensor has shape [2]"));
  CHECK(flatten(tensor(3.)).shape() == Shape{1});
  CHECK_THROWS_WITH(flatten(tensor(3.), 1), Catch::Contains("[flatten]"));
  CHECK_THROWS_WITH(flatten(tensor(3.), 0, 1), Catch::Contains("[flatten]"));
  CHECK(values(clamp_min(tensor({-1, 3}), 0)) == V{0, 3});
}

TEST_CASE("operations on nothing give nothing", "[edges]") {
  CHECK(values(histogram(zeros({0}), 2).first) == V{0, 0});
  CHECK(values(histogram(zeros({0}), 2).second) == V{0, 0.5, 1});
  CHECK(values(histogram(tensor({0.5, 2., -1.}), 1, 0, 1).first) == V{1});
  CHECK(segment_softmax(zeros({0, 2}), zeros({0}, int64), 0).shape() == Shape{0, 2});
  const std::int64_t far = std::numeric_limits<std::int64_t>::max();
  CHECK(values(segment_softmax(tensor({5., 7., 5.}), tensor({far, std::int64_t{3}, far}))) == V{0.5, 1, 0.5});
  CHECK(group_norm(zeros({0, 4}), 2).shape() == Shape{0, 4});
  CHECK(group_norm(zeros({2, 4, 0}), 2, ones({4}), zeros({4})).shape() == Shape{2, 4, 0});
  CHECK(multinomial(ones({3, 2}), 0).shape() == Shape{3, 0});
  const Tensor x = arange(4);
  CHECK(pad(x, {0, 0}).impl() != x.impl());
  CHECK(equal(pad(x, {0, 0}), x));
  CHECK(equal(fold(unfold(x, 0, 2, 2), -1, 4, 2), x));
  CHECK(linear_attention(zeros({1, 1, 3, 2}), zeros({1, 1, 3, 2}), zeros({1, 1, 3, 0})).output.shape() ==
        Shape{1, 1, 3, 0});
  const auto [outputs, cell] = lstm_steps(zeros({2, 3, 0}), zeros({0, 0}), {}, zeros({2, 0}), zeros({2, 0}));
  CHECK(outputs.shape() == Shape{2, 3, 0});
  CHECK(gru_steps(zeros({0, 3, 6}), zeros({6, 2}), zeros({6}), zeros({0, 2})).shape() == Shape{0, 3, 2});
  CHECK(x[{range()}].impl() != nullptr);
  CHECK(equal(x[{range(0, 4, 1)}], x));
  CHECK(values(x[{range(1, 4, 2)}]) == V{1, 3});
}

TEST_CASE("draws follow their probabilities at the ends, and in the type that is asked", "[edges]") {
  CHECK_FALSE(any(bernoulli(0, {1000})).item<bool>());
  CHECK(all(bernoulli(1, {1000})).item<bool>());
  Generator g(1), h(1);
  const Tensor p = full({1000}, 0.5, float64);
  CHECK(bernoulli(p, g).dtype() == float64);
  const double mean = sum(bernoulli(p, h)).item() / 1000;
  CHECK((mean > 0.4 && mean < 0.6));
  CHECK(cosine_similarity(ones({1, 3}), ones({4, 3}), -1).shape() == Shape{4});
  CHECK(cosine_similarity(ones({4, 3}), ones({3}), -1).shape() == Shape{4});
}

TEST_CASE("gumbel_softmax gives probabilities, or one class with the gradient of the probabilities", "[edges]") {
  Tensor logits = tensor({{1., 2., 0.5}, {0.2, 0.1, 3.}}).requires_grad_();
  Generator g(3), h(3);
  const Tensor soft = gumbel_softmax(logits, GumbelSoftmaxOptions(), g);
  const Tensor hard = gumbel_softmax(logits, GumbelSoftmaxOptions().hard(true), h);
  CHECK(max_difference(sum(soft.detach(), -1), ones({2})) < 1e-6);
  CHECK(max_difference(hard.detach(), one_hot(argmax(soft.detach(), -1), 3)) < 1e-6);
  const Tensor weights = tensor({{1., 2., 3.}, {-1., 0., 2.}});
  const Tensor of_soft = grad(sum(soft * weights), logits), of_hard = grad(sum(hard * weights), logits);
  CHECK(max_difference(of_soft, of_hard) < 1e-6);
}

TEST_CASE("second derivatives by one of the two inputs of an adjoint", "[edges]") {
  // dx is computed by the adjoint's own operation of y and dy. Each alone may be differentiated further.
  for (const auto f : {softmax, log_softmax}) {
    Tensor x = tensor({0.1, -0.3, 0.7}, float64).requires_grad_(), dy = tensor({1., 2., -1.}, float64).requires_grad_();
    const Tensor by_x = grad({f(x, -1)}, {x}, {dy.detach()}, create_graph)[0];
    CHECK(grad(sum(by_x), x).shape() == Shape{3});
    const Tensor by_dy = grad({f(x, -1)}, {x}, {dy}, create_graph)[0];
    const Tensor only = grad({sum(by_dy * tensor({1., 0., 0.}, float64))}, {dy})[0];
    // The Jacobian is symmetric for softmax; of log_softmax it is 1 - p.
    const Tensor p = softmax(x.detach());
    const Tensor expected = f == softmax ? eye(3, 3, float64)[0] * p[0] - p * p[0] : eye(3, 3, float64)[0] - p[0];
    CHECK(max_difference(only, expected) < 1e-14);
  }
}

TEST_CASE("events tell the gradients of inputs that have one", "[edges]") {
  struct Watch final : Observer {
    void node_left(const NodeEvent& e) override {
      if (e.op() != std::string("mul")) return;
      inputs = e.inputs();
      for (int i = 0; i < e.inputs(); ++i) defined.push_back(e.input_gradient(i).defined());
    }
    int inputs = 0;
    std::vector<bool> defined;
  } watch;
  Tensor x = ones({2}).requires_grad_();
  const Tensor y = sum(x * full({2}, 3.));
  {
    const Observe watching(watch);
    y.backward();
  }
  CHECK(watch.inputs == 2);
  CHECK(watch.defined == std::vector<bool>{true, false});
}

TEST_CASE("an observer that computes within an event does not see itself, and others do", "[edges]") {
  struct Counts final : Observer {
    explicit Counts(bool computes) : computes(computes) {}
    void op_recorded(const OpEvent&) override {
      ++seen;
      if (computes) ones({2}) + 1;
    }
    const bool computes;
    int seen = 0;
  } plain(false), busy(true);
  {
    const Observe outer(plain);
    {
      const Observe inner(busy), again(busy);
      exp(ones({2}));
    }
    exp(ones({2}));
  }
  CHECK(busy.seen >= 1);
  CHECK(plain.seen >= 2 + busy.seen);
}

TEST_CASE("several observers that throw in a 'left' event: the first exception arrives", "[edges]") {
  struct Throws final : Observer {
    explicit Throws(std::string text) : text(std::move(text)) {}
    void node_left(const NodeEvent& e) override {
      failed = e.failed;
      throw Error(text);
    }
    const std::string text;
    bool failed = false;
  } first("first"), second("second");
  Tensor x = ones({2}).requires_grad_();
  const Tensor y = sum(x * x);
  const Observe one(first), two(second);
  CHECK_THROWS_WITH(y.backward(), "second");  // the newest observer is told first
  CHECK(first.failed);
}

TEST_CASE("an observer that throws in an 'entered' event: the node is left, and its exception arrives", "[edges]") {
  struct Watch final : Observer {
    void node_entered(const NodeEvent&) override { throw Error("entered"); }
    void node_left(const NodeEvent& e) override {
      failed = e.failed;
      throw Error("left");
    }
    bool failed = false;
  } watch;
  Tensor x = ones({2}).requires_grad_();
  const Tensor y = sum(x * x);
  const Observe watching(watch);
  CHECK_THROWS_WITH(y.backward(), "entered");
  CHECK(watch.failed);
}

TEST_CASE("an observer asks attention for the weights of one element of the batch", "[edges]") {
  struct Watch final : Observer {
    void attention_computed(const AttentionEvent& e) override {
      all = e.weights(), second = e.weights(1);
      CHECK_THROWS_WITH(e.weights(-1), "[AttentionEvent] element is -1: it must be in 0 … 1");
      CHECK_THROWS_WITH(e.weights(2), "[AttentionEvent] element is 2: it must be in 0 … 1");
    }
    Tensor all, second;
  } watch;
  const Tensor q = randn({2, 3, 4, 8});
  {
    const Observe watching(watch);
    scaled_dot_product_attention(q, q, q);
  }
  CHECK(same_bits(watch.all[1], watch.second));
}

}  // namespace fit::test::op_edges_test
