#!/usr/bin/env bash
# headers_alone.sh COMPILER INCLUDE_DIR...: every public header compiles alone, also if it is included twice.
set -euo pipefail
compiler=$1
shift
compile() { printf '#include <%s>\n' "$1" "$1" | "${@:2}" - || { echo "$1 does not compile alone"; return 1; }; }
export -f compile
headers=$(for dir; do (cd "$dir" && find fit -name '*.hpp' | sort); done)
[ -n "$headers" ] || { echo "no headers were found"; exit 1; }
xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' - {} "$compiler" -std=c++17 -x c++ -fsyntax-only "${@/#/-I}" <<<"$headers"
echo "compiled $(wc -l <<<"$headers") headers"
