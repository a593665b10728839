#pragma once
#include <functional>
#include <type_traits>
#include <utility>

namespace fit::test {

template <class Signature>
class Callable;

/// A std::function for tables of lambdas. A lambda without captures is kept as a pointer: to put each lambda's own type
/// into a std::function takes most of the time in which such a table compiles.
template <class R, class... A>
class Callable<R(A...)> {
 public:
  Callable() = default;
  template <class F, class = std::enable_if_t<!std::is_same_v<F, Callable> && std::is_invocable_r_v<R, const F&, A...>>>
  Callable(F f) {
    if constexpr (std::is_convertible_v<F, R (*)(A...)>)
      f_ = static_cast<R (*)(A...)>(f);
    else
      f_ = std::move(f);
  }
  R operator()(A... a) const { return f_(static_cast<A&&>(a)...); }
  explicit operator bool() const { return static_cast<bool>(f_); }

 private:
  std::function<R(A...)> f_;
};

}  // namespace fit::test
