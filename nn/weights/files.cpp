#include "base/affixes.hpp"
#include "common/load.hpp"
#include "fit/io/npz.hpp"
#include "fit/io/safetensors.hpp"
#include "layer/list.hpp"
#include "layer/parametrized.hpp"
#include "models/saved_options.hpp"
#include "tensor/check.hpp"
#include "weights/steps.hpp"

namespace fit::nn {
namespace {

LoadReport report(const Layer& layer, const std::vector<io::Stored>& theirs, const NameMap& map) {
  Misfits m = load_fitting(layer.name(), layer.state_dict(), mapped_to_ours(theirs, map));
  return {std::move(m.missing), std::move(m.unexpected), std::move(m.misfitting)};
}

}  // namespace

// A map names weights. It has no names for the tensors from which a weight is computed.
void check_plain_weights(const char* op, const Layer& layer, const char* or_else) {
  for (const auto& [name, p] : layer.named_layers<detail::Parametrized>())
    check::fail(op, name, p->parametrization ? " is parametrised" : " is quantised",
                ", which the names of the map can't say: ",
                p->parametrization ? "merge_lora() or remove_parametrization()" : "remove_parametrization()", " first",
                or_else);
}

void load_weights(Layer& layer, const StateDict& theirs, const NameMap& map) {
  load_values("load_weights", layer.name(), layer.state_dict(), mapped_to_ours(io::stored(theirs), map));
}

void load_weights(Layer& layer, const std::string& path, const NameMap& map) {
  if (const std::string wrong = differing_options(layer, io::metadata_of(path)); !wrong.empty())
    check::fail("load_weights", path, " holds the weights of a model with other options; nothing was loaded:", wrong,
                "\n  GPT::load(path) makes the model of the file; load_weights(layer, load_safetensors(path).tensors) "
                "loads the weights all the same");
  load_values("load_weights", layer.name(), layer.state_dict(), mapped_to_ours(io::open_tensors(path), map));
}

void map_weights(Layer& layer, const std::string& path, const NameMap& map) {
  StateDict mine;  // the tensors themselves
  each_value(layer, [&](const std::string& name, const Field& field) { mine.emplace_back(name, field.value()); });
  map_values("load_weights", layer.name(), mine, mapped_to_ours(io::open_tensors(path), map));
}

LoadReport load_fitting_weights(Layer& layer, const StateDict& theirs, const NameMap& map) {
  return report(layer, io::stored(theirs), map);
}

LoadReport load_fitting_weights(Layer& layer, const std::string& path, const NameMap& map) {
  return report(layer, io::open_tensors(path), map);
}

void save_weights(const std::string& path, const Layer& layer, const NameMap& map) {
  if (!map.empty()) check_plain_weights("save_weights", layer, ", or save without a map");
  const StateDict theirs = to_theirs(layer.state_dict(), map);
  if (ends_with(path, ".npz"))
    save_npz(path, theirs);
  else
    save_safetensors(path, theirs, saved_options(layer));
}

}  // namespace fit::nn
