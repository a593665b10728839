#pragma once
#include <string>
#include <vector>

#include "fit/base/error.hpp"
#include "fit/detail/function_ref.hpp"
#include "support/catch.hpp"

// Calls with a bad argument, each with what its error says.
namespace fit::test {

struct Refusal {
  std::string message;  ///< a part of the error's text: the operation, and the value or the rule
  FunctionRef<void()> call;
};

inline void check_refused(const std::vector<Refusal>& all) {
  for (const Refusal& refusal : all) {
    INFO(refusal.message);
    std::string said = "nothing was thrown";
    try {
      refusal.call();
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK_THAT(said, Catch::Contains(refusal.message));
  }
}

}  // namespace fit::test
