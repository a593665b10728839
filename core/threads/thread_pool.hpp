#pragma once

namespace fit::detail {

/// Calls task(t, n) concurrently on threads t = 0 … n - 1 and returns when all have finished. Thread 0 is the caller.
/// n is `count`, or less if threads are missing; n is 1 while the pool serves another caller. The task must not throw.
void run_on_threads(int count, const void* task, void (*call)(const void* task, int t, int n));

template <class Task>
void run_on_threads(int count, const Task& task) {
  run_on_threads(count, &task, [](const void* f, int t, int n) { (*static_cast<const Task*>(f))(t, n); });
}

}  // namespace fit::detail
