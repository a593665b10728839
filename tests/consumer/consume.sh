#!/usr/bin/env bash
# consume.sh installed|pkg-config|subdirectory FIT_BUILD_TREE: a user's project, made anew, finds fit in one of three
# ways, is built and run. CXX and CXXFLAGS come from the environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
way=$1
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

configure() { cmake -S "$here/$way" -B "$stage/build" -G Ninja "$@"; }

case $way in
  installed)
    cmake --install "$2" --prefix "$stage/prefix" >/dev/null
    configure "-DCMAKE_PREFIX_PATH=$stage/prefix"
    cmake --build "$stage/build" --target consumer
    "$stage/build/consumer" >"$stage/said"
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
    configure "-DFIT_SOURCE_DIR=$here/../.."
    # Building the library once more would take minutes: the one that is there takes its place, and the two commands
    # that are the consumer's own are run.
    cp "$2"/libfit.* "$stage/build/fit/"
    cd "$stage/build"
    eval "$(ninja -t commands consumer | grep -F main.cpp.o)"
    ./consumer >"$stage/said"
    ;;
esac
cat "$stage/said"
grep -qx "gradient 40" "$stage/said" || { echo "it should have said: gradient 40"; exit 1; }
