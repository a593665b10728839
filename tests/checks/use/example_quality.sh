#!/usr/bin/env bash
# example_quality.sh PROGRAM SOURCE...   a full run that falls short of its quality fails, with int8 weights too, one of
# --quick does not, and each of the sources asks for a quality.
set -euo pipefail
program=$1
shift
check() { # check EXIT TEXT ARGUMENT...
  local exit=$1 text=$2 out status=0
  shift 2
  out=$("$program" "$@" 2>&1) || status=$?
  if [ "$status" != "$exit" ] || ! grep -qF -- "$text" <<<"$out"; then
    printf '%s: exit code %s and "%s" expected; it was %s and:\n%s\n' "$*" "$exit" "$text" "$status" "$out"
    exit 1
  fi
}
check 0 "[ok]     quality: 0.9 (it should be at least 0.5), after" 0.9 0.5
check 1 "FAILED: quality: 0.4 (it should be at least 0.5), after" 0.4 0.5
check 1 "FAILED: quality: nan" nan 0.5
check 0 "[quick]  quality: 0.4" 0.4 0.5 --quick
check 0 "[ok]     quality: 0.5 (it should be at most 0.5), after" at_most 0.5 0.5
check 1 "FAILED: quality: 0.6 (it should be at most 0.5), after" at_most 0.6 0.5
check 1 "FAILED: quality: nan" at_most nan 0.5
check 0 "quality: 1.0000 in float32, 1.2000 with int8 weights" int8 1 1.2 --int8
check 0 "[ok]     what int8 weights add to the quality: 0.2 (it should be at most 0.3), after" int8 1 1.2 --int8
check 0 "quality: 1.0000 in float32, 1.2000 with int8 weights and activations" int8 1 1.2 --int8
check 1 "FAILED: what int8 weights add to the quality: 0.4 (it should be at most 0.3), after" int8 1 1.4 --int8
check 0 "" int8 1 1.4
for source in "$@"; do
  grep -qE 'e\.at_(least|most)\(' "$source" || { echo "$source asks for no quality"; exit 1; }
done
