#define CATCH_CONFIG_RUNNER
#include "support/catch.hpp"

int fit::test::run_tests(int argc, char** argv) { return Catch::Session().run(argc, argv); }
