#include "plot/head_roles.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
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
  double value() const {
    if (queries < least_queries) return std::numeric_limits<double>::quiet_NaN();
    return (weight - even) / (static_cast<double>(queries) - even);
  }
};

}  // namespace

std::vector<HeadRoles> head_roles(const AttentionRecord& record, const MaskedPairs& pairs) {
  const std::int64_t H = record.weights.size(0), Sq = record.weights.size(1), Sk = record.weights.size(2);
  const bool is_self = record.kind == AttentionKind::self;
  const float* const weights = record.weights.data<float>().data();
  std::vector<HeadRoles> roles;
  for (std::int64_t h = 0; h < H; ++h) {
    std::array<Sums, 5> sums;  // by role
    for (std::int64_t i = 0; i < Sq; ++i) {
      const float* const row = weights + (h * Sq + i) * Sk;
      bool finite = true;
      for (std::int64_t k = 0; k < Sk; ++k) finite = finite && std::isfinite(row[k]);
      if (!finite) continue;
      const std::uint8_t* const why = pairs.why.data() + ((pairs.heads == 1 ? 0 : h) * Sq + i) * Sk;
      const Query query{row, why, Sk, is_self ? i + Sk - Sq : -1, record.keys};
      for (std::size_t role = 0; role < sums.size(); ++role) sums[role].add(query, static_cast<Role>(role));
    }
    roles.push_back({sums[0].value(), sums[1].value(), sums[2].value(), sums[3].value(), sums[4].value()});
  }
  return roles;
}

}  // namespace fit::plot
