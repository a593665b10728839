// Attachment and notification of observers.
#include "graph/observers.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "fit/graph/named_values.hpp"
#include "graph/node.hpp"

namespace fit {

Observer::~Observer() = default;

const LayerCall* innermost_call() {
  for (const detail::ObserverLink* at = detail::thread_state.observed; at; at = at->outer)
    if (at->call) return at->call;
  return nullptr;
}

// ---- events -------------------------------------------------------------------------------------------------------

const char* NodeEvent::op() const { return node_.op; }
int NodeEvent::inputs() const { return node_.input_count; }
int NodeEvent::outputs() const { return node_.output_count; }
Tensor NodeEvent::gradient(int output) const { return node_.outputs[output].grad; }
Tensor NodeEvent::input_gradient(int input) const {
  const detail::Edge& e = node_.edges[input];
  return e.node ? e.node->outputs[e.output].grad : Tensor();
}

namespace detail {

// ---- the chain of a thread ----------------------------------------------------------------------------------------

ObserverLink::~ObserverLink() {
  for (ObserverLink** at = &thread_state.observed; *at; at = &(*at)->outer)
    if (*at == this) {
      *at = outer;
      return;
    }
}

bool is_notified(const Observer* observer) {
  for (const ObserverLink* at = thread_state.observed; at; at = at->outer)
    if (at->muted && at->observer == observer) return true;
  return false;
}

bool may_tell(const Observer* observer) {
  bool watches = false;
  for (const ObserverLink* at = thread_state.observed; at; at = at->outer) {
    if (at->observer != observer) continue;
    if (at->muted) return false;
    watches = true;
  }
  return watches;
}

std::vector<Observer*> thread_observers(const ObserverLink* end) {
  std::vector<Observer*> all;
  for (const ObserverLink* at = thread_state.observed; at != end; at = at->outer)
    if (at->observer && !at->muted) all.push_back(at->observer);
  return all;
}

ObserverList* attached_here() {
  for (const ObserverLink* at = thread_state.observed; at; at = at->outer)
    if (at->call) return at->attached;
  return nullptr;
}

// ---- the observers of an object -----------------------------------------------------------------------------------

Attachment ObserverList::add(std::shared_ptr<Observer> observer, std::uint32_t part) {
  static std::atomic<std::uint64_t> last{0};
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = ++last;
  entries_.push_back({id, part, std::move(observer)});
  size_.store(entries_.size(), std::memory_order_release);
  if (total_) total_->fetch_add(1);
  hold(refs);
  return Attachment(this, id);
}

void ObserverList::remove(std::uint64_t id) noexcept {
  std::shared_ptr<Observer> last_use;  // freed after the list is consistent again
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id; });
  if (at == entries_.end()) return;
  last_use = std::move(at->observer);
  entries_.erase(at);
  size_.store(entries_.size(), std::memory_order_release);
  if (total_) total_->fetch_sub(1);
}

void ObserverList::clear() noexcept {
  std::vector<Entry> last_use;
  const std::lock_guard lock(mutex_);
  last_use.swap(entries_);
  size_.store(0, std::memory_order_release);
  if (total_) total_->fetch_sub(static_cast<std::int64_t>(last_use.size()));
}

std::vector<ObserverList::Entry> ObserverList::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

bool ObserverList::has(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.id == id; });
}

Attachment Attached::add(std::shared_ptr<Observer> observer, std::uint32_t part, std::atomic<std::int64_t>* total) {
  ObserverList* all = list();
  if (!all) {
    ObserverList* const made = new ObserverList(total);
    if (list_.compare_exchange_strong(all, made))  // LCOV_EXCL_BR_LINE: unless two threads come at once
      all = made;
    else
      ObserverList::release(made);  // another thread was faster  LCOV_EXCL_LINE
  }
  return all->add(std::move(observer), part);
}

bool Attached::not_empty(const ObserverList& list) noexcept { return !list.empty(); }

void Attached::replace(ObserverList* list) noexcept {
  ObserverList* const before = list_.exchange(list);
  if (!before) return;
  before->clear();
  ObserverList::release(before);
}

// ---- notification -------------------------------------------------------------------------------------------------

void notify_op(const OpName& op, const Inputs& inputs, const Tensor* outputs, int count) {
  bool in_backward = false;
  for (const ObserverLink* at = thread_state.observed; at; at = at->outer) in_backward |= at->adjoint;
  const OpEvent event{op.name, inputs, outputs, count, in_backward, {op.attributes, op.count}};
  const bool recorded = count != 1 || is_floating(outputs[0].dtype());
  notify_thread([&](Observer& o) { recorded ? o.op_recorded(event) : o.op_unrecorded(event); });
}

bool value_wanted(const char* name) {
  const ValueInfo info{name, innermost_call()};
  bool any = false;
  notify_both(attached_here(), [&](const Observer& o) {
    const auto* const reader = dynamic_cast<const ValueObserver*>(&o);
    any = any || (reader && reader->wants_value(info));
  });
  return any;
}

Tensor notify_value(const char* name, Tensor value) {
  const ValueInfo info{name, innermost_call()};
  notify_both(attached_here(), [&](Observer& o) {
    auto* const reader = dynamic_cast<ValueObserver*>(&o);
    if (reader && reader->wants_value(info))
      value = edited("observed", name, std::move(value), [&](Tensor& x) { reader->value_computed(info, x); });
  });
  return value;
}

void notify_flops(std::int64_t count) {
  notify_thread([&](Observer& o) { o.flops_counted(count); });
}

void run_observed(Node& n, Backward& b) {
  NodeEvent event(n);
  const ObserverLink adjoint;
  EachOne each(event.failed);
  each([&] {
    notify_thread([&](Observer& o) { o.node_entered(event); });
    n.adjoint(b, n.closure);
  });
  notify_thread([&](Observer& o) { each([&] { o.node_left(event); }); });
  each.rethrow();
}

}  // namespace detail

void Attachment::remove() noexcept {
  detail::ObserverList* const list = std::exchange(list_, nullptr);
  if (!list) return;
  list->remove(id_);
  detail::ObserverList::release(list);
}

void Attachment::keep() noexcept { detail::ObserverList::release(std::exchange(list_, nullptr)); }

}  // namespace fit
