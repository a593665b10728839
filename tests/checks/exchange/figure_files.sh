#!/usr/bin/env bash
# figure_files.sh PROGRAM DIR: what PROGRAM (figure_files.cpp) writes into DIR is what its name says: xmllint reads the SVG
# files, dot the graphs. Exit code 77: neither is there.
set -euo pipefail
rm -rf "$2"
mkdir -p "$2"
"$1" "$2"
cd "$2"
missing=()
# check TOOL ENDING ARGUMENT...: TOOL accepts each file of that ending
check() {
  local tool=$1 ending=$2 count=0
  shift 2
  command -v "$tool" > /dev/null || { missing+=("$tool"); return 0; }
  for file in *."$ending"; do
    "$tool" "$@" "$file" > "$file.$tool" 2>&1 || { echo "$tool does not accept $file:"; head -5 "$file.$tool"; exit 1; }
    rm "$file.$tool"
    count=$((count + 1))
  done
  ((count > 0)) || { echo "there is no .$ending"; exit 1; }
  echo "$tool has read $count .$ending"
}
check xmllint svg --noout
check dot dot -Tcanon
((${#missing[@]} == 0)) || echo "missing: ${missing[*]}; apt-get install libxml2-utils graphviz"
((${#missing[@]} < 2)) || exit 77
