#pragma once

namespace fit::nn {

/// While one lives, encoders of this thread compute with the padding of their masks: by the same operations for each
/// mask. The numbers at padding are then not 0.
class KeepPadding {
 public:
  KeepPadding() noexcept;
  ~KeepPadding();
  KeepPadding(const KeepPadding&) = delete;
  KeepPadding& operator=(const KeepPadding&) = delete;

 private:
  bool before_;
};

}  // namespace fit::nn
