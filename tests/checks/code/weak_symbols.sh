#!/usr/bin/env bash
# weak_symbols.sh TAG OBJECT...
# The linker keeps any one of several equal weak functions, for the whole program. So an object compiled for a wide
# instruction set must not define a weak function that a plain file may define, too: the program would crash on an older
# processor. Functions whose mangled name contains TAG (avx2, avx512: xsimd's architectures, and the tags of
# core/kernels/simd/isa.hpp) belong to one set only.
set -euo pipefail
tag=$1
shift
(($# > 0)) || { echo "no object files given" >&2; exit 1; }

defined=$(readelf --symbols --wide "$@" | awk '$4 == "FUNC" && $7 != "UND" { print $5, $8 }')
[ -n "$defined" ] || { echo "the object files define no function at all" >&2; exit 1; }
bad=$(awk -v tag="$tag" '$1 == "WEAK" && index($2, tag) == 0 { print $2 }' <<<"$defined" | sort -u)
[ -z "$bad" ] && exit
echo "Weak functions without '$tag' in their name, compiled for that instruction set:"
c++filt <<<"$bad"
exit 1
