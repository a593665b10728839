#pragma once
#include <sstream>

#include "fit/dist.hpp"

namespace fit {

/// Of what all ranks find alike.
template <class... Parts>
[[noreturn]] void fail_alike(const Parts&... parts) {
  std::ostringstream s;
  s << "[Trainer] ";
  (s << ... << parts);
  throw dist::AgreedError(s.str());
}

}  // namespace fit
