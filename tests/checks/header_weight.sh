#!/usr/bin/env bash
# header_weight.sh COMPILER INCLUDE_DIR...
# What <fit/fit.hpp> costs each file that includes it. Time depends on the machine; what the compiler has to read
# doesn't: at most twice the lines of xtensor/xarray.hpp, and none of the headers that only the inside needs.
set -euo pipefail
compiler=$1
shift
flags=(-std=c++17 -x c++ "${@/#/-I}")

lines() { printf '#include <%s>\n' "$1" | "$compiler" "${flags[@]}" -E -P - | wc -l; }
ours=$(lines fit/fit.hpp)
theirs=$(lines xtensor/xarray.hpp)
echo "fit/fit.hpp: $ours lines, xtensor/xarray.hpp: $theirs"
((ours <= 2 * theirs)) || { echo "fit/fit.hpp must stay within twice the lines of xtensor/xarray.hpp"; exit 1; }

heavy=$(printf '#include <fit/fit.hpp>\n' | "$compiler" "${flags[@]}" -M - | tr -s ' \\' '\n' |
  grep -E '/(xtensor|xtensor-blas|xsimd|nlohmann|CLI)/|/(cblas|omp|mpi)\.h$|/(regex|iostream|fstream|thread|random|future|filesystem)$' || true)
[ -z "$heavy" ] || { printf 'fit/fit.hpp must not include\n%s\n' "$heavy"; exit 1; }
