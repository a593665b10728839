#!/usr/bin/env bash
# docs_tests.sh DIR: every test that docs/reliability.md names, `tests/FILE`: "NAME", stands in that file.
set -euo pipefail
cd "$1"
wrong=0 seen=0
while IFS='|' read -r file name; do
  seen=$((seen + 1))
  tr -d '\n' <"$file" 2>/dev/null | grep -qF "TEST_CASE(\"$name\"" || { echo "the page names \"$name\", which is not in $file"; wrong=1; }
done < <(grep -oE '`tests/[a-z_/0-9]+\.cpp`: "[^"]+"' docs/reliability.md | sed -E 's/^`([^`]+)`: "(.*)"$/\1|\2/')
((seen >= 60)) || { echo "only $seen tests were found"; exit 1; }
exit $wrong
