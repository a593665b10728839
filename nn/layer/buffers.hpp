#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fit/graph/graph.hpp"
#include "fit/nn/layer/layer.hpp"

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

/// A guard: the buffers of a model have copies of their elements while it lives, and then their own again. So the
/// elements keep their bits and their versions, whatever a layer writes.
class KeptBuffers {
 public:
  explicit KeptBuffers(const Layer& model) : model_(model) {
    for (const auto& [name, buffer] : model.named_buffers())
      if (std::none_of(kept_.begin(), kept_.end(),
                       [&b = buffer](const Kept& k) { return k.buffer.impl() == b.impl(); }))
        kept_.push_back({name, buffer, buffer.clone()});
    exchange();
  }
  ~KeptBuffers() {
    exchange();
    try {
      copy_to_assigned();
    } catch (...) {  // out of memory: a buffer that a layer has assigned keeps what the layer gave it
    }
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  struct Kept {
    std::string name;
    Tensor buffer, other;  // other: has the elements that buffer does not have now
  };
  // A layer may have assigned another tensor.
  void copy_to_assigned() {
    const NoGrad no_grad;
    for (auto& [name, now] : model_.named_buffers())
      for (const Kept& kept : kept_)
        if (kept.name == name && now.impl() != kept.buffer.impl() && now.shape() == kept.buffer.shape())
          Tensor(now).copy_(kept.buffer);
  }
  void exchange() noexcept {
    for (Kept& kept : kept_) std::swap(kept.buffer.impl()->storage, kept.other.impl()->storage);
  }

  const Layer& model_;
  std::vector<Kept> kept_;
};

}  // namespace fit::nn
