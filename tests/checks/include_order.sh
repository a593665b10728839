#!/usr/bin/env bash
# include_order.sh DIR: in the tree DIR, each folder of core/ includes only what stands before it in this list, and
# nothing there includes nn/. One file includes xtensor's headers, and one Catch2's: they lie elsewhere in newer versions.
set -euo pipefail
order=(base threads kernels/simd matmul kernels tensor graph ops backward io)
declare -A rank public=(
  [error]=base [version]=base [bfloat16]=base [shape]=base [memory]=base [parallel]=threads [detail/thread_state]=threads [detail/tensor_impl]=tensor
  [tensor]=tensor [state_dict]=tensor [graph]=graph [autocast]=graph [hooks]=graph [random]=ops [ops]=ops [int8]=ops [attention]=ops [gradcheck]=backward [functional]=backward [activation_checkpoint]=backward [npy]=io [safetensors]=io [lookup]=tensor [npz]=io
  [xtensor]=ops [recurrent]=ops)
for i in "${!order[@]}"; do rank[${order[i]}]=$i; done

# folder_of PATH: the entry of the list that a file below core/, or a public header, belongs to
folder_of() {
  local header=${1#*fit/}
  case $1 in
    *fit/*) echo "${public[${header%.hpp}]:-unknown}" ;;
    kernels/simd/*) echo kernels/simd ;;
    *) echo "${1%%/*}" ;;
  esac
}

cd "$1/core"
wrong=0 seen=0
while IFS=: read -r file include; do
  from=$(folder_of "$file") to=$(folder_of "$(sed -E 's/.*"(.*)".*/\1/' <<<"$include")")
  seen=$((seen + 1))
  if [ -z "${rank[$from]:-}" ] || [ -z "${rank[$to]:-}" ] || ((rank[$to] > rank[$from])); then
    echo "core/$file ($from) includes $include ($to)"
    wrong=1
  fi
done < <(grep -rHoE '^#include "[^"]+"' --include='*.hpp' --include='*.cpp' . | sed 's#^\./##')
((seen > 0)) || { echo "no includes were found"; exit 1; }

cd ..
for one in xtensor=core/include/fit/xtensor.hpp catch2=tests/support/catch.hpp; do
  others=$(grep -rlE "#include <${one%%=*}/" --include='*.hpp' --include='*.cpp' core nn dist examples tests 2>/dev/null |
    grep -vxF "${one#*=}" || true)
  [ -z "$others" ] || { echo "only ${one#*=} may include <${one%%=*}/...>: $others"; wrong=1; }
done
exit $wrong
