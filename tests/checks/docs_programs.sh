#!/usr/bin/env bash
# docs_programs.sh PAGE DIR: writes each C++ block of a page that has a main() to DIR/<page>_<number>.cpp and, if the
# next block is ```text, what the program prints to the same name with .txt. Prints the names of the programs.
# A ```python block that begins with "# NAME.py" is written to DIR/NAME.py, for the programs of the page to run.
set -euo pipefail
mkdir -p "$2"
rm -f "$2/$(basename "$1" .md)"_*
awk -v dir="$2" -v base="$2/$(basename "$1" .md)_" '
  /^```/ && !kind { kind = substr($0, 4); text = ""; next }
  /^```$/ {
    if (kind == "cpp" && text ~ /int main\(/) {
      name = base (++count)
      printf "%s", text > (name ".cpp")
      print name ".cpp"
    } else {
      if (kind == "python" && match(text, /^# [a-z_]+\.py/)) printf "%s", text > (dir "/" substr(text, 3, RLENGTH - 2))
      if (kind == "text" && name) printf "%s", text > (name ".txt")
      name = ""
    }
    kind = ""
    next
  }
  { text = text $0 "\n" }' "$1"
