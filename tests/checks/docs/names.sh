#!/usr/bin/env bash
# names.sh TOP CXX [FLAG...]: in the tables "| PyTorch | here | |" of docs/from_pytorch.md, and in the lists "The same
# names: …" before them, there are at least 350 names of PyTorch, none twice; each has a counterpart, which the headers
# declare, or a reason why not.
set -euo pipefail
page=$1/docs/from_pytorch.md
cxx=$2
shift 2
source=$(mktemp --suffix .cpp)
trap 'rm -f "$source"' EXIT
awk -F' *[|] *' -v page="$page" '
  BEGIN { print "#include <fit/fit.hpp>\n#include <fit/mpi.hpp>\n#include <fit/onnx.hpp>\n#include <fit/tensor/dlpack.hpp>" }
  function declared(name, row,    class) {
    print "#line " NR " \"" page "\""
    if (name ~ /^[A-Z_]+$/)
      print "#ifndef " name "\n#error " name " is not there\n#endif"
    else if (name ~ /[A-Z][A-Za-z]*::/) {  # a member
      class = name
      sub(/::[^:]*$/, "", class)
      print "struct Row" row " : fit::" class " { using fit::" name "; };"
    } else
      print "namespace row" row " { using fit::" name "; }"
  }
  /^The same names: / { same = 1 }
  /^$/ { same = 0 }
  same {
    for (rest = $0; match(rest, /`[^`]+`/); rest = substr(rest, RSTART + RLENGTH)) {
      name = substr(rest, RSTART + 1, RLENGTH - 2)
      if (seen["`" name "`"]++) { print page ":" NR ": " name " is there twice" > "/dev/stderr"; wrong = 1 }
      declared(name, NR "_" ++number)
    }
    next
  }
  $0 == "| PyTorch | here | |" { inside = 1; next }
  !/^\|/ { inside = 0 }
  !inside || /^\|-/ { next }
  {
    where = page ":" NR ": "
    count = split($2, names, /, /)
    for (i = 1; i <= count; ++i)
      if (seen[names[i]]++) { print where names[i] " is there twice" > "/dev/stderr"; wrong = 1 }
    if ($3 == "–") {
      if ($4 == "") { print where $2 " has neither a counterpart nor a reason" > "/dev/stderr"; wrong = 1 }
      next
    }
    count = split($3, names, /, /)
    for (i = 1; i <= count; ++i) {
      name = names[i]
      if (name !~ /^`[^`]+`$/) { print where $3 " is not a list of names" > "/dev/stderr"; wrong = 1; continue }
      gsub(/`/, "", name)
      declared(name, NR "_" i)
    }
  }
  END {
    if (length(seen) < 350) { print page ": only " length(seen) " names of PyTorch" > "/dev/stderr"; wrong = 1 }
    exit wrong
  }' "$page" >"$source"
"$cxx" -std=c++17 -fsyntax-only "$@" "$source"
