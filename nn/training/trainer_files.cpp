// The Trainer's files, and its error messages.
#include <filesystem>

#include "common/clock.hpp"
#include "dist/agree.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/dist/dist.hpp"
#include "fit/nn/training/trainer.hpp"
#include "fit/ops/ops.hpp"
#include "io/atomic_file.hpp"
#include "io/folder_lock.hpp"
#include "layer/buffers.hpp"
#include "optim/grad_norm.hpp"
#include "optim/named.hpp"

namespace fit {

namespace fs = std::filesystem;
using data::Batch;

namespace {

constexpr const char *last_name = "last.safetensors", *previous_name = "previous.safetensors",
                     *earlier_name = "earlier.safetensors";

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

// The first row (along the first axis) with an element for which `wrong` is true, or -1.
template <class F>
std::int64_t first_row(const Tensor& x, const F& wrong) {
  if (x.rank() == 0 || x.numel() == 0) return -1;
  const Tensor found = any(wrong(x).reshape({x.size(0), x.numel() / x.size(0)}), 1);
  for (std::int64_t row = 0; row < x.size(0); ++row)
    if (found[row].item<bool>()) return row;
  return -1;
}

}  // namespace

// Makes the folder, and holds it as long as the result lives: a second training would replace the files of this one.
std::shared_ptr<void> Trainer::hold_folder() {
  std::shared_ptr<io::FolderLock> lock;
  if (writes()) {
    std::error_code error;
    fs::create_directories(options_.out(), error);
    if (error) throw FileError("[Trainer] the folder " + options_.out() + " can't be made: " + error.message());
    lock = std::make_shared<io::FolderLock>(options_.out());
  }
  std::string holder = lock ? lock->holder() : "";
  dist::broadcast(holder, world_);
  if (!holder.empty())
    dist::fail_alike("Trainer", "another training writes to the folder ", options_.out(), ": ", holder,
                     "; wait for its end, end it, or give this one another folder");
  return lock;
}

std::int64_t Trainer::restore() {
  const std::string last = path(last_name);
  if (!restored_ && options_.resume() && !options_.out().empty()) {
    double there = fs::exists(last);
    dist::broadcast(there, world_);  // other ranks may have no access to rank 0's disk
    if (there != 0) try {
        checkpoint_.load(last);
        last_is_ours_ = true;
        saved_step_ = checkpoint_.step;
      } catch (const FileError& e) {
        if (!fs::exists(path(previous_name))) throw;
        throw FileError(std::string(e.what()) + "; the state that was saved before it is in " + path(previous_name) +
                        ": to go on from there, give it the name " + last_name);
      }
  }
  restored_ = true;
  return checkpoint_.step;
}

// Throws Error if the folder holds a longer training than this one.
void Trainer::check_folder() {
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

void Trainer::save(const char* name) {
  if (options_.out().empty()) return;
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
  if (writes() && name == std::string(last_name) && fs::exists(path(last_name))) {
    if (!last_is_ours_)
      fs::rename(path(last_name), path(earlier_name));
    else if (saved_step_ != checkpoint_.step)
      link_file(path(last_name), path(previous_name));
  }
  checkpoint_.save(path(name));
}

void Trainer::save_last() {
  save(last_name);
  last_is_ours_ = true;
  saved_step_ = checkpoint_.step;
  saved_ = steady_seconds();
  save_due_ = false;
}

bool Trainer::save_due() const {
  return options_.save_minutes() > 0 && steady_seconds() - saved_ >= 60 * options_.save_minutes();
}

void Trainer::note_place() {
  const Generator& g = default_generator();
  place_ = {loader_.state_dict(), g.seed(), g.calls(), true};
  buffers_->update();
}

// Resets the buffers to the last complete step.
void Trainer::reset_buffers() noexcept try {
  if (place_.whole) buffers_->restore();
} catch (...) {  // run() rethrows the first error
}

// Call reset_buffers() before. Resets the loader and the generator to the last complete step, too. So the resumed
// training repeats the failed step with the same batches and random numbers.
void Trainer::save_after_error(ProgressBar& bar) noexcept try {
  if (options_.out().empty() || !place_.whole || checkpoint_.step == 0 || saved_step_ == checkpoint_.step) return;
  loader_.load_state_dict(place_.loader);
  default_generator().set_state(place_.seed, place_.calls);
  save_last();
  bar.print("An error ended it in step " + std::to_string(checkpoint_.step + 1) + "; the state after step " +
            std::to_string(checkpoint_.step) + " is saved in " + path(last_name));
} catch (...) {  // run() rethrows the first error
}

void Trainer::warn_without_gradient(ProgressBar& bar, TrainerResult& result) const {
  constexpr std::size_t most = 5;
  std::string list;
  std::size_t count = 0;
  for (const auto& [name, p] : trained()) {
    if (p.has_grad() || optim::steps_in_backward(p)) continue;
    result.without_gradient.push_back(name);
    if (++count <= most) list += (count == 1 ? "" : ", ") + name;
  }
  if (count > most) list += " and " + std::to_string(count - most) + " more";
  if (count > 0) bar.print("Without a gradient in the first step, as the loss does not depend on them: " + list);
}

// A likely reason for a loss that is not finite.
std::string Trainer::cause_in(const Batch& batch) const {
  const NoGrad no_grad;
  const std::int64_t first = loader_.rows().first;
  for (const auto& [what, wrong] :
       {std::pair<const char*, Tensor (*)(const Tensor&)>{"NaN", isnan}, {"an infinity", isinf}})
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!batch[i].defined() || !is_floating(batch[i].dtype())) continue;
      if (const std::int64_t row = first_row(batch[i], wrong); row >= 0)
        return "field " + std::to_string(i) + " of the batch holds " + what + " in row " + std::to_string(first + row);
    }
  for (const auto& [name, p] : model_.named_parameters())
    if (!optim::all_finite(p.detach())) return "the parameter " + name + " is not finite";
  return "the learning rate may be too high";
}

}  // namespace fit
