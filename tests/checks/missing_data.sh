#!/usr/bin/env bash
# missing_data.sh EXAMPLE FILE PACKAGE   an example whose data are not there names the first file, and the command that
# installs it, in one line, and fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
out=$("$1" --quick --data "$folder" --out "$folder" 2>&1) || status=$?
wanted="FAILED: data is missing: '$folder/$2' is in Debian's package $3; examples/run installs it, or: apt-get install $3"
if [ "$status" != 1 ] || [ "$out" != "$wanted" ]; then
  printf 'exit code 1 and "%s" expected; it was %s and:\n%s\n' "$wanted" "$status" "$out"
  exit 1
fi
