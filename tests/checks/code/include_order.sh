#!/usr/bin/env bash
# include_order.sh DIR: in the tree DIR, each folder of a library includes only itself and what stands before it in the
# library's list. (Which library may include which, the compiler knows: each sees only those below it.) One file includes
# xtensor's headers, and one Catch2's: they lie elsewhere in newer versions.
set -euo pipefail
cd "$1"
wrong=$(for list in "core base threads kernels/simd kernels matmul attention/visibility attention/kernel \
    linear_attention/kernel tensor graph ops int8 attention/score attention linear_attention backward io" \
  "nn common dist layer layers attention inspect loss distributions models lens optim data unicode tokenizers tokenizer chat weights hub metrics \
    training onnx plot"; do
  grep -rHoE '^#include "[^"]+"' --include='*.[hc]pp' "${list%% *}" | awk -F'[:"]' -v list="$list" '
    BEGIN { for (n = split(list, order, " "); n > 1; --n) rank[order[n]] = n }
    function folder(path) {  # the longest one of the list that has the path
      sub("^(" order[1] "/)?(include/)?(fit/)?(nn/)?", "", path)
      while (path != "" && !(path in rank)) if (!sub("/[^/]*$", "", path)) path = ""
      return path
    }
    function here(path, line) { return (getline line < (order[1] "/" path)) >= 0 || (getline line < (order[1] "/include/" path)) >= 0 }
    { from = folder($1); to = here($3) ? folder($3) : ""; ++seen }
    !from && $1 !~ "/include/" { print $1 " lies in a folder that has no place in the list" }
    from && rank[to] > rank[from] { print $1 " (" from ") includes " $3 " (" to ")" }
    END { if (!seen) print "no includes were found in " order[1] }'
done)
for one in "xtensor=core/include/fit/tensor/xtensor.hpp|tests/support/oracles/xtensor_oracle.hpp" catch2=tests/support/catch.hpp; do
  wrong+=$(grep -rlE "#include <${one%%=*}/" --include='*.[hc]pp' core nn examples tests 2>/dev/null | grep -vxE "${one#*=}" |
    sed "s#\$# includes <${one%%=*}/...>, which only ${one#*=} may#" || true)
done
[ -z "$wrong" ] || { echo "$wrong"; exit 1; }
