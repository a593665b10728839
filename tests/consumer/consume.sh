#!/usr/bin/env bash
# consume.sh installed|pkg-config|subdirectory FIT_BUILD_TREE: a user's project, made anew, finds fit in one of three
# ways, is built and run. CXX and CXXFLAGS come from the environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
way=$1
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

build_with_cmake() {
  cmake -S "$here/$way" -B "$stage/build" -G Ninja "$@"
  cmake --build "$stage/build" --parallel "$(nproc)" --target consumer
  "$stage/build/consumer" >"$stage/said"
}

case $way in
  installed)
    cmake --install "$2" --prefix "$stage/prefix" >/dev/null
    build_with_cmake "-DCMAKE_PREFIX_PATH=$stage/prefix"
    ;;
  pkg-config)
    cmake --install "$2" --prefix "$stage/prefix" >/dev/null
    pc=$(find "$stage/prefix" -name fit.pc)
    read -ra flags < <(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs fit)
    # shellcheck disable=SC2086
    "$CXX" -std=c++17 ${CXXFLAGS:-} "$here/main.cpp" "${flags[@]}" -o "$stage/consumer"
    "$stage/consumer" >"$stage/said"
    ;;
  subdirectory)
    build_with_cmake "-DFIT_SOURCE_DIR=$here/../.."
    ;;
esac
cat "$stage/said"
grep -qx "gradient 40" "$stage/said" || { echo "it should have said: gradient 40"; exit 1; }
