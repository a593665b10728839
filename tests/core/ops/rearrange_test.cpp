#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Repeating, padding, windows, masks and lists by value. The numbers are PyTorch's.
namespace fit::test::rearrange_test {
namespace {

using V = std::vector<double>;
const Tensor square_of_six() { return reshape(arange(6), {2, 3}); }

}  // namespace

TEST_CASE("repeat, tile, repeat_interleave and roll", "[rearrange]") {
  const Tensor x = tensor({{1, 2}, {3, 4}});
  CHECK(equal(repeat(x, {1, 2}), tensor({{1, 2, 1, 2}, {3, 4, 3, 4}})));
  CHECK(equal(tile(x, {2}), repeat(x, {1, 2})));
  CHECK(repeat(x, {2, 1, 1}).shape() == Shape{2, 2, 2});
  CHECK(repeat(x, {0, 1}).shape() == Shape{0, 2});
  CHECK(equal(repeat_interleave(x, 2, 1), tensor({{1, 1, 2, 2}, {3, 3, 4, 4}})));
  CHECK(equal(repeat_interleave(x, tensor({3, 0}), 0), tensor({{1, 2}, {1, 2}, {1, 2}})));
  CHECK(equal(repeat_interleave(x, tensor({1, 2}), -1), tensor({{1, 2, 2}, {3, 4, 4}})));
  CHECK(repeat_interleave(x, tensor({0, 0}), 1).shape() == Shape{2, 0});
  CHECK(equal(roll(tensor({1, 2, 3, 4}), 1, 0), tensor({4, 1, 2, 3})));
  CHECK(equal(roll(tensor({1, 2, 3, 4}), -5, 0), tensor({2, 3, 4, 1})));
  CHECK(equal(roll(x, 2, 0), x));
  CHECK(equal(roll(arange(24).reshape({2, 3, 4}), {1, 2}, {1, 2})[{1, 0}], tensor({22, 23, 20, 21})));
  const Tensor same = repeat(x, {1, 1});
  CHECK(same.raw() != x.raw());
}

TEST_CASE("pad: the last axis comes first", "[rearrange]") {
  const Tensor x = tensor({1, 2, 3});
  CHECK(equal(pad(x, {1, 2}), tensor({0, 1, 2, 3, 0, 0})));
  CHECK(equal(pad(x, {2, 2}, PadMode::reflect), tensor({3, 2, 1, 2, 3, 2, 1})));
  CHECK(equal(pad(x, {2, 1}, PadMode::replicate), tensor({1, 1, 1, 2, 3, 3})));
  CHECK(equal(pad(x, {-1, 1}, PadMode::constant, 9), tensor({2, 3, 9})));
  CHECK(equal(pad(square_of_six(), {0, 0, 1, 0}, PadMode::constant, 7), tensor({{7, 7, 7}, {0, 1, 2}, {3, 4, 5}})));
}

TEST_CASE("axes moved, diagonals, grids", "[rearrange]") {
  CHECK(movedim(zeros({2, 3, 4}), 0, 2).shape() == Shape{3, 4, 2});
  CHECK(movedim(zeros({2, 3, 4}), -1, 0).shape() == Shape{4, 2, 3});
  const Tensor x = square_of_six();
  CHECK(equal(diagonal(x), tensor({0, 4})));
  CHECK(equal(diagonal(x, 2), tensor({2})));
  CHECK(equal(diagonal(x, -1), tensor({3})));
  CHECK(diagonal(x, 7).numel() == 0);
  CHECK(diagonal(zeros({2, 3, 4}), 0, 0, 2).shape() == Shape{3, 2});
  CHECK(equal(diag(tensor({1, 2}), 1), tensor({{0, 1, 0}, {0, 0, 2}, {0, 0, 0}})));
  CHECK(equal(diag(tensor({true, true})), tensor({{true, false}, {false, true}})));
  const auto grid = meshgrid({tensor({1, 2}), tensor({3, 4, 5})});
  CHECK((equal(grid[0], tensor({{1, 1, 1}, {2, 2, 2}})) && equal(grid[1], tensor({{3, 4, 5}, {3, 4, 5}}))));
  const auto rows = unbind(x);
  CHECK((rows.size() == 2 && equal(rows[1], tensor({3, 4, 5}))));
  CHECK(unbind(zeros({2, 0}), 1).empty());
}

TEST_CASE("windows slide, and fold puts them back", "[rearrange]") {
  const Tensor x = arange(7);
  CHECK(equal(unfold(x, 0, 3, 2), tensor({{0, 1, 2}, {2, 3, 4}, {4, 5, 6}})));
  CHECK(unfold(zeros({2, 5, 3}), 1, 2).shape() == Shape{2, 4, 3, 2});
  CHECK(equal(fold(unfold(x, 0, 3, 2), 0, 7, 2), tensor({0, 1, 4, 3, 8, 5, 6})));
}

TEST_CASE("masks and lists of ids between the brackets", "[rearrange]") {
  const Tensor x = square_of_six();
  CHECK(equal(x[x > 2], tensor({3, 4, 5})));
  CHECK(equal(x[{x > 2}], tensor({3, 4, 5})));
  CHECK(equal(x[tensor({false, true})], tensor({{3, 4, 5}})));
  CHECK(equal(x[tensor({1, -2, 1})], tensor({{3, 4, 5}, {0, 1, 2}, {3, 4, 5}})));
  CHECK(x[zeros({4, 5}, int64)].shape() == Shape{4, 5, 3});
  CHECK(equal(masked_select(x, tensor({true, false, true})), tensor({0, 2, 3, 5})));
  CHECK(equal(nonzero(x), tensor({{0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}})));
  CHECK(nonzero(tensor(3.)).shape() == Shape{1, 0});
  CHECK(equal(take_along(x, 1, argsort(x, 1, descending)), tensor({{2, 1, 0}, {5, 4, 3}})));
  CHECK(equal(take_along(x, 0, tensor({{1, 0, 1}})), tensor({{3, 1, 5}})));
}

TEST_CASE("scatter writes, index_add adds", "[rearrange]") {
  const Tensor x = zeros({2, 3});
  CHECK(values(scatter(x, 1, tensor({{2, 0}}), tensor({{5., 6.}}))) == V{6, 0, 5, 0, 0, 0});
  const Tensor nan = full({2}, std::numeric_limits<double>::quiet_NaN());
  CHECK(values(scatter(nan, 0, tensor({0, 1}), tensor({1., 2.}))) == V{1, 2});  // what was there counts for nothing
  CHECK(equal(scatter(tensor({true, true}), 0, tensor({1}), tensor({false})), tensor({true, false})));
  CHECK(values(index_add(ones({3}), 0, tensor({0, 0, 2}), tensor({1., 2., 3.}))) == V{4, 1, 4});
}

TEST_CASE("the trace by a letter that stands twice", "[rearrange]") {
  const Tensor x = tensor({{1., 2.}, {3., 4.}});
  CHECK(einsum("ii", {x}).item() == 5);
  CHECK(values(einsum("ii->i", {x})) == V{1, 4});
  CHECK(values(einsum("iji->j", {reshape(arange(8), {2, 2, 2}).to(float32)})) == V{5, 9});
}

}  // namespace fit::test::rearrange_test
