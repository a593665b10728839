#pragma once
// Includes Catch2, version 2.13 or 3. Tests use the names of version 2.

// An exception in an assertion ends its test case, which fails. Without this, each assertion has a handler of its own,
// and the tests take a tenth longer to compile.
#define CATCH_CONFIG_FAST_COMPILE
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

namespace Catch {
namespace Matchers {
// Overloads for all types of text. Without them, version 3 would search for an element of a range.
inline auto Contains(const char* text) { return ContainsSubstring(text); }
inline auto Contains(const std::string& text) { return ContainsSubstring(text); }
inline auto Contains(std::string& text) { return ContainsSubstring(text); }
inline auto Contains(std::string&& text) { return ContainsSubstring(text); }
}  // namespace Matchers
using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::Matches;
}  // namespace Catch
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

namespace fit::test {
/// Runs the tests of a program, with the arguments of its main().
int run_tests(int argc, char** argv);
}  // namespace fit::test
