#include "support/tables/op_table.hpp"

namespace fit::test {

// Value and gradient of x^e, one below the other.
template <class Power>
static Tensor with_gradient(const Tensor& x, const Power& power) {
  const Tensor leaf = x.clone().requires_grad_(), y = power(leaf);
  y.backward(ones_like(y));
  return cat({y.detach(), leaf.grad()}, 0);
}
// With a number, and with a tensor of equal numbers.
static std::pair<Tensor, Tensor> both_powers(const Tensor& x) {
  std::vector<Tensor> number, of_tensor;
  for (const double e : {0., 0.5, -0.5, 1., -1., 2., 3., -2., -3., 0.125, 1.5, -1.5, 7., inf, -inf, nan}) {
    number.push_back(with_gradient(x, [e](const Tensor& x) { return pow(x, e); }));
    of_tensor.push_back(with_gradient(x, [&](const Tensor& x) { return pow(x, full(x.shape(), e, x.dtype())); }));
  }
  return {cat(number, 0), cat(of_tensor, 0)};
}

static std::vector<OpRow> number_rows() {
  return {
      OpRow("add", "a number", [](const auto& in) { return add(in[0], 1.5); }).on({{2, 3}}).on({{}}).on({{0}}),
      OpRow("sub", [](const auto& in) { return sub(in[0], in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {2}})
          .on({{1, 0}, {4, 1}})
          .large({{70001}, {70001}})
          .large({{257}, {300, 257}})
          .bad("shapes [2] and [3] do not broadcast", [] { sub(zeros({2}), zeros({3})); }),
      OpRow("sub", "a number", [](const auto& in) { return sub(in[0], 1.5); }).on({{2, 3}}).on({{0}}),
      OpRow("sub", "from a number", [](const auto& in) { return sub(1.5, in[0]); }).on({{2, 3}}).on({{}}),
      OpRow("mul", "by a number", [](const auto& in) { return mul(in[0], -0.7); })
          .on({{2, 3}})
          .on({{0}})
          .large({{70001}})
          .bad("the number 0.5 is not whole", [] { mul(zeros({2}, int64), 0.5); }),
      OpRow("div", "by a number", [](const auto& in) { return div(in[0], 0.3); }).on({{2, 3}}).on({{}}),
      OpRow("div", "a number by", [](const auto& in) { return div(0.3, in[0]); })
          .except("zeros", "a pole")
          .except("a zero", "a pole")
          .from(domain::nonzero)
          .on({{2, 3}})
          .on({{}})
          .on({{0}})
          .large({{70001}}),
      OpRow("neg", [](const auto& in) { return neg(in[0]); }).on({{2, 3}}).on({{}}).on({{0, 2}}).large({{70001}}),
      OpRow("pow", "squared", [](const auto& in) { return pow(in[0], 2); }).on({{2, 3}}).on({{}}).on({{0}}),
      OpRow("pow", "cubed", [](const auto& in) { return pow(in[0], 3); }).on({{5}}),
      OpRow("pow", "to 1", [](const auto& in) { return pow(in[0], 1); }).on({{3}}),
      OpRow("pow", "to 0", [](const auto& in) { return pow(in[0], 0); }).on({{3}}),
      OpRow("pow", "a whole exponent", [](const auto& in) { return pow(in[0], 5); }).on({{7}}),
      OpRow("pow", "to -1", [](const auto& in) { return pow(in[0], -1); })
          .from(domain::nonzero)
          .except("zeros", "a pole")
          .except("a zero", "a pole")
          .on({{5}}),
      OpRow("pow", "a fraction", [](const auto& in) { return pow(in[0], 1.7); })
          .from(domain::positive)
          .on({{2, 3}})
          .large({{5000}})
          .bad("2 to the power of -1 is no whole number", [] { pow(full({2}, 2, int64), -1); })
          .bad("the number 0.5 is not whole", [] { pow(full({2}, 2, int64), 0.5); }),
      OpRow("pow", "to 0.5 and -0.5",
            [](const auto& in) {
              return std::vector<Tensor>{pow(in[0], 0.5), pow(in[0], -0.5)};
            })
          .from(domain::positive)
          .on({{5}}),
      OpRow("pow", [](const auto& in) { return pow(in[0], in[1]); })
          .holds("a number is a tensor of equal numbers", both_powers, 4)
          .from(domain::positive, domain::real)
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {}})
          .on({{0}, {1}})
          .large({{5000}, {}})
          .bad("shapes [2] and [3] do not broadcast", [] { pow(zeros({2}), zeros({3})); }),
      OpRow("pow", "of a number", [](const auto& in) { return pow(1.7, in[0]); }).on({{2, 3}}).on({{}}),
  };
}
static const RegisterOps numbers(number_rows);

static Tensor mask(const Shape& shape) {
  Tensor m = Tensor::empty(shape, boolean);
  for (std::int64_t i = 0; i < m.numel(); ++i) m.fresh<bool>()[i] = i % 3 != 1;
  return m;
}

static std::vector<OpRow> choice_rows() {
  return {
      OpRow("clamp", [](const auto& in) { return clamp(in[0], -0.5, 0.7); })
          .from(Domain{-2, 2, {-0.5, 0.7}})
          .on({{2, 3}})
          .on({{33}})
          .on({{}})
          .on({{0}})
          .large({{70001}})
          .bad("low is 2, high 1: low must not be above high", [] { clamp(zeros({2}), 2, 1); }),
      OpRow("maximum", [](const auto& in) { return maximum(in[0], in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .large({{70001}, {70001}})
          .bad("shapes [2] and [3] do not broadcast", [] { maximum(zeros({2}), zeros({3})); }),
      OpRow("minimum", [](const auto& in) { return minimum(in[0], in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .large({{70001}, {70001}})
          .bad("shapes [2] and [3] do not broadcast", [] { minimum(zeros({2}), zeros({3})); }),
      OpRow("where",
            [](const auto& in) {
              return where(mask({2, 3}), in[0], in[1]);
            })
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {}})
          .on({{4, 1, 1}, {3}})
          .bad("the condition is float32: it must be boolean", [] { where(zeros({2}), zeros({2}), zeros({2})); })
          .bad("shapes [2] and [3] do not broadcast", [] { where(mask({2}), zeros({3}), zeros({2})); }),
      OpRow("where", "large", [](const auto& in) { return where(mask({257}), in[0], in[1]); })
          .on({{1}, {1}})
          .large({{300, 257}, {300, 1}}),
      OpRow("where", "or a number",
            [](const auto& in) {
              return std::vector<Tensor>{where(mask({3}), in[0], 0.5), where(mask({3}), 0.5, in[0])};
            })
          .on({{2, 3}})
          .on({{}}),
      OpRow("masked_fill", [](const auto& in) { return masked_fill(in[0], mask({3}), -1.5); })
          .on({{2, 3}})
          .on({{4, 2, 3}})
          .on({{0, 3}})
          .large({{30000, 3}})
          .bad("the mask has shape [2, 3], x [3]",
               [] {
                 masked_fill(zeros({3}), mask({2, 3}), 0);
               })
          .bad("the mask is int64: it must be boolean", [] { masked_fill(zeros({3}), zeros({3}, int64), 0); }),
  };
}
static const RegisterOps choices(choice_rows);

// Made of other operations.
static std::vector<OpRow> made_of_others() {
  const Domain spread{0.3, 2.5};
  return {
      OpRow("square", [](const auto& in) { return square(in[0]); }).on({{2, 3}}).on({{}}).on({{0}}),
      OpRow("reciprocal", [](const auto& in) { return reciprocal(in[0]); })
          .except("zeros", "a pole")
          .except("a zero", "a pole")
          .from(domain::nonzero)
          .on({{2, 3}})
          .on({{}}),
      OpRow("remainder", [](const auto& in) { return remainder(in[0], in[1]); })
          .from(domain::real, spread)
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .within(1e-4)
          .bad("shapes [2] and [3] do not broadcast", [] { remainder(zeros({2}), ones({3})); })
          .bad("b has a 0", [] { remainder(ones({2}, int64), 0); })
          .bad("the number 0.5 is not whole", [] { remainder(ones({2}, int64), 0.5); }),
      OpRow("remainder", "with a number",
            [](const auto& in) {
              return std::vector<Tensor>{in[0] % 0.7, 2.1 % in[0]};
            })
          .from(spread)
          .on({{2, 3}}),
      OpRow("fmod", [](const auto& in) { return fmod(in[0], in[1]); })
          .from(domain::real, spread)
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .within(1e-4)
          .bad("shapes [2] and [3] do not broadcast", [] { fmod(zeros({2}), ones({3})); })
          .bad("b has a 0", [] { fmod(ones({2}, int64), 0); }),
      OpRow("fmod", "by a number", [](const auto& in) { return fmod(in[0], 0.7); }).from(spread).on({{2, 3}}).on({{}}),
      OpRow("floor_divide", [](const auto& in) { return floor_divide(in[0], in[1]); })
          .from(Domain{-2, 2, {-1.5, 0, 1.5}}, Domain{1.5, 1.6})
          .on({{2, 3}, {2, 3}})
          .on({{}, {0}})
          .except("zeros", "a step")
          .except("a zero", "a step")
          .bad("shapes [2] and [3] do not broadcast", [] { floor_divide(zeros({2}), ones({3})); })
          .bad("b has a 0", [] { floor_divide(ones({2}, int64), 0); }),
      OpRow("copysign", [](const auto& in) { return copysign(in[0], in[1]); })
          .from(domain::nonzero, domain::nonzero)
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .bad("shapes [2] and [3] do not broadcast", [] { copysign(zeros({2}), ones({3})); }),
      OpRow("logaddexp", [](const auto& in) { return logaddexp(in[0], in[1]); })
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {}})
          .equals([](const auto& in) { return log(exp(in[0]) + exp(in[1])); })
          .bad("shapes [2] and [3] do not broadcast", [] { logaddexp(zeros({2}), ones({3})); }),
      OpRow("prelu", [](const auto& in) { return prelu(in[0], in[1]); })
          .from(domain::nonzero, domain::real)
          .on({{2, 3}, {3}})
          .on({{2, 3, 4}, {3}})
          .on({{2, 3}, {1}})
          .on({{4}, {}})
          .on({{0, 3}, {3}})
          .except("zeros", "x and its gradient have their corners at one point")
          .bad("x has shape [2, 3], weight [2]",
               [] {
                 prelu(zeros({2, 3}), ones({2}));
               }),
      OpRow("softplus", "with beta", [](const auto& in) { return softplus(in[0], 1.7); }).on({{2, 3}}).on({{}}),
      OpRow("atan2", [](const auto& in) { return atan2(in[0], in[1]); })
          .from(domain::nonzero, domain::nonzero)
          .except("zeros", "the angle of the origin has no derivative")
          .except("a zero", "the angle of the origin has no derivative")
          .on({{2, 3}, {2, 3}})
          .on({{3}, {2, 1}})
          .on({{}, {0}})
          .large({{70001}, {70001}})
          .bad("shapes [2] and [3] do not broadcast", [] { atan2(zeros({2}), ones({3})); }),
      OpRow("clamp_min", [](const auto& in) { return clamp_min(in[0], -0.5); })
          .from(Domain{-2, 2, {-0.5}})
          .on({{2, 3}})
          .on({{}})
          .bad("low is NaN", [] { clamp_min(zeros({2}), NAN); }),
      OpRow("clamp_max", [](const auto& in) { return clamp_max(in[0], 0.5); })
          .from(Domain{-2, 2, {0.5}})
          .on({{2, 3}})
          .on({{0}})
          .bad("high is NaN", [] { clamp_max(zeros({2}), NAN); }),
      OpRow("nan_to_num", [](const auto& in) { return nan_to_num(in[0]); })
          .on({{2, 3}})
          .on({{}})
          .except("NaN", "it is what is replaced"),
  };
}
static const RegisterOps numbers_of_others(made_of_others);

}  // namespace fit::test
