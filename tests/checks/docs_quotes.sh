#!/usr/bin/env bash
# docs_quotes.sh TOP: in README.md and docs/*.md
# - a code block under the line <!-- quote: FILE --> is that file, word for word;
# - a link to a file of the project leads to one.
set -euo pipefail
cd "$1"
status=0
quotes=0
for page in README.md docs/*.md; do
  while read -r file; do
    quotes=$((quotes + 1))
    if ! diff -u "$file" <(awk -v mark="<!-- quote: $file -->" '
        $0 == mark { near = 1; next }
        near && /^```/ { if (inside) exit; inside = 1; next }
        inside' "$page"); then
      echo "$page does not quote $file word for word"
      status=1
    fi
  done < <(sed -nE 's/^<!-- quote: (.*) -->$/\1/p' "$page")
  while read -r link; do
    if [ ! -e "$(dirname "$page")/$link" ]; then
      echo "$page links to $link, which is not there"
      status=1
    fi
  done < <(grep -oE '[^[]\]\([^)# ]+\)' "$page" | sed -E 's/^.\]\((.*)\)$/\1/' | grep -vE '^[a-z]+:' || true)
done
((quotes > 0)) || { echo "no page quotes a file: README.md should quote the training program"; exit 1; }
exit $status
