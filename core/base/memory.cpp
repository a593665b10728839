#include "fit/memory.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "fit/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FIT_POISON(p, n) __asan_poison_memory_region(p, n)
#define FIT_UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define FIT_POISON(p, n) (void)0
#define FIT_UNPOISON(p, n) (void)0
#endif

namespace fit {
namespace detail {
namespace {

// Size classes: multiples of 64 bytes up to 1024, then four steps to each doubling (at most a quarter is wasted).
constexpr int small_classes = 16, class_count = small_classes + 4 * 38;

int class_of(std::size_t bytes) {
  if (bytes <= 1024) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int log = 63 - __builtin_clzll(bytes - 1);  // 2^log < bytes <= 2^(log+1), log >= 10
  const int step = static_cast<int>((bytes - 1) >> (log - 2)) & 3;
  return small_classes + 4 * (log - 10) + step;
}

std::size_t capacity_of(int c) {
  if (c < small_classes) return 64 * (static_cast<std::size_t>(c) + 1);
  const int log = 10 + (c - small_classes) / 4, step = (c - small_classes) % 4;
  return (std::size_t{1} << log) + (static_cast<std::size_t>(step) + 1) * (std::size_t{1} << (log - 2));
}

// Large blocks in large pages: fewer faults when they are first touched, fewer misses of the page table later.
void* from_system(std::size_t capacity) {
  constexpr std::size_t page = std::size_t{2} << 20;
  if (capacity < page) return std::aligned_alloc(64, capacity);
  void* block = nullptr;
  if (posix_memalign(&block, page, capacity) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  madvise(block, capacity, MADV_HUGEPAGE);
#endif
  return block;
}

// Written by the owning thread alone, so a plain load and store will do; atomic because memory_stats() reads it.
struct Counter {
  std::atomic<std::int64_t> value{0};
  std::int64_t get() const { return value.load(std::memory_order_relaxed); }
  void set(std::int64_t v) { value.store(v, std::memory_order_relaxed); }
  void add(std::int64_t d) { set(get() + d); }
};

struct FreeList {
  void* first = nullptr;
  bool empty() const { return !first; }
  void push(void* block) {
    *static_cast<void**>(block) = first;
    first = block;
  }
  void* pop() {
    void* block = first;
    first = *static_cast<void**>(block);
    return block;
  }
};

// Frees all blocks of the lists.
void drop(FreeList (&lists)[class_count]) {
  for (FreeList& list : lists)
    while (!list.empty()) std::free(list.pop());
}

struct Cache;
struct Registry {
  std::mutex mutex;
  std::vector<Cache*> caches;
  MemoryStats retired;  // of threads that have ended
};
Registry& registry() {
  static auto* r = new Registry;  // never destroyed: threads may end after main
  return *r;
}
std::atomic<std::int64_t> cache_limit{std::int64_t{2} << 30};

// What threads hand on to each other: blocks that one has taken and another one gives back, such as the batches of a
// loader's thread. In the cache of whoever gives them back they would only pile up.
class SharedPool {
 public:
  static SharedPool& get() {
    static auto* pool = new SharedPool;  // never destroyed, as the registry
    return *pool;
  }
  /// Takes up a block that the calling thread's cache doesn't count as its own. False if the pool is full.
  bool put(void* block, int c, std::int64_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.live_blocks -= 1;
    live_.live_bytes -= bytes;
    if (bytes_.load(std::memory_order_relaxed) + bytes > cache_limit.load(std::memory_order_relaxed)) return false;
    lists_[c].push(block);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  /// A block of the class, or null.
  void* take(int c, std::int64_t bytes) {
    if (bytes_.load(std::memory_order_relaxed) < bytes) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lists_[c].empty()) return nullptr;
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return lists_[c].pop();
  }
  void drop_all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    drop(lists_);
    bytes_.store(0, std::memory_order_relaxed);
  }
  MemoryStats stats() {
    const std::lock_guard<std::mutex> lock(mutex_);
    MemoryStats s = live_;
    s.cached_bytes = bytes_.load(std::memory_order_relaxed);
    return s;
  }

 private:
  std::mutex mutex_;
  FreeList lists_[class_count];
  std::atomic<std::int64_t> bytes_{0};
  MemoryStats live_;  // what was given back here, below 0: the threads that took it count it as live
};

struct Cache {
  FreeList lists[class_count];
  Counter live_blocks, live_bytes, held_bytes, system_allocs;  // held: live or cached

  Cache() {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    registry().caches.push_back(this);
  }
  ~Cache();

  void drop_all() {
    drop(lists);
    held_bytes.set(live_bytes.get());
  }
  MemoryStats stats() const {
    return {live_blocks.get(), live_bytes.get(), held_bytes.get() - live_bytes.get(), system_allocs.get()};
  }
};

MemoryStats operator+(const MemoryStats& a, const MemoryStats& b) {
  return {a.live_blocks + b.live_blocks, a.live_bytes + b.live_bytes, a.cached_bytes + b.cached_bytes,
          a.system_allocs + b.system_allocs};
}

thread_local Cache* current = nullptr;
thread_local bool thread_ending = false;

Cache::~Cache() {
  drop_all();
  thread_ending = true;
  current = nullptr;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  auto& all = registry().caches;
  for (auto& c : all)
    if (c == this) {
      c = all.back();
      all.pop_back();
      break;
    }
  registry().retired = registry().retired + stats();
}

Cache* make_cache() {
  if (thread_ending) return nullptr;
  thread_local Cache cache;
  return current = &cache;
}

// A block that the thread's cache does not have.
void* from_outside(Cache* cache, int c, std::int64_t size) {
  void* block = cache ? SharedPool::get().take(c, size) : nullptr;
  if (block) {
    FIT_UNPOISON(block, static_cast<std::size_t>(size));
  } else {
    block = from_system(static_cast<std::size_t>(size));
    if (!block) throw std::bad_alloc();
    if (cache) cache->system_allocs.add(1);
  }
  if (cache) cache->held_bytes.add(size);
  return block;
}

}  // namespace

void* acquire(std::size_t bytes, std::size_t& capacity) {
  if (bytes > std::size_t{1} << 47)
    throw Error("[memory] " + std::to_string(bytes) + " bytes asked for: more than any machine can address");
  const int c = class_of(bytes);
  capacity = capacity_of(c);
  const auto size = static_cast<std::int64_t>(capacity);
  Cache* cache = current ? current : make_cache();
  void* block = nullptr;
  if (cache && !cache->lists[c].empty()) {
    block = cache->lists[c].pop();
    FIT_UNPOISON(block, capacity);
  } else {
    block = from_outside(cache, c, size);
  }
  if (cache) {
    cache->live_blocks.add(1);
    cache->live_bytes.add(size);
  }
#if defined(__SANITIZE_ADDRESS__)
  std::memset(block, 0xFF, capacity);  // NaN in both float types: an element read before it is written shows
#endif
  return block;
}

void release(void* block, std::size_t capacity) noexcept {
  Cache* cache = current ? current : make_cache();
  if (!cache) return std::free(block);
  const auto bytes = static_cast<std::int64_t>(capacity);
  const std::int64_t live = cache->live_bytes.get() - bytes;
  if (live < 0) {                                                                     // another thread has taken it
    FIT_POISON(static_cast<char*>(block) + sizeof(void*), capacity - sizeof(void*));  // but for the link
    if (SharedPool::get().put(block, class_of(capacity), bytes)) return;
    FIT_UNPOISON(block, capacity);
    return std::free(block);
  }
  cache->live_blocks.add(-1);
  cache->live_bytes.set(live);
  if (cache->held_bytes.get() - live > cache_limit.load(std::memory_order_relaxed)) {
    cache->held_bytes.add(-bytes);
    return std::free(block);
  }
  cache->lists[class_of(capacity)].push(block);
  // The link stays readable: the search for leaks follows it.
  FIT_POISON(static_cast<char*>(block) + sizeof(void*), capacity - sizeof(void*));
}

}  // namespace detail

MemoryStats memory_stats() {
  using namespace detail;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  MemoryStats sum = registry().retired + SharedPool::get().stats();
  for (const Cache* c : registry().caches) sum = sum + c->stats();
  return sum;
}

void empty_cache() {
  if (detail::current) detail::current->drop_all();
  detail::SharedPool::get().drop_all();
}

void set_cache_limit(std::int64_t bytes) {
  if (bytes < 0) throw Error("[set_cache_limit] bytes is " + std::to_string(bytes) + ": it can't be negative");
  detail::cache_limit.store(bytes, std::memory_order_relaxed);
}

}  // namespace fit
