#include "attention/masked_matmul.hpp"

#include "fit/backward/gradcheck.hpp"
#include "support/catch.hpp"
#include "support/rounding.hpp"
#include "support/tensors.hpp"

// The products of attention over the pairs that attend: masked_matmul.hpp.
namespace fit::test::masked_matmul_test {
namespace {

using detail::masked_pv;
using detail::masked_qk;

// Element (i, j) of the one head of x.
template <class T>
T at(const Tensor& x, std::int64_t i, std::int64_t j) {
  return x.data<T>()[i * x.size(3) + j];
}

// result(i, j) is within rounding of the sum of the terms where `reads` says so.
template <class T, class Reads, class Terms>
void check_sums(const char* name, const Tensor& result, const Reads& reads, const Terms& terms) {
  Worst worst;
  for (std::int64_t i = 0; i < result.size(2); ++i)
    for (std::int64_t j = 0; j < result.size(3); ++j)
      if (reads(i, j)) worst.add(i * result.size(3) + j, at<T>(result, i, j), sum(terms(i, j)));
  INFO(name << ", " << sizeof(T) << " bytes, " << worst);
  CHECK(worst.within_bounds());
}

template <class T>
void check_visible(std::int64_t queries, std::int64_t keys, std::int64_t features, bool shared) {
  INFO(queries << " queries, " << keys << " keys, " << features << " features, one row of visible keys " << shared);
  using Terms = std::vector<Rounded<T>>;
  const DType dtype = dtype_of<T>();
  std::mt19937_64 random(static_cast<std::uint64_t>(queries * keys));
  std::vector<bool> seen(static_cast<std::size_t>(shared ? keys : queries * keys));
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = random() % 3 != 0;
  const Tensor attends = tensor(seen, {1, 1, shared ? 1 : queries, keys});
  const auto visible = [&](std::int64_t q, std::int64_t k) -> bool {
    return seen[static_cast<std::size_t>(shared ? k : q * keys + k)];
  };
  const auto all = [](std::int64_t, std::int64_t) { return true; };
  const Tensor x = random_tensor({1, 1, queries, features}, domain::real, random, dtype);
  Tensor y = random_tensor({1, 1, keys, features}, domain::real, random, dtype);
  // Numbers of pairs that do not attend are never multiplied.
  for (std::int64_t k = 0; k < keys; ++k) {
    bool hidden = true;
    for (std::int64_t q = 0; q < queries; ++q) hidden = hidden && !visible(q, k);
    if (hidden) y[{0, 0, k}] = nan;
  }
  check_sums<T>("masked_qk", masked_qk(x, y, attends), visible, [&](std::int64_t q, std::int64_t k) {
    Terms terms;
    for (std::int64_t d = 0; d < features; ++d)
      terms.push_back(Rounded<T>(at<T>(x, q, d)) * Rounded<T>(at<T>(y, k, d)));
    return terms;
  });
  // A plain product of zeros, and pairs one by one if a masked weight is NaN.
  const Tensor weights = random_tensor({1, 1, queries, keys}, domain::nonzero, random, dtype);
  for (const double masked : {0.0, nan}) {
    const Tensor s = where(attends, weights, masked);
    check_sums<T>("masked_pv", masked_pv(s, Transpose::no, y, attends), all, [&](std::int64_t q, std::int64_t d) {
      Terms terms;
      for (std::int64_t k = 0; k < keys; ++k)
        if (visible(q, k)) terms.push_back(Rounded<T>(at<T>(s, q, k)) * Rounded<T>(at<T>(y, k, d)));
      return terms;
    });
    check_sums<T>("masked_pv, transposed", masked_pv(s, Transpose::yes, x, attends), all,
                  [&](std::int64_t k, std::int64_t d) {
                    Terms terms;
                    for (std::int64_t q = 0; q < queries; ++q)
                      if (visible(q, k)) terms.push_back(Rounded<T>(at<T>(s, q, k)) * Rounded<T>(at<T>(x, q, d)));
                    return terms;
                  });
  }
  // A number that is not finite shows where it is seen, and nowhere else. The largest numbers are finite.
  const Tensor s = where(attends, weights, 0);
  const auto one = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(queries)),
             feature = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(features));
  constexpr double max = std::numeric_limits<T>::max();
  for (const double bad : {nan, inf, -inf, max, -max}) {
    Tensor changed = x.clone();
    changed[{0, 0, one, feature}] = bad;
    const Tensor c = masked_pv(s * 0.25, Transpose::yes, changed, attends);
    bool right = true;
    for (std::int64_t k = 0; k < keys; ++k)
      for (std::int64_t d = 0; d < features; ++d) {
        const bool shows = std::abs(bad) != max && d == feature && visible(one, k);
        right = right && std::isfinite(at<T>(c, k, d)) != shows;
      }
    INFO(bad << " in query " << one << ", feature " << feature);
    CHECK(right);
  }
}

// One head of 3 queries and 4 keys. Query 1 sees no key, and no query sees key 1.
const std::vector<bool> some_seen{true, false, true, true, false, false, false, false, true, false, false, true};

}  // namespace

TEST_CASE("products over visible pairs are within the rounding of plain sums", "[attention]") {
  for (const std::int64_t queries : {1, 3, 7, 33})
    for (const std::int64_t keys : {1, 3, 7, 33})
      for (const std::int64_t features : {1, 3, 7, 33, 257})
        for (const bool shared : {false, true}) {
          check_visible<float>(queries, keys, features, shared);
          check_visible<double>(queries, keys, features, shared);
        }
}

TEST_CASE("pair by pair, the products over visible pairs are matrix products", "[attention]") {
  std::mt19937_64 random(3);
  const Tensor attends = tensor(some_seen, {1, 1, 3, 4}), visible = attends.to(float64);
  const Tensor x = random_tensor({2, 2, 3, 5}, domain::real, random),
               y = random_tensor({2, 2, 4, 5}, domain::real, random);
  const Tensor s = random_tensor({2, 2, 3, 4}, domain::real, random) * visible;
  Tensor bad_x = x.clone(), bad_y = y.clone();
  bad_x[{range(), range(), 1}] = nan, bad_y[{range(), range(), 1}] = inf;
  for (const auto& [q, k] : {std::pair(x, y), std::pair(bad_x, bad_y)}) {
    CHECK(max_difference(where(attends, masked_qk(q, k, attends), 0),
                         matmul(x, Transpose::no, y, Transpose::yes) * visible) < 1e-14);
    CHECK(max_difference(masked_pv(s, Transpose::no, k, attends), matmul(s, y)) < 1e-14);
    CHECK(max_difference(masked_pv(s, Transpose::yes, q, attends), matmul(s, Transpose::yes, x, Transpose::no)) <
          1e-14);
  }
}

TEST_CASE("first and second gradients of the products over visible pairs leave masked pairs out", "[attention]") {
  std::mt19937_64 random(4);
  const Tensor attends = tensor(some_seen, {1, 1, 3, 4}), masked = logical_not(attends);
  const Tensor x = random_tensor({2, 2, 3, 5}, domain::real, random),
               y = random_tensor({2, 2, 4, 5}, domain::real, random);
  const Tensor s = random_tensor({2, 2, 3, 4}, domain::real, random);
  // As in attention: masked scores and weights are replaced.
  const auto chain = [&](const Tensor& x, const Tensor& s, const Tensor& y, Transpose t) {
    const Tensor scores = masked_fill(masked_qk(x, y, attends), masked, 0) + masked_fill(s, masked, 0);
    return masked_pv(tanh(scores), t, t == Transpose::yes ? x : y, attends);
  };
  for (const Transpose t : {Transpose::no, Transpose::yes}) {
    const auto f = [&](const std::vector<Tensor>& in) { return sum(square(chain(in[0], in[1], in[2], t))); };
    CHECK(check_gradients(f, {x, s, y}, GradCheckOptions().order(2)).ok);
    // The same numbers with a NaN that nobody sees, to the second gradient.
    const auto gradients = [&](double hidden) {
      Tensor a = x.clone(), b = y.clone(), c = s.clone();
      if (std::isnan(hidden)) a[{range(), range(), 1}] = hidden, b[{range(), range(), 1}] = hidden;
      c = where(attends, c, hidden);
      for (Tensor* z : {&a, &b, &c}) z->requires_grad_();
      std::vector<Tensor> all = grad(sum(square(chain(a, c, b, t))), {a, c, b}, create_graph);
      Tensor norm = full({}, 0, float64);
      for (const Tensor& d : all) norm = norm + sum(square(d));
      for (const Tensor& d : grad(norm, {a, c, b})) all.push_back(d);
      return all;
    };
    const std::vector<Tensor> clean = gradients(0), dirty = gradients(nan);
    for (std::size_t i = 0; i < clean.size(); ++i) CHECK(max_difference(dirty[i], clean[i]) < 1e-12);
  }
}

}  // namespace fit::test::masked_matmul_test
