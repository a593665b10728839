#pragma once
// The one way to Catch2.
#define CATCH_CONFIG_FAST_COMPILE
#include <catch2/catch.hpp>
