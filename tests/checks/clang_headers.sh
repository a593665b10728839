#!/usr/bin/env bash
# clang_headers.sh INCLUDE_DIR...: clang, on which editors' language servers are built, parses each public header alone
# and without a warning. Exits with 77 where clang is not installed.
set -euo pipefail
clang=$(command -v clang++ || command -v clang++-14) || { echo "clang++ is not installed: apt-get install clang"; exit 77; }
includes=("${@/#/-I}") status=0 seen=0
for dir; do
  while read -r header; do
    seen=$((seen + 1))
    printf '#include <%s>\n' "$header" |
      "$clang" -std=c++17 -x c++ -fsyntax-only -Wall -Wextra -Wpedantic -Werror "${includes[@]}" - ||
      { echo "clang does not read <$header>"; status=1; }
  done < <(cd "$dir" && find fit -name '*.hpp' | sort)
done
echo "clang read $seen headers"
((seen > 0)) || exit 1
exit $status
