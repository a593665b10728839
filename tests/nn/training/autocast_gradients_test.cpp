#include <algorithm>
#include <cmath>
#include <map>

#include "fit/graph/autocast.hpp"
#include "fit/nn/loss/loss.hpp"
#include "fit/nn/models/transformer.hpp"
#include "fit/nn/weights/weights.hpp"
#include "fit/ops/ops.hpp"
#include "fit/tensor/lookup.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Gradients under Autocast beside PyTorch's autocast, on the transformers of tests/golden/autocast.py.
namespace fit::test::autocast_gradients_test {
namespace {

// 24 random bits for each place: SplitMix64, seeded by the name (FNV-1a).
std::vector<std::int64_t> hashes(const std::string& name, std::int64_t count) {
  std::uint64_t seed = 0xCBF29CE484222325;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t z = seed += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    all.push_back(static_cast<std::int64_t>((z ^ z >> 31) >> 40));
  }
  return all;
}

Tensor ids(const std::string& name, std::int64_t vocab, const Shape& shape) {
  return remainder(tensor(hashes(name, shape.numel()), shape), vocab);
}

Tensor weights(const std::string& name, const Shape& shape, std::int64_t width) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const Tensor u = tensor(hashes(name, shape.numel()), shape).to(float64) * 0x1p-23 - 1;
  if (has("embedding")) return (u * std::sqrt(3. / static_cast<double>(width))).to(float32);
  if (shape.rank() == 2) return (u * std::sqrt(6. / static_cast<double>(shape[0] + shape[1]))).to(float32);
  return (0.2 * u + (has("norm") && has("weight") ? 1 : 0)).to(float32);
}

// The relative errors of the gradients of parameters, by activation.
using Errors = std::map<nn::Activation, std::vector<double>>;

void add_errors(const std::string& name, Errors& errors) {
  const std::vector<std::int64_t> o = hashes(name + "/options", 11);
  const std::int64_t factors[] = {1, 2, 4}, width = 8 * factors[o[0] % 3], vocab = 5 + o[1] % 25;
  const auto options = nn::TransformerOptions()
                           .d_model(width)
                           .num_heads(factors[o[2] % 3])
                           .hidden(width * factors[o[5] % 3])
                           .num_encoder_layers(1 + o[3] % 3)
                           .num_decoder_layers(1 + o[4] % 3)
                           .activation(o[6] % 2 == 1 ? nn::Activation::gelu : nn::Activation::relu)
                           .norm_first(o[7] % 2 == 1)
                           .final_norm(true)
                           .dropout(0)
                           .source_vocab(vocab)
                           .target_vocab(vocab)
                           .max_length(12);
  nn::Transformer model(options);
  nn::NameMap map{nn::rename("transformer.encoder.*", "encoder.*"), nn::rename("transformer.decoder.*", "decoder.*")};
  for (const nn::NameRule& rule : nn::torch_names(model)) map.push_back(rule);
  StateDict state;
  for (const auto& [parameter, value] : nn::to_theirs(StateDict(model.named_parameters()), map))
    state.emplace_back(parameter, weights(name + '/' + parameter, value.shape(), width));
  nn::load_weights(model, state, map);

  const std::int64_t batch = 1 + o[8] % 4, S = 2 + o[9] % 10, T = 2 + o[10] % 10;
  const Tensor source = ids(name + "/source", vocab, {batch, S}), target = ids(name + "/target", vocab, {batch, T}),
               labels = ids(name + "/labels", vocab, {batch, T});
  const auto gradients = [&](DType dtype) {
    model.zero_grad();
    const Autocast precision(dtype);
    nn::cross_entropy(model(source, target), labels).backward();
    StateDict all;
    for (const auto& [parameter, p] : model.named_parameters()) {
      CHECK(p.grad().dtype() == p.dtype());
      all.emplace_back(parameter, p.grad().to(float64));
    }
    return nn::to_theirs(all, map);
  };
  const StateDict low = gradients(bfloat16);
  model.to(float64);
  for (const auto& [parameter, exact] : gradients(float32))
    errors[options.activation()].push_back(norm(at(low, parameter) - exact).item() / norm(exact).item());
}

}  // namespace

TEST_CASE("autocast: the gradients of random transformers are as near float64's as PyTorch's are", "[autocast]") {
  constexpr int cases = 100;
  Errors errors;
  for (int i = 0; i < cases; ++i) add_errors(std::to_string(i), errors);
  // What tests/golden/autocast.py prints.
  struct PyTorch {
    nn::Activation activation;
    std::size_t gradients;
    double median, below_90, below_99;
  };
  for (const PyTorch& torch : {PyTorch{nn::Activation::relu, 2994, 0.01364, 0.04670, 0.15145},
                               {nn::Activation::gelu, 3642, 0.00730, 0.01254, 0.02168}}) {
    std::vector<double>& all = errors[torch.activation];
    std::sort(all.begin(), all.end());
    const auto quantile = [&](double q) { return all[static_cast<std::size_t>(q * (all.size() - 1.))]; };
    INFO(nn::name_of(torch.activation) << ": median " << quantile(0.5) << ", 90 % " << quantile(0.9) << ", 99 % "
                                       << quantile(0.99));
    CHECK(all.size() == torch.gradients);
    // Processors add in different orders. A few models decide the last figure.
    CHECK(quantile(0.5) < 1.25 * torch.median);
    CHECK(quantile(0.9) < 1.25 * torch.below_90);
    CHECK(quantile(0.99) < 1.5 * torch.below_99);
  }
}

}  // namespace fit::test::autocast_gradients_test
