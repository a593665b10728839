#!/usr/bin/env bash
# docs_run.sh PROGRAM EXPECTED: the program succeeds, and prints what the page says it prints, if that file is there.
# It runs beside its source. Exit code 77: it runs a Python script, and there is no Python.
set -euo pipefail
cd "$(dirname "$2")"
if grep -q python3 "${2%.txt}.cpp" && ! python3 -c '' 2> /dev/null; then
  echo "skipped: $(basename "$2" .txt) needs python3, which is not there"
  exit 77
fi
said=$("$1")
printf '%s\n' "$said"
[ ! -f "$2" ] || diff -u "$2" - <<<"$said"
