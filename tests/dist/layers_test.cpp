#include <algorithm>
#include <set>
#include <sstream>

#include "dist/training.hpp"
#include "fit/nn/layers/norm.hpp"
#include "nn/layers/layer_table.hpp"

// Every layer on several ranks computes what it computes in one process.
namespace fit::test {
namespace layers_test {
namespace {

using Family = std::vector<LayerRow> (*)();
std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

struct Outcome {
  Tensor y;  // of this rank's rows
  StateDict gradients, state;
};

// Two steps of backward() in training. `rows` of the batch are this rank's.
Outcome outcome(const LayerRow& row, dist::World& world) {
  manual_seed(3);
  const std::shared_ptr<nn::Layer> layer = row.make();
  layer->train();
  dist::DataParallel parallel(*layer, {}, world);
  const std::vector<Tensor> inputs = row.inputs();
  const std::int64_t batch = inputs[0].size(0);
  Outcome all;
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> own;
    for (const Tensor& x : inputs)
      own.push_back(x.defined() && x.rank() > 0 && x.size(0) == batch ? parallel.rows(x) : x);
    layer->zero_grad();
    const Tensor y = row.call(*layer, own);
    Generator g(9);
    const Tensor factors = randn(y.shape().with(0, batch), float32, g).to(y.dtype());
    const dist::Rows rows = dist::Rows(batch, world.rank(), world.size()).or_last();
    const Tensor loss = sum(y * slice(factors, 0, rows.first, rows.first + rows.count));
    if (loss.requires_grad())
      parallel.backward(nn::sum_of(loss));
    else
      (void)parallel.discard_parts();
    all.y = y.detach();
  }
  for (const auto& [name, p] : layer->named_parameters())
    if (p.has_grad()) all.gradients.emplace_back(name, p.grad().clone());
  for (const auto& [name, x] : layer->state_dict())
    if (x.defined() && is_floating(x.dtype())) all.state.emplace_back(name, x.clone());
  return all;
}

double off(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return 0;
  return max(abs(a.to(float64) - b.to(float64))).item() / (1 + max(abs(b.to(float64))).item());
}

double off(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].first == b[i].first);
    most = std::max(most, off(a[i].second, b[i].second));
  }
  return most;
}

}  // namespace

TEST_CASE("every layer: several ranks compute what one process does", "[dist]") {
  dist::World one;
  dist::World& w = dist::world();
  std::size_t seen = 0;
  // Their first axis is not a batch, or is not treated as one: docs/distributed.md.
  const std::set<std::string> without_batch{"BareSingleHeadAttention(d_in=4, d_out=3)", "LowRank(rank=2, alpha=1.5)",
                                            "Softmax(axis=0)"};
  for (const Family family : families())
    for (const LayerRow& row : family()) {
      const std::shared_ptr<nn::Layer> layer = row.make();
      INFO(*layer);
      std::ostringstream text;
      text << *layer;
      if (without_batch.count(text.str()) > 0) continue;
      const std::vector<Tensor> inputs = row.inputs();
      const Outcome whole = outcome(row, one), part = outcome(row, w);
      const dist::Rows rows = dist::Rows(inputs[0].size(0), w.rank(), w.size()).or_last();
      CHECK(off(part.y, slice(whole.y, 0, rows.first, rows.first + rows.count)) < 1e-5);
      CHECK(off(part.gradients, whole.gradients) < 1e-5);
      CHECK(off(part.state, whole.state) < 1e-5);
      ++seen;
    }
  CHECK(seen > 50);
}

TEST_CASE("BatchNorm on ranks has the statistics of all rows", "[dist]") {
  dist::World one;
  dist::World& w = dist::world();
  const auto trained = [](dist::World& world, std::int64_t batch, bool again) {
    manual_seed(4);
    nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm(4), nn::GELU(), nn::Linear(4, 2));
    model.to(float64);
    dist::DataParallel parallel(model, {}, world);
    optim::SGD optimizer(model.named_parameters(), 0.1, 0.9);
    Generator data(7);
    for (int step = 0; step < 6; ++step) {
      const Tensor x = randn({batch, 3}, float64, data), y = randn({batch, 2}, float64, data);
      const Tensor own = parallel.rows(x), target = parallel.rows(y);
      optimizer.zero_grad();
      const Tensor out = again ? checkpoint([&](const Tensor& z) { return model(z); }, own) : model(own);
      parallel.backward(nn::mse_loss(out, target));
      optimizer.step();
    }
    std::vector<double> all = numbers_of(model);
    for (const auto& [name, x] : model.named_buffers())
      for (const double v : x.to_vector<double>()) all.push_back(v);
    return all;
  };
  // Also one row a rank, and ranks without rows.
  for (const std::int64_t batch : {12, 7, w.size() == 1 ? 2 : w.size(), 2, 3})
    for (const bool again : {false, true}) {
      CAPTURE(batch, again);
      const std::vector<double> together = trained(w, batch, again);
      CHECK(distance(together, trained(one, batch, again)) < 1e-12);
      CHECK(same_on_all_ranks(together));
    }
  if (w.size() > 1)
    CHECK_THROWS_WITH(trained(w, 1, false), Catch::Matchers::Contains("[BatchNorm] the batch of all ranks has 1 "
                                                                      "numbers for each channel"));
  // Without a DataParallel, and in evaluation, it is as in one process.
  nn::BatchNorm alone(2);
  const Tensor x = tensor({{1., 2.}, {3., 6.}}) + static_cast<double>(w.rank());
  alone(x);
  CHECK(alone.running_mean.equal(0.1 * mean(x, 0)));
}

TEST_CASE("BatchNorm of images, in float32 and bfloat16, on ranks", "[dist]") {
  dist::World one;
  const auto outputs = [](dist::World& world, DType dtype) {
    manual_seed(4);
    nn::BatchNorm norm(3);
    dist::DataParallel parallel(norm, {}, world);
    const Tensor x = randn({4, 3, 2, 5}).to(dtype).requires_grad_();
    Tensor own = parallel.rows(x.detach()).clone().requires_grad_();
    const Tensor y = norm(own);
    CHECK(y.dtype() == float32);
    Generator g(9);
    const Tensor factors = randn(x.shape(), float32, g);
    const dist::Rows rows(4, world.rank(), world.size());
    parallel.backward(nn::sum_of(sum(y * slice(factors, 0, rows.first, rows.first + rows.count))));
    return std::vector<Tensor>{y.detach(), own.grad(), norm.weight.grad(), norm.running_var.clone()};
  };
  const dist::Rows rows(4, dist::world().rank(), dist::world().size());
  for (const DType dtype : {float32, bfloat16}) {
    const std::vector<Tensor> whole = outputs(one, dtype), part = outputs(dist::world(), dtype);
    const double tolerance = dtype == float32 ? 1e-5 : 1e-2;  // the gradient is bfloat16
    CHECK(off(part[0], slice(whole[0], 0, rows.first, rows.first + rows.count)) < 1e-5);
    CHECK(off(part[1], slice(whole[1], 0, rows.first, rows.first + rows.count)) < tolerance);
    CHECK(off(part[2], whole[2]) < 1e-5);
    CHECK(off(part[3], whole[3]) < (dtype == float32 ? 1e-5 : 1e-3));  // one process rounds a bfloat16 batch's variance
  }
}

}  // namespace layers_test

RegisterLayers::RegisterLayers(layers_test::Family family) { layers_test::families().push_back(family); }

}  // namespace fit::test
