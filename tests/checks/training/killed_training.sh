#!/usr/bin/env bash
# killed_training.sh PROGRAM [STEPS [SEED]]   kills a training again and again at random moments. The training must always
# resume from its files, and end with the result of a training that was not killed.
set -euo pipefail
program=$1 steps=${2:-25} RANDOM=${3:-1}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
for sampler in bucket weighted; do
  begin=$(date +%s%N)
  "$program" "$stage/$sampler" "$steps" $sampler >/dev/null
  whole=$((($(date +%s%N) - begin) / 1000)) # microseconds: several kills come before the end on any machine
  kills=0 room=$((whole / 50 + 500))
  until "$program" "$stage/killed" "$steps" $sampler $((RANDOM * whole / 32768 / 8 + room)) >/dev/null 2>"$stage/error"; do
    if [ -s "$stage/error" ]; then cat "$stage/error" && exit 1; fi
    kills=$((kills + 1)) room=$((room + whole / 60))
  done 2>/dev/null # where bash tells of each kill
  for file in last best; do cmp "$stage/$sampler/$file.safetensors" "$stage/killed/$file.safetensors"; done
  diff <(sed 's/"rate":[^,]*,//' "$stage/$sampler/metrics.jsonl") <(sed 's/"rate":[^,]*,//' "$stage/killed/metrics.jsonl")
  [ "$(ls "$stage/killed" | grep -vcE 'tmp-(0|link)$')" = 4 ] # nothing piles up
  [ $kills -gt 0 ] || { echo "it was never killed: nothing was tried" && exit 1; }
  echo "$sampler: killed $kills times"
  rm -r "$stage/killed"
done
