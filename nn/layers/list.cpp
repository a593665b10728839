#include "layers/list.hpp"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_set>

#include "tensor/check.hpp"

namespace fit::nn {

// ---- the members that live ----------------------------------------------------------------------------------------

namespace detail {

// Layers are made and destroyed on any thread, so members are kept by the page of memory that they lie in, and each
// bucket of pages has a lock of its own.
struct Members {
  struct Bucket {
    std::mutex mutex;
    Member* first = nullptr;
  };
  static constexpr std::size_t count = 512;
  static Bucket buckets[count];  // constant at the start and never destroyed: layers may be static objects

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
  // Those that begin in [begin, end), in the order of their addresses.
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
};

Members::Bucket Members::buckets[count];

Member::Member(Kind kind) noexcept : kind_(kind) { Members::add(this); }
Member::~Member() { Members::remove(this); }

}  // namespace detail

// ---- the list -----------------------------------------------------------------------------------------------------

// The name up to the next comma, without spaces and "this->".
std::string Fields::next(const char*& names) {
  std::string name;
  for (; *names && *names != ','; ++names)
    if (*names != ' ') name += *names;
  if (*names) ++names;
  return name.rfind("this->", 0) == 0 ? name.substr(6) : name;
}

namespace {

using detail::Member;

std::string kind_of(const Member* m) {
  if (m->kind() == Member::Kind::parameter) return "Parameter";
  if (m->kind() == Member::Kind::buffer) return "Buffer";
  return static_cast<const Layer*>(m)->name();
}

// The words of an object, which may be anything: other threads may be writing to members of it meanwhile.
using Word [[gnu::may_alias]] = std::uintptr_t;
__attribute__((no_sanitize_thread)) Word word(const char* at) { return *reinterpret_cast<const Word*>(at); }

const char* pointer(Word w) {
  const char* p = nullptr;
  std::memcpy(&p, &w, sizeof p);
  return p;
}

// What begins where `begin` points: the member, and how large it is. In a Parameter, a Buffer and a layer, a pointer
// comes before what is registered.
struct Found {
  const Member* member = nullptr;
  std::size_t size = 0;
};

}  // namespace

// Where in the list something lies: " between 'a' and 'b'".
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

void ListOf::check_names(const Layer& layer, const Fields& f) {
  std::set<std::string> names;
  for (const Fields::Span& s : f.spans_) {
    const bool word = !s.name.empty() && std::all_of(s.name.begin(), s.name.end(),
                                                     [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!word)
      check::fail(layer.name().c_str(), "lists the name '", s.name, "': it must be a word of letters, digits and _");
    if (!names.insert(s.name).second) check::fail(layer.name().c_str(), "lists the name '", s.name, "' twice");
  }
}

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
  std::unordered_set<const Member*> members{&layer};
  for (const Field& field : f.list_) {
    if (field.layer) listed.push_back(raw(*field.layer).self_);
    members.insert(field.layer       ? static_cast<const Member*>(field.layer)
                   : field.parameter ? static_cast<const Member*>(field.parameter)
                                     : field.buffer);
  }
  const auto is_listed = [&](const char* p) {
    return std::any_of(listed.begin(), listed.end(), [&](const Fields::Span& s) { return s.holds(p); });
  };
  const auto unlisted = [&](const char* what, const Member* m, const char* at) {
    check::fail(name.c_str(), "holds a ", what, kind_of(m), neighbours(f, at), " that FIT_FIELDS does not name");
  };

  // Members of the object itself.
  const char *const begin = f.self_.begin, *const end = begin + f.self_.size;
  for (const Member* m : detail::Members::within(begin, end))
    if (m != &layer && !is_listed(reinterpret_cast<const char*>(m))) unlisted("", m, reinterpret_cast<const char*>(m));

  // Members elsewhere, in a std::vector: three pointers, of which the first is to a member and the others are whole
  // members behind it. (Not behind a pointer: what it points to may be somebody else's, and the unused bytes of an
  // object, as in an empty std::optional, may still hold pointers of one that lay there before.)
  constexpr std::size_t size = sizeof(Word);
  const auto member_at = [&](const char* p) {
    if (reinterpret_cast<Word>(p) % size != 0 || f.self_.holds(p)) return Found();
    const std::vector<const Member*> there = detail::Members::within(p, p + 2 * size);
    if (there.empty() || members.count(there[0])) return Found();
    if (there[0]->kind() == Member::Kind::parameter) return Found{there[0], sizeof(Parameter)};
    if (there[0]->kind() == Member::Kind::buffer) return Found{there[0], sizeof(Buffer)};
    const Fields::Span whole = raw(*static_cast<const Layer*>(there[0])).self_;
    return whole.begin == p ? Found{there[0], whole.size} : Found();
  };
  for (const char* p = begin; p + 3 * size <= end; p += size) {
    if (is_listed(p)) continue;
    const char *const first = pointer(word(p)), *const second = pointer(word(p + size)),
                      *const third = pointer(word(p + 2 * size));
    if (first == nullptr || second <= first || third < second) continue;
    const Found found = member_at(first);
    if (!found.member || static_cast<std::size_t>(third - first) % found.size != 0) continue;
    const char* at = first;
    while (at < second && member_at(at).size == found.size) at += found.size;
    if (at == second) unlisted("std::vector of ", found.member, p);
  }
}

}  // namespace fit::nn
