#include "ops/linalg/batch_rows.hpp"

#include "fit/attention/attention.hpp"
#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Dropout in a part of a batch drops what it does in the whole.
namespace fit::test::batch_rows_test {
namespace {

struct Part {
  Part(std::int64_t first, std::int64_t count) { batch_rows = {first, count}; }
  ~Part() { batch_rows = {}; }
};

// f(x, generator) of rows `first` … of x [7, …] under a Part, and the gradients.
template <class F>
void check_parts(const Tensor& whole, const F& f) {
  const auto run = [&](const Tensor& rows) {
    const Tensor x = rows.clone().requires_grad_();
    Generator g(9);
    g.next();
    const Tensor y = f(x, g);
    const std::vector<Tensor> d = grad(sum(y * y), {x}, create_graph);
    return std::vector<Tensor>{y.detach(), d[0].detach(), grad(sum(d[0] * d[0]), x).detach()};
  };
  const std::vector<Tensor> all = run(whole);
  for (const auto& [first, count] : {std::pair(0, 7), {0, 3}, {3, 2}, {5, 2}, {6, 1}}) {
    const Part part(first, count);
    const std::vector<Tensor> some = run(slice(whole, 0, first, first + count));
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Tensor rows = slice(all[i], 0, first, first + count);
      CHECK(same_bits(some[i], rows));
      CHECK(max(abs(rows)).item() > 0);
    }
  }
}

}  // namespace

TEST_CASE("dropout counts the elements of the whole batch", "[batch_rows]") {
  Generator g(1);
  const auto drop = [](const Tensor& x, Generator& by) { return dropout(x, 0.4, by); };
  for (const std::int64_t width : {1, 5, 64, 3000})  // parts begin anywhere in the generator's groups of 64
    for (const DType dtype : {float32, float64}) check_parts(randn({7, width}, dtype, g), drop);
  const auto flat = [](const Tensor& x, Generator& by) {  // several rows of x for each of the batch
    return dropout(x.reshape({x.size(0) * 4, 10}), 0.4, by).reshape(x.shape());
  };
  check_parts(randn({7, 40}, float64, g), flat);
}

TEST_CASE("dropout of attention weights does so, too", "[batch_rows]") {
  Generator g(1);
  const auto attend = [](const Tensor& x, Generator& by) {
    return packed_self_attention(x, 2, AttentionOptions().dropout(0.3).generator(&by).causal());
  };
  for (const std::int64_t keys : {3, 8, 70}) check_parts(randn({7, keys, 24}, float64, g), attend);
}

TEST_CASE("what isn't divided is dropped as ever", "[batch_rows]") {
  const Tensor x = ones({5, 3});
  Generator one(4), other(4);
  const Tensor whole = dropout(x, 0.5, one);
  const Part part(2, 2);
  CHECK(same_bits(dropout(x, 0.5, other), whole));
}

}  // namespace fit::test::batch_rows_test
