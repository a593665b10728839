#!/usr/bin/env bash
# docs_programs.sh PAGE DIR: writes each C++ block of a page that has a main() to DIR/<page>_<number>.cpp and, if the
# next block is ```text, what the program prints to the same name with .txt. Prints the names of the programs.
set -euo pipefail
mkdir -p "$2"
rm -f "$2/$(basename "$1" .md)"_*
awk -v base="$2/$(basename "$1" .md)_" '
  /^```/ && !kind { kind = substr($0, 4); text = ""; next }
  /^```$/ {
    if (kind == "cpp" && text ~ /int main\(/) {
      name = base (++count)
      printf "%s", text > (name ".cpp")
      print name ".cpp"
    } else {
      if (kind == "text" && name) printf "%s", text > (name ".txt")
      name = ""
    }
    kind = ""
    next
  }
  { text = text $0 "\n" }' "$1"
