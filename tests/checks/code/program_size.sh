#!/usr/bin/env bash
# program_size.sh PROGRAM KB NAME…: checks that the stripped program has at most so many kB, and contains no function with
# one of these names. A program contains what its references reach: docs/development/design.md.
set -euo pipefail
program=$1 limit=$2
shift 2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
wrong=0
strip -o "$stage/program" "$program"
kb=$((($(stat -c %s "$stage/program") + 999) / 1000))
((kb <= limit)) || { echo "$(basename "$program") has $kb kB without symbols: at most $limit are allowed"; wrong=1; }
names=$(nm -C --defined-only "$program")
for name in "$@"; do
  if grep -F -e " fit::$name(" -e " fit::$name<" <<<"$names"; then
    echo "$(basename "$program") contains fit::$name, which it does not call"
    wrong=1
  fi
done
exit $wrong
