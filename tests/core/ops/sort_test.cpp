#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

namespace fit::test::sort_test {
namespace {

using I = std::vector<std::int64_t>;
using V = std::vector<double>;

I ints(const Tensor& x) { return x.to_vector<std::int64_t>(); }

}  // namespace

TEST_CASE("sort is stable, in both directions", "[sort]") {
  const Tensor x = tensor({3, 1, 2, 1, 3, 1});
  const auto [up, up_ids] = sort(x);
  CHECK(ints(up) == I{1, 1, 1, 2, 3, 3});
  CHECK(ints(up_ids) == I{1, 3, 5, 2, 0, 4});
  const auto [down, down_ids] = sort(x, 0, descending);
  CHECK(ints(down) == I{3, 3, 2, 1, 1, 1});
  CHECK(ints(down_ids) == I{0, 4, 2, 1, 3, 5});
  CHECK(sort(tensor({true, false, true})).first.to_vector<bool>() == std::vector<bool>{false, true, true});
}

TEST_CASE("a scalar is sorted as one element", "[sort]") {
  const Tensor x = tensor(2.).requires_grad_();
  for (const auto& [value, id] : {sort(x), sort(x, 0, descending), topk(x, 1)}) {
    CHECK((value.shape() == Shape{} && id.shape() == Shape{} && id.item() == 0));
    CHECK(grad({value}, {x})[0].item() == 1);
  }
  CHECK(argsort(x).item() == 0);
  CHECK(topk(x, 0).first.shape() == Shape{0});
  CHECK_THROWS_WITH(topk(x, 2), Catch::Contains("k is 2: axis 0 of shape [] allows 0 … 1"));
  CHECK_THROWS_WITH(sort(x, 1), Catch::Contains("[sort] axis 1 is out of range"));
}

TEST_CASE("sort along any axis", "[sort]") {
  const Tensor x = tensor({{3., 1., 2.}, {0., 5., -1.}});
  CHECK(values(sort(x).first) == V{1, 2, 3, -1, 0, 5});
  CHECK(values(sort(x, 0).first) == V{0, 1, -1, 3, 5, 2});
  CHECK(ints(sort(x, 0).second) == I{1, 0, 1, 0, 1, 0});
  CHECK(sort(zeros({2, 0})).second.shape() == Shape{2, 0});
  // Many lines, for several threads, against std::sort.
  std::mt19937_64 random(4);
  const Tensor large = random_tensor({100, 33, 7}, domain::real, random, float32);
  const Tensor y = sort(large, 1).first;
  for (std::int64_t line = 0; line < 700; ++line) {
    std::vector<float> plain, got;
    for (std::int64_t i = 0; i < 33; ++i) {
      const std::int64_t at = (line / 7 * 33 + i) * 7 + line % 7;
      plain.push_back(large.data<float>()[at]);
      got.push_back(y.data<float>()[at]);
    }
    std::sort(plain.begin(), plain.end());
    REQUIRE(plain == got);
  }
}

TEST_CASE("NaN is the largest", "[sort]") {
  const Tensor x = tensor({NAN, 1., INFINITY, -INFINITY, NAN});
  CHECK(ints(sort(x).second) == I{3, 1, 2, 0, 4});
  CHECK(ints(sort(x, 0, descending).second) == I{0, 4, 2, 1, 3});
  CHECK(ints(topk(x, 3).second) == I{0, 4, 2});
  CHECK(ints(topk(x, 4, 0, smallest).second) == I{3, 1, 2, 0});
}

TEST_CASE("topk gives the first k in order", "[sort]") {
  const Tensor x = tensor({{3, 9, 4, 9}, {1, 0, 2, 0}});
  const auto [y, ids] = topk(x, 3);
  CHECK(ints(y) == I{9, 9, 4, 2, 1, 0});
  CHECK(ints(ids) == I{1, 3, 2, 2, 0, 1});
  CHECK(ints(topk(x, 2, -1, smallest).first) == I{3, 4, 0, 0});
  CHECK(ints(topk(x, 1, 0).first) == I{3, 9, 4, 9});
  CHECK(topk(x, 0).first.shape() == Shape{2, 0});
}

TEST_CASE("the gradient of sorted values goes to where they came from", "[sort]") {
  const Tensor x = tensor({3., 1., 2.}).requires_grad_();
  sum(sort(x).first * tensor({1., 10., 100.})).backward();
  CHECK(values(x.grad()) == V{100, 1, 10});
  sum(topk(x, 1).first).backward();
  CHECK(values(x.grad()) == V{101, 1, 10});
}

namespace {

// The first k of a line as std::stable_sort has them, NaN being the largest.
template <class T>
std::vector<std::int64_t> reference_order(const std::vector<T>& x, bool descending, std::int64_t k) {
  std::vector<std::int64_t> ids(x.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto below = [](T u, T v) { return u < v || (v != v && u == u); };
  std::stable_sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) {
    const T u = x[static_cast<std::size_t>(a)], v = x[static_cast<std::size_t>(b)];
    return descending ? below(v, u) : below(u, v);
  });
  ids.resize(static_cast<std::size_t>(k));
  return ids;
}

// Lines with many equal elements, zeros of both signs and NaN of both signs, or large whole numbers.
template <class T>
void check_lines(std::int64_t n, bool plain) {
  INFO(n << " of " << dtype_of<T>() << (plain ? ", different" : ", with equals"));
  std::mt19937_64 random(3);
  std::vector<T> x;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto draw = static_cast<std::int64_t>(random() % 41) - 20;
    if (plain)
      x.push_back(static_cast<T>(static_cast<std::int64_t>(random()) >> (i % 3 * 20)));
    else if (std::is_floating_point_v<T> && draw == 20)
      x.push_back(static_cast<T>(i % 2 ? std::nan("") : -std::nan("")));
    else
      x.push_back(static_cast<T>(draw) * (std::is_floating_point_v<T> && draw == 0 && i % 2 ? T(-1) : T(1)));
  }
  const Tensor line = tensor(x, {n});
  for (const SortOrder order : {SortOrder::ascending, SortOrder::descending}) {
    const auto [values, ids] = sort(line, 0, order);
    CHECK(ids.to_vector<std::int64_t>() == reference_order(x, order == SortOrder::descending, n));
    for (const std::int64_t k : {std::int64_t{1}, n / 50, n / 3}) {
      if (k == 0) continue;
      const auto [top, places] =
          topk(line, k, 0, order == SortOrder::descending ? Extremes::largest : Extremes::smallest);
      CHECK(places.to_vector<std::int64_t>() == reference_order(x, order == SortOrder::descending, k));
    }
  }
}

}  // namespace

TEST_CASE("long and short lines are sorted as std::stable_sort does, and topk gives the first of them") {
  for (const std::int64_t n : {7, 63, 64, 65, 128, 130, 1000, 3000, 20000})
    for (const bool plain : {false, true}) {
      check_lines<float>(n, plain);
      check_lines<double>(n, plain);
      check_lines<std::int64_t>(n, plain);
    }
}

}  // namespace fit::test::sort_test
