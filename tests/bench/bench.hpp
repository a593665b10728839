#pragma once
#include <functional>
#include <string>
#include <vector>

#include "fit/nn/layer/layer.hpp"
#include "fit/tensor/tensor.hpp"

// What a workload is. The names are those of the peers' benchmark.
namespace fit::bench {

enum class Limit {
  none,
  gemm,       // the rate of a large matrix product
  gemm_bf16,  // of one of bfloat16
  memory,     // of y += a x over large arrays
  read,       // of reading an array of the same size
};

struct Workload {
  std::string name;
  Limit limit;
  double amount;  // floating-point operations, or bytes that must move at the least
  double budget;  // seconds to measure for
  // Makes the data and gives back one step.
  std::function<std::function<void()>()> make;
  // Compares the result with the reference; throws if it is wrong. Runs in a process of its own.
  std::function<void()> check;
  double bytes_per_pass = 0;  // for Limit::read: a pass reads this many bytes, and caches may hold a part of them
  // A step of the same written by hand, to run by turns with the first; or none.
  std::function<std::function<void()>()> by_hand = nullptr;
};

// What a model's weights are for inference. _activations: rows of activations are rounded to int8, too.
struct Weights {
  const char* suffix;  // of the names of rows
  double bytes;        // of a weight, with its share of scales
  double tolerance;    // of results, beside float64 with the same weights, or beside other rows
  void (*give)(nn::Layer& model);
  DType dtype = fit::float32;  // of what is computed and cached

  static const Weights float32, bfloat16, int8, int8_group32, int8_activations, int4, int4_activations;
};
Workload decode(const Weights& weights, std::int64_t B = 1, std::int64_t tokens = 128);
std::vector<Workload> encoders(const Weights& weights, const char* suffix);
Workload prompt(const Weights& weights);
Workload reproducible(Workload w);  // the same in the mode Reproducible, as NAME_reproducible
std::vector<Workload> attention_workloads(DType dtype);
std::vector<Workload> op_workloads();  // attention's in float32 among them
std::vector<Workload> model_workloads();
std::vector<Workload> tiny_gpt_workloads();
std::vector<Workload> low_precision_workloads();
std::vector<Workload> everyday_workloads();
std::vector<Workload> program_workloads();
std::vector<Workload> linear_attention_workloads();
std::vector<Workload> product_workloads();  // bench --products

// One kind of work in growing sizes, each twice the one before.
struct Growing {
  std::string name, size_name;
  std::vector<std::int64_t> sizes;
  std::function<Workload(std::int64_t size)> make;
};
Growing growing_attention();  // with the length of the sequence
Growing growing_gpt();        // with the batch

/// Throws unless |a - b| <= tolerance * max |b| everywhere.
void expect_close(const char* what, const Tensor& a, const Tensor& b, double tolerance);

}  // namespace fit::bench
