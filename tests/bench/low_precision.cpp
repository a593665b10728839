// The standard workloads in low precision: NAME_bf16 is NAME under Autocast, with float32 parameters; of attention,
// decoding and the encoder, with all in bfloat16. NAME_int8: with int8 weights, one scale a row or 32 numbers; of the
// encoder, and as NAME_int8_activations, with activations rounded to int8, too. NAME_int4: weights of 4 bits.
// NAME_reproducible: in the mode Reproducible.
#include <algorithm>
#include <utility>

#include "bench.hpp"
#include "fit/fit.hpp"

namespace fit::bench {
namespace {

// Values and gradients of what the workloads are made of, beside float32.
void check_autocast() {
  const auto run = [](DType dtype) {
    manual_seed(3);
    nn::GPT model(nn::GPTOptions().vocab_size(65).context_length(32).num_layers(2).num_heads(4).d_model(64));
    const Tensor ids = randint(0, 65, {2, 32}), targets = randint(0, 65, {2, 32});
    Tensor loss;
    {
      const Autocast guard(dtype);
      loss = model.loss(ids, targets);
    }
    loss.backward();
    std::vector<Tensor> all{loss.detach()};
    for (const auto& [name, p] : model.named_parameters())
      if (name.find("w_k.bias") == std::string::npos) all.push_back(p.grad());
    return all;
  };
  const std::vector<Tensor> low = run(bfloat16), full = run(float32);
  expect_close("the loss under Autocast", low[0], full[0], 0.01);
  for (std::size_t i = 1; i < low.size(); ++i) {
    const double off = norm(low[i] - full[i]).item(), size = norm(full[i]).item();
    if (!(off <= 0.05 * size))
      throw std::runtime_error("a gradient under Autocast is off by " + std::to_string(off / size));
  }
}

}  // namespace

std::vector<Workload> low_precision_workloads() {
  std::vector<Workload> all;
  const auto add = [&all](const std::vector<const char*>& names, const std::vector<Workload>& from,
                          const auto& change) {
    for (Workload w : from) {
      if (std::find(names.begin(), names.end(), w.name) == names.end()) continue;
      w.name += "_bf16";
      w.limit = Limit::gemm_bf16;
      change(w);
      all.push_back(std::move(w));
    }
  };
  const auto under_autocast = [](Workload& w) {
    w.make = [make = w.make]() -> std::function<void()> {
      return [step = make()] {
        const Autocast guard(bfloat16);
        step();
      };
    };
    w.check = check_autocast;
  };
  add({"sdpa_fwdbwd_b4h12t256d64_causal", "sdpa_fwdbwd_b1h12t1024d64_causal"}, attention_workloads(bfloat16),
      [](const Workload&) {});
  add({"linear_768x128x512", "linear_256x768x3072"}, op_workloads(), under_autocast);
  add({"mha_b8t128c512h8", "gpt_char_l4h4c128_b12t64", "gpt_small_l6h6c384_b8t256", "gpt2_124m_b4t64"},
      model_workloads(), under_autocast);
  for (const Weights& weights : {Weights::bfloat16, Weights::int8}) {
    all.push_back(decode(weights));
    all.push_back(reproducible(decode(weights)));
  }
  for (const Weights& weights :
       {Weights::int8_group32, Weights::int8_activations, Weights::int4, Weights::int4_activations})
    all.push_back(decode(weights));
  for (const Weights& weights :
       {Weights::bfloat16, Weights::int8, Weights::int8_group32, Weights::int8_activations, Weights::int4_activations})
    all.push_back(prompt(weights));
  for (Workload& w : encoders(Weights::bfloat16, "_bf16")) all.push_back(std::move(w));
  // The peers' int8 rounds activations, too.
  for (Workload& w : encoders(Weights::int8_activations, "_int8")) all.push_back(std::move(w));
  return all;
}

}  // namespace fit::bench
