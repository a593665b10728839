#include <fstream>
#include <set>
#include <sstream>

#include "fit/nn.hpp"
#include "nn/models/small_model.hpp"
#include "support/callable.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/optimizer_groups.hpp"
#include "support/text.hpp"

// The promise of checkpoints: what is saved can be loaded. Layers are in layer_table_test.cpp.
namespace fit::test::checkpoint_promise_test {
namespace {

using Catch::Matchers::Contains;

// Saves one part and loads it into another one, in each way that there is.
template <class Part>
void check_loads(Part& saved, Part& other) {
  const Directory d;
  const std::string file = d.file("c");
  Checkpoint c;
  c.add("part", saved).save(file);
  CHECK_NOTHROW(checkpoint_info(file));
  const StateDict state = saved.state_dict(), read = checkpoint_part(file, "part");
  REQUIRE(read.size() == state.size());
  for (const auto& [name, x] : state) CHECK(same_bits(at(read, name), x));
  Checkpoint().add("part", other).load(file);
  CHECK(same_state(other.state_dict(), state));
  load_from_checkpoint(file, other, "part");
  CHECK(same_state(other.state_dict(), state));
}

// A part of one's own.
struct OwnPart {
  explicit OwnPart(const Tensor& value) : x(value) {}
  StateDict state_dict() const { return {{"x", x}}; }
  void load_state_dict(const StateDict& state) { x = at(state, "x"); }
  Tensor x;
};

// A model beside others, of which the head alone is trained.
struct Mixed : nn::Layer {
  explicit Mixed(DType dtype = float32) {
    to(dtype);
    freeze();
    head = nn::Linear(2, 1);
    head.to(dtype == float64 ? float64 : float32);
  }
  FIT_FIELDS(body, adapted, quantized, head, seen)
  nn::Linear body{2, 2}, adapted{2, 2}, quantized{2, 2}, head{2, 1};
  nn::Buffer seen{zeros({3})};
};

void quantize_and_adapt(Mixed& m) {
  nn::low_rank(m.adapted.weight, 1);
  nn::quantize_(m, nn::Int8WeightOnlyOptions().layers({"quantized"}));
  m.head.unfreeze();
}

Tensor loss_of(const Mixed& m) { return sum(square(m.head(tensor({{1., 2.}}).to(m.head.weight.dtype())))); }

template <class Optimizer>
void check_optimizer(DType body) {
  INFO(typeid(Optimizer).name() << " beside " << body);
  Mixed model(body), twin(body);
  Optimizer optimizer(groups_of<Optimizer>(model.named_parameters(), 0.1)),
      other(groups_of<Optimizer>(twin.named_parameters(), 0.2));
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    loss_of(model).backward();
    optimizer.step();
  }
  check_loads(optimizer, other);
}

std::set<std::string> classes_of_schedules() {
  std::ifstream in(std::string(FIT_NN_HEADERS) + "/optim/schedule.hpp");
  std::stringstream text;
  text << in.rdbuf();
  const auto names = matches(text.str(), R"(class (\w+) final : public Schedule|class (ReduceLROnPlateau))");
  return {names.begin(), names.end()};
}

}  // namespace

TEST_CASE("what is saved can be loaded: a file with bfloat16 that an earlier version wrote", "[checkpoint]") {
  const std::string file = std::string(FIT_GOLDEN_DIR) + "/checkpoint_v2_bfloat16.safetensors";
  CHECK(checkpoint_info(file).step == 1);
  CHECK(at(checkpoint_part(file, "model"), "body.weight").dtype() == bfloat16);
  Mixed m(bfloat16);
  quantize_and_adapt(m);
  optim::SGD optimizer(m.head.named_parameters(), 0.1, 0.9);
  optim::ExponentialMovingAverage average(m.body.named_parameters());
  Checkpoint c;
  c.add("model", m).add("optimizer", optimizer).add("average", average);
  c.load(file);
  CHECK(c.config.at("in") == "2");
  CHECK(default_generator().seed() == 7);
  const auto holds = [](const Tensor& x, const Tensor& expected) {
    return same_bits(x.detach().to(float32), expected.to(bfloat16).to(float32));
  };
  CHECK(holds(m.body.weight, tensor({{0.5, -1.}, {3., 0.1}})));
  CHECK(holds(m.body.bias, tensor({2., -0.25})));
  CHECK(holds(m.adapted.weight.original(), tensor({{1., 2.}, {-1., 0.3}})));
  CHECK(holds(m.parameter("adapted.weight.parametrization.A"), tensor({{0.5, 0.25}})));
  CHECK(holds(m.parameter("adapted.weight.parametrization.B"), tensor({{2.}, {-1.}})));
  CHECK(max_difference(m.quantized.weight.value(), tensor({{1., -0.5}, {0.25, 2.}})) < 0.01);
  CHECK(holds(m.seen, tensor({1., 2., 0.1})));
  CHECK(max_difference(m.head.weight.detach(), tensor({{0.9, -1.2}})) < 1e-6);
  CHECK(max_difference(at(optimizer.state_dict(), "weight.momentum_buffer"), tensor({{1., 2.}})) < 1e-6);
  CHECK(holds(at(average.state_dict(), "weight"), tensor({{0.5, -1.}, {3., 0.1}})));
}

TEST_CASE("what is saved can be loaded: tensors of every type and size", "[checkpoint]") {
  for (const DType dtype : {boolean, int8, int64, bfloat16, float32, float64})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 0, 3}, Shape{300, 301}}) {  // the last is mapped
      INFO(dtype << ' ' << shape);
      OwnPart saved((randn(shape) * 40).to(dtype)), other(zeros({}));
      check_loads(saved, other);
    }
}

TEST_CASE("what is saved can be loaded: a model of several types, with all that trains it", "[checkpoint]") {
  for (const DType dtype : {bfloat16, float32, float64}) {
    INFO(dtype);
    Mixed model(dtype), twin(dtype);
    quantize_and_adapt(model), quantize_and_adapt(twin);
    check_loads(model, twin);
    optim::ExponentialMovingAverage average(model.named_parameters(), 0.5), other(twin.named_parameters());
    {
      const NoGrad no_grad;
      model.body.weight.mul_(3);
    }
    average.update();
    check_loads(average, other);
  }
}

TEST_CASE("what is saved can be loaded: every optimiser", "[checkpoint]") {
  for (const DType body : {bfloat16, float32, float64}) {
    each_optimizer([body](auto* type) { check_optimizer<std::decay_t<decltype(*type)>>(body); });
    Mixed model(body), twin(body);
    optim::LBFGS optimizer(model.named_parameters()), other(twin.named_parameters());
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor loss = loss_of(model);
      loss.backward();
      return loss;
    });
    check_loads(optimizer, other);
  }
}

TEST_CASE("what is saved can be loaded: every schedule, early stopping and the generator", "[checkpoint]") {
  using namespace optim;
  const auto half = [](std::int64_t t) { return t < 2 ? 1. : 0.5; };
  std::map<std::string, Callable<std::shared_ptr<Schedule>(Optimizer&)>> all;
  all["StepLR"] = [](Optimizer& o) { return std::make_shared<StepLR>(o, 2); };
  all["MultiStepLR"] = [](Optimizer& o) { return std::make_shared<MultiStepLR>(o, std::vector<std::int64_t>{1, 3}); };
  all["ExponentialLR"] = [](Optimizer& o) { return std::make_shared<ExponentialLR>(o, 0.9); };
  all["LinearLR"] = [](Optimizer& o) { return std::make_shared<LinearLR>(o); };
  all["ConstantLR"] = [](Optimizer& o) { return std::make_shared<ConstantLR>(o); };
  all["WarmupCosineLR"] = [](Optimizer& o) { return std::make_shared<WarmupCosineLR>(o, 20, 3, 0.1); };
  all["WarmupStableDecayLR"] = [](Optimizer& o) { return std::make_shared<WarmupStableDecayLR>(o, 20, 3, 10); };
  all["PolynomialLR"] = [](Optimizer& o) { return std::make_shared<PolynomialLR>(o); };
  all["LambdaLR"] = [=](Optimizer& o) { return std::make_shared<LambdaLR>(o, half); };
  all["MultiplicativeLR"] = [=](Optimizer& o) { return std::make_shared<MultiplicativeLR>(o, half); };
  all["CosineAnnealingLR"] = [](Optimizer& o) { return std::make_shared<CosineAnnealingLR>(o, 10); };
  all["CosineAnnealingWarmRestarts"] = [](Optimizer& o) { return std::make_shared<CosineAnnealingWarmRestarts>(o, 2); };
  all["OneCycleLR"] = [](Optimizer& o) { return std::make_shared<OneCycleLR>(o, 0.1, 10); };
  all["NoamLR"] = [](Optimizer& o) { return std::make_shared<NoamLR>(o, 8, 2); };
  all["SequentialLR"] = [](Optimizer& o) {
    return std::make_shared<SequentialLR>(
        o,
        std::vector<std::shared_ptr<Schedule>>{std::make_shared<LinearLR>(o), std::make_shared<ExponentialLR>(o, 0.9)},
        std::vector<std::int64_t>{2});
  };
  all["ChainedScheduler"] = [](Optimizer& o) {
    return std::make_shared<ChainedScheduler>(
        o,
        std::vector<std::shared_ptr<Schedule>>{std::make_shared<LinearLR>(o), std::make_shared<ExponentialLR>(o, 0.9)});
  };
  std::set<std::string> names{"ReduceLROnPlateau"};
  for (const auto& [name, make] : all) {
    INFO(name);
    names.insert(name);
    Mixed model, twin;
    AdamW optimizer(model.named_parameters(), 0.1), other(twin.named_parameters(), 0.1);
    const std::shared_ptr<Schedule> schedule = make(optimizer), restored = make(other);
    for (int step = 0; step < 3; ++step) schedule->step();
    check_loads(*schedule, *restored);
    schedule->step(), restored->step();
    CHECK(optimizer.lr() == other.lr());
  }
  CHECK(names == classes_of_schedules());

  Mixed model, twin;
  AdamW optimizer(model.named_parameters(), 0.1), other(twin.named_parameters(), 0.1);
  const auto o = PlateauOptions().patience(0);
  ReduceLROnPlateau plateau(optimizer, o), restored(other, o);
  for (const double metric : {1., 2., 3.}) plateau.step(metric);
  check_loads(plateau, restored);
  CHECK(other.lr() == optimizer.lr());

  EarlyStopping early(3), stopping(3);
  early.update(2), early.update(5);
  check_loads(early, stopping);
  const Directory d;
  Generator g(5), h(6);
  rand({3}, float32, g);
  Checkpoint().add("g", g).save(d.file("c"));
  Checkpoint().add("g", h).load(d.file("c"));
  CHECK(h.seed() == g.seed());
  CHECK(h.calls() == g.calls());
}

TEST_CASE("what is saved can be loaded: loaders, wherever they are", "[checkpoint]") {
  for (const int prefetch : {0, 2})
    for (const int seen : {0, 1, 5, 7, 9}) {
      INFO(prefetch << " batches ahead, after " << seen);
      data::DataLoader loader(small_data(), shuffled(prefetch)), other(small_data(), shuffled(prefetch));
      for (int done = 0; done < seen;)
        for ([[maybe_unused]] const data::Batch& b : loader)
          if (++done == seen) break;
      check_loads(loader, other);
    }
}

// What only another fault could cause: the new file is not taken, and the old one stays.
TEST_CASE("a checkpoint that can't be loaded is not saved over one that can", "[checkpoint]") {
  const Directory d;
  const std::string file = d.file("c");
  nn::Linear model(2, 2);
  Checkpoint good;
  good.add("model", model).save(file);
  const std::string before = get(file);
  const auto refused = [&](const Checkpoint& c, const std::string& why) {
    CHECK_THROWS_AS(c.save(file), FileError);
    CHECK_THROWS_WITH(c.save(file), Contains("[Checkpoint] " + file) && Contains(why) &&
                                        Contains("nothing was saved, and an old file of that name stays"));
    CHECK(get(file) == before);
    CHECK(std::distance(std::filesystem::directory_iterator(d.path), {}) == 1);
  };

  Tensor truth = zeros({5}, boolean);
  truth.fresh<unsigned char>()[3] = 7;  // neither 0 nor 1
  OwnPart mine(truth);
  Checkpoint c;
  refused(c.add("model", model).add("mine", mine),
          "the part 'mine' can't be loaded: mine.x, boolean [5], can't be read");

  Checkpoint strict;
  strict.add(
      "strict",
      [] {
        return StateDict{{"n", tensor(3)}};
      },
      [](const StateDict&) {},
      [](const StateDict& state) {
        if (at(state, "n").item() > 2) throw Error("[strict] n is above 2");
      });
  refused(strict, "the part 'strict' can't be loaded: [strict] n is above 2");

  good.config[std::string(5000, 'k')] = "a key that is too long";
  refused(good, "what was written can't be loaded");
}

}  // namespace fit::test::checkpoint_promise_test
