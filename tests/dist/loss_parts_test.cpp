#include <optional>

#include "dist/training.hpp"
#include "fit/graph/hooks.hpp"
#include "support/callable.hpp"
#include "support/padded_sequences.hpp"
#include "support/tables/loss_functions.hpp"

// A batch that is divided among ranks and batches in any way has one loss and one gradient.
namespace fit::test::loss_parts_test {
namespace {

using Catch::Matchers::Contains;
using nn::Reduction;

const std::vector<std::int64_t> ids{3, -1, 0, 4, -1, -1};

nn::Linear small() {
  manual_seed(2);
  nn::Linear model(4, 5);
  model.to(float64);
  return model;
}

using Loss = Callable<Tensor(const nn::Linear&, const LossRows&)>;

// Part i is computed by rank i % size. Then the loss, followed by the gradient.
std::vector<double> joined(const std::vector<LossRows>& parts, const Loss& loss, dist::World& world) {
  nn::Linear model = small();
  dist::DataParallel parallel(model, {}, world);
  const auto size = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  const std::size_t rounds = (parts.size() + size - 1) / size;
  double value = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::optional<dist::DataParallel::NoSync> quiet;
    if (round + 1 < rounds) quiet.emplace(parallel);
    const std::size_t i = round * size + rank;
    value = parallel.backward(loss(model, i < parts.size() ? parts[i] : parts[0].slice(0, 0)));
  }
  std::vector<double> all = model.weight.grad().to_vector<double>();
  all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("rows divided among ranks and batches in every way have one gradient and one loss", "[dist]") {
  dist::World one;
  const LossRows all = loss_rows(ids);
  for (const LossFunction& f : loss_functions())
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      INFO(f.name << (reduction == Reduction::sum ? ", sum" : ", mean"));
      const Loss loss = [&](const nn::Linear& m, const LossRows& rows) { return f.loss(m(rows.x), rows, reduction); };
      const std::vector<double> whole = joined({all}, loss, one);
      for (const std::vector<std::int64_t>& sizes : compositions(all.size())) {
        const std::vector<double> together = joined(divided(all, sizes), loss, dist::world());
        CHECK(distance(together, whole) < 1e-13);
        CHECK(same_on_all_ranks(together));
      }
      CHECK(distance(joined(divided(all, {0, 0, 4, 0, 2}), loss, dist::world()), whole) < 1e-13);
    }
}

TEST_CASE("losses that no weight can join are refused on all ranks alike", "[dist]") {
  if (dist::world().size() == 1) return;
  const LossRows all = loss_rows(ids);
  const Loss uneven = [&](const nn::Linear& m, const LossRows& r) {
    return nn::cross_entropy(m(r.x), r.ids, nn::CrossEntropyOptions().ignore_index(-1)) +
           nn::mse_loss(m(r.x), r.numbers);
  };
  CHECK_THROWS_AS(joined(divided(all, {1, 5}), uneven, dist::world()), dist::AgreedError);
  CHECK_THROWS_WITH(joined(divided(all, {1, 5}), uneven, dist::world()),
                    Contains("one is a mean over 1 and one over 5 items, the other is a mean over 2 and one over 25"));
}

TEST_CASE("ranks without anything that counts", "[dist]") {
  dist::World& w = dist::world();
  const LossRows none = loss_rows(std::vector<std::int64_t>(6, -1));
  const Loss loss = [](const nn::Linear& m, const LossRows& r) {
    return nn::cross_entropy(m(r.x), r.ids, nn::CrossEntropyOptions().ignore_index(-1));
  };
  CHECK(joined(divided(none, {3, 1, 1, 1}), loss, w) == std::vector<double>(21, 0));
  const auto train = [&](const LossRows& rows) {
    nn::Linear model = small();
    optim::SGD optimizer(model.named_parameters(), 0.1);
    data::DataLoader loader(data::TensorDataset({rows.x, rows.ids}), 3),
        held_out(data::TensorDataset({rows.x, rows.ids}), 4);
    Trainer trainer(
        model, optimizer, loader,
        [&](const data::Batch& b) {
          return nn::cross_entropy(model(b[0]), b[1], nn::CrossEntropyOptions().ignore_index(-1));
        },
        TrainerOptions().steps(2).accumulate(2).display(Display::none));
    trainer.validation(held_out, 1);
    std::vector<double> all{trainer.run().loss};
    for (const double x : numbers_of(model)) all.push_back(x);
    all.push_back(trainer.metrics().rows().back().at("validation"));
    return all;
  };
  const std::vector<double> nothing = train(none);
  CHECK(nothing[0] == 0);
  const nn::Linear before = small();
  CHECK(std::equal(nothing.begin() + 1, nothing.end() - 1, numbers_of(before).begin()));
  CHECK(std::isnan(nothing.back()));
  // One row of six counts.
  const LossRows one_row = loss_rows({-1, -1, -1, -1, 2, -1});
  const std::vector<double> together = train(one_row);
  CHECK(same_on_all_ranks(together));
  CHECK(together[0] > 0);
  // A mean over the targets of one's own is 0 / 0 where there are none.
  dist::World one;
  const Loss own = [](const nn::Linear& m, const LossRows& r) {
    const Tensor valid = unsqueeze((r.ids >= 0).to(float64), 1);
    const double targets = sum(valid).item();
    return nn::mean_over(sum(square(m(r.x)) * valid) / targets, targets);
  };
  const LossRows all = loss_rows(ids);
  const std::vector<double> whole = joined({all}, own, one);
  for (const std::vector<std::int64_t>& sizes : compositions(all.size()))
    CHECK(distance(joined(divided(all, sizes), own, w), whole) < 1e-13);
}

TEST_CASE("accumulated batches of one process are the parts of ranks, bit for bit", "[dist]") {
  dist::World one;
  dist::World& w = dist::world();
  const auto train = [&](dist::World& world, std::int64_t batch, std::int64_t accumulate) {
    const dist::WorldScope scope(world);
    manual_seed(2);
    nn::Linear model(4, 5);
    optim::AdamW optimizer(model.named_parameters(), 0.1);
    const Tensor x = randn({48, 4});
    Tensor y = randint(-1, 5, {48});
    data::DataLoader loader(data::TensorDataset({x, y}), batch);
    Trainer trainer(
        model, optimizer, loader,
        [&](const data::Batch& b) {
          return nn::cross_entropy(model(b[0]), b[1], nn::CrossEntropyOptions().ignore_index(-1));
        },
        TrainerOptions().steps(5).accumulate(accumulate).clip_norm(0.5).display(Display::none));
    trainer.run();
    std::vector<double> all = numbers_of(model);
    for (const auto& row : trainer.metrics().rows()) all.push_back(row.at("loss")), all.push_back(row.at("grad_norm"));
    return all;
  };
  const std::vector<double> ranks = train(w, 4 * w.size(), 1), batches = train(one, 4, w.size());
  if (w.size() > 1) CHECK(ranks == batches);
  CHECK(distance(train(w, 4 * w.size(), 2), train(one, 4, 2 * w.size())) < 1e-5);
}

TEST_CASE("sums and own losses on ranks train as one process does", "[dist]") {
  dist::World one;
  const auto train = [&](dist::World& world, int kind) {
    const dist::WorldScope scope(world);
    nn::Linear model = small();
    optim::SGD optimizer(model.named_parameters(), 0.01);
    Generator g(3);
    const data::TensorDataset data({randn({22, 4}, float64, g), randn({22, 5}, float64, g)});
    data::DataLoader loader(data, 5), held_out(data, 6);
    const auto loss = [&](const data::Batch& b) {
      const Tensor d = square(model(b[0]) - b[1]);
      if (kind == 0) return nn::mse_loss(model(b[0]), b[1], Reduction::sum);
      if (kind == 1) return mean(d);  // says nothing: rows
      if (kind == 2) return nn::sum_of(sum(d));
      return nn::mean_over(mean(d), 5. * static_cast<double>(d.size(0)));
    };
    Trainer trainer(model, optimizer, loader, loss, TrainerOptions().steps(6).accumulate(2).display(Display::none));
    trainer.validation(held_out, 3);
    trainer.run();
    std::vector<double> all = numbers_of(model);
    for (const auto& row : trainer.metrics().rows())
      for (const char* name : {"loss", "grad_norm", "validation"})
        if (row.count(name)) all.push_back(row.at(name));
    return all;
  };
  for (int kind = 0; kind < 4; ++kind) CHECK(distance(train(dist::world(), kind), train(one, kind)) < 1e-11);
}

TEST_CASE("packed documents on ranks train as one process does", "[dist]") {
  dist::World one;
  const auto train = [&](dist::World& world, data::Collated collated) {
    const dist::WorldScope scope(world);
    manual_seed(2);
    nn::Sequential model(nn::Embedding(12, 6), nn::Linear(6, 12));
    model.to(float64);
    optim::SGD optimizer(model.named_parameters(), 0.5);
    const auto options = data::LoaderOptions().batch_size(5).collate(data::pack_collate).collated(collated);
    data::DataLoader loader(Sequences(), options), held_out(Sequences(), options);
    Trainer trainer(
        model, optimizer, loader, [&](const data::Batch& b) { return nn::cross_entropy(model(b[0]), b[0]); },
        TrainerOptions().steps(6).accumulate(2).display(Display::none));
    trainer.validation(held_out, 3).run();
    std::vector<double> all = numbers_of(model);
    for (const auto& row : trainer.metrics().rows())
      for (const char* name : {"loss", "grad_norm", "validation"})
        if (row.count(name)) all.push_back(row.at(name));
    return all;
  };
  for (const data::Collated collated : {data::Collated::whole, data::Collated::own})
    CHECK(distance(train(dist::world(), collated), train(one, collated)) < 1e-12);
}

TEST_CASE("a parameter outside the optimiser changes no bit on ranks", "[dist]") {
  const auto train = [&](bool frozen, double factor, double clip, std::int64_t accumulate) {
    manual_seed(3);
    nn::Sequential model(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 1));
    nn::Linear& other = model.layer<nn::Linear>("0");
    if (dist::world().rank() > 0) {
      const NoGrad no_grad;
      other.weight.mul_(2);  // rank 0's values hold for the whole model
    }
    if (frozen) other.freeze();
    GradHook hook;
    if (!frozen && factor != 1)
      hook = register_hook(other.weight, [factor](const Tensor& g) { return full_like(g, factor); });
    optim::AdamW optimizer(model.layer<nn::Linear>("2").named_parameters(), 0.05);
    data::DataLoader loader(data::TensorDataset({randn({24, 3}), randn({24, 1})}), 6);
    Trainer trainer(
        model, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(model(b[0]), b[1]); },
        TrainerOptions().steps(200).accumulate(accumulate).clip_norm(clip).display(Display::none));
    trainer.run();
    std::vector<double> all = numbers_of(model);
    for (const auto& row : trainer.metrics().rows()) all.push_back(row.at("loss")), all.push_back(row.at("grad_norm"));
    return all;
  };
  for (const double clip : {0., 0.1})
    for (const std::int64_t accumulate : {1, 2}) {
      const std::vector<double> frozen = train(true, 1, clip, accumulate);
      CHECK(same_on_all_ranks(frozen));
      for (const double factor : {1., 1e30, static_cast<double>(INFINITY), static_cast<double>(NAN)})
        CHECK(train(false, factor, clip, accumulate) == frozen);
    }
}

TEST_CASE("a parameter of the optimiser outside the model is trained on ranks, and no other gradient is sent",
          "[dist]") {
  dist::World one;
  const auto train = [&](dist::World& world) {
    const dist::WorldScope scope(world);
    nn::Linear model = small();
    Tensor scale = full({}, 1. + world.rank(), float64).requires_grad_();  // rank 0's value holds
    optim::SGD optimizer(StateDict{{"bias", model.bias}, {"scale", scale}}, 0.05);
    Generator g(3);
    data::DataLoader loader(data::TensorDataset({randn({22, 4}, float64, g), randn({22, 5}, float64, g)}), 7);
    Trainer trainer(
        model, optimizer, loader, [&](const data::Batch& b) { return nn::mse_loss(model(b[0]) * scale, b[1]); },
        TrainerOptions().steps(6).display(Display::none));
    trainer.run();
    std::vector<double> all = numbers_of(model);
    all.push_back(scale.item());
    return all;
  };
  CHECK(distance(train(dist::world()), train(one)) < 1e-12);
  nn::Linear model(64, 64);
  optim::SGD optimizer(StateDict{{"bias", model.bias}}, 0.05);
  dist::DataParallel parallel(model, optimizer);
  const double before = dist::world().bytes_sent();
  parallel.backward(nn::mse_loss(model(ones({2, 64})), zeros({2, 64})));
  CHECK(dist::world().bytes_sent() - before < 4 * 64 * 64);  // the weight's gradient stays here
}

TEST_CASE("a parameter that is unfrozen later is named", "[dist]") {
  if (dist::world().size() == 1) return;
  nn::Linear model(2, 2);
  model.bias.requires_grad_(false);
  dist::DataParallel parallel(model);
  parallel.backward(nn::mse_loss(model(ones({2, 2})), zeros({2, 2})));
  model.bias.requires_grad_();
  CHECK_THROWS_WITH(parallel.backward(nn::mse_loss(model(ones({2, 2})), zeros({2, 2}))),
                    Contains("the parameter bias was frozen when the DataParallel was made"));
}

}  // namespace fit::test::loss_parts_test
