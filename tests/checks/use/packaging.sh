#!/usr/bin/env bash
# packaging.sh TOP: the port for vcpkg and the recipe for Conan name the version and the packages of CMake, and CMake reads
# the port. Nothing is downloaded. Exit code 77: python3 is not there.
set -euo pipefail
cd "$1"
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 77; }
packaging=core/cmake/packaging
version=$(sed -n 's/.*FIT_VERSION_STRING "\(.*\)"/\1/p' core/include/fit/base/version.hpp)
needed=$(sed -n 's/^  fit_need(\([A-Za-z_-]*\).*/\1/p' core/cmake/fitNeeds.cmake | tr '[:upper:]_' '[:lower:]-' | sort)
port=$(python3 - "$packaging/vcpkg/fit/vcpkg.json" "$version" <<'END'
import json, sys
port = json.load(open(sys.argv[1]))
assert port["version"] == sys.argv[2], f"vcpkg.json has version {port['version']}, version.hpp {sys.argv[2]}"
print("\n".join(sorted(d for d in port["dependencies"] if isinstance(d, str))))
END
)
[ "$port" = "$needed" ] || { printf 'the port needs\n%s\nCMake needs\n%s\n' "$port" "$needed"; exit 1; }
for package in $needed; do
  grep -qE "\"${package//-/[-_]}/|lib$package-dev" $packaging/conan/conanfile.py ||
    { echo "the recipe for Conan does not name $package"; exit 1; }
done
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" $packaging/conan/conanfile.py
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
cat >"$stage/port.cmake" <<'END'
foreach(command check_linkage cmake_configure cmake_install cmake_config_fixup fixup_pkgconfig install_copyright)
  function(vcpkg_${command})
    message(STATUS "${ARGN}")
  endfunction()
endforeach()
include(${port})
if(NOT EXISTS "${SOURCE_PATH}/CMakeLists.txt" OR NOT EXISTS "${SOURCE_PATH}/LICENSE")
  message(FATAL_ERROR "the port does not find its sources in ${SOURCE_PATH}")
endif()
END
cmake "-Dport=$PWD/$packaging/vcpkg/fit/portfile.cmake" "-DCURRENT_PACKAGES_DIR=$stage/packages" -P "$stage/port.cmake"
echo "the packages of fit $version need" $needed
