#!/usr/bin/env bash
# ranks_faults.sh PROGRAM MPIRUN throw|mismatch|killed|interrupted|resumed   one rank of a training fails. All ranks must
# end in seconds, with a message that names the rank. Any number of ranks must resume from the last checkpoint. FIT_KILLS
# is the number of trainings that are killed.
set -euo pipefail
program=$1 mpirun=$2 RANDOM=7
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
steps=40

fail() { echo "$1" && cat "$stage"/said* && exit 1; }
# train RANKS FOLDER [ARGUMENT...]: at most 60 seconds; what it says is in said
train() {
  local ranks=$1 folder=$stage/$2
  mkdir -p "$folder"
  timeout 60 "$mpirun" "$ranks" "$program" "$folder" "$steps" "${@:3}" >"$stage/said" 2>&1
}
# ends_alone PATTERN COMMAND...: it fails, in less than ten seconds, and says so once
ends_alone() {
  local begin=$SECONDS
  "${@:2}" && fail "it should have failed: ${*:2}"
  ((SECONDS - begin < 10)) || fail "it took $((SECONDS - begin)) s to end: ${*:2}"
  [ "$(grep -cE "$1" "$stage/said")" = 1 ] || fail "this should stand there once: $1"
}
same() { cmp "$stage/$1/last.safetensors" "$stage/$2/last.safetensors" || fail "$1 and $2 differ"; }

case $3 in
  throw)
    for ranks in 2 4; do
      ends_alone "^rank 1 of $ranks on .*: \[model\] the cat sat on the mat" train "$ranks" "t$ranks" throw 1
      ends_alone "^rank 1 of $ranks on .*: an exception has ended the training" train "$ranks" "c$ranks" caught 1
      grep -q "main() caught: .model. the cat" "$stage/said" || fail "what main() says"
      ends_alone "rank 0 with PID .* exited on signal 9" train "$ranks" "k$ranks" kill 0
    done
    ;;
  mismatch)
    ends_alone "the ranks have different parameters: rank 0 has out.weight \[12, 16\] float32, where rank 1 has out.weight \[12, 8\]" \
      train 2 odd odd 1
    ;;
  killed)
    for ranks in 2 4; do
      begin=$(date +%s%N)
      train "$ranks" "whole$ranks" || fail "a training without faults"
      whole=$((($(date +%s%N) - begin) / 1000000)) kills=0
      while ((kills < ${FIT_KILLS:-4})); do
        rm -f "$stage/killed$ranks/pid."*
        train "$ranks" "killed$ranks" slow 20 &
        job=$!
        victim=$stage/killed$ranks/pid.$((RANDOM % ranks))
        until [ -s "$victim" ] || ! kill -0 $job 2>/dev/null; do sleep 0.01; done
        sleep "$(printf '0.%03d' $((RANDOM % (whole < 900 ? whole : 900))))"
        kill -9 "$(cat "$victim")" 2>/dev/null || true
        begin=$SECONDS
        if wait $job; then rm -rf "$stage/killed$ranks"; continue; fi # it was faster: from the beginning again
        ((SECONDS - begin < 10)) || fail "it took $((SECONDS - begin)) s to end"
        grep -qE "rank [0-9] with PID .* exited on signal 9" "$stage/said" || fail "no message"
        kills=$((kills + 1))
      done
      train "$ranks" "killed$ranks" || fail "the last run"
      same "whole$ranks" "killed$ranks"
      echo "$ranks ranks: killed $kills times"
    done
    ;;
  interrupted)
    train 2 whole || fail "a training without faults"
    train 2 stopped slow 200 &
    job=$!
    until [ -s "$stage/stopped/last.safetensors" ]; do sleep 0.05; done
    # Ctrl-C reaches mpirun, which tells the ranks.
    kill -INT "$(pgrep -P "$(pgrep -P $job -f timeout | head -1)" -f mpirun | head -1)"
    wait $job || true
    grep -q "ended in step .*: interrupted" "$stage/said" || fail "it should have ended by itself"
    [ "$(ls "$stage/stopped" | grep -c tmp)" = 0 ] || fail "something is left over"
    train 2 stopped || fail "the rest"
    same whole stopped
    ;;
  resumed)
    for ranks in 1 2 4; do train $ranks "whole$ranks" || fail "a training without faults"; done
    for first in 1 2 4; do
      for then in 1 2 4; do
        train $first "$first-$then" kill 0 && fail "it should have been killed"
        train $then "$first-$then" || fail "from $first ranks to $then"
        "$program" compare "$stage/whole$then/last.safetensors" "$stage/$first-$then/last.safetensors" 1e-5 || fail "$first to $then"
        [ $first != $then ] || same "whole$then" "$first-$then"
      done
    done
    ;;
esac
