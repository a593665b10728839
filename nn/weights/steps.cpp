#include "weights/steps.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "common/pattern.hpp"
#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

constexpr const char* op = "NameMap";
using Kind = NameRule::Kind;
using Tensors = std::vector<io::Stored>;
using Letters = std::vector<std::string>;  // the text that each * matched

// ---- patterns -----------------------------------------------------------------------------------------------------

std::string filled(const std::string& pattern, const Letters& letters) {
  std::string name;
  std::size_t next = 0;
  for (const char c : pattern) {
    if (c == '*')
      name += letters[next++];
    else
      name += c;
  }
  return name;
}

// ---- steps --------------------------------------------------------------------------------------------------------

// `change` replaces what reads a tensor.
template <class Change>
void each_match(Tensors& all, const std::string& from, const std::string& to, const Change& change) {
  for (io::Stored& x : all)
    if (const auto letters = match(from, x.name)) {
      if constexpr (!std::is_null_pointer_v<Change>) {
        x.read_into = nullptr, x.map = nullptr;
        change(x);
      }
      x.name = filled(to, *letters);
    }
}

void turn(io::Stored& x) {
  if (!x.read) return;
  const int rank = x.shape.rank();
  if (rank != 2 && rank != 3)
    check::fail(op, x.name, " has shape ", x.shape, ": what is transposed must have two axes, or three");
  x.shape = x.shape.with(rank - 2, x.shape[rank - 1]).with(rank - 1, x.shape[rank - 2]);
  x.read = [read = std::move(x.read)] { return transpose(read(), -2, -1); };
}

// [groups, D, ...] become [groups D, ...], or the other way.
void change_axes(io::Stored& x, std::int64_t groups, bool forward) {
  if (!x.read) return;
  std::vector<std::int64_t> sizes(x.shape.begin(), x.shape.end());
  const bool fits = forward ? sizes.size() >= 2 && sizes[0] == groups : !sizes.empty() && sizes[0] % groups == 0;
  if (!fits)
    check::fail(op, x.name, " has shape ", x.shape,
                forward ? ": its first axis must be " : ": its first axis must have ", groups,
                forward ? ", with another behind it" : " equal parts");
  if (forward) {
    sizes[1] *= groups;
    sizes.erase(sizes.begin());
  } else {
    sizes[0] /= groups;
    sizes.insert(sizes.begin(), groups);
  }
  x.shape = Shape(sizes);
  x.read = [read = std::move(x.read), shape = x.shape] { return reshape(read(), shape); };
}

void add_number(io::Stored& x, double by) {
  if (!x.read) return;
  x.dtype = x.dtype == bfloat16 ? float32 : x.dtype;  // 1 + weight has more digits than the weight
  x.read = [read = std::move(x.read), dtype = x.dtype, by] { return read().to(dtype) + by; };
}

// Rows [a, b, D] become [b, a, D].
void swap_groups(io::Stored& x, std::int64_t a, std::int64_t b) {
  if (!x.read) return;
  if (x.shape.rank() == 0 || a <= 0 || b <= 0 || x.shape[0] % (a * b) != 0)
    check::fail(op, x.name, " has shape ", x.shape, ": its first axis must be cut into ", a, " times ", b,
                " groups of rows");
  x.read = [read = std::move(x.read), shape = x.shape, a, b] {
    return reshape(transpose(reshape(read(), {a, b, -1}), 0, 1), shape);
  };
}

// Removes the first rows of theirs, or adds zeros to ours.
void change_rows(io::Stored& x, std::int64_t rows, bool forward) {
  if (!x.read) return;
  const std::int64_t there = x.shape.rank() > 0 ? x.shape[0] : 0;
  if (x.shape.rank() == 0 || (forward && there < rows))
    check::fail(op, x.name, " has shape ", x.shape, ": it must have at least ", rows, " rows");
  x.shape = x.shape.with(0, forward ? there - rows : there + rows);
  x.read = [read = std::move(x.read), rows, there, forward] {
    const Tensor all = read();
    if (forward) return slice(all, 0, rows, there);
    return cat({zeros(all.shape().with(0, rows), all.dtype()), all}, 0);
  };
}

// Splits one tensor into several.
void take_apart(Tensors& all, const std::string& from, const std::vector<std::string>& to,
                const std::vector<std::int64_t>& sizes) {
  Tensors result;
  const auto n = static_cast<std::int64_t>(to.size());
  for (io::Stored& x : all) {
    const auto letters = match(from, x.name);
    if (!letters) {
      result.push_back(std::move(x));
      continue;
    }
    const std::int64_t rows = x.read && x.shape.rank() > 0 ? x.shape[0] : -1;
    if (sizes.empty() ? rows < 0 || rows % n != 0
                      : std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != rows)
      check::fail(op, x.name, x.read ? " has shape " + x.shape.str() : " is undefined",
                  ": its first axis must be cut into ", n,
                  sizes.empty() ? " equal parts" : " parts of the sizes given");
    std::int64_t at = 0;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const std::int64_t begin = at, size = sizes.empty() ? rows / n : sizes[i];
      at += size;
      result.push_back({filled(to[i], *letters), x.shape.with(0, size), x.dtype,
                        [read = x.read, begin, at] { return slice(read(), 0, begin, at); }, x.file_dtype});
    }
  }
  all = std::move(result);
}

// Joins several tensors into one.
void put_together(Tensors& all, const std::vector<std::string>& from, const std::string& to,
                  const std::vector<std::int64_t>& sizes) {
  std::unordered_map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < all.size(); ++i) place.emplace(all[i].name, i);
  std::vector<bool> gone(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::optional<Letters> letters;
    for (std::size_t k = 0; k < from.size() && !letters && !gone[i]; ++k) letters = match(from[k], all[i].name);
    if (!letters) continue;
    Tensors parts;
    std::int64_t rows = 0;
    for (std::size_t k = 0; k < from.size(); ++k) {
      const std::string name = filled(from[k], *letters);
      const auto found = place.find(name);
      if (found == place.end() || gone[found->second] || !all[found->second].read)
        check::fail(op, all[i].name, " is there, but ", name, " is not: both are parts of ", filled(to, *letters));
      const io::Stored& part = all[found->second];
      const io::Stored& first = parts.empty() ? part : parts[0];
      const bool fits = part.shape.rank() > 0 && part.shape.rank() == first.shape.rank() && part.dtype == first.dtype &&
                        part.shape.with(0, 0) == first.shape.with(0, 0) &&
                        part.shape[0] == (sizes.empty() ? first.shape[0] : sizes[k]);
      if (!fits)
        check::fail(op, name, " has shape ", part.shape, ' ', part.dtype_name(), ", ", first.name, ' ', first.shape,
                    ' ', first.dtype_name(), ": they can't be put together as ", filled(to, *letters));
      rows += part.shape[0];
      gone[found->second] = true;
      parts.push_back(part);
    }
    const Shape shape = parts[0].shape.with(0, rows);
    const DType dtype = parts[0].dtype;
    const char* const file_dtype = parts[0].file_dtype;
    gone[i] = false;  // the joined tensor takes the position of its first part
    all[i] = {filled(to, *letters), shape, dtype,
              [parts = std::move(parts)] {
                std::vector<Tensor> read;
                for (const io::Stored& part : parts) read.push_back(part.read());
                return cat(read, 0);
              },
              file_dtype};
  }
  Tensors result;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!gone[i]) result.push_back(std::move(all[i]));
  all = std::move(result);
}

void leave_out(Tensors& all, const std::string& pattern) {
  all.erase(
      std::remove_if(all.begin(), all.end(), [&](const io::Stored& x) { return match(pattern, x.name).has_value(); }),
      all.end());
}

void refuse_any(const Tensors& all, const NameRule& rule) {
  for (const io::Stored& x : all)
    if (match(rule.theirs[0], x.name)) check::fail(op, "'", x.name, "' has no counterpart here: ", rule.why);
}

void step(Tensors& all, const NameRule& rule, bool forward) {
  static const std::string none;
  const std::string &theirs = rule.theirs[0], &ours = rule.ours.empty() ? none : rule.ours[0];
  switch (rule.kind) {
    case Kind::rename:
      return each_match(all, forward ? theirs : ours, forward ? ours : theirs, nullptr);
    case Kind::transpose:
      return each_match(all, forward ? theirs : ours, forward ? ours : theirs, turn);
    case Kind::shift:
      return each_match(all, forward ? theirs : ours, forward ? ours : theirs,
                        [&](io::Stored& x) { add_number(x, forward ? rule.by : -rule.by); });
    case Kind::regroup:
      return each_match(all, forward ? theirs : ours, forward ? ours : theirs, [&](io::Stored& x) {
        swap_groups(x, rule.sizes[forward ? 0 : 1], rule.sizes[forward ? 1 : 0]);
      });
    case Kind::flatten:
      return each_match(all, forward ? theirs : ours, forward ? ours : theirs,
                        [&](io::Stored& x) { change_axes(x, rule.sizes[0], forward); });
    case Kind::skip_rows:
      return each_match(all, forward ? theirs : ours, forward ? ours : theirs,
                        [&](io::Stored& x) { change_rows(x, rule.sizes[0], forward); });
    case Kind::split:
      return forward ? take_apart(all, theirs, rule.ours, rule.sizes)
                     : put_together(all, rule.ours, theirs, rule.sizes);
    case Kind::join:
      return forward ? put_together(all, rule.theirs, ours, rule.sizes)
                     : take_apart(all, ours, rule.theirs, rule.sizes);
    case Kind::alias:
      if (forward) each_match(all, theirs, ours, nullptr);
      return;
    case Kind::drop:
      if (forward) leave_out(all, theirs);
      return;
    case Kind::refuse:
      if (forward) refuse_any(all, rule);
      return;
  }
}

StateDict read_all(const Tensors& all) {
  StateDict state;
  for (const io::Stored& x : all) state.emplace_back(x.name, x.read ? x.read() : Tensor());
  return state;
}

// ---- making rules -------------------------------------------------------------------------------------------------

NameRule checked(NameRule rule) {
  const auto stars = [](const std::string& pattern) { return std::count(pattern.begin(), pattern.end(), '*'); };
  for (const auto* side : {&rule.theirs, &rule.ours})
    for (const std::string& pattern : *side)
      if (stars(pattern) != stars(rule.theirs[0]))
        check::fail(op, "'", rule.theirs[0], "' and '", pattern, "': both must have the same number of *");
  const std::size_t parts = std::max(rule.theirs.size(), rule.ours.size());
  if (!rule.sizes.empty() && rule.sizes.size() != parts)
    check::fail(op, "'", rule.theirs[0], "' has ", parts, " parts and ", rule.sizes.size(),
                " sizes: one each is wanted");
  return rule;
}

}  // namespace

NameRule rename(const std::string& theirs, const std::string& ours) {
  return checked({Kind::rename, {theirs}, {ours}, {}, {}});
}

NameRule transpose(const std::string& theirs, const std::string& ours) {
  return checked({Kind::transpose, {theirs}, {ours}, {}, {}});
}

NameRule split(const std::string& theirs, const std::vector<std::string>& ours,
               const std::vector<std::int64_t>& sizes) {
  if (ours.empty()) check::fail(op, "'", theirs, "' is split into nothing: name the parts");
  return checked({Kind::split, {theirs}, ours, sizes, {}});
}

NameRule join(const std::vector<std::string>& theirs, const std::string& ours, const std::vector<std::int64_t>& sizes) {
  if (theirs.empty()) check::fail(op, "'", ours, "' is made of nothing: name the parts");
  return checked({Kind::join, theirs, {ours}, sizes, {}});
}

NameRule shift(const std::string& theirs, const std::string& ours, double by) {
  return checked({Kind::shift, {theirs}, {ours}, {}, {}, by});
}

NameRule regroup(const std::string& theirs, const std::string& ours, std::int64_t groups, std::int64_t parts) {
  NameRule rule = checked({Kind::regroup, {theirs}, {ours}, {}, {}});
  rule.sizes = {groups, parts};
  return rule;
}

NameRule flatten(const std::string& theirs, const std::string& ours, std::int64_t groups) {
  if (groups < 1) check::fail(op, "flatten('", theirs, "', …, ", groups, "): the number must be positive");
  return checked({Kind::flatten, {theirs}, {ours}, {groups}, {}});
}

NameRule skip_rows(const std::string& theirs, const std::string& ours, std::int64_t rows) {
  if (rows < 0) check::fail(op, "skip_rows('", theirs, "', …, ", rows, "): the number must not be negative");
  return checked({Kind::skip_rows, {theirs}, {ours}, {rows}, {}});
}

NameRule alias(const std::string& other, const std::string& theirs) {
  return checked({Kind::alias, {other}, {theirs}, {}, {}});
}

NameRule drop(const std::string& theirs) { return {Kind::drop, {theirs}, {}, {}, {}}; }
NameRule prefix(const std::string& theirs) { return {Kind::rename, {theirs + '*'}, {"*"}, {}, {}}; }
NameRule strip(const std::string& theirs) { return alias(theirs + '*', "*"); }
NameRule refuse(const std::string& theirs, const std::string& why) { return {Kind::refuse, {theirs}, {}, {}, why}; }

NameMap within_names(const std::string& before, const NameMap& map) {
  NameMap all = map;
  for (NameRule& rule : all)
    for (auto* side : {&rule.theirs, &rule.ours})
      for (std::string& pattern : *side) pattern.insert(0, before);
  return all;
}

Tensors mapped_to_ours(Tensors theirs, const NameMap& map) {
  for (const NameRule& rule : map) step(theirs, rule, true);
  return theirs;
}

StateDict to_ours(const StateDict& theirs, const NameMap& map) {
  return read_all(mapped_to_ours(io::stored(theirs), map));
}

StateDict to_theirs(const StateDict& ours, const NameMap& map) {
  Tensors all = io::stored(ours);
  for (auto rule = map.rbegin(); rule != map.rend(); ++rule) step(all, *rule, false);
  return read_all(all);
}

}  // namespace fit::nn
