#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fit/ops/ops.hpp"
#include "tensor/check.hpp"

namespace fit::text {

/// Throws Error if a vocabulary has no table any more.
template <class T>
void check_not_moved(const char* op, const std::shared_ptr<T>& table) {
  if (!table) check::fail(op, "this vocabulary was moved from: use the one that std::move() made of it");
}

/// The token with this id. Throws Error if there is none.
inline const std::string& checked_token(const char* op, const std::vector<std::string>& tokens, std::int64_t id) {
  if (id < 0 || id >= static_cast<std::int64_t>(tokens.size()))
    check::fail(op, "there is no token ", id, ": there are ", tokens.size());
  return tokens[static_cast<std::size_t>(id)];
}

using Ids = std::vector<std::int64_t>;
using Pair = std::pair<std::int64_t, std::int64_t>;

inline Tensor ids_tensor(const Ids& ids) { return tensor(ids, {static_cast<std::int64_t>(ids.size())}); }

}  // namespace fit::text
