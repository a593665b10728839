#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fit/graph.hpp"
#include "fit/nn/layer.hpp"

namespace fit::nn {

/// Copies of a model's buffers, such as running statistics, to set them back.
class SavedBuffers {
 public:
  explicit SavedBuffers(const Layer& model) : model_(model) { copy(model.named_buffers()); }
  /// Copies the buffers that changed since the last copy. A model that began without buffers is not searched.
  void update() {
    if (!copies_.empty()) copy(model_.named_buffers());
  }
  /// Sets back the buffers that changed since the last copy.
  void restore() const {
    if (copies_.empty()) return;
    const NoGrad no_grad;
    StateDict now = model_.named_buffers();
    for (std::size_t i = 0; i < std::min(now.size(), copies_.size()); ++i)
      if (Tensor& t = now[i].second; !copies_[i].is_of(t) && t.shape() == copies_[i].value.shape())
        t.copy_(copies_[i].value);
  }

 private:
  struct Copy {
    Tensor buffer, value;
    std::uint32_t version = 0;
    bool is_of(const Tensor& t) const { return buffer.impl() == t.impl() && version == t.version(); }
  };
  void copy(const StateDict& buffers) {
    copies_.resize(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (const Tensor& t = buffers[i].second; !copies_[i].is_of(t)) copies_[i] = {t, t.clone(), t.version()};
  }

  const Layer& model_;
  std::vector<Copy> copies_;
};

/// A guard: sets the buffers of a model back.
class KeptBuffers : public SavedBuffers {
 public:
  using SavedBuffers::SavedBuffers;
  ~KeptBuffers() { restore(); }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;
};

}  // namespace fit::nn
