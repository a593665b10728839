#include "fit/nn/data/transforms.hpp"

#include <cmath>
#include <set>

#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::transforms_test {
using Catch::Contains;
using test::same_bits;

TEST_CASE("transforms compute what they say") {
  const Tensor image = arange(24).to(float32).reshape({2, 3, 4});
  const Tensor normal = data::normalize({1, 2}, {2, 4})(image);
  CHECK(normal[{1, 2, 3}].item() == (23. - 2) / 4);
  CHECK(same_bits(data::normalize({1}, {2})(image), (image - 1) / 2));
  CHECK(same_bits(data::random_horizontal_flip(1)(image), flip(image, -1)));
  CHECK(same_bits(data::random_horizontal_flip(0)(image), image));
  CHECK(same_bits(data::center_crop({1, 2})(image), slice(slice(image, 1, 1, 2), 2, 1, 3)));
  CHECK(same_bits(data::pad({1, 0})(tensor({3, 4})), tensor({0, 3, 4})));
  const auto both = data::compose({data::pad({1, 1}, PadMode::reflect), data::center_crop({2})});
  CHECK(same_bits(both(tensor({1, 2, 3, 4})), tensor({2, 3})));
  CHECK(same_bits(data::token_dropout(1, 9)(tensor({3, 4})), tensor({9, 9})));
}

TEST_CASE("random transforms draw from the default generator") {
  manual_seed(1);
  const Tensor ids = arange(10);
  std::set<std::int64_t> starts;
  for (int i = 0; i < 200; ++i) {
    const Tensor part = data::random_crop({7}, 1, -1)(ids);
    CHECK(part.shape() == Shape{7});
    CHECK(equal(slice(part, 0, 2, 6), slice(part, 0, 1, 5) + 1));
    starts.insert(part[0].item<std::int64_t>());
  }
  CHECK(starts == std::set<std::int64_t>{-1, 0, 1, 2, 3, 4});
  const Tensor dropped = data::token_dropout(0.3, -1)(zeros({10000}, int64));
  CHECK(std::abs(mean((dropped == -1).to(float32)).item() - 0.3) < 0.03);
  manual_seed(2);
  const Tensor once = data::random_crop({2, 2})(rand({3, 9, 9}));
  manual_seed(2);
  CHECK(same_bits(data::random_crop({2, 2})(rand({3, 9, 9})), once));
}

TEST_CASE("a MapDataset changes one field, the same for any number of workers") {
  const data::TensorDataset images({rand({20, 1, 8, 8}), arange(20)});
  const data::MapDataset augmented(images, data::compose({data::random_crop({8, 8}, 2), data::random_horizontal_flip(),
                                                          data::normalize({0.5}, {0.5})}));
  const auto epochs = [&](int workers, std::uint64_t seed = 4) {
    data::DataLoader loader(augmented, data::LoaderOptions().batch_size(6).shuffle().seed(seed).workers(workers));
    std::vector<Tensor> all;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const data::Batch& b : loader) all.insert(all.end(), {b[0], b[1]});
    return all;
  };
  manual_seed(5);
  const std::vector<Tensor> expected = epochs(0), more = epochs(3);
  CHECK(std::equal(expected.begin(), expected.end(), more.begin(), more.end(), same_bits));
  CHECK(expected.size() == 16);
  manual_seed(6);
  CHECK(same_bits(epochs(0)[0], expected[0]));
  CHECK(!same_bits(epochs(0, 5)[0], expected[0]));
  CHECK(augmented.size() == 20);
}

TEST_CASE("transforms refuse what does not fit") {
  CHECK_THROWS_WITH(data::normalize({1, 2}, {1}), Contains("2 means and 1 deviations"));
  CHECK_THROWS_WITH(data::normalize({1}, {0}), Contains("a deviation is 0"));
  CHECK_THROWS_WITH(data::normalize({1, 2, 3}, {1, 1, 1})(zeros({1, 4, 4})),
                    Contains("x has shape [1, 4, 4]: it must be [..., 3, H, W]"));
  CHECK_THROWS_WITH(data::normalize({1}, {1})(zeros({2}, int64)), Contains("x is int64"));
  CHECK_THROWS_WITH(data::random_crop({5, 5})(zeros({1, 4, 9})),
                    Contains("[random_crop] x has shape [1, 4, 9]: its last axes must have at least the sizes [5, 5]"));
  CHECK_THROWS_WITH(data::random_crop({}), Contains("no sizes are given"));
  CHECK_THROWS_WITH(data::random_crop({0}), Contains("a size is 0"));
  CHECK_THROWS_WITH(data::random_crop({1}, -1), Contains("padding is -1"));
  CHECK_THROWS_WITH(data::random_horizontal_flip(2), Contains("p is 2: it must be in 0 … 1"));
  CHECK_THROWS_WITH(data::token_dropout(0.5, 1)(zeros({2})), Contains("x is float32: it must be int64"));
  CHECK_THROWS_WITH(data::compose({nullptr}), Contains("a transform is empty"));
  CHECK_THROWS_WITH(data::MapDataset(data::TensorDataset({zeros({2})}), nullptr), Contains("the transform is empty"));
}

}  // namespace fit::test::transforms_test
