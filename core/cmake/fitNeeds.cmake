# The packages that fit needs.

# fit_need(PACKAGE APT [VERSION]) finds a package, or says which package of Debian has it.
macro(fit_need package apt)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "fit needs ${package}, which was not found. On Debian or Ubuntu:\n  apt-get install ${apt}")
  endif()
endmacro()

macro(fit_need_all)
  fit_need(xtensor libxtensor-dev 0.24)
  fit_need(xtensor-blas libxtensor-blas-dev)
  fit_need(xsimd libxsimd-dev 8)
  fit_need(OpenBLAS libopenblas-dev)
  fit_need(nlohmann_json nlohmann-json3-dev 3.10)
  fit_need(ZLIB zlib1g-dev)
  find_package(Threads REQUIRED)
  include(core/cmake/fitOpenBLAS.cmake)
endmacro()
