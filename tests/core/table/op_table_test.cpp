#include "support/tables/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "backward/gradients.hpp"
#include "fit/attention/attention.hpp"
#include "fit/base/memory.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"
#include "support/text.hpp"
#include "support/variants.hpp"

// What every operation must do, checked for each row of the table.
namespace fit::test {
namespace {

using detail::gradients;
using Values = std::vector<Tensor>;

using Family = std::vector<OpRow> (*)();
std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

// Inputs for one set of shapes, always the same ones.
Values draw(const OpRow& row, const std::vector<Shape>& set, DType dtype = float64) {
  std::mt19937_64 random(17);
  Values in;
  for (std::size_t i = 0; i < set.size(); ++i) in.push_back(random_tensor(set[i], row.domain_of(i), random, dtype));
  return in;
}

std::string describe(const std::vector<Shape>& set) {
  std::string s;
  for (const Shape& shape : set) s += shape.str() + ' ';
  return s;
}

std::vector<std::vector<Shape>> all_shapes(const OpRow& row) {
  auto sets = row.shapes;
  sets.insert(sets.end(), row.large_shapes.begin(), row.large_shapes.end());
  return sets;
}

void check_derivatives(const TensorFunction& f, const Values& in, int order) {
  const GradReport report = check_gradients(f, in, GradCheckOptions().order(order));
  INFO(report);
  CHECK(report.ok);
}

Values floating(const Values& all) {
  Values f;
  for (const Tensor& t : all)
    if (is_floating(t.dtype())) f.push_back(t);
  return f;
}

// Inputs of an operation, without and with a wish for gradients, and cotangents of its outputs: always the same ones.
struct Problem {
  Problem(const OpRow& row, const std::vector<Shape>& set, DType dtype)
      : f(row.f), in(draw(row, set, dtype)), leaves(draw(row, set, dtype)) {
    for (Tensor& x : leaves) x.requires_grad_();
    std::mt19937_64 random(3);
    for (const Tensor& y : floating(f(in))) seeds.push_back(random_tensor(y.shape(), domain::real, random, dtype));
  }
  Values outputs_and_gradients() const {
    Values all = f(in);
    for (const Tensor& g : grad(floating(f(leaves)), leaves, seeds, allow_unused)) all.push_back(g);
    return all;
  }
  const TensorFunction& f;
  Values in, leaves, seeds;
};

// The gradients of the inputs in `subset`, if those in `wanted` want gradients, with fixed cotangents. For rows of the
// second order, also the gradients of these: by the same inputs and by the cotangents.
Values derivatives(const OpRow& row, const Values& in, unsigned wanted = ~0u, unsigned subset = ~0u) {
  std::mt19937_64 random(3);
  const auto cotangents = [&](const Values& y) {
    Values all;
    for (const Tensor& t : y) all.push_back(random_tensor(t.shape(), domain::nonzero, random));
    return all;
  };
  Values x, variables;
  for (std::size_t i = 0; i < in.size(); ++i) {
    x.push_back(in[i].clone());
    if (wanted >> i & 1) x[i].requires_grad_();
    if (subset >> i & 1) variables.push_back(x[i]);
  }
  const Values y = floating(row.f(x)), v = cotangents(y);
  if (row.order == 1) return gradients(y, variables, v);
  Values first = gradients(y, variables, v, create_graph);
  for (Tensor t : v) variables.push_back(t.requires_grad_());
  for (const Tensor& g : gradients(first, variables, cotangents(first))) first.push_back(g);
  return first;
}

// Calls body(row, set) for each row and each set of its small shapes.
template <class Body>
void each_case(const Body& body) {
  each_row([&](const OpRow& row) {
    for (const auto& set : row.shapes) {
      INFO("shapes " << describe(set));
      body(row, set);
    }
  });
}

}  // namespace

RegisterOps::RegisterOps(std::vector<OpRow> (*family)()) { families().push_back(family); }

const std::vector<OpRow>& op_rows() {
  static const std::vector<OpRow> all = [] {
    std::vector<OpRow> rows;
    for (const Family family : families())
      for (OpRow& row : family()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

TEST_CASE("every op: gradients against central differences", "[ops]") {
  each_case([](const OpRow& row, const auto& set) { check_derivatives(row.f, draw(row, set), row.order); });
}

TEST_CASE("every op: gradients of large inputs", "[ops]") {
  each_row([](const OpRow& row) {
    for (const auto& set : row.large_shapes) {
      INFO("shapes " << describe(set));
      check_derivatives(row.f, draw(row, set), 1);
    }
  });
}

TEST_CASE("every op: any subset of the inputs may want gradients", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    const Values in = draw(row, set);
    const unsigned all = (1u << in.size()) - 1;
    for (unsigned subset = 1; subset < all; ++subset) {
      INFO("subset " << subset);
      const Values alone = derivatives(row, in, subset, subset), of_all = derivatives(row, in, all, subset);
      REQUIRE(alone.size() == of_all.size());
      for (std::size_t i = 0; i < alone.size(); ++i) CHECK(max_difference(alone[i], of_all[i]) < 1e-12);
    }
  });
}

TEST_CASE("every op: one tensor may be several inputs", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    const Values in = draw(row, set);
    for (std::size_t i = 0; i < in.size(); ++i)
      for (std::size_t k = i + 1; k < in.size(); ++k) {
        if (set[i] != set[k] || !(row.domain_of(i) == row.domain_of(k))) continue;
        INFO("input " << i << " is also input " << k);
        check_derivatives(
            [&, i, k](const Values& x) {
              Values mixed = in;
              mixed[i] = mixed[k] = x[0];
              return row.f(mixed);
            },
            {in[i]}, row.order);
      }
  });
}

TEST_CASE("every op: float32 agrees with float64, in value and gradient", "[ops]") {
  each_row([](const OpRow& row) {
    for (const auto& set : all_shapes(row)) {
      INFO("shapes " << describe(set));
      const Values narrow = Problem(row, set, float32).outputs_and_gradients(),
                   wide = Problem(row, set, float64).outputs_and_gradients();
      REQUIRE(narrow.size() == wide.size());
      for (std::size_t i = 0; i < wide.size(); ++i) {
        INFO("result " << i << " (outputs, then gradients)");
        REQUIRE(narrow[i].defined() == wide[i].defined());
        if (!wide[i].defined()) continue;
        CHECK(narrow[i].dtype() == (is_floating(wide[i].dtype()) ? float32 : wide[i].dtype()));
        CHECK(max_difference(narrow[i], wide[i]) <= row.tolerance32);
      }
    }
  });
}

namespace {

// Half a unit in the last place that bfloat16 has for each number.
Tensor half_unit(const Tensor& x) {
  Tensor h = Tensor::empty(x.shape(), float64);
  const std::vector<double> v = values(x);
  for (std::size_t i = 0; i < v.size(); ++i)
    h.fresh<double>()[i] = std::ldexp(0.5, (v[i] == 0 ? -126 : std::max(std::ilogb(v[i]), -126)) - 7);
  return h;
}

double largest(const Values& in) {
  double most = 0;
  for (const Tensor& x : in)
    if (x.numel() > 0) most = std::max(most, abs(x.detach().to(float64)).max().item());
  return most;
}

// Outputs, and gradients with a cotangent that bfloat16 can hold.
struct Run {
  Values outputs, gradients;
};
Run run(const OpRow& row, Values in) {
  for (Tensor& x : in) x = x.detach().requires_grad_();
  Run r;
  r.outputs = row.f(in);
  const Values y = floating(r.outputs);
  Values seeds;
  std::mt19937_64 random(3);
  for (const Tensor& t : y) seeds.push_back(random_tensor(t.shape(), domain::real, random, bfloat16).to(t.dtype()));
  r.gradients = grad(y, in, seeds, allow_unused);
  return r;
}

}  // namespace

TEST_CASE("every op: bfloat16 gives what float32 gives, rounded once", "[ops][bfloat16]") {
  each_row([](const OpRow& row) {
    if (row.exceptions.count("bfloat16")) return;
    for (const auto& set : all_shapes(row)) {
      INFO("shapes " << describe(set));
      const Values in = draw(row, set, bfloat16);
      Values same;
      for (const Tensor& x : in) same.push_back(x.to(float32));
      const Run narrow = run(row, in), wide = run(row, same);
      REQUIRE(narrow.outputs.size() == wide.outputs.size());
      for (std::size_t i = 0; i < wide.outputs.size(); ++i) {
        const Tensor &n = narrow.outputs[i], &w = wide.outputs[i];
        INFO("output " << i << ": " << n.detach() << " for " << w.detach());
        CHECK(n.dtype() == (is_floating(w.dtype()) ? bfloat16 : w.dtype()));
        REQUIRE(n.shape() == w.shape());
        const Tensor off = abs(n.detach().to(float64) - w.detach().to(float64));
        // float32 is off itself.
        const Tensor slack = (abs(w.detach().to(float64)) + 1) * row.tolerance32 + row.bfloat16_weights * largest(in);
        CHECK(all(le(off, half_unit(w.detach()) + slack)).item<bool>());
      }
      for (std::size_t i = 0; i < in.size(); ++i) {
        INFO("gradient " << i);
        REQUIRE(narrow.gradients[i].defined() == wide.gradients[i].defined());
        if (!wide.gradients[i].defined()) continue;
        CHECK(narrow.gradients[i].dtype() == bfloat16);
        const Tensor n = narrow.gradients[i].to(float64), w = wide.gradients[i].to(float64);
        // Gradients are made of operations, which round one by one.
        CHECK(norm(n - w).item() <= 0.02 * norm(w).item() + 1e-6);
      }
    }
  });
}

TEST_CASE("every op: int8 is refused, but where it is stored", "[ops][int8]") {
  const std::set<std::string> taking{"clone", "to"};
  each_row([&](const OpRow& row) {
    for (const auto& set : row.shapes)
      for (std::size_t i = 0; i < set.size(); ++i) {
        Values in = draw(row, set, float32);
        in[i] = zeros(set[i], int8);
        INFO("input " << i << " of shapes " << describe(set));
        if (taking.count(row.op))
          CHECK_NOTHROW(row.f(in));
        else
          CHECK_THROWS_WITH(row.f(in), Catch::Contains("int8"));
      }
  });
}

TEST_CASE("every fused op: values and gradients are those of its decomposition", "[ops]") {
  each_row([](const OpRow& row) {
    if (row.composed.empty()) return;
    OpRow composed = row;
    composed.f = row.composed[0];
    each_isa([&] {
      for (const auto& set : all_shapes(row))
        for (const DType dtype : {float32, float64}) {
          INFO("shapes " << describe(set) << dtype);
          const Values fused = Problem(row, set, dtype).outputs_and_gradients(),
                       plain = Problem(composed, set, dtype).outputs_and_gradients();
          REQUIRE(fused.size() == plain.size());
          for (std::size_t i = 0; i < fused.size(); ++i) {
            INFO("result " << i << " (outputs, then gradients)");
            CHECK(max_difference(fused[i], plain[i]) <= (dtype == float32 ? row.tolerance32 : 1e-12));
          }
        }
    });
  });
}

TEST_CASE("every op: a graph is recorded only where a gradient is wanted", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    Values in = draw(row, set);
    for (const Tensor& y : row.f(in)) CHECK_FALSE(y.requires_grad());
    for (Tensor& x : in) x.requires_grad_();
    for (const Tensor& y : row.f(in)) CHECK(y.requires_grad() == is_floating(y.dtype()));
    const NoGrad no_grad;
    for (const Tensor& y : row.f(in)) CHECK_FALSE((y.requires_grad() && !y.is_leaf()));
  });
}

TEST_CASE("every op: its inputs are left as they were", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    Values in = draw(row, set);
    const Values before = draw(row, set);
    for (Tensor& x : in) x.requires_grad_();
    for (const Tensor& y : floating(row.f(in))) y.backward(random_like(y), retain_graph);
    for (std::size_t i = 0; i < in.size(); ++i) {
      CHECK(same_bits(in[i], before[i]));
      CHECK(in[i].version() == 0);
    }
  });
}

// Numbers at which functions bend or a plain formula breaks down. `put` changes an input drawn from d so, or says
// false.
struct Corner {
  const char* name;
  bool (*put)(const Domain& d, Tensor& x);
};
bool contains(const Domain& d, double v) { return d.low <= v && v <= d.high; }
const Corner corners[] = {
    {"zeros", [](const Domain& d, Tensor& x) { return contains(d, 0) && (x.zero_(), true); }},
    {"a zero", [](const Domain& d, Tensor& x) { return contains(d, 0) && (x.reshape({-1})[0] = 0, true); }},
    {"equal numbers",
     [](const Domain& d, Tensor& x) {
       x.fill_(contains(d, 0.75) ? 0.75 : (d.low + d.high) / 2);
       return true;
     }},
    {"equal rows",
     [](const Domain&, Tensor& x) {
       if (x.rank() < 2) return false;
       for (std::int64_t i = 1; i < x.size(0); ++i) x[i] = x[0];
       return true;
     }},
};

TEST_CASE("every op: at a corner, derivatives lie between those around it", "[ops]") {
  // A kink may take the derivative of either side, or one in between; where there is none, this is continuity. So what
  // is right elsewhere is right here, too.
  constexpr double step = 1e-6, tolerance = 1e-3;
  each_case([&](const OpRow& row, const auto& set) {
    for (const Corner& corner : corners) {
      if (row.exceptions.count(corner.name)) continue;
      Values at = draw(row, set);
      bool any = false;
      for (std::size_t i = 0; i < at.size(); ++i)
        any = (at[i].numel() > 0 && corner.put(row.domain_of(i), at[i])) || any;
      if (!any) continue;
      INFO(corner.name);
      const Values here = derivatives(row, at);
      Values low, high;
      std::mt19937_64 random(23);
      for (int k = 0; k < 48; ++k) {  // enough for each of several equals to win once
        Values near = at;
        for (Tensor& x : near) x = x + random_tensor(x.shape(), Domain{-step, step}, random);
        const Values d = derivatives(row, near);
        REQUIRE(d.size() == here.size());
        for (std::size_t i = 0; i < d.size(); ++i) {
          low.size() <= i ? low.push_back(d[i]) : void(low[i] = minimum(low[i], d[i]));
          high.size() <= i ? high.push_back(d[i]) : void(high[i] = maximum(high[i], d[i]));
        }
      }
      for (std::size_t i = 0; i < here.size(); ++i) {
        INFO("derivative " << i << " (" << at.size() << " of first order): " << here[i] << " between " << low[i]
                           << " and " << high[i]);
        const Tensor slack = (abs(low[i]) + abs(high[i]) + 1) * tolerance;
        CHECK(all(logical_and(ge(here[i], low[i] - slack), le(here[i], high[i] + slack))).template item<bool>());
      }
    }
  });
}

TEST_CASE("every op: NaN shows wherever a number counts", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    if (row.exceptions.count("NaN")) return;
    const Values in = draw(row, set), before = floating(row.f(in));
    for (std::size_t i = 0; i < in.size(); ++i)
      for (std::int64_t k = 0; k < in[i].numel(); ++k) {
        const auto with = [&](double v) {
          Values changed = in;
          changed[i] = in[i].clone();
          changed[i].reshape({-1})[k] = v;
          return floating(row.f(changed));
        };
        const Values moved = with(in[i].template data<double>()[k] * 1.25 + 0.01), spoilt = with(NAN);
        INFO("NaN in element " << k << " of input " << i);
        for (std::size_t o = 0; o < before.size(); ++o) {
          REQUIRE(spoilt[o].shape() == before[o].shape());
          for (std::int64_t j = 0; j < before[o].numel(); ++j)
            if (moved[o].template data<double>()[j] != before[o].template data<double>()[j])
              CHECK(std::isnan(spoilt[o].template data<double>()[j]));
        }
      }
  });
}

TEST_CASE("every op: huge and tiny numbers give no NaN", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    if (row.exceptions.count("huge numbers")) return;
    for (const double size : {1e18, 1e-18}) {  // whose squares float32 can hold
      Values in = draw(row, set, float32);
      for (Tensor& x : in) x = x * size;
      INFO("numbers of " << size);
      for (const Tensor& y : floating(row.f(in))) CHECK_FALSE(any(isnan(y)).template item<bool>());
    }
  });
}

TEST_CASE("every op: the number of threads doesn't change a bit", "[ops]") {
  const int before = num_threads();
  const char* const asked = std::getenv("FIT_REPEATS");  // for tests/long
  const long repeats = asked ? std::atol(asked) : 1;
  each_row([&](const OpRow& row) {
    const auto check = [&](const std::vector<Shape>& set, DType dtype, long times) {
      INFO("shapes " << describe(set) << dtype);
      const Problem problem(row, set, dtype);
      set_num_threads(1);
      const Values one = problem.outputs_and_gradients();
      set_num_threads(2);
      for (; times > 0; --times) {
        const Values two = problem.outputs_and_gradients();
        for (std::size_t i = 0; i < one.size(); ++i) {
          INFO("output or gradient " << i);
          if (one[i].defined()) CHECK(same_bits(one[i], two[i]));
        }
      }
    };
    for (const DType dtype : {float32, float64}) {
      for (const auto& set : row.shapes) check(set, dtype, 1);  // too small to be divided, mostly
      for (const auto& set : row.large_shapes) check(set, dtype, repeats);
    }
  });
  set_num_threads(before);
}

TEST_CASE("every op: nothing is left behind", "[ops]") {
  each_case([](const OpRow& row, const auto& set) {
    const auto use = [&] {
      Values in = draw(row, set);
      for (Tensor& x : in) x.requires_grad_();
      row.f(in);  // built and dropped
      for (const Tensor& y : floating(row.f(in))) {
        y.backward(random_like(y), retain_graph);
        if (row.order == 2) y.backward(random_like(y), create_graph);
      }
    };
    use();  // what is made once and kept
    const auto base = memory_stats().live_blocks;
    use();
    CHECK(memory_stats().live_blocks == base);
  });
}

TEST_CASE("every op: bad inputs are errors that say what is wrong", "[ops]") {
  each_row([](const OpRow& row) {
    for (const OpRow::Bad& bad : row.errors) {
      INFO("expected: [" << row.op << "] … " << bad.text);
      try {
        bad.call();
        FAIL_CHECK("nothing was thrown");
      } catch (const Error& e) {
        const std::string what = e.what();
        INFO("thrown:   " << what);
        CHECK(what.rfind('[' + row.op + "] ", 0) == 0);
        CHECK(what.find(bad.text) != std::string::npos);
      }
    }
    const auto set = row.shapes.at(0);
    for (std::size_t i = 0; i < set.size(); ++i) {
      Values in = draw(row, set);
      in[i] = Tensor();
      INFO("input " << i << " is undefined");  // size, clone and mul: with which some rows begin
      if (std::count(row.optional_inputs.begin(), row.optional_inputs.end(), static_cast<int>(i)))
        CHECK_NOTHROW(row.f(in));
      else
        CHECK_THROWS_WITH(row.f(in),
                          Catch::Matches(R"(\[()" + row.op + R"(|size|clone|mul|score)\] .* is undefined: give it.*)"));
    }
  });
}

TEST_CASE("every op of the catalogue has a row", "[ops][catalogue]") {
  // Without a gradient, so without a row: what they compute is tested by value.
  const std::string comparison = "gives booleans", position = "gives positions", mask = "gives a mask";
  const std::map<std::string, std::string> without = {
      {"eq", comparison},
      {"ne", comparison},
      {"lt", comparison},
      {"le", comparison},
      {"gt", comparison},
      {"ge", comparison},
      {"logical_and", comparison},
      {"logical_or", comparison},
      {"logical_xor", comparison},
      {"logical_not", comparison},
      {"isnan", comparison},
      {"isfinite", comparison},
      {"isinf", comparison},
      {"isclose", comparison},
      {"any", comparison},
      {"all", comparison},
      {"argmax", position},
      {"argmin", position},
      {"argsort", position},
      {"nonzero", position},
      {"searchsorted", position},
      {"unique", "gives numbers and positions that don't move with x"},
      {"histogram", "gives counts"},
      {"create_padding_mask", mask},
      {"create_look_ahead_mask", mask},
      {"combine_masks", mask},
      {"mask_from_torch", mask},
      {"cached_attention", "records nothing: tests/nn/attention/kv_cache_test.cpp"},
      {"cached_self_attention", "records nothing: tests/nn/attention/kv_cache_test.cpp"},
      {"attention_visualization_helper", "gives numbers for a picture"},
  };
  std::set<std::string> declared, rows;
  for (const char* path :
       {FIT_OPS_HEADER, FIT_WINDOWS_HEADER, FIT_ATTENTION_HEADER, FIT_RECURRENT_HEADER, FIT_LINEAR_ATTENTION_HEADER}) {
    std::ifstream header(path);
    REQUIRE(header);
    const std::string declaration =
        R"(^(?:Tensor|std::vector<Tensor>|std::pair<Tensor, Tensor>|AttentionResult|LinearAttentionResult|MaskAndBias|AttentionView|Unique|Svd) (\w+?)\()";
    for (std::string line; std::getline(header, line);)
      for (const std::string& name : matches(line, declaration)) declared.insert(name);
  }
  std::set<std::string> names;
  for (const OpRow& row : op_rows()) {
    rows.insert(row.op);
    INFO(row.name());
    CHECK(names.insert(row.name()).second);  // Catch2 takes two sections of one name for one
  }
  CHECK(declared.size() > 80);
  for (const std::string& op : declared)
    if (!rows.count(op) && !without.count(op)) FAIL_CHECK("no row in the table for " << op);
  for (const auto& [op, reason] : without) {
    INFO(op);
    CHECK(declared.count(op));
    CHECK_FALSE(rows.count(op));
  }
}

}  // namespace fit::test
