#pragma once
// The one way to Catch2.
#include <catch2/catch.hpp>
