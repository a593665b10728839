// Which examples make a batch, and how they are put together.
#include <algorithm>
#include <cmath>
#include <set>

#include "fit/attention/attention.hpp"
#include "fit/nn/attention/attention.hpp"
#include "fit/nn/data/transforms.hpp"
#include "nn/data/numbered.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::sampling_test {
namespace {

using Catch::Matchers::Contains;
using data::DataLoader;

}  // namespace

TEST_CASE("data: sequences are padded, and a mask tells which is real", "[data]") {
  DataLoader loader(Growing(), data::LoaderOptions().batch_size(3).collate(data::pad_collate({-1, 0})));
  auto at = loader.begin();
  CHECK(same_bits((*at)[0], tensor({{0, -1, -1}, {1, 1, -1}, {2, 2, 2}})));
  CHECK(same_bits((*at)[1], arange(3)));
  CHECK(same_bits((*at)[2], tensor({{{true, false, false}}, {{true, true, false}}, {{true, true, true}}})));
  CHECK(same_bits((*at)[2], create_padding_mask((*at)[0], -1).to(boolean)));
  ++at;
  CHECK((*at)[0].shape() == Shape{2, 5});
  CHECK((*at)[2].dtype() == boolean);

  CHECK_THROWS_WITH(data::pad_collate({0})({{arange(2), arange(2)}}), Contains("1 numbers to pad with, and 2 fields"));
  CHECK_THROWS_WITH(data::pad_collate({0})({{tensor(1.)}}), Contains("must be a sequence"));
  CHECK_THROWS_WITH(data::stack_collate({{arange(2)}, {arange(3)}}), Contains("field 0 has shapes [2] and [3]"));
  CHECK_THROWS_WITH(data::stack_collate({{arange(2)}, {}}), Contains("1 and 0 fields"));
  CHECK_THROWS_WITH(data::stack_collate({}), Contains("no examples"));
}

TEST_CASE("data: weights set how often an example is drawn", "[data]") {
  auto options = data::LoaderOptions().batch_size(8).seed(3).sampler(data::weighted_sampler({0, 1, 0, 3, 0}, 4000));
  DataLoader loader(numbers(5), options);
  CHECK(loader.size() == 500);
  std::vector<int> count(5);
  for (const std::int64_t i : joined(batches(loader))) ++count[static_cast<std::size_t>(i)];
  CHECK(count[0] + count[2] + count[4] == 0);
  CHECK(std::abs(count[3] - 3000) < 150);  // five standard deviations are 137
  CHECK_THROWS_WITH(data::weighted_sampler({1, -2}, 3), Contains("the weight of example 1 is -2"));
  CHECK_THROWS_WITH(data::weighted_sampler({0, 0}, 3), Contains("at least one must be above 0"));
  options.sampler(data::weighted_sampler({1}, 0));
  CHECK(DataLoader(numbers(5), options).size() == 0);
  options.sampler([](Generator&, std::int64_t) { return Ids{0, 5}; });
  CHECK_THROWS_WITH(DataLoader(numbers(5), options), Contains("the sampler gave example 5: there are 5"));
  options.shuffle(true);
  CHECK_THROWS_WITH(DataLoader(numbers(5), options), Contains("shuffle and a sampler"));
}

TEST_CASE("data: buckets hold examples of like lengths", "[data]") {
  Ids lengths;
  for (std::int64_t i = 0; i < 203; ++i) lengths.push_back(i * 37 % 101);
  auto options = data::LoaderOptions().batch_size(10).sampler(data::bucket_sampler(lengths));
  DataLoader loader(numbers(203), options);
  const auto first = batches(loader), second = batches(loader);
  CHECK(sorted(joined(first)) == count_to(203));
  CHECK(first != second);
  CHECK(first.back().size() == 3);
  Ids shortest;
  for (std::size_t b = 0; b + 1 < first.size(); ++b) {
    std::set<std::int64_t> in_batch;
    for (const std::int64_t i : first[b]) in_batch.insert(lengths[static_cast<std::size_t>(i)]);
    CHECK(*in_batch.rbegin() - *in_batch.begin() <= 6);
    shortest.push_back(*in_batch.begin());
  }
  CHECK(shortest != sorted(shortest));  // short ones don't come first

  options.sampler(data::bucket_sampler(lengths, 1));  // each batch is sorted alone
  DataLoader small(numbers(203), options);
  const auto pools = batches(small);
  CHECK(sorted(joined(pools)) == count_to(203));
  for (const Ids& ids : pools) {
    Ids of_batch;
    for (const std::int64_t i : ids) of_batch.push_back(lengths[static_cast<std::size_t>(i)]);
    CHECK(of_batch == sorted(of_batch));
  }
  Generator one(3), same(3);  // examples of one length stay as they have been shuffled
  CHECK(data::bucket_sampler(Ids(20, 7))(one, 20) == randperm(20, same).to_vector<std::int64_t>());

  options.sampler(data::bucket_sampler(lengths, INT64_MAX));  // all in one pool
  DataLoader whole(numbers(203), options);
  CHECK(sorted(joined(batches(whole))) == count_to(203));
}

TEST_CASE("data: a list of examples of several lengths", "[data]") {
  const data::ListDataset list({{tensor({1, 2, 3})}, {tensor({4})}});
  CHECK(list.size() == 2);
  CHECK(equal(list.get(1)[0], tensor({4})));
  CHECK_THROWS_WITH(list.get(2), Contains("[ListDataset] there is no example 2: there are 2"));
  CHECK_THROWS_WITH(list.get(-1), Contains("there is no example -1"));
}

TEST_CASE("data: what writes to an example changes no dataset", "[data]") {
  const auto doubled = [](const Tensor& x) {
    Tensor y = x;
    return y.mul_(2);
  };
  const std::vector<data::SharedDataset> datasets{
      data::ListDataset({{tensor({1, 2})}, {tensor({3, 4})}}), data::TensorDataset({tensor({{1, 2}, {3, 4}})}),
      data::Subset(data::ListDataset({{tensor({3, 4})}, {tensor({1, 2})}}), {1, 0})};
  for (const data::SharedDataset& dataset : datasets) {
    data::DataLoader loader(data::MapDataset(dataset, doubled), 2);
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const data::Batch& b : loader) CHECK(equal(b[0], tensor({{2, 4}, {6, 8}})));
  }
  for (const data::Collate& collate : {data::Collate(data::stack_collate), data::pad_collate({0}),
                                       data::Collate(data::pack_collate)}) {  // also of one example
    data::DataLoader loader(datasets[0], data::LoaderOptions().batch_size(1).collate(collate));
    for (const data::Batch& b : loader) Tensor(b[0]).fill_(9);
    CHECK(equal(datasets[0]->get(0)[0], tensor({1, 2})));
  }
}

TEST_CASE("data: splits are disjoint and complete", "[data]") {
  Generator g(4);
  const data::SharedDataset all = numbers(10);
  const auto parts = data::random_split(all, std::vector<double>{0.5, 0.25, 0.25}, g);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].size() == 6);  // one was left over
  CHECK(parts[1].size() == 2);
  Ids ids;
  for (const data::Subset& p : parts)
    for (std::int64_t i = 0; i < p.size(); ++i) ids.push_back(p.get(i)[0].item<std::int64_t>());
  CHECK(ids != count_to(10));
  CHECK(sorted(ids) == count_to(10));
  CHECK(data::random_split(all, Ids{7, 3}, g)[1].size() == 3);
  CHECK(data::random_split(all, {7, 3})[1].size() == 3);
  CHECK(data::random_split(all, {0.7, 0.3})[0].size() == 7);
  CHECK(data::random_split(all, {10, 0})[1].size() == 0);
  const auto thirds = data::random_split(numbers(11), std::vector<double>{1. / 3, 1. / 3, 1. / 3}, g);
  CHECK(thirds[0].size() == 4);  // what is left over goes to the first ones
  CHECK(thirds[1].size() == 4);
  CHECK(thirds[2].size() == 3);
  CHECK_THROWS_WITH(data::random_split(all, Ids{7, 4}, g), Contains("a size is 4, those before it sum up to 7"));
  CHECK_THROWS_WITH(data::random_split(all, Ids{7, 2}, g), Contains("sum up to 9: it must be the 10 examples"));
  CHECK_THROWS_WITH(data::random_split(all, std::vector<double>{0.5, 0.4}, g), Contains("sum up to 0.9: it must be 1"));
  CHECK_THROWS_WITH(data::Subset(all, {10}), Contains("there is no example 10"));
}

}  // namespace fit::test::sampling_test
