# arm64 by Debian's cross compiler, whose programs qemu-user runs (tests/arm64):
#   cmake -S . -B build/arm64 -DCMAKE_TOOLCHAIN_FILE=core/cmake/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# These are headers alone. Debian can't install two of them for a second processor, as xtl-dev is for the machine's own.
foreach(package xtensor xtensor-blas xsimd)
  set(${package}_DIR /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/${package})
endforeach()
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
