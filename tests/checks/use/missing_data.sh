#!/usr/bin/env bash
# missing_data.sh EXAMPLE FILE PACKAGE COMMAND   an example whose data are not there names the first file, and the command that
# installs it, in one line, and fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
out=$("$1" --quick --data "$folder" --out "$folder" 2>&1) || status=$?
wanted="FAILED: data is missing: there is no '$folder/$2'; $3 has it, which examples/run installs, or: $4"
if [ "$status" != 1 ] || [ "$out" != "$wanted" ]; then
  printf 'exit code 1 and "%s" expected; it was %s and:\n%s\n' "$wanted" "$status" "$out"
  exit 1
fi
