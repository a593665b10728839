#pragma once
#include <chrono>

namespace fit {

// The seconds of the steady clock. Public headers keep this number, because <chrono> is slow to compile.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace fit
