#!/usr/bin/env bash
# quotes.sh TOP: in README.md and the pages of docs/
# - a code block under the line <!-- quote: FILE --> is that file, word for word;
# - one under <!-- excerpt: FILE --> stands in that file, line for line, at any indentation;
# - a link to a file of the project leads to one, and so does a picture;
# - a picture has one for dark pages beside it.
set -euo pipefail
cd "$1"
status=0
quotes=0
for page in README.md docs/*.md docs/*/*.md; do
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
  while IFS=: read -r number file; do
    quotes=$((quotes + 1))
    excerpt=$(tail -n +"$((number + 1))" "$page" | awk '/^```/ { ++fence; next } fence == 1' |
      sed -E 's/^ +//')
    if [ -z "$excerpt" ] || [[ $(sed -E 's/^ +//' "$file") != *"$excerpt"* ]]; then
      echo "$page, line $number: $file does not have these lines one after the other:"
      echo "$excerpt"
      status=1
    fi
  done < <(sed -nE '/^<!-- excerpt: .* -->$/ { =; s/^<!-- excerpt: (.*) -->$/\1/p }' "$page" | paste -d: - -)
  while read -r link; do
    if [ ! -e "$(dirname "$page")/$link" ]; then
      echo "$page links to $link, which is not there"
      status=1
    fi
  done < <(grep -oE '(src|srcset)="[^"]+"' "$page" | sed -E 's/^[a-z]+="(.*)"$/\1/' || true
    awk '/^ *```/ { code = !code } !code' "$page" | grep -oE '[^[]\]\([^)# ]+\)' | sed -E 's/^.\]\((.*)\)$/\1/' | grep -vE '^[a-z]+:' || true)
  if grep -nE '!\[[^]]*\]\([^)]*\.(svg|png)\)' "$page"; then
    echo "$page shows this picture to dark readers on white: use <picture>, with NAME_dark for (prefers-color-scheme: dark)"
    status=1
  fi
done
((quotes > 0)) || { echo "no page quotes a file: README.md should quote the training program"; exit 1; }
exit $status
