#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fit/graph/observer.hpp"
#include "tensor/check.hpp"

// Notification of observers.
namespace fit::detail {

/// Observers attached to one object, notified in the order of attachment. Attachments share the list.
class ObserverList {
 public:
  struct Entry {
    std::uint64_t id;
    std::uint32_t part;  // of a node: the output; otherwise 0
    std::shared_ptr<Observer> observer;
  };

  explicit ObserverList(Atomic<std::int64_t>* total) : total_(total) {}
  Attachment add(std::shared_ptr<Observer> observer, std::uint32_t part);
  void remove(std::uint64_t id) noexcept;
  void clear() noexcept;
  bool empty() const noexcept { return size_.load(std::memory_order_acquire) == 0; }

  /// Calls f for each observer of this part that is still attached at that moment.
  template <class F>
  void each(std::uint32_t part, const F& f) {
    const Held held(this);
    for (const Entry& e : entries())
      if (e.part == part && has(e.id)) f(*e.observer);
  }

  Atomic<std::uint32_t> refs{1};
  static void release(ObserverList* list) noexcept {
    if (list && drop(list->refs)) delete list;
  }

 private:
  struct Held {
    explicit Held(ObserverList* l) : list(l) { hold(l->refs); }
    ~Held() { release(list); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ObserverList* list;
  };
  std::vector<Entry> entries() const;
  bool has(std::uint64_t id) const;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::atomic<std::size_t> size_{0};
  Atomic<std::int64_t>* const total_;
};

/// The observers of this thread that are not muted, newest first. Links from `end` on are skipped.
std::vector<Observer*> thread_observers(const ObserverLink* end = nullptr);
/// Whether an observer watches this thread and is not handling an event.
bool may_tell(const Observer* observer);
/// Whether an observer is handling an event on this thread.
bool is_notified(const Observer* observer);

/// Calls f for each observer of this thread that is still attached at that moment.
template <class F>
void notify_thread(const F& f, const ObserverLink* end = nullptr) {
  for (Observer* const o : thread_observers(end)) {
    if (!may_tell(o)) continue;
    const ObserverLink muted(o, ObserverLink::Told());
    f(*o);
  }
}

/// Same, first for the observers of a layer (list may be null), then for those of the thread.
template <class F>
void notify_both(ObserverList* list, const F& f, const ObserverLink* end = nullptr) {
  if (list)
    list->each(0, [&](Observer& o) {
      if (is_notified(&o)) return;
      const ObserverLink muted(&o, ObserverLink::Told());
      f(o);
    });
  notify_thread(f, end);
}

/// The observers of the layer that this thread is calling, or null.
ObserverList* attached_here();

/// For "left" events: notifies every observer, even if one throws; the later ones then see `failed`.
class EachOne {
 public:
  explicit EachOne(bool& failed) : failed_(failed) {}
  template <class F>
  void operator()(const F& f) {
    try {
      f();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
      failed_ = true;
    }
  }
  /// Throws the first exception.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  bool& failed_;
  std::exception_ptr first_;
};

/// Runs the adjoint of a node, and sends the events before and after it.
void run_observed(Node& n, Backward& b);

void notify_flops(std::int64_t count);

/// x, or the tensor that edit(x) puts in its place. Throws Error in the name of `op` if edit changes x in place, or its
/// shape or type. `name` is x in errors.
template <class F>
Tensor edited(const char* op, const std::string& name, Tensor x, const F& edit) {
  Tensor now = x;
  const std::uint32_t version = x.version();
  edit(now);
  if (x.version() != version)
    check::fail(op, "an observer has changed ", name, " of shape ", x.shape(), " in place: assign another tensor");
  check::shape(op, name.c_str(), now, x.shape());
  check::dtype(op, name.c_str(), now, x.dtype());
  return now;
}

}  // namespace fit::detail
