
#include "fit/base/memory.hpp"
#include "fit/detail/function_ref.hpp"
#include "support/oracles/attention_problem.hpp"
#include "support/oracles/one_result.hpp"
#include "support/tensors.hpp"
#include "support/variants.hpp"

// Attention where it is hard: drawn problems with scores and values near the limits of their type, ties, rows without
// keys, and NaN beside every option.
namespace fit::test::attention_draws_test {
namespace {

// The largest magnitude of what is finite in x.
double largest(const Tensor& x) {
  double most = 0;
  for (const double v : values(x))
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  return most;
}

class Choices {
 public:
  explicit Choices(unsigned seed) : random_(seed) {}
  std::int64_t operator()(std::int64_t n) { return static_cast<std::int64_t>(random_() >> 1) % n; }
  bool one_in(std::int64_t n) { return (*this)(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return list.begin()[(*this)(static_cast<std::int64_t>(list.size()))];
  }

 private:
  std::mt19937_64 random_;
};

// Numbers for scores (B, H, Sq, Sk): of any shape that broadcasts to it.
Shape score_shape(const AttentionSizes& n, Choices& draw) {
  const std::int64_t B = draw.of({n.B, std::int64_t{1}}), H = draw.of({n.H, std::int64_t{1}}),
                     Sq = draw.of({n.Sq, std::int64_t{1}});
  return draw.of({Shape{Sq, n.Sk}, Shape{B, Sq, n.Sk}, Shape{B, H, Sq, n.Sk}});
}

// Three axes of a bias could be B or H.
Shape bias_shape(const AttentionSizes& n, Choices& draw) {
  const Shape s = score_shape(n, draw);
  return s.rank() == 3 ? s.inserted(1, 1) : s;
}

struct Drawn {
  Problem p;
  std::string kind;
};

Drawn draw_problem(unsigned seed) {
  Choices draw(seed);
  const std::int64_t kv_heads = 1 + draw(2), S = draw.of<std::int64_t>({1, 2, 3, 5, 9, 33, 64, 70, 131});
  AttentionSizes n{1 + draw(2), kv_heads * (1 + draw(2)), S, S, draw.of<std::int64_t>({1, 2, 3, 8, 17}), 0};
  n.Dv = draw.one_in(2) ? n.D : draw.of<std::int64_t>({1, 3, 9, 16});
  if (draw.one_in(2)) n.Sk = draw.of<std::int64_t>({1, 3, 7, 40, 65, 140});
  const DType dtype = draw.of({float32, float64});
  Drawn d{Problem(n, dtype, seed, kv_heads), ""};
  Problem& p = d.p;
  AttentionOptions& o = p.options;
  o.causal(draw.one_in(2));
  if (draw.one_in(4)) o.window(1 + draw(n.Sk));
  if (draw.one_in(3)) o.scale(draw.of({1.0, -0.7, 0.0, 2.5}));
  if (draw.one_in(3)) o.dropout(draw.of({0.3, 0.8, 1.0}));
  if (!draw.one_in(3)) o.mask(p.draw_mask(score_shape(n, draw)));
  if (draw.one_in(4)) o.mask(zeros(score_shape(n, draw), boolean));
  if (draw.one_in(3)) o.bias(p.draw(bias_shape(n, draw)));
  if (draw.one_in(4)) o.alibi(abs(p.draw({n.H})));
  const auto constant_rows = [&](const Tensor& x) { return broadcast_to(slice(x, 2, 0, 1), x.shape()); };
  const double huge = std::pow(10, dtype == float32 ? draw(39) : draw(309));

  switch (draw(7)) {
    case 0:
      d.kind = "large scores";
      p.q = p.q * 300;
      break;
    case 1:
      d.kind = "equal keys under a huge bias";
      p.k = constant_rows(p.k);
      o.bias(full(bias_shape(n, draw), draw.of({1.0, -1.0, -3.0}) * huge, dtype)).alibi({});
      break;
    case 2:
      d.kind = "keys hidden by a large negative bias";
      o.bias(where(p.draw_mask(bias_shape(n, draw)), zeros({1}, dtype), draw.of({-1e4, -1e9, -3e38})));
      break;
    case 3:
      d.kind = "values near the limit";
      p.v = p.v * (dtype == float32 ? 1e37 : 1e306);
      p.d_output = p.d_output * 1e-3;
      break;
    case 4:
      d.kind = "equal keys and values";
      p.k = constant_rows(p.k);
      p.v = constant_rows(p.v);
      break;
    default:
      d.kind = "ordinary";
  }
  const bool finite = !draw.one_in(2);
  if (draw.one_in(3)) o.sink(p.draw({n.H}) * draw.of({1.0, -100.0, 100.0}));
  if (finite) return d;
  Tensor bias = o.bias();
  Tensor* const targets[] = {&p.q, &p.k, &p.v, &p.d_output, &bias};
  for (std::int64_t count = 1 + draw(2); count > 0; --count) {
    const std::int64_t t = draw(5);
    if (!targets[t]->defined() || targets[t]->numel() == 0) continue;
    d.kind += ", a NaN in operand " + std::to_string(t);
    std::vector<double> numbers = values(*targets[t]);
    numbers[static_cast<std::size_t>(draw(static_cast<std::int64_t>(numbers.size())))] = nan;
    *targets[t] = tensor(numbers, targets[t]->shape()).to(dtype);
  }
  o.bias(bias);
  return d;
}

// |a - b| as a share of `size`; infinite where only one is NaN.
double off(const Tensor& a, const Tensor& b, double size) {
  REQUIRE(a.shape() == b.shape());
  double worst = 0;
  const std::vector<double> x = values(a), y = values(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    const double distance = std::abs(x[i] - y[i]);
    worst = distance <= worst * size ? worst : std::isnan(distance) ? HUGE_VAL : distance / size;
  }
  return worst;
}

// Rows of weights sum to 1, or are 0, or NaN.
double off_one(const Tensor& weights) {
  double worst = 0;
  for (const double total : values(sum(weights.to(float64), {-1})))
    if (!std::isnan(total) && total != 0) worst = std::max(worst, std::abs(total - 1));
  return worst;
}

// Weights against the reference's, as far as the rounding of scores allows; all else against the reference that goes
// on from the same weights: however large the scores are, what follows from the weights is as exact.
void check_hard(const Problem& p) {
  const double eps = p.dtype == float32 ? 0x1p-23 : 0x1p-52, epsilons = 8 * eps * static_cast<double>(p.n.Sk + 16);
  const double scores =
      std::abs(p.scale()) * static_cast<double>(p.n.D) * largest(p.q) * largest(p.k) +
      (p.options.bias().defined() ? largest(p.options.bias()) : 0) +
      (p.options.alibi().defined() ? largest(p.options.alibi()) * static_cast<double>(p.n.Sk + p.n.Sq) : 0) +
      (p.options.sink().defined() ? largest(p.options.sink()) : 0);
  const double dropped = 1 / (p.options.dropout() < 1 ? 1 - p.options.dropout() : 1);
  const double v = largest(p.v) * dropped, d_output = largest(p.d_output);
  const double dP = 1 + v * d_output * static_cast<double>(p.n.Dv) + largest(p.d_weights);
  const double around = 1 + std::abs(p.scale()) * std::max(largest(p.q), largest(p.k)) * static_cast<double>(p.n.Sq);
  const auto check = [&](const Results& got, const AttentionReference& right) {
    CHECK(off(got.output, right.output, 1 + v) <= epsilons);
    CHECK(off(got.dv, right.dv, (1 + d_output * dropped) * static_cast<double>(p.n.Sq)) <= epsilons);
    CHECK(off(got.dq, right.dq, dP * around) <= epsilons);
    CHECK(off(got.dk, right.dk, dP * around) <= epsilons);
    if (right.dbias.defined())
      CHECK(off(got.dbias, right.dbias, dP * static_cast<double>(p.n.B * p.n.H * p.n.Sq)) <= epsilons);
    if (right.dsink.defined()) CHECK(off(got.dsink, right.dsink, dP * static_cast<double>(p.n.B * p.n.Sq)) <= epsilons);
  };
  const Tensor plain = reference(p, false).weights;
  Results tiles;
  for (const Form form : {Form::heads_first, Form::heads_last, Form::decomposed}) {
    INFO("form " << static_cast<int>(form));
    const Results with = run(p, form, true), without = run(p, form, false);
    CHECK(same_bits(with.output, without.output));
    if (!p.options.sink().defined()) CHECK(off_one(with.weights) < (p.dtype == float32 ? 1e-6 : 1e-14));
    CHECK(off(with.weights, plain, 1 + scores) <= epsilons);
    check(with, reference(p, true, with.weights));
    check(without, reference(p, false, with.weights));
    if (form == Form::heads_last) tiles = with;
  }
  if (can_pack(p)) {
    INFO("packed");
    check(run(p, Form::packed, false), reference(p, false, tiles.weights));
  }
  if (can_cache(p)) {
    INFO("cached");
    CHECK(off(run_cached(p), reference(p, false, tiles.weights).output, 1 + v) <= epsilons);
  }
}

// What a call, forward and backward, takes from the system on one thread: at least the most that was in use.
std::int64_t footprint(FunctionRef<void()> call) {
  struct Restore {
    int before = num_threads();
    ~Restore() { set_num_threads(before); }
  } restore;
  set_num_threads(1);
  empty_cache();
  const MemoryStats before = memory_stats();
  call();
  const MemoryStats after = memory_stats();
  return after.live_bytes + after.cached_bytes - before.live_bytes - before.cached_bytes;
}

}  // namespace

TEST_CASE("attention agrees with plain loops where scores and values are extreme or not finite", "[attention]") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Drawn d = draw_problem(seed);
    const AttentionOptions& o = d.p.options;
    const auto shape = [](const Tensor& x) { return x.defined() ? x.shape().str() : "none"; };
    INFO("seed " << seed << ": " << d.kind << ", " << d.p.n << ' ' << d.p.dtype << " kv_heads " << d.p.kv_heads
                 << " causal " << o.causal() << " window " << o.window() << " mask " << shape(o.mask()) << " bias "
                 << shape(o.bias()) << " alibi " << shape(o.alibi()) << " dropout " << o.dropout() << " scale "
                 << d.p.scale());
    check_hard(d.p);
    // The other instruction sets have the same bits.
    const auto bits = [&] {
      const Results with = run(d.p, Form::heads_first, true), without = run(d.p, Form::heads_last, false);
      return fingerprint({with.output, with.weights, with.dq, with.dk, with.dv, with.dbias, with.dsink, without.dq,
                          without.dk, without.dv});
    };
    const std::string here = bits();
    each_isa([&] { CHECK(bits() == here); });
  }
}

TEST_CASE("equal keys share a row's weight, whatever is added to their scores", "[attention]") {
  each_isa([] {
    for (const DType dtype : {float32, float64})
      for (const double bias : {-1e9, 1e5, 1e6, -3e38, 3e38}) {
        INFO("bias " << bias << ' ' << dtype);
        Problem p({1, 1, 10, 3, 4, 4}, dtype);
        p.k = zeros({1, 1, 3, 4}, dtype);
        p.options.bias(full({1, 3}, bias, dtype));
        const Results r = run(p, Form::heads_first, true);
        CHECK(max_difference(r.weights, full({1, 1, 10, 3}, 1 / 3.0, dtype)) < 1e-7);
        CHECK(max_difference(sum(r.dv, {2}), sum(p.d_output, {2})) < 1e-5);
      }
  });
}

TEST_CASE("values near the largest number are averaged", "[attention]") {
  each_isa([] {
    for (const DType dtype : {float32, float64})
      for (const bool mask : {false, true}) {
        AttentionOptions o;
        if (mask) o.mask(ones({1, 300}, boolean));
        const double value = dtype == float32 ? 2e36 : 2e306;
        const Tensor y =
            scaled_dot_product_attention(zeros({9, 4}, dtype), zeros({300, 4}, dtype), full({300, 4}, value, dtype), o);
        CHECK(max_difference(y / value, ones({9, 4}, dtype)) < 1e-6);
      }
  });
}

TEST_CASE("a visible NaN shows where its weight is dropped, with a mask or without", "[attention]") {
  for (const bool mask : {false, true})
    for (const int where : {0, 1, 2, 3})
      for (const Form form : {Form::heads_first, Form::heads_last, Form::decomposed, Form::packed})
        for (unsigned seed = 0; seed < 30; ++seed) {
          INFO("mask " << mask << " operand " << where << " form " << static_cast<int>(form) << " seed " << seed);
          Problem p({1, 1, 2, 2, 3, 3}, float32, seed);
          p.options.dropout(seed % 3 == 0 ? 1.0 : 0.9);
          if (mask) p.options.mask(tensor({{true, true}, {true, false}}));
          Tensor bias = p.draw({2, 2});
          if (where == 3)
            bias[{0, 1}] = nan;
          else
            (where == 0 ? p.q : where == 1 ? p.k : p.v)[{0, 0, where == 0 ? 0 : 1}] = nan;
          p.options.bias(bias);
          const Results r = run(p, form, false);
          CHECK(all(isnan(r.output[{0, 0, 0}])).item<bool>());  // the first query sees it
          if (mask) CHECK(all(isfinite(r.output[{0, 0, 1}])).item<bool>());
          if (mask) CHECK(all(isfinite(r.dq[{0, 0, 1}])).item<bool>());
        }
}

TEST_CASE("padding full of rubbish changes nothing, and takes no more memory", "[attention]") {
  const std::int64_t T = 1024, used = 900;
  for (const bool is_causal : {false, true}) {
    INFO("causal " << is_causal);
    Problem p({1, 2, T, T, 8, 8}, float32);
    p.options.causal(is_causal).mask(reshape(arange(T) < used, {1, T}));
    p.d_output[{range(), range(), range(used, T)}] = 0;  // what is padding has no part in the loss
    for (Tensor* x : {&p.q, &p.k, &p.v}) (*x)[{range(), range(), range(used, T)}] = 0;
    const auto fill = [&](Problem& q, double value) {
      for (Tensor* x : {&q.k, &q.v}) (*x)[{range(), range(), range(used, T)}] = value;
    };
    p.d_weights = {};
    Results clean, dirty;
    const std::int64_t usual = footprint([&] { clean = run(p, Form::heads_last, false); });
    fill(p, nan);
    const std::int64_t rubbish = footprint([&] { dirty = run(p, Form::heads_last, false); });
    CHECK(usual < T * T * 4);  // one head's scores
    CHECK(rubbish < usual * 11 / 10);
    for (const auto& [a, b] : {std::pair(dirty.output, clean.output), std::pair(dirty.dq, clean.dq),
                               std::pair(dirty.dk, clean.dk), std::pair(dirty.dv, clean.dv)})
      CHECK(max_difference(a, b) < 1e-6);
  }
}

TEST_CASE("linear biases lose no digits with the length", "[attention]") {
  const std::int64_t T = 8192;
  Generator g(4);
  const Tensor x = randn({1, 1, T, 4}, float32, g);
  auto o = AttentionOptions().causal().alibi(tensor({1.0 / 3}, float64));
  const Tensor y = scaled_dot_product_attention(x, x, x, o);
  o.window(200);  // what is further back has a weight of e^-60
  const Tensor exact = scaled_dot_product_attention(x.to(float64), x.to(float64), x.to(float64), o);
  CHECK(max_difference(y, exact) < 8e-7);
}

}  // namespace fit::test::attention_draws_test
