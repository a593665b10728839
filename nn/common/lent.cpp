#include "common/lent.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "fit/tensor/tensor.hpp"
#include "tensor/check.hpp"

namespace fit::nn {
namespace {

struct LentTensors {
  std::atomic<std::size_t> count{0};  // so that a step without averages takes no lock
  std::mutex mutex;
  std::vector<Tensor> all;
};

LentTensors& lent_tensors() {
  static LentTensors tensors;
  return tensors;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.impl() == b.impl() || (a.numel() > 0 && a.raw() == b.raw());
}

}  // namespace

void lend(const StateDict& parameters) {
  LentTensors& lent = lent_tensors();
  const std::lock_guard<std::mutex> lock(lent.mutex);
  lent.all.reserve(lent.all.size() + parameters.size());
  for (const auto& [name, p] : parameters) lent.all.push_back(p);
  lent.count = lent.all.size();
}

void give_back(const StateDict& parameters) noexcept {
  LentTensors& lent = lent_tensors();
  const std::lock_guard<std::mutex> lock(lent.mutex);
  for (const auto& [name, p] : parameters) {
    const auto found =
        std::find_if(lent.all.begin(), lent.all.end(), [&p = p](const Tensor& x) { return x.impl() == p.impl(); });
    std::swap(*found, lent.all.back());
    lent.all.pop_back();
  }
  lent.count = lent.all.size();
}

void check_not_lent(const char* op, const std::string& name, const Tensor& x, const char* lost) {
  LentTensors& lent = lent_tensors();
  if (lent.count.load(std::memory_order_relaxed) == 0 || !x.defined()) return;
  const std::lock_guard<std::mutex> lock(lent.mutex);
  if (std::any_of(lent.all.begin(), lent.all.end(), [&](const Tensor& p) { return same_elements(p, x); }))
    check::fail(op, "the parameter ", name,
                " holds its average (ExponentialMovingAverage::apply()): the end of that scope ", lost,
                "; end the scope first");
}

}  // namespace fit::nn
