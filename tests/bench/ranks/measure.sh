#!/usr/bin/env bash
# measure.sh BUILD_TREE [STEPS]   measures what docs/distributed.md shows: steps of char_gpt's model on one, two and four
# ranks, its traffic and memory, and from them how a step scales to many machines. Wants a quiet machine; a few minutes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1/tests/bench/bench_ranks steps=${2:-60}
run() { # run RANKS THREADS OPTION...
  # mpirun would bind a rank to one core, whatever its threads.
  MPIRUN_FLAGS="--bind-to none" OMP_NUM_THREADS=$2 "$here/../../checks/training/mpirun.sh" "$1" "$program" "steps=$steps" "${@:3}"
}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
{
  # The table: each twice, in turns, so that a disturbance doesn't hit one alone.
  for _ in 1 2; do
    run 1 2
    run 1 1
    for ranks in 2 4; do
      for overlap in 1 0; do
        for shard in 0 1; do run $ranks 1 overlap=$overlap shard=$shard; done
      done
    done
  done
  # For the fit: work by rows, and the cost of buckets and bytes.
  for rows in 3 6 24; do run 1 1 rows=$rows; done
  for bucket in 65536 262144 4194304; do run 2 1 overlap=0 bucket=$bucket; done
  for d in 64 256; do run 2 1 overlap=0 d=$d; done
} | tee /dev/stderr >"$lines"
python3 -B "$here/model.py" "$lines"
