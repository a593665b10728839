#pragma once
#include <string>

#include "base/joined.hpp"
#include "fit/nn/dist/dist.hpp"

namespace fit::dist {

/// Throws AgreedError in the name of `op` unless all ranks have the same names, shapes and types. The message has the
/// first difference of the lowest rank that differs from rank 0. `what` names the tensors in the message.
void check_agree(const char* op, const std::string& what, const StateDict& state, World& world);

/// Overwrites the values with those of rank 0, in place. Names, shapes and types must agree.
void broadcast_values(const char* op, const StateDict& state, World& world);

/// Throws AgreedError unless all ranks have the same bits as rank 0. The message has the first difference of the lowest
/// rank that differs, and `cure`.
void check_same(const char* op, const StateDict& state, const std::string& cure, World& world);

/// Throws an AgreedError. All ranks must call it with the same message.
template <class... Parts>
[[noreturn]] void fail_alike(const char* op, const Parts&... parts) {
  throw AgreedError(joined('[', op, "] ", parts...));
}

}  // namespace fit::dist
