#include "fit/nn/training/training_listener.hpp"

namespace fit {

TrainingListener::~TrainingListener() = default;

}  // namespace fit
