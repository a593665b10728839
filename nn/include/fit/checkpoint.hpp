#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fit/nn/layer.hpp"
#include "fit/random.hpp"
#include "fit/state_dict.hpp"

namespace fit {

/// A training's whole state in one .safetensors file: what goes on from there gives, bit for bit, what would have come
/// without the stop.
///
///     Checkpoint checkpoint;
///     checkpoint.add("model", model).add("optimizer", optimizer).add("schedule", schedule).add("loader", loader);
///     checkpoint.config["layers"] = "4";
///     checkpoint.step = step;
///     checkpoint.save("out/last.safetensors");
///
/// A part's tensors are there as "model.out.weight". A part is whatever has state_dict() and load_state_dict(): layers,
/// optimisers, schedules, loaders. The default generator is always one.
///
/// Of several ranks (dist::world()) each calls save() and load(): rank 0 writes, and reads for all, so that the file
/// need not be seen by the others. A checkpoint of any number of ranks is the same, and can be gone on from by any.
class Checkpoint {
 public:
  /// The format that is written. All up to it can be read. 2 has a checksum of everything, so that no damage passes.
  static constexpr int version = 2;

  Checkpoint() { add("generator", default_generator()); }

  /// The part must outlive this. Throws Error for a name that is empty, holds a '.', or is there already.
  template <class Part>
  Checkpoint& add(const std::string& name, Part& part) {
    std::function<void(const StateDict&)> check;
    if constexpr (can_check<Part>(0)) check = [&part](const StateDict& s) { part.check_state_dict(s); };
    return add(
        name, [&part] { return part.state_dict(); }, [&part](const StateDict& s) { part.load_state_dict(s); }, check);
  }
  Checkpoint& add(const std::string& name, Generator& generator);
  /// `check` throws what `load` would, and changes nothing. Without it, a part is loaded to see whether it fits, and
  /// what it held before is loaded again if it, or another part, does not.
  Checkpoint& add(const std::string& name, std::function<StateDict()> save, std::function<void(const StateDict&)> load,
                  std::function<void(const StateDict&)> check = {});

  /// Written whole or not at all: the old file of that name stays until the new one is on the disk, and has been read
  /// back. Throws FileError if the new file can't be loaded, and names the part. The old file stays then.
  void save(const std::string& path) const;
  /// What save() would write: the tensors of all parts, as "model.out.weight", live handles where the parts give such.
  StateDict state_dict() const;
  /// Puts everything back, `step` and `config` too. Throws FileError if the file is damaged, is no checkpoint, or is of
  /// a later version, and one Error that lists every name that is missing, unexpected or misshapen in any part; nothing
  /// has been changed then.
  void load(const std::string& path);

  /// Numbers and strings that are saved along: the step of the training, and what tells how to make the model.
  std::int64_t step = 0;
  std::map<std::string, std::string> config;

 private:
  struct Part {
    std::string name;
    std::function<StateDict()> save;
    std::function<void(const StateDict&)> load, check;
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

/// What a checkpoint says of itself, to make the model that it fits.
struct CheckpointInfo {
  int version = 0;
  std::int64_t step = 0;
  std::map<std::string, std::string> config;
};
/// Throws as Checkpoint::load().
CheckpointInfo checkpoint_info(const std::string& path);

/// What one part had saved. Throws as Checkpoint::load().
StateDict checkpoint_part(const std::string& path, const std::string& name);

/// Loads one part out of a checkpoint, to use it without going on with its training: a layer, or an average of weights.
///
///     load_from_checkpoint("out/best.safetensors", model);
///     load_from_checkpoint("out/best.safetensors", average, "average");  // and then average.apply()
template <class Part>
void load_from_checkpoint(const std::string& path, Part& part, const std::string& name = "model") {
  part.load_state_dict(checkpoint_part(path, name));
}

}  // namespace fit
