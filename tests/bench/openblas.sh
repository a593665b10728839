#!/usr/bin/env bash
# openblas.sh BENCH [THREADS [ROUNDS]]: products of float64 and float32 by fit and by OpenBLAS, in the sizes of layers and
# in squares from 64 to 2048. BENCH is build/release/tests/bench/bench. OpenBLAS runs as the processor that it takes this
# one for, and as those in OPENBLAS_CORES (SkylakeX Cooperlake), by turns with fit. Each time is the least of ROUNDS (2)
# runs; the ratio is fit's time over that of the fastest OpenBLAS: at 1 or above, OpenBLAS is at par.
set -euo pipefail
(($# >= 1)) || { sed -n '2,/^[^#]/s/^# //p' "$0"; exit 2; }
bench=$1 threads=${2:-$(nproc)} rounds=${3:-2}
rows=$("$bench" --products --list | grep -v _bf16 | paste -sd,)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

measure() { # measure NAME [VARIABLE=VALUE...]: adds "ROW SECONDS" lines to $stage/NAME
  env "${@:2}" "$bench" --products --quick --threads "$threads" --only "$rows" |
    sed -nE 's/.*"min_s":([^,}]*).*"workload":"product_([^"]*)".*/\2 \1/p' >>"$stage/$1"
}
for ((round = 0; round < rounds; ++round)); do
  measure fit
  measure openblas FIT_OPENBLAS=use
  for core in ${OPENBLAS_CORES-SkylakeX Cooperlake}; do measure openblas FIT_OPENBLAS=use OPENBLAS_CORETYPE="$core"; done
done

printf '| M x N x K | type | fit, Gflop/s | OpenBLAS, Gflop/s | fit / OpenBLAS |\n|---|---|---|---|---|\n'
awk '
  !($1 in least) { if (FILENAME ~ /\/fit$/) order[++count] = $1 }
  FILENAME ~ /\/fit$/ { if (!($1 in least) || $2 < least[$1]) least[$1] = $2; next }
  !($1 in theirs) || $2 < theirs[$1] { theirs[$1] = $2 }
  END {
    for (i = 1; i <= count; ++i) {
      row = order[i]
      type = sub(/_f64$/, "", row) ? "float64" : "float32"
      split(row, n, "x")
      flops = 2e-9 * n[1] * n[2] * n[3]
      printf "| %s x %s x %s | %s | %.0f | %.0f | %.2f |\n", n[1], n[2], n[3], type, flops / least[order[i]],
        flops / theirs[order[i]], least[order[i]] / theirs[order[i]]
    }
  }' "$stage/fit" "$stage/openblas"
