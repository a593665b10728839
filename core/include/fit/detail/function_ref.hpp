#pragma once
#include <type_traits>

namespace fit {

template <class Signature>
class FunctionRef;

/// A function that the caller keeps alive (of a named one give the pointer, &f), without a template at the callee
/// (std::function_ref of C++26).
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<F, FunctionRef>>>
  FunctionRef(const F& f)
      : f_(&f), call_([](const void* g, Arguments... a) -> Result {
          return static_cast<Result>((*static_cast<const F*>(g))(a...));
        }) {}
  Result operator()(Arguments... a) const { return call_(f_, a...); }

 private:
  const void* f_;
  Result (*call_)(const void*, Arguments...);
};

}  // namespace fit
