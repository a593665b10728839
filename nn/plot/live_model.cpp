#include "plot/live_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "fit/nn/layer/init.hpp"
#include "fit/nn/layers/position.hpp"
#include "fit/ops/ops.hpp"
#include "io/half.hpp"
#include "models/compared_options.hpp"
#include "models/gpt_options.hpp"
#include "plot/figures/encode.hpp"
#include "tensor/check.hpp"

namespace fit::plot {

Tensor logits_of(const nn::GPT& model, const Tensor& ids) {
  const NoGrad no_grad;
  return model(ids.unsqueeze(0))[0];
}

namespace {

using json = io::Json;
constexpr std::int64_t max_parameters = 8'000'000;

// nn::GPT(model.options()), the model that the page's script computes. Its head has a bias if the model's has, and it
// has no last norm if the model has none. Draws no random numbers.
nn::GPT twin_of(const nn::GPT& model) {
  const nn::init::Skip undrawn;
  nn::GPT twin(model.options());
  if (model.head.has_bias()) twin.head.bias = nn::Parameter(zeros({model.options().vocab_size()}));
  if (!model.ln_f) twin.ln_f = nullptr;
  return twin;
}

// Throws Error unless the twin has the model's layers and parameters. Gives it the values `weights`, as they are
// stored.
void load(const char* op, nn::GPT& twin, const StateDict& weights, bool wide) {
  StateDict rounded;
  for (const auto& [name, x] : weights) {
    if (!is_floating(x.dtype()))
      check::fail(op, "'", name, "' is ", x.dtype(), ": the weights of a page must be floating");
    Tensor values = x.detach().to(float32).clone();
    for (float& v : values.edit<float>()) {
      if (!std::isfinite(v) || (!wide && std::abs(v) >= 65520))
        check::fail(op, "'", name, "' has the value ", v,
                    std::isfinite(v) ? ": float16 ends at 65504; use float32()" : ": weights must be finite");
      if (!wide) v = io::half_to_float(io::float_to_half(v));
    }
    rounded.emplace_back(name, values);
  }
  try {
    twin.load_state_dict(rounded);
  } catch (const Error& e) {
    check::fail(op, "the weights are not those of nn::GPT(model.options()): ", e.what());
  }
}

// What the script computes (page/engine) of these options.
nn::GPTOptions computed_options(const nn::GPTOptions& o) {
  nn::GPTOptions all = nn::with_sizes_of(o).bias(o.bias()).qkv_bias(o.qkv_bias()).head_bias(o.head_bias());
  if (o.activation() != nn::Activation::solu && o.activation() != nn::Activation::geglu_tanh)
    all.activation(o.activation());
  all.positions(o.positions()).rotary(o.rotary()).rotary_layout(o.rotary_layout());
  all.norm(o.norm()).norm_place(o.norm_place()).qk_norm(o.qk_norm()).attention_only(o.attention_only());
  all.num_kv_heads(o.num_kv_heads()).head_size(o.head_size()).window(o.window()).windows(o.windows());
  all.head_gates(o.head_gates()).value_embeddings(o.value_embeddings());
  return all.logit_cap(o.logit_cap()).attention_logit_cap(o.attention_logit_cap());
}

// Refuses a model that is not what its options describe. The message names the first part that differs.
void check_supported(const char* op, const nn::GPT& model, nn::GPT& twin) {
  if (model.num_parameters() > max_parameters)
    check::fail(op, "the model has ", model.num_parameters(), " parameters: a page holds at most ", max_parameters);
  nn::expect_options(op, "the models of a page", model.options(), computed_options(model.options()));
  std::map<std::string, const nn::Layer*> known;
  for (const auto& [name, layer] : twin.named_layers()) known[name] = layer;
  for (const auto& [name, layer] : model.named_layers()) {
    const auto at = known.find(name);
    if (at == known.end() || at->second->name() != layer->name() || at->second->describe() != layer->describe())
      check::fail(
          op, "'", name, "' is a ", layer->name(), '(', layer->describe(),
          "): the page computes only what nn::GPT(model.options()) has",
          at == known.end() ? std::string() : ", a " + at->second->name() + '(' + at->second->describe() + ") there");
    known.erase(at);
  }
  if (!known.empty())
    check::fail(op, "the model has no layer '", known.begin()->first, "', as its options describe it");
  load(op, twin, model.state_dict(), true);
  // Windows and angles have no names: the twin's logits show them.
  const std::int64_t T = std::min<std::int64_t>(model.options().context_length(), 1024);
  const Tensor ids = arange(T) * 7 % model.options().vocab_size();
  const auto plain = nn::clone(model);
  plain->to(float32);
  plain->eval();
  const Tensor theirs = logits_of(twin, ids), own = logits_of(*plain, ids);
  if (!equal(own, theirs))
    check::fail(op, "the logits of the model and of nn::GPT(model.options()) differ by ", max(abs(own - theirs)).item(),
                ": its blocks must be those of its options");
}

// The tensors of the page: a tied head is the embedding.
StateDict tensors_of(const nn::GPT& twin) {
  StateDict tensors;
  for (const auto& [name, x] : twin.state_dict())
    if (name != "head.weight" || !twin.options().tie_weights()) tensors.emplace_back(name, x);
  return tensors;
}

// The bytes of all tensors, one after the other, little-endian.
std::string packed(const StateDict& tensors, bool wide) {
  std::string bytes;
  for (const auto& [name, x] : tensors)
    for (const float v : x.data<float>()) {
      std::uint32_t bits = io::float_to_half(v);
      if (wide) std::memcpy(&bits, &v, sizeof bits);
      for (int k = 0; k < (wide ? 4 : 2); ++k) bytes += static_cast<char>(bits >> (8 * k) & 0xff);
    }
  return bytes;
}

// The angle of each pair at position 1, and the factor of its length: rotary_table() has nothing else.
json rotary_of(const nn::GPTOptions& o) {
  const Tensor table = nn::rotary_table(2, o.head_size(), o.rotary());
  json rotary{{"layout", o.rotary_layout() == RotaryLayout::half_split ? "half_split" : "interleaved"},
              {"angles", json::array()},
              {"lengths", json::array()}};
  for (std::int64_t i = 0; i < o.head_size() / 2; ++i) {
    const double cos = table[{1, i, 0}].item(), sin = table[{1, i, 1}].item();
    rotary["angles"].push_back(std::atan2(sin, cos));
    rotary["lengths"].push_back(std::hypot(sin, cos));
  }
  return rotary;
}

}  // namespace

LiveModel::LiveModel(const char* op, const nn::GPT& model, bool wide)
    : op_(op), wide_(wide), twin_(twin_of(model)), present_(model.state_dict()) {
  twin_.eval();
  check_supported(op_, model, twin_);
}

json LiveModel::config() const {
  const nn::GPTOptions& o = twin_.options();
  json config{{"vocab_size", o.vocab_size()},
              {"context_length", o.context_length()},
              {"num_layers", o.num_layers()},
              {"num_heads", o.num_heads()},
              {"num_kv_heads", o.num_kv_heads()},
              {"d_model", o.d_model()},
              {"head_size", o.head_size()},
              {"positions", nn::name_of(o.positions())},
              {"activation", nn::name_of(o.activation())},
              {"norm", o.norm() == nn::Norm::layer ? "layer" : "rms"},
              {"norm_eps", o.norm_eps()},
              {"qk_norm", o.qk_norm()},
              {"logit_cap", o.logit_cap()},
              {"attention_logit_cap", o.attention_logit_cap()},
              {"mlps", !o.attention_only()},
              {"float32", wide_},
              {"parameters", twin_.num_parameters()}};
  config["windows"] = nn::windows_of(o);
  if (o.positions() == nn::Positions::rotary) config["rotary"] = rotary_of(o);
  if (o.positions() == nn::Positions::alibi) config["alibi"] = nn::alibi_slopes(o.num_heads()).to_vector<double>();
  for (const auto& [name, x] : tensors_of(twin_)) {
    json shape = json::array();
    for (int axis = 0; axis < x.rank(); ++axis) shape.push_back(x.size(axis));
    config["tensors"].push_back({{"name", name}, {"shape", shape}});
  }
  return config;
}

std::string LiveModel::blocks(std::vector<ModelSnapshot> snapshots, json& data) {
  if (snapshots.empty()) snapshots.push_back({0, present_});
  std::string blocks;
  for (std::size_t i = 0; i < snapshots.size(); ++i) {
    if (i > 0 && snapshots[i].step <= snapshots[i - 1].step)
      check::fail(op_, "a snapshot of step ", snapshots[i].step, " follows one of step ", snapshots[i - 1].step,
                  ": steps must rise");
    show(snapshots[i].weights);
    blocks += "<script type=\"text/plain\" class=\"block\">" + base64(deflated(packed(tensors_of(twin_), wide_))) +
              "</script>\n";
    data["snapshots"].push_back({{"step", snapshots[i].step}});
  }
  present_ = snapshots.back().weights;
  return blocks;
}

void LiveModel::show(const StateDict& weights) { load(op_, twin_, weights, wide_); }

nn::GPT LiveModel::unrounded() const {
  nn::GPT exact = twin_of(twin_);
  exact.eval();
  load(op_, exact, present_, true);
  return exact;
}

ModelSnapshot model_snapshot(const nn::GPT& model, std::int64_t step) {
  ModelSnapshot snapshot{step, {}};
  for (const auto& [name, x] : model.state_dict()) snapshot.weights.emplace_back(name, x.detach().clone());
  return snapshot;
}

}  // namespace fit::plot
