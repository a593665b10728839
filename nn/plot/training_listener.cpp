// The page of a Trainer.
#include <optional>
#include <utility>

#include "fit/nn/training/trainer.hpp"
#include "fit/training_page.hpp"

namespace fit::plot {
namespace {

class PageListener final : public TrainingListener {
 public:
  void on_begin(const TrainingStart& start) override {
    page_.reset(), training_ = Curve{"training"}, validation_ = Curve{"validation"};
    if (start.out.empty()) return;
    folder_ = start.out;
    std::vector<TrainingRow> before;
    for (const TrainingRow& row : start.before) before.push_back(taken(row));
    page_.emplace(folder_ + "/training.html",
                  TrainingPageOptions().title(start.title).steps(start.steps).before(std::move(before)));
  }
  void on_gradients(std::int64_t step, const StateDict& parameters) override {
    if (page_) page_->histograms(step, parameters);
  }
  void on_step(const TrainingRow& row) override {
    if (page_) page_->add(taken(row));
  }
  void on_recording(std::int64_t, const AttentionRecording& recording) override {
    if (page_) page_->heads(recording);
  }
  void on_end(const TrainerResult& result) override {
    if (!page_) return;
    page_->finish(result.end == TrainerResult::End::interrupted ? TrainingState::stopped : TrainingState::done);
    page_.reset();
    if (training_.y.empty()) return;
    std::vector<Curve> curves{training_};
    if (!validation_.y.empty()) curves.push_back(validation_);
    lines(curves, LineOptions().title("Training").xlabel("Step").ylabel("Loss").smooth()).save(folder_ + "/loss.svg");
  }

 private:
  // Adds a row to the curves. The page computes the current rate from tokens; that of the row is the mean since the
  // start.
  TrainingRow taken(TrainingRow row) {
    for (auto& [curve, name] : {std::pair(&training_, "loss"), std::pair(&validation_, "validation")})
      if (const auto found = row.find(name); found != row.end()) {
        curve->x.push_back(row.at("step"));
        curve->y.push_back(found->second);
      }
    row.erase("rate");
    return row;
  }

  std::string folder_;
  std::optional<TrainingPage> page_;  // during a run
  Curve training_, validation_;
};

}  // namespace

std::shared_ptr<TrainingListener> training_page() { return std::make_shared<PageListener>(); }

}  // namespace fit::plot
