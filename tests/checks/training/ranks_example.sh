#!/usr/bin/env bash
# ranks_example.sh MPIRUN EXAMPLE   a quick training on one, two and four ranks prints the same numbers, up to rounding,
# and once. Times are left out, and what is random behind them.
set -euo pipefail
mpirun=$1 example=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
# Losses, errors and rates: the number behind each of these words.
numbers() {
  grep -oE "(loss|training|validation|rate|letters|digits|letter|right|end|percent|accuracy)[a-z ,]*:? [0-9]+\.?[0-9]*(e-?[0-9]+)?" "$1" |
    grep -oE "[0-9]+\.?[0-9]*(e-?[0-9]+)?$"
}
for ranks in 1 2 4; do
  "$mpirun" $ranks "$example" --quick --out "$stage/$ranks" >"$stage/said$ranks" 2>&1 || {
    grep -q "data is missing" "$stage/said$ranks" && exit 77
    echo "on $ranks ranks it failed" && cat "$stage/said$ranks" && exit 1
  }
  numbers "$stage/said$ranks" >"$stage/numbers$ranks"
  (cd "$stage/$ranks" 2>/dev/null && find . -type f | sort || true) >"$stage/files$ranks"
done
for ranks in 2 4; do
  grep -qxF "[dist] $ranks ranks train together" "$stage/said$ranks" ||
    { echo "no line says how many ranks train" && cat "$stage/said$ranks" && exit 1; }
done
[ -s "$stage/numbers1" ] || { echo "it printed no numbers" && cat "$stage/said1" && exit 1; }
for ranks in 2 4; do
  diff "$stage/files1" "$stage/files$ranks"
  paste "$stage/numbers1" "$stage/numbers$ranks" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 0.002 * $1 + 0.001) { print "one process: " $1 ", ranks: " $2; bad = 1 } }
         END { exit bad }' || { cat "$stage/said1" "$stage/said$ranks" && exit 1; }
done
echo "$(wc -l <"$stage/numbers1") numbers are equal"
