#!/usr/bin/env bash
# gdb.sh PROGRAM SCRIPT: gdb prints tensors and shapes as values, not as pointers.
set -euo pipefail
command -v gdb >/dev/null || { echo "gdb is missing: skipped"; exit 77; }
commands=(-ex "source $2" -ex "break stop" -ex run -ex up)
for name in x ids half none mask weight shape; do commands+=(-ex "print $name"); done
gdb -nx -batch "${commands[@]}" "$1" 2>&1 | sed -n 's/^\$[0-9]* = //p' >gdb_said.txt
diff - gdb_said.txt <<'END'
float32 [2, 2] {1, 2.5, 3, 4}
int64 [9] {0, 1, 2, 3, 4, 5, …}
bfloat16 [2] {0.5, -2}
undefined
boolean [2] {true, false}
float32 [2, 2], requires grad {1, 2.5, 3, 4}
[2, 3, 4]
END
