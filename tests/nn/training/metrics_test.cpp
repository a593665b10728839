#include "fit/nn/metrics/metrics.hpp"

#include <cmath>

#include "fit/ops/ops.hpp"
#include "fit/tensor/random.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"

namespace fit::test::metrics_test {
using Catch::Contains;
using metrics::Average;

TEST_CASE("accuracy and top-k accuracy count targets among the largest scores") {
  const Tensor logits = tensor({{0.1, 0.7, 0.2, 0.}, {3., 2., 1., 0.}, {1., 1., 1., 1.}, {0., 0., 5., 4.}});
  const Tensor targets = tensor({1, 2, 1, 3});
  CHECK(metrics::accuracy(logits, targets) == 0.25);
  CHECK(metrics::top_k_accuracy(logits, targets, 2) == 0.75);  // of equals the first comes first
  CHECK(metrics::top_k_accuracy(logits, targets, 3) == 1);
  CHECK(metrics::accuracy(logits, tensor({1, -100, -100, 2})) == 1);
  CHECK(metrics::accuracy(logits, tensor({1, 7, 7, 3}), 7) == 0.5);
  CHECK(std::isnan(metrics::accuracy(logits, full({4}, -100, int64))));
  CHECK(metrics::accuracy(reshape(logits, {2, 2, 4}), reshape(targets, {2, 2})) == 0.25);
  // Where no scores are equal, as many as argmax finds.
  Generator g(4);
  const Tensor many = randn({200, 7}, float32, g), right = randint(0, 7, {200}, g);
  CHECK(metrics::accuracy(many, right) == Approx(mean(eq(argmax(many, -1), right).to(float64)).item()));

  CHECK_THROWS_WITH(metrics::accuracy(logits, tensor({1, 2, 1})),
                    "[accuracy] logits are [4, 4], targets [3]: they must be [..., C] and [...], with C at least 1");
  CHECK_THROWS_WITH(metrics::accuracy(logits, tensor({1, 2, 1, 4})), "[accuracy] targets[3] is 4: it must be in 0 … 3");
  CHECK_THROWS_WITH(metrics::top_k_accuracy(logits, targets, 5), "[top_k_accuracy] k is 5: it must be in 1 … 4");
  CHECK_THROWS_WITH(metrics::accuracy(tensor({{1., NAN}}), tensor({0})),
                    "[accuracy] row 0 of logits holds NaN for class 1");
}

TEST_CASE("perplexity is e to the mean cross entropy") {
  CHECK(metrics::perplexity(zeros({5, 8}), tensor({0, 1, 2, 3, 4})) == Approx(8));
  const Tensor logits = log(tensor({{0.5, 0.25, 0.25}, {0.1, 0.1, 0.8}}));
  CHECK(metrics::perplexity(logits, tensor({0, 2})) == Approx(std::sqrt(2 / 0.8)));
  CHECK(metrics::perplexity(logits, tensor({0, -100})) == Approx(2));
  CHECK(std::isnan(metrics::perplexity(logits, tensor({-100, -100}))));
  CHECK(metrics::perplexity(tensor({{0., 1e6}}), tensor({0})) == INFINITY);
}

TEST_CASE("a confusion matrix gives precision, recall and F1, as scikit-learn does") {
  metrics::ConfusionMatrix m(4);
  CHECK(std::isnan(m.f1()));
  CHECK(std::isnan(m.accuracy()));
  //                       the right classes          and what was predicted
  m.add(tensor({0, 2, 1, 0, 0, 1}), tensor({0, 1, 2, 0, 1, 2}));
  m.add(tensor({{9., 0., 0., 0.}, {0., 9., 0., 0.}}), tensor({0, -1}), -1);
  CHECK(m.total() == 7);
  CHECK(m.counts().to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{3, 0, 0, 0, 1, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0});
  CHECK(m.accuracy() == Approx(3 / 7.));
  CHECK(m.precision(0) == Approx(0.75));
  CHECK(m.recall(0) == 1);
  CHECK(m.f1(0) == Approx(6 / 7.));
  CHECK(m.f1(1) == 0);
  CHECK(m.precision(3) == 0);  // never predicted, never right
  CHECK(m.recall(3) == 0);
  CHECK(m.precision(Average::macro) == Approx(0.75 / 4));
  CHECK(m.recall(Average::macro) == Approx(1 / 4.));
  CHECK(m.f1() == Approx(6 / 7. / 4));
  CHECK(m.f1(Average::weighted) == Approx(6 / 7. * 3 / 7));
  CHECK(m.precision(Average::weighted) == Approx(0.75 * 3 / 7));
  CHECK(m.f1(Average::micro) == Approx(3 / 7.));
}

TEST_CASE("what a confusion matrix can't count is refused, and nothing is added") {
  metrics::ConfusionMatrix m(3);
  CHECK_THROWS_WITH(metrics::ConfusionMatrix(0), "[ConfusionMatrix] classes is 0: it must be in 1 … 32768");
  CHECK_THROWS_WITH(m.add(tensor({0, 3}), tensor({0, 1})), "[ConfusionMatrix] predicted[1] is 3: it must be in 0 … 2");
  CHECK_THROWS_WITH(m.add(tensor({0, 1}), tensor({0, -100}), 5),
                    "[ConfusionMatrix] targets[1] is -100: it must be in 0 … 2");
  CHECK_THROWS_WITH(m.add(tensor({0, 1}), tensor({0})),
                    "[ConfusionMatrix] predicted is [2], targets [1]: they must be equal");
  CHECK_THROWS_WITH(m.add(zeros({2, 4}), tensor({0, 1})),
                    "[ConfusionMatrix] logits are [2, 4]: the last axis must have 3 classes");
  CHECK_THROWS_WITH(m.add(tensor({{0., 1., 2.}, {NAN, 1., 2.}}), tensor({0, 1})), Contains("holds NaN"));
  CHECK_THROWS_WITH(m.f1(3), "[ConfusionMatrix] there is no class 3: it must be in 0 … 2");
  CHECK(m.total() == 0);
}

}  // namespace fit::test::metrics_test
