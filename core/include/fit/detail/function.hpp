#pragma once

// std::function alone. libstdc++'s <functional> also includes hash tables and <algorithm>, a fifth of what fit.hpp
// needs of the standard library.
#if __has_include(<bits/std_function.h>)
#include <bits/std_function.h>
#else
#include <functional>
#endif
