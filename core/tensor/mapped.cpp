#include "tensor/mapped.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "tensor/foreign.hpp"

namespace fit {
namespace {

// The pages of a file. The destructor unmaps them.
struct MappedPages final : detail::ElementsOwner {
  MappedPages(int descriptor, std::int64_t offset, std::size_t bytes)
      : size(bytes),
        begin(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, static_cast<off_t>(offset))) {}
  ~MappedPages() override {
    if (begin != MAP_FAILED) munmap(begin, size);
  }

  std::size_t size;
  void* begin;
};

}  // namespace

Tensor mapped(int descriptor, std::int64_t offset, const Shape& shape, DType dtype) {
  const auto bytes = static_cast<std::size_t>(shape.numel() * size_of(dtype));
  if (descriptor < 0 || bytes == 0 || offset % size_of(dtype) != 0) return {};
  const std::int64_t before = offset % sysconf(_SC_PAGESIZE);  // the offset within its page
  auto pages = std::make_unique<MappedPages>(descriptor, offset - before, static_cast<std::size_t>(before) + bytes);
  if (pages->begin == MAP_FAILED) return {};  // LCOV_EXCL_LINE: the system maps no more
  void* const first = static_cast<char*>(pages->begin) + before;
  return foreign(first, shape, dtype, std::move(pages));
}

}  // namespace fit
