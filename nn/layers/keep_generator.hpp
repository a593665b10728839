#pragma once
#include "fit/random.hpp"

namespace fit::nn::detail {

/// Restores the state of the default generator at the end of the scope.
class KeepGenerator {
 public:
  KeepGenerator() : seed_(default_generator().seed()), calls_(default_generator().calls()) {}
  ~KeepGenerator() { default_generator().set_state(seed_, calls_); }
  KeepGenerator(const KeepGenerator&) = delete;
  KeepGenerator& operator=(const KeepGenerator&) = delete;

 private:
  std::uint64_t seed_, calls_;
};

}  // namespace fit::nn::detail
