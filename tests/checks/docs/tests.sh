#!/usr/bin/env bash
# tests.sh DIR: docs/reliability.md names tests by a file in code, `tests/FILE`, and the names behind it in quotes, "NAME".
# Each stands in its file.
set -euo pipefail
cd "$1"
wrong=0 seen=0 file=
while read -r word; do
  case $word in
    \`*) file=${word//\`/} ;;
    *)
      seen=$((seen + 1))
      tr -d '\n' <"$file" 2>/dev/null | grep -qF "TEST_CASE($word" || { echo "the page names $word, which is not in $file"; wrong=1; }
      ;;
  esac
done < <(tr '\n' ' ' <docs/reliability.md | tr -s ' ' | grep -oE '`tests/[a-z_/0-9]+\.cpp`|"[^"]+"')
((seen >= 60)) || { echo "only $seen tests were found"; exit 1; }
exit $wrong
