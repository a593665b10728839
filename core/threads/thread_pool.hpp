#pragma once
#include "base/function_ref.hpp"

namespace fit::detail {

/// The number of cores on which the system lets this process run.
int cores();

/// Calls task(t, n) concurrently on threads t = 0 … n - 1 and returns when all have finished. Thread 0 is the caller.
/// n is `count`, or less if threads are missing; n is 1 while the pool serves another caller. The task must not throw.
void run_on_threads(int count, FunctionRef<void(int t, int n)> task);

}  // namespace fit::detail
