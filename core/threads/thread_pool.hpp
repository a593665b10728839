#pragma once

namespace fit::detail {

/// Calls member(t, count) side by side on threads t = 0 … count - 1, of which the caller is the first, and comes back
/// when all have ended. count is `size`, or less where threads are lacking: 1 while they serve another caller. member
/// must not throw.
void run_team(int size, const void* member, void (*call)(const void* member, int t, int count));

template <class Member>
void run_team(int size, const Member& member) {
  run_team(size, &member, [](const void* m, int t, int count) { (*static_cast<const Member*>(m))(t, count); });
}

}  // namespace fit::detail
