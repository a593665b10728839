#include "fit/backward/activation_checkpoint.hpp"

#include <thread>

#include "fit/backward/functional.hpp"
#include "fit/base/memory.hpp"
#include "fit/graph/hooks.hpp"
#include "fit/matmul/reproducible.hpp"
#include "fit/ops/ops.hpp"
#include "ops/linalg/batch_rows.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::activation_checkpoint_test {
namespace {

using Catch::Contains;

// Two captured leaves, a captured tensor that is none, dropout, and a value used twice.
struct Block {
  Tensor w, b, scale;
  Block() : w(randn({4, 4}).requires_grad_()), b(randn({4}).requires_grad_()), scale(exp(b)) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor h = dropout(gelu(matmul(x, w) + b), 0.3);
    return (h * scale + tanh(h)) * sum(x);
  }
};

// The value and the gradients of x, w and b, with f called as it is or through checkpoint().
template <class Call>
std::vector<Tensor> run(const Call& call) {
  manual_seed(3);
  const Block block;
  Tensor x = randn({3, 4}).requires_grad_();
  const Tensor h = 2 * x;  // not a leaf
  const Tensor y = sum(call([&](const Tensor& z) { return block(z); }, h));
  y.backward();
  return {y.detach(), x.grad(), block.w.grad(), block.b.grad(), rand({2})};
}

const auto without_checkpoint = [](const auto& f, const Tensor& x) { return f(x); };
const auto through_checkpoint = [](const auto& f, const Tensor& x) { return checkpoint(f, x); };

}  // namespace

TEST_CASE("checkpoint() gives the same bits: value, gradients, and the random numbers that follow", "[checkpoint]") {
  const std::vector<Tensor> expected = run(without_checkpoint), got = run(through_checkpoint);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(i);
    CHECK(same_bits(got[i], expected[i]));
  }
  const std::vector<Tensor> nested = run(
      [](const auto& f, const Tensor& x) { return checkpoint([f](const Tensor& z) { return checkpoint(f, z); }, x); });
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(nested[i], expected[i]));
}

TEST_CASE("checkpoint() drops what was dropped, of a divided batch, too", "[checkpoint]") {
  const auto gradient = [](const auto& call) {
    manual_seed(5);
    Tensor x = ones({4, 8}).requires_grad_();
    batch_rows = {4, 4};
    const Tensor y = sum(call([](const Tensor& z) { return dropout(z * z, 0.5); }, x));
    batch_rows = {};
    y.backward();
    return x.grad();
  };
  CHECK(same_bits(gradient(through_checkpoint), gradient(without_checkpoint)));
}

TEST_CASE("checkpoint() computes again in the mode Reproducible of the first time", "[checkpoint]") {
  const auto gradient = [](const auto& call, bool reproducibly) {
    manual_seed(5);
    const Tensor w = randn({80, 300}).requires_grad_();
    Tensor x = randn({1, 300}).requires_grad_(), loss;
    {
      const detail::Scoped mode(detail::thread_state.reproducible, reproducibly);
      loss = sum(square(call([&](const Tensor& z) { return tanh(linear(z, w, {})); }, x)));
    }
    const detail::Scoped mode(detail::thread_state.reproducible, !reproducibly);
    loss.backward();
    return x.grad();
  };
  for (const bool mode : {false, true})
    CHECK(same_bits(gradient(through_checkpoint, mode), gradient(without_checkpoint, mode)));
}

TEST_CASE("checkpoint(): what f computes on the way is not kept", "[checkpoint]") {
  const std::int64_t n = 1 << 16;
  const auto deep = [](Tensor z) {
    for (int i = 0; i < 20; ++i) z = tanh(z);
    return z;
  };
  const auto held = [&](const auto& call) {
    Tensor x = randn({n}).requires_grad_();
    const std::int64_t before = memory_stats().live_bytes;
    const Tensor y = call(deep, x);
    return static_cast<double>(memory_stats().live_bytes - before) / (4. * n);
  };
  CHECK(held(without_checkpoint) > 19);
  CHECK(held(through_checkpoint) < 1.5);
}

TEST_CASE("checkpoint() serves grad(), second derivatives and hooks", "[checkpoint]") {
  const Tensor w = randn({3, 3}, float64).requires_grad_(), x = randn({2, 3}, float64).requires_grad_();
  const auto f = [&](const Tensor& z) { return tanh(matmul(z, w)); };
  const auto with = [&](const auto& call) {
    const Tensor h = x * x;
    return grad(sum(call(f, h) * h), {x, w, h});
  };
  for (std::size_t i = 0; i < 3; ++i)  // h is used outside, too: sums in another order
    CHECK(max_difference(with(through_checkpoint)[i], with(without_checkpoint)[i]) < 1e-14);
  const auto penalty = [&](const auto& call) {
    const Tensor z = x * x, g = grad(sum(call(f, z) * z), x, create_graph);
    return grad(sum(g * g), {x, w});
  };
  const std::vector<Tensor> expected = penalty(without_checkpoint), got = penalty(through_checkpoint);
  for (std::size_t i = 0; i < 2; ++i) CHECK(max_difference(got[i], expected[i]) < 1e-13);

  int calls = 0;
  const GradHook hook = register_post_accumulate_grad_hook(w, [&](const Tensor&) { ++calls; });
  (sum(checkpoint(f, x)) + sum(w)).backward();
  CHECK(calls == 1);
}

TEST_CASE("checkpoint(): a retained graph is gone through twice, and an exception leaves all usable", "[checkpoint]") {
  Tensor x = randn({3}).requires_grad_();
  int failing = 0;
  const auto f = [&](const Tensor& z) {
    if (failing-- == 1) throw Error("[f] no");
    return exp(z);
  };
  const Tensor y = sum(checkpoint(f, x));
  y.backward(retain_graph);
  failing = 1;
  CHECK_THROWS_WITH(y.backward(retain_graph), Contains("[f] no"));
  x.zero_grad();
  y.backward();
  CHECK(allclose(x.grad(), exp(x)));
  CHECK_THROWS_WITH(y.backward(), Contains("taken apart"));
}

TEST_CASE("checkpoint() repeats the numbers of generators that f makes or that were seeded since", "[checkpoint]") {
  const auto gradient = [](const auto& call) {
    manual_seed(5);
    Generator kept(3);
    const auto f = [&kept](const Tensor& z) {
      Generator own(7);
      const Tensor a = randn({4}, own), b = randn({4}), c = randn({4}, kept);
      return z * a * b * c;
    };
    Tensor x = ones({4}).requires_grad_();
    const Tensor y = call(f, x);
    manual_seed(6);
    kept.set_state(9, 2);
    const std::uint64_t calls = default_generator().calls();
    sum(y).backward();
    CHECK(default_generator().calls() == calls);
    CHECK(kept.calls() == 2);
    return x.grad();
  };
  CHECK(same_bits(gradient([](const auto& f, const Tensor& x) { return checkpoint(f, x); }),
                  gradient([](const auto& f, const Tensor& x) { return f(x); })));
  manual_seed(1);
  Tensor x = ones({4}).requires_grad_();
  const Tensor y = checkpoint(
      [](const Tensor& z) {
        manual_seed(2);  // that of the second time changes nothing
        return z * randn({4});
      },
      x);
  (void)randn({4});
  const std::uint64_t calls = default_generator().calls();
  sum(y).backward();
  CHECK(same_bits(x.grad(), y));
  CHECK(default_generator().calls() == calls);
}

TEST_CASE("checkpoint() tells what it can't compute again", "[checkpoint]") {
  Tensor x = randn({3}).requires_grad_(), w = randn({3}).requires_grad_();
  const Tensor y = sum(checkpoint([&](const Tensor& z) { return relu(z + w); }, x));
  {
    const NoGrad no_grad;
    w.add_(1);
  }
  CHECK_THROWS_WITH(y.backward(), Contains("[checkpoint] a tensor of shape [3] that f uses was changed in place"));
  int calls = 0;
  const Tensor other = sum(checkpoint([&](const Tensor& z) { return ++calls == 1 ? exp(z) : exp(z + rand({3})); }, x));
  CHECK_THROWS_WITH(other.backward(), Contains("[checkpoint] f drew more or fewer random numbers"));
  bool drops = true;
  const Tensor fewer = sum(checkpoint([&](const Tensor& z) { return drops ? dropout(z, 0.5) : z * 1; }, x));
  drops = false;
  CHECK_THROWS_WITH(fewer.backward(), Contains("[checkpoint] f drew more or fewer random numbers"));
  const Tensor third = sum(checkpoint([&](const Tensor& z) { return ++calls == 3 ? exp(z) : exp(z.detach()); }, x));
  CHECK_THROWS_WITH(third.backward(), Contains("[checkpoint] f gave something else"));
  CHECK_THROWS_WITH(checkpoint(nullptr, x), Contains("f is empty"));
  CHECK_THROWS_WITH(checkpoint([](const Tensor& z) { return z; }, Tensor()), Contains("x is undefined"));
}

TEST_CASE("checkpoint() tells that a captured tensor was changed: a constant, or a computed tensor", "[checkpoint]") {
  Tensor x = full({2}, 3.).requires_grad_(), w = full({2}, 2.).requires_grad_();
  const auto direct = [](const auto& f, const Tensor& z) { return checkpoint(f, z); };
  const auto nested = [](const auto& f, const Tensor& z) {
    return checkpoint([f](const Tensor& a) { return checkpoint(f, a); }, z);
  };
  const auto changed = Contains("[checkpoint] a tensor of shape [2] that f uses was changed in place");
  const auto check = [&](const auto& call) {
    Tensor c = full({2}, 5.), d = full({2}, 5.), v = w * 2;
    const Tensor product = sum(call([&](const Tensor&z) { return z * c; }, x)),
                 not_kept = sum(call([&](const Tensor&z) { return exp(z + d); }, x)),
                 computed = sum(call([&](const Tensor&z) { return z * v; }, x));
    CHECK_THROWS_WITH(v.mul_(10.), Contains("shares its buffer"));
    {
      const NoGrad no_grad;
      for (Tensor* const t : {&c, &d, &v}) t->mul_(10.);
    }
    CHECK_THROWS_WITH(product.backward(), changed);
    CHECK_THROWS_WITH(not_kept.backward(), changed);
    CHECK_THROWS_WITH(computed.backward(), changed);
    v = w * 2;
    const Tensor replaced = sum(call([&](const Tensor& z) { return z * v; }, x));
    v = v * 10;
    CHECK_THROWS_WITH(replaced.backward(), Contains("f used a tensor of shape [2] that it did not use before"));
    // v is not changed, so w gets its gradient. The result and the tensors that f makes may change in place.
    v = w * 2;
    w.zero_grad();
    Tensor y = call(
        [&](const Tensor& z) {
          Tensor own = full({2}, 1.), a = z + own;
          own.mul_(5.);
          return sigmoid(a * v);
        },
        x);
    y.mul_(2.);
    sum(y).backward();
    const Tensor z = ((x + 1) * w * 2).detach();
    CHECK(allclose(w.grad(), 4 * (x + 1).detach() * sigmoid(z) * sigmoid(-z)));
  };
  check(direct);
  check(nested);
}

TEST_CASE("checkpoint() tells that f gives other numbers: a constant, an edit or a mode that changed", "[checkpoint]") {
  const auto other = Contains("[checkpoint] f gave other numbers when it was computed again: it must do the same");
  for (const DType dtype : {float32, float64, bfloat16}) {
    const Tensor x = full({3}, 2., dtype).requires_grad_();
    Tensor c = full({3}, 5., dtype);
    const Tensor y = sum(checkpoint([&](const Tensor& z) { return z * (c + 1); }, x));  // c + 1 is not recorded
    c[{2}] = 7;
    CHECK_THROWS_WITH(y.backward(), other);
    CHECK_FALSE(x.has_grad());
  }
  Tensor x = tensor({1., -1.}).requires_grad_();
  double factor = 1;
  const Tensor y = sum(checkpoint([&](const Tensor& z) { return z * factor; }, x));
  factor = -1;  // the same numbers in another order
  CHECK_THROWS_WITH(y.backward(retain_graph), other);
  factor = 1;
  y.backward();
  CHECK(equal(x.grad(), ones({2})));
}

TEST_CASE("checkpoint() within checkpoint(), up to 255 deep", "[checkpoint]") {
  using F = Callable<Tensor(const Tensor&, int)>;
  const F nest = [&](const Tensor& x, int depth) {
    if (depth == 0) return x * 2;
    return checkpoint([&nest, depth](const Tensor& z) { return nest(z, depth - 1); }, x);
  };
  Tensor x = ones({2}).requires_grad_();
  sum(nest(x, 100)).backward();
  CHECK(equal(x.grad(), full({2}, 2)));
  CHECK_THROWS_WITH(sum(nest(x, 300)).backward(), Contains("more than 255 calls of backward() and grad() are nested"));
  CHECK(equal(x.grad(), full({2}, 2)));
}

TEST_CASE("checkpoint() passes gradients on that are missing or not wanted", "[checkpoint]") {
  // f uses w, but its gradient is lost on the way: it stays without one.
  Tensor x = ones({2}).requires_grad_(), w = ones({2}).requires_grad_();
  const auto lost = [&](const Tensor& z) {
    return record("lost", {z, w}, z.detach() * 2, keep::nothing, [](Backward& b) {
      b.give(0, b.dy() * 2);
      b.give(1, Tensor());
    });
  };
  sum(checkpoint(lost, x)).backward();
  CHECK(equal(x.grad(), full({2}, 2)));
  CHECK_FALSE(w.has_grad());
  // A leaf that f made itself, and that is gone.
  const auto own = [](const Tensor& z) { return z * ones({2}).requires_grad_(); };
  x.zero_grad();
  sum(checkpoint(own, x)).backward();
  CHECK(equal(x.grad(), ones({2})));
  // The value was there before: nothing is recorded in f.
  const Tensor before = x * 3;
  x.zero_grad();
  sum(checkpoint([&](const Tensor&) { return before; }, x)).backward();
  CHECK(equal(x.grad(), full({2}, 3)));
}

TEST_CASE("checkpoint() of what records nothing is f", "[checkpoint]") {
  const Tensor x = randn({3}).requires_grad_();
  CHECK(checkpoint([](const Tensor& z) { return z; }, x).is_leaf());
  CHECK_FALSE(checkpoint([](const Tensor& z) { return exp(z.detach()); }, x).requires_grad());
  const NoGrad no_grad;
  CHECK_FALSE(checkpoint([](const Tensor& z) { return exp(z); }, x).requires_grad());
}

TEST_CASE("checkpoint() gives the same gradients on whatever threads the graph was made and is read", "[checkpoint]") {
  const auto on_another_thread = [](const auto& f) { std::thread(f).join(); };
  const auto here = [](const auto& f) { f(); };
  for (const int way : {0, 1, 2}) {
    INFO("way " << way);
    const Tensor w = randn({3, 3}).requires_grad_(), v = randn({3, 3}).requires_grad_();
    Tensor h, captured;
    const auto before = [&] {
      h = ones({2, 3});
      for (int i = 0; i < 50; ++i) h = tanh(matmul(h, w));  // many nodes: this thread has made few
      captured = exp(w);
    };
    way == 1 ? on_another_thread(before) : here(before);
    const Tensor loss = sum(checkpoint([&](const Tensor& z) { return matmul(z, v) + matmul(z, captured); }, h));
    const auto backward = [&] { loss.backward(retain_graph); };
    way == 2 ? on_another_thread(backward) : here(backward);
    REQUIRE(w.has_grad());
    const Tensor plain = sum(matmul(h, v) + matmul(h, captured));
    CHECK(same_bits(v.grad(), grad(plain, v, retain_graph)));
    CHECK_THAT(values(w.grad()), Catch::Approx(values(grad(plain, w))));
  }
}

}  // namespace fit::test::activation_checkpoint_test
