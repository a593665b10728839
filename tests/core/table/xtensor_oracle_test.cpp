#include <algorithm>
#include <limits>
#include <set>

#include "support/catch.hpp"
#include "support/oracles/oracle.hpp"
#include "support/tables/op_table.hpp"
#include "support/variants.hpp"

// The table of operations against its column "xtensor".
namespace fit::test {
namespace {

using Family = std::vector<Oracle> (*)();
std::vector<Family>& oracle_families() {
  static std::vector<Family> all;
  return all;
}

}  // namespace

RegisterOracles::RegisterOracles(std::vector<Oracle> (*family)()) { oracle_families().push_back(family); }

namespace xtensor_oracle_test {
namespace {

std::vector<Oracle> oracles() {
  std::vector<Oracle> all;
  for (const Family family : oracle_families())
    for (Oracle& oracle : family()) all.push_back(std::move(oracle));
  return all;
}

const OpRow* row_of(const Oracle& oracle) {
  const std::vector<OpRow>& rows = op_rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const OpRow& r) { return r.name() == oracle.row; });
  return found == rows.end() ? nullptr : &*found;
}

bool has_elements(const std::vector<Shape>& set) {
  return std::all_of(set.begin(), set.end(), [](const Shape& s) { return s.numel() > 0; });
}

std::string text_of(const std::vector<Shape>& set) {
  std::string text;
  for (const Shape& shape : set) text += shape.str() + ' ';
  return text;
}

// The row's inputs for one set of shapes. float32 holds their values.
std::vector<Tensor> inputs(const OpRow& row, const std::vector<Shape>& set) {
  std::mt19937_64 random(29);
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < set.size(); ++i) in.push_back(random_tensor(set[i], row.domain_of(i), random));
  return in;
}

void compare(const OpRow& row, const Oracle& oracle, const std::vector<Shape>& set, double units) {
  INFO("shapes " << text_of(set));
  const std::vector<Tensor> in = inputs(row, set), expected = oracle.f(in);
  each_isa([&] {
    for (const DType dtype : {float32, float64}) {
      INFO(dtype);
      std::vector<Tensor> typed;
      for (const Tensor& x : in) typed.push_back(x.to(dtype));
      const std::vector<Tensor> found = row.f(typed);
      REQUIRE(found.size() == expected.size());
      const double epsilon =
          dtype == float32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
      for (std::size_t i = 0; i < found.size(); ++i) {
        INFO("output " << i << ": " << found[i] << "\nxtensor: " << expected[i]);
        CHECK(max_difference(found[i], expected[i]) <= units * epsilon);
      }
    }
  });
}

}  // namespace

TEST_CASE("every op with an oracle: xtensor computes the same", "[ops][xtensor]") {
  for (const Oracle& oracle : oracles()) {
    INFO("row " << oracle.row);
    const OpRow* const row = row_of(oracle);
    REQUIRE(row);
    // Large shapes sum up many numbers.
    const double of_sums = std::max(oracle.units, row->tolerance32 / std::numeric_limits<float>::epsilon());
    for (const auto& set : row->shapes)
      if (oracle.empty || has_elements(set)) compare(*row, oracle, set, oracle.units);
    for (const auto& set : row->large_shapes) compare(*row, oracle, set, of_sums);
  }
}

TEST_CASE("the oracles are of rows of the table, one each, and of a hundred operations", "[ops][xtensor]") {
  std::set<std::string> rows, ops;
  for (const Oracle& oracle : oracles()) {
    INFO("oracle of \"" << oracle.row << '"');
    const OpRow* const row = row_of(oracle);
    CHECK(row);
    CHECK(rows.insert(oracle.row).second);
    if (row) ops.insert(row->op);
  }
  CHECK(ops.size() >= 100);
}

}  // namespace xtensor_oracle_test
}  // namespace fit::test
