// The library's options: chains keep their type, shorthands stay, wrong calls do not compile.
#include <type_traits>

#include "fit/nn.hpp"
#include "support/catch.hpp"

namespace fit::test::options_test {
namespace {

#define FIT_COMPILES(name, ...)     \
  template <class T, class = void>  \
  struct name : std::false_type {}; \
  template <class T>                \
  struct name<T, std::void_t<decltype(std::declval<T>() __VA_ARGS__)>> : std::true_type {}

FIT_COMPILES(Rate, .lr(3e-4).weight_decay(0.1).amsgrad());
FIT_COMPILES(RateOfText, .lr("3e-4"));
FIT_COMPILES(RateOfBool, .lr(true));
FIT_COMPILES(RateMisspelt, .learning_rate(3e-4));
FIT_COMPILES(Layers, .num_layers(4).dropout(0).tie_weights(false));
FIT_COMPILES(LayersOfFraction, .num_layers(4.5));
FIT_COMPILES(BiasOfNumber, .bias(1));
FIT_COMPILES(Causal, .causal().window(128).dropout(0.1));
FIT_COMPILES(CausalOfNumber, .causal(1));
FIT_COMPILES(ScaleOfBool, .scale(true));
FIT_COMPILES(MaskOfNumber, .mask(1.0));
#undef FIT_COMPILES

template <class T, class U>
constexpr bool same = std::is_same_v<T, U>;

}  // namespace

TEST_CASE("options of the library: right calls compile, wrong ones do not", "[option]") {
  static_assert(Rate<optim::AdamWOptions>::value && !RateOfText<optim::AdamWOptions>::value);
  static_assert(!RateOfBool<optim::AdamWOptions>::value && !RateMisspelt<optim::AdamWOptions>::value);
  static_assert(Layers<nn::GPTOptions>::value && !LayersOfFraction<nn::GPTOptions>::value);
  static_assert(!BiasOfNumber<nn::GPTOptions>::value);
  static_assert(Causal<AttentionOptions>::value && !CausalOfNumber<AttentionOptions>::value);
  static_assert(!ScaleOfBool<AttentionOptions>::value && !MaskOfNumber<AttentionOptions>::value);
  SUCCEED("the compiler has checked it");
}

TEST_CASE("a chain of derived options goes on with their own", "[option]") {
  static_assert(same<decltype(AttentionOptions().causal().mask({}).dropout(0)), AttentionOptions>);
  static_assert(same<decltype(nn::GenerateOptions().top_k(3).max_new_tokens(4)), nn::GenerateOptions>);
  static_assert(same<decltype(nn::TransformerOptions().d_model(8).source_vocab(4)), nn::TransformerOptions>);
  const auto bert = nn::BERTOptions().d_model(8).vocab_size(11);
  const nn::TransformerLayerOptions& layer = bert;
  CHECK(layer.d_model() == 8);
  CHECK(layer.activation() == nn::Activation::gelu);
  CHECK(layer.eps() == 1e-12);
}

TEST_CASE("shorthands for options mean what they stand for", "[option]") {
  const Tensor mask = tensor({{true, false}});
  const auto masks = [](const AttentionTerms& m) { return m; };
  CHECK(masks(mask).mask().raw() == mask.raw());
  CHECK(AttentionOptions(masks(mask)).causal().mask().raw() == mask.raw());
  CHECK(nn::DecoderTerms().memory(mask).memory().mask().raw() == mask.raw());
  nn::Linear net(2, 1);
  CHECK(optim::AdamW(net.named_parameters(), 0.25).options().lr() == 0.25);
  CHECK(optim::SGD(net.named_parameters(), 0.5, 0.75).options().momentum() == 0.75);
  optim::AdamW optimizer(net.named_parameters(), optim::AdamWOptions().lr(0.125));
  optimizer.options().lr(0.5).weight_decay(0);
  CHECK(optimizer.lr() == 0.5);
  CHECK(optimizer.options().weight_decay() == 0);
}

}  // namespace fit::test::options_test
