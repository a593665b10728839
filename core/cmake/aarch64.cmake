# arm64 with Debian's cross compiler; qemu-user runs the programs (tests/arm64):
#   cmake -S . -B build/arm64 -DCMAKE_TOOLCHAIN_FILE=core/cmake/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Header-only packages of the host. Debian can't install two of them for arm64: they need the host's xtl-dev.
foreach(package xtensor xtensor-blas xsimd)
  set(${package}_DIR /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/${package})
endforeach()
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
