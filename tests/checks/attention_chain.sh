#!/usr/bin/env bash
# attention_chain.sh DIR: checks the tables of docs/design.md under "From the call to the comparison". Each function is
# defined in its file, and one of the functions before it calls it. The last one holds the comparison. There are at most 14
# functions in 5 files, and at most 4 structs, each in its file. No other struct of the folder carries causality.
set -euo pipefail
cd "$1"
wrong=0
fail() { echo "docs/design.md, $1"; wrong=1; }

# body FILE FUNCTION: the definition, up to the brace in the column of its first line
body() {
  awk -v name="$2" '
    !inside && $0 !~ /^ *\/\// && $0 ~ ("(^|[ >*&])" name "\\(") && $0 !~ /^ *(return|if|for|while) / {
      match($0, /^ */); indent = RLENGTH; text = ""; inside = 1; opened = 0
    }
    inside {
      text = text $0 "\n"
      if (!opened && $0 ~ /;$/ && $0 !~ /\{/) { inside = 0; next }   # a declaration or a call
      if ($0 ~ /\{/) opened = 1
      match($0, /^ */)
      if (opened && RLENGTH == indent && $0 ~ /^ *\}/) { printf "%s", text; exit }
    }' "$1"
}

rows() { sed -n "/^### From the call to the comparison/,/^## /p" docs/design.md | sed -nE "s/^\|.*\| \`([a-zA-Z_/.]+)\` \| $1 \|\$/\1 \2/p"; }

before="" last="" functions=0 files=""
while read -r file name; do
  functions=$((functions + 1)) files+="$file"$'\n'
  last=$(body "$file" "$name")
  [ -n "$last" ] || { fail "$file does not define $name()"; continue; }
  if [ -n "$before" ] && ! grep -qE "\b$name(<.*>)?( [a-z]+)?\(" <<<"$before"; then
    fail "no function before calls $name()"
  fi
  before+=$last
done < <(rows '`([A-Za-z_]+)`')
((functions >= 2 && functions <= 14)) || fail "$functions functions are listed: there must be 2 … 14"
count=$(sort -u <<<"$files" | grep -c .)
((count <= 5)) || fail "the functions stand in $count files: there must be at most 5"
grep -q 'causal ?' <<<"$last" || fail "the last function listed does not compare"

structs=0 bases=""
while read -r file name; do
  structs=$((structs + 1))
  grep -qE "^struct $name\b[^;]*\{" "$file" || fail "$file does not define struct $name"
  bases+=" $name"
done < <(rows 'struct `([A-Za-z_]+)`')
((structs >= 1 && structs <= 4)) || fail "$structs structs are listed: there must be 1 … 4"
# What else in the folder carries causality?
for file in core/attention/*.hpp core/attention/*/*.hpp; do
  while read -r name; do
    grep -qw "$name" <<<"$bases" || fail "struct $name in $file carries causality, and is not listed"
  done < <(awk '/^struct [A-Za-z]+/ { name = $2; sub(/[^A-Za-z].*/, "", name) } /^  bool causal/ { print name }' "$file" || true)
done
exit $wrong
