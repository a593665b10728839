#include "fit/base/memory.hpp"
#include "fit/graph/graph.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// A million operations in a row: built, walked and freed without recursion. tests/CMakeLists.txt runs these with a
// stack of 256 kB as well, which a recursion a few thousand deep would overflow.
namespace fit::test::deep_test {
namespace {

constexpr int length = 1000000;

Tensor chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = y + x;
  return y;
}

}  // namespace

TEST_CASE("a chain of a million ops is walked and freed", "[deep]") {
  const Tensor x = full({1}, 1, float64).requires_grad_();
  const auto base = memory_stats().live_blocks;
  SECTION("by backward()") {
    chain(x).backward();
    CHECK(x.grad().item() == length + 1);
    Tensor(x).zero_grad();
  }
  SECTION("by backward() with the graph retained") {
    const Tensor y = chain(x);
    y.backward(retain_graph);
    y.backward(retain_graph);
    CHECK(x.grad().item() == 2 * (length + 1));
    Tensor(x).zero_grad();
  }
  SECTION("by grad()") { CHECK(grad({chain(x)}, {x})[0].item() == length + 1); }
  SECTION("without backward()") {
    const Tensor y = chain(x);
    CHECK(y.item() == length + 1);
    CHECK(memory_stats().live_blocks > base + length);
  }
  SECTION("with a second derivative: the graph of the gradient is as long") {
    Tensor y = x;
    for (int i = 0; i < length / 4; ++i) y = y * x;
    const Tensor g = grad({y}, {x}, create_graph)[0];
    CHECK(g.item() == length / 4 + 1);
    CHECK(grad({g}, {x})[0].item() == (length / 4 + 1.) * (length / 4));
  }
  SECTION("when an adjoint at its far end throws") {
    const Tensor fragile =
        record("fragile", {x}, x.detach(), keep::nothing, [](Backward&) { throw Error("[fragile] fails"); });
    Tensor y = fragile;
    for (int i = 0; i < length; ++i) y = y + 1;
    CHECK_THROWS_WITH(y.backward(), "[fragile] fails");
  }
  CHECK(memory_stats().live_blocks == base);
}

}  // namespace fit::test::deep_test
