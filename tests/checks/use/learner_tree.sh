#!/usr/bin/env bash
# learner_tree.sh BUILD TOP DIR: makes DIR, a tree with the examples/run of TOP, the exercises, and one lesson, `watched`.
# They are built with the library of BUILD.
set -euo pipefail
build=$1 top=$2 dir=$3
rm -rf "$dir"
mkdir -p "$dir/examples" "$dir/core"
cmake --install "$build" --prefix "$dir/fit" >/dev/null
cp -r "$top/core/cmake" "$dir/core/"
cp -r "$top"/examples/{run,support,exercises,CMakeLists.txt} "$dir/examples/"
cat >"$dir/examples/watched.cpp" <<'END'
/// # A lesson that is watched
#include <iostream>

#include "support/example.hpp"

using namespace fit;

void lesson(example::Example& e) {
  /// Softmax of two numbers.
  e.cell();
  std::cout << "the first version\n";
  e.claim("a row sums to 1", allclose(sum(softmax(tensor({1., 2.})), -1), tensor(1.)));
}

int main(int argc, char** argv) { return example::lesson(argc, argv, "Is watched.", lesson); }
END
cat >"$dir/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(learner LANGUAGES CXX)
macro(fit_need package)
  find_package(${package} REQUIRED)
endmacro()
find_package(fit REQUIRED PATHS ${PROJECT_SOURCE_DIR}/fit NO_DEFAULT_PATH)
add_subdirectory(examples)
END
cat >"$dir/CMakePresets.json" <<'END'
{
  "version": 6,
  "configurePresets": [{
    "name": "release",
    "generator": "Ninja",
    "binaryDir": "${sourceDir}/build/release",
    "cacheVariables": {"CMAKE_BUILD_TYPE": "None"}
  }]
}
END
