#include "base/large_blocks.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "base/poison.hpp"

namespace fit::detail {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Returns whole pages to the system.
void to_system(char* first, char* end) noexcept {
  if (first == end) return;
  FIT_UNPOISON(first, end - first);
  munmap(first, static_cast<std::size_t>(end - first));
}

// Addresses in a row, which get memory of the system one after the other. So all that the system gives can join.
class AddressSpace {
 public:
  char* position() const { return next_; }

  // The next `bytes`, a multiple of huge pages. Null if the system has no memory left.
  char* next(std::size_t bytes) noexcept {
    constexpr std::size_t much = std::size_t{1} << 36;
    if (left() < bytes && !reserve(bytes < much ? much : bytes) && !reserve(bytes)) return nullptr;
    if (mprotect(next_, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
    FIT_LEAK_ROOT(next_, bytes);
    return std::exchange(next_, next_ + bytes);
  }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

  // In huge pages: fewer page faults at first touch, fewer TLB misses later.
  bool reserve(std::size_t bytes) noexcept {
    void* const at = mmap(nullptr, bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    to_system(next_, end_);
    next_ = static_cast<char*>(at);
    end_ = next_ + bytes + huge_page;
    next_ += huge_page - reinterpret_cast<std::uintptr_t>(next_) % huge_page;
#if defined(MADV_HUGEPAGE)
    madvise(next_, left(), MADV_HUGEPAGE);
#endif
    return true;
  }

  char *next_ = nullptr, *end_ = nullptr;
};

class LargeBlocks {
 public:
  static LargeBlocks& get() {
    static auto* const all = new LargeBlocks;  // never destroyed: threads may end after main
    return *all;
  }

  void* acquire(std::size_t bytes) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto range = best(bytes);
    for (; range == free_.end(); range = best(bytes))
      if (!grow(bytes)) return nullptr;
    ++stats_.live_blocks;
    stats_.live_bytes += static_cast<std::int64_t>(bytes);
    stats_.cached_bytes -= static_cast<std::int64_t>(bytes);
    return take(range, bytes);
  }

  void release(char* at, std::size_t bytes, std::int64_t limit) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    --stats_.live_blocks;
    stats_.live_bytes -= static_cast<std::int64_t>(bytes);
    if (stats_.cached_bytes + static_cast<std::int64_t>(bytes) > limit)
      to_system(at, at + bytes);
    else
      add(at, bytes);
  }

  void drop() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    drop(0);
  }

  MemoryStats stats() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }

 private:
  // fork() waits until no thread changes the list.
  LargeBlocks() {
    pthread_atfork([] { get().mutex_.lock(); }, unlock, unlock);
  }
  static void unlock() { get().mutex_.unlock(); }

  using Ranges = std::map<char*, std::size_t>;  // their addresses and sizes

  // A larger block than this takes the end of its range, and a smaller one the beginning. So small blocks lie side by
  // side, and leave one large range when they are freed.
  static constexpr std::size_t largest = std::size_t{32} << 20;

  // The smallest range of at least so many bytes, or the end.
  Ranges::iterator best(std::size_t bytes) {
    auto found = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range)
      if (range->second >= bytes && (found == free_.end() || range->second < found->second)) found = range;
    return found;
  }

  char* take(Ranges::iterator range, std::size_t bytes) {
    auto rest = free_.extract(range);  // a node is moved: nothing is allocated
    char* block = rest.key();
    rest.mapped() -= bytes;
    if (bytes > largest)
      block += rest.mapped();
    else
      rest.key() += bytes;
    if (rest.mapped() > 0) free_.insert(std::move(rest));
    FIT_UNPOISON(block, bytes);
    return block;
  }

  // Adds a range, and joins it with those that it touches. Returns it to the system, and false, if the list has no
  // memory.
  bool add(char* at, std::size_t bytes) noexcept {
    Ranges::iterator range;
    try {
      range = free_.emplace(at, bytes).first;
    } catch (const std::exception&) {
      to_system(at, at + bytes);
      return false;
    }
    FIT_POISON(at, bytes);
    stats_.cached_bytes += static_cast<std::int64_t>(bytes);
    if (const auto next = std::next(range); next != free_.end() && at + bytes == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) return true;
    if (const auto before = std::prev(range); before->first + before->second == at) {
      before->second += range->second;
      free_.erase(range);
    }
    return true;
  }

  // Adds memory of the system: as much as the last free range lacks to hold `bytes`. All free ranges are too small. If
  // `bytes` is large, they are returned first, so that the program takes little more than it uses.
  bool grow(std::size_t bytes) noexcept {
    if (bytes > largest) drop(huge_page);
    if (!free_.empty()) {
      const auto& [at, size] = *free_.rbegin();
      if (at + size == system_.position()) bytes -= size;
    }
    bytes = (bytes + huge_page - 1) / huge_page * huge_page;
    char* const from = system_.next(bytes);
    if (!from || !add(from, bytes)) return false;
    ++stats_.system_allocs;
    return true;
  }

  // Returns all ranges of at least so many bytes to the system.
  void drop(std::size_t bytes) noexcept {
    for (auto range = free_.begin(); range != free_.end();) {
      const auto [at, size] = *range;
      if (size < bytes) {
        ++range;
        continue;
      }
      range = free_.erase(range);
      stats_.cached_bytes -= static_cast<std::int64_t>(size);
      to_system(at, at + size);
    }
  }

  std::mutex mutex_;
  AddressSpace system_;
  Ranges free_;  // no two touch
  MemoryStats stats_;
};

}  // namespace

void* acquire_large(std::size_t bytes) noexcept { return LargeBlocks::get().acquire(bytes); }
void release_large(void* block, std::size_t bytes, std::int64_t limit) noexcept {
  LargeBlocks::get().release(static_cast<char*>(block), bytes, limit);
}
void drop_large() noexcept { LargeBlocks::get().drop(); }
MemoryStats large_stats() { return LargeBlocks::get().stats(); }

}  // namespace fit::detail
