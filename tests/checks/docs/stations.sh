#!/usr/bin/env bash
# stations.sh DIR: each row of a page's table that names a file and a function of it, | `file` | `function` |, does
# so rightly, and every file of the tree that a page names in code exists, and one for each pattern of files.
set -euo pipefail
cd "$1"
wrong=0 seen=0
while IFS='|' read -r file function; do
  seen=$((seen + 1))
  grep -qE "\\b$function\\b" "$file" 2>/dev/null || { echo "a page says that $file holds $function"; wrong=1; }
done < <(sed -nE 's/^\|.*\| `([a-z_/.]+)` \| `([A-Za-z_]+)` \|$/\1|\2/p' docs/*.md docs/*/*.md)
((seen >= 10)) || { echo "only $seen rows were found"; exit 1; }
while read -r file; do
  compgen -G "$file" >/dev/null || { echo "a page names $file, which is not there"; wrong=1; }
done < <(grep -ohE '`(core|nn|examples|tests|docs)/[A-Za-z0-9_/.*]+\.(cpp|hpp|md|sh|py)`' docs/*.md docs/*/*.md README.md CONTRIBUTING.md |
  tr -d '`' | grep -v NAME | sort -u)
exit $wrong
