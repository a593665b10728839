# Sourced by examples/run, tests/run and .ci/run: installs missing packages, configures, builds.
# FIT_PRESET selects a preset of CMakePresets.json (default `release`); its build tree is build/<preset>.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
preset=${FIT_PRESET:-release}
build=$top/build/$preset
unset FIT_PRESET  # it means this tree alone: tests start builds of other trees
me=$(realpath --relative-to="$top" "$0")

usage() { sed -n '2,/^[^#]/s/^# //p' "$0"; }  # prints the leading comment of the command
say() { printf '== %s\n' "$*"; }
fail() { # fail MESSAGE [EXIT-CODE]
  printf '%s: %s\n' "$me" "$1" >&2
  exit "${2:-1}"
}

# The Debian packages for building and testing fit, and their purpose.
packages=(
  "g++: the compiler"
  "cmake: the build system"
  "ninja-build: runs the build"
  "libopenblas-dev: linear algebra, and matrix products on older processors"
  "libxsimd-dev: vector instructions"
  "libxtensor-dev: arrays, for data in and out"
  "libxtensor-blas-dev: linear algebra"
  "libcli11-dev: command lines of the examples and the benchmark"
  "nlohmann-json3-dev: JSON, for files and what the benchmark prints"
  "zlib1g-dev: compressed images, in data and in pictures"
  "catch2: the tests"
  "pkgconf: a test that a program finds fit through pkg-config"
)

# Whether a dependency is installed: a tool from any source, a library as a Debian package.
has() {
  case $1 in
    g++) command -v "${CXX:-c++}" ;;
    cmake) command -v cmake ;;
    ninja-build) command -v ninja ;;
    clang) command -v clang++ ;;
    clang-format-14 | clang-tidy-14 | chromium | python3) command -v "$1" ;;
    openmpi-bin) command -v mpirun ;;
    libxml2-utils) command -v xmllint ;;
    python3-pip) python3 -m pip --version 2>&1 ;;
    pkgconf) command -v pkg-config ;;
    *)  # for this machine's processor, or for the one in the name (zlib1g-dev:arm64)
      local for="($(dpkg --print-architecture)|all)"
      case $1 in *:*) for=${1#*:} ;; esac
      dpkg-query -W -f='${db:Status-Status} ${Architecture}\n' "$1" 2>/dev/null | grep -xE "installed $for" ;;
  esac >/dev/null
}

# install_missing "PACKAGE: purpose"...: installs missing packages; if none is missing, needs no root.
install_missing() {
  # Without Debian's package tools, CMake reports missing packages.
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || return 0
  local entry missing=() why=() root=()
  for entry; do
    if ! has "${entry%%: *}"; then
      missing+=("${entry%%: *}")
      why+=("$entry")
    fi
  done
  ((${#missing[@]})) || return 0
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "packages are missing; run as root: apt-get update && apt-get install ${missing[*]}"
    root=(sudo)
  fi
  say "Installing with ${root[*]:+sudo }apt-get what is needed and this machine lacks:"
  printf '     %s\n' "${why[@]}"
  { "${root[@]}" apt-get update -q &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } ||
    fail "apt-get failed (its reason stands above); put that right, or install by hand: ${missing[*]}"
}

configure() {
  install_missing "${packages[@]}"
  say "Configuring build/$preset"
  mkdir -p "$build"
  (cd "$top" && cmake --preset "$preset" >"$build/configure.log") ||
    fail "CMake could not configure (its reason stands above); if the reason is an old build tree, delete build/$preset"
}

# build_targets TARGET...: builds all targets if none is given.
build_targets() {
  say "Building ${*:-everything} (the first time takes minutes)"
  cmake --build "$build" --parallel "$(nproc)" ${@:+--target "$@"} ||
    fail "the build failed: the first error above says why"
}
