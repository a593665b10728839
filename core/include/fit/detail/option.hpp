#pragma once
#include <optional>
#include <type_traits>
#include <utility>

// The parts of the macros in fit/base/option.hpp.
namespace fit::detail {

template <class T>
struct OptionValue {
  using Type = T;
};
template <class T>
struct OptionValue<std::optional<T>> {
  using Type = T;
};

/// Whether a value of type U may set an option of type T. Only numbers are restricted.
template <class T, class U>
constexpr bool option_takes() {
  using To = typename OptionValue<T>::Type;
  using From = typename OptionValue<U>::Type;
  constexpr bool special =
      std::is_same_v<To, bool> || std::is_same_v<From, bool> || std::is_same_v<To, char> || std::is_same_v<From, char>;
  if (std::is_same_v<To, From> || (std::is_same_v<From, std::nullopt_t> && !std::is_same_v<To, T>)) return true;
  if (!std::is_arithmetic_v<To>) return true;  // the setter's argument converts, or it does not compile
  if (!std::is_arithmetic_v<From> || special) return false;
  return std::is_floating_point_v<To> || std::is_integral_v<From>;
}

template <class T, class U>
using IfRefused = std::enable_if_t<!option_takes<T, U>(), int>;

/// The result of a getter: a number by value, other types by reference.
template <class T>
using OptionRead = std::conditional_t<std::is_class_v<T>, const T&, T>;

#pragma GCC diagnostic push
#if !defined(__clang__)
// False positives of GCC 12 for a moved empty std::optional; with -O1 it says the second one.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
/// `name(value)`: sets an option.
template <int, class Options, class T>
Options& set_option(Options& options, T& option, T& value) {
  option = static_cast<T&&>(value);
  return options;
}
/// The same of a temporary.
template <int, class Options, class T>
Options moved_option(Options& options, T& option, T& value) {
  option = static_cast<T&&>(value);
  return std::move(options);
}
/// `name()` of a temporary: sets a switch to true, reads another option.
template <int, class Options, class T>
auto call_on_temporary(Options& options, T& value) {
  if constexpr (std::is_same_v<typename OptionValue<T>::Type, bool>) {
    value = true;
    return std::move(options);
  } else {
    return std::move(value);
  }
}
#pragma GCC diagnostic pop

}  // namespace fit::detail

// The functions of an option. The type of `this` makes setters return the derived struct where it repeats them.
// Templates are compiled where they are called: their bodies depend on fit_i, so that a compiler resolves nothing
// before.
#define FIT_OPTION_FUNCTIONS_(Type, name)                                               \
  template <class Other, ::fit::detail::IfRefused<Type, Other> = 0>                     \
  void name(Other) = delete; /* an option of this type does not take such a value */    \
  [[nodiscard]] auto name() const&->::fit::detail::OptionRead<Type> { return name##_; } \
  template <int fit_i = 0>                                                              \
  auto name(Type value)&->decltype(*this) {                                             \
    return ::fit::detail::set_option<fit_i>(*this, name##_, value);                     \
  }                                                                                     \
  template <int fit_i = 0>                                                              \
  [[nodiscard]] auto name(Type value)&& {                                               \
    return ::fit::detail::moved_option<fit_i>(*this, name##_, value);                   \
  }                                                                                     \
  template <int fit_i = 0>                                                              \
  [[nodiscard]] auto name()&& {                                                         \
    return ::fit::detail::call_on_temporary<fit_i>(*this, name##_);                     \
  }

// FIT_OPTION_PICK_(names…, FIT_OPTION_12_, …, FIT_OPTION_1_, 0) is the macro for the number of names.
#define FIT_OPTION_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, pick, ...) pick
#define FIT_OPTION_1_(Base, name) FIT_OPTION_FUNCTIONS_(decltype(name##_), name)
#define FIT_OPTION_2_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_1_(Base, __VA_ARGS__)
#define FIT_OPTION_3_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_2_(Base, __VA_ARGS__)
#define FIT_OPTION_4_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_3_(Base, __VA_ARGS__)
#define FIT_OPTION_5_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_4_(Base, __VA_ARGS__)
#define FIT_OPTION_6_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_5_(Base, __VA_ARGS__)
#define FIT_OPTION_7_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_6_(Base, __VA_ARGS__)
#define FIT_OPTION_8_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_7_(Base, __VA_ARGS__)
#define FIT_OPTION_9_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_8_(Base, __VA_ARGS__)
#define FIT_OPTION_10_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_9_(Base, __VA_ARGS__)
#define FIT_OPTION_11_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_10_(Base, __VA_ARGS__)
#define FIT_OPTION_12_(Base, name, ...) FIT_OPTION_1_(Base, name) FIT_OPTION_11_(Base, __VA_ARGS__)
