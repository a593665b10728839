#include "fit/nn/training/checkpoint.hpp"

#include <atomic>
#include <cstdlib>

#include "fit/io/safetensors.hpp"
#include "nn/models/small_model.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

// Checkpoints: what goes on from one is what would have come, and what does not fit changes nothing.
namespace fit::test::checkpoint_test {
namespace {

using Catch::Matchers::Contains;

Checkpoint checkpoint_of(SmallTraining& t) {
  Checkpoint c;
  c.add("model", *t.model).add("optimizer", *t.optimizer).add("schedule", *t.schedule).add("loader", t.loader);
  return c;
}

// What the stored file holds: Linear(2, 1), SGD with momentum after one step.
struct Stored {
  Stored() {
    default_generator().set_state(7, 2);
    const NoGrad no_grad;
    layer.weight.copy_(tensor({{0.5, -1.}}));
    layer.bias.copy_(tensor({2.}));
  }
  nn::Linear layer{2, 1};
  optim::SGD optimizer{layer.named_parameters(), 0.1, 0.9};
};

}  // namespace

TEST_CASE("checkpoint: a resumed training is the uninterrupted one, bit by bit", "[checkpoint]") {
  const Directory d;
  SmallTraining whole;
  const std::vector<double> losses = whole.run(20);

  for (const int stop : {0, 3, 7, 10}) {  // 7 batches are an epoch
    INFO("stopped after " << stop << " steps");
    {
      SmallTraining first;
      first.run(stop);
      Checkpoint c = checkpoint_of(first);
      c.step = stop;
      c.config["layers"] = "1";
      c.save(d.file("c"));
    }
    SmallTraining second(99, /*prefetch=*/2);
    Checkpoint c = checkpoint_of(second);
    c.load(d.file("c"));
    CHECK(c.step == stop);
    CHECK(c.config.at("layers") == "1");
    CHECK(second.run(20, stop) == std::vector<double>(losses.begin() + stop, losses.end()));
    CHECK(same_state(second.model->state_dict(), whole.model->state_dict()));
    CHECK(second.optimizer->lr() == whole.optimizer->lr());
    CHECK(default_generator().seed() == 1);
  }
}

TEST_CASE("checkpoint: one error lists all that does not fit, and nothing has changed", "[checkpoint]") {
  const Directory d;
  SmallTraining saved;
  saved.run(2);
  checkpoint_of(saved).save(d.file("c"));

  struct Other : SmallModel {
    void fields(nn::Fields& f) override {
      SmallModel::fields(f);
      f.of(*this, "extra")(extra);
    }
    nn::Linear extra{2, 3};
  };
  SmallTraining t(5);
  t.run(1);
  Other other;
  other.out = nn::Linear(16, 12);
  optim::SGD sgd(other.named_parameters(), 0.1);
  const auto before = copied(other);
  const auto state = t.loader.state_dict();
  Checkpoint c;
  c.add("loader", t.loader).add("model", other).add("optimizer", sgd).add("mine", *t.model);
  const std::uint64_t calls = default_generator().calls();
  CHECK_THROWS_AS(c.load(d.file("c")), Error);
  CHECK_THROWS_WITH(c.load(d.file("c")),
                    Contains("does not fit; nothing was loaded") &&
                        Contains("missing: extra.weight [3, 2], extra.bias") &&
                        Contains("misshapen: out.weight is [11, 16], here [12, 16], out.bias is [11], here [12]") &&
                        Contains("unexpected: the part 'schedule', tensors: ") && Contains("exp_avg") &&
                        Contains("missing: embedding.weight") &&
                        Contains("(load_from_checkpoint() loads one part and leaves the others)"));
  CHECK(same_state(other.state_dict(), before));
  CHECK(sgd.lr() == 0.1);
  CHECK(default_generator().calls() == calls);
  CHECK(default_generator().seed() == 5);
  CHECK(same_state(t.loader.state_dict(), state));
}

TEST_CASE("checkpoint: a part that fails in a way of its own leaves the others as they were", "[checkpoint]") {
  const Directory d;
  SmallTraining saved;
  Checkpoint c = checkpoint_of(saved);
  const auto nothing = [] { return StateDict(); };
  c.add("mine", nothing, [](const StateDict&) {}).save(d.file("c"));
  SmallTraining t(5);
  const auto before = copied(*t.model);
  Checkpoint other = checkpoint_of(t);
  other.add("mine", nothing, [](const StateDict&) { throw std::bad_alloc(); });
  CHECK_THROWS_AS(other.load(d.file("c")), std::bad_alloc);
  CHECK(same_state(t.model->state_dict(), before));
  CHECK(default_generator().seed() == 5);
}

TEST_CASE("checkpoint: a refused load leaves a loop over the data as it was, prefetching too", "[checkpoint]") {
  struct Counted : data::Dataset {
    std::int64_t size() const override { return 10; }
    data::Example get(std::int64_t i) const override { return ++asked, data::Example{full({}, i, int64)}; }
    mutable std::atomic<int> asked{0};
  };
  const Directory d;
  for (const int prefetch : {0, 2}) {
    const auto options = data::LoaderOptions().batch_size(2).shuffle().seed(4).prefetch(prefetch);
    const auto data = std::make_shared<Counted>();
    data::DataLoader loader(data, options), elsewhere(data, options), untouched(data, options);
    nn::Linear narrow(2, 1), wide(3, 1);
    int batches = 0;
    for ([[maybe_unused]] const data::Batch& b : elsewhere)
      if (++batches == 3) break;
    Checkpoint().add("loader", elsewhere).add("model", wide).save(d.file("c"));
    std::vector<double> expected, seen;
    for (const data::Batch& b : untouched) expected.push_back(b[0][0].item());

    Checkpoint c;
    c.add("loader", loader).add("model", narrow);
    const auto refused = [&] {
      const auto before = loader.state_dict();
      CHECK_THROWS_WITH(c.load(d.file("c")), Contains("misshapen: weight is [1, 3], here [1, 2]"));
      CHECK(same_state(loader.state_dict(), before));
    };
    data->asked = 0;
    for (const data::Batch& b : loader) {
      seen.push_back(b[0][0].item());
      if (seen.size() == 2) refused();
    }
    CHECK(seen == expected);
    CHECK(data->asked == 10);  // what had been prefetched was not made anew
    for ([[maybe_unused]] const data::Batch& b : loader) {
      refused();
      break;
    }
    CHECK(loader.epoch() == 1);
    loader.begin();
    CHECK(loader.epoch() == 2);  // as after any loop that is left early
    // And what fits is taken up, by the loop that runs.
    Checkpoint().add("loader", loader).add("model", wide).load(d.file("c"));
    CHECK(loader.epoch() == 0);
    CHECK(same_state(loader.state_dict(), elsewhere.state_dict()));
  }
}

TEST_CASE("checkpoint: saved between two epochs, it goes on with the next one", "[checkpoint]") {
  const Directory d;
  const auto make = [] {
    return data::DataLoader(data::TensorDataset({arange(6)}), data::LoaderOptions().batch_size(2).shuffle().seed(5));
  };
  // The examples of each epoch from this one on.
  const auto run = [&](data::DataLoader& loader, int first) {
    std::vector<std::vector<double>> seen;
    for (int epoch = first; epoch < 3; ++epoch) {
      Checkpoint().add("loader", loader).save(d.file(std::to_string(epoch)));
      seen.emplace_back();
      for (const data::Batch& b : loader) seen.back().insert(seen.back().end(), {b[0][0].item(), b[0][1].item()});
    }
    return seen;
  };
  data::DataLoader whole = make();
  const auto epochs = run(whole, 0);
  for (int stop = 0; stop < 3; ++stop) {
    data::DataLoader resumed = make();
    Checkpoint().add("loader", resumed).load(d.file(std::to_string(stop)));
    CHECK(run(resumed, stop) == std::vector(epochs.begin() + stop, epochs.end()));
  }
}

TEST_CASE("checkpoint: other files are refused", "[checkpoint]") {
  const Directory d;
  SmallTraining t;
  const auto before = copied(*t.model);
  Checkpoint c = checkpoint_of(t);
  const auto refused = [&](const std::string& why) {
    CHECK_THROWS_AS(c.load(d.file("c")), FileError);
    CHECK_THROWS_WITH(c.load(d.file("c")), Contains(d.file("c")) && Contains(why));
    CHECK(same_state(t.model->state_dict(), before));
  };
  refused("there is no such file");
  save_safetensors(d.file("c"), t.model->state_dict());
  refused("it is no checkpoint");
  save_safetensors(d.file("c"), {}, {{"fit.checkpoint", "3"}, {"fit.step", "0"}});
  refused("it is of version 3: this library reads up to version 2");
  save_safetensors(d.file("c"), {}, {{"fit.checkpoint", "2"}, {"fit.step", "0"}});
  refused("it is damaged: its checksum is not that of what it holds");
  save_safetensors(d.file("c"), {}, {{"fit.checkpoint", "1"}, {"fit.step", "-3"}});
  refused("'fit.step' must be a whole number of 0 or more, and is '-3'");
  save_safetensors(d.file("c"), {}, {{"fit.checkpoint", "1x"}, {"fit.step", "3"}});
  refused("is '1x'");
  c.save(d.file("c"));
  const std::string good = get(d.file("c"));
  put(d.file("c"), good.substr(0, good.size() - 1));
  refused("is the file truncated?");
  for (const std::size_t place : {good.size() - 1, good.size() / 2, good.find("fit.step") + 11}) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 1);  // of a weight, say: nothing else could tell
    put(d.file("c"), bad);
    refused("it is damaged: its checksum");
  }

  CHECK_THROWS_WITH(c.add("model", *t.model), Contains("there are two parts 'model'"));
  CHECK_THROWS_WITH(c.add("a.b", *t.model), Contains("must not be empty or hold a '.'"));
  const auto nothing = [] { return StateDict(); };
  CHECK_THROWS_WITH(c.add("half", nothing, nullptr), Contains("the part 'half' lacks a function"));
  CHECK_THROWS_WITH(c.add("half", nullptr, [](const StateDict&) {}), Contains("the part 'half' lacks a function"));
  CHECK_NOTHROW(c.add("half", nothing, [](const StateDict&) {}));  // what was refused is not there
}

TEST_CASE("checkpoint: a layer alone can be loaded, and the file asked what it is", "[checkpoint]") {
  const Directory d;
  SmallTraining t;
  t.run(1);
  Checkpoint c = checkpoint_of(t);
  c.step = 12;
  c.config = {{"heads", "4"}, {"note", ""}};
  c.save(d.file("c"));
  const CheckpointInfo info = checkpoint_info(d.file("c"));
  CHECK(info.version == 2);
  CHECK(info.step == 12);
  CHECK(info.config == c.config);
  manual_seed(77);
  SmallModel fresh;
  load_from_checkpoint(d.file("c"), fresh);
  CHECK(same_state(fresh.state_dict(), t.model->state_dict()));
  CHECK_THROWS_WITH(load_from_checkpoint(d.file("c"), fresh, "ema"),
                    Contains("it has no part 'ema'; it has ") && Contains("model, optimizer"));

  optim::ExponentialMovingAverage average(t.model->named_parameters(), 0.5), other(fresh.named_parameters());
  t.run(1);
  average.update();
  c.add("average", average).save(d.file("c"));
  load_from_checkpoint(d.file("c"), other, "average");
  CHECK(same_state(other.state_dict(), average.state_dict()));
}

// FIT_STORE=tests/golden fit_tests "[.store]" writes the file of the present version there. (Whoever runs all tests of
// this file runs this one, too: without the folder it writes none.)
TEST_CASE("checkpoint: write the file that is stored", "[.store]") {
  Stored s;
  s.layer(tensor({{1., 2.}})).sum().backward();
  s.optimizer.step();
  Checkpoint c;
  c.add("model", s.layer).add("optimizer", s.optimizer);
  c.step = 1;
  c.config["in"] = "2";
  if (const char* folder = std::getenv("FIT_STORE"))
    c.save(std::string(folder) + "/checkpoint_v" + std::to_string(Checkpoint::version) + ".safetensors");
}

TEST_CASE("checkpoint: a file of each version still loads", "[checkpoint]") {
  const int version = GENERATE(1, 2);
  const std::string file = std::string(FIT_GOLDEN_DIR) + "/checkpoint_v" + std::to_string(version) + ".safetensors";
  CHECK(checkpoint_info(file).version == version);
  Stored s;
  default_generator().set_state(1, 1);
  Checkpoint c;
  c.add("model", s.layer).add("optimizer", s.optimizer);
  c.load(file);
  CHECK(c.step == 1);
  CHECK(c.config.at("in") == "2");
  CHECK(default_generator().seed() == 7);
  CHECK(default_generator().calls() == 2);
  // One step from weight (0.5, -1), bias 2 with gradients (1, 2), 1 and rate 0.1.
  CHECK(max_difference(s.layer.weight.detach(), tensor({{0.4, -1.2}})) < 1e-6);
  CHECK(max_difference(s.layer.bias.detach(), tensor({1.9})) < 1e-6);
  // The second: momentum 0.9 of these gradients, and they again.
  s.layer(tensor({{1., 2.}})).sum().backward();
  s.optimizer.step();
  CHECK(max_difference(s.layer.weight.detach(), tensor({{0.21, -1.58}})) < 1e-6);
}

}  // namespace fit::test::checkpoint_test
