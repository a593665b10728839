#!/usr/bin/env bash
# drift.sh COMMIT [ROW...]: the benchmark of an earlier commit beside today's, turn by turn. Prints a table of times and
# ratios of the rows (all that both know) for docs/performance.md; above 1, today is slower.
# The earlier library is built once, below build/drift, as the preset release is; COMMIT may also be a ready bench.
# Today's is build/release/tests/bench/bench, or BENCH. Each row runs in processes of its own, first the one, then the
# other, ROUNDS (3) times, with THREADS (all cores) threads; the least median of each counts. All rows take an hour.
set -euo pipefail
(($# >= 1)) || { sed -n '2,/^[^#]/s/^# //p' "$0"; exit 2; }
top=$(cd "$(dirname "$0")/../.." && pwd)
today=${BENCH:-$top/build/release/tests/bench/bench} rounds=${ROUNDS:-3} threads=${THREADS:-$(nproc)}
commit=$1
shift

built() { # built COMMIT: the path of its bench, which is built if it isn't there
  local id at
  id=$(git -C "$top" rev-parse --short=7 --verify "$1^{commit}")
  at=$top/build/drift/$id
  if [[ ! -x $at/build/tests/bench/bench ]]; then
    mkdir -p "$at/source"
    git -C "$top" archive "$id" | tar -x -C "$at/source"
    cmake -S "$at/source" -B "$at/build" -G Ninja -Wno-dev --no-warn-unused-cli -DCMAKE_BUILD_TYPE=Release \
      -DFIT_UNITY=ON -DFIT_EXAMPLES=OFF -DFIT_INSTALL=OFF
    ninja -C "$at/build" bench
  fi >&2
  echo "$at/build/tests/bench/bench"
}
if [[ -x $commit && ! -d $commit ]]; then before=$commit; else before=$(built "$commit"); fi
[[ -x $today ]] || { echo "drift.sh: $today is missing: ninja -C build/release bench, or set BENCH" >&2; exit 2; }

rows=("$@")
((${#rows[@]})) || mapfile -t rows < <(grep -Fxf <("$before" --list) <("$today" --list))
seconds() { # seconds BENCH ROW: the median of a step
  "$1" --quick --threads "$threads" --only "$2" | sed -nE '/"workload"/s/.*"median_s":([^,}]*).*/\1/p'
}

printf '| workload | %s, ms | today, ms | ratio |\n|---|---|---|---|\n' "${commit##*/}"
for row in "${rows[@]}"; do
  times=()
  for ((round = 0; round < rounds; ++round)); do
    if ((round % 2)); then order=(today before); else order=(before today); fi
    for which in "${order[@]}"; do times+=("$which $(seconds "${!which}" "$row")"); done
  done
  printf '%s\n' "${times[@]}" | awk -v row="$row" '
    !($1 in least) || $2 < least[$1] { least[$1] = $2 }
    END { printf "| %s | %.4g | %.4g | %.2f |\n", row, 1e3 * least["before"], 1e3 * least["today"],
            least["today"] / least["before"] }'
done
