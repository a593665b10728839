#!/usr/bin/env bash
# header_weight.sh COMPILER INCLUDE_DIR...
# What <fit/fit.hpp> costs each file that includes it, and that it is complete. Time depends on the machine; what the
# compiler has to read doesn't: at most twice the lines of xtensor/xarray.hpp, and none of the headers that only the
# inside needs.
set -euo pipefail
compiler=$1
shift
flags=(-std=c++17 -x c++ "${@/#/-I}")

lines() { printf '#include <%s>\n' "$1" | "$compiler" "${flags[@]}" -E -P - | wc -l; }
ours=$(lines fit/fit.hpp)
theirs=$(lines xtensor/xarray.hpp)
echo "fit/fit.hpp: $ours lines, xtensor/xarray.hpp: $theirs"
((ours <= 2 * theirs)) || { echo "fit/fit.hpp must stay within twice the lines of xtensor/xarray.hpp"; exit 1; }

read_files=$(printf '#include <fit/fit.hpp>\n' | "$compiler" "${flags[@]}" -M - | tr -s ' \\' '\n')
heavy=$(grep -E '/(xtensor|xtensor-blas|xsimd|nlohmann|CLI)/|/(cblas|omp|mpi)\.h$|/(regex|iostream|fstream|thread|random|future|filesystem)$' <<<"$read_files" || true)
[ -z "$heavy" ] || { printf 'fit/fit.hpp must not include\n%s\n' "$heavy"; exit 1; }

# It is all of fit but <fit/xtensor.hpp>.
for dir; do
  while read -r header; do
    grep -qF "/$header" <<<"$read_files" || { echo "fit/fit.hpp does not include $header"; exit 1; }
  done < <(cd "$dir" && find fit -name '*.hpp' ! -name xtensor.hpp)
done
