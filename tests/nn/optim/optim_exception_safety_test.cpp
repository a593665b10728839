#include <cmath>
#include <limits>
#include <memory>

#include "fit/graph/graph.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/nn/optim/optim.hpp"
#include "fit/nn/optim/schedule.hpp"
#include "support/exception_safety.hpp"
#include "support/optimizer_groups.hpp"
#include "support/tensors.hpp"

// Every call of optimisers and schedules that changes something, met by an Error: see support/exception_safety.hpp.
namespace fit::test::optim_exception_safety_test {
namespace {

// Two parameters, the second of another size, after two steps.
template <class Optimizer>
struct Optimizing {
  Tensor a = ones({1, 3}).requires_grad_(), b = ones({2, 2}).requires_grad_();
  Optimizer optimizer{{a, b}, 0.1};
  Optimizing() {
    for (int i = 0; i < 2; ++i) use();
  }
  State state() { return State()(a)(b)(optimizer.state_dict())(optimizer.groups())(optimizer.lr()); }
  void use() {
    a.set_grad(tensor({{1., -2., 3.}}));
    b.set_grad(tensor({{0.5, 1.}, {-1., 2.}}));
    optimizer.step();
  }
};

template <class Optimizer, class Bad>
ChangingCall optimizing(const char* name, const Bad& bad) {
  return {name, [=] {
            auto o = std::make_shared<Optimizing<Optimizer>>();
            return Trial{[=] { return o->state(); }, [=] { bad(*o); }, [=] { o->use(); }};
          }};
}

// The first group could take its step, the second can't.
template <class Optimizer>
ChangingCall second_group(const char* name) {
  struct Groups : Optimizing<Optimizer> {
    Tensor c = ones({2, 1}).requires_grad_();
    Groups() {
      this->optimizer.add_param_group({{c}, {}});
      c.set_grad(ones({2, 1}));
      this->optimizer.step();
    }
  };
  return {std::string(name) + "::step with bad options of the second group", [=] {
            auto o = std::make_shared<Groups>();
            return Trial{[=] { return o->state()(o->c); },
                         [=] {
                           const double lr = o->optimizer.lr(1);
                           o->optimizer.set_lr(1, -1);
                           try {
                             o->optimizer.step();
                           } catch (const Error&) {
                             o->optimizer.set_lr(1, lr);
                             throw;
                           }
                         },
                         [=] { o->use(); }};
          }};
}

// The second parameter was converted in between: its averages have the old type.
template <class Optimizer>
ChangingCall converted(const char* name) {
  struct Layers {
    nn::Linear first{2, 2, false}, second{2, 1, false};
    Optimizer optimizer{{first.weight, second.weight}, with_states()};
    static auto with_states() {
      auto options = OptionsOf<Optimizer>().lr(0.1);
      if constexpr (std::is_same_v<Optimizer, optim::SGD>) options.momentum(0.9);
      return options;
    }
    Layers() {
      step();
      second.to(float64);
      second.weight.set_grad(ones({1, 2}, float64));
    }
    void step() {
      first.weight.set_grad(ones({2, 2}));
      second.weight.set_grad(ones({1, 2}, second.weight.dtype()));
      optimizer.step();
    }
  };
  return {std::string(name) + "::step of a converted parameter", [] {
            auto l = std::make_shared<Layers>();
            return Trial{[=] { return State()(l->first.weight)(l->second.weight)(l->optimizer.state_dict()); },
                         [=] { l->optimizer.step(); },
                         [=] {
                           l->second.to(float32);
                           l->step();
                         }};
          }};
}

template <class Bad>
ChangingCall scheduling(const char* name, const Bad& bad) {
  return {name, [=] {
            struct Rates {
              Tensor w = ones({2}).requires_grad_();
              optim::SGD optimizer{{w}, 0.5, 0.9};
              std::shared_ptr<optim::Schedule> exponential = std::make_shared<optim::ExponentialLR>(optimizer, 0.5);
              optim::OneCycleOptions cycle;
              std::shared_ptr<optim::Schedule> one_cycle = std::make_shared<optim::OneCycleLR>(optimizer, 1., 1);
              std::shared_ptr<optim::Schedule> until = std::make_shared<optim::LambdaLR>(
                  optimizer, [](std::int64_t t) { return t < 2 ? 1. : std::nan(""); });
              optim::ChainedScheduler chain{optimizer, {exponential, until}};
              std::shared_ptr<optim::Schedule> later;
              Rates() { chain.step(), one_cycle->step(); }  // both end here
            };
            auto r = std::make_shared<Rates>();
            return Trial{[=] { return State()(r->optimizer.state_dict())(r->chain.state_dict())(r->chain.position()); },
                         [=] { bad(*r); },
                         [=] {
                           r->optimizer.set_lr(0.3);
                           r->later = std::make_shared<optim::LinearLR>(r->optimizer, 0.5, 1, 3);
                           r->later->step();
                         }};
          }};
}

template <class Bad>
ChangingCall averaging(const char* name, const Bad& bad) {
  return {name, [=] {
            struct Averages {
              nn::Linear first{2, 2}, second{2, 2};
              optim::ExponentialMovingAverage average{{first.weight, first.bias, second.weight, second.bias}, 0.5};
            };
            auto a = std::make_shared<Averages>();
            return Trial{
                [=] { return State()(a->average.state_dict())(a->first.state_dict())(a->second.state_dict()); },
                [=] { bad(*a); },
                [=] {
                  const NoGrad no_grad;
                  a->second.to(float32);
                  a->first.weight.add_(1);
                  a->average.update();
                }};
          }};
}

template <class Bad>
ChangingCall clipping(const char* name, const Bad& bad) {
  return {name, [=] {
            auto all = std::make_shared<std::vector<Tensor>>();
            for (int i = 0; i < 2; ++i) all->push_back(ones({2}).requires_grad_());
            (*all)[0].set_grad(tensor({3., 4.}));
            (*all)[1].set_grad(tensor({1., inf}));
            return Trial{[=] { return State()(*all); }, [=] { bad(*all); }, [=] { optim::clip_grad_value_(*all, 1); }};
          }};
}

// ---- all of them --------------------------------------------------------------------------------------------------

using optim::SGD;

const std::vector<ChangingCall>& calls() {
  static const std::vector<ChangingCall> all = {
#define EACH(NAME) second_group<optim::NAME>(#NAME), converted<optim::NAME>(#NAME),
      FIT_OPTIMIZERS(EACH, EACH)
#undef EACH
          optimizing<optim::AdamW>("Optimizer::add_param_group of what is there",
                                   [](auto& o) {
                                     o.optimizer.add_param_group({{ones({1}).requires_grad_(), o.a}, {}});
                                   }),
      optimizing<optim::AdamW>("Optimizer::add_param_group with bad options",
                               [](auto& o) {
                                 const auto bad = optim::AdamWOptions().beta1(2);
                                 o.optimizer.add_param_group({{ones({1}).requires_grad_()}, bad});
                               }),
      optimizing<optim::AdamW>("Optimizer::load_state_dict without a name",
                               [](auto& o) {
                                 auto state = o.optimizer.state_dict();
                                 state[0].second = full({}, 7., float64);
                                 state.pop_back();
                                 o.optimizer.load_state_dict(state);
                               }),
      optimizing<optim::AdamW>("Optimizer::load_state_dict with options out of range",
                               [](auto& o) {
                                 auto state = o.optimizer.state_dict();
                                 state[0].second = full({}, -7., float64);
                                 o.optimizer.load_state_dict(state);
                               }),
      optimizing<optim::AdamW>("Optimizer::load_state_dict with a negative count",
                               [](auto& o) {
                                 auto state = o.optimizer.state_dict();
                                 for (auto& [name, value] : state)
                                   if (name == "1.step") value = full({}, -1, int64);
                                 o.optimizer.load_state_dict(state);
                               }),

      scheduling("Schedule::step past the end, in a chain", [](auto& r) { r.chain.step(); }),
      scheduling("OneCycleLR::step past the end", [](auto& r) { r.one_cycle->step(); }),
      scheduling("Schedule::load_state_dict",
                 [](auto& r) {
                   auto state = r.chain.state_dict();
                   state[0].second = full({1}, 7., float64);
                   state.pop_back();
                   r.chain.load_state_dict(state);
                 }),
      scheduling("Schedule::load_state_dict with a negative position",
                 [](auto& r) {
                   auto state = r.chain.state_dict();
                   state[0].second = full({1}, 7., float64);
                   state[1].second = full({}, -2, int64);
                   r.chain.load_state_dict(state);
                 }),
      scheduling("a schedule that can't be", [](auto& r) { optim::StepLR(r.optimizer, 0); }),
      scheduling("a sequence that can't be",
                 [](auto& r) {
                   optim::SequentialLR(r.optimizer, {r.exponential, r.exponential}, {0});
                 }),
      {"the first schedule, which can't be",
       [] {
         struct First {
           optim::SGD optimizer{{ones({2}).requires_grad_()}, 0.5};
           std::shared_ptr<optim::Schedule> schedule;
         };
         auto f = std::make_shared<First>();
         return Trial{[=] { return State()(f->optimizer.lr()); }, [=] { optim::StepLR(f->optimizer, 0); },
                      [=] {
                        f->optimizer.set_lr(0.25);  // this is the base, and not what the other would have found
                        f->schedule = std::make_shared<optim::LinearLR>(f->optimizer, 0.5, 1, 3);
                        optim::NoamLR(f->optimizer, 4, 2);
                      }};
       }},
      {"OneCycleLR without a momentum",
       [] {
         auto adagrad = std::make_shared<optim::Adagrad>(std::vector<Tensor>{ones({2}).requires_grad_()}, 0.5);
         const auto make = [=](bool momentum) {
           optim::OneCycleLR(*adagrad, 0.1, 5, optim::OneCycleOptions().cycle_momentum(momentum));
         };
         return Trial{[=] { return State()(adagrad->lr()); }, [=] { make(true); }, [=] { make(false); }};
       }},
      {"ReduceLROnPlateau::load_state_dict",
       [] {
         struct Plateau {
           optim::SGD optimizer{{ones({2}).requires_grad_()}, 0.5};
           optim::ReduceLROnPlateau schedule{optimizer};
         };
         auto p = std::make_shared<Plateau>();
         return Trial{[=] { return State()(p->schedule.state_dict())(p->optimizer.lr()); },
                      [=] {
                        auto state = p->schedule.state_dict();
                        state[0].second = full({1}, 7., float64);
                        state.pop_back();
                        p->schedule.load_state_dict(state);
                      },
                      [=] { p->schedule.step(1); }};
       }},

      averaging("ExponentialMovingAverage::update of a converted parameter",
                [](auto& a) {
                  a.second.to(float64);
                  try {
                    a.average.update();
                  } catch (const Error&) {
                    a.second.to(float32);
                    throw;
                  }
                }),
      averaging("ExponentialMovingAverage::load_state_dict",
                [](auto& a) {
                  auto state = a.average.state_dict();
                  state[0].second = zeros({2, 2});
                  state.back().second = zeros({3});
                  a.average.load_state_dict(state);
                }),
      averaging("ExponentialMovingAverage::apply twice",
                [](auto& a) {
                  const auto scope = a.average.apply();
                  const auto again = a.average.apply();
                }),
      clipping("clip_grad_norm_ to less than 0", [](auto& all) { optim::clip_grad_norm_(all, -1); }),
      clipping("clip_grad_norm_ of what is not finite",
               [](auto& all) { optim::clip_grad_norm_(all, 1, optim::error_if_nonfinite); }),
      clipping("clip_grad_value_ to NaN", [](auto& all) { optim::clip_grad_value_(all, std::nan("")); }),
      clipping("clip_grad_value_ of what is undefined",
               [](auto& all) {
                 optim::clip_grad_value_({all[0], Tensor()}, 1);
               }),
  };
  return all;
}

}  // namespace

TEST_CASE("nothing has changed when an Error is thrown: optim", "[exception_safety]") {
  for (const ChangingCall& call : calls()) check_unchanged(call);
}

}  // namespace fit::test::optim_exception_safety_test
