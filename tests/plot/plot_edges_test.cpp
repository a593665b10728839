#include <limits>

#include "fit/graph_to_dot.hpp"
#include "fit/nn/layers/activation.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/ops/ops.hpp"
#include "fit/training_page.hpp"
#include "fit/workbench.hpp"
#include "support/catch.hpp"

// Pages and graphs at the edges of what they take.
namespace fit::test::plot_edges_test {

using Catch::Matchers::Contains;
constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("a graph names its leaves, folds its layers and cuts what is far from the loss", "[edges]") {
  Tensor w = ones({2}).requires_grad_(), unnamed = ones({2}).requires_grad_();
  const Tensor x = w * unnamed, loss = sum(x * x + w);
  const std::string dot =
      graph_to_dot(loss, {{"w", w}, {"w", w}, {"again", w}, {"none", Tensor()}, {"plain", ones({2})}});
  CHECK_THAT(dot, Contains("label=\"w = again\\n[2]\"") && Contains("label=\"leaf\\n[2]\""));
  // A parameter that only another layer uses, and a layer that is a list's, whose name is empty or a number.
  struct Lender final : nn::UnaryLayer {
    Tensor forward(const Tensor& z) const override { return user(z) * lent.scale.value(); }
    struct Lent final : nn::Layer {
      FIT_FIELDS_ONLY(scale)
      nn::Parameter scale{ones({2})};
    } lent;
    FIT_FIELDS_ONLY(lent, user)
    nn::Sequential user{nn::Linear(2, 2), nn::Sequential(nn::Linear(2, 2), nn::ReLU(), nn::Linear(2, 2))};
  } lender;
  const Tensor y = sum(lender(ones({3, 2})));
  for (const std::int64_t most : {2, 3, 4, 6, 100}) {
    const std::string text = graph_to_dot(y, lender, GraphToDotOptions().max_nodes(most));
    CHECK_THAT(text, Contains("digraph"));
    if (most == 100) CHECK_THAT(text, Contains("lent.scale"));
  }
}

TEST_CASE("a page of a training without a path writes nothing, and refuses rows without a finite step", "[edges]") {
  plot::TrainingPage page("");
  CHECK_THROWS_WITH(page.add({{"loss", 1}}), Contains("a row has no \"step\""));
  CHECK_THROWS_WITH(page.add({{"step", nan}}), Contains("a row has no \"step\""));
}

TEST_CASE("a page of heads with sums that are not 1, zeros, and numbers that are not finite", "[edges]") {
  const auto page = [](const Tensor& weights, const AttentionRecordOptions& o = {}) {
    AttentionRecording recording;
    recording.add("a", weights, o);
    return plot::workbench(recording);
  };
  const Tensor half = full({1, 3, 3}, 1. / 3);
  Tensor broken = half.clone(), empty = half.clone();
  broken[{0, 1, 1}] = nan, empty[{0, 1}] = 0;
  for (const Tensor& w : {half, half * 2, broken, empty, zeros({1, 3, 3}), full({1, 3, 3}, inf)})
    CHECK_THAT(page(w, AttentionRecordOptions().queries({"a", "b", "a"})), Contains("<html"));
  // A mask that hides nothing, a window alone, and blocks of many tokens.
  CHECK_THAT(page(half, AttentionRecordOptions().mask(ones({3, 3}, boolean))), Contains("<html"));
  CHECK_THAT(page(half, AttentionRecordOptions().window(1)), Contains("<html"));
  CHECK_THAT(page(full({1, 700, 700}, 1. / 350), AttentionRecordOptions().causal(true).window(200)),
             Contains("blocks of"));
}

}  // namespace fit::test::plot_edges_test
