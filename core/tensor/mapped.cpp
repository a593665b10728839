#include "tensor/mapped.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace fit {
namespace {

// The offset of byte `at` within its page.
std::size_t in_page(std::uintptr_t at) { return at % static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

namespace detail {

void unmap(Storage& s) noexcept {
  const std::size_t before = in_page(reinterpret_cast<std::uintptr_t>(s.data));
  munmap(static_cast<char*>(s.data) - before, before + s.mapped);
}

}  // namespace detail

Tensor mapped(int descriptor, std::int64_t offset, const Shape& shape, DType dtype) {
  const auto bytes = static_cast<std::size_t>(shape.numel() * size_of(dtype));
  if (descriptor < 0 || bytes == 0 || offset % size_of(dtype) != 0) return {};
  const std::size_t before = in_page(static_cast<std::uintptr_t>(offset));
  detail::Storage* const s = detail::new_storage(0);
  void* const pages = mmap(nullptr, before + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor,
                           static_cast<off_t>(offset) - static_cast<off_t>(before));
  if (pages == MAP_FAILED) {  // LCOV_EXCL_START: the system maps no more
    detail::free_storage(s);
    return {};
  }
  // LCOV_EXCL_STOP
  s->data = static_cast<char*>(pages) + before;
  s->mapped = bytes;
  return Tensor::adopt(detail::new_impl(s, shape, dtype));
}

}  // namespace fit
