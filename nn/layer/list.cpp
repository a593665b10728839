#include "layer/list.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <mutex>
#include <set>
#include <unordered_set>

#include "base/affixes.hpp"
#include "tensor/check.hpp"

namespace fit::nn {

// ---- the living members -------------------------------------------------------------------------------------------

namespace detail {

// A registry of all members, in buckets by memory page. Each bucket has its own lock, because threads make and destroy
// layers concurrently.
struct Members {
  struct Bucket {
    std::mutex mutex;
    Member* first = nullptr;
  };
  static constexpr std::size_t count = 512;
  static Bucket buckets[count];  // constant-initialised and never destroyed: layers may be static objects
  static std::atomic<std::uint64_t> releases;

  static constexpr std::uintptr_t page_size = 4096;
  static Bucket& of_page(std::uintptr_t page) { return buckets[(page ^ (page >> 9)) % count]; }
  static Bucket& of(const Member* m) { return of_page(reinterpret_cast<std::uintptr_t>(m) / page_size); }

  static void add(Member* m) noexcept {
    Bucket& b = of(m);
    const std::lock_guard<std::mutex> lock(b.mutex);
    m->previous_ = nullptr;
    m->next_ = b.first;
    if (b.first) b.first->previous_ = m;
    b.first = m;
  }
  static void remove(Member* m) noexcept {
    Bucket& b = of(m);
    const std::lock_guard<std::mutex> lock(b.mutex);
    (m->previous_ ? m->previous_->next_ : b.first) = m->next_;
    if (m->next_) m->next_->previous_ = m->previous_;
  }
  // The members with addresses in [begin, end), in order.
  static std::vector<const Member*> within(const char* begin, const char* end) {
    std::vector<const Member*> found;
    const auto from = reinterpret_cast<std::uintptr_t>(begin), to = reinterpret_cast<std::uintptr_t>(end);
    for (std::uintptr_t page = from / page_size; page * page_size < to; ++page) {
      Bucket& b = of_page(page);
      const std::lock_guard<std::mutex> lock(b.mutex);
      for (const Member* m = b.first; m; m = m->next_) {
        const auto at = reinterpret_cast<std::uintptr_t>(m);
        if (at / page_size == page && at >= from && at < to) found.push_back(m);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  // The tensors that members hold.
  static std::unordered_set<std::uintptr_t> tensors() {
    std::unordered_set<std::uintptr_t> held;
    for (Bucket& b : buckets) {
      const std::lock_guard<std::mutex> lock(b.mutex);
      for (const Member* m = b.first; m; m = m->next_) held.insert(m->tensor_.load(std::memory_order_relaxed));
    }
    return held;
  }
};

Members::Bucket Members::buckets[count];
std::atomic<std::uint64_t> Members::releases{0};

namespace {
std::uintptr_t address(const void* tensor) { return reinterpret_cast<std::uintptr_t>(tensor); }
}  // namespace

Member::Member(Kind kind, const void* tensor) noexcept : kind_(kind), tensor_(address(tensor)) { Members::add(this); }
Member::~Member() {
  holds(nullptr);
  Members::remove(this);
}

void Member::holds(const void* tensor) noexcept {
  const std::uintptr_t before = tensor_.exchange(address(tensor), std::memory_order_relaxed);
  if (before != 0 && before != address(tensor)) Members::releases.fetch_add(1, std::memory_order_relaxed);
}

TensorMember::TensorMember(Kind kind, const Tensor& t) noexcept : Tensor(t), Member(kind, impl()) {}
TensorMember::TensorMember(const TensorMember& o) noexcept : TensorMember(o.kind(), o) {}
TensorMember::TensorMember(TensorMember&& o) noexcept : TensorMember(o.kind(), o) { o.hold(Tensor()); }
TensorMember& TensorMember::operator=(const TensorMember& o) noexcept {
  hold(o);
  return *this;
}
TensorMember& TensorMember::operator=(TensorMember&& o) noexcept {
  if (this == &o) return *this;
  hold(o);
  o.hold(Tensor());
  return *this;
}

void TensorMember::hold(const Tensor& t) noexcept {
  Tensor::operator=(t);
  holds(impl());
}

void HeldByLayers::add(const StateDict& tensors) {
  const auto held = Members::tensors();
  for (const auto& entry : tensors)
    if (held.count(address(entry.second.impl())) != 0) held_.push_back(entry);
}

void HeldByLayers::expect(const char* op, const char* what) {
  const std::uint64_t releases = Members::releases.load(std::memory_order_relaxed);
  if (releases == releases_) return;
  const auto held = Members::tensors();
  for (const auto& [name, p] : held_)
    if (p.requires_grad() && held.count(address(p.impl())) == 0)
      check::fail(op, "the parameter ", name, " of shape ", p.shape(),
                  " belongs to no layer any more: its layer was replaced or destroyed. Make the ", what,
                  " after the layers are in place, from the model that is trained");
  releases_ = releases;
}

}  // namespace detail

// ---- the list -----------------------------------------------------------------------------------------------------

namespace {

bool is_word(const std::string& s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

// The name up to the next comma, without spaces and "this->".
std::string Fields::next(const char*& names) {
  std::string name;
  for (; *names && *names != ','; ++names)
    if (*names != ' ') name += *names;
  if (*names) ++names;
  return starts_with(name, "this->") ? name.substr(6) : name;
}

void Fields::add_span(const std::string& name, const void* begin, std::size_t size) {
  spans_.push_back({name, static_cast<const char*>(begin), size});
}

void Fields::add_buffer(const std::string& name, Buffer& b) {
  list_.push_back({name});
  list_.back().buffer = &b;
}

void Fields::add_layer(const std::string& name, Layer& layer) {
  list_.push_back({name});
  list_.back().layer = &layer;
}

std::string Fields::key_name(const std::string& name, const std::string& key) {
  if (!is_word(key))
    check::fail("fields", "the map ", name, " has the key '", key, "', which is part of the names of parameters: it ",
                "must be a word of letters, digits and _");
  return name + '.' + key;
}

namespace {

using detail::Member;

std::string kind_of(const Member* m) {
  if (m->kind() == Member::Kind::parameter) return "Parameter";
  if (m->kind() == Member::Kind::buffer) return "Buffer";
  return static_cast<const Layer*>(m)->name();
}

}  // namespace

// The listed neighbours of an address: " between 'a' and 'b'".
std::string ListOf::neighbours(const Fields& f, const char* at) {
  const Fields::Span *before = nullptr, *after = nullptr;
  for (const Fields::Span& s : f.spans_) {
    if (!f.self_.holds(s.begin)) continue;
    if (s.begin < at && (!before || s.begin > before->begin)) before = &s;
    if (s.begin > at && (!after || s.begin < after->begin)) after = &s;
  }
  if (before && after) return " between '" + before->name + "' and '" + after->name + '\'';
  if (before) return " after '" + before->name + '\'';
  return after ? " before '" + after->name + '\'' : "";
}

OnTheWay::OnTheWay(const Layer& layer, const OnTheWay* above) : layer_(layer), above_(above) {
  for (const OnTheWay* a = above; a; a = a->above_)
    if (&a->layer_ == &layer)
      check::fail(layer.name().c_str(), "holds itself, directly or in a sublayer: no layer can be a part of itself");
}

void ListOf::check_names(const Layer& layer, const Fields& f) {
  std::set<std::string> names;
  for (const Fields::Span& s : f.spans_) {
    if (!is_word(s.name))
      check::fail(layer.name().c_str(), "lists the name '", s.name, "': it must be a word of letters, digits and _");
    if (!names.insert(s.name).second) check::fail(layer.name().c_str(), "lists the name '", s.name, "' twice");
  }
}

void ListOf::fail_moved(const Layer& layer) { check::fail(layer.name().c_str(), moved_from_text); }

void ListOf::check(const Layer& layer, const Fields& f) {
  const std::string name = layer.name();
  if (!f.type_)
    check::fail(name.c_str(), "its fields() does not say whose members it lists: write FIT_FIELDS, or begin it with ",
                "f.self(*this)");
  if (*f.type_ != typeid(layer))
    check::fail(name.c_str(), "has no list of its own, but that of the class it derives from: write FIT_FIELDS here, ",
                "too, with the members of both");
  check_names(layer, f);

  std::vector<Fields::Span> listed = f.spans_;
  for (const Field& field : f.list_)
    if (field.layer) listed.push_back(raw(*field.layer).self_);
  for (const Member* m : detail::Members::within(f.self_.begin, f.self_.begin + f.self_.size)) {
    const char* const at = reinterpret_cast<const char*>(m);
    const auto holds = [at](const Fields::Span& s) { return s.holds(at); };
    if (m != &layer && std::none_of(listed.begin(), listed.end(), holds))
      check::fail(name.c_str(), "holds a ", kind_of(m), neighbours(f, at), " that FIT_FIELDS does not name");
  }
}

}  // namespace fit::nn
