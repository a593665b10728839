#include "fit/tensor/dlpack.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "tensor/check.hpp"
#include "tensor/dispatch.hpp"
#include "tensor/foreign.hpp"

namespace fit {
namespace {

constexpr const char* to_op = "to_dlpack";
constexpr const char* from_op = "from_dlpack";

// DLPack's types, in the order of DType.
constexpr DLDataType dlpack_types[] = {{kDLBool, 8, 1},    {kDLInt, 8, 1},    {kDLInt, 64, 1},
                                       {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}};

// ---- out ----------------------------------------------------------------------------------------------------------

// What is given to the reader, with the tensor that holds the elements.
template <class Managed>
struct Lent {
  explicit Lent(const Tensor& tensor) : x(tensor.detach()) {
    const Shape& s = x.shape();
    std::copy(s.begin(), s.end(), shape);
    std::int64_t stride = 1;
    for (int a = s.rank() - 1; a >= 0; --a) strides[a] = std::exchange(stride, stride * s[a]);
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Lent*>(self->manager_ctx); };
    managed.dl_tensor = {const_cast<void*>(x.raw()),
                         {kDLCPU, 0},
                         s.rank(),
                         dlpack_types[static_cast<int>(x.dtype())],
                         shape,
                         strides,
                         0};
  }
  Tensor x;
  std::int64_t shape[Shape::max_rank] = {}, strides[Shape::max_rank] = {};
  Managed managed = {};
};

template <class Managed>
Managed* lent(const Tensor& x) {
  check::stored(to_op, "x", x);
  if (x.requires_grad())
    check::fail(to_op, "x requires a gradient, which another library would not record: give x.detach()");
  return &(new Lent<Managed>(x))->managed;
}

DLManagedTensorVersioned* lent_versioned(const Tensor& x, std::uint64_t flags) {
  auto* const managed = lent<DLManagedTensorVersioned>(x);
  managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed->flags = flags;
  return managed;
}

// ---- in -----------------------------------------------------------------------------------------------------------

DType dtype_of_theirs(const DLDataType& t) {
  const auto* const found = std::find_if(
      std::begin(dlpack_types), std::end(dlpack_types),
      [&](const DLDataType& known) { return known.code == t.code && known.bits == t.bits && known.lanes == t.lanes; });
  if (found == std::end(dlpack_types))
    check::fail(from_op, "the elements have DLPack's type code ", int{t.code}, " of ", int{t.bits}, " bits in ",
                int{t.lanes}, " lanes: they must be boolean, int8, int64, bfloat16, float32 or float64, in one lane");
  return static_cast<DType>(found - std::begin(dlpack_types));
}

Shape shape_of_theirs(const DLTensor& t) {
  if (t.device.device_type != kDLCPU)
    check::fail(from_op, "the elements are on a device of DLPack's type ", static_cast<int>(t.device.device_type),
                ": copy them to the CPU first");
  if (t.ndim < 0 || t.ndim > Shape::max_rank || (t.ndim > 0 && !t.shape))
    check::fail(from_op, "there are ", t.ndim, " axes: expected 0 … ", int{Shape::max_rank}, " and their sizes");
  const Shape shape(t.shape, t.ndim);
  if (!t.data && shape.numel() > 0) check::fail(from_op, "the shape is ", shape, ", but there are no elements");
  return shape;
}

bool row_major(const DLTensor& t, const Shape& shape) {
  if (!t.strides || shape.numel() == 0) return true;
  std::int64_t stride = 1;
  for (int a = shape.rank() - 1; a >= 0; --a) {
    if (shape[a] != 1 && t.strides[a] != stride) return false;
    stride *= shape[a];
  }
  return true;
}

Tensor copied(const DLTensor& t, const Shape& shape, DType dtype, const char* from) {
  Tensor y = Tensor::empty(shape, dtype);
  const std::int64_t size = size_of(dtype), count = shape.numel();
  char* to = y.fresh<char>();
  if (row_major(t, shape)) {
    if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count * size));
    return y;
  }
  std::int64_t at[Shape::max_rank] = {}, offset = 0;  // the index and its place, in elements
  for (std::int64_t i = 0; i < count; ++i, to += size) {
    std::memcpy(to, from + offset * size, static_cast<std::size_t>(size));
    for (int a = shape.rank() - 1; a >= 0; --a) {
      offset += t.strides[a];
      if (++at[a] < shape[a]) break;
      offset -= std::exchange(at[a], 0) * t.strides[a];
    }
  }
  return y;
}

void check_booleans(const Tensor& x) {
  if (x.dtype() != boolean) return;
  const auto* const bytes = static_cast<const unsigned char*>(x.raw());
  const auto* const wrong = std::find_if(bytes, bytes + x.numel(), [](unsigned char b) { return b > 1; });
  if (wrong != bytes + x.numel())
    check::fail(from_op, "boolean element ", wrong - bytes, " is the byte ", int{*wrong}, ": it must be 0 or 1");
}

template <class Managed>
struct Theirs final : detail::ElementsOwner {
  explicit Theirs(Managed* theirs) : managed(theirs) {}
  ~Theirs() override {
    if (managed && managed->deleter) managed->deleter(managed);
  }
  Managed* managed;
};

template <class Managed>
Tensor taken(Managed* theirs, std::uint64_t flags) {
  const DLTensor& t = theirs->dl_tensor;
  const Shape shape = shape_of_theirs(t);
  const DType dtype = dtype_of_theirs(t.dtype);
  char* const data = static_cast<char*>(t.data) + t.byte_offset;
  const bool share = shape.numel() > 0 && (flags & DLPACK_FLAG_BITMASK_READ_ONLY) == 0 && row_major(t, shape) &&
                     reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_of(dtype)) == 0;
  auto owner = std::make_unique<Theirs<Managed>>(nullptr);  // not before everything is checked
  Theirs<Managed>& held = *owner;
  const Tensor y = share ? foreign(data, shape, dtype, std::move(owner)) : copied(t, shape, dtype, data);
  check_booleans(y);
  if (share)
    held.managed = theirs;
  else if (theirs->deleter)
    theirs->deleter(theirs);
  return y;
}

}  // namespace

DLManagedTensorVersioned* to_dlpack(const Tensor& x) { return lent_versioned(x, DLPACK_FLAG_BITMASK_READ_ONLY); }

DLManagedTensor* to_unversioned_dlpack(const Tensor& x) { return lent<DLManagedTensor>(x); }

DLManagedTensorVersioned* edit_dlpack(Tensor& x) {
  check::stored("edit_dlpack", "x", x);
  dispatch_stored(x.dtype(), [&](auto zero) { x.edit<decltype(zero)>(); });
  return lent_versioned(x, 0);
}

Tensor from_dlpack(DLManagedTensorVersioned* theirs) {
  if (!theirs) check::fail(from_op, "the tensor is null");
  if (theirs->version.major != DLPACK_MAJOR_VERSION)
    check::fail(from_op, "the tensor has version ", theirs->version.major, ".", theirs->version.minor,
                " of DLPack: it must be ", DLPACK_MAJOR_VERSION);
  return taken(theirs, theirs->flags);
}

Tensor from_dlpack(DLManagedTensor* theirs) {
  if (!theirs) check::fail(from_op, "the tensor is null");
  return taken(theirs, 0);
}

}  // namespace fit
