#!/usr/bin/env bash
# clang_headers.sh INCLUDE_DIR...: clang, on which editors' language servers are built, parses every public header without
# a warning. (That each compiles alone is what headers_alone.sh shows.) Exits with 77 where clang is missing.
set -euo pipefail
clang=$(command -v clang++ || command -v clang++-14) || { echo "clang++ is not installed: apt-get install clang"; exit 77; }
headers=$(for dir; do (cd "$dir" && find fit -name '*.hpp' | sort); done)
[ -n "$headers" ] || { echo "no headers were found"; exit 1; }
sed 's/.*/#include <&>/' <<<"$headers" |
  "$clang" -std=c++17 -x c++ -fsyntax-only -Wall -Wextra -Wpedantic -Werror "${@/#/-I}" -
echo "clang read $(wc -l <<<"$headers") headers"
