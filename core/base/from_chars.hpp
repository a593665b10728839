#pragma once
#include <charconv>
#include <system_error>
#include <type_traits>

#if defined(_LIBCPP_VERSION)
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <locale>
#include <string>
#endif

namespace fit {

/// std::from_chars for any number: libc++ reads no floating ones.
template <class T>
std::from_chars_result from_chars(const char* first, const char* last, T& value) {
#if defined(_LIBCPP_VERSION)
  if constexpr (std::is_floating_point_v<T>) {
    static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
    std::string text(first, last);
    text.resize(std::min(text.find_first_of("xX"), text.size()));  // strtod reads hexadecimal numbers, blanks and "+"
    if (text.empty() || std::isspace(static_cast<unsigned char>(text[0])) || text[0] == '+')
      return {first, std::errc::invalid_argument};
    char* end = nullptr;
    const double read = strtod_l(text.c_str(), &end, c);
    if (end == text.c_str()) return {first, std::errc::invalid_argument};
    const char* const stop = first + (end - text.c_str());
    const bool named = text.find_first_of("iI") < static_cast<std::size_t>(end - text.c_str());
    if (std::isinf(static_cast<T>(read)) && !named) return {stop, std::errc::result_out_of_range};
    value = static_cast<T>(read);
    return {stop, std::errc()};
  } else
#endif
    return std::from_chars(first, last, value);
}

}  // namespace fit
