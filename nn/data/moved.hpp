#pragma once
#include <memory>

#include "tensor/check.hpp"

namespace fit::text {

/// Throws Error if a vocabulary has no table any more.
template <class T>
void check_not_moved(const char* op, const std::shared_ptr<T>& table) {
  if (!table) check::fail(op, "this vocabulary was moved from: use the one that std::move() made of it");
}

}  // namespace fit::text
