#include "fit/tensor/dlpack.hpp"

#include <array>
#include <cstring>
#include <limits>

#include "fit/ops/ops.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Tensors in and out of others' memory. check.dlpack does it with NumPy and PyTorch.
namespace fit::test::dlpack_test {
namespace {

using Catch::Matchers::Contains;

// An array of another library, which counts the calls of its deleter.
template <class Managed>
struct Array {
  Managed managed{};
  std::array<std::int64_t, 9> shape{}, strides{};
  int deleted = 0;
  Array(void* data, std::initializer_list<std::int64_t> sizes, DLDataType type) {
    std::copy(sizes.begin(), sizes.end(), shape.begin());
    managed.dl_tensor = {data, {kDLCPU, 0}, static_cast<std::int32_t>(sizes.size()), type, shape.data(), nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Array*>(self->manager_ctx)->deleted; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
      managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  }
  Array& with_strides(std::initializer_list<std::int64_t> s) {
    std::copy(s.begin(), s.end(), strides.begin());
    managed.dl_tensor.strides = strides.data();
    return *this;
  }
};
using Old = Array<DLManagedTensor>;
using New = Array<DLManagedTensorVersioned>;

constexpr DLDataType float32_type{kDLFloat, 32, 1};

}  // namespace

TEST_CASE("dlpack: a tensor is lent without a copy, and lives as long as its reader", "[dlpack]") {
  const std::int64_t before = memory_stats().live_blocks;
  DLManagedTensorVersioned* lent;
  const void* data;
  {
    const Tensor x = arange(6).to(float32).reshape({2, 3});
    data = x.raw();
    lent = to_dlpack(x);
    DLManagedTensor* const old = to_unversioned_dlpack(x);
    CHECK(old->dl_tensor.data == data);
    old->deleter(old);
  }
  const DLTensor& t = lent->dl_tensor;
  CHECK(t.data == data);
  CHECK(lent->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
  CHECK(lent->version.major == 1);
  CHECK((t.ndim == 2 && t.shape[0] == 2 && t.shape[1] == 3 && t.strides[0] == 3 && t.strides[1] == 1));
  CHECK((t.dtype.code == kDLFloat && t.dtype.bits == 32 && t.dtype.lanes == 1 && t.device.device_type == kDLCPU));
  CHECK(static_cast<const float*>(t.data)[5] == 5);
  lent->deleter(lent);
  CHECK(memory_stats().live_blocks == before);

  for (const DType dtype : {boolean, DType::int8, int64, bfloat16, float32, float64}) {
    const Tensor x = ones({2}).to(dtype), y = from_dlpack(to_unversioned_dlpack(x));
    CHECK(same_bits(x, y));
    CHECK(y.raw() == x.raw());
  }
  CHECK(from_dlpack(to_unversioned_dlpack(tensor(2.))).shape() == Shape{});
  CHECK_THROWS_WITH(to_dlpack(Tensor()), Contains("[to_dlpack] x"));
  CHECK_THROWS_WITH(to_dlpack(ones({2}).requires_grad_()), Contains("requires a gradient"));
}

TEST_CASE("dlpack: a writable view counts as a change", "[dlpack]") {
  Tensor x = zeros({2});
  const std::uint32_t version = x.version();
  DLManagedTensorVersioned* const lent = edit_dlpack(x);
  CHECK(lent->flags == 0);
  CHECK(x.version() == version + 1);
  static_cast<float*>(lent->dl_tensor.data)[1] = 3;
  lent->deleter(lent);
  CHECK(x[1].item() == 3);
  Tensor computed = ones({2}).requires_grad_() * 2;
  CHECK_THROWS_AS(edit_dlpack(computed), Error);
}

TEST_CASE("dlpack: the memory of others is read in place, and freed with its last use", "[dlpack]") {
  std::array<float, 6> data{0, 1, 2, 3, 4, 5};
  Old theirs(data.data(), {2, 3}, float32_type);
  {
    Tensor y;
    {
      const Tensor x = from_dlpack(&theirs.managed);
      CHECK(x.raw() == data.data());
      data[4] = 40;
      y = x.reshape({6});
    }
    CHECK(y[4].item() == 40);
    y.mul_(2);
    CHECK(data[4] == 80);
    CHECK(theirs.deleted == 0);
  }
  CHECK(theirs.deleted == 1);

  New offset(data.data(), {2}, float32_type);
  offset.managed.dl_tensor.byte_offset = 4;
  CHECK(from_dlpack(&offset.managed).raw() == data.data() + 1);
  CHECK(offset.deleted == 1);

  New no_deleter(data.data(), {1}, float32_type);
  no_deleter.managed.deleter = nullptr;
  CHECK(from_dlpack(&no_deleter.managed).numel() == 1);
}

TEST_CASE("dlpack: strides, read-only and misaligned elements are copied", "[dlpack]") {
  std::array<float, 7> data{0, 1, 2, 3, 4, 5, 6};
  const auto copied = [&](New& theirs, const Tensor& expected) {
    const Tensor x = from_dlpack(&theirs.managed);
    CHECK(same_bits(x, expected.to(float32)));
    CHECK(theirs.deleted == 1);
  };
  New transposed(data.data(), {3, 2}, float32_type), reversed(data.data() + 5, {6}, float32_type),
      repeated(data.data() + 1, {2, 2}, float32_type), read_only(data.data(), {2}, float32_type),
      misaligned(data.data(), {1}, float32_type), empty(nullptr, {0, 3}, float32_type);
  copied(transposed.with_strides({1, 3}), tensor({{0., 3.}, {1., 4.}, {2., 5.}}));
  copied(reversed.with_strides({-1}), tensor({5., 4., 3., 2., 1., 0.}));
  copied(repeated.with_strides({0, 1}), tensor({{1., 2.}, {1., 2.}}));
  read_only.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  copied(read_only, tensor({0., 1.}));
  std::memcpy(reinterpret_cast<char*>(data.data()) + 2, &data[3], 4);
  misaligned.managed.dl_tensor.byte_offset = 2;
  copied(misaligned, tensor({3.}));
  copied(empty, zeros({0, 3}));
  New one(data.data() + 5, {1, 2}, float32_type);  // the stride of one element means nothing
  CHECK(from_dlpack(&one.with_strides({77, 1}).managed).raw() == data.data() + 5);
}

TEST_CASE("dlpack: what can't be read is an Error, and stays with the caller", "[dlpack]") {
  std::array<float, 6> data{};
  unsigned char wrong = 2;
  const auto refused = [&](New& theirs, const std::string& why) {
    CHECK_THROWS_WITH(from_dlpack(&theirs.managed), Contains("[from_dlpack]") && Contains(why));
    CHECK(theirs.deleted == 0);
  };
  New half(data.data(), {2}, {kDLFloat, 16, 1}), lanes(data.data(), {2}, {kDLFloat, 32, 4}),
      device(data.data(), {2}, float32_type), axes(data.data(), {1, 1, 1, 1, 1, 1, 1, 1, 1}, float32_type),
      negative(data.data(), {-1}, float32_type), huge(data.data(), {1L << 40, 1L << 40}, float32_type),
      none(nullptr, {2}, float32_type), no_sizes(data.data(), {2}, float32_type),
      version(data.data(), {2}, float32_type), boolean_2(&wrong, {1}, {kDLBool, 8, 1});
  device.managed.dl_tensor.device.device_type = kDLCUDA;
  no_sizes.managed.dl_tensor.shape = nullptr;
  version.managed.version.major = 2;
  refused(half, "type code 2 of 16 bits in 1 lanes");
  refused(lanes, "in 4 lanes");
  refused(device, "device of DLPack's type 2");
  refused(axes, "9 axes");
  refused(none, "there are no elements");
  refused(no_sizes, "and their sizes");
  refused(version, "version 2.0 of DLPack");
  refused(boolean_2, "boolean element 0 is the byte 2");
  CHECK_THROWS_AS(from_dlpack(&negative.managed), Error);
  CHECK_THROWS_AS(from_dlpack(&huge.managed), Error);
  CHECK_THROWS_AS(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), Error);
}

}  // namespace fit::test::dlpack_test
