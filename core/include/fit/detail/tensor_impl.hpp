#pragma once
#include <atomic>
#include <cstddef>

#include "fit/base/memory.hpp"
#include "fit/base/shape.hpp"

// The data behind a Tensor. Counts are atomic, so threads may share tensors; the contents have no lock.
namespace fit::detail {

struct Node;
struct LossTerms;

/// Who owns elements that are not the library's: a mapped file, the memory of another library.
struct ElementsOwner {
  virtual ~ElementsOwner() = default;
};

/// A buffer. Tensors made by reshape() and values kept by the graph share it.
struct Storage {
  std::atomic<std::uint32_t> refs{1};
  std::atomic<std::uint32_t> version{0};  // counts writes; backward() compares it with the recorded version
  SizeClass size;                         // of the cache's block, which begins with this header
  void* data = nullptr;                   // 64-byte aligned, unless it has an owner
  ElementsOwner* owner = nullptr;         // of data, deleted with this buffer; null: data follows this header
  // A copy of the elements for products, valid for copy_version: in bfloat16, or packed (ops/linalg/product_copy.hpp).
  std::atomic<Storage*> copy{nullptr};
  std::uint32_t copy_version = 0;
  std::uint32_t copy_form = 0;              // a ProductForm
  std::uint32_t read_version = UINT32_MAX;  // the version that training last read without a copy
};

/// Why a tensor has no node although a tensor from which it was computed has one.
enum class Cut : std::uint8_t {
  no_grad,  // an operation was not recorded
  detach,   // detach() was called
  frozen,   // requires_grad_(false) was called for a leaf
};

struct TensorImpl {
  /// Takes over one reference to the storage.
  TensorImpl(Storage* held, const Shape& sizes, DType type)
      : dtype(type), owns_grad(false), cut(Cut::no_grad), storage(held), shape(sizes) {}
  std::atomic<std::uint32_t> refs{1};
  DType dtype;
  // The tensor for which a leaf node (or retain_grad()'s) was created: only this tensor can read the gradient.
  bool owns_grad : 1;
  Cut cut : 2;                      // valid if cut_at is not null
  std::uint16_t output = 0;         // index of the output of the node
  Storage* storage;                 // its first element is the tensor's
  Node* node = nullptr;             // null: requires no gradient
  const char* cut_at = nullptr;     // the first operation after the cut, "" before there is one; null: not cut
  LossTerms* loss_terms = nullptr;  // what a loss is a mean of (tensor/loss_terms.hpp); null for all other tensors
  Node* frozen_leaf = nullptr;      // by requires_grad_(false): requires_grad_() brings it back; null if there is none
  Shape shape;
};

/// True if the caller held the last reference. A count of one needs no locked instruction: no other thread raises it.
inline bool drop(std::atomic<std::uint32_t>& refs) noexcept {
  return refs.load(std::memory_order_acquire) == 1 || refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
}
inline void hold(std::atomic<std::uint32_t>& refs) noexcept { refs.fetch_add(1, std::memory_order_relaxed); }

Storage* new_storage(std::size_t bytes);
/// Frees the copy for products.
void forget_copy(Storage& s) noexcept;
inline void free_storage(Storage* s) noexcept {
  if (s->copy.load(std::memory_order_relaxed)) forget_copy(*s);
  delete s->owner;
  release(s, s->size);
}
/// Takes over one reference to `storage`.
TensorImpl* new_impl(Storage* storage, const Shape& shape, DType dtype);
void free_impl(TensorImpl* t) noexcept;
/// Adds what `from` says about a loss to what is known of `to`.
void add_loss_terms(TensorImpl& to, LossTerms& from);

}  // namespace fit::detail
