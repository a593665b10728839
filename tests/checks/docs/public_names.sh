#!/usr/bin/env bash
# public_names.sh TOP: each public name of a header of TOP stands on a page of docs/ or in README.md: classes, types,
# functions, constants and macros, without those in a namespace detail. Each type of options stands in docs/from_pytorch.md.
set -euo pipefail
cd "$1"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
find core/include nn/include nn/plot/include nn/dist/mpi/include nn/onnx/include -name '*.hpp' ! -path '*/detail/*' | sort |
  xargs awk '
    FNR == 1 { spaces = hidden = 0 }
    /^namespace [a-z:]+ \{/ { ++spaces; begin = FNR; if (/detail/ && !hidden) hidden = spaces; next }
    /^\}  \/\/ namespace/ || (/^\}$/ && FNR == begin + 2) { if (hidden == spaces) hidden = 0; --spaces; next }
    hidden { next }
    /^#define FIT_/ {
      sub(/^#define /, ""); sub(/[^A-Z_].*/, "")
      if (!/^FIT_(CALL_|BRACED)/ && !/_$/) print $0, FILENAME  # those are parts of others
      next
    }
    /^(class|struct|enum class|using) / {
      line = $0
      sub(/^(enum class|class|struct|using) /, "", line)
      if (line ~ /^[A-Za-z0-9_]+;$/ || line ~ /^[a-z]+::/) next  # declared only, or of another namespace
      sub(/[^A-Za-z0-9_].*/, "", line)
      print line, FILENAME
      next
    }
    /^inline (constexpr|const) [A-Za-z:]+ [a-z_0-9]+ ?[={]/ { line = $4; sub(/[^A-Za-z0-9_].*/, "", line); print line, FILENAME; next }
    /^(extern "C" |\[\[nodiscard\]\] |\[\[noreturn\]\] |inline |constexpr )*[A-Za-z_:]+[A-Za-z0-9_:<>, &*]* [*&]*[a-z_0-9]+\(/ {
      if (/^(namespace|template|return|static_assert|friend)/ || /operator/) next
      line = $0
      sub(/\(.*/, "", line); sub(/.*[ *&]/, "", line)
      print line, FILENAME
    }' | sort -u >"$stage/names"
count=$(wc -l <"$stage/names")
((count > 600)) || { echo "only $count public names were found in the headers"; exit 1; }
grep -ohE '[A-Za-z0-9_]+' README.md docs/*.md docs/*/*.md | sort -u >"$stage/words"
grep -ohE '[A-Za-z0-9_]+' docs/from_pytorch.md | sort -u >"$stage/from_pytorch"
missing=$(awk -v stage="$stage" '
  FILENAME == ARGV[1] { word[$1]; next }
  FILENAME == ARGV[2] { table[$1]; next }
  !($1 in word) { print $2 ": no page of docs/ names " $1 "; its place may be the last table of docs/from_pytorch.md" }
  $1 ~ /Options$/ && !($1 in table) { print $2 ": the table of options in docs/from_pytorch.md does not name " $1 }
  ' "$stage/words" "$stage/from_pytorch" "$stage/names")
[ -z "$missing" ] || { echo "$missing"; exit 1; }
echo "$count public names stand on the pages"
