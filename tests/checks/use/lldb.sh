#!/usr/bin/env bash
# lldb.sh PROGRAM SCRIPT: lldb prints tensors and shapes as values, and calls fit_show().
set -euo pipefail
command -v lldb >/dev/null || { echo "lldb is missing: skipped"; exit 77; }
# Debian 12's lldb does not find its own package for Python.
packages=$(echo /usr/lib/llvm-*/lib/python3*/dist-packages | tr ' ' ':')
export PYTHONPATH=$packages
grep -q "class 'lldb.SBDebugger'" <<<"$(lldb --batch -o "script print(lldb.SBDebugger)" 2>&1)" ||
  { echo "lldb has no Python: skipped"; exit 77; }
commands=(-o "command script import $2" -o "breakpoint set -n stop" -o run -o up)
commands+=(-o "frame variable x ids half none mask weight shape" -o "expression fit_show(x)")
said=$(lldb --batch "${commands[@]}" "$1" 2>&1) || { echo "$said"; exit 1; }
if grep -q "Operation not permitted" <<<"$said"; then echo "lldb may trace no program here: skipped"; exit 77; fi
diff - <(grep -E '^\(const fit::|^\(const char' <<<"$said" | sed 's/ 0x[0-9a-f]* / /') <<'END' || { echo "$said"; exit 1; }
(const fit::Tensor) x = float32 [2, 2] {1, 2.5, 3, 4}
(const fit::Tensor) ids = int64 [9] {0, 1, 2, 3, 4, 5, …}
(const fit::Tensor) half = bfloat16 [2] {0.5, -2}
(const fit::Tensor) none = undefined
(const fit::Tensor) mask = boolean [2] {true, false}
(const fit::nn::Parameter) weight = float32 [2, 2], requires grad {1, 2.5, 3, 4}
(const fit::Shape) shape = [2, 3, 4]
(const char *) $0 = "[[1.0000, 2.5000],\n [3.0000, 4.0000]], shape [2, 2]"
END
