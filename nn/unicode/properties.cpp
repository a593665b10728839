#include <string>
#include <unordered_map>

#include "unicode/range_set.hpp"

namespace fit::unicode {
namespace {

using Properties = std::unordered_map<std::string, RangeSet>;

// The categories ("Lu"), those of one first letter ("L"), and the scripts.
Properties all_properties() {
  Properties all;
  char32_t begin = 0;
  for (std::size_t i = 0; i < tables::categories.size; ++i) {
    const auto run = static_cast<char32_t>(tables::categories.numbers[i]);
    const std::string name(tables::category_names + 2 * (run % 32), 2);
    for (const std::string& one : {name, name.substr(0, 1)}) all[one].add(begin, begin + run / 32);
    begin += run / 32;
  }
  for (auto& [name, set] : all) set.finish();
  for (std::size_t i = 0; i < tables::number_of_scripts; ++i)
    all.emplace(tables::scripts[i].name, tables::scripts[i].ranges);
  return all;
}

}  // namespace

CharacterSet category(const std::string& name) {
  static const Properties all = all_properties();
  const auto found = all.find(name);
  if (found == all.end()) return nullptr;
  return [&set = found->second](char32_t c) { return set.holds(c); };
}

std::string script_names() {
  std::string all;
  for (std::size_t i = 0; i < tables::number_of_scripts; ++i)
    all.append(i == 0 ? "" : ", ").append(tables::scripts[i].name);
  return all;
}

}  // namespace fit::unicode
