#include "fit/graph/observer.hpp"

#include <atomic>
#include <optional>

#include "fit/attention/attention.hpp"
#include "fit/graph/hooks.hpp"
#include "fit/ops/ops.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Observers of a thread: what they are told, in which order, and how they come and go.
namespace fit::test::observer_test {
namespace {

using V = std::vector<double>;
using Calls = std::vector<std::string>;

Tensor leaf(const Nested& numbers) { return tensor(numbers, float64).requires_grad_(); }

// Notes each event in words.
struct Notes : Observer {
  explicit Notes(Calls& to, std::string by = "") : calls(to), name(std::move(by)) {}
  void op_recorded(const OpEvent& e) override { calls.push_back(name + (e.in_backward ? "in backward " : "") + e.op); }
  void op_unrecorded(const OpEvent& e) override {
    CHECK(e.output_count == 1);
    CHECK_FALSE(is_floating(e.outputs[0].dtype()));
    conditions.push_back(name + e.op + ' ' + std::to_string(e.inputs.size()) + ' ' + e.outputs[0].shape().str());
  }
  Calls& calls;
  Calls conditions;
  std::string name;
};

struct Nodes final : Observer {
  void node_entered(const NodeEvent& e) override { calls.push_back(std::string("into ") + e.op()); }
  void node_left(const NodeEvent& e) override {
    calls.push_back(std::string(e.failed ? "failed " : "out of ") + e.op());
    CHECK(e.outputs() == 1);
    if (!e.failed) gradients.push_back(values(e.input_gradient(0)));
  }
  void gradient_accumulated(const Tensor& x) override {
    calls.emplace_back("leaf");
    leaves.push_back(values(x.grad()));
  }
  Calls calls;
  std::vector<V> gradients, leaves;
};

}  // namespace

TEST_CASE("an observer is told each operation of its thread while it watches", "[observer]") {
  Calls calls;
  Notes notes(calls);
  const Tensor x = tensor({1., 2.}), w = leaf({1, 2});
  {
    const Observe watching(notes);
    (void)exp(x);
    {
      const NoGrad no_grad;
      (void)(w * w);
    }
    sum(tanh(w)).backward();
  }
  (void)exp(x);
  REQUIRE(calls.size() > 4);
  CHECK(Calls(calls.begin(), calls.begin() + 4) == Calls{"exp", "mul", "tanh", "sum"});
  for (std::size_t i = 4; i < calls.size(); ++i) CHECK(calls[i].find("in backward ") == 0);
  CHECK(detail::thread_state.observed == nullptr);
}

TEST_CASE("an observer is told integers and conditions apart", "[observer]") {
  Calls calls;
  Notes notes(calls);
  const Tensor x = tensor({1., 2., 3.}, float64), ids = tensor({4, 5, 6});
  {
    const Observe watching(notes);
    (void)(x == 2);
    (void)(x < tensor({{1.}, {2.}}, float64));
    (void)isnan(x);
    (void)logical_not(x);
    (void)!(x == 2);
    (void)(isfinite(x) && isinf(x));
    (void)isclose(x, x);
    (void)any(x);
    (void)(ids + 1);
    (void)(ids != 4);
    (void)slice(ids, 0, 0, 2);
    (void)x.to(int64);
  }
  CHECK(calls.empty());
  CHECK(notes.conditions == Calls{"eq 1 [3]", "lt 2 [2, 3]", "isnan 1 [3]", "logical_not 1 [3]", "eq 1 [3]",
                                  "logical_not 2 [3]", "isfinite 1 [3]", "isinf 1 [3]", "logical_and 2 [3]",
                                  "isclose 2 [3]", "any 1 []", "add 1 [3]", "ne 1 [3]", "slice 1 [2]", "to 1 [3]"});
}

TEST_CASE("an event has the operation's inputs and outputs", "[observer]") {
  struct Shapes final : Observer {
    void op_recorded(const OpEvent& e) override {
      for (int i = 0; i < e.inputs.size(); ++i) inputs.push_back(e.inputs[i].shape());
      for (int i = 0; i < e.output_count; ++i) outputs.push_back(e.outputs[i].shape());
    }
    std::vector<Shape> inputs, outputs;
  } shapes;
  const Tensor a = ones({2, 3}), b = ones({3, 4});
  const Observe watching(shapes);
  (void)matmul(a, b);
  CHECK(shapes.inputs == std::vector<Shape>{{2, 3}, {3, 4}});
  CHECK(shapes.outputs == std::vector<Shape>{{2, 4}});
}

TEST_CASE("floating-point operations are told, of products and of attention", "[observer]") {
  struct Flops final : Observer {
    void flops_counted(std::int64_t n) override { count += n; }
    std::int64_t count = 0;
  } flops;
  const Observe watching(flops);
  (void)matmul(ones({2, 3}), ones({3, 4}));
  CHECK(flops.count == 2 * 2 * 3 * 4);
  (void)scaled_dot_product_attention(ones({5, 4}), ones({6, 4}), ones({6, 3}));
  CHECK(flops.count == 2 * 2 * 3 * 4 + 2 * 5 * 6 * (4 + 3));
}

TEST_CASE("the newest observer is told first, and each may go at any time", "[observer]") {
  Calls calls;
  // Takes away what it is given, at its first event.
  struct Ending final : Notes {
    using Notes::Notes;
    void op_recorded(const OpEvent& e) override {
      Notes::op_recorded(e);
      for (std::optional<Observe>* one : ends) one->reset();
    }
    std::vector<std::optional<Observe>*> ends;
  };
  Ending a(calls, "a "), b(calls, "b "), c(calls, "c ");
  std::optional<Observe> of_a, of_b, of_c;
  of_a.emplace(a), of_b.emplace(b), of_c.emplace(c);
  const Tensor x = ones({2});
  SECTION("in any order") {
    (void)exp(x);
    CHECK(calls == Calls{"c exp", "b exp", "a exp"});
    calls.clear();
    of_a.reset();
    (void)exp(x);
    of_c.reset();
    (void)exp(x);
    CHECK(calls == Calls{"c exp", "b exp", "b exp"});
  }
  SECTION("itself, from within") {
    b.ends = {&of_b};
    (void)exp(x), (void)log(x);
    CHECK(calls == Calls{"c exp", "b exp", "a exp", "c log", "a log"});
  }
  SECTION("others, from within") {
    c.ends = {&of_a, &of_b};
    (void)exp(x), (void)log(x);
    CHECK(calls == Calls{"c exp", "c log"});
  }
  SECTION("all, from within") {
    b.ends = {&of_a, &of_b, &of_c};
    (void)exp(x), (void)log(x);
    CHECK(calls == Calls{"c exp", "b exp"});
  }
  of_a.reset(), of_b.reset(), of_c.reset();
  CHECK(detail::thread_state.observed == nullptr);
}

TEST_CASE("an observer is not told what it computes itself; others are", "[observer]") {
  Calls calls;
  struct Computing final : Notes {
    using Notes::Notes;
    void op_recorded(const OpEvent& e) override {
      Notes::op_recorded(e);
      (void)tanh(e.outputs[0]);
    }
  };
  Notes older(calls, "older "), newer(calls, "newer ");
  Computing computing(calls, "computing ");
  const Observe first(older), second(computing), third(newer);
  (void)exp(ones({2}));
  CHECK(calls == Calls{"newer exp", "computing exp", "newer tanh", "older tanh", "older exp"});
}

TEST_CASE("what an observer throws comes out of the operation", "[observer]") {
  struct Angry final : Observer {
    void op_recorded(const OpEvent&) override { throw Error("[test] no"); }
  } angry;
  {
    const Observe watching(angry);
    CHECK_THROWS_WITH(exp(ones({2})), "[test] no");
    CHECK_THROWS_WITH(exp(ones({2})), "[test] no");  // it is told again
  }
  CHECK_NOTHROW(exp(ones({2})));
}

TEST_CASE("tasks of parallel_for are observed, and have observers of their own", "[observer]") {
  struct Count final : Observer {
    void op_recorded(const OpEvent&) override { ++count; }
    std::atomic<int> count{0};
  } outer, inner;
  const int threads = num_threads();
  set_num_threads(4);
  {
    const Observe watching(outer);
    parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
      const Observe also(inner);
      for (std::int64_t i = begin; i < end; ++i) (void)exp(ones({2}));
    });
    (void)exp(ones({2}));
  }
  set_num_threads(threads);
  CHECK(outer.count == 9);
  CHECK(inner.count == 8);
}

TEST_CASE("nodes and leaves of a backward pass are told in their order", "[observer]") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  Nodes nodes;
  {
    const Observe watching(nodes);
    sum(exp(a * 0) * b).backward();
  }
  CHECK(nodes.calls == Calls{"into sum", "out of sum", "into mul", "out of mul", "leaf", "into exp", "out of exp",
                             "into mul", "out of mul", "leaf"});
  CHECK(nodes.gradients == std::vector<V>{{1, 1}, {3, 4}, {3, 4}, {0, 0}});
  CHECK(nodes.leaves == std::vector<V>{{1, 1}, {0, 0}});
  nodes.calls.clear();
  sum(a * b).backward();
  CHECK(nodes.calls.empty());
}

TEST_CASE("a node that was entered is left, also by an exception", "[observer]") {
  const Tensor w = leaf({1, 2});
  Nodes nodes;
  const Observe watching(nodes);
  const auto fragile = [](const Tensor& x) {
    return record("fragile", {x}, x.detach(), keep::nothing, [](Backward&) { throw Error("[fragile] no"); });
  };
  CHECK_THROWS_WITH(sum(fragile(w)).backward(), "[fragile] no");
  CHECK(nodes.calls == Calls{"into sum", "out of sum", "into fragile", "failed fragile"});
}

}  // namespace fit::test::observer_test
