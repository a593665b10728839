#!/usr/bin/env bash
# exported.sh LIBFIT_SO FIT FIT_BUILD_TREE: the shared library exports no function or variable of fit whose name stands in
# none of the public headers of the sources FIT, and all that the programs in FIT_BUILD_TREE take from it, which use the
# public headers alone: the examples, and those on the pages.
set -euo pipefail
so=$1 fit=$2 tree=$3
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

nm -D --defined-only "$so" | awk '{ print $3 }' | sort -u >"$stage/exported"
grep -q _ZN3fit6matmul "$stage/exported" || { echo "$so does not export fit::matmul"; exit 1; }

# A name is what stands before the arguments: fit::nn::Linear::forward(…) const. Templates of the standard library, and
# what the compiler makes for a type (its vtable), are left out, and so are the members of five classes that public
# headers name, but don't define: they are as visible as their class.
c++filt <"$stage/exported" | sed -E 's/\[abi:cxx11\]//; s/operator.*/operator/; s/<.*//; s/\(.*//; s/.* //' | grep '^fit::' |
  grep -vE '^fit::(detail::ObserverList|detail::TrainingFiles|dist::DataParallel::Buckets|nn::ListOf|LossParts)::' | sort -u >"$stage/names"
grep -rhowE '~?[A-Za-z_][A-Za-z0-9_]*' "$fit/core/include" "$fit/nn/include" "$fit/nn/plot/include" | sort -u >"$stage/words"
internal=$(awk -F'::' 'NR == FNR { word[$1]; next } { for (i = 1; i <= NF; i++) if (!($i in word)) { print; next } }' \
  "$stage/words" "$stage/names")
[ -z "$internal" ] || { printf 'exported, but in no public header:\n%s\n' "$internal"; exit 1; }

mapfile -t objects < <(find "$tree/examples" "$tree/tests/checks/docs/CMakeFiles" -path '*/docs_programs.dir/*.o' -o -path "$tree/examples/*.o")
((${#objects[@]} > 0)) || { echo "no program of $tree was built"; exit 1; }
nm -u "${objects[@]}" 2>/dev/null | awk '$1 == "U" && $2 ~ /^_ZNK?3fit|^_ZT[VIS]N3fit/ { print $2 }' | sort -u >"$stage/wanted"
# What is of fit::mpi and fit::onnx lies in libraries of their own.
mapfile -t mpi < <(find "$tree" -name 'libfit_mpi.*' -o -name 'libfit_onnx.*')
nm --defined-only "${objects[@]}" "${mpi[@]}" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$stage/own"
hidden=$(comm -23 "$stage/wanted" "$stage/own" | comm -23 - "$stage/exported" | c++filt)
[ -z "$hidden" ] || { printf 'used by programs, but hidden:\n%s\n' "$hidden"; exit 1; }
echo "$(wc -l <"$stage/names") names are exported; ${#objects[@]} programs use $(comm -23 "$stage/wanted" "$stage/own" | wc -l) functions"
