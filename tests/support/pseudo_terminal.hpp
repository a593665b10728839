#pragma once
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "support/catch.hpp"

namespace fit::test {

/// stdout and stderr are a terminal of 40 columns while this lives. Nothing is shown of what is written there.
class PseudoTerminal {
 public:
  PseudoTerminal() {
    std::cout.flush();
    REQUIRE(main_ >= 0);
    REQUIRE(grantpt(main_) == 0);
    REQUIRE(unlockpt(main_) == 0);
    const int user = ::open(ptsname(main_), O_RDWR | O_NOCTTY);
    REQUIRE(user >= 0);
    const winsize size{24, 40, 0, 0};
    ioctl(main_, TIOCSWINSZ, &size);
    for (const int file : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(user, file);
    ::close(user);
  }
  ~PseudoTerminal() {
    std::cout.flush();
    ::dup2(out_, STDOUT_FILENO);
    ::dup2(error_, STDERR_FILENO);
    for (const int file : {out_, error_, main_}) ::close(file);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

 private:
  const int out_ = ::dup(STDOUT_FILENO), error_ = ::dup(STDERR_FILENO), main_ = ::posix_openpt(O_RDWR | O_NOCTTY);
};

/// An environment variable has this value while this lives; null: it is not set.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* const given = std::getenv(name)) was_set_ = true, before_ = given;
    set(value);
  }
  ~Environment() { set(was_set_ ? before_.c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) const { value ? ::setenv(name_, value, 1) : ::unsetenv(name_); }
  const char* name_;
  bool was_set_ = false;
  std::string before_;
};

}  // namespace fit::test
