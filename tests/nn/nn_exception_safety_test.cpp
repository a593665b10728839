#include <cmath>
#include <limits>
#include <memory>

#include "fit/checkpoint.hpp"
#include "fit/data.hpp"
#include "fit/nn/generate.hpp"
#include "fit/nn/gpt.hpp"
#include "fit/nn/init.hpp"
#include "fit/nn/transformer.hpp"
#include "fit/nn/weights.hpp"
#include "fit/optim.hpp"
#include "fit/schedule.hpp"
#include "fit/text.hpp"
#include "fit/trainer.hpp"
#include "nn/small_model.hpp"
#include "support/exception_safety.hpp"
#include "support/files.hpp"

// Every call of nn that changes something, met by an Error: see support/exception_safety.hpp.
namespace fit::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- layers -------------------------------------------------------------------------------------------------------

template <class Bad>
ChangingCall on_layer(const char* name, const Bad& bad) {
  return {name, [=] {
            auto layer = std::make_shared<nn::MultiHeadAttention>(8, 2, 0.0);
            return Trial{[=] { return State()(layer->state_dict())(layer->named_parameters())(layer->training()); },
                         [=] { bad(*layer); },
                         [=] { layer->load_state_dict(nn::MultiHeadAttention(8, 2, 0.0).state_dict()); }};
          }};
}

template <class Bad>
ChangingCall on_weight(const char* name, const Shape& shape, const Bad& bad) {
  return {
      name, [=] {
        auto w = std::make_shared<Tensor>(ones(shape).requires_grad_());
        auto g = std::make_shared<Generator>(5);
        return Trial{[=] { return State()(*w)(*g); }, [=] { bad(*w, *g); }, [=] { nn::init::normal_(*w, 0, 1, *g); }};
      }};
}

// ---- decoding -----------------------------------------------------------------------------------------------------

// A model that has seen three tokens of two rows, and what its cache knows of them: what the next tokens get.
struct Decoding {
  static nn::GPTOptions options() {
    nn::GPTOptions o;
    o.vocab_size = 7, o.context_length = 8, o.num_layers = 2, o.num_heads = 2, o.d_model = 8;
    return o;
  }
  nn::GPT gpt{options()};
  nn::KVCache cache = gpt.make_cache(2, 6);
  Tensor seen;
  Decoding() {
    cache.set_padding({0, 1});
    gpt(tensor({{1, 2, 3}, {4, 5, 6}}), cache);
  }
  State state() {
    State s;
    s(gpt.state_dict())(cache.length())(cache.batch())(seen);
    for (const std::int64_t p : cache.padding()) s(p);
    for (std::size_t i = 0; i < cache.num_layers(); ++i) s(cache[i].keys.shape());
    return s;
  }
  void use() { seen = gpt.forward_last(tensor({{3}, {1}}), cache); }
};

template <class Bad>
ChangingCall decoding(const char* name, const Bad& bad) {
  return {name, [=] {
            auto d = std::make_shared<Decoding>();
            return Trial{[=] { return d->state(); }, [=] { bad(*d); }, [=] { d->use(); }};
          }};
}

// While it lives, the tensor has another value.
class Replaced {
 public:
  template <class Value>
  Replaced(Value& place, const Tensor& value) : place_(place), before_(place) {
    place_ = value;
  }
  ~Replaced() { place_ = before_; }

 private:
  Tensor& place_;
  Tensor before_;
};

struct Translating {
  static nn::TransformerOptions options() {
    nn::TransformerOptions o;
    o.d_model = 8, o.num_heads = 2, o.source_vocab = 5, o.target_vocab = 6, o.max_length = 6;
    o.num_encoder_layers = o.num_decoder_layers = 2, o.dropout = 0, o.tie_weights = false, o.norm_first = true;
    return o;
  }
  nn::Transformer model{options()};
  nn::DecoderCache cache = model.make_cache(tensor({{1, 2}, {3, 4}}), tensor({{{true, false}}, {{true, true}}}));
  Tensor seen;
  Translating() { model.decode(tensor({{1, 2}, {3, 4}}), cache); }
  State state() {
    State s;
    s(cache.self.length())(cache.self.batch())(cache.memory_mask)(seen);
    for (const std::int64_t i : cache.items) s(i);
    for (const nn::KVCache::Layer& m : cache.memory) s(m.keys)(m.values);
    return s;
  }
  void use() { seen = model.decode(tensor({{3}, {1}}), cache); }
};

template <class Bad>
ChangingCall translating(const char* name, const Bad& bad) {
  return {name, [=] {
            auto d = std::make_shared<Translating>();
            return Trial{[=] { return d->state(); }, [=] { bad(*d); }, [=] { d->use(); }};
          }};
}

// ---- optimisers ---------------------------------------------------------------------------------------------------

// Two parameters, the second of another size, after two steps.
template <class Optimizer>
struct Optimizing {
  Tensor a = ones({3}).requires_grad_(), b = ones({2, 2}).requires_grad_();
  Optimizer optimizer{{a, b}, 0.1};
  Optimizing() {
    for (int i = 0; i < 2; ++i) use();
  }
  State state() { return State()(a)(b)(optimizer.state_dict())(optimizer.groups())(optimizer.lr()); }
  void use() {
    a.set_grad(tensor({1., -2., 3.}));
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
    Tensor c = ones({2}).requires_grad_();
    Groups() {
      this->optimizer.add_param_group({{c}, {}});
      c.set_grad(ones({2}));
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
    Optimizer optimizer{{first.weight, second.weight}, 0.1};
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
              optim::ChainedScheduler chain{optimizer, {exponential, one_cycle}};
              std::shared_ptr<optim::Schedule> later;
              Rates() { chain.step(); }  // the cycle ends here
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
            (*all)[1].set_grad(tensor({1., infinity}));
            return Trial{[=] { return State()(*all); }, [=] { bad(*all); }, [=] { optim::clip_grad_value_(*all, 1); }};
          }};
}

// ---- data and training --------------------------------------------------------------------------------------------

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
                data::LoaderOptions o;
                o.batch_size = 2, o.prefetch = prefetch;
                return o;
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

using optim::SGD;

const std::vector<ChangingCall>& calls() {
  static const std::vector<ChangingCall> all = {
      on_layer("Layer::load_state_dict without a name",
               [](nn::Layer& l) {
                 const nn::init::Skip draws_nothing;
                 nn::StateDict state = nn::MultiHeadAttention(8, 2, 0.0).state_dict();
                 state.pop_back();
                 l.load_state_dict(state);
               }),
      on_layer("Layer::load_state_dict of other sizes",
               [](nn::Layer& l) {
                 const nn::init::Skip draws_nothing;
                 l.load_state_dict(nn::MultiHeadAttention(12, 2, 0.0).state_dict());
               }),
      on_layer("Layer::to whole numbers", [](nn::Layer& l) { l.to(int64); }),
      on_layer("load_weights", [](nn::MultiHeadAttention& l) {
        nn::load_weights(l,
                         {{"in_proj_weight", ones({24, 8})},
                          {"in_proj_bias", ones({24})},
                          {"out_proj.weight", ones({8, 8})},
                          {"out_proj.bias", ones({7})}},
                         nn::torch_names(l));
      }),
      on_weight("init::uniform_", {2, 2}, [](Tensor& w, Generator& g) { nn::init::uniform_(w, 2, 1, g); }),
      on_weight("init::normal_", {2, 2}, [](Tensor& w, Generator& g) { nn::init::normal_(w, 0, -1, g); }),
      on_weight("init::trunc_normal_", {2, 2},
                [](Tensor& w, Generator& g) { nn::init::trunc_normal_(w, 0, 1, 2, 1, g); }),
      on_weight("init::xavier_uniform_", {2}, [](Tensor& w, Generator& g) { nn::init::xavier_uniform_(w, 1, g); }),
      on_weight("init::kaiming_normal_", {2}, [](Tensor& w, Generator& g) {
        nn::init::kaiming_normal_(w, 0, nn::init::Fan::in, nn::init::Nonlinearity::relu, g);
      }),
      on_weight("init::orthogonal_", {2}, [](Tensor& w, Generator& g) { nn::init::orthogonal_(w, 1, g); }),

      decoding("KVCache::advance", [](Decoding& d) { d.cache.advance(INT64_MAX); }),
      decoding("KVCache::advance back", [](Decoding& d) { d.cache.advance(-1); }),
      decoding("KVCache::truncate", [](Decoding& d) { d.cache.truncate(4); }),
      decoding("KVCache::select", [](Decoding& d) { d.cache.select({1, 2}); }),
      decoding("KVCache::select, where the second layer fails",
               [](Decoding& d) {
                 const Replaced broken(d.cache[1].values, ones({1, 2, 6, 4}));
                 d.cache.select({1, 0});
               }),
      decoding("KVCache::set_padding", [](Decoding& d) { d.cache.set_padding({1, 0}); }),
      decoding("GPT with a token that is not there", [](Decoding& d) { d.gpt(tensor({{1}, {7}}), d.cache); }),
      decoding("GPT past the cache", [](Decoding& d) { d.gpt(zeros({2, 4}, int64), d.cache); }),
      decoding("GPT with another batch", [](Decoding& d) { d.gpt(zeros({1, 1}, int64), d.cache); }),
      decoding("GPT, where the second block fails",
               [](Decoding& d) {
                 const Replaced broken(d.gpt.h[1].ln_2.weight, ones({3}));
                 d.gpt(tensor({{1}, {2}}), d.cache);
               }),
      decoding("GPT, where the head fails",
               [](Decoding& d) {
                 const Replaced broken(d.gpt.head.weight, ones({7, 3}));
                 d.gpt.forward_last(tensor({{1}, {2}}), d.cache);
               }),
      translating("Transformer::decode with a token that is not there",
                  [](Translating& t) { t.model.decode(tensor({{1}, {6}}), t.cache); }),
      translating("Transformer::decode past the length",
                  [](Translating& t) { t.model.decode(zeros({2, 5}, int64), t.cache); }),
      translating("Transformer::decode with another batch",
                  [](Translating& t) { t.model.decode(zeros({3, 1}, int64), t.cache); }),
      translating("Transformer::decode, where the second layer fails",
                  [](Translating& t) {
                    const Replaced broken(t.model.decoder.layers[1].norm3.weight, ones({3}));
                    t.model.decode(tensor({{1}, {2}}), t.cache);
                  }),
      translating("Transformer::decode, where the head fails",
                  [](Translating& t) {
                    const Replaced broken(t.model.head.weight, ones({6, 3}));
                    t.model.decode(tensor({{1}, {2}}), t.cache);
                  }),
      translating("DecoderCache::select", [](Translating& t) { t.cache.select({1, 2}); }),
      translating("DecoderCache::select, where the second memory fails",
                  [](Translating& t) {
                    const Replaced broken(t.cache.memory[1].values, ones({1, 2, 8}));
                    t.cache.select({1, 1});
                  }),
      {"generate, where no token is possible",
       [] {
         auto gpt = std::make_shared<nn::GPT>(Decoding::options());
         auto g = std::make_shared<Generator>(3);
         const auto write = [=](double weight) {
           const Replaced broken(gpt->ln_f.bias, full({8}, weight));
           nn::GenerateOptions o;
           o.max_new_tokens = 2, o.generator = g.get();
           return nn::generate(*gpt, {{1, 2}}, o);
         };
         return Trial{[=] { return State()(*g); }, [=] { write(std::nan("")); }, [=] { write(0); }};
       }},

      second_group<optim::SGD>("SGD"), second_group<optim::AdamW>("AdamW"), second_group<optim::NAdam>("NAdam"),
      second_group<optim::RMSprop>("RMSprop"), second_group<optim::Lion>("Lion"),
      converted<optim::Adam>("Adam"), converted<optim::AdamW>("AdamW"), converted<optim::NAdam>("NAdam"),
      converted<optim::RAdam>("RAdam"), converted<optim::Adamax>("Adamax"), converted<optim::RMSprop>("RMSprop"),
      converted<optim::Adagrad>("Adagrad"), converted<optim::Lion>("Lion"),
      optimizing<optim::AdamW>("Optimizer::add_param_group of what is there",
                               [](auto& o) { o.optimizer.add_param_group({{ones({1}).requires_grad_(), o.a}, {}}); }),
      optimizing<optim::AdamW>("Optimizer::add_param_group with bad options",
                               [](auto& o) {
                                 optim::AdamWOptions bad;
                                 bad.beta1 = 2;
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
           optim::OneCycleOptions o;
           o.cycle_momentum = momentum;
           optim::OneCycleLR(*adagrad, 0.1, 5, o);
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
      clipping("clip_grad_norm_ of what is not finite", [](auto& all) { optim::clip_grad_norm_(all, 1, optim::error_if_nonfinite); }),
      clipping("clip_grad_value_ to NaN", [](auto& all) { optim::clip_grad_value_(all, std::nan("")); }),
      clipping("clip_grad_value_ of what is undefined",
               [](auto& all) { optim::clip_grad_value_({all[0], Tensor()}, 1); }),

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
               more.add("model", *s.training.model).add(
                   "more", [] { return StateDict{{"x", Tensor()}}; }, [](const StateDict&) {});
               more.save(s.d.file("c"));
             }),
      {"EarlyStopping::load_state_dict",
       [] {
         auto e = std::make_shared<EarlyStopping>(3);
         e->update(2);
         return Trial{[=] { return State()(e->state_dict()); },
                      [=] { e->load_state_dict({{"best", full({}, std::nan(""), float64)}, {"since_best", full({}, 1, int64)}}); },
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

TEST_CASE("nothing has changed when an Error is thrown: nn", "[exception_safety]") {
  for (const ChangingCall& call : calls()) check_unchanged(call);
}

}  // namespace fit::test
