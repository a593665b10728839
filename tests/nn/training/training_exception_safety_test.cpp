#include <cmath>
#include <memory>

#include "fit/nn/data/data.hpp"
#include "fit/nn/tokenizers/text.hpp"
#include "fit/nn/training/checkpoint.hpp"
#include "fit/nn/training/trainer.hpp"
#include "nn/models/small_model.hpp"
#include "support/exception_safety.hpp"
#include "support/files.hpp"

// Every call of data and training that changes something, met by an Error: see support/exception_safety.hpp.
namespace fit::test::training_exception_safety_test {
namespace {

struct Fragile : data::Dataset {
  std::int64_t size() const override { return 10; }
  data::Example get(std::int64_t i) const override {
    if (i == broken) throw Error("example " + std::to_string(i) + " can't be had");
    return {full({}, i, int64)};
  }
  mutable std::int64_t broken = -1;
};

template <class Bad>
ChangingCall loading(const char* name, int prefetch, const Bad& bad) {
  return {name, [=] {
            struct Loop {
              static data::LoaderOptions options(int prefetch) {
                return data::LoaderOptions().batch_size(2).prefetch(prefetch);
              }
              std::shared_ptr<Fragile> data = std::make_shared<Fragile>();
              data::DataLoader loader;
              std::vector<double> seen;
              explicit Loop(int prefetch) : loader(data, options(prefetch)) { run(); }
              void run() {
                for (const data::Batch& b : loader) seen.push_back(b[0][0].item());
              }
            };
            auto l = std::make_shared<Loop>(prefetch);
            return Trial{[=] {
                           State s;
                           s(l->loader.state_dict())(l->loader.epoch());
                           for (const double x : l->seen) s(x);
                           return std::string(s);
                         },
                         [=] { bad(*l); }, [=] { l->run(); }};
          }};
}

template <class Bad>
ChangingCall saving(const char* name, const Bad& bad) {
  return {name, [=] {
            struct Saved {
              Directory d;
              SmallTraining training, other{5};
              Checkpoint checkpoint, further;
              Saved() {
                checkpoint.add("model", *training.model).add("optimizer", *training.optimizer);
                checkpoint.add("schedule", *training.schedule).add("loader", training.loader);
                further.add("model", *other.model);
                training.run(2);
                other.run(1);
                checkpoint.save(d.file("c"));
                further.save(d.file("further"));
                manual_seed(4);
              }
            };
            auto s = std::make_shared<Saved>();
            return Trial{[=] {
                           const SmallTraining& t = s->training;
                           return State()(get(s->d.file("c")))(t.model->state_dict())(t.optimizer->state_dict())(
                               t.schedule->state_dict())(t.loader.state_dict())(s->checkpoint.step);
                         },
                         [=] { bad(*s); },
                         [=] {
                           s->training.run(3, 2);
                           s->checkpoint.step = 3;
                           s->checkpoint.save(s->d.file("c"));
                         }};
          }};
}

// ---- all of them --------------------------------------------------------------------------------------------------

const std::vector<ChangingCall>& calls() {
  static const std::vector<ChangingCall> all = {
      loading("DataLoader::load_state_dict", 0,
              [](auto& l) {
                auto state = l.loader.state_dict();
                state[2].second = full({}, -1, int64);
                l.loader.load_state_dict(state);
              }),
      loading("the first batch of an epoch fails", 0,
              [](auto& l) {
                l.data->broken = 0;
                try {
                  l.loader.begin();
                } catch (const Error&) {
                  l.data->broken = -1;
                  throw;
                }
              }),
      loading("the first batch of an epoch fails in another thread", 2,
              [](auto& l) {
                l.data->broken = 1;
                try {
                  l.loader.begin();
                } catch (const Error&) {
                  l.data->broken = -1;
                  throw;
                }
              }),
      {"random_split",
       [] {
         auto g = std::make_shared<Generator>(3);
         const auto split = [=](std::int64_t rest) {
           data::random_split(data::TensorDataset({arange(10)}), std::vector<std::int64_t>{4, rest}, *g);
         };
         return Trial{[=] { return State()(*g); }, [=] { split(INT64_MAX); }, [=] { split(6); }};
       }},
      saving("Checkpoint::add a second time", [](auto& s) { s.checkpoint.add("model", *s.other.model); }),
      saving("Checkpoint::load of what does not fit", [](auto& s) { s.checkpoint.load(s.d.file("further")); }),
      saving("Checkpoint::save of nothing",
             [](auto& s) {
               Checkpoint more;
               more.add("model", *s.training.model)
                   .add(
                       "more",
                       [] {
                         return StateDict{{"x", Tensor()}};
                       },
                       [](const StateDict&) {});
               more.save(s.d.file("c"));
             }),
      {"EarlyStopping::load_state_dict",
       [] {
         auto e = std::make_shared<EarlyStopping>(3);
         e->update(2);
         return Trial{
             [=] { return State()(e->state_dict()); },
             [=] {
               e->load_state_dict({{"best", full({}, std::nan(""), float64)}, {"since_best", full({}, 1, int64)}});
             },
             [=] { e->update(3); }};
       }},
      {"Vocabulary::save where there is no folder",
       [] {
         auto d = std::make_shared<Directory>();
         const auto save = [=](const std::string& path, const char* text) { text::CharVocabulary(text).save(path); };
         save(d->file("v"), "abc");
         return Trial{[=] { return State()(get(d->file("v"))); }, [=] { save(d->file("v/v"), "xyz"); },
                      [=] { save(d->file("v"), "xyz"); }};
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("nothing has changed when an Error is thrown: training", "[exception_safety]") {
  for (const ChangingCall& call : calls()) check_unchanged(call);
}

}  // namespace fit::test::training_exception_safety_test
