#pragma once
#include "fit/detail/option.hpp"

/// Options that are set by name, in a chain, as in libtorch. Each option is one line of a struct:
///
///     struct ExampleOptions {
///       FIT_OPTION(double, lr) = 1e-3;        ///< The learning rate.
///       FIT_OPTION(bool, nesterov) = false;   ///< Nesterov's momentum.
///     };
///
///     train(model, ExampleOptions().lr(3e-4).nesterov());
///
/// `lr(x)` sets an option and returns the options; `lr()` reads it. For a switch (bool or std::optional<bool>) of a
/// temporary, no argument means true: `ExampleOptions().nesterov()` is `ExampleOptions().nesterov(true)`. For a
/// variable, `o.nesterov()` reads and `o.nesterov(true)` sets. Ignoring the value of a read gives a warning.
///
/// An integer converts to a floating option, and a value to an option of std::optional. These do not compile: a
/// floating number for an integer, a number for a bool, a bool for a number, and a non-number for any of them.

/// FIT_OPTION(Type, name) = default;  declares an option of a struct: its setters, its getter and its member, name_.
#define FIT_OPTION(Type, name)      \
 public:                            \
  FIT_OPTION_FUNCTIONS_(Type, name) \
 protected:                         \
  Type name##_

/// FIT_INHERITED_OPTIONS(Base, a, b, …): for a struct derived from Base. Setters of these options of Base then return
/// the derived struct, so that its own options can follow in the chain. At most 12 names.
#define FIT_INHERITED_OPTIONS(Base, ...)                                                                      \
 public:                                                                                                      \
  FIT_OPTION_PICK_(__VA_ARGS__, FIT_OPTION_12_, FIT_OPTION_11_, FIT_OPTION_10_, FIT_OPTION_9_, FIT_OPTION_8_, \
                   FIT_OPTION_7_, FIT_OPTION_6_, FIT_OPTION_5_, FIT_OPTION_4_, FIT_OPTION_3_, FIT_OPTION_2_,  \
                   FIT_OPTION_1_, 0)                                                                          \
  (Base, __VA_ARGS__)
