#include "training/training_files.hpp"

#include <filesystem>
#include <utility>

#include "common/clock.hpp"
#include "dist/agree.hpp"
#include "fit/ops/ops.hpp"
#include "io/atomic_file.hpp"
#include "io/folder_lock.hpp"
#include "optim/grad_norm.hpp"

namespace fit::detail {

namespace fs = std::filesystem;

namespace {

constexpr const char *last_name = "last.safetensors", *previous_name = "previous.safetensors",
                     *earlier_name = "earlier.safetensors", *best_name = "best.safetensors",
                     *earlier_best_name = "earlier_best.safetensors";

// Makes `to` a hard link to the file `from`, or a copy if the disk has no hard links. Replaces an old `to`: it is there
// at every moment.
void link_file(const std::string& from, const std::string& to) {
  const std::string link = to + ".tmp-link";
  std::error_code error;
  fs::remove(link, error);
  fs::create_hard_link(fs::canonical(from), link, error);
  if (error) return io::copy_file("Trainer", from, to);
  fs::rename(link, to, error);
  if (error) throw FileError("[Trainer] " + from + " can't be kept as " + to + ": " + error.message());
}

}  // namespace

TrainingFiles::TrainingFiles(nn::Layer& model, Checkpoint& checkpoint, const TrainerOptions& options,
                             dist::World& world)
    : model_(model), checkpoint_(checkpoint), options_(options), world_(world) {}

std::shared_ptr<void> TrainingFiles::begin() {
  std::shared_ptr<void> folder = hold_folder();
  restore();
  check_folder();
  saved_ = steady_seconds();
  buffers_ = std::make_unique<nn::SavedBuffers>(model_);
  end_change();
  return folder;
}

std::shared_ptr<void> TrainingFiles::hold_folder() const {
  std::shared_ptr<io::FolderLock> lock;
  if (writes()) {
    io::make_folder("Trainer", options_.out());
    lock = std::make_shared<io::FolderLock>(options_.out());
  }
  std::string holder = lock ? lock->holder() : "";
  dist::broadcast(holder, world_);
  if (!holder.empty())
    dist::fail_alike("Trainer", "another training writes to the folder ", options_.out(), ": ", holder,
                     "; wait for its end, end it, or give this one another folder");
  return lock;
}

void TrainingFiles::restore() {
  const std::string last = path(last_name);
  if (!restored_ && options_.resume() && !options_.out().empty()) {
    double there = fs::exists(last);
    dist::broadcast(there, world_);  // other ranks may have no access to rank 0's disk
    if (there != 0) try {
        checkpoint_.load(last);
        last_is_ours_ = best_is_ours_ = true;
        saved_step_ = checkpoint_.step;
      } catch (const FileError& e) {
        if (!fs::exists(path(previous_name))) throw;
        throw FileError(std::string(e.what()) + "; the state that was saved before it is in " + path(previous_name) +
                        ": to go on from there, give it the name " + last_name);
      }
  }
  restored_ = true;
}

// Throws Error if the folder holds a longer training than this one.
void TrainingFiles::check_folder() const {
  if (options_.out().empty() || last_is_ours_) return;
  double there = 0;
  if (writes() && fs::exists(path(last_name))) try {
      there = static_cast<double>(checkpoint_info(path(last_name)).step);
    } catch (const FileError&) {  // not a checkpoint, or damaged
    }
  dist::broadcast(there, world_);
  if (there > static_cast<double>(options_.steps()))
    dist::fail_alike("Trainer", options_.out(), " holds a training of ", there, " steps, this one has ",
                     options_.steps(), ": set resume to go on from it, give another folder, or remove it");
}

void TrainingFiles::check_finite(const char* name) const {
  for (const auto& [parameter, value] : model_.named_parameters())
    if (!optim::all_finite(value.detach()))
      dist::fail_alike("Trainer", "the parameter ", parameter, " is not finite after step ", checkpoint_.step,
                       ": the learning rate may be too high; ", path(name), " was not written");
  std::string nan;
  for (const auto& [buffer, value] : model_.named_buffers())
    if (is_floating(value.dtype()) && !optim::all_finite(value) && any(isnan(value)).item<bool>()) nan = buffer;
  double has_nan = !nan.empty();
  dist::broadcast(has_nan, world_);  // each rank has its own buffers, rank 0 saves
  if (has_nan != 0)
    dist::fail_alike("Trainer", "the buffer ", nan, " holds NaN after step ", checkpoint_.step,
                     ": look for NaN in the inputs of its layer; ", path(name), " was not written");
}

void TrainingFiles::save_best() { save(best_name); }

void TrainingFiles::save(const char* name) {
  if (options_.out().empty()) return;
  check_finite(name);
  if (writes() && !std::exchange(best_is_ours_, true) && fs::exists(path(best_name)))
    fs::rename(path(best_name), path(earlier_best_name));
  if (writes() && name == std::string(last_name) && fs::exists(path(last_name))) {
    if (!last_is_ours_)
      fs::rename(path(last_name), path(earlier_name));
    else if (saved_step_ != checkpoint_.step)
      link_file(path(last_name), path(previous_name));
  }
  checkpoint_.save(path(name));
}

void TrainingFiles::save_last() {
  save(last_name);
  last_is_ours_ = true;
  saved_step_ = checkpoint_.step;
  saved_ = steady_seconds();
}

bool TrainingFiles::due() const {
  return writes() && options_.save_minutes() > 0 && steady_seconds() - saved_ >= 60 * options_.save_minutes();
}

void TrainingFiles::end_change() {
  last_ = {checkpoint_.places(), true};
  buffers_->update();
}

void TrainingFiles::reset_buffers() noexcept try {
  if (last_.whole) buffers_->restore();
} catch (...) {  // run() rethrows the first error
}

void TrainingFiles::save_after_error(ProgressBar& bar) noexcept try {
  if (!last_.whole) return;
  checkpoint_.set_places(last_.places);
  if (options_.out().empty() || checkpoint_.step == 0 || saved_step_ == checkpoint_.step) return;
  save_last();
  bar.print("An error ended it in step " + std::to_string(checkpoint_.step + 1) + "; the state after step " +
            std::to_string(checkpoint_.step) + " is saved in " + path(last_name));
} catch (...) {  // run() rethrows the first error
}

}  // namespace fit::detail
