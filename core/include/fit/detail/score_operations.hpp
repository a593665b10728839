#pragma once

/// The operations of functions of scores and of masks (fit/attention/score/score.hpp). A row is all that the library knows of one. To
/// add a function of numbers, add a row FUNCTION.
///
/// LEAF(name, text): what an expression begins with.
/// OPERATOR(name, arity, notation, kind, bounds, value, gradients, operation): declared in fit/attention/score/score.hpp.
/// FUNCTION(…), the same columns: the row declares the function of symbols, too.
/// KERNEL(name, kind, bounds): a function of one number with kernels of that name, which kernels/functions.hpp defines,
/// and an operation of that name.
///
///   notation    call, prefix(text, precedence) or infix(text, precedence); score/symbols.cpp
///   kind        the rule for the kinds of the arguments and of the result; score/symbols.cpp
///   bounds      of the result, from bounds a, b, c of the arguments. f is the function; score/bounds.cpp
///   value       of vectors a, b, c; e: the exponent of pow; kernel/score_rows.simd.cpp
///   gradients   of the arguments, from d, that of the result, and from a, b, c, e and the result y. Only numbers have
///               one: () if the result is none, `none` for an argument that is none; kernel/score_rows.simd.cpp
///   operation   on tensors a, b, c. It has gradients of every order; score/expression.cpp
// clang-format off
#define FIT_SCORE_OPERATIONS(LEAF, OPERATOR, FUNCTION, KERNEL)                                                        \
  LEAF(number, "")                                                                                                    \
  LEAF(lookup, "")                                                                                                    \
  LEAF(score, "s")                                                                                                    \
  LEAF(batch, "batch")                                                                                                \
  LEAF(head, "head")                                                                                                  \
  LEAF(query, "query")                                                                                                \
  LEAF(row, "row")                                                                                                    \
  LEAF(key, "key")                                                                                                    \
                                                                                                                      \
  OPERATOR(logical_or, 2, infix(" || ", 1), logic, any_of(a, b), xsimd::max(a, b), (), logical_or(a, b))              \
  OPERATOR(logical_and, 2, infix(" && ", 2), logic, all_of(a, b), a * b, (), logical_and(a, b))                       \
  OPERATOR(equal, 2, infix(" == ", 3), equality, is_equal(a, b), truth<V>(a == b), (), a == b)                        \
  OPERATOR(not_equal, 2, infix(" != ", 3), equality, negation(is_equal(a, b)), truth<V>(a != b), (), a != b)          \
  OPERATOR(less, 2, infix(" < ", 4), comparison, is_less(a, b), truth<V>(a < b), (), a < b)                           \
  OPERATOR(less_equal, 2, infix(" <= ", 4), comparison, is_less_equal(a, b), truth<V>(a <= b), (), a <= b)            \
  OPERATOR(add, 2, infix(" + ", 5), exact, plus(a, b), a + b, (d, d), a + b)                                          \
  OPERATOR(subtract, 2, infix(" - ", 5), exact, plus(a, times(-1, b)), a - b, (d, -d), a - b)                         \
  OPERATOR(multiply, 2, infix(" * ", 6), exact, product(a, b), a * b, (d * b, d * a), a * b)                          \
  OPERATOR(divide, 2, infix(" / ", 6), exact, quotient(a, b), a / b, (d / b, -d * y / b), a / b)                      \
  OPERATOR(floor_divide, 2, infix(" / ", 6), exact, floored(quotient(a, b)), xsimd::floor(a / b), (), floor(a / b))   \
  OPERATOR(remainder, 2, infix(" % ", 6), integers, modulo(a, b), a - b * xsimd::floor(a / b), (), remainder(a, b))   \
  OPERATOR(negative, 1, prefix("-", 7), exact, times(-1, a), -a, (-d), -a)                                            \
  OPERATOR(logical_not, 1, prefix("!", 7), logic, negation(a), V(1) - a, (), logical_not(a))                          \
  OPERATOR(pow, 1, call, number, anything, math::pow(a, e),                                                           \
           (select(e == V(0), V(0), d * e * math::pow(a, e - V(1)))), pow(a, e))                                      \
                                                                                                                      \
  FUNCTION(where, 3, call, choice, a.single() ? (a.low != 0 ? b : c) : joined(b, c), select(a != V(0), b, c),         \
           (none, select(a != V(0), d, V(0)), select(a != V(0), V(0), d)), where(a, b, c))                            \
  FUNCTION(min, 2, call, exact, lowest(a, b), select((a < b) | (a != a), a, b),                                       \
           (share(d, a, b, y), share(d, b, a, y)), minimum(a, b))                                                     \
  FUNCTION(max, 2, call, exact, highest(a, b), select((a > b) | (a != a), a, b),                                      \
           (share(d, a, b, y), share(d, b, a, y)), maximum(a, b))                                                     \
  FUNCTION(square, 1, call, exact, squared(a), a * a, ((d + d) * a), a * a)                                           \
  FUNCTION(cosh, 1, call, number, growing([](double x) { return std::cosh(x); }, absolute(a)),                        \
           (math::exp(a) + math::exp(-a)) * V(0.5), (d * (math::expm1(a) - math::expm1(-a)) * V(0.5)),                \
           square(expm1(a * 0.5) - expm1(a * -0.5)) * 0.5 + 1)                                                        \
                                                                                                                      \
  KERNEL(abs, exact, absolute(a))                                                                                     \
  KERNEL(floor, floors, floored(a))                                                                                   \
  KERNEL(exp, number, growing(f, a))                                                                                  \
  KERNEL(log, number, growing(f, a))                                                                                  \
  KERNEL(sqrt, number, growing(f, a))                                                                                 \
  KERNEL(sin, number, anything)                                                                                       \
  KERNEL(cos, number, anything)                                                                                       \
  KERNEL(tanh, number, growing(f, a))                                                                                 \
  KERNEL(sigmoid, number, growing(f, a))                                                                              \
  KERNEL(softplus, number, anything)                                                                                  \
  KERNEL(relu, number, positive(a))
// clang-format on

// The functions of symbols, in class Symbol.
#define FIT_NO_SYMBOLS(...)
#define FIT_SYMBOLS_1(name) \
  friend Symbol name(const Symbol& x) { return of(Op::name, x); }
#define FIT_SYMBOLS_2(name) \
  friend Symbol name(const Symbol& a, const Symbol& b) { return of(Op::name, a, b); }
#define FIT_SYMBOLS_3(name) \
  friend Symbol name(const Symbol& a, const Symbol& b, const Symbol& c) { return of(Op::name, a, b, c); }
#define FIT_SYMBOL_FUNCTION(name, arity, ...) FIT_SYMBOLS_##arity(name)
#define FIT_SYMBOL_KERNEL(name, ...) FIT_SYMBOLS_1(name)
#define FIT_SYMBOL_FUNCTIONS \
  FIT_SCORE_OPERATIONS(FIT_NO_SYMBOLS, FIT_NO_SYMBOLS, FIT_SYMBOL_FUNCTION, FIT_SYMBOL_KERNEL)

namespace fit::detail {

/// The operation of a node of an expression.
#define FIT_NAME(name, ...) name,
enum class SymbolOp : unsigned char { FIT_SCORE_OPERATIONS(FIT_NAME, FIT_NAME, FIT_NAME, FIT_NAME) };
#undef FIT_NAME

}  // namespace fit::detail
