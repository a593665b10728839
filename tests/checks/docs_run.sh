#!/usr/bin/env bash
# docs_run.sh PROGRAM [EXPECTED]: the program succeeds, and prints what the page says it prints.
set -euo pipefail
said=$("$1")
printf '%s\n' "$said"
[ ! -f "$2" ] || diff -u "$2" - <<<"$said"
