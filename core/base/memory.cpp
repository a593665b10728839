#include "fit/base/memory.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/large_blocks.hpp"
#include "base/poison.hpp"
#include "fit/base/error.hpp"

namespace fit {
namespace detail {
namespace {

// A cached block. Only its first word, the link to the next block, may be read: leak checkers follow the link.
void poison(void* block, std::size_t capacity) {
  FIT_POISON(static_cast<char*>(block) + sizeof(void*), capacity - sizeof(void*));
  (void)block, (void)capacity;
}

// Only the owning thread writes, so a plain load and store suffice. Atomic because memory_stats() reads it.
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

// Frees all blocks of a list.
void drop(FreeList& list) {
  while (!list.empty()) std::free(list.pop());
}

// The capacity of a size class in bytes.
std::int64_t capacity_of(int index) {
  if (index < SizeClass::small) return std::int64_t{64} * (index + 1);
  const int step = index - SizeClass::small;
  return (std::int64_t{1} << (8 + step / 4)) * (5 + step % 4);
}

struct Cache;
struct Registry {
  std::mutex mutex;
  std::vector<Cache*> caches;
  MemoryStats retired;  // statistics of threads that have ended
};
Registry& registry() {
  static auto* r = new Registry;  // never destroyed: threads may end after main
  return *r;
}
std::atomic<std::int64_t> cache_limit{std::int64_t{2} << 30};

// Blocks that one thread allocates and another thread frees, such as the batches of a loader's thread. They would pile
// up in the cache of the thread that frees them.
class SharedPool {
 public:
  static SharedPool& get() {
    static auto* pool = new SharedPool;  // never destroyed, as the registry
    return *pool;
  }
  /// Adds a block that another thread allocated. False if the pool is full.
  bool put(void* block, SizeClass size) {
    const auto bytes = static_cast<std::int64_t>(size.capacity);
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.live_blocks -= 1;
    live_.live_bytes -= bytes;
    if (bytes_.load(std::memory_order_relaxed) + bytes > cache_limit.load(std::memory_order_relaxed)) return false;
    lists_[size.index].push(block);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  /// A block of the class, or null.
  void* take(SizeClass size) {
    const auto bytes = static_cast<std::int64_t>(size.capacity);
    if (bytes_.load(std::memory_order_relaxed) < bytes) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lists_[size.index].empty()) return nullptr;
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return lists_[size.index].pop();
  }
  void drop_all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (FreeList& list : lists_) drop(list);
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
  FreeList lists_[SizeClass::count];
  std::atomic<std::int64_t> bytes_{0};
  MemoryStats live_;  // negative: blocks freed here still count as live in the threads that allocated them
};

// One size class in a thread's cache. The cache keeps a freed block only while it has allocated more blocks of this
// size than were freed here. So batches that another thread allocates do not pile up.
struct Bin {
  FreeList free;
  Counter taken;  // minus the blocks that were freed
};

struct Cache {
  Bin bins[SizeClass::count + 1];  // the last, of large blocks, stays empty
  Counter cached_bytes, system_allocs;

  Cache() {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    registry().caches.push_back(this);
  }
  ~Cache();

  // Whether the cache keeps a freed block: it has capacity, and has allocated more blocks of this size than were freed.
  bool keeps(SizeClass size) const {
    return bins[size.index].taken.get() > 0 &&
           cached_bytes.get() + static_cast<std::int64_t>(size.capacity) <= cache_limit.load(std::memory_order_relaxed);
  }
  void drop_all() {
    for (Bin& bin : bins) drop(bin.free);
    cached_bytes.set(0);
  }
  MemoryStats stats() const {
    MemoryStats s;
    for (int i = 0; i < SizeClass::count; ++i) {
      s.live_blocks += bins[i].taken.get();
      s.live_bytes += bins[i].taken.get() * capacity_of(i);
    }
    s.cached_bytes = cached_bytes.get();
    s.system_allocs = system_allocs.get();
    return s;
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
  [[gnu::tls_model("global-dynamic")]] thread_local Cache cache;  // large: see -ftls-model in CMakeLists.txt
  return current = &cache;
}

// The rare paths of acquire() and release() are separate functions, so that the common paths need no stack frame.

// Prepares a block for its new owner.
void* fresh(void* block, std::size_t capacity) {
#if defined(__SANITIZE_ADDRESS__)
  std::memset(block, 0xFF, capacity);  // NaN in both float types: an element read before it is written shows
#endif
  (void)capacity;
  return block;
}

// Allocates a block that the thread's cache does not have.
[[gnu::noinline]] void* acquire_outside(SizeClass size) {
  if (size.capacity > SizeClass::addressable)
    throw Error("[memory] more than 2^48 bytes were asked for: no machine can address them");
  if (size.large()) {
    void* const block = acquire_large(size.capacity);
    if (!block) throw std::bad_alloc();
    return fresh(block, size.capacity);
  }
  Cache* const cache = current ? current : make_cache();
  void* block = cache ? SharedPool::get().take(size) : nullptr;
  if (block) {
    FIT_UNPOISON(block, size.capacity);
  } else {
    block = std::aligned_alloc(64, size.capacity);
    if (!block) throw std::bad_alloc();
    if (cache) cache->system_allocs.add(1);
  }
  if (cache) cache->bins[size.index].taken.add(1);
  return fresh(block, size.capacity);
}

// Frees a block that the thread's cache does not keep: it is large, another thread allocated it, or the cache is full.
[[gnu::noinline]] void release_outside(void* block, SizeClass size) noexcept {
  if (size.large()) return release_large(block, size.capacity, cache_limit.load(std::memory_order_relaxed));
  Cache* const cache = current ? current : make_cache();
  if (!cache) return std::free(block);
  if (Counter& taken = cache->bins[size.index].taken; taken.get() > 0) {
    taken.add(-1);
    return std::free(block);
  }
  poison(block, size.capacity);
  if (SharedPool::get().put(block, size)) return;
  FIT_UNPOISON(block, size.capacity);
  std::free(block);
}

}  // namespace

void* acquire(SizeClass size) {
  Cache* const cache = current;
  if (!cache || cache->bins[size.index].free.empty()) return acquire_outside(size);
  Bin& bin = cache->bins[size.index];
  void* const block = bin.free.pop();
  FIT_UNPOISON(block, size.capacity);
  bin.taken.add(1);
  cache->cached_bytes.add(-static_cast<std::int64_t>(size.capacity));
  return fresh(block, size.capacity);
}

void release(void* block, SizeClass size) noexcept {
  Cache* const cache = current;
  if (!cache || !cache->keeps(size)) return release_outside(block, size);
  Bin& bin = cache->bins[size.index];
  bin.taken.add(-1);
  cache->cached_bytes.add(static_cast<std::int64_t>(size.capacity));
  bin.free.push(block);
  poison(block, size.capacity);
}

}  // namespace detail

MemoryStats memory_stats() {
  using namespace detail;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  MemoryStats sum = registry().retired + SharedPool::get().stats() + large_stats();
  for (const Cache* c : registry().caches) sum = sum + c->stats();
  return sum;
}

void empty_cache() {
  if (detail::current) detail::current->drop_all();
  detail::SharedPool::get().drop_all();
  detail::drop_large();
}

void set_cache_limit(std::int64_t bytes) {
  if (bytes < 0) throw Error("[set_cache_limit] bytes is " + std::to_string(bytes) + ": it can't be negative");
  detail::cache_limit.store(bytes, std::memory_order_relaxed);
}

}  // namespace fit
