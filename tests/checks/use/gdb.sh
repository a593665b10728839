#!/usr/bin/env bash
# gdb.sh PROGRAM SCRIPT: gdb prints tensors, shapes and layers as values, by the script in the program if the user trusts
# its folder, and by the installed script. fit_show() gives the text.
set -euo pipefail
command -v gdb >/dev/null || { echo "gdb is missing: skipped"; exit 77; }
commands=(-ex "break stop" -ex run -ex up)
for name in x ids half none mask weight shape net layer net.hidden "fit_show(x)"; do commands+=(-ex "print $name"); done

all=$(
  cat <<'END'
float32 [2, 2] {1, 2.5, 3, 4}
int64 [9] {0, 1, 2, 3, 4, 5, …}
bfloat16 [2] {0.5, -2}
undefined
boolean [2] {true, false}
float32 [2, 2], requires grad {1, 2.5, 3, 4}
[2, 3, 4]
Net = {hidden = Linear = {weight = float32 [3, 2], requires grad {0, 1, 2, 3, 4, 5}, bias = undefined}, out = Linear = {weight = float32 [1, 3], requires grad {6, 7, 8}, bias = undefined}}
(const fit::nn::Layer &) @: Net = {hidden = Linear = {weight = float32 [3, 2], requires grad {0, 1, 2, 3, 4, 5}, bias = undefined}, out = Linear = {weight = float32 [1, 3], requires grad {6, 7, 8}, bias = undefined}}
Linear = {weight = float32 [3, 2], requires grad {0, 1, 2, 3, 4, 5}, bias = undefined}
"[[1.0000, 2.5000],\n [3.0000, 4.0000]], shape [2, 2]"
END
)
check() { # check WHAT GDB-OPTION...
  local what=$1 said expected=$all
  shift
  said=$(gdb -nx -batch "$@" "${commands[@]}" "$program" 2>&1) || true
  if grep -q 'ptrace: Operation not permitted' <<<"$said"; then echo "gdb may trace no program here: skipped"; exit 77; fi
  # gdb 13 calls no function on processors with AMX, whatever the program: their state is larger than its buffer.
  if grep -q "Couldn't write extended state status" <<<"$said"; then
    echo "this gdb calls no function on this processor: fit_show(x) is not tested"
    expected=$(head -n -1 <<<"$all")
  fi
  diff <(echo "$expected") <(sed -n 's/^\$[0-9]* = //p' <<<"$said" | sed 's/@0x[0-9a-f]*/@/; s/^0x[0-9a-f]* //') || { echo "$what: $said"; exit 1; }
}
program=$1
check "the script in the program" -iex "set auto-load safe-path $(dirname "$program")"
check "the script by itself" -iex "set auto-load safe-path /nowhere" -ex "source $2"
# Without trust, gdb says which line gives it.
gdb -nx -batch -iex "set auto-load safe-path /nowhere" "$program" 2>&1 | grep -q "add-auto-load-safe-path" ||
  { echo "gdb does not say how to trust the program"; exit 1; }
