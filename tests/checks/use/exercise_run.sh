#!/usr/bin/env bash
# exercise_run.sh DIR: what a learner does with `examples/run exercises` in DIR, a tree of learner_tree.sh: takes a stub,
# gets it wrong, reads a hint, gets it right.
set -euo pipefail
cd "$1"
rm -rf exercises

run() { # run WHAT EXPECTED-EXIT EXPECTED-TEXT ARGUMENT...
  local what=$1 exit=$2 text=$3 out status=0
  shift 3
  out=$(examples/run exercises "$@" 2>&1) || status=$?
  if [ "$status" != "$exit" ] || ! grep -qF -- "$text" <<<"$out"; then
    printf '%s: exit code %s and "%s" expected; it was %s and:\n%s\n' "$what" "$exit" "$text" "$status" "$out"
    exit 1
  fi
  said=$out
}
lacks() {
  if grep -qF -- "$1" <<<"$said"; then
    printf 'not expected: "%s" in:\n%s\n' "$1" "$said"
    exit 1
  fi
}

run "the list" 0 "causal "
[ "$(wc -l <<<"$said")" = 20 ] || { echo "there are not twenty exercises: $said"; exit 1; }
run "a name that is not there" 2 "there is no exercise 'nosuch'" nosuch
run "the first call copies the stub" 0 "Your file is exercises/causal.cpp" causal
cmp examples/exercises/stubs/causal.cpp exercises/causal.cpp

run "a stub is no solution" 1 "[FAILED]" causal
grep -qF "[ok]" <<<"$said" || { echo "no property of the stub holds: $said"; exit 1; }
grep -qF "Not yet. --hint gives a hint" <<<"$said"
run "the first hint" 0 "1. " causal --hint
lacks "2. "
run "one more" 0 "2. " causal --hint 2
cmp examples/exercises/stubs/causal.cpp exercises/causal.cpp # calls change no file

run "a solution" 0 "Tensor causal_attention(" causal --solution
solution=$said
lacks "EXERCISE("
sed -i '/^Tensor causal_attention/,/^}/d' exercises/causal.cpp
# An attention that looks one token ahead is wrong in one property.
sed 's/), 1) != 0/), 2) != 0/' <<<"$solution" | sed '/^using namespace/r /dev/stdin' exercises/causal.cpp >wrong.cpp
sed '/^using namespace/r /dev/stdin' exercises/causal.cpp <<<"$solution" >right.cpp
cp wrong.cpp exercises/causal.cpp
run "a wrong solution" 1 "properties hold" causal
grep -qF "[FAILED]" <<<"$said"
cp right.cpp exercises/causal.cpp
run "a right solution" 0 "Solved. --solution shows another way" causal
lacks "[FAILED]"
echo "oops" >>exercises/causal.cpp
run "what does not compile" 1 "the build failed: the first error above says why" causal
rm exercises/causal.cpp
run "another exercise" 0 "Your file is exercises/softmax.cpp" softmax
run "has a program of its own" 1 "== softmax" softmax
lacks "== causal"
