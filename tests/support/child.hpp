#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "fit/base/error.hpp"
#include "fit/threads/parallel.hpp"
#include "support/catch.hpp"

// Tests in a process of their own, which may be limited or killed.
namespace fit::test {

/// Runs f in a child process, and returns its result. 99 if f throws, -1 if a signal ended the child.
template <class F>
int in_child(const F& f) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    set_num_threads(1);
    int result = 99;
    try {
      result = f();
    } catch (...) {
    }
    _exit(result);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Whether f throws a FileError that says `text`.
template <class F>
bool refuses(const F& f, const std::string& text) {
  try {
    f();
  } catch (const FileError& e) {
    return std::string(e.what()).find(text) != std::string::npos;
  }
  return false;
}

}  // namespace fit::test
