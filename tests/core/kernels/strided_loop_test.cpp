#include "kernels/strided_loop.hpp"

#include <vector>

#include "support/catch.hpp"

// The walk through operands of one shape and different strides, which copies, broadcasts and gather share.
namespace fit::test::strided_loop_test {
namespace {

using Loop = StridedLoop<2>;

Loop loop(const Shape& sizes, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  StridesOf<2> strides{};
  for (std::size_t i = 0; i < a.size(); ++i) strides[i] = {a[i], b[i]};
  return Loop(sizes, strides);
}

}  // namespace

TEST_CASE("axes are joined along which every operand walks on or stands still", "[strided_loop]") {
  CHECK(loop({4, 3}, {3, 1}, {3, 1}).rank == 1);
  CHECK(loop({4, 3}, {3, 1}, {3, 1}).inner() == 12);
  CHECK(loop({4, 3}, {3, 1}, {0, 0}).rank == 1);
  CHECK(loop({4, 3}, {3, 1}, {0, 1}).rank == 2);  // b repeats a row
  CHECK(loop({4, 3}, {3, 1}, {1, 0}).rank == 2);  // b repeats a column
  CHECK(loop({4, 3}, {3, 1}, {1, 4}).rank == 2);  // b is transposed
  CHECK(loop({4, 4}, {1, 4}, {1, 4}).rank == 2);  // both are
  CHECK(loop({4, 3}, {6, 1}, {6, 1}).rank == 2);  // room between rows
  CHECK(loop({2, 4, 3}, {12, 3, 1}, {24, 3, 1}).rank == 2);
  CHECK(loop({4, 1, 3}, {3, 7, 1}, {3, 9, 1}).rank == 1);  // an axis of size 1 is left out
  CHECK(loop({1, 1}, {5, 7}, {5, 7}).rank == 1);
  CHECK(loop({1, 1}, {5, 7}, {5, 7}).inner() == 1);
  CHECK(loop({}, {}, {}).rows() == 1);
  CHECK(loop({2, 3, 4, 5}, {60, 20, 5, 1}, {0, 20, 5, 1}).rank == 2);  // all but the first
}

TEST_CASE("rows are walked in order, wherever it begins", "[strided_loop]") {
  const Loop l = loop({2, 3, 4, 5}, {100, 1, 3, 12}, {0, 20, 5, 1});
  REQUIRE(l.rank == 4);
  REQUIRE(l.inner() == 5);
  std::vector<std::int64_t> a, b;
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t k = 0; k < 4; ++k) a.push_back(i * 100 + j + k * 3), b.push_back(j * 20 + k * 5);
  REQUIRE(l.rows() == static_cast<std::int64_t>(a.size()));
  for (std::int64_t begin = 0; begin < l.rows(); ++begin) {
    std::int64_t expected = begin;
    l.each_row(begin, l.rows(), [&](std::int64_t row, const std::int64_t(&offset)[2]) {
      CHECK(row == expected++);
      CHECK(offset[0] == a[static_cast<std::size_t>(row)]);
      CHECK(offset[1] == b[static_cast<std::size_t>(row)]);
    });
    CHECK(expected == l.rows());
  }
}

}  // namespace fit::test::strided_loop_test
