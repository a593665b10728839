#include <cmath>
#include <limits>
#include <sstream>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"

// What a tensor looks like in print, to the character.
extern "C" const char* fit_show(const fit::Tensor& x);  // for debuggers

namespace fit::test::print_test {

TEST_CASE("print: brackets, columns, blank lines between matrices", "[print]") {
  CHECK(tensor({{1., 2.}, {3., 4.}}).str() == "[[1., 2.],\n [3., 4.]]");
  CHECK(tensor({{1., -20.}, {300., 4.}}).str() == "[[  1., -20.],\n [300.,   4.]]");
  CHECK(tensor({0.5, 0.25, -1.}).str() == "[ 0.5000,  0.2500, -1.0000]");
  CHECK(tensor(3.14159265).str() == "3.1416");
  CHECK(tensor(5.).str() == "5.");
  CHECK(tensor({{5.}}).str() == "[[5.]]");
  CHECK(arange(8).to(float32).reshape({2, 2, 2}).str() ==
        "[[[0., 1.],\n"
        "  [2., 3.]],\n"
        "\n"
        " [[4., 5.],\n"
        "  [6., 7.]]]");
  std::ostringstream out;
  out << tensor({1.5});
  CHECK(out.str() == "[1.5000]");
}

TEST_CASE("print: the type, where it is not float32", "[print]") {
  CHECK(tensor({1., 2.5}, float64).str() == "[1.0000, 2.5000], float64");
  CHECK(tensor({1, -20}).str() == "[  1, -20], int64");
  CHECK(tensor({INT64_MAX}).str() == "[9223372036854775807], int64");
  CHECK(tensor({true, false}).str() == "[ True, False], boolean");
  CHECK(tensor(true).str() == "True, boolean");
  CHECK(tensor(7).str() == "7, int64");
}

TEST_CASE("print: powers of ten where the range demands them", "[print]") {
  CHECK(tensor({0.00001, 1.}).str() == "[1.0000e-05, 1.0000e+00]");
  CHECK(tensor({0.5, 2000.}).str() == "[5.0000e-01, 2.0000e+03]");
  CHECK(tensor({0.5, 500.}).str() == "[  0.5000, 500.0000]");
  CHECK(tensor({0., 0.00005}).str() == "[0.0000e+00, 5.0000e-05]");
  CHECK(tensor({1., 2000.}).str() == "[   1., 2000.]");
  CHECK(tensor({1., 1e8}).str() == "[1.0000e+00, 1.0000e+08]");
  CHECK(tensor({-1e-30}, float64).str() == "[-1.0000e-30], float64");
  CHECK(tensor({std::numeric_limits<double>::max()}, float64).str() == "[1.7977e+308], float64");
}

TEST_CASE("print: numbers that are none", "[print]") {
  CHECK(tensor({1., INFINITY, -INFINITY, NAN}).str() == "[  1.,  inf, -inf,  nan]");
  CHECK(tensor({0.5, INFINITY, NAN}).str() == "[0.5000,    inf,    nan]");
  CHECK(tensor(-NAN).str() == "nan");
  CHECK(tensor({-0., 0.}).str() == "[-0.,  0.]");
}

TEST_CASE("print: empty and undefined", "[print]") {
  CHECK(zeros({0}).str() == "[], shape [0]");
  CHECK(zeros({2, 0, 3}, int64).str() == "[], shape [2, 0, 3], int64");
  CHECK(Tensor().str() == "undefined");
}

TEST_CASE("print: what a debugger shows", "[print]") {
  CHECK(std::string(fit_show(tensor({{1., 2.}}))) == "[[1., 2.]], shape [1, 2]");
  CHECK(std::string(fit_show(Tensor())) == "undefined");
}

TEST_CASE("print: long rows are broken, many elements left out", "[print]") {
  CHECK(arange(30).str() ==
        "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18,\n"
        " 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29], int64");
  CHECK(arange(1001).str() == "[   0,    1,    2, ...,  998,  999, 1000], int64");
  CHECK(arange(1001).reshape({1001, 1}).str() ==
        "[[   0],\n [   1],\n [   2],\n ...,\n [ 998],\n [ 999],\n [1000]], int64");
  CHECK(arange(1002).reshape({2, 501}).str() ==
        "[[   0,    1,    2, ...,  498,  499,  500],\n"
        " [ 501,  502,  503, ...,  999, 1000, 1001]], int64");
  // What is left out has no say in the width.
  Tensor x = zeros({2000});
  x[{1000}] = 1e9;
  CHECK(x.str() == "[0., 0., 0., ..., 0., 0., 0.]");
  const std::string whole = arange(1000).str();
  CHECK(whole.find("...") == std::string::npos);
  CHECK(whole.find(" 500,") != std::string::npos);
  for (std::size_t begin = 0, end; begin < whole.size(); begin = end + 1) {
    end = std::min(whole.find('\n', begin), whole.size());
    CHECK(end - begin <= 86);
  }
}

}  // namespace fit::test::print_test
