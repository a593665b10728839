#pragma once
#include <sstream>
#include <string>

#include "fit/dist.hpp"

namespace fit::dist {

/// Throws AgreedError in the name of `op` unless all ranks have the same names, shapes and types. It names the first
/// that differs on the lowest such rank, and what rank 0 has there. `what` they are of, for the message.
void check_agree(const char* op, const std::string& what, const StateDict& state, World& world);

/// Rank 0's values overwrite those of the others, in place. Names, shapes and types must agree.
void broadcast_values(const char* op, const StateDict& state, World& world);

/// Throws AgreedError unless all ranks have the same values as rank 0, to the bit. It names the first that differs on
/// the lowest such rank, and the cure.
void check_same(const char* op, const StateDict& state, const std::string& cure, World& world);

/// Throws an AgreedError for what all ranks find alike.
template <class... Parts>
[[noreturn]] void fail_alike(const char* op, const Parts&... parts) {
  std::ostringstream s;
  s << '[' << op << "] ";
  (s << ... << parts);
  throw AgreedError(s.str());
}

}  // namespace fit::dist
