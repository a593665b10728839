#!/usr/bin/env bash
# header_weight.sh COMPILER INCLUDE_DIR...
# What <fit/fit.hpp> costs each file that includes it, and that it is complete. Time depends on the machine. What the
# compiler reads does not: at most 0.61 times the lines of xtensor/xarray.hpp, and no header that only sources need. Nor
# does what g++ allocates, which grows with the instantiated templates: at most 1.17 times that of xtensor/xarray.hpp.
set -euo pipefail
compiler=$1
shift
flags=(-std=c++17 -x c++ "${@/#/-I}")

lines() { printf '#include <%s>\n' "$1" | "$compiler" "${flags[@]}" -E -P - | wc -l; }
ours=$(lines fit/fit.hpp)
theirs=$(lines xtensor/xarray.hpp)
echo "fit/fit.hpp: $ours lines, xtensor/xarray.hpp: $theirs"
((100 * ours <= 61 * theirs)) || { echo "fit/fit.hpp must stay within 0.61 times the lines of xtensor/xarray.hpp"; exit 1; }

# In MB; nothing from a compiler that does not report it.
allocated() {
  printf '#include <%s>\n' "$1" | "$compiler" "${flags[@]}" -fsyntax-only -ftime-report - 2>&1 |
    sed -n 's/^ *TOTAL .* \([0-9]*\)M *$/\1/p'
}
ours=$(allocated fit/fit.hpp)
theirs=$(allocated xtensor/xarray.hpp)
if [ -n "$ours" ]; then
  echo "fit/fit.hpp: $ours MB, xtensor/xarray.hpp: $theirs MB"
  ((100 * ours <= 117 * theirs)) || { echo "g++ must allocate at most 1.17 times as much as for xtensor/xarray.hpp"; exit 1; }
fi

read_files=$(printf '#include <fit/fit.hpp>\n' | "$compiler" "${flags[@]}" -M - | tr -s ' \\' '\n')
heavy=$(grep -E '/(xtensor|xtensor-blas|xsimd|nlohmann|CLI)/|/(cblas|omp|mpi)\.h$|/(algorithm|chrono|filesystem|fstream|future|iostream|mutex|random|regex|sstream|thread)$' <<<"$read_files" || true)
[ -z "$heavy" ] || { printf 'fit/fit.hpp must not include\n%s\n' "$heavy"; exit 1; }

# It is all of fit but <fit/tensor/xtensor.hpp> and <fit/tensor/dlpack.hpp>, which bring the names of others.
for dir; do
  while read -r header; do
    grep -qF "/$header" <<<"$read_files" || { echo "fit/fit.hpp does not include $header"; exit 1; }
  done < <(cd "$dir" && find fit -name '*.hpp' ! -name xtensor.hpp ! -name dlpack.hpp)
done
