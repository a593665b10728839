// The validations of a Trainer.
#include <limits>
#include <utility>

#include "common/rollback.hpp"
#include "dist/agree.hpp"
#include "fit/graph/autocast.hpp"
#include "fit/graph/graph.hpp"
#include "fit/nn/training/trainer.hpp"
#include "tensor/check.hpp"
#include "training/evaluation.hpp"
#include "training/loss_parts.hpp"
#include "training/training_files.hpp"

namespace fit {

using data::Batch;

Trainer& Trainer::validation(std::function<double()> validate, std::int64_t every) {
  if (every < 1) check::fail("Trainer", "validation is every ", every, " steps: it must be at least 1");
  if (!validate) check::fail("Trainer", "validation is empty: it must give a number");
  validation_ = {std::move(validate), every};
  return *this;
}

Trainer& Trainer::validation(data::DataLoader& loader, std::int64_t every) {
  validation([this, &loader] { return validation_loss(loader); }, every);
  if (const StateDict place = std::exchange(validation_place_, {}); !place.empty()) loader.load_state_dict(place);
  validation_.loader = &loader;
  return *this;
}

// The place of the next validation. It is no loader if there is none, and a file of before has none.
void Trainer::add_validation_loader() {
  checkpoint_.add_place(
      "validation", [this] { return validation_.loader ? validation_.loader->state_dict() : StateDict(); },
      [this](const StateDict& place) {
        if (!validation_.loader)
          validation_place_ = place;  // of a loader that is given after restore()
        else if (!place.empty())
          validation_.loader->load_state_dict(place);
      },
      [this](const StateDict& place) {
        if (validation_.loader && !place.empty()) validation_.loader->check_state_dict(place);
      });
}

double Trainer::validation_loss(data::DataLoader& loader) {
  LossParts parts;
  for (const Batch& batch : loader) {
    const Tensor loss = loss_of(batch, loader);
    if (const dist::Rows rows = loader.rows(); rows.count > 0)
      parts.add("Trainer", loss, static_cast<double>(rows.count));
  }
  const LossParts all = parts.of_all_ranks("Trainer", world_);
  return all.counts() ? all.loss() : std::numeric_limits<double>::quiet_NaN();
}

// Whether an exception kept the last step of the run before from its validation.
bool Trainer::lacks_validation() const {
  const std::vector<MetricsLog::Row>& rows = metrics_.rows();
  double lacks = validation_is_due() && !rows.empty() &&
                 rows.back().at("step") == static_cast<double>(checkpoint_.step) &&
                 rows.back().count("validation") == 0;
  dist::broadcast(lacks, world_);  // only rank 0 has the metrics
  return lacks != 0;
}

// The step's row stays as it is until it has its validation, and that is saved: an error before the next save would
// lose what no run makes up any more.
void Trainer::make_up_validation(ProgressBar& bar) {
  row_.clear();
  {
    const Rollback not_counted([this, before = early_] { early_ = before; });
    measure();
    files_->save_last();
  }
  files_->end_change();
  TrainingRow row = std::exchange(row_, {});  // it has its line, whatever a listener throws
  const double value = row.at("validation");
  if (world_.rank() == 0) {
    const MetricsLog::Row& before = metrics_.rows().back();
    row.insert(before.begin(), before.end());
    metrics_.replace_last(row);
  }
  tell_validation(bar, value);
  tell([&](TrainingListener& listener) { listener.on_step(row); });
}

void Trainer::validate(ProgressBar& bar) {
  measure();
  files_->end_change();
  tell_validation(bar, row_["validation"]);
}

// Validates, and keeps the best state. The row has the value after that: a row without it gets its validation made up.
void Trainer::measure() {
  const NoGrad no_grad;
  double value;
  {
    const Evaluation evaluation(model_);
    const Autocast precision(options_.autocast());
    value = validation_.loss();
  }
  dist::broadcast(value, world_);
  {
    const Rollback not_counted([this, before = early_] { early_ = before; });
    if (early_.update(value)) files_->save_best();
  }
  row_["validation"] = value;
}

void Trainer::tell_validation(ProgressBar& bar, double value) const {
  tell([&](TrainingListener& listener) { listener.on_evaluation(checkpoint_.step, value); });
  bar.print("step " + std::to_string(checkpoint_.step) + ": validation " + std::to_string(value));
}

}  // namespace fit
