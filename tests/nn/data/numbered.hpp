#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "fit/nn/data/data.hpp"
#include "fit/ops/ops.hpp"

// Examples that are their own numbers.
namespace fit::test {

using Ids = std::vector<std::int64_t>;

// The number of the epoch's examples, batch by batch.
inline std::vector<Ids> batches(data::DataLoader& loader) {
  std::vector<Ids> all;
  for (const data::Batch& b : loader) all.push_back(b[0].to_vector<std::int64_t>());
  return all;
}

inline Ids joined(const std::vector<Ids>& all) {
  Ids ids;
  for (const Ids& b : all) ids.insert(ids.end(), b.begin(), b.end());
  return ids;
}

inline Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

inline Ids count_to(std::int64_t n) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

inline data::TensorDataset numbers(std::int64_t n) { return data::TensorDataset({arange(n)}); }

// Sequences of growing length: example i is i, i, … (i + 1 times), and i alone.
struct Growing : data::Dataset {
  std::int64_t size() const override { return 5; }
  data::Example get(std::int64_t i) const override { return {full({i + 1}, i, int64), full({}, i, int64)}; }
};

}  // namespace fit::test
