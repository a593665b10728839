#include <cmath>

#include "fit/attention/attention.hpp"
#include "fit/attention/score/score.hpp"
#include "fit/detail/function_ref.hpp"
#include "fit/ops/ops.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/tables/refusals.hpp"
#include "support/tensors.hpp"

// Each operation of an expression: in a mask, by operations, in a function of the scores; and what is no expression.
namespace fit::test::expression_test {
namespace {

constexpr std::int64_t B = 2, H = 3, T = 70;  // two tiles along each axis

struct Row {
  AttentionMask mask;
  Callable<bool(double b, double h, double i, double j)> expected;
};

double number_at(double j) { return (static_cast<int>(j) % 9 - 4) * 0.4; }  // -1.6 … 1.6

std::vector<Row> rows() {
  const Tensor x = (arange(T).to(float64) % 9 - 4) * 0.4, one = tensor(0.5, float64);
  const Tensor gap = where(arange(T) == 3, nan, x), number = arange(T) % 7 - 3, marked = arange(T) % 4 == 1;
  const auto v = number_at;
  const auto with_gap = [](double j) { return j == 3 ? nan : number_at(j); };
  const auto integer = [](double j) { return static_cast<double>(static_cast<int>(j) % 7 - 3); };
  const auto remainder = [](double a, double b) { return a - b * std::floor(a / b); };
#define ROW(mask, expected)                                                                  \
  {                                                                                          \
    AttentionMask([&](At at) {                                                               \
      const Symbol y = x[at.key];                                                            \
      return (void)y, (void)at, (mask);                                                      \
    }),                                                                                      \
        [=]([[maybe_unused]] double b, [[maybe_unused]] double h, [[maybe_unused]] double i, \
            [[maybe_unused]] double j) -> bool { return expected; }                          \
  }
  return {
      // Functions of a captured number.
      ROW(exp(y) > 1.3, std::exp(v(j)) > 1.3),
      ROW(log(y) > -0.3, std::log(v(j)) > -0.3),
      ROW(sqrt(y) <= 1, std::sqrt(v(j)) <= 1),
      ROW(sin(y) < 0.5, std::sin(v(j)) < 0.5),
      ROW(cos(y) < 0.5, std::cos(v(j)) < 0.5),
      ROW(tanh(y) >= -0.5, std::tanh(v(j)) >= -0.5),
      ROW(cosh(y) < 1.5, std::cosh(v(j)) < 1.5),
      ROW(sigmoid(y) >= 0.6, 1 / (1 + std::exp(-v(j))) >= 0.6),
      ROW(softplus(y) < 0.9, std::log1p(std::exp(v(j))) < 0.9),
      ROW(relu(y) == 0, v(j) <= 0),
      ROW(square(y) > 1, v(j) * v(j) > 1),
      ROW(pow(y, 3) > 1, v(j) * v(j) * v(j) > 1),
      ROW(abs(y) < 1, std::abs(v(j)) < 1),
      ROW(floor(y) == -1, std::floor(v(j)) == -1),
      ROW(-y > 0.7, -v(j) > 0.7),
      ROW(y + 0.5 > 1, v(j) + 0.5 > 1),
      ROW(y - 0.5 > 0.4, v(j) - 0.5 > 0.4),
      ROW(y * Symbol(one) > 0.3, v(j) * 0.5 > 0.3),
      ROW(y / 0.7 > 1, v(j) / 0.7 > 1),
      ROW(min(y, 0.3) > 0, std::min(v(j), 0.3) > 0),
      ROW(max(y, 0.3) < 0.5, std::max(v(j), 0.3) < 0.5),
      ROW(where(at.head == 1, y, -y) > 0.3, (h == 1 ? v(j) : -v(j)) > 0.3),
      // NaN is in no relation.
      ROW(gap[at.key] <= 1, with_gap(j) <= 1),
      ROW(gap[at.key] < 1, with_gap(j) < 1),
      ROW(gap[at.key] == gap[at.query], with_gap(j) == with_gap(i)),
      ROW(gap[at.key] != 0, with_gap(j) != 0),
      ROW(min(gap[at.key], 0.5) < 1, !std::isnan(with_gap(j))),
      ROW(max(0.5, gap[at.key]) > 0, !std::isnan(with_gap(j))),
      ROW(!(gap[at.key] < 1), !(with_gap(j) < 1)),
      // Integers: the bounds of a tile may decide.
      ROW(at.key / 3 == 2, std::floor(j / 3) == 2),
      ROW(at.key / -3 < -5, std::floor(j / -3) < -5),
      ROW(at.key / (at.head - 4) == at.query / (at.head - 4), std::floor(j / (h - 4)) == std::floor(i / (h - 4))),
      ROW((at.key + 0.5) / (at.head - 1) > 3, (j + 0.5) / (h - 1) > 3),
      ROW(at.key % 5 == at.query % 5, remainder(j, 5) == remainder(i, 5)),
      ROW(at.key % -4 == -1, remainder(j, -4) == -1),
      ROW(at.key % 100 > 20, j > 20),
      ROW(at.key % (at.head + 2) == 1, remainder(j, h + 2) == 1),
      ROW(at.key % (at.head - 4) == -1, remainder(j, h - 4) == -1),
      ROW(at.key % (at.head - 1) == 0, h != 1 && remainder(j, h - 1) == 0),
      ROW(-at.key > -9, j < 9),
      ROW(-(at.key * at.query) > -40, i * j < 40),
      ROW(2 * at.key < at.query * 3, 2 * j < 3 * i),
      ROW(3 * at.query - at.key > 70, 3 * i - j > 70),
      ROW(at.query - 3 * at.key > -70, i - 3 * j > -70),
      ROW(at.batch * at.key > 30, b * j > 30),
      ROW(at.head * at.key > 30, h * j > 30),
      ROW(at.key * at.row > 300, j * i > 300),
      ROW(square(at.key - at.query) < 90, (j - i) * (j - i) < 90),
      ROW(abs(at.key - at.query) > 12, std::abs(j - i) > 12),
      ROW(sqrt(at.key - 9) > 3, j - 9 > 9),
      ROW(log(at.key - 9) > 1, std::log(j - 9) > 1),
      ROW(log(at.key + 1) < 3, std::log(j + 1) < 3),
      ROW(exp(at.key - 40) > 0.5, j >= 40),
      ROW(relu(at.key - 9) > 3, j > 12),
      ROW(cosh(at.key - 30) < 90, std::abs(j - 30) < 6),
      ROW(min(at.key, 30) != max(at.query, 20), std::min(j, 30.) != std::max(i, 20.)),
      ROW(number[at.key] * number[at.query] > 3, integer(j) * integer(i) > 3),
      ROW(number[at.key] == number[at.query], integer(j) == integer(i)),
      ROW(number[at.query + 0] + number[at.key] - 2 >= 0, integer(i) + integer(j) >= 2),
      // Conditions.
      ROW(marked[at.key] || at.key < at.row, static_cast<int>(j) % 4 == 1 || j < i),
      ROW(!marked[at.key] && at.batch == 0, static_cast<int>(j) % 4 != 1 && b == 0),
      ROW(marked[at.key] == marked[at.query], (static_cast<int>(j) % 4 == 1) == (static_cast<int>(i) % 4 == 1)),
      ROW(marked[at.key] != (at.head < 1), (static_cast<int>(j) % 4 == 1) != (h < 1)),
      ROW(where(at.batch == 0, at.key<9, at.key> 50), b == 0 ? j < 9 : j > 50),
      ROW(where(at.key < 30, 1, 2) == 2, j >= 30),
      ROW(at.key >= 0, true),
      ROW(Symbol(true) && at.key < 66, j < 66),
  };
#undef ROW
}

}  // namespace

TEST_CASE("each operation of an expression is that of numbers, in masks and in functions of the scores") {
  Generator g(1);
  const auto draw = [&] { return randn({B, H, T, 8}, float64, g); };
  const Tensor q = draw(), k = draw(), v = draw();
  const Tensor scores = matmul(q, Transpose::no, k, Transpose::yes) / std::sqrt(8.);
  for (const Row& row : rows()) {
    INFO(row.mask.str());
    Tensor expected = zeros({B, H, T, T}, boolean);
    bool* at = expected.edit<bool>().data();
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t i = 0; i < T; ++i)
          for (std::int64_t j = 0; j < T; ++j)
            *at++ = row.expected(static_cast<double>(b), static_cast<double>(h), static_cast<double>(i),
                                 static_cast<double>(j));
    CHECK(equal(broadcast_to(to_tensor(row.mask, B, H, T, T), expected.shape()), expected));
    const auto attention = [&](const AttentionOptions& o) { return scaled_dot_product_attention(q, k, v, o); };
    CHECK(same_bits(attention(AttentionOptions().attends(row.mask)), attention(AttentionOptions().mask(expected))));
  }
}

TEST_CASE("a score may depend on each condition") {
  Generator g(2);
  const auto draw = [&] { return randn({1, 2, T, 8}, float64, g); };
  const Tensor k = draw(), v = draw(), flags = arange(T) % 3 == 1;
  Tensor q = draw().requires_grad_();
  const Tensor queries = reshape(arange(T), {T, 1}), keys = reshape(arange(T), {1, T});
  using Condition = Callable<Symbol(At)>;
  const std::vector<std::pair<Condition, Tensor>> conditions{
      {[](At at) { return at.key <= at.query; }, keys <= queries},
      {[](At at) { return at.key != at.query; }, ne(keys, queries)},
      {[](At at) { return at.key == 4 || at.query > 60; }, logical_or(keys == 4, queries > 60)},
      {[&](At at) { return !flags[at.key]; }, logical_not(reshape(flags, {1, T}))},
  };
  for (const auto& [condition, expected] : conditions) {
    const auto f = [&c = condition](Score s, At at) { return where(c(at), s, pow(s, 0) - s); };
    const Tensor y = scaled_dot_product_attention(q, k, v, AttentionOptions().score(f));
    const Tensor s = matmul(q, Transpose::no, k, Transpose::yes) / std::sqrt(8.);
    const Tensor by_hand = matmul(softmax(where(expected, s, 1 - s), -1), v);
    INFO(ScoreFunction(f).str());
    CHECK(max_difference(y.detach(), by_hand.detach()) < 1e-12);
    CHECK(max_difference(grad(sum(y * v), q), grad(sum(by_hand * v), q)) < 1e-12);
  }
}

TEST_CASE("a score may depend on places alone") {
  Generator g(3);
  const auto leaf = [&](const Shape& shape) { return randn(shape, float64, g).requires_grad_(); };
  const Tensor q = randn({B, H, T, 8}, float64, g), v = randn({B, H, T, 8}, float64, g);
  const Tensor of_head = leaf({H}), of_key = leaf({T}), of_query = leaf({T}), of_distance = leaf({2 * T}),
               one = leaf({});
  const Tensor keys = reshape(arange(T), {1, T}), queries = reshape(arange(T), {T, 1});
  struct Case {
    Callable<Symbol(Score, At)> score;
    Tensor table, by_hand;  // the scores
  };
  const std::vector<Case> cases{
      {[&](Score, At at) { return of_head[at.head]; }, of_head, reshape(of_head, {H, 1, 1})},
      {[&](Score, At at) { return of_key[at.key]; }, of_key, reshape(of_key, {1, T})},
      {[&](Score, At at) { return of_query[at.query]; }, of_query, reshape(of_query, {T, 1})},
      {[&](Score, At at) { return of_distance[at.key - at.query + T]; }, of_distance,
       take(of_distance, keys - queries + T)},
      {[&](Score, At at) { return of_key[at.key] / 1.7e308; }, of_key, reshape(of_key, {1, T}) / 1.7e308},
      {[&](Score, At at) { return of_key[at.key] / (at.head + 2 * at.batch + 1); }, of_key,
       reshape(of_key, {1, T}) / (reshape(arange(H), {H, 1, 1}) + reshape(2 * arange(B), {B, 1, 1, 1}) + 1)},
      {[&](Score, At) { return Symbol(one); }, one, one},
  };
  for (const Case& c : cases) {
    const Tensor y = scaled_dot_product_attention(q, q, v, AttentionOptions().causal().score(c.score));
    const Tensor scores = broadcast_to(c.by_hand, {B, H, T, T});
    const Tensor by_hand = matmul(softmax(masked_fill(scores, keys > queries, -INFINITY), -1), v);
    INFO(ScoreFunction(c.score).str());
    CHECK(max_difference(y.detach(), by_hand.detach()) < 1e-12);
    CHECK(max_difference(grad(sum(y * v), c.table), grad(sum(by_hand * v), c.table)) < 1e-10);
  }
}

TEST_CASE("what is no expression is refused", "[refusals]") {
  const auto mask = [](const Callable<Symbol(At)>& f) { return [f] { return AttentionMask(f), void(); }; };
  const Tensor table = zeros({T, T}), integers = arange(T);
  const Tensor x = zeros({1, 1, T, 8});
  const auto attends = [=](const Callable<Symbol(At)>& f) {
    return [=] { return scaled_dot_product_attention(x, x, x, AttentionOptions().attends(f)); };
  };
  check_refused({
      {"[attends] key is an integer: a mask is a condition", mask([](At at) { return at.key; })},
      {"[attends] 0.5 is a number: a mask is a condition", mask([](At) { return 0.5; })},
      {"in key && key < 3, key is an integer: a condition is needed", mask([](At at) { return at.key && at.key < 3; })},
      {"in !key, key is an integer", mask([](At at) { return !at.key; })},
      {"in where(key, 1, 2), key is an integer", mask([](At at) { return where(at.key, 1, 2) < 2; })},
      {"key < 3 is a condition: a number is needed", mask([](At at) { return (at.key < 3) == at.key; })},
      {"key < 3 is a condition: a number is needed", mask([](At at) { return at.key == (at.key < 3); })},
      {"key < 3 is a condition: a number is needed", mask([](At at) { return where(at.key < 1, at.key < 3, 2) == 2; })},
      {"0.5 is a number: % is for integers", mask([](At at) { return at.key % 0.5 == 0; })},
      {"0.5 is a number: % is for integers", mask([](At at) { return 0.5 % at.key == 0; })},
      {"the integer 9007199254740993 is too large", mask([](At at) { return at.key < (std::int64_t{1} << 53) + 1; })},
      {"the integer -9007199254740993 is too large", mask([](At at) { return at.key < -(std::int64_t{1} << 53) - 1; })},
      {"a captured tensor of shape [70, 70] stands for a number", mask([=](At) { return Symbol(table) > 0; })},
      {"key is no table: it has no index head", mask([](At at) { return at.key[at.head] > 0; })},
      {"has an index for each axis: head is one too many",
       mask([=](At at) { return table[at.key][at.key][at.head] > 0; })},
      {"has 1 of 2 indices", mask([=](At at) { return table[at.key] > 0; })},
      {"may reach 79 by its bounds: it must be in 0 … 69", attends([=](At at) { return integers[at.key + 10] > 0; })},
      {"may reach 169 by its bounds: it must be in 0 … 69", attends([=](At at) { return integers[at.key + 100] > 0; })},
      {"an integer reaches 69000000: integers must be within 2^24 for float32 to be exact",
       [=] {
         const auto far = [](Score s, At at) { return s + at.key * 1000000; };
         return scaled_dot_product_attention(x, x, x, AttentionOptions().score(far));
       }},
      {"reaches 6.9e+16: integers must be within 2^52 to be exact",
       [=] {
         const auto o =
             AttentionOptions().attends([](At at) { return at.key * (std::int64_t{1'000'000'000} * 1'000'000) > 3; });
         const Tensor wide = x.to(float64);
         return scaled_dot_product_attention(wide, wide, wide, o);
       }},
      {"score captures 17 tensors: at most 16 are possible",
       [=] {
         std::vector<Tensor> many;
         for (int i = 0; i < 17; ++i) many.push_back(tensor(1. * i));
         return scaled_dot_product_attention(x, x, x, AttentionOptions().score([&](Score s, At) {
           for (const Tensor& t : many) s = s + Symbol(t);
           return s;
         }));
       }},
  });
}

TEST_CASE("an undefined mask allows all pairs") {
  const AttentionMask none, causal = causal_mask();
  CHECK(none.str() == "nothing");
  CHECK((none & causal).str() == causal.str());
  CHECK((causal & none).str() == causal.str());
  CHECK_FALSE((none | causal).defined());
  CHECK_FALSE((causal | none).defined());
  CHECK_FALSE(any(to_tensor(~none, 1, 1, 2, 2)).item<bool>());
  // No keys, or no queries.
  const auto o = AttentionOptions().attends(causal);
  const Tensor x = ones({1, 2, 3, 4}), empty = ones({1, 2, 0, 4});
  CHECK(same_bits(scaled_dot_product_attention(x, empty, empty, o), zeros({1, 2, 3, 4})));
  CHECK(scaled_dot_product_attention(empty, x, x, o).shape() == Shape{1, 2, 0, 4});
  CHECK(to_tensor(causal, 1, 1, 0, 3).shape() == Shape{1, 1, 0, 3});
}

}  // namespace fit::test::expression_test
