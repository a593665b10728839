#include "fit/nn/training/checkpoint.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <unordered_map>

#include "common/lent.hpp"
#include "common/load.hpp"
#include "fit/graph/graph.hpp"
#include "fit/io/safetensors.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/tensor/lookup.hpp"
#include "io/stored.hpp"
#include "models/saved_options.hpp"
#include "tensor/check.hpp"

namespace fit {
namespace {

constexpr const char* checkpoint_op = "Checkpoint";
constexpr const char* version_key = "fit.checkpoint";
constexpr const char* step_key = "fit.step";
constexpr const char* checksum_key = "fit.crc32";  // from version 2 on
const std::string config_prefix = "config.", options_prefix = "options.";

struct File {
  CheckpointInfo info;
  StateDict tensors;
  std::map<std::string, std::string> options;  // of models (models/saved_options.hpp)

  /// The tensors of one part, without the prefix of the part.
  StateDict of(const std::string& part) const { return under(tensors, part + '.'); }
};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw FileError(std::string("[") + checkpoint_op + "] " + path + ": " + what);
}

// The CRC-32 of all tensors and strings except the checksum itself, in the order of names.
std::string checksum(const StateDict& tensors, std::map<std::string, std::string> strings) {
  strings.erase(checksum_key);
  uLong sum = crc32_z(0, nullptr, 0);
  const auto add = [&](const void* data, std::size_t bytes) {
    if (bytes > 0) sum = crc32_z(sum, static_cast<const Bytef*>(data), bytes);
  };
  const auto add_text = [&](const std::string& text) { add(text.c_str(), text.size() + 1); };
  for (const auto& [key, value] : strings) add_text(key), add_text(value);
  for (const auto& [name, x] : std::map<std::string, Tensor>(tensors.begin(), tensors.end())) {
    if (!x.defined()) continue;  // writing the tensor throws an Error
    add_text(name), add_text(name_of(x.dtype())), add_text(x.shape().str());
    add(x.raw(), static_cast<std::size_t>(x.numel() * size_of(x.dtype())));
  }
  char text[9];
  std::snprintf(text, sizeof text, "%08lx", sum);
  return text;
}

File read(const std::string& path) {
  SafeTensors all = load_safetensors(path, keep_bfloat16);  // as saved: the checksum is that of the stored elements
  const auto number = [&](const char* key) {
    const std::string& text = all.metadata[key];
    std::int64_t n = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (text.empty())
      fail(path, std::string("it has no '") + key +
                     "' in its metadata: it is no checkpoint. load_weights() loads a file of one "
                     "layer's weights");
    if (error != std::errc() || end != text.data() + text.size() || n < 0)
      fail(path, std::string("'") + key + "' must be a whole number of 0 or more, and is '" + text + "'");
    return n;
  };
  File file;
  const std::int64_t version = number(version_key);
  if (version < 1 || version > Checkpoint::version)
    fail(path, "it is of version " + std::to_string(version) + ": this library reads up to version " +
                   std::to_string(Checkpoint::version));
  file.info.version = static_cast<int>(version);
  if (version > 1 && checksum(all.tensors, all.metadata) != all.metadata[checksum_key])
    fail(path, "it is damaged: its checksum is not that of what it holds");
  file.info.step = number(step_key);
  for (const auto& [key, value] : all.metadata)
    if (key.compare(0, config_prefix.size(), config_prefix) == 0)
      file.info.config[key.substr(config_prefix.size())] = value;
    else if (key.compare(0, options_prefix.size(), options_prefix) == 0)
      file.options[key] = value;
  file.tensors = std::move(all.tensors);
  return file;
}

// Names the first tensor that is not read back as it was saved: "the part 'model' can't be loaded: …"; empty if none.
std::string lost_part(const std::string& written, const StateDict& saved) {
  const std::unordered_map<std::string, Tensor> given(saved.begin(), saved.end());
  for (const io::Stored& x : io::open_tensors(written)) {
    const Tensor& before = given.at(x.name);
    std::string wrong;
    try {
      const Tensor after = x.read();
      const auto bytes = static_cast<std::size_t>(before.numel() * size_of(before.dtype()));
      if (after.dtype() != before.dtype() || after.shape() != before.shape())
        wrong = std::string("is read as ") + name_of(after.dtype()) + ' ' + after.shape().str();
      else if (bytes > 0 && std::memcmp(after.raw(), before.raw(), bytes) != 0)
        wrong = "is read with other values";
    } catch (const FileError& e) {
      wrong = std::string("can't be read: ") + e.what();
    }
    if (!wrong.empty())
      return "the part '" + x.name.substr(0, x.name.find('.')) + "' can't be loaded: " + x.name + ", " +
             name_of(before.dtype()) + ' ' + before.shape().str() + ", " + wrong;
  }
  return {};
}

// Rank 0 reads the file and sends it to the other ranks.
File read_for_all(const std::string& path) {
  dist::World& world = dist::world();
  if (world.size() == 1) return read(path);
  File file;
  std::string wrong;
  if (world.rank() == 0) try {
      file = read(path);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
  dist::broadcast(wrong);
  if (!wrong.empty()) throw FileError(wrong);
  double step = static_cast<double>(file.info.step);
  dist::broadcast(step);
  file.info.step = static_cast<std::int64_t>(step);
  for (auto* const strings : {&file.info.config, &file.options}) {
    double count = static_cast<double>(strings->size());
    dist::broadcast(count);
    auto next = strings->begin();
    std::map<std::string, std::string> all;
    for (int i = 0; i < count; ++i) {
      std::pair<std::string, std::string> entry;
      if (world.rank() == 0) entry = *next++;
      dist::broadcast(entry.first);
      dist::broadcast(entry.second);
      all.insert(entry);
    }
    *strings = std::move(all);
  }
  dist::broadcast(file.tensors);
  return file;
}

StateDict copy_of(const StateDict& state) {
  const NoGrad no_grad;
  StateDict copy;
  for (const auto& [name, tensor] : state) copy.emplace_back(name, tensor.detach().clone());
  return copy;
}

Tensor words_of(const Generator& g) {
  return tensor(std::vector<std::int64_t>{static_cast<std::int64_t>(g.seed()), static_cast<std::int64_t>(g.calls())},
                {2});
}

}  // namespace

Checkpoint::Checkpoint() { add("generator", default_generator()); }

Checkpoint& Checkpoint::add(const std::string& name, std::function<StateDict()> save,
                            std::function<void(const StateDict&)> load, std::function<void(const StateDict&)> check) {
  if (name.empty() || name.find('.') != std::string::npos)
    check::fail(checkpoint_op, "a part is called '", name, "': a name must not be empty or hold a '.'");
  for (const Part& p : parts_)
    if (p.name == name) check::fail(checkpoint_op, "there are two parts '", name, "'");
  if (!save || !load) check::fail(checkpoint_op, "the part '", name, "' lacks a function: it must be saved and loaded");
  parts_.push_back({name, std::move(save), std::move(load), std::move(check)});
  return *this;
}

Checkpoint& Checkpoint::add_place(const std::string& name, std::function<StateDict()> save,
                                  std::function<void(const StateDict&)> load,
                                  std::function<void(const StateDict&)> check) {
  add(name, std::move(save), std::move(load), std::move(check));
  parts_.back().place = true;
  return *this;
}

std::vector<StateDict> Checkpoint::places() const {
  std::vector<StateDict> all;
  for (const Part& p : parts_)
    if (p.place) all.push_back(p.save());
  return all;
}

void Checkpoint::set_places(const std::vector<StateDict>& places) {
  auto next = places.begin();
  for (const Part& p : parts_)
    if (p.place && next != places.end()) p.load(*next++);
}

Checkpoint& Checkpoint::add(const std::string& name, Generator& generator) {
  const auto save = [&generator] { return StateDict{{"seed_and_calls", words_of(generator)}}; };
  return add_place(name, save, [save, &generator](const StateDict& state) {
    const StateDict mine = save();
    nn::load_values("load_state_dict", "Generator", mine, state);
    const auto words = mine[0].second.data<std::int64_t>();
    generator.set_state(static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]));
  });
}

StateDict Checkpoint::state_dict() const {
  StateDict all;
  for (const Part& p : parts_)
    for (auto& [name, tensor] : p.save()) all.emplace_back(p.name + '.' + name, tensor);
  return all;
}

void Checkpoint::save(const std::string& path) const {
  const StateDict all = state_dict();
  for (const auto& [name, x] : all)
    nn::check_not_lent(checkpoint_op, name, x,
                       "restores the weight, which the file would lack (save_weights() writes averages for others)");
  if (dist::world().rank() != 0) return;
  std::map<std::string, std::string> metadata = {{version_key, std::to_string(version)},
                                                 {step_key, std::to_string(step)}};
  for (const auto& [key, value] : config) metadata[config_prefix + key] = value;
  for (const Part& p : parts_)
    if (p.layer) metadata.merge(nn::saved_options(*p.layer, p.name));
  metadata[checksum_key] = checksum(all, metadata);
  io::write_safetensors(path, all, metadata, FloatsAs::own, [&](const std::string& written) {
    const char* const kept = "; nothing was saved, and an old file of that name stays";
    File file;
    try {
      file = read(written);
    } catch (const FileError& e) {
      std::string lost;
      try {
        lost = lost_part(written, all);
      } catch (const FileError&) {  // no tensor can be read
      }
      fail(path, (lost.empty() ? std::string("what was written can't be loaded: ") + e.what() : lost) + kept);
    }
    for (const Part& p : parts_) try {
        if (p.check) p.check(file.of(p.name));
      } catch (const Error& e) {
        fail(path, "the part '" + p.name + "' can't be loaded: " + e.what() + kept);
      }
  });
}

namespace {

// A line for each part of the tensors that is not known, and what to do then.
std::string unexpected_parts(const StateDict& tensors, const std::set<std::string>& known) {
  std::map<std::string, int> others;  // the number of tensors of each
  for (const auto& [name, tensor] : tensors)
    if (const std::string part = name.substr(0, name.find('.')); known.count(part) == 0) ++others[part];
  std::string lines;
  for (const auto& [part, count] : others)
    lines += "\n  unexpected: the part '" + part + "', tensors: " + std::to_string(count);
  return lines.empty() ? lines : lines + "\n  (load_from_checkpoint() loads one part and leaves the others)";
}

}  // namespace

void Checkpoint::load(const std::string& path) {
  const File file = read_for_all(path);
  std::set<std::string> known;
  for (const Part& p : parts_) known.insert(p.name);
  std::string wrong = unexpected_parts(file.tensors, known);
  for (const Part& p : parts_)
    if (p.layer) wrong += nn::differing_options(*p.layer, file.options, p.name);
  // Tries every part, so that one Error lists everything: calls its check, or else loads it. If any part does not fit,
  // restores the loaded parts.
  std::vector<std::pair<const Part*, StateDict>> loaded;
  const auto load = [&](const Part& p) {
    loaded.emplace_back(&p, copy_of(p.save()));  // first, so that a load that fails half-way is undone, too
    p.load(file.of(p.name));
  };
  try {
    for (const Part& p : parts_) try {
        if (p.check)
          p.check(file.of(p.name));
        else
          load(p);
      } catch (const Error& e) {
        wrong += "\n" + p.name + ": " + e.what();
      }
    if (!wrong.empty()) check::fail(checkpoint_op, path, " does not fit; nothing was loaded:", wrong);
    for (const Part& p : parts_)
      if (p.check) load(p);
  } catch (...) {
    for (const auto& [part, before] : loaded) try {
        part->load(before);
      } catch (...) {  // out of memory: still restore the other parts
      }
    throw;
  }
  step = file.info.step;
  config = file.info.config;
}

void detail::check_options(const std::string& path, const nn::Layer& layer, const std::string& name) {
  const std::string wrong = nn::differing_options(layer, load_safetensors(path).metadata, name);
  if (!wrong.empty())
    check::fail(checkpoint_op, path, " holds a model with other options; nothing was loaded:", wrong,
                "\n  GPT::load(path) makes the model of the file");
}

CheckpointInfo checkpoint_info(const std::string& path) { return read(path).info; }

StateDict checkpoint_part(const std::string& path, const std::string& name) {
  const File file = read(path);
  StateDict part = file.of(name);
  if (!part.empty()) return part;
  std::set<std::string> names;
  for (const auto& [tensor, x] : file.tensors) names.insert(tensor.substr(0, tensor.find('.')));
  std::string list;
  for (const std::string& other : names) list += (list.empty() ? "" : ", ") + other;
  fail(path, "it has no part '" + name + "'; it has " + list);
}

}  // namespace fit
