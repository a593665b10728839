// The properties that each exercise must have, and its hints. Properties hold for every correct solution: most of them
// compare the function with itself on other inputs, or with the library.
#include <cmath>

#include "exercises/exercises.hpp"
#include "support/example.hpp"

namespace exercises {
namespace {

using example::distance;
constexpr double small = 1e-5;

bool near(const Tensor& a, const Tensor& b, double most = small) {
  return a.shape() == b.shape() && distance(a, b) < most;
}
Tensor row_sums(const Tensor& x) { return sum(x, -1); }

// Numerical gradient of sum(f(x) * dy), in float64.
template <class F>
Tensor slope(const F& f, const Tensor& x, const Tensor& dy) {
  constexpr double h = 1e-6;
  Tensor dx = zeros_like(x);
  for (std::int64_t i = 0; i < x.size(0); ++i)
    for (std::int64_t j = 0; j < x.size(1); ++j) {
      Tensor up = x.clone(), down = x.clone();
      up[{i, j}] = x[{i, j}] + h, down[{i, j}] = x[{i, j}] - h;
      dx[{i, j}] = sum((f(up) - f(down)) * dy) / (2 * h);
    }
  return dx;
}
Tensor doubles(const Shape& shape) { return randn(shape).to(float64); }

void check_softmax(Properties& is, const Functions& given) {
  const auto forward = given.get<Tensor(const Tensor&)>(0);
  const auto gradient = given.get<Tensor(const Tensor&, const Tensor&)>(1);
  const Tensor x = doubles({3, 5}), dp = doubles({3, 5}), p = forward(x);
  is.holds("each row sums to 1", [&] { return near(row_sums(p), ones({3}, float64)); });
  is.holds("each share is positive", [&] { return min(p).item() > 0; });
  is.holds("one more is e times as much", [&] {
    const Tensor q = forward(tensor({{1., 2.}}));
    return std::abs((q[{0, 1}] / q[{0, 0}]).item() - std::exp(1)) < small;
  });
  is.holds("a number added to a row changes nothing", [&] { return near(forward(x + 7.0), p); });
  is.holds("scores of 1000 give no NaN", [&] { return near(forward(x + 1000.0), p); });
  is.holds("the gradient of each row sums to 0", [&] { return near(row_sums(gradient(p, dp)), zeros({3}, float64)); });
  is.holds("the gradient is the slope of the function",
           [&] { return near(gradient(softmax(x), dp), slope([](const Tensor& t) { return softmax(t); }, x, dp)); });
}

// Properties of any attention: rows of weights sum to 1, and the order of the keys has no effect.
template <class F>
void check_mean(Properties& is, const F& attention, const Tensor& q, const Tensor& k, const Tensor& v) {
  is.holds("equal values come out as they are", [&] {
    const Tensor out = attention(q, k, ones_like(v));
    return near(out, ones(out.shape()));
  });
  is.holds("the order of the keys, with their values, has no effect",
           [&] { return near(attention(q, flip(k, -2), flip(v, -2)), attention(q, k, v)); });
  is.holds("equal keys give the mean of the values", [&] {
    const Tensor out = attention(q, zeros_like(k), v);
    return distance(out, mean(v, -2, keepdims)) < small;
  });
}

void check_by_hand(Properties& is, const Functions& given) {
  const auto attention = given.get<Tensor(const Tensor&, const Tensor&, const Tensor&)>(0);
  const Tensor q = randn({3, 2}), k = randn({4, 2}), v = randn({4, 5});
  check_mean(is, attention, q, k, v);
  is.holds("a query that fits one key far better gets its value", [&] {
    return near(attention(tensor({{50., 0.}}), tensor({{1., 0.}, {0., 1.}}), v[{range(0, 2)}]), v[{range(0, 1)}]);
  });
  is.holds("the exercise's numbers: q = I, k = (1 1, 1 0), v = (2 0, 0 3)", [&] {
    const Tensor out = attention(eye(2), tensor({{1., 1.}, {1., 0.}}), tensor({{2., 0.}, {0., 3.}}));
    const double e = std::exp(1);
    return near(out, tensor({{1., 1.5}, {2 * e / (e + 1), 3 / (e + 1)}}));
  });
}

void check_scaled(Properties& is, const Functions& given) {
  const auto attention = given.get<Tensor(const Tensor&, const Tensor&, const Tensor&)>(0);
  const Tensor q = randn({2, 2, 3, 8}), k = randn({2, 2, 5, 8}), v = randn({2, 2, 5, 4});
  check_mean(is, attention, q, k, v);
  is.holds("four times the same features count twice, because of the root", [&] {
    const Tensor wide_q = cat({q, q, q, q}, -1), wide_k = cat({k, k, k, k}, -1);
    return near(attention(wide_q, wide_k, v), attention(q * 2.0, k, v));
  });
  is.holds("it is the library's attention",
           [&] { return near(attention(q, k, v), scaled_dot_product_attention(q, k, v)); });
}

void check_causal(Properties& is, const Functions& given) {
  const auto attention = given.get<Tensor(const Tensor&, const Tensor&, const Tensor&)>(0);
  const Tensor q = randn({2, 5, 4}), k = randn({2, 5, 4}), v = randn({2, 5, 3});
  const Tensor out = attention(q, k, v);
  is.holds("the first token gets its own value", [&] { return near(out[{range(), 0}], v[{range(), 0}]); });
  for (const std::int64_t last : {1, 3, 4})
    is.holds("what comes after token " + std::to_string(last - 1) + " does not matter to it", [&] {
      Tensor other_k = k.clone(), other_v = v.clone();
      other_k[{range(), range(last, 5)}] = 9.0, other_v[{range(), range(last, 5)}] = -9.0;
      return near(attention(q, other_k, other_v)[{range(), range(0, last)}], out[{range(), range(0, last)}]);
    });
  is.holds("the last token attends to all", [&] {
    return near(out[{range(), range(4, 5)}], scaled_dot_product_attention(Tensor(q[{range(), range(4, 5)}]), k, v));
  });
}

void check_causal_bug(Properties& is, const Functions& given) {
  const auto weights = given.get<Tensor(const Tensor&)>(0);
  const Tensor x = randn({2, 5, 4}), w = weights(x);
  is.holds("each row sums to 1", [&] { return near(row_sums(w), ones({2, 5})); });
  is.holds("the upper triangle is 0", [&] { return equal(w, tril(w)); });
  is.holds("another last token changes no row before it", [&] {
    Tensor other = x.clone();
    other[{range(), 4}] = 9.0;
    return near(weights(other)[{range(), range(0, 4)}], w[{range(), range(0, 4)}]);
  });
  is.holds("in the last row, the ratios are those without a mask", [&] {
    const Tensor full = softmax(matmul(x, transpose(x)) / 2.0);
    return near(w[{range(), 4}], full[{range(), 4}]);
  });
}

void check_padding(Properties& is, const Functions& given) {
  const auto mask_of = given.get<Tensor(const Tensor&, std::int64_t)>(0);
  const Tensor lengths = tensor({3, 5, 1}), mask = mask_of(lengths, 5);
  is.holds("it is boolean, [B, 1, 1, n]", [&] { return mask.dtype() == boolean && mask.shape() == Shape{3, 1, 1, 5}; });
  is.holds("it has as many keys as each sequence is long", [&] { return equal(sum(mask, {1, 2, 3}), lengths); });
  is.holds("real keys come first", [&] {
    return !any(mask[{ellipsis, range(1, 5)}] && !mask[{ellipsis, range(0, 4)}]).item<bool>();
  });
  is.holds("padding has no effect on attention", [&] {
    const Tensor q = randn({3, 1, 5, 4}), k = randn({3, 1, 5, 4}), v = randn({3, 1, 5, 4});
    const auto masked = AttentionOptions().mask(mask);
    const Tensor noise = where(mask.reshape({3, 1, 5, 1}), 0.0, 9.0 * ones({3, 1, 5, 1}));
    return near(scaled_dot_product_attention(q, k, v, masked),
                scaled_dot_product_attention(q, k + noise, v + noise, masked)) &&
           near(scaled_dot_product_attention(q, k, v, masked)[1], scaled_dot_product_attention(q, k, v)[1]);
  });
}

void check_window(Properties& is, const Functions& given) {
  const auto mask_of = given.get<Tensor(std::int64_t, std::int64_t)>(0);
  is.holds("it is boolean", [&] { return mask_of(6, 3).dtype() == boolean; });
  is.holds("query i has min(i + 1, w) keys", [&] { return equal(sum(mask_of(6, 3), 1), tensor({1, 2, 3, 3, 3, 3})); });
  is.holds("a window of n is plain causality", [&] { return equal(mask_of(6, 6), tril(ones({6, 6})) != 0); });
  is.holds("a window of 1 is the diagonal", [&] { return equal(mask_of(4, 1), eye(4) != 0); });
  is.holds("nothing of the future", [&] { return !any(triu(mask_of(6, 3).to(int64), 1) != 0).item<bool>(); });
}

void check_entropy(Properties& is, const Functions& given) {
  const auto entropy = given.get<Tensor(const Tensor&)>(0);
  const Tensor p = softmax(randn({4, 6}));
  is.holds("equal weights on n keys have log n", [&] {
    return near(entropy(full({1, 8}, 1.0 / 8)), full({1}, std::log(8.0)));
  });
  is.holds("all on one key has 0, not NaN", [&] { return near(entropy(eye(3)), zeros({3})); });
  is.holds("keys without weight change nothing", [&] {
    return near(entropy(cat({p, zeros({4, 2})}, -1)), entropy(p));
  });
  is.holds("the order of the keys changes nothing", [&] { return near(entropy(flip(p, -1)), entropy(p)); });
  is.holds("two independent choices add their entropies", [&] {
    const Tensor pairs = outer(p[0], p[1]).reshape({1, 36});
    return near(entropy(pairs), entropy(p[{range(0, 1)}]) + entropy(p[{range(1, 2)}]));
  });
}

void check_heads(Properties& is, const Functions& given) {
  const auto split = given.get<Tensor(const Tensor&, std::int64_t)>(0);
  const auto merge = given.get<Tensor(const Tensor&)>(1);
  const Tensor x = randn({2, 5, 12});
  is.holds("split gives [B, H, n, d]", [&] { return split(x, 3).shape() == Shape{2, 3, 5, 4}; });
  for (std::int64_t h = 0; h < 3; ++h)
    is.holds("head " + std::to_string(h) + " has its part of the features", [&] {
      return equal(split(x, 3)[{range(), h}], x[{range(), range(), range(4 * h, 4 * h + 4)}]);
    });
  is.holds("merge undoes split", [&] { return equal(merge(split(x, 3)), x) && equal(merge(split(x, 4)), x); });
  is.holds("split undoes merge", [&] {
    const Tensor y = randn({2, 3, 5, 4});
    return equal(split(merge(y), 3), y);
  });
}

void check_grouped(Properties& is, const Functions& given) {
  const auto repeated = given.get<Tensor(const Tensor&, std::int64_t)>(0);
  const Tensor k = randn({2, 2, 5, 4});
  is.holds("the result is [B, H, n, d]", [&] { return repeated(k, 6).shape() == Shape{2, 6, 5, 4}; });
  for (const std::int64_t head : {0, 1, 4, 5})
    is.holds("of 6 heads, head " + std::to_string(head) + " uses group " + std::to_string(head / 3), [&] {
      return equal(repeated(k, 6)[{range(), head}], k[{range(), head / 3}]);
    });
  is.holds("as many heads as groups: nothing changes", [&] { return equal(repeated(k, 2), k); });
}

void check_sinusoidal(Properties& is, const Functions& given) {
  const auto table = given.get<Tensor(std::int64_t, std::int64_t)>(0);
  const Tensor t = table(9, 6);
  is.holds("the table is [n, d]", [&] { return t.shape() == Shape{9, 6}; });
  is.holds("position 0 is 0, 1, 0, 1, ...", [&] { return near(t[0], tensor({0., 1., 0., 1., 0., 1.})); });
  is.holds("each pair of columns lies on a circle", [&] {
    return near(sum(pow(t.reshape({9, 3, 2}), 2), -1), ones({9, 3}));
  });
  is.holds("the first pair turns by 1 for each position", [&] {
    return near(t[{range(), 0}], sin(arange(0., 9., 1.)));
  });
  is.holds("two positions have a product that depends on their distance alone", [&] {
    const Tensor products = matmul(t, transpose(t));
    return std::abs((products[{1, 4}] - products[{5, 8}]).item()) < small;
  });
  is.holds("later pairs turn more slowly", [&] {
    return t[{1, 0}].item() > 2 * t[{1, 2}].item() && t[{1, 2}].item() > 2 * t[{1, 4}].item() && t[{1, 4}].item() > 0;
  });
}

void check_rope(Properties& is, const Functions& given) {
  const auto rotated = given.get<Tensor(const Tensor&)>(0);
  const Tensor x = randn({7, 8});
  is.holds("position 0 stays as it is", [&] { return near(rotated(x)[0], x[0]); });
  is.holds("lengths stay as they are", [&] { return near(sum(pow(rotated(x), 2), -1), sum(pow(x, 2), -1), 1e-4); });
  is.holds("a query and a key have a product that depends on their distance alone", [&] {
    const Tensor q = repeat(randn({1, 8}), {7, 1}), k = repeat(randn({1, 8}), {7, 1});
    const Tensor products = matmul(rotated(q), transpose(rotated(k)));
    return std::abs((products[{2, 0}] - products[{6, 4}]).item()) < 1e-4 &&
           std::abs((products[{2, 0}] - products[{5, 0}]).item()) > 1e-3;
  });
  is.holds("the first pair is features 0 and d / 2, turned by the position", [&] {
    Tensor unit = zeros({4, 8});
    unit[{range(), 0}] = 1.0;
    const Tensor y = rotated(unit), p = arange(0., 4., 1.);
    return near(y[{range(), 0}], cos(p)) && near(y[{range(), 4}], sin(p));
  });
}

void check_alibi(Properties& is, const Functions& given) {
  const auto bias_of = given.get<Tensor(std::int64_t, std::int64_t)>(0);
  const Tensor b = bias_of(8, 5);
  is.holds("it is [H, n, n]", [&] { return b.shape() == Shape{8, 5, 5}; });
  is.holds("a token has no penalty on itself", [&] { return near(diagonal(b, 0, 1, 2), zeros({8, 5})); });
  is.holds("twice the distance, twice the penalty", [&] { return near(b[{range(), 4, 0}], b[{range(), 4, 2}] * 2.0); });
  is.holds("an earlier key is penalised", [&] { return max(b[{range(), 4, 0}]).item() < 0; });
  is.holds("the first of 8 heads has the slope 1/2, the last 1/256", [&] {
    return std::abs(b[{0, 1, 0}].item() + 0.5) < small && std::abs(b[{7, 1, 0}].item() + 1 / 256.0) < small;
  });
  is.holds("slopes fall by one factor from head to head", [&] {
    return near(b[{range(1, 8), 3, 0}] * 2.0, b[{range(0, 7), 3, 0}]);
  });
}

void check_cache(Properties& is, const Functions& given) {
  const auto step = given.get<Tensor(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&)>(0);
  const Tensor q = randn({2, 6, 4}), k = randn({2, 6, 4}), v = randn({2, 6, 4});
  Tensor keys, values;
  std::vector<Tensor> out;
  for (std::int64_t t = 0; t < 6; ++t) {
    const auto now = [&](const Tensor& x) { return Tensor(x[{range(), range(t, t + 1)}]); };
    out.push_back(step(now(q), now(k), now(v), keys, values));
  }
  is.holds("each step gives [B, 1, d]", [&] { return out[3].shape() == Shape{2, 1, 4}; });
  is.holds("the cache holds all keys and values", [&] { return near(keys, k) && near(values, v); });
  is.holds("steps give what causal attention over all gives",
           [&] { return near(cat(out, 1), scaled_dot_product_attention(q, k, v, AttentionOptions().causal())); });
}

void check_sink(Properties& is, const Functions& given) {
  const auto f = given.get<Tensor(const Tensor&, double)>(0);
  const Tensor x = randn({3, 5});
  is.holds("the weights of a row and of the sink sum to 1", [&] {
    const Tensor with_sink = softmax(cat({x, full({3, 1}, 0.7)}, -1));
    return near(f(x, 0.7), with_sink[{range(), range(0, 5)}]);
  });
  is.holds("a sink of -infinity is plain softmax", [&] { return near(f(x, -INFINITY), softmax(x)); });
  is.holds("a larger sink leaves less", [&] { return all(row_sums(f(x, 3)) < row_sums(f(x, 1))).item<bool>(); });
  is.holds("scores of 1000 give no NaN", [&] { return near(f(x + 1000.0, 1000.7), f(x, 0.7), 1e-4); });
  is.holds("a sink of 1000 takes everything", [&] { return near(f(x, 1000), zeros({3, 5})); });
}

void check_online(Properties& is, const Functions& given) {
  using Blocks = std::vector<Tensor>;
  const auto merged = given.get<Blocks(const Blocks&, const Blocks&)>(0);
  const Tensor scores = randn({3, 9}) * 5.0, v = randn({9, 4});
  const auto block = [&](std::int64_t begin, std::int64_t end, double shift = 0) {
    const Tensor s = scores[{range(), range(begin, end)}] + shift, m = max(s, -1, keepdims), e = exp(s - m);
    return Blocks{m, sum(e, -1, keepdims), matmul(e, v[{range(begin, end)}])};
  };
  const auto result = [](const Blocks& b) { return b[2] / b[1]; };
  const Tensor whole = matmul(softmax(scores), v);
  is.holds("two halves give the whole", [&] { return near(result(merged(block(0, 4), block(4, 9))), whole); });
  is.holds("so do three parts, in either order", [&] {
    const Blocks a = block(0, 2), b = block(2, 5), c = block(5, 9);
    return near(result(merged(merged(a, b), c)), whole) && near(result(merged(a, merged(b, c))), whole);
  });
  is.holds("the maximum is that of both",
           [&] { return near(merged(block(0, 4), block(4, 9))[0], max(scores, -1, keepdims)); });
  is.holds("scores of 1000 give no NaN",
           [&] { return near(result(merged(block(0, 4, 1000), block(4, 9, 1000))), whole, 1e-3); });
}

void check_layer_norm(Properties& is, const Functions& given) {
  const auto adjoint = given.get<Tensor(const Tensor&, const Tensor&, double)>(0);
  const Tensor x = doubles({3, 6}), dy = doubles({3, 6});
  const Tensor dx = adjoint(x, dy, 1e-5), centred = x - mean(x, -1, keepdims);
  is.holds("dx sums to 0: a constant added to x changes nothing",
           [&] { return near(row_sums(dx), zeros({3}, float64)); });
  is.holds("dx is orthogonal to x - mean: a factor of it changes nothing",
           [&] { return near(row_sums(dx * centred), zeros({3}, float64), 1e-3); });
  is.holds("it is linear in dy", [&] { return near(adjoint(x, dy * 3.0, 1e-5), dx * 3.0); });
  is.holds("it is the slope of the function",
           [&] { return near(dx, slope([](const Tensor& t) { return layer_norm(t, {}, {}, 1e-5); }, x, dy)); });
}

void check_rms_norm(Properties& is, const Functions& given) {
  const auto f = given.get<Tensor(const Tensor&, double)>(0);
  const Tensor x = randn({3, 8}) * 4.0, y = f(x, 1e-6);
  is.holds("the mean square is 1", [&] { return near(mean(y * y, -1), ones({3})); });
  is.holds("a factor of x changes nothing", [&] { return near(f(x * 5.0, 1e-6), y); });
  is.holds("the direction stays", [&] { return near(y * sqrt(mean(x * x, -1, keepdims)), x, 1e-4); });
  is.holds("a row of zeros stays zero, without NaN", [&] { return near(f(zeros({2, 4}), 1e-6), zeros({2, 4})); });
}

void check_cross_entropy(Properties& is, const Functions& given) {
  const auto loss = given.get<Tensor(const Tensor&, const Tensor&)>(0);
  const auto gradient = given.get<Tensor(const Tensor&, const Tensor&)>(1);
  const Tensor x = doubles({4, 3}), classes = tensor({2, 0, 1, 1});
  is.holds("equal logits of n classes have the loss log n", [&] {
    return std::abs(loss(zeros({4, 3}), classes).item() - std::log(3.0)) < small;
  });
  is.holds("the loss is positive, and near 0 for a sure and right answer",
           [&] { return loss(x, classes).item() > 0 && loss(one_hot(classes, 3) * 50.0, classes).item() < small; });
  is.holds("a sure and wrong answer costs 1000, not infinity", [&] {
    return std::abs(loss(tensor({{1000., 0.}}), tensor({1})).item() - 1000) < 1e-2;
  });
  is.holds("the gradient of each row sums to 0",
           [&] { return near(row_sums(gradient(x, classes)), zeros({4}, float64)); });
  is.holds("the gradient is the slope of the library's loss", [&] {
    const auto f = [&](const Tensor& t) { return nn::cross_entropy(t, classes); };
    return near(gradient(x, classes).to(float64), slope(f, x, ones({}, float64)));
  });
}

void check_induction(Properties& is, const Functions& given) {
  const auto find = given.get<std::int64_t(const Tensor&, const std::vector<std::string>&)>(0);
  const std::vector<std::string> tokens{"a", "b", "c", "a", "b", "c", "a"};
  const auto n = static_cast<std::int64_t>(tokens.size());
  // Heads that attend to the previous token, to the same token before, to the token behind that one, and to all.
  const auto head = [&](auto key_of) {
    Tensor w = tril(full({n, n}, 0.02));
    for (std::int64_t i = 0; i < n; ++i) w[{i, key_of(i)}] = 0.9;
    return w;
  };
  const Tensor previous = head([](std::int64_t i) { return std::max<std::int64_t>(0, i - 1); });
  const Tensor same = head([](std::int64_t i) { return i < 3 ? i : i - 3; });
  const Tensor induction = head([](std::int64_t i) { return i < 3 ? i : i - 2; });
  const Tensor uniform = tril(ones({n, n})) / arange(1., 8., 1.).reshape({n, 1});
  is.holds("it is found wherever it stands", [&] {
    return find(stack({previous, same, uniform, induction}), tokens) == 3 &&
           find(stack({uniform, induction, same, previous}), tokens) == 1 &&
           find(stack({induction, previous, same, uniform}), tokens) == 0;
  });
  is.holds("a head that attends to the same token is none", [&] {
    return find(stack({same, induction}), tokens) == 1;
  });
  is.holds("a head that attends to the previous token is none", [&] {
    return find(stack({previous, induction}), tokens) == 1;
  });
  is.holds("other names, same head", [&] {
    return find(stack({same, previous, induction}), {"the", "cat", "sat", "the", "cat", "sat", "the"}) == 2;
  });
}

}  // namespace

const std::vector<Exercise>& all() {
  static const std::vector<Exercise> exercises{
      {"softmax",
       "softmax and its gradient",
       {"e^1000 is infinite. Softmax does not change if you add a number to a whole row.",
        "Subtract the maximum of each row first: max(x, -1, keepdims).",
        "dp_i / dx_j is p_i (1 - p_i) for i = j and -p_i p_j else. Sum over i: a product with p, minus p times one "
        "number of the row."},
       check_softmax},
      {"by_hand",
       "simple attention, step by step",
       {"matmul and transpose compute q k^T.",
        "softmax(scores) works on the last axis: each row of a query sums to 1."},
       check_by_hand},
      {"scaled",
       "scaled dot-product attention, also between two sequences",
       {"The stub lacks something: scores grow with the number of features d.", "q.size(-1) is d."},
       check_scaled},
      {"causal",
       "causal attention: no token sees a later one",
       {"A score of -infinity gets the weight 0.", "triu(ones({n, n}), 1) is 1 above the diagonal.",
        "masked_fill(scores, later != 0, -INFINITY) returns new scores."},
       check_causal},
      {"causal_bug",
       "find two bugs in a causal layer",
       {"Print the weights. Do the rows sum to 1? Is the upper triangle 0?",
        "What happens with the result of masked_fill?", "Axis 1 of [B, n, n] is the queries."},
       check_causal_bug},
      {"padding",
       "a mask for padded sequences",
       {"arange(n) are the positions of the keys.", "Compare [1, 1, 1, n] with [B, 1, 1, 1]: they broadcast."},
       check_padding},
      {"window",
       "a causal sliding window",
       {"The stub is causal, but looks back without end.", "arange(n).reshape({n, 1}) - arange(n) is i - j."},
       check_window},
      {"entropy",
       "the entropy of attention weights",
       {"0 log 0 is NaN for a computer.", "Replace the zeros inside the logarithm by 1."},
       check_entropy},
      {"heads",
       "several heads by reshape",
       {"The stub has the right shapes, but mixes tokens: a reshape keeps the order in memory.",
        "Split the last axis first, then swap two axes: transpose(x, 1, 2)."},
       check_heads},
      {"grouped",
       "grouped heads share keys",
       {"With 4 heads and 2 groups, heads 0 and 1 share group 0. The stub gives group 0 to heads 0 and 2.",
        "repeat_interleave repeats each group in a row."},
       check_grouped},
      {"sinusoidal",
       "sinusoidal positions",
       {"The angles are an outer product of positions and rates.",
        "Stack sine and cosine along a new last axis, then reshape: they alternate."},
       check_sinusoidal},
      {"rope",
       "rotary positions",
       {"The angles are those of the exercise sinusoidal, [n, d / 2].",
        "Slice the two halves: x[{range(), range(0, half)}].", "A rotation keeps the length of each pair."},
       check_rope},
      {"alibi",
       "ALiBi: a penalty on distance",
       {"p.reshape({n, 1}) - p is i - j.", "Slopes of shape [H, 1, 1] broadcast over it."},
       check_alibi},
      {"cache",
       "decode with a cache of keys",
       {"The stub forgets the past.",
        "cat({keys, k}, 1) appends along the axis of tokens; keys.defined() is false at first."},
       check_cache},
      {"sink",
       "softmax with a sink",
       {"The stub is right for small numbers.",
        "Subtract the maximum of the row and s: maximum(max(x, -1, keepdims), full({1}, s))."},
       check_sink},
      {"online",
       "merge two halves of a softmax",
       {"The sums of the two blocks have different maxima: they can't be added as they are.",
        "e^(score - m) = e^(score - m_a) e^(m_a - m)."},
       check_online},
      {"layer_norm",
       "the adjoint of LayerNorm",
       {"x changes the mean and the variance, too. The stub takes both as constants.",
        "A constant added to x changes nothing, so dx must sum to 0.",
        "dx = (dy - mean(dy) - y mean(dy y)) / sqrt(var + eps)."},
       check_layer_norm},
      {"rms_norm",
       "RMSNorm",
       {"mean(x * x, -1, keepdims) is [.., 1] and broadcasts.", "rsqrt(x) is 1 / sqrt(x)."},
       check_rms_norm},
      {"cross_entropy",
       "cross entropy and its gradient",
       {"log(softmax(x)) is -infinity if a logit is 1000 below another. Write the logarithm of the fraction as a "
        "difference.",
        "logsumexp(logits, -1) is stable.", "The loss is a mean over N rows: so is its gradient."},
       check_cross_entropy},
      {"induction",
       "find the induction head",
       {"Which key is \"behind an earlier occurrence\"? For query i and each j < i with the same token: key j + 1.",
        "Sum the weights at these pairs for each head; argmax names the head."},
       check_induction},
  };
  return exercises;
}

}  // namespace exercises
