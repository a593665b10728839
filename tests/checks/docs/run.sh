#!/usr/bin/env bash
# run.sh DOCS_PROGRAMS NAME FOLDER [python3 | mpirun]: the program NAME of a page succeeds, and prints what the page says,
# if FOLDER/NAME.txt has that. It runs in FOLDER, with mpirun on two ranks. Exit code 77: it runs a Python script, and there
# is no Python.
set -euo pipefail
ranks=()
[ "${4:-}" != mpirun ] || ranks=("$(cd "$(dirname "${BASH_SOURCE[0]}")/../training" && pwd)/mpirun.sh" 2)
if [ "${4:-}" = python3 ] && ! python3 -c '' 2> /dev/null; then
  echo "skipped: $2 needs python3, which is not there"
  exit 77
fi
cd "$3"
said=$("${ranks[@]}" "$1" "$2")
printf '%s\n' "$said"
[ ! -f "$2.txt" ] || diff -u "$2.txt" - <<<"$said"
