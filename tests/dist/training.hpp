#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include "fit/nn.hpp"
#include "fit/nn/training/data_parallel.hpp"
#include "support/catch.hpp"
#include "support/tensors.hpp"

// Trainings that several ranks do together and one does alone.
namespace fit::test {

inline nn::GPTOptions small_gpt(double dropout) {
  return nn::GPTOptions().vocab_size(11).context_length(9).num_layers(2).num_heads(2).d_model(12).dropout(dropout).bias(
      false);
}

/// Every parameter behind the other, as float64.
inline std::vector<double> numbers_of(const nn::Layer& model) {
  std::vector<double> all;
  for (const auto& [name, p] : model.named_parameters())
    for (const double x : p.detach().to(float64).to_vector<double>()) all.push_back(x);
  return all;
}

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a[i] - b[i]);
    if (std::isnan(d)) return d;
    most = std::max(most, d);
  }
  return most;
}

/// Whether all ranks have the same bits.
inline bool same_on_all_ranks(std::vector<double> mine) {
  std::vector<double> first = mine;
  dist::world().broadcast(first.data(), first.size() * sizeof(double));
  const bool same = std::memcmp(first.data(), mine.data(), first.size() * sizeof(double)) == 0;
  return dist::sum({same ? 0. : 1.})[0] == 0;
}

}  // namespace fit::test
