#include <cmath>
#include <memory>

#include "fit/nn/layer/init.hpp"
#include "fit/nn/models/generate.hpp"
#include "fit/nn/models/gpt.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "support/exception_safety.hpp"
#include "support/files.hpp"

// Every call of layers and models that changes something, met by an Error: see support/exception_safety.hpp.
namespace fit::test::nn_exception_safety_test {
namespace {

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
    return nn::GPTOptions().vocab_size(7).context_length(8).num_layers(2).num_heads(2).d_model(8);
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
    return nn::TransformerOptions()
        .d_model(8)
        .num_heads(2)
        .source_vocab(5)
        .target_vocab(6)
        .max_length(6)
        .num_encoder_layers(2)
        .num_decoder_layers(2)
        .dropout(0)
        .tie_weights(false)
        .norm_first();
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

// ---- all of them --------------------------------------------------------------------------------------------------

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
      on_layer("load_weights",
               [](nn::MultiHeadAttention& l) {
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
      on_weight("init::kaiming_normal_", {2},
                [](Tensor& w, Generator& g) {
                  nn::init::kaiming_normal_(w, 0, nn::init::Fan::in, nn::init::Nonlinearity::relu, g);
                }),
      on_weight("init::orthogonal_", {2}, [](Tensor& w, Generator& g) { nn::init::orthogonal_(w, 1, g); }),

      decoding("KVCache::advance", [](Decoding& d) { d.cache.advance(INT64_MAX); }),
      decoding("KVCache::advance back", [](Decoding& d) { d.cache.advance(-1); }),
      decoding("KVCache::truncate", [](Decoding& d) { d.cache.truncate(4); }),
      decoding("KVCache::select",
               [](Decoding& d) {
                 d.cache.select({1, 2});
               }),
      decoding("KVCache::select, where the second layer fails",
               [](Decoding& d) {
                 const Replaced broken(d.cache[1].values, ones({1, 2, 6, 4}));
                 d.cache.select({1, 0});
               }),
      decoding("KVCache::set_padding",
               [](Decoding& d) {
                 d.cache.set_padding({1, 0});
               }),
      decoding("GPT with a token that is not there",
               [](Decoding& d) {
                 d.gpt(tensor({{1}, {7}}), d.cache);
               }),
      decoding("GPT past the cache",
               [](Decoding& d) {
                 d.gpt(zeros({2, 4}, int64), d.cache);
               }),
      decoding("GPT with another batch",
               [](Decoding& d) {
                 d.gpt(zeros({1, 1}, int64), d.cache);
               }),
      decoding("GPT, where the second block fails",
               [](Decoding& d) {
                 const Replaced broken(d.gpt.layer<nn::LayerNorm>("h.1.ln_2").weight, ones({3}));
                 d.gpt(tensor({{1}, {2}}), d.cache);
               }),
      decoding("GPT, where the head fails",
               [](Decoding& d) {
                 const Replaced broken(d.gpt.head.weight, ones({7, 3}));
                 d.gpt.forward_last(tensor({{1}, {2}}), d.cache);
               }),
      translating("Transformer::decode with a token that is not there",
                  [](Translating& t) {
                    t.model.decode(tensor({{1}, {6}}), t.cache);
                  }),
      translating("Transformer::decode past the length",
                  [](Translating& t) {
                    t.model.decode(zeros({2, 5}, int64), t.cache);
                  }),
      translating("Transformer::decode with another batch",
                  [](Translating& t) {
                    t.model.decode(zeros({3, 1}, int64), t.cache);
                  }),
      translating("Transformer::decode, where the second layer fails",
                  [](Translating& t) {
                    const Replaced broken(t.model.decoder.layer<nn::LayerNorm>("layers.1.norm3").weight, ones({3}));
                    t.model.decode(tensor({{1}, {2}}), t.cache);
                  }),
      translating("Transformer::decode, where the head fails",
                  [](Translating& t) {
                    const Replaced broken(t.model.head.weight, ones({6, 3}));
                    t.model.decode(tensor({{1}, {2}}), t.cache);
                  }),
      translating("DecoderCache::select",
                  [](Translating& t) {
                    t.cache.select({1, 2});
                  }),
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
           const Replaced broken(gpt->layer<nn::LayerNorm>("ln_f").bias, full({8}, weight));
           const auto o = nn::GenerateOptions().max_new_tokens(2).generator(g.get());
           return nn::generate(*gpt, {{1, 2}}, o);
         };
         return Trial{[=] { return State()(*g); }, [=] { write(std::nan("")); }, [=] { write(0); }};
       }},
  };
  return all;
}

}  // namespace

TEST_CASE("nothing has changed when an Error is thrown: nn", "[exception_safety]") {
  for (const ChangingCall& call : calls()) check_unchanged(call);
}

}  // namespace fit::test::nn_exception_safety_test
