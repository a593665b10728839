#!/usr/bin/env bash
# refused.sh CXX INCLUDE_DIR...: each mistake in refused.cpp ends in an error, or in a warning without -Wall, that says
# the cure in a few lines. The same file without a mistake compiles.
set -euo pipefail
cxx=$1 source=${BASH_SOURCE[0]%/*}/refused.cpp
shift
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
printf '#include <fit/fit.hpp>\n' >"$stage/all.hpp"  # compiled once
flags=(-std=c++17 "${@/#/-I}")
"$cxx" "${flags[@]}" -x c++-header -o "$stage/all.hpp.gch" "$stage/all.hpp"
said() { "$cxx" "${flags[@]}" -fsyntax-only "${@:2}" -DMISTAKE="$1" "$source" >"$stage/said" 2>&1; }
said 0 -include "$stage/all.hpp" || { echo "without a mistake:" && cat "$stage/said" && exit 1; }
count=0
while read -r number text; do
  if [[ $text == comma || $text == *attribute ]]; then
    said "$number" || true  # a warning; for the comma without the precompiled header, in which g++ forgets pragmas
  else
    ! said "$number" -include "$stage/all.hpp" || { echo "mistake $number compiles" && exit 1; }
  fi
  grep -v '^In file included\|^  *from ' "$stage/said" >"$stage/lines"
  grep -qF -- "$text" "$stage/lines" || { echo "mistake $number: not said: $text" && cat "$stage/said" && exit 1; }
  # What follows a macro's message, where the macro was called, is not read.
  lines=$(awk '/: in expansion of macro/ { skip = 3 } skip-- <= 0' "$stage/lines" | wc -l)
  ((lines <= 16)) || { echo "mistake $number: $lines lines" && cat "$stage/said" && exit 1; }
  count=$((count + 1))
done < <(sed -n 's/^#\(el\)\?if MISTAKE == \([0-9]*\) *\/\/ says: /\2 /p' "$source")
# Two compilers name the cure for FIT_FIELDS inside a function in their first five lines.
for cxx in "$cxx" clang++; do
  command -v "$cxx" >/dev/null || continue
  ! said 22 || { echo "mistake 22 compiles by $cxx" && exit 1; }
  grep -v '^In file included\|^  *from ' "$stage/said" | sed 5q | grep -qF FIT_FIELDS_ONLY ||
    { echo "$cxx does not say FIT_FIELDS_ONLY early" && cat "$stage/said" && exit 1; }
done
((count >= 17)) || { echo "only $count mistakes were read" && exit 1; }
echo "$count mistakes are told"
