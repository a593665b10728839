// The loss and the gradient of a batch do not depend on how it is divided.
#include <cmath>
#include <optional>

#include "fit/graph/graph.hpp"
#include "fit/nn/layers/containers.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/training/data_parallel.hpp"
#include "nn/models/trained.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/padded_sequences.hpp"
#include "support/tables/loss_functions.hpp"
#include "support/tensors.hpp"

namespace fit::test::loss_parts_test {
namespace {

using Catch::Matchers::Contains;
using nn::Reduction;

const std::vector<std::int64_t> ids{3, -1, 0, 4, -1, -1, 2, 2};

Tensor model_weight(const nn::Linear& model) { return model.weight.detach().clone(); }

struct Joined {
  double loss = 0;
  Tensor weight, bias;  // gradients
};

nn::Linear small() {
  manual_seed(2);
  nn::Linear model(4, 5);
  model.to(float64);
  return model;
}

using Loss = Callable<Tensor(const nn::Linear&, const LossRows&)>;

// All parts, joined by DataParallel in one process.
Joined joined(const std::vector<LossRows>& parts, const Loss& loss) {
  nn::Linear model = small();
  dist::DataParallel parallel(model);
  Joined result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::optional<dist::DataParallel::NoSync> quiet;
    if (i + 1 < parts.size()) quiet.emplace(parallel);
    result.loss = parallel.backward(loss(model, parts[i]));
  }
  result.weight = model.weight.grad(), result.bias = model.bias.grad();
  return result;
}

void check_same(const Joined& a, const Joined& b, double tolerance = 1e-13) {
  CHECK(a.loss == Approx(b.loss).epsilon(tolerance).margin(tolerance));
  CHECK(max_difference(a.weight, b.weight) < tolerance);
  CHECK(max_difference(a.bias, b.bias) < tolerance);
}

}  // namespace

TEST_CASE("every loss function says of what its result is a mean", "[loss]") {
  const LossRows rows = loss_rows(ids);
  const Tensor y = small()(rows.x);
  for (const LossFunction& f : loss_functions())
    for (const bool recorded : {true, false}) {
      INFO(f.name);
      std::optional<NoGrad> no_grad;
      if (!recorded) no_grad.emplace();
      const Tensor mean = f.loss(y, rows, Reduction::mean), sum = f.loss(y, rows, Reduction::sum),
                   none = f.loss(y, rows, Reduction::none);
      const double count = f.count(rows);
      CHECK(nn::loss_count(mean) == Approx(count).epsilon(1e-12));
      CHECK(sum.item() == Approx(mean.item() * count).epsilon(1e-12));
      CHECK_THROWS_WITH(nn::loss_count(sum), Contains("[loss_count] the loss has a sum among its terms"));
      CHECK_THROWS_WITH(nn::loss_count(fit::sum(none)), Contains("does not say what it is a mean of"));
      for (const Tensor& same : {mean / 2, 0.1 * mean, -mean, mean + fit::sum(y * y), mean.to(float32),
                                 mean.reshape({1, 1}), mean.detach(), mean.clone(), sqrt(mean * mean),
                                 fit::sum(stack({mean, mean})), fit::mean(cat({mean.reshape({1}), mean.reshape({1})}))})
        CHECK(nn::loss_count(same) == Approx(count).epsilon(1e-12));
      Tensor total = zeros({}, float64);
      total += mean;
      CHECK(nn::loss_count(total) == Approx(count).epsilon(1e-12));
      CHECK_THROWS(nn::loss_count(mean * y));  // no longer one number
    }
  CHECK(nn::loss_count(nn::mean_over(sum(y), 12.5)) == 12.5);
  CHECK(nn::mean_over(sum(y), 3).item() == sum(y).item());
  CHECK(grad(nn::mean_over(sum(y), 3), y).equal(ones_like(y)));
  CHECK_THROWS(nn::loss_count(nn::sum_of(nn::mse_loss(y, y))));
  CHECK_THROWS_WITH(nn::mean_over(sum(y), -1), Contains("[mean_over] count is -1"));
  CHECK_THROWS_WITH(nn::mean_over(y, 1), Contains("it must be one number"));
}

TEST_CASE("one list of rows, divided in every way, gives one gradient and one loss", "[loss]") {
  const LossRows all = loss_rows(ids);
  for (const LossFunction& f : loss_functions())
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      INFO(f.name << (reduction == Reduction::sum ? ", sum" : ", mean"));
      const Loss loss = [&](const nn::Linear& m, const LossRows& rows) { return f.loss(m(rows.x), rows, reduction); };
      const Joined whole = joined({all}, loss);
      {  // one part is plain backward()
        const nn::Linear model = small();
        const Tensor plain = loss(model, all);
        plain.backward();
        CHECK(whole.loss == plain.item());
        CHECK(same_bits(whole.weight, model.weight.grad()));
      }
      for (const std::vector<std::int64_t>& sizes : compositions(all.size()))
        check_same(joined(divided(all, sizes), loss), whole);
      // With empty parts, at the start, between and at the end.
      check_same(joined(divided(all, {0, 3, 0, 0, 5, 0}), loss), whole);
    }
}

TEST_CASE("losses of own formulas are joined by what is said of them, or by rows", "[loss]") {
  const LossRows all = loss_rows(ids);
  const Loss own = [](const nn::Linear& m, const LossRows& r) {
    const Tensor valid = unsqueeze((r.ids >= 0).to(float64), 1);
    const double n = std::max(1., sum(valid).item());
    return nn::mean_over(sum(square(m(r.x)) * valid) / n, sum(valid).item());
  };
  const Loss summed = [](const nn::Linear& m, const LossRows& r) { return nn::sum_of(sum(square(m(r.x)))); };
  const Joined mean_of_all = joined({all}, own), sum_of_all = joined({all}, summed);
  for (const std::vector<std::int64_t>& sizes : compositions(all.size())) {
    check_same(joined(divided(all, sizes), own), mean_of_all);
    check_same(joined(divided(all, sizes), summed), sum_of_all);
  }
  // Two terms whose counts are in one ratio, as of a variational autoencoder; and a penalty.
  const Loss two = [](const nn::Linear& m, const LossRows& r) {
    const Tensor y = m(r.x);
    return nn::mse_loss(y, r.numbers) + 0.5 * nn::cross_entropy(y, r.fractions) + 0.1 * sum(square(m.weight));
  };
  const Joined both = joined({all}, two);
  for (const std::vector<std::int64_t>& sizes : compositions(all.size()))
    check_same(joined(divided(all, sizes), two), both);
}

TEST_CASE("losses that no weight can join are refused before a parameter changes, and only then", "[loss]") {
  const LossRows all = loss_rows(ids);
  const auto targets = nn::CrossEntropyOptions().ignore_index(-1);
  const Loss uneven = [&](const nn::Linear& m, const LossRows& r) {
    return nn::cross_entropy(m(r.x), r.ids, targets) + nn::mse_loss(m(r.x), r.numbers);
  };
  const Loss sum_and_mean = [&](const nn::Linear& m, const LossRows& r) {
    return nn::cross_entropy(m(r.x), r.ids, targets) + nn::mse_loss(m(r.x), r.numbers, Reduction::sum);
  };
  CHECK_NOTHROW(joined({all}, uneven));
  CHECK_NOTHROW(joined({all}, sum_and_mean));
  CHECK_THROWS_WITH(
      joined(divided(all, {1, 7}), uneven),
      Contains("[DataParallel] the losses of two parts of a batch can't be joined by one weight: one is a "
               "mean over 1 and one over 5 items, the other is a mean over 4 and one over 35 items") &&
          Contains("Trainer::weight()") && Contains("nn::mean_over()"));
  CHECK_THROWS_WITH(joined(divided(all, {1, 7}), sum_and_mean), Contains("one is a sum and a mean over 1 items"));
  const Loss stated = [&](const nn::Linear& m, const LossRows& r) {
    return nn::mean_over(uneven(m, r), static_cast<double>(r.size()));
  };
  CHECK_NOTHROW(joined(divided(all, {1, 7}), stated));
  int part = 0;
  const Loss differing = [&](const nn::Linear& m, const LossRows& r) {
    return nn::mse_loss(m(r.x), r.numbers, ++part == 1 ? Reduction::mean : Reduction::sum);
  };
  CHECK_THROWS_WITH(joined(divided(all, {1, 7}), differing), Contains("the other is a sum"));
  const Loss five = [&](const nn::Linear& m, const LossRows& r) {
    Tensor total = nn::mse_loss(m(r.x), r.numbers);
    for (int i = 1; i < 5; ++i) total = total + nn::mean_over(sum(m(r.x)), i);
    return total;
  };
  CHECK_NOTHROW(joined({all}, five));
  CHECK_THROWS_WITH(joined(divided(all, {1, 7}), five), Contains("more than four different counts"));
}

TEST_CASE("where nothing counts, the loss is 0 and nothing is trained", "[loss]") {
  const LossRows none = loss_rows(std::vector<std::int64_t>(6, -1));
  const Loss loss = [](const nn::Linear& m, const LossRows& r) {
    return nn::cross_entropy(m(r.x), r.ids, nn::CrossEntropyOptions().ignore_index(-1));
  };
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{6}, {2, 4}, {1, 0, 5}}) {
    const Joined result = joined(divided(none, sizes), loss);
    CHECK(result.loss == 0);
    CHECK(equal(result.weight, zeros_like(result.weight)));
  }
}

TEST_CASE("an explicit weight counts instead of what the loss says", "[loss]") {
  const LossRows all = loss_rows(ids);
  nn::Linear model = small();
  dist::DataParallel parallel(model);
  const auto loss = [&](std::int64_t first, std::int64_t last) {
    const LossRows r = all.slice(first, last);
    return nn::mse_loss(model(r.x), r.numbers);
  };
  const double a = loss(0, 2).item(), b = loss(2, 8).item();
  {
    const auto quiet = parallel.no_sync();
    CHECK(parallel.backward(loss(0, 2), 5) == a);
  }
  CHECK(parallel.backward(loss(2, 8), 3) == Approx((5 * a + 3 * b) / 8).epsilon(1e-14));
  const Tensor weighted = model.weight.grad().clone();
  model.zero_grad();
  ((5 * loss(0, 2) + 3 * loss(2, 8)) / 8).backward();
  CHECK(max_difference(weighted, model.weight.grad()) < 1e-14);
  // An exception between the parts: discard_parts() begins again.
  {
    const auto quiet = parallel.no_sync();
    parallel.backward(loss(0, 2));
  }
  parallel.discard_parts();
  model.zero_grad();
  CHECK(parallel.backward(loss(2, 8)) == b);
}

// ---- the Trainer ----------------------------------------------------------------------------------------------------

namespace {

struct Run {
  Tensor weight;
  std::vector<double> losses, norms, validations;
};

using BatchLoss = Callable<Tensor(const nn::Linear&, const data::Batch&)>;

// Steps of SGD on the rows, in order.
Run train(const LossRows& rows, std::int64_t batch_size, std::int64_t accumulate, std::int64_t steps,
          const BatchLoss& loss, const Callable<void(Trainer&, data::DataLoader&)>& set_up = {}) {
  nn::Linear model = small();
  optim::SGD optimizer(model.named_parameters(), 0.1);
  const data::TensorDataset data({rows.x, rows.ids, rows.numbers});
  data::DataLoader loader(data, batch_size), held_out(data, batch_size);
  Trainer trainer(
      model, optimizer, loader, [&](const data::Batch& b) { return loss(model, b); },
      quiet(steps).accumulate(accumulate));
  if (set_up) set_up(trainer, held_out);
  const TrainerResult result = trainer.run();
  Run run{model_weight(model), {}, {}, {}};
  for (const auto& row : trainer.metrics().rows()) {
    run.losses.push_back(row.at("loss"));
    run.norms.push_back(row.at("grad_norm"));
    if (row.count("validation")) run.validations.push_back(row.at("validation"));
  }
  CHECK(result.loss == run.losses.back());
  return run;
}

const BatchLoss by_targets = [](const nn::Linear& m, const data::Batch& b) {
  return nn::cross_entropy(m(b[0]), b[1], nn::CrossEntropyOptions().ignore_index(-1));
};

}  // namespace

TEST_CASE("trainer: accumulated batches weigh by their targets", "[loss]") {
  // 3 targets in the first batch of 16 rows, 13 in the second.
  std::vector<std::int64_t> list(32, -1);
  for (const int i : {1, 5, 9}) list[i] = i % 5;
  for (int i = 16; i < 29; ++i) list[i] = i % 5;
  manual_seed(6);
  LossRows rows = loss_rows({0});
  rows.x = randn({32, 4}, float64), rows.ids = tensor(list), rows.numbers = randn({32, 5}, float64);
  const Run parts = train(rows, 16, 2, 3, by_targets), whole = train(rows, 32, 1, 3, by_targets);
  CHECK(max_difference(parts.weight, whole.weight) < 1e-14);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(parts.losses[i] == Approx(whole.losses[i]).epsilon(1e-14));
    CHECK(parts.norms[i] == Approx(whole.norms[i]).epsilon(1e-13));
  }
  // weight() says the same of a loss of one's own.
  const BatchLoss own = [](const nn::Linear& m, const data::Batch& b) {
    const Tensor valid = (b[1] >= 0).to(float64);
    return sum(-gather(log_softmax(m(b[0])), 1, unsqueeze(clamp_min(b[1], 0), 1)).reshape({b[1].size(0)}) * valid) /
           sum(valid).item();
  };
  const Run weighted = train(rows, 16, 2, 3, own, [](Trainer& t, data::DataLoader&) {
    t.weight([](const data::Batch& b) { return sum(b[1] >= 0).item(); });
  });
  CHECK(max_difference(weighted.weight, whole.weight) < 1e-14);
  CHECK(weighted.losses[2] == Approx(whole.losses[2]).epsilon(1e-14));
}

TEST_CASE("trainer: a short last batch weighs by its rows", "[loss]") {
  manual_seed(6);
  LossRows rows = loss_rows({0});
  rows.x = randn({10, 4}, float64), rows.ids = zeros({10}, int64), rows.numbers = randn({10, 5}, float64);
  for (const BatchLoss& loss :
       {BatchLoss([](const nn::Linear&m, const data::Batch&b) { return nn::mse_loss(m(b[0]), b[2]); }),
        BatchLoss([](const nn::Linear&m, const data::Batch&b) { return mean(square(m(b[0]) - b[2])); }),
        BatchLoss([](const nn::Linear&m, const data::Batch&b) {
          return nn::mse_loss(m(b[0]), b[2], Reduction::sum) * 0.01;
        })}) {
    const Run parts = train(rows, 4, 3, 2, loss), whole = train(rows, 10, 1, 2, loss);  // 4, 4 and 2 rows
    CHECK(max_difference(parts.weight, whole.weight) < 1e-14);
    CHECK(parts.losses[1] == Approx(whole.losses[1]).epsilon(1e-14));
  }
}

TEST_CASE("trainer: a validation weighs its batches by what counts", "[loss]") {
  const LossRows rows = loss_rows(ids);
  const auto validate = [](Trainer& t, data::DataLoader& held_out) { t.validation(held_out, 1); };
  for (const bool targets : {true, false})
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      const BatchLoss loss = [=](const nn::Linear& m, const data::Batch& b) {
        return targets
                   ? nn::cross_entropy(m(b[0]), b[1], nn::CrossEntropyOptions().ignore_index(-1).reduction(reduction))
                   : nn::mse_loss(m(b[0]), b[2], reduction);
      };
      const double whole = train(rows, 8, 1, 1, loss, validate).validations[0];
      for (std::int64_t size = 1; size < 8; ++size) {
        // The step has all rows, in as many parts as there are batches.
        const Run run = train(rows, size, (8 + size - 1) / size, 1, loss, validate);
        CHECK(run.validations[0] == Approx(whole).epsilon(1e-13));
      }
    }
  // 9 for the two batches of four rows, 4 for the last two rows: 8, not 7.33.
  const BatchLoss own = [](const nn::Linear& m, const data::Batch& b) {
    return sum(m.weight) * 0 + (b[0].size(0) == 4 ? 9. : 4.);
  };
  manual_seed(6);
  LossRows ten = loss_rows({0});
  ten.x = randn({10, 4}, float64), ten.ids = zeros({10}, int64), ten.numbers = randn({10, 5}, float64);
  CHECK(train(ten, 4, 1, 1, own, validate).validations[0] == Approx(8.).epsilon(1e-14));
}

TEST_CASE("trainer: batches in which nothing counts", "[loss]") {
  std::vector<std::int64_t> list(8, -1);
  LossRows rows = loss_rows(list);
  const Tensor before = model_weight(small());
  for (const std::int64_t accumulate : {1, 2}) {
    const Run run = train(rows, 4, accumulate, 2, by_targets,
                          [](Trainer& t, data::DataLoader& held_out) { t.validation(held_out, 1); });
    CHECK(run.losses == std::vector<double>{0, 0});
    CHECK(same_bits(run.weight, before));
    CHECK(std::isnan(run.validations[0]));  // nothing was measured, so it is not the best
  }
  list[1] = 2;
  rows = loss_rows(list);
  CHECK(max_difference(train(rows, 4, 2, 2, by_targets).weight, train(rows, 8, 1, 2, by_targets).weight) < 1e-14);
}

TEST_CASE("trainer: what counts nothing trains nothing, whatever its loss is", "[loss]") {
  const BatchLoss with_penalty = [](const nn::Linear& m, const data::Batch& b) {
    return by_targets(m, b) + 0.1 * sum(square(m.weight));
  };
  const BatchLoss own = [](const nn::Linear& m, const data::Batch& b) {  // 0 / 0 without a target
    const Tensor valid = unsqueeze((b[1] >= 0).to(float64), 1);
    const double targets = sum(valid).item();
    return nn::mean_over(sum(square(m(b[0])) * valid) / targets, targets);
  };
  const BatchLoss all_rows = [](const nn::Linear& m, const data::Batch& b) { return nn::mse_loss(m(b[0]), b[2]); };
  const auto by_weight = [](Trainer& t, data::DataLoader&) {
    t.weight([](const data::Batch& b) { return sum(b[1] >= 0).item(); });
  };
  const LossRows none = loss_rows(std::vector<std::int64_t>(8, -1)), half = loss_rows({1, -1, 0, 2, -1, -1, -1, -1});
  const Tensor before = model_weight(small());
  for (const auto& [loss, set_up] : std::vector<std::pair<BatchLoss, Callable<void(Trainer&, data::DataLoader&)>>>{
           {with_penalty, {}}, {own, {}}, {all_rows, by_weight}}) {
    for (const std::int64_t accumulate : {1, 2, 3}) {
      const Run run = train(none, 4, accumulate, 2, loss, set_up);
      CHECK(run.losses == std::vector<double>{0, 0});
      CHECK(same_bits(run.weight, before));
    }
    // The second batch of each step, in which nothing counts, changes nothing.
    const LossRows first = half.slice(0, 4);
    const Run parts = train(half, 4, 2, 3, loss, set_up), alone = train(first, 4, 1, 3, loss, set_up);
    CHECK(max_difference(parts.weight, alone.weight) < 1e-14);
  }
}

TEST_CASE("trainer: packed documents weigh by their tokens", "[loss]") {
  const auto train = [](std::int64_t batch_size, std::int64_t accumulate) {
    manual_seed(2);
    nn::Sequential model(nn::Embedding(12, 6), nn::Linear(6, 12));
    model.to(float64);
    optim::SGD optimizer(model.named_parameters(), 0.5);
    data::DataLoader loader(Sequences(), data::LoaderOptions().batch_size(batch_size).collate(data::pack_collate));
    Trainer trainer(
        model, optimizer, loader, [&](const data::Batch& b) { return nn::cross_entropy(model(b[0]), b[0]); },
        quiet(4).accumulate(accumulate));
    const double loss = trainer.run().loss;
    return std::pair(loss, nn::parameters_to_vector(model.parameters()).detach().clone());
  };
  const auto [whole, expected] = train(6, 1);
  for (const std::int64_t size : {1, 2, 3}) {
    const auto [loss, numbers] = train(size, 6 / size);
    CHECK(loss == Approx(whole).epsilon(1e-13));
    CHECK(max_difference(numbers, expected) < 1e-13);
  }
}

TEST_CASE("trainer: an Error between the parts of a step leaves no part behind", "[loss]") {
  const LossRows rows = loss_rows(ids);
  int calls = 0;
  nn::Linear model = small();
  optim::SGD optimizer(model.named_parameters(), 0.1);
  data::DataLoader loader(data::TensorDataset({rows.x, rows.ids}), 4);
  Trainer trainer(
      model, optimizer, loader,
      [&](const data::Batch& b) {
        if (++calls == 2) throw std::runtime_error("no disk");
        return by_targets(model, b);
      },
      quiet(1).accumulate(2));
  CHECK_THROWS_WITH(trainer.run(), "no disk");
  CHECK(same_bits(model.weight.detach(), small().weight.detach()));
  trainer.run();
  CHECK(max_difference(model.weight.detach(), train(rows, 8, 1, 1, by_targets).weight) < 1e-14);
}

}  // namespace fit::test::loss_parts_test
