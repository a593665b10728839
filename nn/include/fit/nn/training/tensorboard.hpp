#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

#include "fit/nn/training/training_listener.hpp"
#include "fit/tensor/tensor.hpp"

/// Event files for TensorBoard, which shows them by "tensorboard --logdir runs", also while they are written.
///
///     trainer.listen(std::make_shared<TensorBoardListener>("runs/first"));
///
/// and in a loop of your own:
///
///     SummaryWriter writer("runs/first");
///     writer.add_scalar("loss", loss.item(), step);
namespace fit {

/// Writes an event file of a folder, one record for each call; each is on its way to the disk at once. PyTorch's
/// torch.utils.tensorboard.SummaryWriter. Throws FileError if the file can't be made or written.
class SummaryWriter {
 public:
  /// Makes the folder and a new file in it, events.out.tfevents.*. TensorBoard joins the files of a folder. Earlier
  /// events from `purge_step` on are not shown any more, so that a training that was resumed overwrites what it
  /// repeats.
  explicit SummaryWriter(const std::string& folder, std::int64_t purge_step = 0);
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;
  ~SummaryWriter();

  /// A point of the curve `tag`. It is stored as float.
  void add_scalar(const std::string& tag, double value, std::int64_t step);
  /// How the values of a tensor are distributed: the counts of 30 intervals of equal width between the least and the
  /// greatest. Values that are not finite are not counted. Throws Error for an undefined tensor.
  void add_histogram(const std::string& tag, const Tensor& values, std::int64_t step);
  /// A text, which TensorBoard shows as Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);
  /// The file.
  const std::string& path() const { return path_; }

 private:
  void write(const std::string& event);

  std::string path_;
  std::shared_ptr<std::ostream> file_;
};

/// Writes a Trainer's numbers for TensorBoard: each number of a logged step as a curve, histograms of the parameters
/// and their gradients each TrainerOptions::histograms_every steps, and the title as a text. A training that is resumed
/// goes on in a second file, and TensorBoard shows one curve. If the disk is full, it says so once and the training
/// goes on.
class TensorBoardListener final : public TrainingListener {
 public:
  /// The folder of the event file; by default "tensorboard" in the folder of the training. A training without a folder
  /// then writes nothing.
  explicit TensorBoardListener(std::string folder = "");
  ~TensorBoardListener() override;

  void on_begin(const TrainingStart& start) override;
  void on_gradients(std::int64_t step, const StateDict& parameters) override;
  void on_step(const TrainingRow& row) override;
  void on_end(const TrainerResult& result) override;

 private:
  template <class F>
  void write(const F& f);

  std::string folder_;
  std::unique_ptr<SummaryWriter> writer_;  // during a run, until a write fails
};

}  // namespace fit
