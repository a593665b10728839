// Errors that tests/mutate.py plants. One program contains all errors, and the environment selects one.
//   FIT_MUTANT=n             enables the error n; by default there is none
//   FIT_MUTANT_REACHED=file  writes a byte for each error when the program ends: 'r' if it was reached, 'x' if it does
//                            not apply to the types, '.' otherwise
// Constant expressions do not change.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#define FIT_MUTANT_INLINE [[gnu::always_inline]] constexpr

namespace mutant {

constexpr int most = 1 << 14;
inline int chosen = 0;
inline char reached[most] = {}, inapplicable[most] = {};

struct Session {
  Session() {
    if (const char* number = std::getenv("FIT_MUTANT")) chosen = std::atoi(number);
  }
  ~Session() {
    const char* path = std::getenv("FIT_MUTANT_REACHED");
    std::FILE* file = path ? std::fopen(path, "wb") : nullptr;
    if (!file) return;
    for (int i = 0; i < most; ++i) std::fputc(reached[i] ? 'r' : inapplicable[i] ? 'x' : '.', file);
    std::fclose(file);
  }
};
inline Session session;

template <int id>
FIT_MUTANT_INLINE bool on() {
  if (__builtin_is_constant_evaluated()) return false;
  if (!reached[id]) reached[id] = 1;
  return chosen == id;
}

template <int id>
inline const bool does_not_apply = (inapplicable[id] = true);

// ---- a + Plus<id>{} + b: a - b instead ------------------------------------------------------------------------------
#define FIT_MUTANT_OPERATION(NAME, OP, INSTEAD)                                                                      \
  template <int id>                                                                                                  \
  struct NAME {                                                                                                      \
    template <class A, class B>                                                                                      \
    FIT_MUTANT_INLINE static auto instead(A&& a, B&& b) -> decltype(std::forward<A>(a) INSTEAD std::forward<B>(b)) { \
      return std::forward<A>(a) INSTEAD std::forward<B>(b);                                                          \
    }                                                                                                                \
  };                                                                                                                 \
  template <int id, class A>                                                                                         \
  FIT_MUTANT_INLINE Pending<NAME<id>, A&&> operator OP(A&& a, NAME<id>) {                                            \
    return {std::forward<A>(a)};                                                                                     \
  }                                                                                                                  \
  template <int id, class A, class B>                                                                                \
  FIT_MUTANT_INLINE auto operator OP(Pending<NAME<id>, A> p, B&& b)                                                  \
      ->decltype(std::forward<A>(p.a) OP std::forward<B>(b)) {                                                       \
    using Result = decltype(std::forward<A>(p.a) OP std::forward<B>(b));                                             \
    if constexpr (applies<NAME<id>, Result, A, B>) {                                                                 \
      if (on<id>()) return static_cast<Result>(NAME<id>::instead(std::forward<A>(p.a), std::forward<B>(b)));         \
    } else {                                                                                                         \
      static_cast<void>(does_not_apply<id>);                                                                         \
    }                                                                                                                \
    return std::forward<A>(p.a) OP std::forward<B>(b);                                                               \
  }

template <class Operation, class A>
struct Pending {
  A a;  // a reference, valid until the end of the full expression
};

template <class Operation, class Result, class A, class B, class = void>
inline constexpr bool applies = false;
template <class Operation, class Result, class A, class B>
inline constexpr bool
    applies<Operation, Result, A, B, std::void_t<decltype(Operation::instead(std::declval<A>(), std::declval<B>()))>> =
        std::is_convertible_v<decltype(Operation::instead(std::declval<A>(), std::declval<B>())), Result>;

FIT_MUTANT_OPERATION(Plus, +, -)
FIT_MUTANT_OPERATION(Minus, -, +)
FIT_MUTANT_OPERATION(Times, *, /)
FIT_MUTANT_OPERATION(Over, /, *)
FIT_MUTANT_OPERATION(Less, <, <=)
FIT_MUTANT_OPERATION(Greater, >, >=)

// ---- flags, numbers, gradients --------------------------------------------------------------------------------------
template <int id>
FIT_MUTANT_INLINE bool flag(bool value) {
  return value != on<id>();
}

template <int id, class T>
FIT_MUTANT_INLINE T number(T value) {
  if (!on<id>()) return value;
  return std::is_floating_point_v<T> ? static_cast<T>(value * 1.0005) : value + 1;
}

template <int id, class Tensor>
Tensor scaled(Tensor gradient) {
  return on<id>() ? gradient * 1.0005 : gradient;
}

template <int id>
FIT_MUTANT_INLINE bool keep(bool wanted) {
  return wanted && !on<id>();
}

}  // namespace mutant

// Calls g(...) instead of f(...).
#define FIT_MUTANT_CALL(ID, F, G)                                    \
  [&](auto&&... x) -> decltype(F(std::forward<decltype(x)>(x)...)) { \
    if (mutant::on<ID>()) return G(std::forward<decltype(x)>(x)...); \
    return F(std::forward<decltype(x)>(x)...);                       \
  }
