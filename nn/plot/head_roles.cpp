#include "plot/head_roles.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace fit::plot {
namespace {

enum class Role { self, previous, first, duplicate, induction };

constexpr std::int64_t least_keys = 3, least_queries = 4;

// One query of one head. `at` is its position among the keys, -1 in cross-attention. `names` are empty if keys have
// none.
struct Query {
  const float* weights;
  const std::uint8_t* why;
  std::int64_t keys, at;
  const std::vector<std::string>& names;

  bool attends(std::int64_t k) const { return why[k] == plot::attends; }

  bool is_target(Role role, std::int64_t k) const {
    const auto repeats = [&](std::int64_t j) { return !names.empty() && j >= 0 && j < at && names[j] == names[at]; };
    switch (role) {
      case Role::self:
        return k == at;
      case Role::previous:
        return at > 0 && k == at - 1;
      case Role::first:
        return k == 0;
      case Role::duplicate:
        return repeats(k);
      default:
        return repeats(k - 1);
    }
  }
};

// Sums over the queries that count.
struct Sums {
  double weight = 0, even = 0;
  std::int64_t queries = 0;

  void add(const Query& q, Role role) {
    double w = 0;
    std::int64_t targets = 0, visible = 0;
    for (std::int64_t k = 0; k < q.keys; ++k) {
      if (!q.attends(k)) continue;
      ++visible;
      if (q.is_target(role, k)) ++targets, w += q.weights[k];
    }
    if (visible < least_keys || targets == 0 || targets == visible) return;
    weight += w, even += static_cast<double>(targets) / static_cast<double>(visible), ++queries;
  }
  HeadRole role() const {
    if (queries < least_queries) return {};
    const auto n = static_cast<double>(queries);
    return {(weight - even) / (n - even), weight / n, even / n};
  }
};

using RoleSums = std::array<Sums, 5>;  // by role

// Adds the queries of one head.
void add_queries(RoleSums& sums, const MaskedRecord& masked, std::int64_t h) {
  const AttentionRecord& r = masked.record;
  const std::int64_t Sq = r.weights.size(1), Sk = r.weights.size(2);
  for (std::int64_t i = 0; i < Sq; ++i) {
    const float* const row = r.weights.data<float>().data() + (h * Sq + i) * Sk;
    if (!std::all_of(row, row + Sk, [](float w) { return std::isfinite(w); })) continue;
    const std::uint8_t* const why = masked.pairs.why.data() + ((masked.pairs.heads == 1 ? 0 : h) * Sq + i) * Sk;
    const Query query{row, why, Sk, r.kind == AttentionKind::self ? i + Sk - Sq : -1, r.keys};
    for (std::size_t role = 0; role < sums.size(); ++role) sums[role].add(query, static_cast<Role>(role));
  }
}

}  // namespace

std::vector<HeadRoles> head_roles(const std::vector<MaskedRecord>& records) {
  std::vector<HeadRoles> roles;
  for (std::int64_t h = 0; h < records.front().record.weights.size(0); ++h) {
    RoleSums sums;
    for (const MaskedRecord& masked : records) add_queries(sums, masked, h);
    roles.push_back({sums[0].role(), sums[1].role(), sums[2].role(), sums[3].role(), sums[4].role()});
  }
  return roles;
}

}  // namespace fit::plot
