#include "fit/nn/data/data.hpp"
#include "fit/nn/data/readers.hpp"
#include "fit/nn/data/transforms.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/tables/refusals.hpp"
#include "support/tensors.hpp"

// Each condition on an argument is violated alone.
namespace fit::test::data_refusals_test {

TEST_CASE("data refuse numbers and shapes out of range", "[refusals]") {
  const data::TensorDataset numbers({arange(6).to(int64)});
  const auto loader = [=](const data::LoaderOptions& o) { return [=] { return data::DataLoader(numbers, o); }; };
  const auto sampled = [](std::int64_t i) {
    return [i](Generator&, std::int64_t) { return std::vector<std::int64_t>{i}; };
  };
  const Directory directory;
  put(directory.file("nameless.csv"), "1,2\n3,4\n");
  const auto windows = text::TextWindows(arange(6).to(int64), 2, 1);
  check_refused({
      {"count is -1: it must not be negative", [] { return data::weighted_sampler({1}, -1); }},
      {"the weight of example 1 is -1",
       [] {
         return data::weighted_sampler({1, -1}, 1);
       }},
      {"the weight of example 0 is inf", [] { return data::weighted_sampler({inf}, 1); }},
      {"the weight of example 0 is nan", [] { return data::weighted_sampler({nan}, 1); }},
      {"the weights sum up to 0",
       [] {
         return data::weighted_sampler({0, 0}, 1);
       }},
      {"the weights sum up to more than there are numbers for",
       [] {
         return data::weighted_sampler({1e308, 1e308}, 1);
       }},
      {"pool is 0: it must be at least 1",
       [] {
         return data::bucket_sampler({1, 2}, 0);
       }},
      {"batch_size is 0", loader(data::LoaderOptions().batch_size(0))},
      {"prefetch is -1", loader(data::LoaderOptions().prefetch(-1))},
      {"workers is -1", loader(data::LoaderOptions().workers(-1))},
      {"collate is empty", loader(data::LoaderOptions().collate(nullptr))},
      {"shuffle and a sampler are given", loader(data::LoaderOptions().shuffle(true).sampler(sampled(0)))},
      {"the sampler gave example -1: there are 6", loader(data::LoaderOptions().sampler(sampled(-1)))},
      {"the sampler gave example 6: there are 6", loader(data::LoaderOptions().sampler(sampled(6)))},
      {"a size is -1",
       [=] {
         return data::random_split(numbers, std::vector<std::int64_t>{6, -1});
       }},
      {"a size is -1",
       [=] {
         return data::random_split(numbers, std::vector<std::int64_t>{-1, 7});
       }},
      {"a size is 4, those before it sum up to 3",
       [=] {
         return data::random_split(numbers, std::vector<std::int64_t>{3, 4});
       }},
      {"the sizes sum up to 5",
       [=] {
         return data::random_split(numbers, std::vector<std::int64_t>{3, 2});
       }},
      {"a share is -0.5",
       [=] {
         return data::random_split(numbers, std::vector<double>{1, -0.5});
       }},
      {"a share is 1.5",
       [=] {
         return data::random_split(numbers, std::vector<double>{1.5, -0.5});
       }},
      {"a share is -0.5",
       [=] {
         return data::random_split(numbers, std::vector<double>{-0.5, 1});
       }},
      {"p is -0.5: it must be in 0 … 1", [] { return data::random_horizontal_flip(-0.5); }},
      {"p is 1.5: it must be in 0 … 1", [] { return data::random_horizontal_flip(1.5); }},
      {"x has shape [4]: its last axes must have at least the sizes [2, 2]",
       [] {
         return data::center_crop({2, 2})(ones({4}));
       }},
      {"x has shape [4, 1]",
       [] {
         return data::center_crop({2, 2})(ones({4, 1}));
       }},
      {"0 means and 0 deviations", [] { return data::normalize({}, {}); }},
      {"1 means and 2 deviations",
       [] {
         return data::normalize({1}, {1, 2});
       }},
      {"a deviation is 0", [] { return data::normalize({1}, {0}); }},
      {"a deviation is inf", [] { return data::normalize({1}, {inf}); }},
      {"x has shape [2, 2]: it must be [..., 2, H, W]",
       [] {
         return data::normalize({1, 1}, {1, 1})(ones({2, 2}));
       }},
      {"x has shape [3, 2, 2]",
       [] {
         return data::normalize({1, 1}, {1, 1})(ones({3, 2, 2}));
       }},
      {"ids has shape [2, 3]: it must have one axis",
       [] {
         return text::TextWindows(zeros({2, 3}, int64), 1, 1);
       }},
      {"length is 0, stride 1", [] { return text::TextWindows(zeros({3}, int64), 0, 1); }},
      {"length is 1, stride 0", [] { return text::TextWindows(zeros({3}, int64), 1, 0); }},
      {"the text has 3 tokens: a window of 3", [] { return text::TextWindows(zeros({3}, int64), 3, 1); }},
      {"there is no example -1", [=] { return windows.get(-1); }},
      {"there is no example 4", [=] { return windows.get(4); }},
      {"there is no column 'a': there are no names",
       [&] { return data::read_csv(directory.file("nameless.csv"), data::CsvOptions().header(false)).column("a"); }},
      {"token 256 joins -1 and 0",
       [] {
         return text::BytePairVocabulary({{-1, 0}});
       }},
      {"token 256 joins 0 and -1",
       [] {
         return text::BytePairVocabulary({{0, -1}});
       }},
      {"token 256 joins 256 and 0",
       [] {
         return text::BytePairVocabulary({{256, 0}});
       }},
      {"token 256 joins 0 and 256",
       [] {
         return text::BytePairVocabulary({{0, 256}});
       }},
      {"token 257 joins 1 and 2, as one before it does",
       [] {
         return text::BytePairVocabulary({{1, 2}, {1, 2}});
       }},
  });
}

}  // namespace fit::test::data_refusals_test
