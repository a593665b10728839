#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/random.hpp"
#include "fit/tensor/state_dict.hpp"

namespace fit {
namespace data {
class DataLoader;
}

/// The full state of a training in one .safetensors file. A resumed training gives the same bits as one without a stop.
///
///     Checkpoint checkpoint;
///     checkpoint.add("model", model).add("optimizer", optimizer).add("schedule", schedule).add("loader", loader);
///     checkpoint.config["layers"] = "4";
///     checkpoint.step = step;
///     checkpoint.save("out/last.safetensors");
///
/// A part is an object with state_dict() and load_state_dict(): a layer, optimiser, schedule or loader. Its tensors are
/// saved as "model.out.weight". The default generator is always a part. Of a layer, the
/// options that weights don't tell (Layer::saved_options()) are saved, too: load() and load_from_checkpoint() throw
/// Error for others, except dropout.
///
/// With several ranks (dist::world()), every rank calls save() and load(). Only rank 0 writes, and reads for all, so
/// other ranks need no access to the file. The checkpoint does not depend on the number of ranks.
class Checkpoint {
 public:
  /// The version of the written format. All versions up to it can be read. Version 2 adds a checksum of all data.
  static constexpr int version = 2;

  Checkpoint();

  /// Adds a part, which must outlive the checkpoint. Throws Error for a name that is empty, holds a '.', or is in use.
  template <class Part>
  Checkpoint& add(const std::string& name, Part& part) {
    std::function<void(const StateDict&)> check;
    if constexpr (can_check<Part>(0)) check = [&part](const StateDict& s) { part.check_state_dict(s); };
    add(
        name, [&part] { return part.state_dict(); }, [&part](const StateDict& s) { part.load_state_dict(s); }, check);
    if constexpr (std::is_base_of_v<nn::Layer, Part>) parts_.back().layer = &part;
    if constexpr (std::is_same_v<Part, data::DataLoader>) parts_.back().place = true;
    return *this;
  }
  Checkpoint& add(const std::string& name, Generator& generator);
  /// `check` throws the Error that `load` would throw, and changes nothing. Without `check`, Checkpoint::load() loads
  /// the part to see whether it fits. If any part does not fit, it loads the old state again.
  Checkpoint& add(const std::string& name, std::function<StateDict()> save, std::function<void(const StateDict&)> load,
                  std::function<void(const StateDict&)> check = {});
  /// The same for a part that is a place, as a DataLoader and a Generator are: a step that fails has moved it on.
  Checkpoint& add_place(const std::string& name, std::function<StateDict()> save,
                        std::function<void(const StateDict&)> load, std::function<void(const StateDict&)> check = {});

  /// Writes the file atomically. The old file stays until the new one is on the disk and has been read back. If the new
  /// file can't be loaded, throws FileError with the name of the part, and the old file stays.
  void save(const std::string& path) const;
  /// The tensors that save() would write, as "model.out.weight". They are live handles if the parts return such.
  StateDict state_dict() const;
  /// Loads all parts, `step` and `config`. Throws FileError if the file is damaged, is not a checkpoint, or has a later
  /// version. Throws one Error that lists every missing, unexpected or misshapen name of all parts. Then nothing has
  /// changed.
  void load(const std::string& path);

  /// The states of all parts that are places, and the way back to them: a failed step can then be repeated.
  std::vector<StateDict> places() const;
  void set_places(const std::vector<StateDict>& places);

  /// Saved values besides the parts: the step of the training, and strings to construct the model.
  std::int64_t step = 0;
  std::map<std::string, std::string> config;

 private:
  struct Part {
    std::string name;
    std::function<StateDict()> save;
    std::function<void(const StateDict&)> load, check;
    const nn::Layer* layer = nullptr;  // the part, if it is a layer
    bool place = false;
  };
  template <class P>
  static constexpr auto can_check(int) -> decltype(std::declval<P&>().check_state_dict(StateDict()), true) {
    return true;
  }
  template <class P>
  static constexpr bool can_check(...) {
    return false;
  }

  std::vector<Part> parts_;
};

/// The step and the strings of a checkpoint, to construct the model before loading it.
struct CheckpointInfo {
  int version = 0;
  std::int64_t step = 0;
  std::map<std::string, std::string> config;
};
/// Throws FileError like Checkpoint::load().
CheckpointInfo checkpoint_info(const std::string& path);

namespace detail {
/// Throws Error if the checkpoint's part `name` had other options than this layer.
void check_options(const std::string& path, const nn::Layer& layer, const std::string& name);
}  // namespace detail

/// The state of one part. Throws FileError like Checkpoint::load(), and if the file has no such part.
StateDict checkpoint_part(const std::string& path, const std::string& name);

/// Loads one part from a checkpoint without resuming the training, such as a layer or an average of weights.
///
///     load_from_checkpoint("out/best.safetensors", model);
///     load_from_checkpoint("out/best.safetensors", average, "average");  // and then average.apply()
template <class Part>
void load_from_checkpoint(const std::string& path, Part& part, const std::string& name = "model") {
  if constexpr (std::is_base_of_v<nn::Layer, Part>) detail::check_options(path, part, name);
  part.load_state_dict(checkpoint_part(path, name));
}

}  // namespace fit
