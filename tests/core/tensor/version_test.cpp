#include "fit/base/version.hpp"

#include <string>

#include "support/catch.hpp"

TEST_CASE("the version's numbers are those of its text") {
  CHECK(std::to_string(FIT_VERSION_MAJOR) + '.' + std::to_string(FIT_VERSION_MINOR) + '.' +
            std::to_string(FIT_VERSION_PATCH) ==
        FIT_VERSION_STRING);
  CHECK(FIT_VERSION == FIT_VERSION_MAJOR * 10000 + FIT_VERSION_MINOR * 100 + FIT_VERSION_PATCH);
}
