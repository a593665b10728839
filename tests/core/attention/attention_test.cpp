#include "fit/attention/attention.hpp"

#include "support/catch.hpp"
#include "support/oracles/attention_problem.hpp"
#include "support/tensors.hpp"

namespace fit::test::attention_test {
namespace {

struct MaskKind {
  const char* name;
  Shape shape;  // rank 0: no mask
};

std::vector<MaskKind> mask_kinds(const AttentionSizes& n) {
  return {{"none", {}},
          {"(Sq, Sk)", {n.Sq, n.Sk}},
          {"(1, Sk)", {1, n.Sk}},
          {"(1, Sq, Sk)", {1, n.Sq, n.Sk}},
          {"(B, 1, Sk)", {n.B, 1, n.Sk}},
          {"(B, Sq, Sk)", {n.B, n.Sq, n.Sk}},
          {"(B, H, Sq, Sk)", {n.B, n.H, n.Sq, n.Sk}},
          {"(1, H, 1, Sk)", {1, n.H, 1, n.Sk}},
          {"(B, 1, Sq, Sk)", {n.B, 1, n.Sq, n.Sk}}};
}

AttentionOptions causal() { return AttentionOptions().causal(); }

}  // namespace

TEST_CASE("attention agrees with plain loops: masks x causal x bias x dropout x weights x sizes x types", "[heavy]") {
  const AttentionSizes sizes[] = {{2, 3, 5, 5, 4, 4},  {1, 1, 1, 1, 1, 1},  {2, 2, 7, 3, 5, 3},
                                  {3, 1, 3, 7, 33, 2}, {1, 4, 1, 33, 7, 7}, {2, 2, 3, 3, 3, 3}};
  unsigned seed = 0;
  for (const AttentionSizes& n : sizes)
    for (const MaskKind& mask : mask_kinds(n))
      for (const bool is_causal : {false, true})
        for (const Shape& bias : {Shape{}, Shape{n.Sq, n.Sk}, Shape{n.B, 1, 1, n.Sk}, Shape{1, n.H, n.Sq, n.Sk}})
          for (const double dropout : {0.0, 0.5})
            for (const DType dtype : {float32, float64}) {
              INFO(n << " mask " << mask.name << " causal " << is_causal << " bias " << bias << " dropout " << dropout
                     << ' ' << dtype);
              Problem p(n, dtype, ++seed);
              if (mask.shape.rank() > 0) p.options.mask(p.draw_mask(mask.shape));
              if (bias.rank() > 0) p.options.bias(p.draw(bias));
              p.options.causal(is_causal).dropout(dropout);
              check_problem(p, dtype == float64 ? 1e-12 : 2e-5);
            }
}

TEST_CASE("attention agrees with plain loops over several hundred keys") {
  for (const bool is_causal : {false, true}) {
    Problem p({1, 2, 130, 257, 16, 24}, float32);
    p.options.causal(is_causal).mask(p.draw_mask({1, 257}));
    check_problem(p, 2e-5);
  }
}

TEST_CASE("attention takes a scale or a temperature") {
  Problem p({2, 2, 3, 4, 5, 5}, float64);
  const Tensor usual = run(p, Form::heads_first, false).output;
  p.options.temperature(2.5);
  check_problem(p, 1e-12);
  CHECK(max_difference(run(p, Form::heads_first, false).output, usual) > 1e-3);
  p.options.scale(1.0);  // takes the place of both
  check_problem(p, 1e-12);
  p.options.scale(1 / std::sqrt(5.0));
  CHECK(same_bits(run(p, Form::heads_first, false).output, usual));
}

TEST_CASE("attention by hand: two tokens, unscaled") {
  // Scores [[0, 0], [0, 1]] and values [[0, 1], [2, 2]].
  const Tensor x = tensor({{0., 1.}, {1., 0.}});
  const auto o = AttentionOptions().scale(1.0);
  const Tensor q = tensor({{0., 0.}, {1., 0.}}), v = tensor({{0., 1.}, {2., 2.}});
  const auto [y, w] = attend(q, x, v, AttentionOptions(o).weights());
  CHECK(w.shape() == Shape{2, 2});
  CHECK(max_difference(w, tensor({{0.5, 0.5}, {0.26894142, 0.73105858}})) < 1e-7);
  CHECK(max_difference(y, tensor({{1., 1.5}, {1.46211716, 1.73105858}})) < 1e-6);
}

TEST_CASE("attention takes input without heads and without a batch") {
  Problem p({1, 1, 3, 4, 5, 2}, float64);
  p.options.mask(p.draw_mask({3, 4}));
  const AttentionResult four = attend(p.q, p.k, p.v, AttentionOptions(p.options).weights());
  const auto as = [&](const Shape& s) {
    const auto to = [&](const Tensor& x) {
      return reshape(x, s.rank() == 3 ? Shape{1, x.size(2), x.size(3)} : Shape{x.size(2), x.size(3)});
    };
    return attend(to(p.q), to(p.k), to(p.v), AttentionOptions(p.options).weights());
  };
  const AttentionResult three = as({0, 0, 0}), two = as({0, 0});
  CHECK(three.output.shape() == Shape{1, 3, 2});
  CHECK(three.weights.shape() == Shape{1, 3, 4});
  CHECK(two.output.shape() == Shape{3, 2});
  CHECK(two.weights.shape() == Shape{3, 4});
  CHECK(same_bits(two.output, reshape(four.output, Shape{3, 2})));
  CHECK(same_bits(three.weights, reshape(four.weights, Shape{1, 3, 4})));
}

TEST_CASE("grouped heads: query heads share a head of keys and values") {
  Problem p({2, 4, 3, 5, 3, 2}, float64);
  p.options.causal(true);
  const Tensor k = p.draw({2, 2, 5, 3}), v = p.draw({2, 2, 5, 2});
  // Heads 0 and 1 of the queries share head 0.
  const auto repeat = [](const Tensor& x) {
    std::vector<Tensor> parts;
    for (const std::int64_t h : {0, 0, 1, 1}) parts.push_back(slice(x, 1, h, h + 1));
    return cat(parts, 1);
  };
  p.k = repeat(k);
  p.v = repeat(v);
  const Tensor expected = reference(p, false).output;
  CHECK(max_difference(scaled_dot_product_attention(p.q, k, v, p.options), expected) < 1e-12);
  CHECK(max_difference(unmerge(multi_head_attention(merge(p.q), merge(k), merge(v), 4, p.options), 4), expected) <
        1e-12);
}

TEST_CASE("a mask of numbers means what a boolean one means") {
  Problem p({2, 2, 3, 4, 3, 3}, float32);
  const Tensor mask = p.draw_mask({2, 1, 4});
  p.options.mask(mask);
  const Tensor expected = run(p, Form::heads_first, false).output;
  for (const DType dtype : {float32, float64, int64}) {
    p.options.mask(mask.to(dtype));
    CHECK(same_bits(run(p, Form::heads_first, false).output, expected));
  }
}

TEST_CASE("the causal flag, the look-ahead mask and an additive mask agree") {
  Problem p({2, 2, 5, 5, 3, 3}, float32);
  p.options.causal(true);
  const Tensor expected = run(p, Form::heads_first, false).output;
  p.options.causal(false).mask(create_look_ahead_mask(5));
  CHECK(same_bits(run(p, Form::heads_first, false).output, expected));
  p.options.mask({});
  for (const double low : {-1e9, -inf}) {
    p.options.bias(where(create_look_ahead_mask(5), zeros({1, 5, 5}), low));
    const Results r = run(p, Form::heads_first, true);
    CHECK(max_difference(r.output, expected) < 1e-6);
    CHECK(all(isfinite(r.dq)).item<bool>());
    CHECK(all(isfinite(r.dbias)).item<bool>());
  }
}

TEST_CASE("causal with other numbers of queries than keys: the last query sees all keys") {
  const auto weights = [](std::int64_t queries, std::int64_t keys) {
    return attend(zeros({queries, 2}), zeros({keys, 2}), zeros({keys, 1}), causal().weights()).weights;
  };
  CHECK(max_difference(weights(2, 4), tensor({{1. / 3, 1. / 3, 1. / 3, 0.}, {0.25, 0.25, 0.25, 0.25}})) < 1e-6);
  CHECK(max_difference(weights(4, 2), tensor({{0., 0.}, {0., 0.}, {1., 0.}, {0.5, 0.5}})) == 0);
}

TEST_CASE("causal: a changed future leaves earlier outputs as they were, to the bit") {
  Problem p({1, 2, 33, 33, 7, 7}, float32);
  p.options.causal(true);
  for (const double dropout : {0.0, 0.5}) {
    p.options.dropout(dropout).mask(dropout > 0 ? p.draw_mask({33, 33}) : Tensor());
    const Results before = run(p, Form::heads_last, true);
    Problem changed = p;
    for (Tensor* x : {&changed.q, &changed.k, &changed.v})
      *x = cat({slice(*x, 2, 0, 20), slice(*x, 2, 20, 33) * -3.0 + 1.0}, 2);
    const Results after = run(changed, Form::heads_last, true);
    CHECK(same_bits(slice(before.output, 2, 0, 20), slice(after.output, 2, 0, 20)));
    CHECK(same_bits(slice(before.weights, 2, 0, 20), slice(after.weights, 2, 0, 20)));
    CHECK_FALSE(same_bits(before.output, after.output));
  }
}

TEST_CASE("a row that may attend to nothing gives zeros and passes no gradient") {
  for (const double poison : {0.0, nan}) {
    Problem p({2, 2, 3, 4, 3, 3}, float64);
    std::vector<bool> visible(2 * 3 * 4, true);
    for (std::size_t j = 0; j < 4; ++j) visible[1 * 12 + 2 * 4 + j] = false;  // row 2 of batch 1
    p.options.mask(tensor(visible, {2, 3, 4})).bias(p.draw({2, 1, 3, 4}));
    if (poison != 0) p.q[{1, range(), 2}] = poison;
    const Results r = run(p, Form::heads_first, true);
    CHECK(difference(r, reference(p, true)) <= 1e-12);
    for (const Tensor& x : {r.output, r.weights, r.dq, r.dbias})
      CHECK(max_difference(x[{1, range(), 2}], zeros_like(x[{1, range(), 2}])) == 0);
    CHECK(sum(abs(r.output[{1, range(), 1}])).item() > 0);
  }
  const Results none = [] {
    Problem p({2, 2, 3, 4, 3, 3}, float32);
    p.options.mask(zeros({1, 4}, boolean));
    return run(p, Form::heads_last, true);
  }();
  for (const Tensor& x : {none.output, none.weights, none.dq, none.dk, none.dv})
    CHECK(max_difference(x, zeros_like(x)) == 0);
}

TEST_CASE("what is hidden stays hidden even if it isn't finite, and what is visible shows") {
  unsigned seed = 100;
  const AttentionSizes sizes[] = {{2, 2, 4, 5, 3, 3}, {1, 3, 7, 7, 5, 2}, {3, 1, 5, 3, 1, 1}};
  for (const AttentionSizes& n : sizes)
    for (const MaskKind& mask : mask_kinds(n))
      for (const bool is_causal : {false, true})
        for (const double bad : {nan, inf})
          for (const int where : {0, 1, 2, 3, 4, 5}) {
            if (mask.shape.rank() == 0 && !is_causal) continue;
            INFO(n << " mask " << mask.name << " causal " << is_causal << " value " << bad << " in "
                   << (where == 0   ? "q"
                       : where == 1 ? "k"
                       : where == 2 ? "v"
                       : where == 3 ? "the output's gradient"
                       : where == 4 ? "all of a row of k and v"
                                    : "the bias"));
            Problem p(n, float64, ++seed);
            if (mask.shape.rank() > 0) p.options.mask(p.draw_mask(mask.shape));
            p.options.causal(is_causal);
            const std::int64_t b = n.B - 1, h = n.H - 1, i = n.Sq / 2, j = n.Sk / 2;
            if (where == 0) p.q[{b, h, i, 0}] = bad;
            if (where == 1) p.k[{b, h, j, 0}] = bad;
            if (where == 2) p.v[{b, h, j, 0}] = bad;
            if (where == 3) p.d_output[{b, h, i, 0}] = bad;
            if (where == 4) {
              p.k[{b, h, j}] = bad;
              p.v[{b, h, j}] = bad;
            }
            if (where == 5) {
              Tensor bias = p.draw({n.B, n.H, n.Sq, n.Sk});
              bias[{b, h, i, j}] = bad;
              p.options.bias(bias);
            }
            check_problem(p, 1e-12);
          }
}

TEST_CASE("a NaN in a padded position does not reach the others") {
  // The positions 3 and 4 are padding, hidden from every query and left out of the loss.
  Problem p({1, 2, 5, 5, 3, 3}, float32);
  p.options.mask(tensor({{true, true, true, false, false}}));
  for (Tensor* x : {&p.k, &p.v}) (*x)[{0, range(), range(3)}] = nan;
  const Results r = run(p, Form::heads_last, true);
  for (const Tensor& x : {r.output, r.weights, r.dq, r.dk, r.dv}) CHECK(all(isfinite(x)).item<bool>());
  // Without the mask it shows everywhere.
  p.options.mask({});
  CHECK(all(isnan(run(p, Form::heads_last, false).output)).item<bool>());
}

TEST_CASE("a NaN in one query shows in its row alone") {
  for (const bool is_causal : {false, true}) {
    Problem p({1, 2, 5, 5, 3, 3}, float32);
    p.options.causal(is_causal);
    const Tensor before = run(p, Form::heads_first, false).output;
    p.q[{0, 1, 3, 2}] = nan;
    const Tensor after = run(p, Form::heads_first, false).output;
    CHECK(all(isnan(after[{0, 1, 3}])).item<bool>());
    CHECK(sum(isnan(after)).item<std::int64_t>() == 3);
    CHECK(max_difference(after[{0, 1, range(0, 3)}], before[{0, 1, range(0, 3)}]) < 1e-6);
    CHECK(max_difference(after[{0, 0}], before[{0, 0}]) < 1e-6);
  }
}

TEST_CASE("a gradient that isn't finite shows in the scores of its own query alone") {
  for (const DType dtype : {float32, float64})
    for (const std::int64_t queries : {3, 9}) {
      INFO(queries << " queries, " << dtype);
      Problem p({1, 2, queries, 7, 3, 3}, dtype);
      p.options.bias(p.draw({1, 2, queries, 7}));
      p.d_output[{0, 0, 1, 2}] = nan;
      const Tensor unseen = isnan(run(p, Form::heads_first, false).dbias);
      CHECK(sum(unseen).item<std::int64_t>() == 7);
      CHECK(all(unseen[{0, 0, 1}]).item<bool>());
    }
}

TEST_CASE("heads that are finite do not feel one that is not") {
  Problem p({2, 2, 9, 9, 4, 4}, float64);
  p.options.causal(true);
  const Results before = run(p, Form::heads_last, true);
  p.k[{1, 1, 8}] = nan;
  const Results after = run(p, Form::heads_last, true);
  for (const auto& [a, b] : {std::pair(before.output, after.output), std::pair(before.dv, after.dv)}) {
    CHECK(max_difference(a[{0}], b[{0}]) < 1e-14);
    CHECK(max_difference(a[{1, 0}], b[{1, 0}]) < 1e-14);
  }
}

TEST_CASE("a score that overflows behind the mask stays hidden") {
  Problem p({1, 2, 5, 5, 3, 3}, float32);
  p.options.mask(tensor({{true, true, true, false, true}}));
  p.q.fill_(1e20);
  p.k.fill_(1e-20);
  p.k[{0, range(), 3}] = 1e25;
  check_problem(p, 2e-5);
}

TEST_CASE("a gradient that overflows behind the mask stays hidden") {
  for (const bool by_mask : {false, true})
    for (const double dropout : {0.0, 0.4})
      for (const Form form : {Form::heads_first, Form::heads_last, Form::decomposed, Form::packed}) {
        INFO("mask " << by_mask << " dropout " << dropout << " form " << static_cast<int>(form));
        Problem p({1, 2, 9, 9, 3, 3}, float64);
        p.options.dropout(dropout).causal(!by_mask);
        if (by_mask) p.options.mask(create_look_ahead_mask(9));
        p.options.bias(p.draw({1, 2, 9, 9}));
        // The last key is seen by the last query alone, and that one's gradient is 0.
        p.v[{0, 1, 8}] = 1e200;
        p.d_output[{0, 1, 2}] = 1e200;
        p.d_output[{0, 1, 8}] = 0;
        const Results r = run(p, form, false);
        const AttentionReference expected = reference(p, false);
        for (const auto& [got, right] : {std::pair(r.dq, expected.dq), std::pair(r.dk, expected.dk),
                                         std::pair(r.dv, expected.dv), std::pair(r.dbias, expected.dbias)})
          CHECK(allclose(got, right, 1e-10, 1e-10));
      }
}

TEST_CASE("a NaN that is visible takes its whole row of weights") {
  for (const Form form : {Form::heads_first, Form::heads_last, Form::decomposed})
    for (const std::int64_t queries : {3, 40})
      for (const std::int64_t keys : {2, 5, 70})
        for (const DType dtype : {float32, float64}) {
          INFO("form " << static_cast<int>(form) << ' ' << queries << " queries, " << keys << " keys, " << dtype);
          Problem p({1, 2, queries, keys, 3, 3}, dtype);
          p.k[{0, 1, keys - 1}] = nan;
          const Tensor w = run(p, form, true).weights;
          CHECK(all(isnan(w[{0, 1}])).item<bool>());
          CHECK(all(isfinite(w[{0, 0}])).item<bool>());
        }
}

TEST_CASE("dropout of attention") {
  const Tensor q = zeros({1, 2, 40, 3}), k = zeros({1, 2, 50, 3}), v = eye(50).alias({1, 1, 50, 50});
  const auto dropped = [&](double p, std::uint64_t seed) {  // v is the identity: the output is the dropped weights
    Generator g(seed);
    const auto o = AttentionOptions().dropout(p).generator(&g);
    return attend(q, k, broadcast_to(v, {1, 2, 50, 50}), AttentionOptions(o).weights());
  };
  const auto [y, w] = dropped(0.25, 1);
  SECTION("the weights come before it") { CHECK(max_difference(w, full({1, 2, 40, 50}, 0.02)) < 1e-7); }
  SECTION("what survives grows by 1 / (1 - p)") {
    std::int64_t kept = 0;
    for (const float e : y.data<float>()) {
      if (e != 0) CHECK(e == Approx(0.02 / 0.75));
      kept += e != 0;
    }
    CHECK(static_cast<double>(kept) / 4000 == Approx(0.75).margin(0.03));  // 4 standard deviations
  }
  SECTION("the same seed drops the same, another seed and another call something else") {
    CHECK(same_bits(dropped(0.25, 1).output, y));
    CHECK_FALSE(same_bits(dropped(0.25, 2).output, y));
    Generator g(1);
    auto o = AttentionOptions().dropout(0.5).generator(&g);
    const Tensor first = scaled_dot_product_attention(q, k, k, o);
    CHECK(g.calls() == 1);
    manual_seed(1);
    o.generator(nullptr);
    CHECK(same_bits(scaled_dot_product_attention(q, k, k, o), first));
    CHECK(default_generator().calls() == 1);
  }
  SECTION("p = 1 drops all, p = 0 draws nothing") {
    CHECK(max_difference(dropped(1, 1).output, zeros({1, 2, 40, 50})) == 0);
    const std::uint64_t calls = default_generator().calls();
    scaled_dot_product_attention(q, k, k);
    CHECK(default_generator().calls() == calls);
  }
  SECTION("on the average it changes nothing") {
    const Tensor values = random_like(k);
    Tensor mean = zeros({1, 2, 40, 3});
    Generator g(3);
    const auto o = AttentionOptions().dropout(0.5).generator(&g);
    for (int i = 0; i < 400; ++i) mean += scaled_dot_product_attention(q, k, values, o) / 400;
    // One draw is off by about 1.15 / sqrt(50), the mean of 400 by 0.008.
    CHECK(max_difference(mean, scaled_dot_product_attention(q, k, values)) < 0.05);
  }
}

TEST_CASE("attention: a permutation of the keys changes nothing, one of the queries permutes the rows") {
  Problem p({2, 2, 4, 6, 3, 3}, float64);
  p.options.mask(p.draw_mask({2, 1, 6}));
  const Tensor ids = tensor({3, 0, 5, 1, 4, 2}), rows = tensor({2, 3, 1, 0});
  const Tensor before = run(p, Form::heads_first, false).output;
  Problem other = p;
  other.k = index_select(p.k, 2, ids);
  other.v = index_select(p.v, 2, ids);
  other.q = index_select(p.q, 2, rows);
  other.options.mask(index_select(p.options.mask(), 2, ids));
  CHECK(max_difference(run(other, Form::heads_first, false).output, index_select(before, 2, rows)) < 1e-14);
}

TEST_CASE("attention: an element of the batch and a head do not depend on the others") {
  Problem p({3, 2, 4, 6, 3, 3}, float32);
  p.options.causal(true).mask(p.draw_mask({3, 1, 6}));
  const Results all = run(p, Form::heads_first, true);
  for (const std::int64_t b : {0, 1, 2})
    for (const std::int64_t h : {0, 1}) {
      AttentionOptions o = p.options;
      o.mask(p.options.mask()[{b}]);
      const auto one = attend(p.q[{b, h}], p.k[{b, h}], p.v[{b, h}], AttentionOptions(o).weights());
      CHECK(max_difference(one.output, all.output[{b, h}]) < 1e-6);
      CHECK(max_difference(one.weights, all.weights[{b, h}]) < 1e-6);
    }
}

TEST_CASE("attention to one packed projection is attention to its parts") {
  // Four heads of queries, two of keys and values, of three features.
  std::mt19937_64 engine(2);
  for (const double poison : {0.0, nan}) {
    Tensor packed = random_tensor({2, 5, 8 * 3}, domain::real, engine);
    if (poison != 0) packed[{1, 4, 14}] = poison;  // in a key that the mask hides
    AttentionOptions o = causal();
    o.mask(tensor({{true, true, false, true, false}}));
    Tensor whole = packed.clone().requires_grad_(), parts = packed.clone().requires_grad_();
    const Tensor y = packed_self_attention(whole, 4, o, 2);
    const Tensor expected =
        multi_head_attention(slice(parts, 2, 0, 12), slice(parts, 2, 12, 18), slice(parts, 2, 18, 24), 4, o);
    CHECK(max_difference(y, expected) < 1e-14);
    CHECK(all(isfinite(y)).item<bool>());
    const Tensor seed = random_like(y);
    y.backward(seed);
    expected.backward(seed);
    CHECK(max_difference(whole.grad(), parts.grad()) < 1e-14);
    CHECK(all(isfinite(whole.grad())).item<bool>());
  }
}

TEST_CASE("attention of nothing") {
  for (const AttentionSizes& n :
       {AttentionSizes{0, 2, 3, 4, 2, 2}, AttentionSizes{2, 2, 0, 4, 2, 2}, AttentionSizes{2, 2, 3, 0, 2, 2},
        AttentionSizes{2, 2, 3, 4, 2, 0}, AttentionSizes{2, 0, 3, 4, 2, 2}})
    for (const bool is_causal : {false, true}) {
      INFO(n << " causal " << is_causal);
      Problem p(n, float32);
      p.options.causal(is_causal);
      check_problem(p, 1e-5);
    }
  // Without keys every row is empty.
  const Tensor y = scaled_dot_product_attention(ones({3, 2}), ones({0, 2}), ones({0, 4}));
  CHECK(max_difference(y, zeros({3, 4})) == 0);
  // Without features all scores are 0.
  CHECK(max_difference(scaled_dot_product_attention(ones({1, 0}), ones({4, 0}), tensor({{1.}, {2.}, {3.}, {6.}})),
                       tensor({{3.}})) < 1e-6);
}

}  // namespace fit::test::attention_test
