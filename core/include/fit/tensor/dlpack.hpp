#pragma once
#include <cstdint>

#include "fit/tensor/tensor.hpp"

// DLPack's own header, if a program includes it first. It is skipped if it comes later.
#ifdef DLPACK_DLPACK_H_
#ifndef DLPACK_MAJOR_VERSION
#error "this <dlpack/dlpack.h> is older than DLPack 1.0: include <fit/tensor/dlpack.hpp> before it"
#endif
#else
#define DLPACK_DLPACK_H_                            ///< DLPack's own include guard.
#define DLPACK_MAJOR_VERSION 1                      ///< Readers of another major version must refuse the array.
#define DLPACK_MINOR_VERSION 0                      ///< Adds to the major version what older readers may ignore.
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)  ///< The reader must not write.
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)  ///< The array is a copy that nobody else sees.

extern "C" {
/// The version of a DLManagedTensorVersioned.
struct DLPackVersion {
  std::uint32_t major, minor;
};
/// A kind of device. fit takes kDLCPU alone.
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };
/// A device.
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
/// The codes of DLDataType.
enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6
};
/// The type of an element: float32 is {kDLFloat, 32, 1}.
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
/// A strided array. Strides count elements; null means row-major.
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
/// An array and who owns it, as before DLPack 1.0.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
/// An array and who owns it.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
}
#endif

/// DLPack 1.0: tensors in the memory of NumPy, PyTorch, JAX and others, and theirs in fit's, without a copy.
///
///     Tensor x = from_dlpack(theirs);             // reads their memory, and frees it with the last use of x
///     DLManagedTensorVersioned* ours = to_dlpack(x);  // they read fit's memory until they call ours->deleter(ours)
///
/// Types: boolean, int8, int64, bfloat16, float32, float64; on the CPU. The structs are DLPack's
/// (https://dmlc.github.io/dlpack/latest/c_api.html); Python passes them in a PyCapsule of the name
/// "dltensor_versioned", or "dltensor" for the older one.
namespace fit {

/// x's elements, read-only, without a copy. They live until the deleter is called. Throws Error if x requires a
/// gradient: detach() it.
DLManagedTensorVersioned* to_dlpack(const Tensor& x);
/// The same for libraries from before DLPack 1.0. This form has no read-only flag: the reader must not write.
DLManagedTensor* to_unversioned_dlpack(const Tensor& x);
/// The same, writable. The call counts as one change in place, under the rules of Tensor::edit(). What is written after
/// fit has read x again needs another call.
DLManagedTensorVersioned* edit_dlpack(Tensor& x);

/// A tensor of their elements. The elements are theirs if they are row-major, aligned and writable; x sees changes, and
/// the deleter is called when nothing uses x any more. Otherwise they are copied, and the deleter is called at once.
/// Throws Error for another device, another type, more than one lane, more than Shape::max_rank axes, a negative size,
/// and a boolean other than 0 and 1. After an Error the argument still belongs to the caller.
Tensor from_dlpack(DLManagedTensorVersioned* theirs);
Tensor from_dlpack(DLManagedTensor* theirs);

}  // namespace fit
