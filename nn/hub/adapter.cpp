#include <algorithm>
#include <cmath>
#include <map>

#include "base/affixes.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/hub/hub.hpp"
#include "fit/nn/layers/fine_tune.hpp"
#include "fit/nn/layers/linear.hpp"
#include "fit/ops/ops.hpp"
#include "hub/family.hpp"
#include "io/atomic_file.hpp"
#include "tensor/check.hpp"

// LoRA adapters in peft's layout. Our layers and theirs share rows of weights in other ways: qkv here is q_proj, k_proj
// and v_proj there. An adapter of one layer is made of those of the layers that its rows come from: the matrices A
// below each other, and the rows of each B in the columns of its A.
namespace fit::nn {
namespace {

constexpr const char *load_adapter_op = "load_adapter", *save_adapter_op = "save_adapter";
constexpr const char* peft_prefix = "base_model.model.";

/// alpha / rank B A is added to a weight.
struct Adapter {
  Tensor A, B;  // [rank, in], [out, rank]
  double alpha = 0;
  std::int64_t rank() const { return A.size(0); }
  double scale() const { return alpha / static_cast<double>(rank()); }
};
using hub::Json;
using Adapters = std::map<std::string, Adapter>;  // by layer

struct Row {
  std::string layer;
  std::int64_t row;
};
using Rows = std::map<std::string, std::vector<Row>>;  // of each layer: where its rows come from

NameMap names_of(const Pretrained& opened) {
  for (const hub::GPTFamily& family : hub::gpt_families())
    if (opened.family == family.model_type) return family.names(opened.gpt().options());
  for (const hub::BERTFamily& family : hub::bert_families())
    if (opened.family == family.model_type) return family.names(opened.bert().options());
  check::fail("Pretrained", "the family is '", opened.family, "', which load_pretrained() does not know");
}

std::string without(const std::string& name, const std::string& end) {
  return name.substr(0, name.size() - end.size());
}

// The name of a layer in transformers 5. In files, and in transformers 4, GPT-NeoX's head has an older one.
std::string newer(const std::string& layer) { return layer == "embed_out" ? "lm_head" : layer; }

// Their layers, made of rows of ours: the map of names moves the numbers of rows.
Rows rows_of_theirs(const Layer& model, const NameMap& names) {
  StateDict numbers;
  std::vector<Row> ours;
  for (const auto& [name, linear] : model.named_layers<Linear>()) {
    const auto begin = static_cast<std::int64_t>(ours.size());
    const std::int64_t n = linear->out_features();
    numbers.emplace_back(name + ".weight", arange(n).reshape({n, 1}) + begin);
    for (std::int64_t i = 0; i < n; ++i) ours.push_back({name, i});
  }
  Rows theirs;
  for (const auto& [name, x] : to_theirs(numbers, names))
    for (const std::int64_t id : x.flatten().to_vector<std::int64_t>())
      theirs[newer(without(name, ".weight"))].push_back(ours[static_cast<std::size_t>(id)]);
  return theirs;
}

Rows inverted(const Rows& rows) {
  Rows all;
  for (const auto& [layer, parts] : rows)
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<Row>& there = all[parts[i].layer];
      there.resize(std::max(there.size(), static_cast<std::size_t>(parts[i].row) + 1));
      there[static_cast<std::size_t>(parts[i].row)] = {layer, static_cast<std::int64_t>(i)};
    }
  return all;
}

// The adapter of a layer whose rows come from these; none if no adapter is there.
Adapter moved(const Adapters& from, const std::vector<Row>& rows) {
  std::vector<std::string> layers;
  for (const Row& row : rows)
    if (from.count(row.layer) > 0 && std::find(layers.begin(), layers.end(), row.layer) == layers.end())
      layers.push_back(row.layer);
  if (layers.empty()) return {};
  const double first = from.at(layers[0]).scale(), scale = first != 0 ? first : 1;
  std::vector<Tensor> A, B;
  for (const std::string& layer : layers) {
    const Adapter& adapter = from.at(layer);
    const std::int64_t zero_row = adapter.B.size(0);
    std::vector<std::int64_t> ids;
    for (const Row& row : rows) ids.push_back(row.layer == layer ? row.row : zero_row);
    const Tensor padded = cat({adapter.B, zeros({1, adapter.rank()})}, 0);
    A.push_back(adapter.A);
    B.push_back(index_select(padded, 0, tensor(ids)) * (adapter.scale() / scale));
  }
  Adapter all{cat(A, 0), cat(B, 1), 0};
  all.alpha = layers.size() == 1 ? from.at(layers[0]).alpha : scale * static_cast<double>(all.rank());
  return all;
}

Adapters moved(const Adapters& from, const Rows& rows) {
  Adapters all;
  for (const auto& [layer, parts] : rows)
    if (Adapter adapter = moved(from, parts); adapter.A.defined()) all.emplace(layer, std::move(adapter));
  return all;
}

// ---- adapter_config.json ------------------------------------------------------------------------------------------

/// The scaling of each layer.
class Scaling {
 public:
  explicit Scaling(const io::Config& c) : alpha_(c.number("lora_alpha", 8)), by_root_(c.boolean("use_rslora", false)) {
    if (c.text("peft_type") != "LORA")
      c.fail("peft_type", " is '", io::shown(c.text("peft_type")), "': only LORA can be read");
    if (c.text("bias", "none") != "none")
      c.fail("bias", " is '", io::shown(c.text("bias")), "': only none can be read");
    const Json& init = c.value("init_lora_weights");
    if (!init.is_null() && !init.is_boolean() && init != "gaussian" && init != "orthogonal" && init != "eva")
      c.fail("init_lora_weights", " is ", io::shown(init.dump()), ": it would change the weights of the model, too");
    if (c.has("alpha_pattern")) read_pattern(c.object("alpha_pattern"), c.value("alpha_pattern"));
    c.ignore({"auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "exclude_modules", "fan_in_fan_out",
              "inference_mode", "layers_pattern", "layers_to_transform", "loftq_config", "lora_dropout",
              "megatron_core", "peft_version", "qalora_group_size", "r", "rank_pattern", "revision", "target_modules",
              "task_type"});
    c.check_all_read();
  }
  // As alpha / rank scales.
  double alpha(const std::string& layer, std::int64_t rank) const {
    double alpha = alpha_;
    for (const auto& [end, value] : patterns_)
      if (layer == end || ends_with(layer, '.' + end)) {
        alpha = value;
        break;
      }
    return by_root_ ? alpha * std::sqrt(static_cast<double>(rank)) : alpha;
  }

 private:
  void read_pattern(const io::Config& pattern, const Json& object) {
    for (const auto& [key, value] : object.items()) {
      if (key.find_first_of("^$*+?()[]{}|\\") != std::string::npos)
        pattern.fail(io::shown(key), " is a regular expression: only names of layers and their ends can be read");
      patterns_.emplace_back(key, pattern.number(key));
    }
  }

  double alpha_;
  bool by_root_;
  std::vector<std::pair<std::string, double>> patterns_;
};

// The layer of theirs with this name, also with or without a first part such as "transformer.".
const std::string* known(const Rows& theirs, const std::string& name) {
  for (const auto& [layer, rows] : theirs)
    for (const auto& [a, b] : {std::pair(&layer, &name), {&name, &layer}})
      if (const std::size_t dot = a->find('.'); *a == *b || (dot != std::string::npos && a->substr(dot + 1) == *b))
        return &layer;
  return nullptr;
}

// Whether the map leaves out a layer of theirs, such as BERT's pooler.
bool is_dropped(const std::string& layer, const NameMap& names) {
  using Kind = NameRule::Kind;
  NameMap renamed;  // other steps need the tensors
  for (const NameRule& rule : names)
    if (rule.kind == Kind::rename || rule.kind == Kind::alias || rule.kind == Kind::drop) renamed.push_back(rule);
  return to_ours({{layer + ".weight", Tensor()}}, renamed).empty();
}

// The adapters of a file, by their names of layers.
Adapters read_adapters(const std::string& path, const Rows& theirs, const NameMap& names, const Scaling& scaling) {
  Adapters all;
  const auto fail = [&](const std::string& name, const auto&... why) {
    throw FileError(joined('[', load_adapter_op, "] ", path, ": tensor '", io::shown(name), '\'', why...));
  };
  for (const auto& [name, x] : load_safetensors(path).tensors) {
    if (name.find(".base_layer.") != std::string::npos) continue;  // peft also saves the model's own head
    const bool first = ends_with(name, ".lora_A.weight");
    if (!starts_with(name, peft_prefix) || (!first && !ends_with(name, ".lora_B.weight")))
      fail(name, " is no part of a LoRA adapter: expected base_model.model.LAYER.lora_A.weight and .lora_B.weight");
    const std::string given = without(name, ".lora_A.weight").substr(std::string(peft_prefix).size());
    const std::string* const layer = known(theirs, newer(given));
    if (!layer && is_dropped(given, names)) continue;
    if (!layer) fail(name, " belongs to no Linear of the model");
    if (x.rank() != 2 || !is_floating(x.dtype())) fail(name, " is ", x.dtype(), ' ', x.shape(), ": expected a matrix");
    Adapter& adapter = all[*layer];
    Tensor& part = first ? adapter.A : adapter.B;
    if (part.defined()) fail(name, " is there twice");
    part = x.to(float32);
    if (first) adapter.alpha = scaling.alpha(given, x.size(0));
  }
  for (const auto& [layer, a] : all) {
    const auto out = static_cast<std::int64_t>(theirs.at(layer).size());
    if (!a.A.defined() || !a.B.defined()) fail(layer, " has one of lora_A and lora_B alone");
    if (a.B.shape() != Shape{out, a.rank()} || a.rank() < 1)
      fail(layer, " has lora_A ", a.A.shape(), " and lora_B ", a.B.shape(), ": expected [rank, in] and [", out,
           ", rank]");
  }
  return all;
}

// What peft needs to make the layers of the adapter. The usual rank and alpha are those of the first layer.
Json adapter_config(const Adapters& adapters, const std::string& family) {
  const Adapter& usual = adapters.begin()->second;
  Json targets = Json::array(), ranks = Json::object(), alphas = Json::object();
  for (const auto& [layer, adapter] : adapters) {
    targets.push_back(layer);
    if (adapter.rank() != usual.rank()) ranks[layer] = adapter.rank();
    if (adapter.alpha != usual.alpha) alphas[layer] = adapter.alpha;
  }
  return {{"peft_type", "LORA"},   {"task_type", nullptr},      {"base_model_name_or_path", nullptr},
          {"r", usual.rank()},     {"lora_alpha", usual.alpha}, {"target_modules", targets},
          {"rank_pattern", ranks}, {"alpha_pattern", alphas},   {"fan_in_fan_out", family == "gpt2"},
          {"bias", "none"},        {"lora_dropout", 0.},        {"inference_mode", true}};
}

}  // namespace

void load_adapter(Pretrained& opened, const std::string& folder) {
  const Scaling scaling(io::Config(load_adapter_op, hub::in_folder(folder, "adapter_config.json")));
  const NameMap names = names_of(opened);
  const Rows theirs = rows_of_theirs(*opened.model, names);
  try {
    StateDict state;
    const Adapters read = read_adapters(hub::in_folder(folder, "adapter_model.safetensors"), theirs, names, scaling);
    for (const auto& [layer, adapter] : moved(read, inverted(theirs))) {
      state.emplace_back(layer + ".lora_A.weight", adapter.A);
      state.emplace_back(layer + ".lora_B.weight", adapter.B);
      state.emplace_back(layer + ".lora_alpha", tensor(adapter.alpha, float64));
    }
    load_lora_state_dict(*opened.model, state);
  } catch (const FileError&) {
    throw;
  } catch (const Error& e) {
    throw FileError(std::string("[") + load_adapter_op + "] " + folder + ": " + e.what());
  }
}

void save_adapter(const std::string& folder, const Pretrained& opened) {
  Adapters ours;
  for (const auto& [name, x] : lora_state_dict(*opened.model)) {
    if (ends_with(name, ".lora_A.weight")) ours[without(name, ".lora_A.weight")].A = x.detach().to(float32);
    if (ends_with(name, ".lora_B.weight")) ours[without(name, ".lora_B.weight")].B = x.detach().to(float32);
    if (ends_with(name, ".lora_alpha")) ours[without(name, ".lora_alpha")].alpha = x.item();
  }
  const Adapters theirs = moved(ours, rows_of_theirs(*opened.model, names_of(opened)));
  StateDict state;
  for (const auto& [layer, adapter] : theirs) {
    state.emplace_back(peft_prefix + layer + ".lora_A.weight", adapter.A);
    state.emplace_back(peft_prefix + layer + ".lora_B.weight", adapter.B);
  }
  io::make_folder(save_adapter_op, folder);
  save_safetensors(hub::in_folder(folder, "adapter_model.safetensors"), state, {{"format", "pt"}});
  io::write_file(save_adapter_op, hub::in_folder(folder, "adapter_config.json"),
                 adapter_config(theirs, opened.family).dump(2) + '\n');
}

}  // namespace fit::nn
