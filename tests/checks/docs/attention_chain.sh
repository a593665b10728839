#!/usr/bin/env bash
# attention_chain.sh DIR: checks the tables of docs/development/design.md under "From the call to the comparison" and "From the layer's
# dropout to the dropped weight". Each function is defined in its file, and one of the functions before it in its table
# calls it. The mask passes at most 14 functions in 5 files and 4 structs, each in its file; no other struct of the folder
# carries causality. Dropout passes at most 12 functions, of which one has the rule for p.
set -euo pipefail
cd "$1"
wrong=0
fail() { echo "docs/development/design.md, $1"; wrong=1; }

# body FILE FUNCTION: its first definition, up to the brace in the column of its first line
body() {
  awk -v name="$2" '
    !inside && $0 !~ /^ *\/\// && $0 ~ ("(^|[ >*&:])" name "\\(") && $0 !~ /^ *(return|if|for|while|:) / {
      match($0, /^ */); indent = RLENGTH; text = ""; inside = 1; opened = 0
    }
    inside {
      text = text $0 "\n"
      if (!opened && $0 ~ /;$/ && $0 !~ /\{/) { inside = 0; next }   # a declaration or a call
      if (!opened && $0 ~ /\{\}$/) { printf "%s", text; exit }
      if ($0 ~ /\{/) opened = 1
      match($0, /^ */)
      if (opened && RLENGTH == indent && $0 ~ /^ *\}/) { printf "%s", text; exit }
    }' "$1"
}

# rows HEADING PATTERN: "FILE NAME [CALLED]" of the tables below it; CALLED is how a member is called
rows() {
  sed -n "/^### $1/,/^##/{/^### $1/p;/^##/!p}" docs/development/design.md |
    sed -nE "/^\|---/s/.*/---/p; s/^\|.*\| \`([a-zA-Z_/.]+)\` \| $2 \|\$/\1 \2 \4/p"
}
function_row='`([A-Za-z_]+)`(, as `([a-z_]+)`)?'

# chain HEADING: goes along the functions; sets `functions`, `files` and `last`, the body of the last one
chain() {
  local before="" file name called
  functions=0 files="" last=""
  while read -r file name called; do
    [ "$file" != --- ] || { before=""; continue; }
    functions=$((functions + 1)) files+="$file"$'\n'
    last=$(body "$file" "$name")
    [ -n "$last" ] || { fail "$file does not define $name()"; continue; }
    if [ -n "$before" ] && ! grep -qE "\b${called:-$name}(<.*>)?( [a-z]+)?\(" <<<"$before"; then
      fail "no function before calls $name()"
    fi
    before+=$last
  done < <(rows "$1" "$function_row")
}

mask="From the call to the comparison"
chain "$mask"
((functions >= 2 && functions <= 14)) || fail "$mask: $functions functions are listed: there must be 2 … 14"
count=$(sort -u <<<"$files" | grep -c .)
((count <= 5)) || fail "the functions stand in $count files: there must be at most 5"
grep -q 'causal ?' <<<"$last" || fail "the last function listed does not compare"

structs=0 bases=""
while read -r file name; do
  [ "$file" != --- ] || continue
  structs=$((structs + 1))
  grep -qE "^struct $name\b[^;]*\{" "$file" || fail "$file does not define struct $name"
  bases+=" $name"
done < <(rows "$mask" 'struct `([A-Za-z_]+)`()()')
((structs >= 1 && structs <= 4)) || fail "$structs structs are listed: there must be 1 … 4"
# What else in the folder carries causality?
for file in core/attention/*.hpp core/attention/*/*.hpp; do
  while read -r name; do
    grep -qw "$name" <<<"$bases" || fail "struct $name in $file carries causality, and is not listed"
  done < <(awk '/^struct [A-Za-z]+/ { name = $2; sub(/[^A-Za-z].*/, "", name) } /^  bool causal/ { print name }' "$file" || true)
done

dropout="From the layer's dropout to the dropped weight"
chain "$dropout"
((functions >= 2 && functions <= 12)) || fail "$dropout: $functions functions are listed: there must be 2 … 12"
grep -q 'd.limit' <<<"$last" || fail "the last function listed does not drop"
rules=$(grep -rlE 'dropout\(\) *(<=|>=|<|>) *[01]' core/attention nn/attention | tr '\n' ' ')
[ "$rules" = "core/attention/arguments.cpp " ] || fail "the rule for dropout stands in: $rules"
exit $wrong
