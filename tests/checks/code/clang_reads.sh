#!/usr/bin/env bash
# clang_reads.sh FOLDER: the newest clang that is installed reads, without a warning, all programs that the preset `asan`
# leaves unbuilt: examples, the benchmark, checks, and what runs in several processes. What they share is parsed once, into a
# file in FOLDER.
set -euo pipefail
cd "$(dirname "$0")/../../.."
clang=$(compgen -c clang++- | grep -xE 'clang[+][+]-[0-9]+' | sort -uV | tail -1 || true)
clang=${clang:-clang++}
read -ra mpi < <(mpicxx --showme:compile 2>/dev/null || true)
# libstdc++ itself calls in std::stable_sort() what it calls deprecated.
flags=(-std=c++17 -Wall -Wextra -Wpedantic -Werror -Wno-deprecated-declarations -fsyntax-only
  -Icore/include -Inn/include -Inn/plot/include -Inn/dist/mpi/include -Inn/onnx/include -Icore -Inn -Iexamples
  -Itests "${mpi[@]/#-I/-isystem}" -DFIT_ISA=isa_base '-DEXAMPLES_DATA=""' '-DEXAMPLES_MINILM=""' '-DFIT_GOLDEN_DIR=""')
folders=(examples tests/bench tests/checks)
((${#mpi[@]} == 0)) || { folders+=(nn/dist/mpi tests/dist) && flags+=(-DFIT_MPI=1); }
mkdir -p "$1"
"$clang" "${flags[@]/-fsyntax-only/-xc++-header}" -o "$1/fit.pch" nn/plot/include/fit/fit.hpp
find "${folders[@]}" -name '*.cpp' | sort >"$1/programs"
read_by_clang() { xargs -P "$(nproc)" -I{} "$clang" "${flags[@]}" "${@:2}" -include-pch "$1/fit.pch" {}; }
grep -v exercises/stubs "$1/programs" | read_by_clang "$1"
grep exercises/stubs "$1/programs" | read_by_clang "$1" -Wno-unused-parameter  # they wait for the learner
echo "$clang read $(wc -l <"$1/programs") programs"
