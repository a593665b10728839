#pragma once
#include <atomic>
#include <cstddef>

#include "fit/memory.hpp"
#include "fit/shape.hpp"

// What a Tensor points to. Counts are atomic, so tensors may be shared between threads; the contents are not locked.
namespace fit::detail {

struct Node;

/// A buffer, shared by the tensors that reshape() makes of one another and by what the graph has kept.
struct Storage {
  std::atomic<std::uint32_t> refs{1};
  std::atomic<std::uint32_t> version{0};  // counts writes: backward() compares it with the one it was recorded at
  SizeClass size;                         // of the cache's block that this header begins
  void* data = nullptr;                   // 64-byte aligned, but for a file's
  std::size_t mapped = 0;  // bytes of a file that lie at data (tensor/mapped.hpp); 0: data lie behind this header
  // The elements as bfloat16, once Autocast has wanted them; good for one version (ops/autocast.hpp).
  std::atomic<Storage*> rounded{nullptr};
  std::uint32_t rounded_version = 0;
  std::uint32_t read_version = UINT32_MAX;  // that training has read last without a copy
};

/// Why a tensor without a node can't be differentiated, although something it came from could.
enum class Cut : std::uint8_t {
  no_grad,  // an operation was not recorded
  detach,   // detach() was called
  frozen,   // a leaf was told to want no gradient any more
};

struct TensorImpl {
  /// Takes over one reference to `storage`.
  TensorImpl(Storage* storage, std::int64_t offset, const Shape& shape, DType dtype)
      : dtype(dtype), storage(storage), offset(offset), shape(shape) {}
  std::atomic<std::uint32_t> refs{1};
  DType dtype;
  // The tensor that a leaf node (or retain_grad()'s) was made for: it alone can read the gradient.
  bool owns_grad = false;
  std::uint16_t output = 0;  // which of the node's outputs this is
  Storage* storage;
  std::int64_t offset;           // in elements
  Node* node = nullptr;          // null where no gradient is wanted
  const char* cut_at = nullptr;  // the first operation behind the cut, "" before there is one; null: nothing was cut
  Shape shape;
  Cut cut = Cut::no_grad;  // read only where cut_at is not null
};

/// True if the caller held the last reference. A count of one needs no locked instruction: nobody else can raise it.
inline bool drop(std::atomic<std::uint32_t>& refs) noexcept {
  return refs.load(std::memory_order_acquire) == 1 || refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
}
inline void hold(std::atomic<std::uint32_t>& refs) noexcept { refs.fetch_add(1, std::memory_order_relaxed); }

Storage* new_storage(std::size_t bytes);
/// Lets go of the copy in bfloat16.
void forget_rounded(Storage& s) noexcept;
/// Gives a file's pages back.
void unmap(Storage& s) noexcept;
inline void free_storage(Storage* s) noexcept {
  if (s->rounded.load(std::memory_order_relaxed)) forget_rounded(*s);
  if (s->mapped) unmap(*s);
  release(s, s->size);
}
/// Takes over one reference to `storage`.
TensorImpl* new_impl(Storage* storage, std::int64_t offset, const Shape& shape, DType dtype);
void free_impl(TensorImpl* t) noexcept;

}  // namespace fit::detail
