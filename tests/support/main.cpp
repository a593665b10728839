#include "support/catch.hpp"

int main(int argc, char** argv) { return fit::test::run_tests(argc, argv); }
