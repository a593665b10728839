#include "common/load.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/affixes.hpp"
#include "base/joined.hpp"
#include "common/lent.hpp"
#include "common/retype.hpp"
#include "fit/base/memory.hpp"
#include "fit/graph/graph.hpp"
#include "fit/tensor/lookup.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

// A name that does not fit, and its text for the message.
struct Misfit {
  std::string name, detail;
  Shape shape = {};
};

struct Comparison {
  std::vector<Misfit> missing, unexpected, misshapen;
  std::vector<Misfit> unknown;  // the unexpected names that are not mine
  std::vector<std::pair<Tensor, const io::Stored*>> copies;

  Misfits report() const {
    const auto names = [](const std::vector<Misfit>& misfits) {
      std::vector<std::string> list;
      list.reserve(misfits.size());
      for (const Misfit& m : misfits) list.push_back(m.name);
      return list;
    };
    return {names(missing), names(unexpected), names(misshapen)};
  }
  bool fits() const { return missing.empty() && unexpected.empty() && misshapen.empty(); }
};

bool same_buffer(const Tensor& a, const Tensor& b) {
  return a.raw() == b.raw() && a.shape() == b.shape() && a.dtype() == b.dtype();
}

bool convertible(DType from, DType to) { return from == to || (is_floating(from) && is_floating(to)); }

// For each of mine, the index of the first entry with the same tensor.
std::vector<std::size_t> first_of_each(const StateDict& mine) {
  std::unordered_map<const void*, std::vector<std::size_t>> seen;
  std::vector<std::size_t> first;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Tensor& x = mine[i].second;
    first.push_back(i);
    if (x.numel() == 0) continue;
    std::vector<std::size_t>& there = seen[x.raw()];
    const auto found =
        std::find_if(there.begin(), there.end(), [&](std::size_t k) { return same_buffer(mine[k].second, x); });
    if (found != there.end())
      first.back() = *found;
    else
      there.push_back(i);
  }
  return first;
}

// Whether PyTorch's BatchNorm counts batches there, which nothing here reads: beside a running mean of mine.
bool counts_batches(const std::string& name, const StateDict& mine) {
  const std::string end = "num_batches_tracked";
  if (!ends_with(name, end)) return false;
  const std::string beside = name.substr(0, name.size() - end.size()) + "running_mean";
  return std::any_of(mine.begin(), mine.end(), [&](const auto& entry) { return entry.first == beside; });
}

Comparison compare(const StateDict& mine, const std::vector<io::Stored>& given) {
  Comparison c;
  std::unordered_map<std::string, const io::Stored*> left;
  for (const io::Stored& g : given)
    if (!left.emplace(g.name, &g).second) c.unexpected.push_back({g.name, g.name + " (twice)"});

  const std::vector<std::size_t> first = first_of_each(mine);
  std::vector<const io::Stored*> taken(mine.size());  // for the first of each
  std::vector<std::size_t> absent;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const auto& [name, to] = mine[i];
    const auto found = left.find(name);
    if (found == left.end()) {
      absent.push_back(i);
      continue;
    }
    const io::Stored& from = *found->second;
    left.erase(found);
    const io::Stored*& other = taken[first[i]];
    if (!from.read)
      c.misshapen.push_back({name, name + " is undefined"});
    else if (from.shape != to.shape())
      c.misshapen.push_back({name, joined(name, " is ", from.shape, ", here ", to.shape())});
    else if (!convertible(from.dtype, to.dtype()))
      c.misshapen.push_back({name, joined(name, " is ", from.dtype_name(), ", here ", to.dtype())});
    else if (!other)
      other = &from, c.copies.emplace_back(to, &from);
    else if (!same_values(*other, from))
      c.misshapen.push_back({name, joined(name, " and ", other->name, " differ, here they are one tensor")});
  }
  for (const std::size_t i : absent)
    if (!taken[first[i]])
      c.missing.push_back({mine[i].first, joined(mine[i].first, ' ', mine[i].second.shape()), mine[i].second.shape()});
  for (const io::Stored& g : given)
    if (left.erase(g.name) && !counts_batches(g.name, mine)) {
      c.unexpected.push_back({g.name, joined(g.name, ' ', g.read ? g.shape.str() : "undefined"), g.shape});
      c.unknown.push_back(c.unexpected.back());
    }
  return c;
}

std::string line(const char* what, const std::vector<Misfit>& misfits) {
  std::string list;
  for (const Misfit& m : misfits) list += (list.empty() ? "" : ", ") + m.detail;
  return list.empty() ? list : joined("\n  ", what, ": ", list);
}

// Whether `whole` is `end` behind a prefix with a dot.
bool ends_in(const std::string& whole, const std::string& end) {
  return whole.size() > end.size() + 1 && ends_with(whole, '.' + end);
}

// Pairs unknown names with missing names of the same shape: first those that differ by a prefix, then the most similar.
std::string pairs(const Comparison& c) {
  constexpr std::size_t most = 8;  // a few pairs suffice if all names differ
  std::vector<Misfit> missing = c.missing, unknown = c.unknown;
  std::string list;
  std::size_t found = 0;
  const auto pair_off = [&](const auto& partner) {
    std::vector<Misfit> rest;
    for (const Misfit& given : unknown) {
      const auto best = found == most ? missing.end() : partner(given);
      if (best == missing.end()) {
        rest.push_back(given);
        continue;
      }
      list += joined(list.empty() ? "" : ", ", given.name, " for ", best->name);
      missing.erase(best);
      ++found;
    }
    unknown = std::move(rest);
  };
  pair_off([&](const Misfit& given) {
    return std::find_if(missing.begin(), missing.end(), [&](const Misfit& m) {
      return m.shape == given.shape && (ends_in(given.name, m.name) || ends_in(m.name, given.name));
    });
  });
  pair_off([&](const Misfit& given) {
    std::vector<std::string> names;
    for (const Misfit& m : missing)
      if (m.shape == given.shape) names.push_back(m.name);
    const std::string* const near = most_similar(given.name, names);
    return std::find_if(missing.begin(), missing.end(), [&](const Misfit& m) { return near && m.name == *near; });
  });
  return list.empty() ? list : "\n  perhaps: " + list;
}

// The prefix that makes each name of `names` one of `whole`; empty if there is none.
std::string common_prefix(const std::vector<Misfit>& names, const std::vector<Misfit>& whole) {
  if (names.empty()) return {};
  std::unordered_set<std::string> all;
  for (const Misfit& w : whole) all.insert(w.name);
  for (const Misfit& w : whole) {
    if (!ends_in(w.name, names[0].name)) continue;
    const std::string prefix = w.name.substr(0, w.name.size() - names[0].name.size());
    if (std::all_of(names.begin(), names.end(), [&](const Misfit& m) { return all.count(prefix + m.name) > 0; }))
      return prefix;
  }
  return {};
}

// Advice if every missing name was given with the same prefix: "model.out.weight" instead of "out.weight"; or the
// reverse.
std::string prefixed(const Comparison& c) {
  if (const std::string prefix = common_prefix(c.missing, c.unknown); !prefix.empty())
    return joined("\n  every missing name was given with the prefix '", prefix,
                  "': load_from_checkpoint() loads a part of a checkpoint, and load_weights() with {nn::strip(\"",
                  prefix, "\")} removes the prefix");
  if (const std::string prefix = common_prefix(c.unknown, c.missing); !prefix.empty())
    return joined("\n  every name was given without the prefix '", prefix, "': load them into the sublayer '",
                  prefix.substr(0, prefix.size() - 1), "'");
  return {};
}

// Advice if the state is quantised and the model is not, or vice versa.
std::string quantized(const Comparison& c) {
  const auto has = [](const std::vector<Misfit>& misfits, const std::string& end) {
    return std::any_of(misfits.begin(), misfits.end(), [&](const Misfit& m) { return ends_with(m.name, end); });
  };
  const std::vector<std::string> types{"int8", "int4"};
  for (const std::string& type : types)
    if (has(c.unexpected, ".weight." + type))
      return "\n  the state holds " + type +
             " weights: nn::quantize_() the model before they are loaded, with the options of the file";
  for (const std::string& type : types)
    if (has(c.missing, ".weight." + type))
      return "\n  the model has " + type + " weights: load those in floating point before nn::quantize_()";
  return {};
}

// The same for weights that are computed from others.
std::string parametrized(const Comparison& c) {
  const auto has = [](const std::vector<Misfit>& misfits) {
    return std::any_of(misfits.begin(), misfits.end(),
                       [](const Misfit& m) { return m.name.find(".parametrization.") != std::string::npos; });
  };
  if (has(c.unexpected))
    return "\n  the state holds adapters or parametrised weights: nn::add_lora() or nn::parametrize() the model before "
           "they are loaded, as the one that was saved; nn::merge_lora() before it is saved gives plain weights";
  if (has(c.missing))
    return "\n  the model has adapters or parametrised weights: load plain weights before nn::add_lora() or "
           "nn::parametrize()";
  return {};
}

// What to do: about a prefix of all names, about another kind of weights, or about names that are alike.
std::string advice(const Comparison& c) {
  for (const std::string& text : {prefixed(c), quantized(c) + parametrized(c)})
    if (!text.empty()) return text;
  return pairs(c);
}

std::string differences(const Comparison& c) {
  return line("missing", c.missing) + line("unexpected", c.unexpected) + advice(c) + line("misshapen", c.misshapen);
}

// Throws Error if a tensor of mine has other values for a scope.
void check_own(const char* op, const StateDict& mine) {
  for (const auto& [name, to] : mine) check_not_lent(op, name, to, "would undo the loading");
}

// Makes mappings of large tensors that have their buffer alone, under one or several names. Leaves the others in c.
void map_files(Comparison& c, const StateDict& mine) {
  constexpr std::int64_t least = 1 << 16;               // bytes; fewer are read as fast
  std::unordered_map<const void*, const void*> owners;  // of buffers; null if there are several
  for (const auto& [name, x] : mine) {
    const auto [at, first] = owners.emplace(x.raw(), x.impl());
    if (!first && at->second != x.impl()) at->second = nullptr;
  }
  const auto maps = [&](const std::pair<Tensor, const io::Stored*>& one) {
    Tensor to = one.first;
    const io::Stored& from = *one.second;
    if (!from.map || from.dtype != to.dtype() || to.numel() * size_of(to.dtype()) < least) return false;
    if (!owners.at(to.raw())) return false;
    const Tensor mapping = from.map();
    if (mapping.defined()) retype(to, mapping);
    return mapping.defined();
  };
  c.copies.erase(std::remove_if(c.copies.begin(), c.copies.end(), maps), c.copies.end());
}

void copy(const Comparison& c) {
  const NoGrad no_grad;
  // A large tensor that was converted on the way leaves memory that only a larger one would use again.
  constexpr std::int64_t much = 16 << 20;
  std::vector<Tensor> places;  // all of them before the first is written: what follows need not allocate
  places.reserve(c.copies.size());
  for (const auto& [to, from] : c.copies) places.push_back(to.detach());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const io::Stored& from = *c.copies[i].second;
    if (from.read_into && is_floating(places[i].dtype()))
      from.read_into(places[i]);
    else
      places[i].copy_(from.read());
    if (places[i].numel() * size_of(places[i].dtype()) >= much) empty_cache();
  }
}

Comparison fitting(const char* op, const std::string& owner, const StateDict& mine,
                   const std::vector<io::Stored>& given) {
  check_own(op, mine);
  Comparison c = compare(mine, given);
  if (c.fits()) return c;
  check::fail(op, "the state does not fit this ", owner, "; nothing was loaded:", differences(c));
}

}  // namespace

bool same_values(const io::Stored& a, const io::Stored& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const Tensor x = a.map ? a.map() : a.read(), y = b.map ? b.map() : b.read();
  return x.raw() == y.raw() ||
         std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(x.numel() * size_of(x.dtype()))) == 0;
}

void load_values(const char* op, const std::string& owner, const StateDict& mine,
                 const std::vector<io::Stored>& given) {
  copy(fitting(op, owner, mine, given));
}

void map_values(const char* op, const std::string& owner, const StateDict& mine, const std::vector<io::Stored>& given) {
  Comparison c = fitting(op, owner, mine, given);
  map_files(c, mine);
  copy(c);
}

void load_values(const char* op, const std::string& owner, const StateDict& mine, const StateDict& given) {
  // Converts first, so that no allocation can fail after the first write.
  const NoGrad no_grad;
  std::unordered_map<std::string, DType> types;
  for (const auto& [name, to] : mine) types.emplace(name, to.dtype());
  StateDict same = given;
  for (auto& [name, x] : same)
    if (const auto to = types.find(name); to != types.end() && x.defined() && convertible(x.dtype(), to->second))
      x = x.to(to->second);
  load_values(op, owner, mine, io::stored(same));
}

Misfits load_fitting(const std::string& owner, const StateDict& mine, const std::vector<io::Stored>& given) {
  constexpr const char* op = "load_fitting_weights";
  check_own(op, mine);
  const Comparison c = compare(mine, given);
  if (c.copies.empty() && !mine.empty())
    check::fail(op, "no tensor of the state fits this ", owner, "; nothing was loaded:", differences(c));
  copy(c);
  return c.report();
}

}  // namespace fit::nn
