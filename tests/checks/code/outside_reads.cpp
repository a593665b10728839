// Reads outside a tensor's elements end the program: by the index of a Span with _GLIBCXX_ASSERTIONS, as this is
// compiled, and by address under the address sanitizer. Each runs in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "fit/ops/ops.hpp"

namespace {

template <class F>
bool ends_the_program(const F& read) {
  const pid_t child = fork();
  if (child == 0) {
    read();
    _exit(0);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && status != 0;
}

bool told(const char* what, bool right) {
  if (!right) std::fprintf(stderr, "wrong: %s\n", what);
  return right;
}

}  // namespace

int main() {
  const fit::Tensor x = fit::arange(5);
  const auto element = [&](std::int64_t i) { return [&x, i] { static_cast<void>(x.data<std::int64_t>()[i]); }; };
  bool right = told("an index inside", !ends_the_program(element(4)));
  right &= told("an index behind the end", ends_the_program(element(5)));
  right &= told("a negative index", ends_the_program(element(-1)));
#if defined(__SANITIZE_ADDRESS__)
  const auto behind = [&](std::int64_t i) {
    return [&x, i] { static_cast<void>(*const_cast<const volatile std::int64_t*>(x.data<std::int64_t>().data() + i)); };
  };
  right &= told("the address of the last element", !ends_the_program(behind(4)));
  right &= told("an address behind the elements", ends_the_program(behind(5)));
#endif
  return right ? 0 : 1;
}
