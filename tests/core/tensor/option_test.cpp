// Options are set by name in a chain; wrong names and types do not compile.
#include "fit/base/option.hpp"

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace fit::test::option_test {
namespace {

enum class Kind { a, b };

struct ExampleOptions {
  FIT_OPTION(double, rate) = 0.5;
  FIT_OPTION(std::int64_t, count) = 3;
  FIT_OPTION(bool, causal) = false;
  FIT_OPTION(char, letter) = 'x';
  FIT_OPTION(Kind, kind) = Kind::a;
  FIT_OPTION(std::string, title);
  FIT_OPTION(std::vector<std::int64_t>, shape) = {2, 3};
  FIT_OPTION(std::vector<std::string>, names);
  FIT_OPTION(std::function<int(int)>, call);
  FIT_OPTION(const int*, pointer) = nullptr;
  FIT_OPTION(std::optional<double>, scale);
  FIT_OPTION(std::optional<std::int64_t>, bins);
  FIT_OPTION(std::optional<bool>, annotate);
};

struct DerivedOptions : ExampleOptions {
  FIT_OPTION(std::int64_t, depth) = 1;
  FIT_INHERITED_OPTIONS(ExampleOptions, rate, causal, names, scale)
};

struct OuterOptions {
  FIT_OPTION(ExampleOptions, inner);
};

// Whether the option can be set from a T.
#define FIT_TAKES(option)                     \
  template <class O, class T, class = void>   \
  struct Takes_##option : std::false_type {}; \
  template <class O, class T>                 \
  struct Takes_##option<O, T, std::void_t<decltype(std::declval<O>().option(std::declval<T>()))>> : std::true_type {}
FIT_TAKES(rate);
FIT_TAKES(count);
FIT_TAKES(causal);
FIT_TAKES(letter);
FIT_TAKES(kind);
FIT_TAKES(title);
FIT_TAKES(shape);
FIT_TAKES(call);
FIT_TAKES(pointer);
FIT_TAKES(scale);
FIT_TAKES(bins);
FIT_TAKES(annotate);
FIT_TAKES(rat);
#undef FIT_TAKES

// Of a temporary and of a variable, of the struct and of one derived from it: all the same.
template <template <class, class, class> class Takes, class T>
constexpr bool takes() {
  constexpr bool yes = Takes<ExampleOptions, T, void>::value;
  static_assert(Takes<ExampleOptions&, T, void>::value == yes);
  static_assert(Takes<DerivedOptions, T, void>::value == yes);
  static_assert(Takes<DerivedOptions&, T, void>::value == yes);
  static_assert(!Takes<const ExampleOptions&, T, void>::value, "constant options can be read only");
  return yes;
}

double rate_of(const ExampleOptions& options = {}) { return options.rate(); }

}  // namespace

TEST_CASE("options are set in a chain, at the call and in a variable", "[option]") {
  CHECK(rate_of() == 0.5);
  CHECK(rate_of(ExampleOptions().count(4).rate(0.25)) == 0.25);
  const auto all = ExampleOptions()
                       .rate(2)
                       .causal()
                       .letter('y')
                       .kind(Kind::b)
                       .title("text")
                       .shape({4, 5, 6})
                       .names({"a", "b"})
                       .call([](int x) { return x + 1; })
                       .scale(3)
                       .bins(7)
                       .annotate();
  CHECK(all.rate() == 2);
  CHECK(all.count() == 3);
  CHECK(all.causal());
  CHECK(all.letter() == 'y');
  CHECK(all.kind() == Kind::b);
  CHECK(all.title() == "text");
  CHECK(all.shape() == std::vector<std::int64_t>{4, 5, 6});
  CHECK(all.names() == std::vector<std::string>{"a", "b"});
  CHECK(all.call()(1) == 2);
  CHECK(all.scale() == 3.0);
  CHECK(all.bins() == 7);
  CHECK(all.annotate() == true);

  ExampleOptions o = all;
  o.rate(1).scale(std::nullopt).bins({}).causal(false).count(9);
  CHECK(o.rate() == 1);
  CHECK_FALSE(o.scale());
  CHECK_FALSE(o.bins());
  CHECK_FALSE(o.causal());
  CHECK(o.count() == 9);
  CHECK(all.rate() == 2);
}

TEST_CASE("a switch without an argument is set in a temporary, and read in a variable", "[option]") {
  static_assert(std::is_same_v<decltype(ExampleOptions().causal()), ExampleOptions>);
  static_assert(std::is_same_v<decltype(ExampleOptions().annotate()), ExampleOptions>);
  static_assert(std::is_same_v<decltype(std::declval<ExampleOptions&>().causal()), bool>);
  static_assert(std::is_same_v<decltype(std::declval<const ExampleOptions&>().causal()), bool>);
  static_assert(!std::is_convertible_v<ExampleOptions, bool>, "a switch of a temporary must not pass for its value");
  ExampleOptions o;
  CHECK_FALSE(o.causal());
  o.causal(true);
  CHECK(o.causal());
}

TEST_CASE("a chain that is kept refers to nothing that is gone", "[option]") {
  static_assert(std::is_same_v<decltype(ExampleOptions().rate(1)), ExampleOptions>, "a temporary is returned by value");
  static_assert(std::is_same_v<decltype(ExampleOptions().title()), std::string>);
  static_assert(std::is_same_v<decltype(std::declval<ExampleOptions&>().rate(1)), ExampleOptions&>);
  const auto& kept = ExampleOptions().title("a title that is too long for the string itself").causal();
  CHECK(kept.title() == "a title that is too long for the string itself");
}

TEST_CASE("inherited options keep the derived type", "[option]") {
  static_assert(std::is_same_v<decltype(DerivedOptions().rate(1).causal().names({}).depth(2)), DerivedOptions>);
  static_assert(std::is_same_v<decltype(std::declval<DerivedOptions&>().rate(1)), DerivedOptions&>);
  static_assert(std::is_same_v<decltype(std::declval<const DerivedOptions&>().causal()), bool>);
  const auto o = DerivedOptions().rate(0.125).causal().depth(2);
  CHECK(o.depth() == 2);
  CHECK(o.causal());
  CHECK(rate_of(o) == 0.125);
}

TEST_CASE("what is inside options is read, not changed", "[option]") {
  static_assert(std::is_same_v<decltype(std::declval<OuterOptions&>().inner()), const ExampleOptions&>);
  static_assert(!Takes_rate<decltype(std::declval<OuterOptions&>().inner()), double, void>::value);
  CHECK(OuterOptions().inner(ExampleOptions().rate(4)).inner().rate() == 4);
}

TEST_CASE("wrong names and types of options do not compile", "[option]") {
  static_assert(!takes<Takes_rat, double>(), "no such name");

  static_assert(takes<Takes_rate, double>() && takes<Takes_rate, float>() && takes<Takes_rate, int>());
  static_assert(!takes<Takes_rate, bool>() && !takes<Takes_rate, char>() && !takes<Takes_rate, const char*>());
  static_assert(!takes<Takes_rate, std::string>() && !takes<Takes_rate, Kind>() && !takes<Takes_rate, void*>());

  static_assert(takes<Takes_count, int>() && takes<Takes_count, std::int64_t>() && takes<Takes_count, std::size_t>());
  static_assert(!takes<Takes_count, double>() && !takes<Takes_count, float>() && !takes<Takes_count, bool>());
  static_assert(!takes<Takes_count, char>() && !takes<Takes_count, const char*>());

  static_assert(takes<Takes_causal, bool>() && takes<Takes_causal, const bool&>());
  static_assert(!takes<Takes_causal, int>() && !takes<Takes_causal, double>() && !takes<Takes_causal, char>());
  static_assert(!takes<Takes_causal, const char*>() && !takes<Takes_causal, int*>() &&
                !takes<Takes_causal, std::nullptr_t>());

  static_assert(takes<Takes_letter, char>() && !takes<Takes_letter, int>() && !takes<Takes_letter, const char*>());
  static_assert(takes<Takes_kind, Kind>() && !takes<Takes_kind, int>() && !takes<Takes_kind, bool>());
  static_assert(takes<Takes_title, const char*>() && takes<Takes_title, std::string>());
  static_assert(!takes<Takes_title, int>() && !takes<Takes_title, char>() && !takes<Takes_title, bool>());
  static_assert(takes<Takes_shape, std::vector<std::int64_t>>() && !takes<Takes_shape, int>());
  static_assert(takes<Takes_call, int (*)(int)>() && !takes<Takes_call, int>());
  static_assert(takes<Takes_pointer, int*>() && takes<Takes_pointer, std::nullptr_t>() && !takes<Takes_pointer, int>());

  static_assert(takes<Takes_scale, double>() && takes<Takes_scale, int>() && takes<Takes_scale, std::nullopt_t>() &&
                takes<Takes_scale, std::optional<double>>());
  static_assert(!takes<Takes_scale, bool>() && !takes<Takes_scale, const char*>());
  static_assert(takes<Takes_bins, int>() && takes<Takes_bins, std::optional<std::int64_t>>());
  static_assert(!takes<Takes_bins, double>() && !takes<Takes_bins, bool>() &&
                !takes<Takes_bins, std::optional<double>>());
  static_assert(takes<Takes_annotate, bool>() && takes<Takes_annotate, std::optional<bool>>());
  static_assert(!takes<Takes_annotate, int>() && !takes<Takes_annotate, const char*>());
  SUCCEED("the compiler has checked it");
}

}  // namespace fit::test::option_test
