#!/usr/bin/env bash
# docs_programs.sh PAGE DIR: writes each C++ block of a page that has a main() to DIR/<page>_<number>.cpp, and prints
# the names of these files.
set -euo pipefail
mkdir -p "$2"
awk -v base="$2/$(basename "$1" .md)" '
  /^```cpp$/ { inside = 1; text = ""; next }
  /^```$/ {
    if (inside && text ~ /int main\(/) { file = base "_" ++count ".cpp"; printf "%s", text >file; close(file); print file }
    inside = 0
    next
  }
  inside { text = text $0 "\n" }' "$1"
