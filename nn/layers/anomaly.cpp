// DetectAnomaly: the core finds the operation, the layers tell where it is.
#include "fit/anomaly.hpp"

#include <vector>

#include "fit/nn/layer.hpp"
#include "graph/anomalies.hpp"

namespace fit {

class DetectAnomaly::Watch final : public detail::Anomalies, public nn::detail::Observer {
 public:
  Watch()
      : outer_(std::exchange(detail::thread_state.anomalies, this)),
        outer_observer_(std::exchange(nn::detail::observer, this)) {}
  ~Watch() {
    detail::thread_state.anomalies = outer_;
    nn::detail::observer = outer_observer_;
  }

  void enter(const nn::Layer& layer) override {
    open_.push_back(&layer);
    if (outer_observer_) outer_observer_->enter(layer);
  }
  void leave(const nn::Layer& layer, const Tensor* output) override {
    if (outer_observer_) outer_observer_->leave(layer, output);
    while (!open_.empty() && open_.back() != &layer) open_.pop_back();  // left by an exception
    if (!open_.empty()) open_.pop_back();
  }

  // The dotted name of the innermost layer, seen from the outermost; its class where that is the same.
  std::string place() const override {
    if (open_.empty()) return {};
    for (std::size_t i = open_.size(); i-- > 1;)
      for (const auto& [name, layer] : open_.front()->named_layers())
        if (layer == open_[i]) return name;
    return open_.front()->name();
  }

 private:
  detail::Anomalies* outer_;
  nn::detail::Observer* outer_observer_;
  std::vector<const nn::Layer*> open_;
};

DetectAnomaly::DetectAnomaly() : watch_(std::make_unique<Watch>()) {}
DetectAnomaly::~DetectAnomaly() = default;

}  // namespace fit
