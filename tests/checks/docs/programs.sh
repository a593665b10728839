#!/usr/bin/env bash
# programs.sh PAGE DIR [LIBRARY...]: prints the names <page>_<number> of the C++ blocks of a page that have a main(), with
# "python3" behind those that run it, and "mpirun" behind those that say `mpirun -n 2`; and writes into DIR
#   <page>.cpp          these programs as functions, for tests/checks/docs/main.cpp; those that include fit/mpi.hpp only with `mpi`, and so on
#   <page>_<number>.txt what a program prints, if the block after it is ```text
#   NAME.py             each ```python block that begins with "# NAME.py", for the programs of the page to run
set -euo pipefail
page=$(realpath "$1") base=$(basename "$1" .md)
mkdir -p "$2"
rm -f "$2/${base}"_*.txt
awk -v page="$page" -v base="$base" -v dir="$2" -v optional=" ${*:3} " '
  # A program becomes a namespace, main() a function in it. Includes stay outside. Line numbers are those of the page.
  function add_program(name, text, line,    lines, n, i, in_main) {
    n = split(text, lines, "\n") - 1
    programs = programs "namespace docs_" name " {\n#line " line " \"" page "\"\n"
    for (i = 1; i <= n; ++i) {
      if (lines[i] ~ /^#include/) {
        includes = includes lines[i] "\n"
        lines[i] = ""
      }
      if (sub(/^int main\(/, "int program(", lines[i])) in_main = 1
      if (in_main && (lines[i] == "}" || lines[i] ~ /^int program.*}$/)) sub(/}$/, "return 0; }", lines[i])
      programs = programs lines[i] "\n"
    }
    programs = programs "}\nstatic const docs::Program docs_" name "_entry(\"" name "\", docs_" name "::program);\n"
  }
  /^```/ && !kind { kind = substr($0, 4); text = ""; first = NR + 1; next }
  /^```$/ {
    if (kind == "cpp" && text ~ /int main\(/) {
      name = base "_" ++count
      if (!match(text, /fit\/(mpi|onnx)\.hpp/) || index(optional, " " substr(text, RSTART + 4, RLENGTH - 8) " ")) {
        add_program(name, text, first)
        print name (text ~ /python3/ ? " python3" : text ~ /mpirun -n 2/ ? " mpirun" : "")
      }
    } else {
      if (kind == "python" && match(text, /^# [a-z_]+\.py/)) printf "%s", text > (dir "/" substr(text, 3, RLENGTH - 2))
      if (kind == "text" && name) printf "%s", text > (dir "/" name ".txt")
      name = ""
    }
    kind = ""
    next
  }
  { text = text $0 "\n" }
  END { if (count) printf "%s#include \"program.hpp\"\n%s", includes, programs > (dir "/" base ".cpp") }' "$1"
