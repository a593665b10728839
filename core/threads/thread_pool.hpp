#pragma once

namespace fit::detail {

/// Calls task(t, n) side by side on threads t = 0 … n - 1, of which the caller is the first, and comes back when all
/// have ended. n is `count`, or less where threads are lacking: 1 while they serve another caller. The task must not
/// throw.
void run_on_threads(int count, const void* task, void (*call)(const void* task, int t, int n));

template <class Task>
void run_on_threads(int count, const Task& task) {
  run_on_threads(count, &task, [](const void* f, int t, int n) { (*static_cast<const Task*>(f))(t, n); });
}

/// From now on parallel_for() is one call on this thread, as inside another one.
void stay_on_this_thread();

}  // namespace fit::detail
